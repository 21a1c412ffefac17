/** Say what a robot should do; see what would be measured and what it takes; start it. */
import { useEffect, useMemo, useRef, useState } from "react";
import { Link, useLocation } from "wouter";
import { Problem, api, ask, got, read } from "../api/client";
import { untilThing } from "../api/jobs";
import type { components } from "../api/schema";
import { useLoaded } from "../api/use";
import { Badge, Command, Figures, Panel } from "../components/basics";
import { CriteriaForm, type EditedCriterion } from "../components/criteria";
import { Failure, Loading, Ready } from "../components/states";
import { attempt } from "../components/toast";
import { ago, count, duration, envName, money, number, short } from "../format";
import { useShortcuts } from "../keyboard";
import { remember, remembered } from "../memory";
import type { Criterion } from "../session/records";
import { site } from "../site/answers";

interface Example {
  intent: string;
  env: string;
}

const EXAMPLES: Example[] = [
  { intent: "run forward fast", env: "HalfCheetah-v5" },
  { intent: "do a backflip and land on your feet", env: "HalfCheetah-v5" },
  { intent: "hop in place", env: "Hopper-v5" },
  { intent: "walk slowly backward", env: "Walker2d-v5" },
  { intent: "trot forward", env: "Ant-v5" },
  { intent: "keep the pole upright", env: "InvertedPendulum-v5" },
];

interface Options {
  iterations: number;
  seeds: string;
  steps: string;
  model: string;
  maxUsd: string;
  maxHours: string;
}

const OPTIONS: Options = { iterations: 4, seeds: "1-3", steps: "", model: "", maxUsd: "", maxHours: "" };

export function StartPage() {
  const [, go] = useLocation();
  const [intent, setIntent] = useState(() => remembered("draft.intent", ""));
  const [env, setEnv] = useState(() => remembered("draft.env", "HalfCheetah-v5"));
  const [options, setOptions] = useState<Options>(OPTIONS);
  const [isStarting, setStarting] = useState(false);
  const preview = usePreview(intent, env, options);
  const [edited, setEdited] = useState<EditedCriterion[] | null>(null);
  const box = useRef<HTMLTextAreaElement>(null);
  useShortcuts([{ keys: "i", does: "write an intent", act: () => box.current?.focus() }]);
  useEffect(() => remember("draft.intent", intent), [intent]);
  useEffect(() => remember("draft.env", env), [env]);
  useEffect(() => setEdited(preview.value ? preview.value.criteria.map((each) => ({ ...each, isUsed: true })) : null), [preview.value]);
  useEffect(() => {
    if (site) go(`/things/${site.thing}`);
  }, []);

  const isEdited = useMemo(() => edited !== null && JSON.stringify(edited) !== JSON.stringify(preview.value?.criteria.map((each) => ({ ...each, isUsed: true }))), [edited, preview.value]);
  const kept = edited?.filter((each) => each.isUsed).map(({ isUsed: _used, ...rest }) => rest) ?? null;
  const start = async () => {
    setStarting(true);
    await attempt(async () => {
      const body = { ...requestOf(intent, env, options, isEdited ? kept : null), fresh: true };
      const job = await ask("/api/start/run", {}, body);
      go(`/things/${await untilThing(job.job)}`);
    });
    setStarting(false);
  };
  const canStart = /[\p{L}\p{N}]/u.test(intent) && !isStarting && !(kept !== null && kept.length === 0);
  return (
    <>
      <div className="hero">
        <h1>What should the robot do?</h1>
        <p className="soft">Describe a behaviour. Get a trained policy, and the evidence that it does what you asked.</p>
        <form className="intent" onSubmit={(event) => { event.preventDefault(); if (canStart) void start(); }}>
          <textarea ref={box} rows={2} aria-label="Intent" value={intent} maxLength={2000} autoFocus placeholder="for example: run forward fast"
            onChange={(event) => setIntent(event.target.value)} onKeyDown={(event) => { if (event.key === "Enter" && !event.shiftKey && !event.nativeEvent.isComposing) { event.preventDefault(); if (canStart) void start(); } }} />
          <div className="row between">
            <span className="row small soft"><span className="chip">{env}</span><span className="chip">{options.model || "composer, no model needed"}</span></span>
            <button type="submit" className="primary" disabled={!canStart}>{isStarting ? "Starting…" : "Start"}</button>
          </div>
        </form>
        <div className="chips" style={{ marginTop: "0.7rem" }} aria-label="Examples">
          {EXAMPLES.map((example) => <button key={example.intent} type="button" className="chip" onClick={() => { setIntent(example.intent); setEnv(example.env); box.current?.focus(); }}>{example.intent}</button>)}
        </div>
      </div>
      <div className="grid" style={{ maxWidth: "92rem", margin: "0 auto" }}>
        <div className="span-7 stacked">
          <Criteria preview={preview} edited={edited} onChange={setEdited} hasIntent={canStart || isStarting} />
          <Environments chosen={env} onChoose={setEnv} />
        </div>
        <div className="span-5 stacked">
          <ForecastPanel preview={preview.value} intent={intent} env={env} options={options} isEdited={isEdited} onOptions={setOptions} />
          <Recent />
        </div>
      </div>
    </>
  );
}

