/**
 * One event stream for all tabs of a browser.
 *
 * A browser opens at most six connections to a server, so tabs share one stream through this worker. It follows the union of the artifacts that tabs show,
 * and reopens the stream when that changes. As a plain worker, where a browser has no shared ones, it serves one tab.
 */
import type { FromStream, ToStream } from "./live";

interface Port { postMessage: (message: FromStream) => void }

const SETTLE_MS = 80;
const RETRY_MS = 1500;
const wanted = new Map<Port, Set<string>>();
/** position in the log of each artifact up to which events were delivered */
const positions = new Map<string, number>();
let source: EventSource | null = null;
let timer: ReturnType<typeof setTimeout> | undefined;
let isConnected = false;
let running: FromStream | null = null;

function broadcast(message: FromStream, artifact?: string): void {
  for (const [port, artifacts] of wanted) if (artifact === undefined || artifacts.has(artifact)) port.postMessage(message);
}

function setConnected(value: boolean): void {
  isConnected = value;
  broadcast({ kind: "connection", isConnected });
}

function plan(delay: number): void {
  clearTimeout(timer);
  timer = setTimeout(open, delay);
}

function open(): void {
  source?.close();
  source = null;
  if (wanted.size === 0) return;
  const artifacts = [...new Set([...wanted.values()].flatMap((each) => [...each]))];
  const query = new URLSearchParams(artifacts.flatMap((artifact) => [["artifact", artifact], ["after", String(positions.get(artifact) ?? 0)]]));
  const opened = new EventSource(`/api/stream?${query}`);
  source = opened;
  opened.onopen = () => setConnected(true);
  opened.onerror = () => {
    opened.close(); // the next request names the current positions
    setConnected(false);
    plan(RETRY_MS);
  };
  opened.onmessage = ({ data }) => {
    const message = JSON.parse(data as string) as Extract<FromStream, { kind: "message" }>["message"];
    if (message.artifact && message.page) positions.set(message.artifact, message.page.end);
    const sent: FromStream = { kind: "message", message };
    if (message.running) running = sent;
    broadcast(sent, message.artifact ?? undefined);
  };
}

function connect(port: Port & { onmessage: ((event: MessageEvent) => void) | null }): void {
  wanted.set(port, new Set());
  port.onmessage = ({ data }: MessageEvent<ToStream>) => {
    const artifacts = wanted.get(port);
    if (data.kind === "close") wanted.delete(port);
    else if (data.kind === "leave") artifacts?.delete(data.artifact);
    else if (artifacts) {
      artifacts.add(data.artifact);
      positions.set(data.artifact, Math.min(positions.get(data.artifact) ?? data.after, data.after)); // a tab drops duplicates
    }
    plan(SETTLE_MS);
  };
  port.postMessage({ kind: "connection", isConnected });
  if (running) port.postMessage(running);
  plan(SETTLE_MS);
}

if ("onconnect" in self) (self as unknown as { onconnect: (event: MessageEvent) => void }).onconnect = (event) => connect(event.ports[0]!);
else connect(self as unknown as Parameters<typeof connect>[0]);
