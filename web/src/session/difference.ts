/** Settings of several things side by side: only where they differ. */

/** Every value of nested records under its dotted name, as text. */
export function flat(value: unknown, prefix = ""): [string, string][] {
  if (value === null || typeof value !== "object") return [[prefix, String(value ?? "–")]];
  if (Array.isArray(value)) return [[prefix, value.every((each) => typeof each !== "object") ? value.join(", ") : JSON.stringify(value)]];
  return Object.entries(value).flatMap(([name, each]) => flat(each, prefix ? `${prefix}.${name}` : name));
}

export interface Difference {
  name: string;
  values: string[];
}

const IGNORED = new Set(["schema_version"]);

export function differences(all: unknown[]): Difference[] {
  const tables = all.map((each) => new Map(flat(each ?? {})));
  const names = [...new Set(tables.flatMap((table) => [...table.keys()]))].filter((name) => name && !IGNORED.has(name));
  return names.map((name) => ({ name, values: tables.map((table) => table.get(name) ?? "–") })).filter(({ values }) => new Set(values).size > 1);
}
