/** The filter of the table of runs: words, and conditions such as score>=0.8 or env=Ant-v5. */
const CONDITION = /^([a-z_]+)(<=|>=|!=|=|<|>|~)(\S.*)$/s;

type Line = Record<string, unknown>;

const text = (value: unknown): string => (value == null ? "" : Array.isArray(value) ? value.join(",") : String(value));

function holds(value: unknown, sign: string, wanted: string): boolean {
  const number = Number(wanted);
  if (sign === "~") return text(value).toLowerCase().includes(wanted.toLowerCase());
  if (sign === "=" || sign === "!=") return (typeof value === "number" ? value === number : text(value) === wanted) === (sign === "=");
  if (!Number.isNaN(number) && typeof value !== "number") return false;
  const order = Number.isNaN(number) ? text(value).localeCompare(wanted) : (value as number) - number;
  return sign === "<" ? order < 0 : sign === "<=" ? order <= 0 : sign === ">" ? order > 0 : order >= 0;
}

/** Return whether a line has all words and meets all conditions of a filter; quotes preserve blanks. */
export function fits(filter: string): (line: Line) => boolean {
  const parts = (filter.match(/(?:[^\s"]|"[^"]*")+/g) ?? []).map((part) => part.replaceAll('"', ""));
  return (line) => parts.every((part) => {
    const [, name, sign, wanted] = CONDITION.exec(part) ?? [];
    if (name && name in line) return holds(line[name], sign!, wanted!);
    return [line.id, line.title, line.name, line.env, line.state, line.tags, line.note].some((value) => text(value).toLowerCase().includes(part.toLowerCase()));
  });
}

/** Sort lines by a column; those without a value come last in both directions. */
export function sorted<Row extends Line>(lines: Row[], key: string, isDown: boolean): Row[] {
  const sign = isDown ? -1 : 1;
  return [...lines].sort((a, b) => {
    const [one, other] = [a[key], b[key]];
    if (one == null || other == null) return Number(one == null) - Number(other == null);
    return sign * (typeof one === "number" && typeof other === "number" ? one - other : text(one).localeCompare(text(other)));
  });
}
