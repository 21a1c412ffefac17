/** Live policy: MuJoCo and the exported network in this page, with pushes, pulls, friction and commands. */
import { useCallback, useEffect, useRef, useState } from "react";
import { Link, useParams, useSearch } from "wouter";
import mujocoFile from "@mujoco/mujoco/mujoco.wasm?url";
import onnxFile from "onnxruntime-web/ort-wasm-simd-threaded.wasm?url";
import { Problem, gotBytes, read } from "../api/client";
import { shapeOf, type SceneAnswer } from "../api/episodes";
import type { components } from "../api/schema";
import { Facts, PageHead, Panel, Segmented } from "../components/basics";
import { Icon } from "../components/icons";
import { Ready } from "../components/states";
import { number, short, shortId, words } from "../format";
import { useShortcuts } from "../keyboard";
import { Joystick, type Spans } from "../live/joystick";
import { LiveRobot, compare, type Agreement } from "../live/robot";
import type { Grip, ModelShape, RobotScene } from "../three/scene";
import { useTheme } from "../theme";

type LiveAnswer = components["schemas"]["LiveAnswer"];
type Ground = LiveAnswer["policy"]["grounds"][number];

const AGREES = 1e-3;
const MOST_BEHIND_S = 0.1;
const PUSH_MPS = 1;
/** pull per meter, in robot weights */
const PULL = 12;

export interface Loaded {
  answer: LiveAnswer;
  shape: ModelShape;
  robot: LiveRobot;
  agreement: Agreement;
}

/** Fetch the policy, start the engines, and compare with telic's simulation. */
export async function loadLive(artifact: string, iteration: number | null, ground: Ground): Promise<Loaded> {
  const address = `/api/artifacts/${encodeURIComponent(artifact)}/live`;
  const query = `?${new URLSearchParams([["ground", ground], ...(iteration === null ? [] : [["iteration", String(iteration)]])])}`;
  const answer = await read<LiveAnswer>(address + query);
  const fetched = await Promise.all([...answer.policy.files, "numbers"].map(async (name) => [name, await gotBytes(`${address}/${name}${query}`)] as const));
  const bytes = Object.fromEntries(fetched);
  const shape = shapeOf(answer.scene as SceneAnswer, bytes["numbers"]!);
  const files = Object.fromEntries(answer.policy.files.map((name) => [name, new Uint8Array(bytes[name]!)]));
  const robot = await LiveRobot.load(answer.policy, files, { mujoco: mujocoFile, onnx: onnxFile });
  const agreement = await compare(robot);
  return { answer, shape, robot, agreement };
}

/** A robot for the lifetime of the page: its memory must be freed explicitly. */
function useRobot(artifact: string, iteration: number | null, ground: Ground) {
  const [round, setRound] = useState(0);
  const key = `${artifact}:${iteration}:${ground}:${round}`;
  const [state, setState] = useState<{ key: string; value?: Loaded; error: Problem | null }>({ key, error: null });
  useEffect(() => {
    let isOver = false;
    let made: Loaded | null = null;
    setState({ key, error: null });
    loadLive(artifact, iteration, ground).then(
      (live) => {
        made = live;
        if (isOver) live.robot.close();
        else setState({ key, value: live, error: null });
      },
      (error: unknown) => !isOver && setState({ key, error: error instanceof Problem ? error : new Problem(error instanceof Error ? error.message : String(error)) }),
    );
    return () => {
      isOver = true;
      made?.robot.close();
    };
  }, [key]);
  // Immediately, not in the effect: the old robot is about to be closed.
  const isMine = state.key === key;
  return { value: isMine ? state.value : undefined, error: isMine ? state.error : null, reload: () => setRound(round + 1) };
}

export default function LivePage() {
  const { id } = useParams<{ id: string }>();
  const asked = new URLSearchParams(useSearch()).get("try");
  const [ground, setGround] = useState<Ground>("flat");
  const iteration = asked === null ? null : Number(asked);
  const loaded = useRobot(id, iteration, ground);
  return (
    <>
      <PageHead title="Live policy" lede={<span>MuJoCo and the exported policy run locally in your browser. Nothing is recorded. <Link href={`/runs/${id}`}>{shortId(id)}</Link></span>} />
      <Ready of={loaded} lines={6}>{(live) => <Playing key={ground} live={live} ground={ground} onGround={setGround} />}</Ready>
    </>
  );
}

