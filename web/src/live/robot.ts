/** A robot simulated in this page by MuJoCo's WebAssembly build and the exported policy. */
import loadMujoco, { type MainModule, type MjData, type MjModel } from "@mujoco/mujoco";
import * as ort from "onnxruntime-web/wasm";
import { Controller, type Command, type LivePolicy } from "./controller";

export type { Command, LivePolicy } from "./controller";
export type Vector = [number, number, number];

/** Locations of the two engines. */
export interface EnginePlaces {
  mujoco: string;
  onnx: string;
}

const HOME = "/telic";
const PUSH_STEPS = 5;

let engine: Promise<MainModule> | null = null;

/** MuJoCo, loaded once. */
function mujocoOnce(place: string): Promise<MainModule> {
  engine ??= loadMujoco({ locateFile: () => place });
  engine.catch(() => (engine = null)); // requested again next time
  return engine;
}

export class LiveRobot {
  readonly about: LivePolicy;
  readonly bodies: number;
  readonly #mujoco: MainModule;
  readonly #model: MjModel;
  readonly #data: MjData;
  readonly #policy: ort.InferenceSession;
  readonly #controller: Controller;
  readonly #friction: Float64Array;
  #isClosed = false;
  #push: { left: number; force: Vector } = { left: 0, force: [0, 0, 0] };
  #pull: { body: number; force: Vector } | null = null;

  private constructor(about: LivePolicy, mujoco: MainModule, model: MjModel, policy: ort.InferenceSession) {
    this.about = about;
    this.#mujoco = mujoco;
    this.#model = model;
    this.#data = new mujoco.MjData(model);
    this.#policy = policy;
    this.#controller = new Controller(about);
    this.#friction = Float64Array.from(model.geom_friction as Float64Array);
    this.bodies = model.nbody;
    this.reset();
  }

  /** Load engine, model and policy; `files` are those that the policy names. */
  static async load(about: LivePolicy, files: Record<string, Uint8Array>, places: EnginePlaces): Promise<LiveRobot> {
    ort.env.wasm.numThreads = 1; // a small network is faster on one
    ort.env.wasm.wasmPaths = { wasm: places.onnx };
    const [mujoco, policy] = await Promise.all([mujocoOnce(places.mujoco), ort.InferenceSession.create(files["policy.onnx"]!)]);
    return new LiveRobot(about, mujoco, compile(mujoco, about, files), policy);
  }

  get version(): string {
    return this.#mujoco.mj_versionString();
  }

  get time(): number {
    return this.#data.time;
  }

  get qpos(): Float64Array {
    return this.#field("qpos");
  }

