/** Playback: 3-D or video, reward terms and judge evidence on one time cursor. */
import { useCallback, useEffect, useRef, useState, type ReactNode } from "react";
import type { ModelShape, Motion, RobotScene } from "../three/scene";
import { useShortcuts } from "../keyboard";
import { useTheme } from "../theme";
import { Icon } from "./icons";
import { Loading } from "./states";

export interface Actor {
  name: string;
  model: ModelShape;
  motion: Motion;
  tint?: string;
  isGhost?: boolean;
  /** actors of one lane are in the same place, those of others beside it */
  lane?: number;
}

export interface Clock {
  time: number;
  length: number;
  isPlaying: boolean;
  rate: number;
  setTime: (time: number) => void;
  setPlaying: (isPlaying: boolean) => void;
  setRate: (rate: number) => void;
}

/** One clock for everything that is shown together. */
export function useClock(length: number, startsPlaying = false): Clock {
  const [time, setTime] = useState(0);
  const [isPlaying, setPlaying] = useState(() => startsPlaying && !window.matchMedia("(prefers-reduced-motion: reduce)").matches);
  const [rate, setRate] = useState(1);
  const now = useRef(0);
  now.current = time;
  useEffect(() => {
    if (!isPlaying || length <= 0) return undefined;
    let frame = 0;
    let before = performance.now();
    const tick = (at: number) => {
      const next = now.current + ((at - before) / 1000) * rate;
      before = at;
      setTime(next >= length ? 0 : next);
      frame = requestAnimationFrame(tick);
    };
    frame = requestAnimationFrame(tick);
    return () => cancelAnimationFrame(frame);
  }, [isPlaying, length, rate]);
  const put = useCallback((at: number) => setTime(Math.max(0, Math.min(length, at))), [length]);
  return { time: Math.min(time, length), length, isPlaying, rate, setTime: put, setPlaying, setRate };
}

export function Transport({ clock, marks, children }: { clock: Clock; marks?: { time: number; label: string; tone: string }[]; children?: ReactNode }) {
  useShortcuts([
    { keys: " ", does: "play or pause", act: () => clock.setPlaying(!clock.isPlaying) },
    { keys: "ArrowLeft", does: "back a moment", act: () => clock.setTime(clock.time - 0.1) },
    { keys: "ArrowRight", does: "on a moment", act: () => clock.setTime(clock.time + 0.1) },
    { keys: "Home", does: "to the beginning", act: () => clock.setTime(0) },
  ]);
  return (
    <div className="transport">
      <button type="button" onClick={() => clock.setPlaying(!clock.isPlaying)} aria-label={clock.isPlaying ? "Pause" : "Play"}><Icon name={clock.isPlaying ? "pause" : "play"} /></button>
      <div className="grow" style={{ position: "relative" }}>
        <input type="range" min={0} max={clock.length} step={0.01} value={clock.time} aria-label="time" style={{ width: "100%" }} onChange={(event) => clock.setTime(Number(event.target.value))} />
        {marks?.map((mark) => <span key={mark.label + mark.time} className={mark.tone} title={mark.label} style={{ position: "absolute", bottom: -2, left: `${(mark.time / clock.length) * 100}%`, width: 3, height: 6, background: "var(--tone)", borderRadius: 2 }} />)}
      </div>
      <span className="small soft" style={{ minWidth: "6.4rem", textAlign: "right" }}>{clock.time.toFixed(2)} of {clock.length.toFixed(1)} s</span>
      <select aria-label="speed" value={clock.rate} onChange={(event) => clock.setRate(Number(event.target.value))}>
        {[0.1, 0.25, 0.5, 1, 2].map((rate) => <option key={rate} value={rate}>{rate}×</option>)}
      </select>
      {children}
    </div>
  );
}

export function Stage3d(props: { actors: Actor[]; clock: Clock; sideBySide?: boolean; label: string }) {
  const { actors, clock, sideBySide = false } = props;
  const canvas = useRef<HTMLCanvasElement>(null);
  const scene = useRef<RobotScene | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const [isReady, setReady] = useState(false);
  const theme = useTheme();
  const shown = useRef({ actors, sideBySide, clock });
  shown.current = { actors, sideBySide, clock };
  const draw = () => {
    const { actors: now, clock: at } = shown.current;
    const frames = Math.max(1, ...now.map((actor) => actor.motion.frames));
    scene.current?.show(at.length > 0 ? (at.time / at.length) * (frames - 1) : 0);
  };
  useEffect(() => {
    let isOver = false;
    void import("../three/scene").then(({ RobotScene: Made }) => {
      if (isOver || !canvas.current) return;
      try {
        scene.current = new Made(canvas.current, theme === "dark");
      } catch (error) {
        setProblem(`This browser cannot draw in three dimensions (${error instanceof Error ? error.message : String(error)}). The video shows the same episode.`);
        return;
      }
      scene.current.setActors(shown.current.actors, shown.current.sideBySide);
      setReady(true);
      draw();
    });
    return () => {
      isOver = true;
      scene.current?.close();
      scene.current = null;
    };
  }, []);
  useEffect(() => scene.current?.setDark(theme === "dark"), [theme]);
  useEffect(() => {
    scene.current?.setActors(actors, sideBySide);
    draw();
  }, [actors, sideBySide]);
  useEffect(draw, [clock.time]);
  if (problem) return <div className="notice middling">{problem}</div>;
  return (
    <div className="stage">
      <canvas ref={canvas} aria-label={`${props.label}. Arrow keys turn the camera, + and - bring it nearer.`} role="img" />
      {!isReady && <Loading />}
      <div className="over">{actors.map((actor) => <div key={actor.name} style={actor.tint ? { color: actor.tint } : undefined}>{actor.name}</div>)}</div>
    </div>
  );
}

/** A video that follows the clock of the player. */
export function FollowingVideo({ source, clock, label }: { source: string; clock: Clock; label: string }) {
  const video = useRef<HTMLVideoElement>(null);
  useEffect(() => {
    const film = video.current;
    if (!film || !Number.isFinite(film.duration)) return;
    const at = (clock.time / Math.max(clock.length, 1e-6)) * film.duration;
    if (Math.abs(film.currentTime - at) > 0.06) film.currentTime = at;
  }, [clock.time]);
  return <video ref={video} src={source} muted playsInline preload="auto" aria-label={label} />;
}
