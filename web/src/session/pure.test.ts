import { describe, expect, it } from "vitest";
import { edited, retitled } from "../components/criteria";
import { placed, type LineageNode } from "../components/lineage";
import { ROW_HEIGHT, visibleRows } from "../components/table";
import { ago, duration, envName, money, number, percent, short, UNKNOWN } from "../format";
import { flat } from "./flat";
import { fits, sorted } from "./filter";
import { filled, joined, meanBand, meanInterval, piled, smoothed, spliced } from "./joined";
import { callsOf, totalOf } from "./trace";

let state = 7;
const random = () => (state = (state * 48271) % 2147483647) / 2147483647;
const times = (count: number, act: (round: number) => void) => Array.from({ length: count }, (_, round) => act(round));

describe("numbers", () => {
  it("never show what is unknown as 0", () => {
    for (const write of [number, percent, duration, short, ago]) expect(write(null)).toBe(UNKNOWN);
    expect(money(null)).toBe("unknown");
  });

  it("keep their value to the digits that are shown", () => {
    times(500, () => {
      const value = (random() - 0.5) * 10 ** Math.floor(random() * 12 - 4);
      const read = Number(number(value, 4).replaceAll(",", "").replace("−", "-"));
      expect(Math.abs(read - value)).toBeLessThanOrEqual(Math.abs(value) * 1e-3 + 1e-12);
    });
  });

  it("name files of robots without their folders", () => {
    expect(envName("/a/b/fetch.xml")).toBe("fetch");
    expect(envName("HalfCheetah-v5")).toBe("HalfCheetah-v5");
  });
});

describe("curves", () => {
  it("have finer points in the visible range only", () => {
    const at = (steps: number[]) => ({ member: "a", name: "return", steps, values: steps.map((step) => step * 2) });
    const [curve] = spliced([at([0, 10, 20, 30, 40])], [at([12, 14, 20, 28])], [11, 30]);
    expect(curve!.steps).toEqual([0, 10, 12, 14, 20, 28, 40]);
    expect(curve!.values).toEqual(curve!.steps.map((step) => step * 2));
    expect(spliced([at([0, 10])], [at([3])], [2, 20])[0]!.steps).toEqual([0, 3]);
    expect(spliced([at([0, 10])], [], [2, 20])[0]!.steps).toEqual([0, 10]);
  });

  it("are joined without losing a point", () => {
    times(50, () => {
      const series = Array.from({ length: 3 }, (_, member) => {
        const steps = [...new Set(Array.from({ length: 20 }, () => Math.floor(random() * 50)))].sort((a, b) => a - b);
        return { member: String(member), name: "r", steps, values: steps.map((step) => step * (member + 1)) };
      });
      const { x, columns } = joined(series);
      expect([...x].sort((a, b) => a - b)).toEqual(x);
      series.forEach((each, index) => each.steps.forEach((step, place) => expect(columns[index]![x.indexOf(step)]).toBe(each.values[place])));
      columns.forEach((column, index) => filled(x, column).forEach((value, place) => value !== null && expect(value).toBeCloseTo(x[place]! * (index + 1))));
    });
  });

  it("have a mean between the lowest and the highest, also when smoothed", () => {
    const columns = [0, 1, 2].map(() => Array.from({ length: 40 }, () => (random() < 0.1 ? null : random())));
    const band = meanBand(columns);
    band.mean.forEach((value, place) => value !== null && expect(value >= band.low[place]! && value <= band.high[place]!).toBe(true));
    const values = smoothed(columns[0]!, 5);
    expect(values.map((value) => value === null)).toEqual(columns[0]!.map((value) => value === null));
  });

  it("pile up to their sum, costs below zero", () => {
    const tops = piled(2, [{ values: [1, 2] }, { values: [-1, -1] }, { values: [3, 4] }]);
    expect(tops).toEqual([[1, 2], [-1, -1], [4, 6]]);
  });
});

