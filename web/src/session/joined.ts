/** Curves of several members over one axis. */

export interface RawSeries {
  member: string;
  name: string;
  steps: number[];
  values: number[];
}

export interface JoinedSeries {
  x: number[];
  columns: (number | null)[][];
}

/** Align series on the union of their steps; missing points stay missing. */
export function joined(series: RawSeries[]): JoinedSeries {
  const first = series[0];
  if (!first) return { x: [], columns: [] };
  if (series.every((each) => each.steps.length === first.steps.length && each.steps.every((step, index) => step === first.steps[index])))
    return { x: first.steps, columns: series.map((each) => each.values) };
  const x = [...new Set(series.flatMap((each) => each.steps))].sort((a, b) => a - b);
  const place = new Map(x.map((step, index) => [step, index]));
  const columns = series.map((each) => {
    const column = new Array<number | null>(x.length).fill(null);
    each.steps.forEach((step, index) => (column[place.get(step)!] = each.values[index]!));
    return column;
  });
  return { x, columns };
}

/** Interpolate between points; nothing before the first or after the last. */
export function filled(x: number[], column: (number | null)[]): (number | null)[] {
  const known = column.flatMap((value, index) => (value === null ? [] : [index]));
  return column.map((value, index) => {
    if (value !== null) return value;
    const right = known.findIndex((place) => place > index);
    if (right <= 0) return null;
    const [a, b] = [known[right - 1]!, known[right]!];
    const share = (x[index]! - x[a]!) / (x[b]! - x[a]!);
    return column[a]! + share * (column[b]! - column[a]!);
  });
}

/** The mean and range of several curves. */
export function meanBand(columns: (number | null)[][]): { mean: (number | null)[]; low: (number | null)[]; high: (number | null)[] } {
  const length = columns[0]?.length ?? 0;
  const at = (index: number) => columns.map((column) => column[index]).filter((value): value is number => value != null);
  const rows = Array.from({ length }, (_, index) => at(index));
  return {
    mean: rows.map((values) => (values.length ? values.reduce((a, b) => a + b, 0) / values.length : null)),
    low: rows.map((values) => (values.length ? Math.min(...values) : null)),
    high: rows.map((values) => (values.length ? Math.max(...values) : null)),
  };
}

/** 97.5 % points of Student's distribution by degrees of freedom, from 1 on. */
const STUDENT = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.16, 2.145, 2.131, 2.12, 2.11, 2.101, 2.093, 2.086];

/** The mean of several curves with its 95 % confidence interval where two or more are known. */
export function meanInterval(columns: (number | null)[][]): { mean: (number | null)[]; low: (number | null)[]; high: (number | null)[] } {
  const { mean } = meanBand(columns);
  const half = mean.map((middle, index) => {
    const values = columns.map((column) => column[index]).filter((value): value is number => value != null);
    if (middle === null || values.length < 2) return null;
    const variance = values.reduce((sum, value) => sum + (value - middle) ** 2, 0) / (values.length - 1);
    return (STUDENT[values.length - 2] ?? 1.96) * Math.sqrt(variance / values.length);
  });
  const shifted = (sign: number) => mean.map((middle, index) => (middle === null || half[index] === null ? null : middle + sign * half[index]!));
  return { mean, low: shifted(-1), high: shifted(1) };
}

/** A running mean over `width` points on each side. */
export function smoothed(values: (number | null)[], width: number): (number | null)[] {
  if (width <= 0) return values;
  const sums = [0];
  const counts = [0];
  values.forEach((value, index) => {
    sums.push(sums[index]! + (value ?? 0));
    counts.push(counts[index]! + (value === null ? 0 : 1));
  });
  return values.map((value, index) => {
    if (value === null) return null;
    const [from, to] = [Math.max(0, index - width), Math.min(values.length, index + width + 1)];
    return (sums[to]! - sums[from]!) / (counts[to]! - counts[from]!);
  });
}

/** Cumulative sums: costs below zero, rewards above. */
export function piled(length: number, curves: { values: (number | null)[] }[]): (number | null)[][] {
  const above = new Array<number>(length).fill(0);
  const below = new Array<number>(length).fill(0);
  return curves.map((curve) => {
    const isCost = mean(curve.values) < 0;
    const sums = isCost ? below : above;
    return curve.values.map((value, index) => (sums[index] = (sums[index] ?? 0) + (value ?? 0)));
  });
}

export function mean(values: (number | null)[]): number {
  return values.reduce<number>((sum, value) => sum + (value ?? 0), 0) / Math.max(1, values.length);
}

/** Curves with finer points within a range. */
export function spliced<Curve extends RawSeries>(all: Curve[], finer: Curve[], [start, end]: [number, number]): Curve[] {
  return all.map((curve) => {
    const fine = finer.find((each) => each.member === curve.member && each.name === curve.name);
    if (!fine) return curve;
    const before = curve.steps.findIndex((step) => step >= start);
    const after = curve.steps.findIndex((step) => step > end);
    const around = <Value>(own: Value[], inside: Value[]) => [...own.slice(0, before < 0 ? own.length : before), ...inside, ...(after < 0 ? [] : own.slice(after))];
    return { ...curve, steps: around(curve.steps, fine.steps), values: around(curve.values, fine.values) };
  });
}
