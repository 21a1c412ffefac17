/** The progress of a session, computed from its events by pure functions, so that a reload shows the same. */
import type { Stage } from "../components/strip";
import { count, duration, number, plural, score, short, words } from "../format";

/** An event of the log: its name under "event", and its fields. */
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
};

export interface Standing {
  stage: StageName;
  iteration: number;
  step: number | null;
  totalSteps: number | null;
  isScreening: boolean;
  criteria: number | null;
  examples: [number, number] | null;
  score: number | null;
  hasPassed: boolean;
  change: string;
  /** the current activity in one sentence */
  sentence: string;
}

const START: Standing = { stage: "Read", iteration: 0, step: null, totalSteps: null, isScreening: false, criteria: null, examples: null, score: null, hasPassed: false, change: "", sentence: "Reading the intent." };

/** Follow all events; `iterations` is the number after which a session ends without a pass. */
export function standingOf(events: LoggedEvent[], iterations = Infinity): Standing {
  const at = { ...START };
  for (const event of events) {
    follow(at, event);
    const isResume = event.event === "session.start" && at.criteria !== null;
    const next = NEXT[event.event];
    if (next && !isResume) at.stage = next;
    // After a pass, or the last iteration, the result is certified and reported; else the reward is revised.
    if (event.event === "session.spent") at.stage = at.hasPassed || at.iteration >= iterations ? "Decide" : "Write";
    at.sentence = sentenceOf(event, at) ?? at.sentence;
  }
  if (at.stage === "Decide" && events.at(-1)?.event === "session.spent") at.sentence = at.hasPassed ? "Certifying the pass, measuring robustness, and writing the report." : "Writing the report.";
  return at;
}

function follow(at: Standing, event: LoggedEvent): void {
  switch (event.event) {
    case "session.asked":
      at.criteria = (event.criteria as unknown[]).length;
      break;
    case "session.tried": {
      const examples = event.examples as { is_good: boolean; score: number | null }[];
      at.examples = [examples.filter((each) => each.score !== null && each.is_good === each.score >= 0.5).length, examples.length];
      break;
    }
    case "session.iteration":
      Object.assign(at, { iteration: event.number, change: event.change, step: null, totalSteps: null, score: null, hasPassed: false });
      break;
    case "train.start":
      at.step = event.step as number;
      at.totalSteps = event.total_steps as number;
      at.isScreening = event.run === "trial";
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
      at.score = (event.scores as Record<string, number | null> | undefined)?.[event.best as string] ?? (event.score as number | null);
      at.iteration = event.number as number;
      at.hasPassed = Boolean(event.passed);
      break;
  }
}

