/** Events and state of an artifact: past events are loaded once, new ones come from the stream that all tabs share. */
import { useEffect, useState, useSyncExternalStore } from "react";
import type { LoggedEvent } from "../session/stages";
import { read } from "./client";
import { openPort } from "./port";
import type { components } from "./schema";

export type ArtifactStatus = components["schemas"]["ArtifactStatus"];
export type ArtifactSummary = components["schemas"]["ArtifactSummary"];
type EventPage = { events: LoggedEvent[]; end: number };
interface StreamMessage { artifact?: string; page?: EventPage; status?: ArtifactStatus; running?: ArtifactSummary[] }

export type ToStream = { kind: "follow"; artifact: string; after: number } | { kind: "leave"; artifact: string } | { kind: "close" };
export type FromStream = { kind: "connection"; isConnected: boolean } | { kind: "message"; message: StreamMessage };

export interface Live {
  events: LoggedEvent[];
  status: ArtifactStatus | null;
  isConnected: boolean;
  isLoaded: boolean;
}

type Listener = (message: StreamMessage) => void;

/** The end of the shared stream in this tab, opened on first use. */
class Stream {
  isConnected = false;
  running: ArtifactSummary[] | null = null;
  readonly #listeners = new Map<string, Set<Listener>>();
  readonly #changed = new Set<() => void>();
  #send: ((message: ToStream) => void) | null = null;

  subscribe = (changed: () => void): (() => void) => {
    this.#open();
    this.#changed.add(changed);
    return () => this.#changed.delete(changed);
  };

  follow(artifact: string, after: number, listener: Listener): () => void {
    this.#open();
    const own = this.#listeners.get(artifact) ?? new Set();
    this.#listeners.set(artifact, own.add(listener));
    this.#send!({ kind: "follow", artifact, after });
    return () => {
      own.delete(listener);
      if (own.size > 0) return;
      this.#listeners.delete(artifact);
      this.#send!({ kind: "leave", artifact });
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
      if (data.message.artifact) this.#listeners.get(data.message.artifact)?.forEach((listener) => listener(data.message));
    }
    this.#changed.forEach((changed) => changed());
  }
}

const stream = new Stream();

/** Everything that runs in the workspace; null until known. */
export function useRunning(): ArtifactSummary[] | null {
  return useSyncExternalStore(__SITE__ ? () => () => {} : stream.subscribe, () => stream.running);
}

async function loadEvents(artifact: string): Promise<EventPage> {
  const all: EventPage = { events: [], end: 0 };
  for (;;) {
    const page = await read<EventPage>(`/api/artifacts/${encodeURIComponent(artifact)}/events?after=${all.end}`);
    all.events.push(...page.events);
    if (page.end === all.end) return all;
    all.end = page.end;
    if (__SITE__) return all;
  }
}

/** Follow an artifact: its past events, and new ones while it runs. Ended work needs no stream. */
export function useLive(artifact: string, isRunning: boolean): Live {
  const [live, setLive] = useState<Live & { artifact: string }>({ artifact, events: [], status: null, isConnected: true, isLoaded: false });
  const isConnected = useSyncExternalStore(__SITE__ ? () => () => {} : stream.subscribe, () => stream.isConnected);
  useEffect(() => {
    let leave = () => {};
    let isOver = false;
    setLive((old) => (old.artifact === artifact ? old : { artifact, events: [], status: null, isConnected: true, isLoaded: false }));
    const start = async () => {
      const page = await loadEvents(artifact).catch(() => ({ events: [], end: 0 }));
      if (isOver) return;
      setLive((old) => ({ ...old, events: page.events, isLoaded: true, status: isRunning ? old.status : null }));
      if (!isRunning || __SITE__) return;
      let end = page.end;
      leave = stream.follow(artifact, end, ({ page: more, status }) => {
        // The stream may start at an earlier position that another tab asked for.
        const fresh = more && more.end > end ? more : null;
        if (fresh) end = fresh.end;
        setLive((old) => ({ ...old, status: status ?? old.status, events: fresh ? [...old.events, ...fresh.events] : old.events }));
      });
    };
    void start();
    return () => {
      isOver = true;
      leave();
    };
  }, [artifact, isRunning]);
  return { ...live, isConnected: isConnected || !isRunning, ...(live.artifact === artifact ? {} : { events: [], status: null, isLoaded: false }) };
}
