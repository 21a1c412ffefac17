/** Records of a session as they lie on disk, as far as the pages read them. */

export interface Criterion {
  title: string;
  quantity: string;
  kind: "sustained" | "cumulative" | "phased";
  direction: "at_least" | "at_most" | "about";
  zero: number | null;
  goal: number | null;
  unit: string;
  weight: number;
  is_guard: boolean;
  tag: string | null;
  source: string;
  is_open: boolean;
  best?: number | null;
  best_source: string;
}

export interface Leaf {
  title: string;
  value: number | null;
  unit: string;
  zero: number | null;
  goal: number | null;
  weight: number;
  credit: number | null;
  counted?: number | null;
  passed: boolean | null;
  tag: string | null;
  is_guard: boolean;
}

export interface Verdict {
  source: string;
  score: number | null;
  leaves: Leaf[];
  tags: string[];
  reason: string | null;
  by_judge?: Record<string, unknown>;
  disagreements?: string[];
  seen?: unknown[];
}

export interface Judgement {
  score: number | null;
  low: number | null;
  episodes: number;
  unknown: number;
  tags: string[];
  verdicts: Verdict[];
}

export interface MemberJudgement {
  member: string;
  variant: number;
  seed: number;
  step: number | null;
  judgement: Judgement;
}

const SIGNS = { at_least: "≥", at_most: "≤", about: "≈" };

/** A goal as people say it: ≥ 3 m/s. */
export function goalOf(criterion: { direction?: Criterion["direction"]; goal: number | null; unit: string }): string {
  if (criterion.goal === null) return "as the judge's code says";
  return `${SIGNS[criterion.direction ?? "at_least"]} ${+criterion.goal.toPrecision(4)}${criterion.unit ? ` ${criterion.unit}` : ""}`;
}
