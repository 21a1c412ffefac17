/** Events and state of an artifact: past events are loaded once, new ones come from the stream that all tabs share. */
import { useEffect, useState, useSyncExternalStore } from "react";
import type { LoggedEvent } from "../session/stages";
import { read } from "./client";
import { openPort } from "./port";
import type { components } from "./schema";

export type ArtifactPulse = components["schemas"]["ArtifactPulse"];
export type ArtifactLine = components["schemas"]["ArtifactLine"];
type EventPage = { events: LoggedEvent[]; end: number };
interface StreamMessage { thing?: string; page?: EventPage; pulse?: ArtifactPulse; running?: ArtifactLine[] }

export type ToStream = { kind: "follow"; thing: string; after: number } | { kind: "leave"; thing: string } | { kind: "close" };
export type FromStream = { kind: "connection"; isConnected: boolean } | { kind: "message"; message: StreamMessage };

export interface Live {
  events: LoggedEvent[];
  pulse: ArtifactPulse | null;
  isConnected: boolean;
  isLoaded: boolean;
}

type Listener = (message: StreamMessage) => void;

/** The end of the shared stream in this tab, opened on first use. */
class Stream {
  isConnected = false;
  running: ArtifactLine[] | null = null;
  readonly #listeners = new Map<string, Set<Listener>>();
  readonly #changed = new Set<() => void>();
  #send: ((message: ToStream) => void) | null = null;

  subscribe = (changed: () => void): (() => void) => {
    this.#open();
    this.#changed.add(changed);
    return () => this.#changed.delete(changed);
  };

  follow(thing: string, after: number, listener: Listener): () => void {
    this.#open();
    const own = this.#listeners.get(thing) ?? new Set();
    this.#listeners.set(thing, own.add(listener));
    this.#send!({ kind: "follow", thing, after });
    return () => {
      own.delete(listener);
      if (own.size > 0) return;
      this.#listeners.delete(thing);
      this.#send!({ kind: "leave", thing });
    };
  }

  #open(): void {
    if (this.#send) return;
    this.#send = openPort((message) => this.#receive(message));
    window.addEventListener("pagehide", () => this.#send!({ kind: "close" }));
  }

  #receive(data: FromStream): void {
    if (data.kind === "connection") this.isConnected = data.isConnected;
    else {
      if (data.message.running) this.running = data.message.running;
      if (data.message.thing) this.#listeners.get(data.message.thing)?.forEach((listener) => listener(data.message));
    }
    this.#changed.forEach((changed) => changed());
  }
}

const stream = new Stream();

/** Everything that runs in the workspace; null until known. */
export function useRunning(): ArtifactLine[] | null {
  return useSyncExternalStore(__SITE__ ? () => () => {} : stream.subscribe, () => stream.running);
}

async function loadEvents(thing: string): Promise<EventPage> {
  const all: EventPage = { events: [], end: 0 };
  for (;;) {
    const page = await read<EventPage>(`/api/artifacts/${encodeURIComponent(thing)}/events?after=${all.end}`);
    all.events.push(...page.events);
    if (page.end === all.end) return all;
    all.end = page.end;
    if (__SITE__) return all;
  }
}

/** Follow an artifact: its past events, and new ones while it runs. Ended work needs no stream. */
export function useLive(thing: string, isRunning: boolean): Live {
  const [live, setLive] = useState<Live & { thing: string }>({ thing, events: [], pulse: null, isConnected: true, isLoaded: false });
  const isConnected = useSyncExternalStore(__SITE__ ? () => () => {} : stream.subscribe, () => stream.isConnected);
  useEffect(() => {
    let leave = () => {};
    let isOver = false;
    setLive((old) => (old.thing === thing ? old : { thing, events: [], pulse: null, isConnected: true, isLoaded: false }));
    const start = async () => {
      const page = await loadEvents(thing).catch(() => ({ events: [], end: 0 }));
      if (isOver) return;
      setLive((old) => ({ ...old, events: page.events, isLoaded: true, pulse: isRunning ? old.pulse : null }));
      if (!isRunning || __SITE__) return;
      let end = page.end;
      leave = stream.follow(thing, end, ({ page: more, pulse }) => {
        // The stream may start at an earlier position that another tab asked for.
        const fresh = more && more.end > end ? more : null;
        if (fresh) end = fresh.end;
        setLive((old) => ({ ...old, pulse: pulse ?? old.pulse, events: fresh ? [...old.events, ...fresh.events] : old.events }));
      });
    };
    void start();
    return () => {
      isOver = true;
      leave();
    };
  }, [thing, isRunning]);
  return { ...live, isConnected: isConnected || !isRunning, ...(live.thing === thing ? {} : { events: [], pulse: null, isLoaded: false }) };
}
