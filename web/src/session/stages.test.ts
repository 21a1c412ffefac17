import { describe, expect, it } from "vitest";
import { findingsOf, sentenceOf, stagesOf, standingOf, type LoggedEvent } from "./stages";

const LOG: LoggedEvent[] = [
  { event: "session.start", session: "s", path: "p", intent: "run", env: "Ant-v5", resumed: false },
  { event: "session.asked", criteria: [{}, {}], not_understood: ["quietly"] },
  { event: "session.tried", examples: [{ is_good: true, score: 0.9 }, { is_good: false, score: 0.1 }], judge_problems: [], reward_problems: [] },
  { event: "session.forecast", first_seconds: null, first_steps: 1000 },
  { event: "session.iteration", number: 1, change: "first try" },
  { event: "probe.done", transitions: 10, findings: [] },
  { event: "train.start", members: ["a"], step: 0, total_steps: 100 },
  { event: "eval.done", step: 50, members: { a: { mean_return: 3 } } },
  { event: "train.end", status: "completed", training_time_s: 3, best_return: 3 },
  { event: "session.judged", number: 1, passed: false, score: 0.4, tags: ["too_slow"] },
  { event: "session.spent", seconds: 5, steps: 100, calls: 0 },
];
const EXPECTED = ["Read", "Write", "Check", "Check", "Check", "Train", "Train", "Train", "Judge", "Decide", "Write"];

describe("the progress of a session", () => {
  it("follows every event to the stage that begins after it", () => {
    expect(LOG.map((_, end) => standingOf(LOG.slice(0, end + 1)).stage)).toEqual(EXPECTED);
  });

  it("has exactly one current stage while it runs, and none when it does not", () => {
    for (let end = 0; end <= LOG.length; end += 1) {
      const at = standingOf(LOG.slice(0, end));
      expect(stagesOf(at, "running", true).filter((stage) => stage.state === "now")).toHaveLength(1);
      expect(stagesOf(at, "interrupted", false).filter((stage) => stage.state === "now")).toHaveLength(0);
    }
  });

  it("certifies and reports after a pass or the last iteration, and never writes again", () => {
    const judged = LOG.map((event) => (event.event === "session.judged" ? { ...event, passed: true } : event));
    expect(standingOf(judged).stage).toBe("Decide");
    expect(standingOf(LOG, 1).stage).toBe("Decide");
    expect(standingOf(LOG, 2).stage).toBe("Write");
  });

  it("shows no green tick for a result that is not proven", () => {
    const at = standingOf(LOG);
    for (const state of ["unproven", "unconfirmed", "passed_in_part"]) expect(stagesOf(at, state, false).at(-1)!.state).toBe("doubt");
    for (const state of ["deleted", "not started", "starting"]) expect(stagesOf(standingOf([]), state, false).every((stage) => stage.state === "todo")).toBe(true);
  });

  it("does not go back to reading when a session is resumed", () => {
    expect(standingOf([...LOG, { ...LOG[0]!, resumed: true }]).stage).toBe("Write");
  });

  it("is done with everything once it passed, and failed at the end if it did not", () => {
    const at = standingOf(LOG);
    expect(stagesOf(at, "passed", false).every((stage) => stage.state === "done")).toBe(true);
    expect(stagesOf(at, "not_passed", false).at(-1)!.state).toBe("failed");
  });

  it("describes every event, unknown ones by their name", () => {
    for (const event of [...LOG, { event: "of.another.version" }]) expect(sentenceOf(event)).toBeTruthy();
  });

  it("lists each finding once with all its members, and none of earlier iterations", () => {
    const finding = (member: string) => ({ event: "train.finding", name: "dead", message: "m", member });
    expect(findingsOf([finding("a"), finding("b")])).toEqual([{ name: "dead", message: "m", members: ["a", "b"] }]);
    expect(findingsOf([finding("a"), { event: "session.iteration", number: 2 }])).toEqual([]);
  });
});
