/** What this browser remembers: theme, columns, saved views. Nothing of the work is kept here. */
const PREFIX = "telic.";

export function remembered<Value>(name: string, fallback: Value): Value {
  try {
    const text = localStorage.getItem(PREFIX + name);
    return text === null ? fallback : (JSON.parse(text) as Value);
  } catch {
    return fallback; // storage is forbidden or holds what another version wrote
  }
}

export function remember(name: string, value: unknown): void {
  try {
    localStorage.setItem(PREFIX + name, JSON.stringify(value));
  } catch {
    // storage is forbidden or full: the page works, and forgets
  }
}
