/** Records of a session as the API describes them, and how pages word them. */
import type { Schema } from "../api/client";

export type Criterion = Schema<"Criterion">;
export type Verdict = Schema<"Verdict">;
export type Judgment = Schema<"Judgment">;
export type MemberJudgment = Schema<"MemberScore">;

const SIGNS = { at_least: "≥", at_most: "≤", about: "≈" };

/** A target in words: ≥ 3 m/s. */
export function goalOf({ direction, goal, unit }: { direction: Criterion["direction"]; goal?: number | null; unit: string }): string {
  if (goal === null || goal === undefined) return "defined by the judge's code";
  return `${SIGNS[direction]} ${+goal.toPrecision(4)}${unit ? ` ${unit}` : ""}`;
}

/** Mean credit and value of every criterion over judged episodes; unmeasured ones are left out. */
export function metOf(verdicts: readonly Verdict[]): Map<string, { credit: number | null; value: string }> {
  const found = new Map<string, { credits: number[]; values: number[]; unit: string }>();
  for (const criterion of verdicts.flatMap((verdict) => verdict.criteria)) {
    const known = found.get(criterion.title) ?? { credits: [], values: [], unit: criterion.unit };
    known.credits.push(criterion.credit);
    if (criterion.value !== null) known.values.push(criterion.value);
    found.set(criterion.title, known);
  }
  const mean = (values: number[]) => (values.length ? values.reduce((a, b) => a + b, 0) / values.length : null);
  return new Map([...found].map(([title, { credits, values, unit }]) => {
    const value = mean(values);
    return [title, { credit: mean(credits), value: value === null ? "" : `${+value.toPrecision(3)} ${unit}`.trim() }];
  }));
}
