// The map of tried policies: every dot is one; a click shows its score, its numbers and an episode.
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const $ = id => document.getElementById(id);
const dots = data.candidates, means = dots.map(d => d.mean);
const low = means.reduce((a, b) => Math.min(a, b)), high = means.reduce((a, b) => Math.max(a, b));
const fresh = Object.fromEntries(data.runs.map(r => [r.run, r]));
const text = (node, value) => { node.textContent = value };
const short = v => v === null || v === undefined ? "–" : Math.abs(v) >= 1000 ? v.toFixed(0) : +v.toPrecision(4) + "";
const plural = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;
const share = v => high > low ? (v - low) / (high - low) : 1;
const color = v => { const t = share(v), [a, b, k] = t < .5 ? ["low", "middle", 2 * t] : ["middle", "high", 2 * t - 1];
  return `color-mix(in oklab, var(--${b}) ${(100 * k).toFixed(1)}%, var(--${a}))` };
text($("low"), short(low)); text($("high"), short(high));
let chosen = null, timer = null, isPaused = matchMedia("(prefers-reduced-motion: reduce)").matches;

function option(select, value, label) { const o = document.createElement("option"); o.value = value; text(o, label); select.append(o) }
option($("run"), "", "all"); data.runs.forEach(r => option($("run"), r.run, `${r.run} (${short(r.fresh)} fresh)`));
const origins = [...new Set(dots.map(d => d.origin))];
option($("origin"), "", "anybody"); origins.forEach(o => option($("origin"), o, o)); $("by").hidden = origins.length < 2;

