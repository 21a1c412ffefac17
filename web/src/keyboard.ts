/** Shortcuts of the application and of a page; inactive while typing. */
import { useEffect, useRef } from "react";

export interface Shortcut {
  /** one key as named by the event ("?", "n", "ArrowLeft"), or two in sequence ("g r") */
  keys: string;
  does: string;
  act: () => void;
}

const active: { list: Shortcut[] }[] = [];
let before: { key: string; at: number } | null = null;

function isWriting(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target.isContentEditable || target.tagName === "TEXTAREA" || target.tagName === "SELECT") return true;
  return target instanceof HTMLInputElement && !["checkbox", "radio", "range", "button"].includes(target.type);
}

function listen(event: KeyboardEvent): void {
  if (event.ctrlKey || event.metaKey || event.altKey || isWriting(event.target)) return;
  if (document.querySelector("dialog[open]")) return;
  const onControl = event.target instanceof HTMLElement && event.target.closest("button, a, input, summary, [role=slider]");
  if (onControl && (event.key === " " || event.key === "Enter" || event.key.startsWith("Arrow"))) return;
  const two = before && event.timeStamp - before.at < 1200 ? `${before.key} ${event.key}` : null;
  before = { key: event.key, at: event.timeStamp };
  for (const wanted of two ? [two, event.key] : [event.key]) {
    for (const { list } of [...active].reverse()) {
      const found = list.find((shortcut) => shortcut.keys === wanted);
      if (!found) continue;
      event.preventDefault();
      before = null;
      found.act();
      return;
    }
  }
}

export function useShortcuts(shortcuts: Shortcut[]): void {
  const entry = useRef({ list: shortcuts });
  entry.current.list = shortcuts;
  useEffect(() => {
    const mine = entry.current;
    if (active.length === 0) window.addEventListener("keydown", listen);
    active.push(mine);
    return () => {
      active.splice(active.indexOf(mine), 1);
      if (active.length === 0) window.removeEventListener("keydown", listen);
    };
  }, []);
}

/** All active shortcuts, those of the page first. */
export function shortcutsNow(): Shortcut[] {
  return [...active].reverse().flatMap(({ list }) => list);
}
