/** Formats of numbers, times and names; an unknown number is a dash, never 0. */

export const UNKNOWN = "–";

/** created once: a table that scrolls formats hundreds of numbers per second */
const DECIMALS = Array.from({ length: 7 }, (_, most) => new Intl.NumberFormat("en-GB", { maximumFractionDigits: most }));

export function number(value: number | null | undefined, digits = 3): string {
  if (value === null || value === undefined || Number.isNaN(value)) return UNKNOWN;
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  if (value === 0) return "0"; // −0 too
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e7)) return minus(value.toExponential(Math.max(0, digits - 1)));
  const decimals = size >= 10 ** digits || Number.isInteger(value) ? 0 : Math.max(0, digits - 1 - Math.floor(Math.log10(size || 1)));
  return minus(DECIMALS[Math.min(decimals, 6)]!.format(value));
}

/** A judge's score, the same on every page: two digits after the point. */
export function score(value: number | null | undefined): string {
  return value === null || value === undefined || Number.isNaN(value) ? UNKNOWN : value.toFixed(2);
}

export function count(value: number | null | undefined): string {
  return value === null || value === undefined ? UNKNOWN : DECIMALS[0]!.format(Math.round(value));
}

/** 750000 as 750k, for axes and narrow cells. */
export function short(value: number | null | undefined): string {
  if (value === null || value === undefined) return UNKNOWN;
  const size = Math.abs(value);
  for (const [limit, letter] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]] as const)
    if (size >= limit) return minus(`${+(value / limit).toPrecision(3)}${letter}`);
  return number(value);
}

export function percent(value: number | null | undefined): string {
  if (value === null || value === undefined) return UNKNOWN;
  return `${(value * 100).toFixed(value !== 0 && Math.abs(value) < 0.01 ? 1 : 0)}%`;
}

export function duration(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined) return UNKNOWN;
  if (seconds < 0.1) return `${number(seconds * 1000, 2)} ms`;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.round(seconds % 60)} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

export function money(usd: number | null | undefined): string {
  if (usd === null || usd === undefined) return "unknown";
  return usd === 0 ? "$0" : usd < 0.01 ? `$${usd.toFixed(4)}` : `$${usd.toFixed(2)}`;
}

export function bytes(size: number | null | undefined): string {
  if (size === null || size === undefined) return UNKNOWN;
  for (const [limit, unit] of [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]] as const)
    if (size >= limit) return `${number(size / limit)} ${unit}`;
  return `${size} B`;
}

/** Time elapsed since a moment in seconds since 1970. */
export function ago(time: number | null | undefined, now = Date.now() / 1000): string {
  if (!time) return UNKNOWN;
  const seconds = Math.max(0, now - time);
  if (seconds < 45) return "just now";
  if (seconds < 3600) return `${Math.max(1, Math.round(seconds / 60))} min ago`;
  if (seconds < 86400) return `${Math.round(seconds / 3600)} h ago`;
  if (seconds < 86400 * 14) return `${Math.round(seconds / 86400)} d ago`;
  return new Date(time * 1000).toISOString().slice(0, 10);
}

export function clock(time: number | null | undefined): string {
  return time ? new Date(time * 1000).toLocaleTimeString("en-GB") : "";
}

/** session_20261116_033324_3a9260c7 as 3a9260c7. */
export function shortId(id: string): string {
  return id.match(/^[a-z]+_\d{8}_\d{6}_([0-9a-f]+)$/)?.[1] ?? id;
}

const STATES: Record<string, string> = { passed_in_part: "partial pass", not_passed: "not passed", unconfirmed: "not confirmed" };

/** A name of the records in words. */
export function words(text: string): string {
  return STATES[text] ?? text.replaceAll("_", " ");
}

/** "1 session", "2 sessions". */
export function plural(many: number, one: string, several = `${one}s`): string {
  return `${count(many)} ${many === 1 ? one : several}`;
}

function minus(text: string): string {
  return text.replace(/^-/, "−");
}

/** The name of an environment; of a file, without its folders. */
export function envName(env: string | null | undefined): string {
  return env ? (env.includes("/") && /\.\w+$/.test(env) ? env.slice(env.lastIndexOf("/") + 1).replace(/\.\w+$/, "") : env) : UNKNOWN;
}