function Playing({ live, ground, onGround }: { live: Loaded; ground: Ground; onGround: (ground: Ground) => void }) {
  const { robot, answer, agreement } = live;
  const [isPlaying, setPlaying] = useState(true);
  const [friction, setFriction] = useState(1);
  const [start, setStart] = useState(0);
  const [time, setTime] = useState(0);
  const { place, ahead } = robot.torso;
  const began = (next: number) => { robot.reset(next); setStart(next); setTime(0); };
  useEffect(() => robot.setFriction(friction), [robot, friction]);
  const push = (x: number, y: number) => robot.push(x * PUSH_MPS, y * PUSH_MPS);
  useShortcuts([
    { keys: " ", does: "pause or resume", act: () => setPlaying(!isPlaying) },
    { keys: "r", does: "restart from another initial state", act: () => began(start + 1) },
    { keys: "ArrowRight", does: "push forward", act: () => push(1, 0) },
    { keys: "ArrowLeft", does: "push backward", act: () => push(-1, 0) },
    { keys: "ArrowUp", does: "push left", act: () => push(0, 1) },
    { keys: "ArrowDown", does: "push right", act: () => push(0, -1) },
  ]);
  const commands = answer.policy.deployment?.commands as Spans | null | undefined;
  const command = useCallback((velocity: [number, number, number]) => { robot.command = velocity; }, [robot]);
  return (
    <div className="grid">
      <div className="span-8 stacked">
        <Panel title={`${answer.policy.env} · ${words(answer.member)}`} actions={<span className="small soft" id="now" data-height={place[2]}>{ahead.toFixed(1)} m/s forward · torso height {place[2].toFixed(2)} m · <span id="seconds">{time.toFixed(1)} s</span></span>}>
          <LiveStage live={live} isPlaying={isPlaying} onTime={setTime} />
          <div className="transport">
            <button type="button" onClick={() => setPlaying(!isPlaying)} aria-label={isPlaying ? "Pause" : "Resume"}><Icon name={isPlaying ? "pause" : "play"} /></button>
            <button type="button" onClick={() => began(start + 1)}>Restart <kbd>r</kbd></button>
            <span className="grow small soft">Drag the robot to pull it; drag the background to rotate the camera.</span>
          </div>
        </Panel>
      </div>
      <div className="span-4 stacked">
        {commands && <Panel title="Velocity commands"><Joystick spans={commands} onCommand={command} /></Panel>}
        <Panel title="Disturbances">
          <div className="column">
            <div className="row" role="group" aria-label="Push">
              {([["←", -1, 0, "backward"], ["→", 1, 0, "forward"], ["↑", 0, 1, "left"], ["↓", 0, -1, "right"]] as const).map(([arrow, x, y, where]) => <button key={arrow} type="button" aria-label={`Push ${where}`} title={`Push ${where}`} onClick={() => push(x, y)}>{arrow}</button>)}
              <span className="small soft">each push adds 1 m/s</span>
            </div>
            <label className="field small">friction: {Math.round(friction * 100)}% of the training value
              <input type="range" min={0.05} max={2} step={0.05} value={friction} onChange={(event) => setFriction(Number(event.target.value))} />
            </label>
            {answer.policy.grounds.length > 1 && <div className="scroll-x"><Segmented label="Ground" value={ground} choices={answer.policy.grounds.map((each) => [each, each])} onChange={onGround} /></div>}
          </div>
        </Panel>
        <AgreementPanel agreement={agreement} robot={robot} answer={answer} />
      </div>
    </div>
  );
}

