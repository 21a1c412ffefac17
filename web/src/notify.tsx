/** Notify when work ends: a message on the page, and a system notification if allowed. */
import { useEffect, useRef, useState } from "react";
import { read, type Schema } from "./api/client";
import { useRunning } from "./api/live";
import { refresh } from "./api/query";
import { Icon } from "./components/icons";
import { say } from "./components/toast";
import { score, words } from "./format";

/** Follow running work, and report what has ended. */
export function useEndings(): void {
  const running = useRunning();
  const before = useRef<Map<string, string> | null>(null);
  useEffect(() => {
    if (running === null) return;
    const now = new Map(running.map((line) => [line.id, line.state]));
    const old = before.current;
    before.current = now;
    if (old === null) return;
    const ended = [...old.keys()].filter((id) => !now.has(id));
    if (ended.length > 0 || now.size !== old.size) refresh("artifacts", "recent", "gallery", "artifact:");
    for (const id of ended) void report(id);
  }, [running]);
}

async function report(id: string): Promise<void> {
  const found = await read<Schema<"ArtifactDetail">>(`/api/artifacts/${encodeURIComponent(id)}`).catch(() => null);
  if (!found) return;
  const { line } = found;
  const limits = line.limits.length ? ` (${line.limits.join(", ")})` : "";
  const text = `${words(line.state)}${limits}${line.score == null ? "" : `, score ${score(line.score)}`}`;
  const title = line.name ?? line.title;
  say(`${title}: ${text}`, line.state === "passed" || line.state === "completed" ? "good" : "");
  if ("Notification" in window && Notification.permission === "granted" && document.hidden) new Notification(title, { body: text, tag: id }); // one for all tabs
}

export function NotificationButton() {
  const [permission, setPermission] = useState(() => ("Notification" in window ? Notification.permission : "denied"));
  if (permission !== "default") return null;
  const allow = async () => setPermission(await Notification.requestPermission());
  return <button type="button" className="plain" onClick={allow} aria-label="Notify me when runs finish" title="Notify me when runs finish"><Icon name="bell" /></button>;
}