function shown() {
  return dots.filter(d => (!$("run").value || d.run == $("run").value) && (!$("origin").value || d.origin === $("origin").value))
}
function circle(d, radius) {
  const c = document.createElementNS("http://www.w3.org/2000/svg", "circle");
  c.setAttribute("cx", 1.33 * d.x); c.setAttribute("cy", -d.y); c.setAttribute("r", radius); return c
}
function draw() {
  const map = $("map"), list = shown(); map.replaceChildren(); text($("count"), `${list.length} of ${dots.length} policies`);
  [...list].sort((a, b) => a.best - b.best || a.mean - b.mean).forEach(d => {
    const c = circle(d, d.best ? .032 : .02); c.style.fill = color(d.mean); c.setAttribute("tabindex", 0); if (d.best) c.classList.add("best");
    const t = document.createElementNS("http://www.w3.org/2000/svg", "title");
    t.textContent = `${short(d.mean)}, ${d.origin}, iteration ${d.iteration}`; c.append(t);
    c.onclick = c.onfocus = () => show(d); map.append(c);
  });
  mark()
}
function mark() {
  $("mark")?.remove(); if (!chosen || !shown().includes(chosen)) return;
  const ring = circle(chosen, .05); ring.id = "mark"; $("map").append(ring)
}
function value(p) { return data.choices?.[p] ?? short(p) }
function show(d) {
  chosen = d; mark(); text($("score"), `${short(d.mean)}${d.error === null ? "" : " ± " + short(d.error)}`);
  const r = fresh[d.run]; $("fresh").hidden = !d.best;
  if (d.best) text($("fresh"), `Chosen by run ${d.run}: ${short(r.fresh)} on ${plural(r.episodes, "fresh episode")}` +
    (r.low === r.high ? "." : `, 95 % interval ${short(r.low)} to ${short(r.high)}.`));
  text($("facts"), `Mean of ${plural(d.n, "episode")}, iteration ${d.iteration} of run ${d.run}` + (d.warnings.length ? `; ${d.warnings.join("; ")}` : "") + ".");
  text($("why"), d.why ? `${d.origin}: ${d.why}` : data.makers[d.origin] ?? `Made by ${d.origin}.`);
  $("params").replaceChildren(...d.params.map((p, i) => {
    const row = document.createElement("tr");
    for (const each of [data.names[i], value(p)]) { const cell = document.createElement("td"); text(cell, each); row.append(cell) }
    return row }));
  play(d.movie === null ? null : data.movies[d.movie], d)
}
function pen() {
  const stage = $("stage"), scale = stage.clientWidth / 480 * devicePixelRatio; stage.width = 480 * scale; stage.height = 300 * scale;
  const g = stage.getContext("2d"); g.scale(scale, scale); g.lineWidth = 4; g.lineCap = "round"; return g
}
function play(movie, d) {
  clearInterval(timer); $("pause").hidden = !movie;
  if (!movie) { pen(); text($("episode"), "No animation of this one: the best and a spread of others have one."); return }
  let frame = 0; const isTable = movie.obs[0].length === 1;
  const paint = () => {
    const style = getComputedStyle(document.body), ink = style.color, g = pen(); g.strokeStyle = g.fillStyle = ink;
    painters[data.env](g, movie.obs[frame], movie.action[Math.min(frame, movie.action.length - 1)], style.getPropertyValue("--c1"), d, movie, frame);
    text($("episode"), `Step ${Math.min(frame * movie.every, movie.steps)} of ${movie.steps}; this episode returned ${short(movie.return)}.`)
  };
  const go = () => {
    clearInterval(timer); text($("pause"), isPaused ? "play" : "pause");
    if (!isPaused) timer = setInterval(() => { frame = (frame + 1) % movie.obs.length; paint() }, isTable ? 450 : 33)
  };
  $("pause").onclick = () => { isPaused = !isPaused; go() }; paint(); go()
}
function line(g, ...p) { g.beginPath(); g.moveTo(p[0], p[1]); for (let i = 2; i < p.length; i += 2) g.lineTo(p[i], p[i + 1]); g.stroke() }
function disc(g, x, y, r) { g.beginPath(); g.arc(x, y, r, 0, 7); g.fill() }
function arrow(g, x, y, dx, dy, size) {
  const ex = x + dx * size, ey = y + dy * size; line(g, x - dx * size, y - dy * size, ex, ey);
  line(g, ex - (dx + dy) * 5, ey - (dy + dx) * 5, ex, ey, ex - (dx - dy) * 5, ey - (dy - dx) * 5)
}
function cart(g, x, span, angles, length, accent) {
  const px = 240 + x / span * 220; let cx = px, cy = 220, total = 0;
  line(g, 10, 246, 470, 246); g.fillRect(px - 26, 220, 52, 22); g.strokeStyle = accent; g.lineWidth = 6;
  angles.forEach(a => { total += a; const nx = cx + length * Math.sin(total), ny = cy - length * Math.cos(total); line(g, cx, cy, nx, ny); cx = nx; cy = ny })
}
const painters = {
  "CartPole-v1": (g, o, a, c) => cart(g, o[0], 2.4, [o[2]], 150, c),
  "InvertedPendulum-v5": (g, o, a, c) => cart(g, o[0], 1, [o[1]], 150, c),
  "InvertedDoublePendulum-v5": (g, o, a, c) => cart(g, o[0], 1, [Math.atan2(o[1], o[3]), Math.atan2(o[2], o[4])], 90, c),
  "Swimmer-v5": (g, o, a, c, d, movie, frame) => {
    // What is seen has no place, so how far it swam is summed up from its velocity (a step is 0.04 s, a link 1 m); the ground moves past.
    const l = 70, x = 240, y = 150, far = movie.obs.slice(0, frame).reduce((sum, each) => sum + each[3], 0) * .04 * movie.every * l; g.lineWidth = 1; g.globalAlpha = .35;
    for (let i = -1; i < 9; i++) { const gx = (i * 60 - far % 60 + 540) % 540 - 30; line(g, gx, 20, gx, 280) }
    g.globalAlpha = 1; let t = o[0]; const ink = g.strokeStyle; g.lineWidth = 14; g.strokeStyle = c;
    line(g, x + l * Math.cos(t), y - l * Math.sin(t), x, y); g.strokeStyle = ink;
    t += o[1]; const nx = x - l * Math.cos(t), ny = y + l * Math.sin(t); line(g, x, y, nx, ny);
    t += o[2]; line(g, nx, ny, nx - l * Math.cos(t), ny + l * Math.sin(t)) },
  "Pong-v0": (g, o, a, c) => { const k = .46, x = 56, y = 12; g.lineWidth = 2; g.globalAlpha = .4; g.strokeRect(x, y, 800 * k, 600 * k); g.globalAlpha = 1;
    g.fillRect(x - 4, y + (o[0] - 40) * k, 8, 80 * k); g.globalAlpha = .4; g.fillRect(x + 800 * k - 4, y + Math.max(0, Math.min(520, o[2] - 40)) * k, 8, 80 * k);
    g.globalAlpha = 1; g.fillStyle = c; disc(g, x + (o[1] + 5) * k, y + (o[2] + 5) * k, 7) },
};
painters["MountainCar-v0"] = painters["MountainCarContinuous-v0"] = (g, o, a, c) => {
  const px = x => 20 + (x + 1.2) / 1.8 * 440, py = x => 270 - (Math.sin(3 * x) * .45 + .55) * 200; const p = [];
  for (let x = -1.2; x <= .6; x += .02) p.push(px(x), py(x)); line(g, ...p); line(g, px(.5), py(.5), px(.5), py(.5) - 40);
  g.fillStyle = c; disc(g, px(o[0]), py(o[0]) - 12, 10) };
