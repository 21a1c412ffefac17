/** Dark, light, or as the system says; kept on this computer. */
import { useSyncExternalStore } from "react";
import { remembered, remember } from "./memory";

export type Theme = "system" | "light" | "dark";

const listeners = new Set<() => void>();
const system = window.matchMedia("(prefers-color-scheme: dark)");

function apply(): void {
  const theme = chosen();
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  listeners.forEach((tell) => tell());
}

function chosen(): Theme {
  return remembered<Theme>("theme", "system");
}

export function setTheme(theme: Theme): void {
  remember("theme", theme);
  apply();
}

export function startTheme(): void {
  apply();
  system.addEventListener("change", () => listeners.forEach((tell) => tell()));
}

function subscribe(tell: () => void): () => void {
  listeners.add(tell);
  return () => listeners.delete(tell);
}

/** The theme that is seen, "light" or "dark"; whoever draws on a canvas draws again when it changes. */
export function useTheme(): "light" | "dark" {
  return useSyncExternalStore(subscribe, () => {
    const theme = chosen();
    return theme === "system" ? (system.matches ? "dark" : "light") : theme;
  });
}

export function useChosenTheme(): Theme {
  return useSyncExternalStore(subscribe, chosen);
}

/** The value of a colour of the style sheet. */
export function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

export function seriesColour(index: number): string {
  return colour(`c${(index % 6) + 1}`);
}
