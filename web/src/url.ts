/** State in the address: filters, sorting, tabs, episodes, times. */
import { useCallback } from "react";
import { useSearchParams } from "wouter";

/** A parameter of the address; the fallback is left out of it. Setting it replaces the entry of the history. */
export function useUrl(name: string, fallback = ""): [string, (value: string) => void] {
  const [search, setSearch] = useSearchParams();
  const set = useCallback((value: string) => {
    setSearch(() => {
      const next = new URLSearchParams(__SITE__ ? window.location.hash.split("?")[1] : window.location.search); // including changes of other setters
      if (value === fallback) next.delete(name);
      else next.set(name, value);
      return next;
    }, { replace: true });
  }, [setSearch, name, fallback]);
  return [search.get(name) ?? fallback, set];
}
