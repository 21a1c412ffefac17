/** Recorded episodes for the player: shape and poses of the robot, reward terms and commands over time. */
import type { Curve } from "../components/chart";
import type { ModelShape, Motion } from "../three/scene";
import { words } from "../format";
import type { Verdict } from "../session/records";
import { gotBytes, read, type Schema } from "./client";

export interface Track {
  title: string;
  curves: Curve[];
}

export interface Episode {
  name: string;
  model: ModelShape;
  motion: Motion;
  /** the motion that the robot was to follow */
  reference: Motion | null;
  times: number[];
  seconds: number;
  tracks: Track[];
  verdict: Verdict | null;
}

export type SceneAnswer = Schema<"ModelScene">;
type Playback = Schema<"PlaybackFacts">;

const USUAL_DT = 0.05;
const scenes = new Map<string, Promise<ModelShape>>();

function loadScene(artifact: string, iteration: number | null): Promise<ModelShape> {
  const query = iteration === null ? "" : `?iteration=${iteration}`;
  const address = `/api/artifacts/${encodeURIComponent(artifact)}/scene`;
  const key = address + query;
  const known = scenes.get(key);
  if (known) return known;
  const loading = (async () => {
    const scene = await read<SceneAnswer>(address + query);
    const numbers = scene.number_bytes > 0 ? await gotBytes(`${address}/numbers${query}`) : new ArrayBuffer(0);
    return shapeOf(scene, numbers);
  })();
  scenes.set(key, loading);
  loading.catch(() => scenes.delete(key)); // load it again next time
  return loading;
}

export function shapeOf(scene: SceneAnswer, numbers: ArrayBuffer): ModelShape {
  return {
    bodies: scene.bodies,
    geoms: scene.geoms.map((geom) => ({ body: geom.body, type: geom.shape, size: geom.size, position: geom.position, rotation: geom.quaternion, color: geom.rgba, mesh: geom.mesh ?? null })),
    meshes: scene.meshes.map((mesh) => ({ vertices: new Float32Array(numbers, mesh.vertex_start, mesh.vertices * 3), faces: new Uint32Array(numbers, mesh.face_start, mesh.faces * 3) })),
    fields: scene.fields.map((field) => ({ heights: new Float32Array(numbers, field.start, field.rows * field.columns), rows: field.rows, columns: field.columns, size: field.size })),
  };
}

export async function loadEpisode(artifact: string, key: string): Promise<Episode> {
  const address = `/api/artifacts/${encodeURIComponent(artifact)}/playback/${encodeURIComponent(key)}`;
  const [facts, bytes] = await Promise.all([read<Playback>(address), gotBytes(`${address}/poses`)]);
  const wanted = facts.has_reference ? await gotBytes(`${address}/poses?of=reference`) : null;
  const model = await loadScene(artifact, facts.iteration);
  const dt = facts.dt_s ?? USUAL_DT;
  const frames = facts.bodies > 0 ? Math.floor(bytes.byteLength / (4 * 7 * facts.bodies)) : 0;
  const times = Array.from({ length: frames }, (_, frame) => frame * dt);
  return {
    name: [facts.env, words(facts.member ?? ""), facts.label && (/^\d+$/.test(facts.label) ? `episode ${facts.label}` : facts.label)].filter(Boolean).join(" · "),
    model, motion: { frames, bodies: facts.bodies, poses: new Float32Array(bytes) },
    reference: wanted && { frames, bodies: facts.bodies, poses: new Float32Array(wanted) },
    times, seconds: Math.max(dt, (frames - 1) * dt), tracks: tracksOf(facts, frames), verdict: facts.verdict,
  };
}

function tracksOf(facts: Playback, frames: number): Track[] {
  const curves = (columns: Record<string, number[]>) => Object.entries(columns).map(([name, values]): Curve => ({ name: words(name), values: values.slice(0, frames) }));
  const found: Track[] = [];
  if (Object.keys(facts.reward_terms).length) found.push({ title: "reward terms", curves: curves(facts.reward_terms) });
  else if (facts.rewards.length) found.push({ title: "reward", curves: curves({ reward: facts.rewards }) });
  if (Object.keys(facts.commands).length) found.push({ title: "commands", curves: curves(facts.commands) });
  return found;
}