function AgreementPanel({ agreement, robot, answer }: { agreement: Agreement; robot: LiveRobot; answer: LiveAnswer }) {
  const isSame = agreement.states < AGREES;
  return (
    <Panel title="Agreement with telic's simulation">
      <div className="column">
      <div className={`notice ${isSame ? "good" : "middling"} small`} data-states={agreement.states} data-actions={agreement.actions} id="agreement">
        {isSame ? <>Match: after {agreement.steps} actions from the same initial state, the states agree to within {exponent(agreement.states)} m or rad.</> : <>Mismatch: after {agreement.steps} actions from the same initial state, the states differ by {exponent(agreement.states)} m or rad.</>}
      </div>
      <Facts rows={[["policy", `${words(answer.member)}, ${short(answer.step)} steps`], ["MuJoCo in this page", robot.version], ["MuJoCo used by telic", answer.policy.simulator], ["control rate", `${number(1 / answer.policy.control_step_s)} Hz`], ["mass", `${number(answer.policy.mass_kg)} kg`]]} />
      </div>
    </Panel>
  );
}

function exponent(value: number): string {
  return value === 0 ? "0" : value.toExponential(0).replace("e-", "e−");
}

function LiveStage({ live, isPlaying, onTime }: { live: Loaded; isPlaying: boolean; onTime: (time: number) => void }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const scene = useRef<RobotScene | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const theme = useTheme();
  const now = useRef({ isPlaying, onTime });
  now.current = { isPlaying, onTime };
  useEffect(() => {
    let isOver = false;
    let frame = 0;
    const { robot, shape } = live;
    const poses = new Float32Array(robot.bodies * 7);
    const drag: Drag = { grip: null, event: null };
    const run = async () => {
      const { RobotScene: Made } = await import("../three/scene");
      if (isOver || !canvas.current) return;
      try {
        scene.current = new Made(canvas.current, theme === "dark");
      } catch (error) {
        setProblem(`This browser does not support WebGL (${error instanceof Error ? error.message : String(error)}).`);
        return;
      }
      robot.poses(poses);
      scene.current.setActors([{ model: shape, motion: { frames: 1, bodies: robot.bodies, poses } }], false);
      listen(canvas.current, scene.current, robot, drag);
      let owed = 0;
      let before = performance.now();
      const tick = async (at: number) => {
        owed = now.current.isPlaying ? Math.min(owed + (at - before) / 1000, MOST_BEHIND_S) : 0;
        before = at;
        while (!isOver && owed >= robot.about.control_step_s) {
          pull(scene.current, robot, drag);
          await robot.step();
          owed -= robot.about.control_step_s;
        }
        if (isOver) return;
        robot.poses(poses);
        scene.current?.show(0);
        now.current.onTime(robot.time);
        frame = requestAnimationFrame((next) => void tick(next));
      };
      frame = requestAnimationFrame((next) => void tick(next));
    };
    void run();
    return () => {
      isOver = true;
      cancelAnimationFrame(frame);
      scene.current?.close();
      scene.current = null;
    };
  }, [live]);
  useEffect(() => scene.current?.setDark(theme === "dark"), [theme]);
  if (problem) return <div className="notice middling">{problem}</div>;
  return <div className="stage"><canvas ref={canvas} role="img" aria-label="Robot simulation in the browser. Arrow keys rotate the camera; + and - zoom." style={{ touchAction: "none" }} /></div>;
}

interface Drag {
  grip: Grip | null;
  event: PointerEvent | null;
}

/** Dragging the robot pulls it; dragging the background turns the camera. */
function listen(canvas: HTMLCanvasElement, scene: RobotScene, robot: LiveRobot, drag: Drag): void {
  canvas.addEventListener("pointerdown", (event) => {
    drag.grip = scene.pick(event);
    drag.event = event;
    scene.turns = drag.grip === null;
    if (drag.grip) canvas.setPointerCapture(event.pointerId);
  }, { capture: true });
  canvas.addEventListener("pointermove", (event) => { drag.event = event; });
  const end = () => {
    if (drag.grip) robot.pull(drag.grip.body, null);
    drag.grip = null;
    scene.turns = true;
    scene.letGo();
  };
  canvas.addEventListener("pointerup", end);
  canvas.addEventListener("pointercancel", end);
}

function pull(scene: RobotScene | null, robot: LiveRobot, drag: Drag): void {
  if (!scene || !drag.grip || !drag.event) return;
  const strength = PULL * robot.about.mass_kg;
  const [x, y, z] = scene.pullTo(drag.grip, drag.event);
  robot.pull(drag.grip.body, [x * strength, y * strength, z * strength]);
}
