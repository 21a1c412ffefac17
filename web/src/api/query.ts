/** Loaded data: cached by key, shared between components, loaded again while it changes. */
import { QueryClient, useQuery } from "@tanstack/react-query";
import { Problem } from "./client";

export const queries = new QueryClient({
  defaultOptions: { queries: { retry: false, refetchOnWindowFocus: false, refetchOnReconnect: false, networkMode: "always", gcTime: 10 * 60_000 } },
});

export interface Loaded<Value> {
  value: Value | undefined;
  error: Problem | null;
  reload: () => void;
}

/**
 * Load by a key; a null key loads nothing.
 *
 * The value loaded before under the key is shown at once and replaced by the new answer. `every` repeats the request after so many milliseconds while the
 * page is visible.
 */
export function useLoaded<Value>(key: string | null, load: () => Promise<Value>, every: number | null = null): Loaded<Value> {
  const found = useQuery<Value, Error>({ queryKey: [key], queryFn: load, enabled: key !== null, refetchInterval: every ?? false });
  const error = found.error && (found.error instanceof Problem ? found.error : new Problem(found.error.message));
  return { value: key === null ? undefined : found.data, error: error ?? null, reload: () => void found.refetch() };
}

/** Reload everything whose key has this prefix; without a prefix, everything that is shown. */
export function refresh(...beginnings: string[]): void {
  void queries.invalidateQueries({ predicate: ({ queryKey: [key] }) => beginnings.length === 0 || beginnings.some((each) => String(key).startsWith(each)) });
}
