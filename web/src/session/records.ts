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

/** Mean credit and value of every leaf over judged episodes; what could not be measured is left out. */
export function metOf(verdicts: Verdict[]): Map<string, { credit: number | null; value: string }> {
  const found = new Map<string, { credits: number[]; values: number[]; unit: string }>();
  for (const leaf of verdicts.flatMap((verdict) => verdict.leaves)) {
    const known = found.get(leaf.title) ?? { credits: [], values: [], unit: leaf.unit };
    if (leaf.credit !== null) known.credits.push(leaf.credit);
    if (leaf.value !== null) known.values.push(leaf.value);
    found.set(leaf.title, known);
  }
  const mean = (values: number[]) => (values.length ? values.reduce((a, b) => a + b, 0) / values.length : null);
  return new Map([...found].map(([title, { credits, values, unit }]) => {
    const value = mean(values);
    return [title, { credit: mean(credits), value: value === null ? "" : `${+value.toPrecision(3)} ${unit}`.trim() }];
  }));
}
