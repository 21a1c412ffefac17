/** Velocity commands by pointer, keys or gamepad, within the trained range. */
import { useEffect, useRef, useState, type PointerEvent } from "react";
import type { Command } from "./controller";

export type Spans = Record<"forward" | "sideways" | "turn", [number, number]>;

/** Map -1 to 1 onto a span; 0 stays 0. */
export function within(share: number, [low, high]: [number, number]): number {
  return share >= 0 ? share * Math.max(0, high) : -share * Math.min(0, low);
}

/** Keys that are held down; each is a share of a direction. */
const KEYS: Record<string, [number, number]> = { w: [0, 1], s: [0, -1], a: [1, 1], d: [1, -1], q: [2, 1], e: [2, -1] };
const DEAD = 0.12;

export function shareOf(held: ReadonlySet<string>): Command {
  const shares: Command = [0, 0, 0];
  for (const key of held) {
    const [axis, sign] = KEYS[key] ?? [0, 0];
    shares[axis as 0 | 1 | 2] += sign;
  }
  return shares.map((share) => Math.max(-1, Math.min(1, share))) as Command;
}

/** Gamepad: the left stick moves, the right stick turns. */
export function gamepadShare(axes: readonly number[]): Command | null {
  const [x = 0, y = 0, turn = 0] = axes;
  const shares: Command = [-y, -x, -turn];
  return shares.some((share) => Math.abs(share) > DEAD) ? (shares.map((share) => (Math.abs(share) > DEAD ? share : 0)) as Command) : null;
}

function isWriting(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.tagName === "TEXTAREA" || target.tagName === "SELECT" || (target instanceof HTMLInputElement && target.type !== "range"));
}

/** Keys that are held down now. */
function useHeld(): React.RefObject<Set<string>> {
  const held = useRef(new Set<string>());
  useEffect(() => {
    const down = (event: KeyboardEvent) => {
      if (!event.ctrlKey && !event.metaKey && !event.altKey && event.key in KEYS && !isWriting(event.target)) held.current.add(event.key);
    };
    const up = (event: KeyboardEvent) => held.current.delete(event.key.toLowerCase());
    const leave = () => held.current.clear();
    window.addEventListener("keydown", down);
    window.addEventListener("keyup", up);
    window.addEventListener("blur", leave);
    return () => {
      window.removeEventListener("keydown", down);
      window.removeEventListener("keyup", up);
      window.removeEventListener("blur", leave);
    };
  }, []);
  return held;
}

export function Joystick({ spans, onCommand }: { spans: Spans; onCommand: (command: Command) => void }) {
  const [stick, setStick] = useState<{ x: number; y: number } | null>(null);
  const [turn, setTurn] = useState(0);
  const [shown, setShown] = useState<Command>([0, 0, 0]);
  const held = useHeld();
  const now = useRef({ stick, turn });
  now.current = { stick, turn };
  useEffect(() => {
    let frame = 0;
    const tick = () => {
      const byKeys = held.current.size > 0 ? shareOf(held.current) : null;
      const pad = navigator.getGamepads?.().find((each) => each?.connected);
      const byPad = pad ? gamepadShare([...pad.axes]) : null;
      const { stick: pulled, turn: turned } = now.current;
      const shares: Command = byKeys ?? byPad ?? [-(pulled?.y ?? 0), -(pulled?.x ?? 0), turned];
      const command: Command = [within(shares[0], spans.forward), within(shares[1], spans.sideways), within(shares[2], spans.turn)];
      onCommand(command);
      setShown((old) => (old.every((value, axis) => Math.abs(value - command[axis]!) < 1e-3) ? old : command));
      frame = requestAnimationFrame(tick);
    };
    frame = requestAnimationFrame(tick);
    return () => cancelAnimationFrame(frame);
  }, [spans, onCommand]);
  const place = (event: PointerEvent<HTMLDivElement>) => {
    const box = event.currentTarget.getBoundingClientRect();
    const [x, y] = [((event.clientX - box.left) / box.width) * 2 - 1, ((event.clientY - box.top) / box.height) * 2 - 1];
    const far = Math.max(1, Math.hypot(x, y));
    setStick({ x: x / far, y: y / far });
  };
  return (
    <div className="joystick">
      <div className="pad" role="application" aria-label="Joystick: drag to move, release to stop. Use W, A, S and D to move, Q and E to turn." tabIndex={0}
        onPointerDown={(event) => { event.currentTarget.setPointerCapture(event.pointerId); place(event); }}
        onPointerMove={(event) => stick && place(event)} onPointerUp={() => setStick(null)} onPointerCancel={() => setStick(null)}>
        <span className="knob" style={{ left: `${50 + 38 * -(shown[1] / (Math.max(...spans.sideways.map(Math.abs)) || 1))}%`, top: `${50 - 38 * (shown[0] / (Math.max(...spans.forward.map(Math.abs)) || 1))}%` }} />
      </div>
      <label className="field small">turn
        <input type="range" min={-1} max={1} step={0.05} value={-turn} onChange={(event) => setTurn(-Number(event.target.value))} onPointerUp={() => setTurn(0)} aria-label="Yaw rate (move right to turn right)" />
      </label>
      <p className="small soft" aria-live="off"><kbd>w</kbd> <kbd>a</kbd> <kbd>s</kbd> <kbd>d</kbd> move, <kbd>q</kbd> <kbd>e</kbd> turn, or a gamepad<br />{shown[0].toFixed(2)} m/s forward, {shown[1].toFixed(2)} m/s left, {shown[2].toFixed(2)} rad/s</p>
    </div>
  );
}