  /** Torso position, m, and forward velocity in its own frame, m/s. */
  get torso(): { place: Vector; ahead: number } {
    const at = this.about.torso;
    const place = [...this.#field("xpos").subarray(3 * at, 3 * at + 3)] as Vector;
    const velocity = this.#field("cvel").subarray(6 * at + 3, 6 * at + 6);
    const [w, x, y, z] = this.#field("xquat").subarray(4 * at, 4 * at + 4) as unknown as [number, number, number, number];
    const [cosine, sine] = [1 - 2 * (y * y + z * z), 2 * (x * y + w * z)];
    const length = Math.hypot(cosine, sine) || 1;
    return { place, ahead: (velocity[0]! * cosine + velocity[1]! * sine) / length };
  }

  /** Velocity command: forward and left, m/s, and yaw rate to the left, rad/s. */
  set command(command: Command) {
    this.#controller.command = command;
  }

  #field = (name: string): Float64Array => (this.#data as unknown as Record<string, Float64Array>)[name]!;

  /** Reset to one of the stored initial states. */
  reset(number = 0): void {
    const start = this.about.starts[number % this.about.starts.length]!;
    this.#mujoco.mj_resetData(this.#model, this.#data);
    this.#field("qpos").set(start.qpos);
    this.#field("qvel").set(start.qvel);
    this.#mujoco.mj_forward(this.#model, this.#data);
    this.#controller.reset();
    this.#push.left = 0;
    this.#pull = null;
  }

  /** Run one control step; return the action. */
  async step(): Promise<Float32Array> {
    const obs = this.#controller.observe(this.#field);
    const inputs = { obs: new ort.Tensor("float32", obs, [1, obs.length]) };
    const action = (await this.#policy.run(inputs, ["action"]))["action"]!.data as Float32Array;
    if (this.#isClosed) return action; // during inference
    this.#field("ctrl").set(this.#controller.controls(action));
    this.#disturb();
    for (let count = 0; count < this.about.physics_steps; count += 1) this.#mujoco.mj_step(this.#model, this.#data);
    if (this.about.contact_forces) this.#mujoco.mj_rnePostConstraint(this.#model, this.#data);
    return action;
  }

  #disturb(): void {
    const forces = this.#field("xfrc_applied");
    forces.fill(0);
    if (this.#pull) forces.set(this.#pull.force, 6 * this.#pull.body);
    if (this.#push.left > 0) {
      this.#push.left -= 1;
      this.#push.force.forEach((force, axis) => (forces[6 * this.about.torso + axis]! += force));
    }
  }

  /** Push the torso briefly by an impulse that changes the robot's velocity by this much, m/s. */
  push(x: number, y: number): void {
    const newtons = this.about.mass_kg / (PUSH_STEPS * this.about.control_step_s);
    this.#push = { left: PUSH_STEPS, force: [x * newtons, y * newtons, 0] };
  }

  /** Pull a body with a force in newtons until changed. */
  pull(body: number, force: Vector | null): void {
    this.#pull = force && { body, force };
  }

  /** Scale the friction relative to training. */
  setFriction(share: number): void {
    const friction = this.#model.geom_friction as Float64Array;
    for (let at = 0; at < friction.length; at += 3) friction[at] = this.#friction[at]! * share;
  }

  /** Write the pose of every body: position, then rotation as w, x, y, z. */
  poses(into: Float32Array): void {
    this.#mujoco.mj_kinematics(this.#model, this.#data);
    const [places, turns] = [this.#field("xpos"), this.#field("xquat")];
    for (let body = 0; body < this.bodies; body += 1) {
      into.set(places.subarray(3 * body, 3 * body + 3), 7 * body);
      into.set(turns.subarray(4 * body, 4 * body + 4), 7 * body + 3);
    }
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#data.delete();
    this.#model.delete();
    void this.#policy.release();
  }
}

/** Compile the scene with the model values of telic's simulation, independent of the MuJoCo version. */
function compile(mujoco: MainModule, about: LivePolicy, files: Record<string, Uint8Array>): MjModel {
  const { FS } = mujoco;
  for (const folder of [HOME, `${HOME}/assets`]) if (!FS.analyzePath(folder, false).exists) FS.mkdir(folder);
  const scene = Object.entries(files).filter(([name]) => !name.endsWith(".onnx"));
  for (const [name, content] of scene) FS.writeFile(`${HOME}/${name}`, content);
  const model = mujoco.MjModel.mj_loadXML(`${HOME}/scene.xml`);
  for (const [name] of scene) FS.unlink(`${HOME}/${name}`);
  const fields = model as unknown as Record<string, Float64Array | undefined>;
  for (const [name, numbers] of Object.entries(about.numbers)) {
    const field = fields[name];
    if (field && field.length !== numbers.length) throw new Error(`Model field ${name} has ${field.length} values; expected ${numbers.length}.`);
    field?.set(numbers);
  }
  return model;
}

export interface Agreement {
  steps: number;
  /** the largest difference of a position, m or rad */
  states: number;
  /** the largest difference of an action */
  actions: number;
}

/** Replay telic's short reference episode and return the largest differences; then reset the robot. */
export async function compare(robot: LiveRobot): Promise<Agreement> {
  const { trace } = robot.about;
  const found: Agreement = { steps: trace.qpos.length, states: 0, actions: 0 };
  robot.reset();
  robot.command = trace.command.length === 3 ? (trace.command as Command) : [0, 0, 0];
  for (const [step, place] of trace.qpos.entries()) {
    const action = await robot.step();
    found.actions = Math.max(found.actions, ...trace.actions[step]!.map((value, index) => Math.abs(value - action[index]!)));
    found.states = Math.max(found.states, ...place.map((value, index) => Math.abs(value - robot.qpos[index]!)));
  }
  robot.command = [0, 0, 0];
  robot.reset();
  return found;
}
