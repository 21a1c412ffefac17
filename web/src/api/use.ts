/** Load something, keep it, and load it again while it changes. */
import { useCallback, useEffect, useRef, useState } from "react";
import { Problem } from "./client";

export interface Loaded<Value> {
  value: Value | undefined;
  error: Problem | null;
  reload: () => void;
}

const kept = new Map<string, unknown>();

/** Forget what was loaded, so that the next page asks again. */
export function forget(prefix = ""): void {
  for (const key of kept.keys()) if (key.startsWith(prefix)) kept.delete(key);
}

/**
 * Load by a key; a null key loads nothing.
 *
 * What was loaded before under the key is shown at once, and replaced when the new answer is there.
 * `every` asks again after so many milliseconds, not while the page is hidden.
 */
export function useLoaded<Value>(key: string | null, load: () => Promise<Value>, every: number | null = null): Loaded<Value> {
  const [state, setState] = useState<{ key: string | null; value: Value | undefined; error: Problem | null }>({
    key, value: key === null ? undefined : (kept.get(key) as Value | undefined), error: null,
  });
  const [round, setRound] = useState(0);
  const latest = useRef(load);
  latest.current = load;
  useEffect(() => {
    if (key === null) return undefined;
    let isOver = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const ask = async () => {
      try {
        const value = await latest.current();
        kept.set(key, value);
        if (!isOver) setState({ key, value, error: null });
      } catch (error) {
        const problem = error instanceof Problem ? error : new Problem(error instanceof Error ? error.message : String(error));
        if (!isOver) setState((old) => ({ key, value: old.key === key ? old.value : undefined, error: problem }));
      }
      if (!isOver && every !== null) timer = setTimeout(again, every);
    };
    const again = () => {
      if (document.hidden) timer = setTimeout(again, every ?? 1000);
      else void ask();
    };
    void ask();
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [key, every, round]);
  const reload = useCallback(() => setRound((number) => number + 1), []);
  const mine = state.key === key;
  return { value: mine ? state.value : key === null ? undefined : (kept.get(key) as Value | undefined), error: mine ? state.error : null, reload };
}