/** A line of the log as a sentence; null if it adds nothing. */
export function sentenceOf(event: LoggedEvent, at?: Standing): string | null {
  const text = (name: string) => String(event[name] ?? "");
  switch (event.event) {
    case "session.start":
      return event.resumed ? "Resuming." : `Reading “${text("intent")}” for ${text("env")}.`;
    case "session.asked": {
      const lost = event.not_understood as string[] | undefined;
      return `${plural((event.criteria as unknown[]).length, "criterion", "criteria")} read from the intent${lost?.length ? `; not understood: ${lost.join(", ")}` : ""}.`;
    }
    case "session.tried": {
      const problems = [...((event.judge_problems as string[]) ?? []), ...((event.reward_problems as string[]) ?? [])];
      return problems.length ? `Validation on reference episodes: ${problems.join(" ")}` : `The reward and the judge agree on ${(event.examples as unknown[]).length} reference episodes.`;
    }
    case "session.forecast":
      return event.first_seconds == null ? `${short(event.first_steps as number)} steps of training if the first iteration passes.` : `About ${duration(event.first_seconds as number)} of training if the first iteration passes.`;
    case "session.iteration":
      return `Iteration ${text("number")}: ${text("change")}.`;
    case "probe.done":
      return `The reward ran on ${count(event.transitions as number)} recorded transitions without errors.`;
    case "train.start":
      return `${event.run === "trial" ? "Screening" : "Training"} ${plural((event.members as string[]).length, "policy", "policies")} together for ${short(event.total_steps as number)} steps each.`;
    case "train.finding":
      return text("message");
    case "eval.done": {
      const returns = Object.values(event.members as Record<string, { mean_return: number | null }>).map((each) => each.mean_return);
      return `Evaluation at ${short(event.step as number)} steps: return ${returns.map((each) => number(each)).join(", ")}.`;
    }
    case "session.checkpoint":
      return `Interim evaluation by the judge at ${short(event.step as number)} steps: ${Object.values(event.scores as Record<string, number | null>).map(score).join(", ")}.`;
    case "session.selected":
      return `Variant ${(event.kept as number) + 1} scored best in the screening runs and is trained in full.`;
    case "train.end":
      return `Training ${text("status")} after ${duration(event.training_time_s as number)}; best mean return ${number(event.best_return as number | null)}.`;
    case "session.judged": {
      if (event.failure) return `Iteration ${text("number")} could not be trained: ${text("failure")}`;
      const failed = (event.tags as string[] | undefined)?.map(words).join(", ");
      return `Iteration ${text("number")} ${event.passed ? "reached the threshold" : "did not pass"}: mean score ${score(event.score as number | null)}${failed ? ` (failed criteria: ${failed})` : ""}.`;
    }
    case "session.spent":
      return `Spent so far: ${duration(event.seconds as number)}, ${short(event.steps as number)} steps${event.calls ? `, ${plural(event.calls as number, "model call")}` : ""}.`;
    case "session.paused":
    case "session.waiting":
    case "log":
      return text("message");
    case "session.resumed":
      return "Resumed.";
    case "session.admitted":
      return `Waited ${duration(event.waited_s as number)} for CPU cores.`;
    case "session.notes":
      return `Iteration ${text("number")} addresses feedback: ${(event.notes as { text: string }[]).map((note) => `“${note.text}”`).join(", ")}.`;
    case "model.sent":
      return `Request sent to ${text("model")} (${text("role")}).`;
    case "model.reply":
      return `${text("model")} (${text("role")}) answered after ${duration(event.latency_s as number)}.`;
    case "model.retry":
    case "model.rejected":
    case "model.failed":
      return `${text("model")} (${text("role")}): ${text("error")}`;
    default:
      return at ? null : event.event;
  }
}

const FAILED = ["not_passed", "failed", "refused", "error", "damaged"];
const UNFINISHED = ["interrupted", "stopped", "not started", "deleted", "starting"];

/** The stages with their state: done, current, to come, failed, or in doubt. */
export function stagesOf(at: Standing, state: string, isRunning: boolean): Stage[] {
  const hasEnded = !isRunning && !UNFINISHED.includes(state);
  const here = hasEnded ? ORDER.length : ORDER.indexOf(at.stage);
  const details: Record<StageName, string | undefined> = {
    Read: at.criteria === null ? undefined : plural(at.criteria, "criterion", "criteria"),
    Write: at.iteration ? `iteration ${at.iteration}: ${at.change}` : undefined,
    Check: at.examples ? `${at.examples[0]} of ${at.examples[1]} correct` : undefined,
    Train: at.totalSteps === null ? undefined : `${at.isScreening ? "screening, " : ""}${short(at.step)} of ${short(at.totalSteps)} steps`,
    Judge: at.score === null ? undefined : `score ${score(at.score)}`,
    Decide: isRunning ? undefined : words(state),
  };
  return ORDER.map((name, index): Stage => {
    const isLast = name === "Decide" && hasEnded;
    const outcome = state === "passed" ? "done" : FAILED.includes(state) ? "failed" : "doubt";
    const isOfEarlier = isRunning && index > here;
    return { name, detail: isOfEarlier ? undefined : details[name], state: isLast ? outcome : index < here ? "done" : index === here && isRunning ? "now" : "todo" };
  });
}

/** Findings about the training of the current iteration, each kind once, the latest first. */
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
