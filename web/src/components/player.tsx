/** Playback: 3-D or video, reward terms and evidence of the judge on one time cursor. */
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
  /** actors of one lane share a place; lanes are side by side */
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

/** One clock for synchronized views. */
export function useClock(length: number, startsPlaying = false, start = 0): Clock {
  const [time, setTime] = useState(start);
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

export interface TimeMark {
  time: number;
  label: string;
  tone: "good" | "bad" | "middling";
}

export function Transport({ clock, marks, children }: { clock: Clock; marks?: TimeMark[]; children?: ReactNode }) {
  useShortcuts([
    { keys: " ", does: "play or pause", act: () => clock.setPlaying(!clock.isPlaying) },
    { keys: "ArrowLeft", does: "back 0.1 s", act: () => clock.setTime(clock.time - 0.1) },
    { keys: "ArrowRight", does: "forward 0.1 s", act: () => clock.setTime(clock.time + 0.1) },
    { keys: "Home", does: "go to the start", act: () => clock.setTime(0) },
  ]);
  return (
    <div className="transport">
      <button type="button" onClick={() => clock.setPlaying(!clock.isPlaying)} aria-label={clock.isPlaying ? "Pause" : "Play"}><Icon name={clock.isPlaying ? "pause" : "play"} /></button>
      <div className="track">
        <input type="range" min={0} max={clock.length} step={0.01} value={clock.time} aria-label="Playback position" onChange={(event) => clock.setTime(Number(event.target.value))} />
        {marks && marks.length > 0 && (
          <div className="marks" role="group" aria-label="Criteria on the timeline">
            {marks.map((mark, index) => (
              <button key={index} type="button" className={mark.tone} title={`${mark.time.toFixed(2)} s: ${mark.label}`} aria-label={`${mark.label}, at ${mark.time.toFixed(1)} s`} style={{ left: `${(mark.time / Math.max(clock.length, 1e-6)) * 100}%` }} onClick={() => { clock.setPlaying(false); clock.setTime(mark.time); }} />
            ))}
          </div>
        )}
      </div>
      <span className="small soft clock">{clock.time.toFixed(2)} of {clock.length.toFixed(1)} s</span>
      <select aria-label="Playback speed" value={clock.rate} onChange={(event) => clock.setRate(Number(event.target.value))}>
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
    void import("../three/scene").then(({ RobotScene: Scene }) => {
      if (isOver || !canvas.current) return;
      try {
        scene.current = new Scene(canvas.current, theme === "dark");
      } catch (error) {
        setProblem(`This browser does not support WebGL (${error instanceof Error ? error.message : String(error)}). If a video of this episode is available, watch that instead.`);
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
      <canvas ref={canvas} aria-label={`${props.label}. Arrow keys rotate the camera; + and - zoom.`} role="img" />
      {!isReady && <Loading />}
      <div className="over">{actors.map((actor) => <div key={actor.name} style={actor.tint ? { color: actor.tint } : undefined}>{actor.name}</div>)}</div>
    </div>
  );
}

/** A video that follows the clock of the player. */
export function FollowingVideo({ source, clock, label }: { source: string; clock: Clock; label: string }) {
  const video = useRef<HTMLVideoElement>(null);
  useEffect(() => {
    const shown = video.current;
    if (!shown || !Number.isFinite(shown.duration)) return;
    const at = (clock.time / Math.max(clock.length, 1e-6)) * shown.duration;
    if (Math.abs(shown.currentTime - at) > 0.06) shown.currentTime = at;
  }, [clock.time]);
  return <video ref={video} src={source} muted playsInline preload="auto" aria-label={label} />;
}
