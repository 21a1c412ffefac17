/** Observations from simulation state, and controls from actions, equal to telic's. */
import type { components } from "../api/schema";

export type LivePolicy = components["schemas"]["LivePolicy"];
type Deployment = components["schemas"]["Deployment"];
type ObservationBlock = components["schemas"]["ObservationBlock"];

/** The fields of mjData that are read, by name. */
export type Fields = (name: string) => Float64Array;
export type Command = [number, number, number];

const FUNCTIONS: Record<string, (value: number) => number> = { none: (value) => value, sin: Math.sin, cos: Math.cos };

/** Observations of the current state, with history. */
export class Controller {
  readonly #about: LivePolicy;
  #past: number[][] = [];
  #asked: number[];
  #steps = 0;
  command: Command = [0, 0, 0];

  constructor(about: LivePolicy) {
    this.#about = about;
    this.#asked = about.action_names.map(() => 0);
  }

  /** Begin an episode. */
  reset(): void {
    const driven = this.#about.deployment;
    this.#asked = this.#about.action_names.map(() => 0);
    this.#steps = 0;
    this.#past = driven ? Array.from({ length: driven.history - 1 }, () => new Array<number>(driven.columns).fill(0)) : [];
  }

  /** Return the observation. */
  observe(fields: Fields): Float32Array {
    const { deployment: driven, phase_hz: turns, control_step_s } = this.#about;
    const now = driven ? this.#sensed(fields, driven) : columns(fields, this.#about.blocks ?? []);
    const angle = 2 * Math.PI * (turns ?? 0) * control_step_s * this.#steps;
    const phase = turns == null ? [] : [Math.sin(angle), Math.cos(angle)];
    const obs = Float32Array.from([now, ...this.#past, phase].flat());
    this.#steps += 1;
    if (driven && driven.history > 1) this.#past = [now, ...this.#past].slice(0, driven.history - 1);
    return obs;
  }

  #sensed(fields: Fields, driven: Deployment): number[] {
    const [qpos, qvel] = [fields("qpos"), fields("qvel")];
    const { joints } = driven;
    const blocks: Record<string, () => number[]> = {
      gyro: () => [...qvel.subarray(3, 6)],
      gravity: () => toBody(qpos.subarray(3, 7), [0, 0, -1]),
      velocity: () => toBody(qpos.subarray(3, 7), [...qvel.subarray(0, 3)]),
      command: () => this.command,
      position: () => joints.qpos.map((place, joint) => qpos[place]! - joints.rest[joint]!),
      rate: () => joints.qvel.map((place) => qvel[place]!),
      action: () => this.#asked,
    };
    return driven.observation.flatMap((block) => {
      const sense = blocks[block.name];
      if (!sense) throw new Error(`Cannot run this policy in the browser: the observation ${block.name} is not supported.`);
      return sense();
    });
  }

  /** Convert an action to controls. */
  controls(action: ArrayLike<number>): number[] {
    const { action_low: low, action_high: high, deployment } = this.#about;
    this.#asked = low.map((least, index) => {
      const half = (high[index]! - least) / 2;
      return half > 0 ? (action[index]! - (high[index]! + least) / 2) / half : 0;
    });
    return Array.from(action, (value, index) => (deployment ? Math.max(deployment.joints.target_low[index]!, Math.min(deployment.joints.target_high[index]!, value)) : value));
  }
}

/** Columns of MuJoCo's own fields. */
export function columns(fields: Fields, blocks: readonly ObservationBlock[]): number[] {
  return blocks.flatMap((block) => {
    const field = fields(block.field);
    const apply = FUNCTIONS[block.applied ?? "none"]!;
    return Array.from({ length: block.count }, (_, index) => {
      const away = block.minus == null ? 0 : field[block.minus + index]!;
      const value = apply(field[block.first + index]! - away);
      return Math.min(block.high ?? Infinity, Math.max(block.low ?? -Infinity, value));
    });
  });
}

/** Rotate a world vector into the frame of a body with orientation w, x, y, z. */
export function toBody(quaternion: ArrayLike<number>, vector: readonly number[]): number[] {
  const [w, x, y, z] = [quaternion[0]!, quaternion[1]!, quaternion[2]!, quaternion[3]!];
  const [a, b, c] = [vector[0]!, vector[1]!, vector[2]!];
  return [
    (1 - 2 * (y * y + z * z)) * a + 2 * (x * y + w * z) * b + 2 * (x * z - w * y) * c,
    2 * (x * y - w * z) * a + (1 - 2 * (x * x + z * z)) * b + 2 * (y * z + w * x) * c,
    2 * (x * z + w * y) * a + 2 * (y * z - w * x) * b + (1 - 2 * (x * x + y * y)) * c,
  ];
}
