/** The location in a saved page: behind the # of its address, with the query. */
import { useSyncExternalStore } from "react";
import type { BaseLocationHook } from "wouter";

function here(): string {
  return window.location.hash.replace(/^#/, "") || "/";
}

function listen(act: () => void): () => void {
  window.addEventListener("hashchange", act);
  return () => window.removeEventListener("hashchange", act);
}

const go = (to: string): void => {
  window.location.hash = to;
};

export const useSavedPlace = (() => [useSyncExternalStore(listen, () => here().split("?")[0]!), go]) as BaseLocationHook & { hrefs: (href: string) => string };
useSavedPlace.hrefs = (href: string) => `#${href}`;
export const useSavedSearch = (): string => useSyncExternalStore(listen, () => here().split("?")[1] ?? "");
