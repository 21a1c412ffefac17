/** Preferences of this browser: theme, columns, saved views, the draft of an intent. */
const PREFIX = "telic.";

export function remembered<Value>(name: string, fallback: Value): Value {
  try {
    const text = localStorage.getItem(PREFIX + name);
    return text === null ? fallback : (JSON.parse(text) as Value);
  } catch {
    return fallback; // storage is forbidden, or another version wrote it
  }
}

export function remember(name: string, value: unknown): void {
  try {
    localStorage.setItem(PREFIX + name, JSON.stringify(value));
  } catch {
    // storage is forbidden or full: nothing is stored
  }
}
