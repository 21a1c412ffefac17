/** Where a session stands, read from its events: pure functions, so that a reload shows the same. */
import type { Stage } from "../components/strip";
import { count, duration, number, short } from "../format";

/** An event as it lies on disk: its name under "event", and its fields. */
export interface LoggedEvent {
  event: string;
  time?: number | null;
  [field: string]: unknown;
}

/** The newest event of a name; null: none yet. */
export function latest<Fields>(events: LoggedEvent[], name: string): Fields | null {
  return (events.findLast((event) => event.event === name) ?? null) as Fields | null;
}

const ORDER = ["Read", "Write", "Check", "Train", "Judge", "Decide"] as const;
type StageName = (typeof ORDER)[number];

/** The stage that begins after an event. */
const NEXT: Record<string, StageName> = {
  "session.start": "Read",
  "session.asked": "Write",
  "session.tried": "Check",
  "session.iteration": "Check",
  "probe.done": "Train",
  "train.start": "Train",
  "eval.done": "Train",
  "session.selected": "Train",
  "train.end": "Judge",
  "session.judged": "Decide",
  "session.spent": "Write",
};

export interface Standing {
  stage: StageName;
  iteration: number;
  step: number | null;
  totalSteps: number | null;
  criteria: number | null;
  examples: [number, number] | null;
  score: number | null;
  change: string;
  /** what happens, in one sentence */
  sentence: string;
}

export function standingOf(events: LoggedEvent[]): Standing {
  const at: Standing = { stage: "Read", iteration: 0, step: null, totalSteps: null, criteria: null, examples: null, score: null, change: "", sentence: "Reading the intent." };
  for (const event of events) {
    follow(at, event);
    const next = NEXT[event.event];
    const isResume = event.event === "session.start" && at.criteria !== null;
    if (next && !isResume) at.stage = next;
    at.sentence = sentenceOf(event, at) ?? at.sentence;
  }
  return at;
}

function follow(at: Standing, event: LoggedEvent): void {
  switch (event.event) {
    case "session.asked":
      at.criteria = (event.criteria as unknown[]).length;
      break;
    case "session.tried": {
      const examples = event.examples as { is_good: boolean; score: number | null }[];
      const right = examples.filter((each) => each.score !== null && each.is_good === each.score >= 0.5).length;
      at.examples = [right, examples.length];
      break;
    }
    case "session.iteration":
      Object.assign(at, { iteration: event.number, change: event.change, step: null, totalSteps: null, score: null });
      break;
    case "train.start":
      at.step = event.step as number;
      at.totalSteps = event.total_steps as number;
      break;
    case "eval.done":
      at.step = event.step as number;
      break;
    case "train.end": {
      const members = (event.members as string[] | undefined)?.length ?? 0;
      if (members && event.total_timesteps != null) at.step = Math.round((event.total_timesteps as number) / members);
      break;
    }
    case "session.judged":
      at.score = event.score as number | null;
      at.iteration = event.number as number;
      break;
  }
}

