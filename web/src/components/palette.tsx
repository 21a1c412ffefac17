/** The command palette: pages, sessions and runs by name, and words in rewards and work orders. */
import { useDeferredValue, useEffect, useRef, useState } from "react";
import { useLocation } from "wouter";
import { api, got, read, type Schema } from "../api/client";
import { useLoaded } from "../api/query";
import { envName, shortId, words } from "../format";

interface Entry {
  key: string;
  title: string;
  note: string;
  path: string;
}

export function Palette({ pages, onClose }: { pages: { path: string; name: string }[]; onClose: () => void }) {
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const [, go] = useLocation();
  const box = useRef<HTMLDialogElement>(null);
  const wanted = text.trim().toLowerCase(); // not deferred: Enter right after typing opens the match of the whole text
  const sought = useDeferredValue(wanted);
  const artifacts = useLoaded("artifacts", () => got(api.GET("/api/artifacts")));
  const found = useLoaded(sought.length >= 3 ? `find:${sought}` : null, () => read<Schema<"TextMatch">[]>(`/api/find?words=${encodeURIComponent(sought)}`));
  useEffect(() => box.current?.showModal(), []);
  useEffect(() => setAt(0), [wanted]);
  const fits = (...texts: (string | null | undefined)[]) => wanted.split(/\s+/).every((word) => texts.some((each) => each?.toLowerCase().includes(word)));
  const byName = (artifacts.value?.artifacts ?? []).filter((line) => fits(line.title, line.name, line.env, line.id, line.state, ...line.tags)).slice(0, 8);
  const entries: Entry[] = [
    ...pages.filter((page) => fits(page.name)).map((page) => ({ key: page.path, title: page.name, note: "page", path: page.path })),
    ...byName.map((line) => ({ key: line.id, title: line.name ?? (line.title || line.id), note: `${line.kind} · ${envName(line.env)} · ${words(line.state)} · ${shortId(line.id)}`, path: `/runs/${line.id}` })),
    ...(found.value ?? []).filter((each) => each.where !== "intent").slice(0, 12).map((each) => ({ key: `${each.line.id}:${each.where}`, title: each.text, note: `${each.where} of ${each.line.name ?? each.line.title} · ${shortId(each.line.id)}`, path: placeOf(each) })),
  ];
  const open = (entry: Entry | undefined) => {
    if (!entry) return;
    onClose();
    go(entry.path);
  };
  return (
    <dialog ref={box} className="palette" onClose={onClose} aria-label="Search">
      <div>
        <input type="search" autoFocus role="combobox" aria-expanded="true" aria-controls="palette-list" aria-activedescendant={entries[at] ? `palette-${at}` : undefined} aria-label="Search pages, runs, rewards and work orders" placeholder="Search pages, runs, rewards and work orders" value={text}
          onChange={(event) => setText(event.target.value)}
          onKeyDown={(event) => {
            const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
            if (step) {
              event.preventDefault();
              setAt((old) => Math.max(0, Math.min(entries.length - 1, old + step)));
            } else if (event.key === "Enter") {
              event.preventDefault();
              open(entries[at]);
            }
          }} />
        <ul id="palette-list" role="listbox" aria-label="Results">
          {entries.map((entry, index) => (
            <li key={entry.key} id={`palette-${index}`} role="option" aria-selected={index === at} onMouseMove={() => setAt(index)} onClick={() => open(entry)}>
              <span>{entry.title}</span><small>{entry.note}</small>
            </li>
          ))}
          {entries.length === 0 && <li className="soft" role="option" aria-selected="false">{found.value ? "No results" : "Searching…"}</li>}
        </ul>
      </div>
    </dialog>
  );
}

function placeOf({ line, where }: Schema<"TextMatch">): string {
  const iteration = where.match(/^iter_(\d+)\//)?.[1];
  return `/runs/${line.id}${iteration ? `/candidates/${iteration}` : ""}`;
}