// moves: where each action leads, dx and dy; doors: the letters of the open sides of each room, where there are walls
const grid = (size, marks, moves, doors) => (g, o, a, c, d) => {
  const w = 270 / size, sides = { N: [0, 0, 1, 0], S: [0, 1, 1, 1], W: [0, 0, 0, 1], E: [1, 0, 1, 1] };
  for (let i = 0; i < size * size; i++) {
    const x = 105 + i % size * w, y = 15 + Math.floor(i / size) * w; g.lineWidth = 1; g.globalAlpha = .3; g.strokeRect(x, y, w, w); g.globalAlpha = 1;
    if (doors) { g.lineWidth = 4; for (const s in sides) if (!doors[i].includes(s)) { const [a, b, e, f] = sides[s]; line(g, x + a * w, y + b * w, x + e * w, y + f * w) } }
    g.font = "13px system-ui, sans-serif"; if (marks[i]) g.fillText(marks[i], x + 8, y + 20);
    g.lineWidth = 2; g.globalAlpha = .45; if (!marks[i] || marks[i] === "start") arrow(g, x + w / 2, y + w / 2, ...moves[d.params[i]], w / 5); g.globalAlpha = 1;
  }
  g.fillStyle = c; g.globalAlpha = .85; disc(g, 105 + (o[0] % size + .5) * w, 15 + (Math.floor(o[0] / size) + .5) * w, w / 6); g.globalAlpha = 1 };
painters["FrozenLake-v1"] = grid(4, { 0: "start", 5: "hole", 7: "hole", 11: "hole", 12: "hole", 15: "goal" }, [[-1, 0], [0, 1], [1, 0], [0, -1]]);
painters["Maze-v0"] = grid(3, { 0: "start", 8: "goal" }, [[0, -1], [0, 1], [1, 0], [-1, 0]], data.doors);
painters["Nim-v0"] = (g, o, a, c) => {
  g.lineWidth = 10; for (let i = 0; i < 10; i++) { g.globalAlpha = i < o[0] ? 1 : .15; g.strokeStyle = c; line(g, 60 + i * 40, 70, 60 + i * 40, 190) }
  g.globalAlpha = 1; g.font = "15px system-ui, sans-serif"; const left = o[0];
  g.fillText(left > 0 ? `${plural(left, "stick")} left; takes ${a[0]}` : "the game is over", 56, 240) };
$("run").onchange = $("origin").onchange = draw;
$("best").onclick = () => {
  const list = shown(), winners = list.filter(d => d.best); if (!list.length) return;
  show(winners.length ? winners.reduce((a, b) => fresh[b.run].fresh > fresh[a.run].fresh ? b : a) : list.reduce((a, b) => b.mean > a.mean ? b : a)) };
document.addEventListener("keydown", e => {
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[e.key]; if (!step || e.target.tagName === "SELECT") return;
  const list = shown(), next = list[(list.indexOf(chosen) + step + list.length) % list.length]; if (next) { show(next); e.preventDefault() }
});
addEventListener("resize", () => chosen && show(chosen));
draw(); $("best").onclick();