interface Preview {
  criteria: Criterion[];
  doubts: string[];
  not_understood: string[];
  dropped: string[];
  forecast: { first_steps: number; most_steps: number; first_seconds: number | null; most_seconds: number | null; steps_per_second: number | null; measured_runs: number; usd: number | null } | null;
}
type EnvSummary = components["schemas"]["EnvSummary"];

/** What the intent would be measured by, a moment after somebody stops writing. */
function usePreview(intent: string, env: string, options: Options) {
  const [asked, setAsked] = useState({ intent, env });
  useEffect(() => {
    const timer = setTimeout(() => setAsked({ intent, env }), 300);
    return () => clearTimeout(timer);
  }, [intent, env]);
  const words = /[\p{L}\p{N}]/u.test(asked.intent) ? asked.intent.trim() : null;
  const seeds = seedsOf(options.seeds);
  const steps = stepsOf(options.steps);
  return useLoaded<Preview>(words === null ? null : `preview:${words}:${asked.env}:${seeds}:${options.iterations}:${steps}`, () =>
    read<Preview>(`/api/preview?${new URLSearchParams([["intent", words!], ["env", asked.env], ["iterations", String(options.iterations)], ...seeds.map((seed) => ["seeds", String(seed)]), ...(steps === null ? [] : [["steps", String(steps)]])])}`));
}

export function seedsOf(text: string): number[] {
  const found = text.split(",").flatMap((part) => {
    const range = part.trim().match(/^(\d+)-(\d+)$/);
    if (range) return Array.from({ length: Math.min(64, Math.max(0, +range[2]! - +range[1]! + 1)) }, (_, index) => +range[1]! + index);
    return /^\d+$/.test(part.trim()) ? [Number(part)] : [];
  });
  return found.length ? [...new Set(found)] : [1, 2, 3];
}

export function stepsOf(text: string): number | null {
  const match = text.trim().match(/^(\d+(?:\.\d+)?)([kKmM]?)$/);
  return match ? Math.round(Number(match[1]) * { "": 1, k: 1e3, m: 1e6 }[match[2]!.toLowerCase() as "" | "k" | "m"]) : null;
}

function requestOf(intent: string, env: string, options: Options, criteria: Criterion[] | null) {
  return {
    intent: intent.trim(), env, iterations: options.iterations,
    ...(options.seeds === OPTIONS.seeds ? {} : { seeds: seedsOf(options.seeds) }),
    ...(stepsOf(options.steps) === null ? {} : { steps: stepsOf(options.steps) }),
    ...(options.model ? { model: options.model } : {}),
    ...(options.maxUsd ? { max_usd: Number(options.maxUsd) } : {}),
    ...(options.maxHours ? { max_hours: Number(options.maxHours) } : {}),
    ...(criteria ? { criteria } : {}),
  };
}