/** What a line of the log says to a person; null where it says nothing. */
export function sentenceOf(event: LoggedEvent, at?: Standing): string | null {
  const text = (name: string) => String(event[name] ?? "");
  switch (event.event) {
    case "session.start":
      return event.resumed ? "It goes on where it was." : `Reading “${text("intent")}” for ${text("env")}.`;
    case "session.asked": {
      const lost = event.not_understood as string[] | undefined;
      return `${criteria((event.criteria as unknown[]).length)} read from the intent${lost?.length ? `; not understood: ${lost.join(", ")}` : ""}.`;
    }
    case "session.tried": {
      const problems = [...((event.judge_problems as string[]) ?? []), ...((event.reward_problems as string[]) ?? [])];
      return problems.length ? `Tried on known examples: ${problems.join(" ")}` : `Reward and judge tell ${(event.examples as unknown[]).length} known examples apart.`;
    }
    case "session.forecast":
      return event.first_seconds == null ? `At first ${short(event.first_steps as number)} steps of training.` : `About ${duration(event.first_seconds as number)} of training if the first try passes.`;
    case "session.iteration":
      return `Try ${text("number")}: ${text("change")}.`;
    case "probe.done":
      return `The reward ran on ${count(event.transitions as number)} recorded steps without fault.`;
    case "train.start":
      return `${(event.members as string[]).length} policies train together for ${short(event.total_steps as number)} steps each.`;
    case "train.finding":
      return text("message");
    case "eval.done": {
      const returns = Object.values(event.members as Record<string, { mean_return: number | null }>).map((each) => each.mean_return);
      return `Evaluated at ${short(event.step as number)} steps: return ${returns.map((each) => number(each)).join(", ")}.`;
    }
    case "session.checkpoint": {
      const scores = Object.values(event.scores as Record<string, number | null>);
      return `The judge looked in at ${short(event.step as number)} steps: ${scores.map((each) => number(each, 2)).join(", ")}.`;
    }
    case "session.selected":
      return `Variant ${(event.kept as number) + 1} did best in short trials and is trained on.`;
    case "train.end":
      return `Training is ${text("status")} after ${duration(event.training_time_s as number)}; best return ${number(event.best_return as number | null)}.`;
    case "session.judged":
      if (event.failure) return `Try ${text("number")} could not be trained: ${text("failure")}`;
      return `Try ${text("number")} ${event.passed ? "passed" : "did not pass"}: score ${number(event.score as number | null)}${(event.tags as string[])?.length ? ` (${(event.tags as string[]).join(", ").replaceAll("_", " ")})` : ""}.`;
    case "session.spent":
      return `Spent so far: ${duration(event.seconds as number)}, ${short(event.steps as number)} steps${event.calls ? `, ${text("calls")} model calls` : ""}.`;
    case "session.paused":
    case "session.waiting":
    case "log":
      return text("message");
    case "session.resumed":
      return "It goes on.";
    case "session.admitted":
      return `It has processors after ${duration(event.waited_s as number)}.`;
    case "session.notes":
      return `Try ${text("number")} answers notes: ${(event.notes as { text: string }[]).map((note) => `“${note.text}”`).join(", ")}.`;
    case "model.sent":
      return `Asked ${text("model")} as ${text("role")}.`;
    case "model.reply":
      return `${text("model")} answered as ${text("role")} after ${duration(event.latency_s as number)}.`;
    case "model.retry":
    case "model.rejected":
    case "model.failed":
      return `${text("model")} as ${text("role")}: ${text("error")}`;
    default:
      return at ? null : event.event;
  }
}

/** The strip: what is done, what goes on, what is to come. */
export function stagesOf(at: Standing, state: string, isRunning: boolean): Stage[] {
  const hasEnded = !isRunning && !["interrupted", "stopped"].includes(state);
  const here = hasEnded ? ORDER.length : ORDER.indexOf(at.stage);
  const details: Record<StageName, string | undefined> = {
    Read: at.criteria === null ? undefined : criteria(at.criteria),
    Write: at.iteration ? `try ${at.iteration}: ${at.change}` : undefined,
    Check: at.examples ? `${at.examples[0]} of ${at.examples[1]} right` : undefined,
    Train: at.totalSteps === null ? undefined : `${short(at.step)} of ${short(at.totalSteps)} steps`,
    Judge: at.score === null ? undefined : `score ${number(at.score)}`,
    Decide: hasEnded || !isRunning ? state.replaceAll("_", " ") : undefined,
  };
  return ORDER.map((name, index) => {
    const isOver = index < here;
    const isBad = name === "Decide" && hasEnded && ["not_passed", "failed", "refused", "error"].includes(state);
    const isOld = isRunning && index > here; // of the try before
    return { name, detail: isOld ? undefined : details[name], state: isBad ? "failed" : isOver ? "done" : index === here && isRunning ? "now" : "todo" };
  });
}

/** What looks wrong with the training, each kind once, the latest first. */
export function findingsOf(events: LoggedEvent[]): { name: string; message: string; members: string[] }[] {
  const found = new Map<string, { name: string; message: string; members: string[] }>();
  for (const event of events) {
    if (event.event === "session.iteration") found.clear();
    const list = event.event === "train.finding" ? [event as unknown as { name: string; message: string; member: string }] : event.event === "probe.done" ? ((event.findings as { name: string; message: string }[]) ?? []) : [];
    for (const each of list) {
      const known = found.get(each.name);
      const member = "member" in each ? [String(each.member)] : [];
      if (known) known.members.push(...member);
      else found.set(each.name, { name: each.name, message: each.message, members: member });
    }
  }
  return [...found.values()].reverse();
}

function criteria(many: number): string {
  return many === 1 ? "1 criterion" : `${many} criteria`;
}
