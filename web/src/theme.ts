/** The theme: dark, light, or that of the system; stored in this browser. */
import { useSyncExternalStore } from "react";
import { remembered, remember } from "./memory";

export type Theme = "system" | "light" | "dark";

const listeners = new Set<() => void>();
const system = window.matchMedia("(prefers-color-scheme: dark)");

function apply(): void {
  const theme = chosen();
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  listeners.forEach((notify) => notify());
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
  system.addEventListener("change", () => listeners.forEach((notify) => notify()));
}

function subscribe(notify: () => void): () => void {
  listeners.add(notify);
  return () => listeners.delete(notify);
}

/** The theme in effect; canvases are drawn again when it changes. */
export function useTheme(): "light" | "dark" {
  return useSyncExternalStore(subscribe, () => {
    const theme = chosen();
    return theme === "system" ? (system.matches ? "dark" : "light") : theme;
  });
}

export function useChosenTheme(): Theme {
  return useSyncExternalStore(subscribe, chosen);
}

/** The value of a color of the style sheet. */
export function color(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

export const COLORS = 12;

/** The name of the color of a curve. */
export function seriesName(index: number): string {
  return `c${(index % COLORS) + 1}`;
}

export function seriesColor(index: number): string {
  return color(seriesName(index));
}