function Criteria({ preview, edited, onChange, hasIntent }: { preview: ReturnType<typeof usePreview>; edited: EditedCriterion[] | null; onChange: (criteria: EditedCriterion[]) => void; hasIntent: boolean }) {
  const { value, error } = preview;
  return (
    <Panel title="What would be measured">
      {!hasIntent && <p className="soft">Criteria appear here while you write: change a goal, leave one out, weight another. Nothing is spent before you press Start.</p>}
      {hasIntent && error && <Failure error={error instanceof Problem ? error : { message: String(error) }} />}
      {hasIntent && !value && !error && <Loading />}
      {hasIntent && value && edited && (
        <div className="column">
          <CriteriaForm criteria={edited} onChange={onChange} />
          {value.not_understood.length > 0 && <div className="notice middling"><strong>Not understood:</strong> {value.not_understood.join(", ")}. Nothing measures these words; a pass would be a pass in part.</div>}
          {value.dropped.length > 0 && <div className="notice middling"><strong>Left out:</strong> {value.dropped.join(", ")}.</div>}
          {value.doubts.map((doubt) => <p key={doubt} className="small soft">{doubt}</p>)}
        </div>
      )}
    </Panel>
  );
}

function ForecastPanel(props: { preview: Preview | undefined; intent: string; env: string; options: Options; isEdited: boolean; onOptions: (options: Options) => void }) {
  const request = requestOf(props.intent, props.env, props.options, null);
  const same = useLoaded(request.intent ? `command:${JSON.stringify(request)}` : null, () => ask("/api/command/run", {}, request));
  const { preview, options, onOptions } = props;
  const forecast = preview?.forecast;
  const set = (change: Partial<Options>) => onOptions({ ...options, ...change });
  return (
    <Panel title="What it takes">
      <div className="column">
        <Figures rows={[
          ["if the first try passes", forecast ? (forecast.first_seconds === null ? <>{short(forecast.first_steps)} <small>steps</small></> : duration(forecast.first_seconds)) : "–"],
          ["at most", forecast ? (forecast.most_seconds === null ? <>{short(forecast.most_steps)} <small>steps</small></> : duration(forecast.most_seconds)) : "–"],
          ["money", options.model ? (forecast ? money(forecast.usd) : "–") : "$0"],
        ]} />
        {forecast && forecast.first_seconds === null && <p className="small soft">How long that takes is known once this environment was trained on this machine.</p>}
        {forecast && forecast.measured_runs > 0 && <p className="small soft">Measured on {count(forecast.measured_runs)} {forecast.measured_runs === 1 ? "training" : "trainings"} on this machine, {count(forecast.steps_per_second)} steps/s.</p>}
        <details>
          <summary>Options and limits</summary>
          <div className="grid" style={{ gap: "0.6rem" }}>
            <label className="field span-4">Tries at most<input type="number" min={1} max={50} value={options.iterations} onChange={(event) => set({ iterations: Math.max(1, Number(event.target.value) || 1) })} /></label>
            <label className="field span-4">Training seeds<input value={options.seeds} onChange={(event) => set({ seeds: event.target.value })} /></label>
            <label className="field span-4">Steps per policy<input placeholder="the author's" value={options.steps} onChange={(event) => set({ steps: event.target.value })} /></label>
            <label className="field span-4">Model<input placeholder="composer" list="models" value={options.model} onChange={(event) => set({ model: event.target.value.trim() })} /></label>
            <label className="field span-4">Dollars at most<input type="number" min="0" step="any" value={options.maxUsd} onChange={(event) => set({ maxUsd: event.target.value })} /></label>
            <label className="field span-4">Hours at most<input type="number" min="0" step="any" value={options.maxHours} onChange={(event) => set({ maxHours: event.target.value })} /></label>
          </div>
          <datalist id="models"><option value="host">answer the requests yourself</option></datalist>
          <p className="small soft" style={{ marginTop: "0.5rem" }}>Model: provider:model, or <code>host</code> to answer its questions on the session's page.</p>
        </details>
        <div>
          <h3>The same in a terminal</h3>
          <Command line={`${same.value?.command ?? "telic run …"}${props.isEdited ? " --criteria criteria.json" : ""}`} />
        </div>
      </div>
    </Panel>
  );
}