describe("the table", () => {
  it("draws every row that is seen, and few others", () => {
    times(300, () => {
      const count = Math.floor(random() * 5000);
      const top = random() * count * ROW_HEIGHT;
      const [first, last] = visibleRows(top, 700, count);
      expect(first).toBeLessThanOrEqual(Math.floor(top / ROW_HEIGHT));
      expect(last).toBeGreaterThanOrEqual(Math.min(count, Math.ceil((top + 700) / ROW_HEIGHT)));
      expect(last - first).toBeLessThan(60);
    });
  });

  it("distinguishes conditions from words", () => {
    const lines = [{ id: "a", title: "run fast", env: "Ant-v5", state: "passed", score: 0.9 }, { id: "b", title: "hop", env: "Hopper-v5", state: "failed", score: null }];
    const ids = (filter: string) => lines.filter(fits(filter)).map((line) => line.id);
    expect(ids('fast score>=0.8 env=Ant-v5 title~"run fast"')).toEqual(["a"]);
    expect(ids("score<0.8")).toEqual([]);
    expect(ids("state!=passed")).toEqual(["b"]);
    expect(ids("")).toEqual(["a", "b"]);
    expect(sorted(lines, "score", true).map((line) => line.id)).toEqual(["a", "b"]);
    expect(sorted(lines, "score", false).map((line) => line.id)).toEqual(["a", "b"]);
  });
});

describe("the tree", () => {
  it("gives every candidate a place of its own, whatever its parents are", () => {
    times(100, () => {
      const nodes: LineageNode[] = Array.from({ length: 12 }, (_, id) => ({ id: String(id), parent: random() < 0.2 ? null : String(Math.floor(random() * 14)), title: "", note: "", score: null }));
      const all = placed(nodes);
      expect(new Set(all.map((node) => node.id)).size).toBe(12);
      expect(new Set(all.map((node) => `${node.x},${node.y}`)).size).toBe(12);
    });
  });
});

describe("intervals", () => {
  it("are those of Student's distribution over seeds", () => {
    const { mean, low, high } = meanInterval([[10, 1], [20, null]]); // t(1) x s / sqrt(2) = 12.706 x 7.0711 / 1.4142
    expect(mean).toEqual([15, 1]);
    expect(high[0]! - 15).toBeCloseTo(12.706 * 5, 3);
    expect([low[1], high[1]]).toEqual([null, null]);
  });
});

describe("settings", () => {
  it("have dotted names", () => {
    expect(flat({ a: 1, b: { c: [2, 3] } })).toEqual([["a", "1"], ["b.c", "2, 3"]]);
  });
});

describe("criteria", () => {
  const criterion = { title: "averages at least 3 m/s forward", quantity: "speed", kind: "sustained" as const, direction: "at_least" as const, zero: 0.3, goal: 3, unit: "m/s", weight: 1, is_guard: false, tag: null, source: "", is_open: false, is_stated: false, measure: "", phase: 0, best: null, best_source: "" };

  it("state a changed target in their title", () => {
    expect(retitled(criterion, 2)).toBe("averages at least 2 m/s forward");
    expect(retitled({ ...criterion, title: "in the air at least 8% of the time", goal: 0.08 }, 0.2)).toBe("in the air at least 20% of the time");
    expect(retitled({ ...criterion, title: "is fast" }, 2)).toBe("is fast (≥ 2 m/s)");
    expect(retitled({ ...criterion, title: "13 steps at 3.5 m", goal: 3 }, 2)).toBe("13 steps at 3.5 m (≥ 2 m/s)");
  });

  it("keep a person's changes when the prompt is read again", () => {
    const edits = { [criterion.title]: { goal: 2, weight: 4 }, other: { isUsed: false } };
    expect(edited([criterion, { ...criterion, title: "other" }], edits)).toEqual([{ ...criterion, title: "averages at least 2 m/s forward", goal: 2, weight: 4 }]);
  });
});

describe("model calls", () => {
  const sent = (key: string) => ({ event: "model.sent", key, role: "author", model: "m", prompt: "p", system: null });
  const reply = (key: string, usd: number | null) => ({ event: "model.reply", key, answer: "a", tokens: { input: 5, output: 2, reasoning: null, cached: null }, price_usd: usd, latency_s: 1, cached: false });

  it("have an unknown price as soon as one of them has", () => {
    expect(totalOf(callsOf([sent("a"), reply("a", 0.5), sent("b"), reply("b", 0.25)]))).toEqual({ calls: 2, input: 10, output: 4, usd: 0.75 });
    expect(totalOf(callsOf([sent("a"), reply("a", 0.5), sent("b"), reply("b", null)])).usd).toBeNull();
  });

  it("are counted once however often they were rejected", () => {
    const calls = callsOf([sent("a"), { event: "model.rejected", key: "a", answer: "x", error: "no" }, sent("a"), reply("a", 1), sent("a"), reply("a", 1)]);
    expect(calls.map((call) => call.attempts.length)).toEqual([1, 0]);
  });
});
