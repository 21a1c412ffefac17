/** Every value of nested records under its dotted name, as text. */
export function flat(value: unknown, prefix = ""): [string, string][] {
  if (value === null || typeof value !== "object") return [[prefix, String(value ?? "–")]];
  if (Array.isArray(value)) return [[prefix, value.every((each) => typeof each !== "object") ? value.join(", ") : JSON.stringify(value)]];
  return Object.entries(value).flatMap(([name, each]) => flat(each, prefix ? `${prefix}.${name}` : name));
}