function Environments({ chosen, onChoose }: { chosen: string; onChoose: (env: string) => void }) {
  const envs = useLoaded("envs", () => read<EnvSummary[]>("/api/envs"));
  const robots = useLoaded("robots", () => got(api.GET("/api/robots")));
  const [filter, setFilter] = useState("");
  const fits = (text: string) => text.toLowerCase().includes(filter.toLowerCase());
  return (
    <Panel title="Where" actions={<input type="search" aria-label="Filter environments" placeholder="filter" value={filter} onChange={(event) => setFilter(event.target.value)} style={{ width: "10rem" }} />}>
      <Ready of={envs}>
        {(list) => (
          <div className="column">
            <div className="pictures">
              {list.filter((env) => env.fast && env.install == null && fits(`${env.id} ${env.description}`)).map((env) => (
                <PictureButton key={env.id} name={env.id} title={env.id.replace(/-v\d+$/, "")} note={env.obs_dim == null ? "" : `sees ${env.obs_dim} numbers, moves ${env.act_dim}`} isChosen={chosen === env.id} onChoose={onChoose} />
              ))}
            </div>
            <details open={filter !== "" || (robots.value ?? []).some((robot) => robot.robot === chosen)}>
              <summary>Robots ({robots.value?.length ?? "…"})</summary>
              <div className="pictures">
                {(robots.value ?? []).filter((robot) => fits(`${robot.robot} ${robot.title} ${robot.kind}`)).map((robot) => (
                  <PictureButton key={robot.robot} name={robot.robot} title={robot.title} note={`${robot.kind}, ${number(robot.mass_kg)} kg`} isChosen={chosen === robot.robot} onChoose={onChoose} />
                ))}
              </div>
            </details>
          </div>
        )}
      </Ready>
    </Panel>
  );
}

function PictureButton(props: { name: string; title: string; note: string; isChosen: boolean; onChoose: (name: string) => void }) {
  const [hasPicture, setHasPicture] = useState(true);
  return (
    <button type="button" className="picture" aria-pressed={props.isChosen} onClick={() => props.onChoose(props.name)}>
      <span className="image">{hasPicture ? <img src={`/api/pictures/${encodeURIComponent(props.name)}`} alt="" loading="lazy" onError={() => setHasPicture(false)} /> : "no picture yet"}</span>
      <span className="caption">{props.title}<small>{props.note}</small></span>
    </button>
  );
}

function Recent() {
  const recent = useLoaded("recent", () => got(api.GET("/api/things", { params: { query: { kind: ["session"], limit: 6 } } })), 3000);
  return (
    <Panel title="Lately" tight actions={<Link href="/runs" className="small">all runs</Link>}>
      <Ready of={recent}>
        {(page) => page.things.length === 0 ? <p className="soft" style={{ padding: "0.9rem" }}>Your sessions will be here.</p> : (
          <table className="plain">
            <thead className="sr"><tr><th>intent</th><th>state</th><th>when</th></tr></thead>
            <tbody>
              {page.things.map((line) => (
                <tr key={line.id}>
                  <td><Link href={`/things/${line.id}`}>{line.title}</Link><div className="small soft">{envName(line.env)}{line.score != null && ` · score ${number(line.score)}`}</div></td>
                  <td><Badge state={line.state} /></td>
                  <td className="number small soft">{ago(line.updated)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
      </Ready>
    </Panel>
  );
}
