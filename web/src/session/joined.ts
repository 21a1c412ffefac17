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

/** Put series over the union of their steps; where one has no point it has none. */
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

/** Values between the points that there are; nothing before the first and after the last. */
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

/** The mean of several curves, and how far the members lie apart. */
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

/** Sums from below: costs pile up under zero, pay above it. */
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

/** Curves with finer points within a range, and their own outside of it. */
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
