/** The events of a thing, those that were and those that come; nothing is lost by a reload. */
import { useEffect, useRef, useState } from "react";
import type { LoggedEvent } from "../session/stages";
import { site } from "../site/answers";
import type { components } from "./schema";

export type ThingPulse = components["schemas"]["ThingPulse"];

export interface Live {
  events: LoggedEvent[];
  pulse: ThingPulse | null;
  isConnected: boolean;
}

/** Follow a thing. New events are handed on once per picture, however many come. */
export function useLive(thing: string | null): Live {
  const [live, setLive] = useState<Live>({ events: [], pulse: null, isConnected: false });
  const waiting = useRef<LoggedEvent[]>([]);
  useEffect(() => {
    if (thing === null) return undefined;
    if (site) {
      setLive({ events: site.events, pulse: null, isConnected: true });
      return undefined;
    }
    setLive({ events: [], pulse: null, isConnected: false });
    waiting.current = [];
    const source = new EventSource(`/api/things/${encodeURIComponent(thing)}/stream`);
    let timer: ReturnType<typeof setTimeout> | undefined;
    const flush = () => {
      timer = undefined;
      const fresh = waiting.current;
      waiting.current = [];
      if (fresh.length) setLive((old) => ({ ...old, events: [...old.events, ...fresh] }));
    };
    source.onopen = () => setLive((old) => ({ ...old, isConnected: true }));
    source.onerror = () => setLive((old) => ({ ...old, isConnected: false }));
    source.onmessage = (message) => {
      waiting.current.push(JSON.parse(message.data as string) as LoggedEvent);
      timer ??= setTimeout(flush, 60);
    };
    source.addEventListener("pulse", (message) => setLive((old) => ({ ...old, pulse: JSON.parse(message.data as string) as ThingPulse })));
    return () => {
      clearTimeout(timer);
      source.close();
    };
  }, [thing]);
  return live;
}
