/** The newest film of a thing, and the way to the player. */
import { useEffect, useState } from "react";
import { Link } from "wouter";
import { api, got } from "../api/client";
import { useLoaded } from "../api/use";
import { Panel } from "../components/basics";
import { short, words } from "../format";
import { EpisodePlayer } from "./player";

interface FilmProps {
  thing: string;
  iteration: number | null;
  member: string | null;
  isLive: boolean;
}

export function FilmPanel({ thing, iteration, member, isLive }: FilmProps) {
  const files = useLoaded(`files:${thing}`, () => got(api.GET("/api/things/{thing}/files", { params: { path: { thing }, query: { kind: ["video", "recording"] } } })), isLive ? 5000 : null);
  const [chosen, setChosen] = useState<string | null>(null);
  useEffect(() => setChosen(null), [thing]);
  const recordings = (files.value ?? []).filter((file) => file.kind === "recording" && (iteration === null || file.iteration === iteration));
  const own = recordings.filter((file) => member === null || file.member === member);
  const offered = newest(own.length ? own : recordings);
  const videos = (files.value ?? []).filter((file) => file.kind === "video");
  const shown = offered.find((file) => file.key === chosen) ?? offered.find((file) => file.label === "median") ?? offered[0];
  return (
    <Panel title="See it" actions={shown && (
      <>
        <select aria-label="Episode" value={shown.key} onChange={(event) => setChosen(event.target.value)} style={{ maxWidth: "13rem" }}>
          {offered.map((file) => <option key={file.key} value={file.key}>{nameOf(file)}</option>)}
        </select>
        <Link className="small" href={`/play/${thing}?file=${shown.key}`}>player</Link>
        {!__SITE__ && <Link className="small" href={`/live/${thing}`} title="Run the policy in this page: push it, drive it">live</Link>}
      </>
    )}>
      {shown ? <EpisodePlayer thing={thing} file={shown.key} isSmall /> : <p className="soft">{isLive ? "The first film comes with the first evaluation." : "Nothing was recorded."}</p>}
      {videos.length > 0 && (
        <details style={{ marginTop: "0.6rem" }}>
          <summary>{videos.length === 1 ? "Video" : `${videos.length} videos`}</summary>
          <video src={videos[0]!.url} controls muted loop playsInline preload="metadata" aria-label="video of an episode" />
        </details>
      )}
    </Panel>
  );
}

interface Recording {
  key: string;
  label?: string | null;
  step?: number | null;
  member?: string | null;
  is_judged?: boolean;
  iteration?: number | null;
}

function nameOf(file: Recording): string {
  const episode = file.is_judged ? `judged episode ${file.label}` : `${file.label ?? "episode"} at ${short(file.step)}`;
  return `${episode} · ${words(file.member ?? "")}`;
}

/** Judged episodes, and the recordings of the newest checkpoint. */
function newest<File extends Recording>(files: File[]): File[] {
  const last = Math.max(0, ...files.map((file) => file.step ?? 0));
  return [...files.filter((file) => !file.is_judged && file.step === last), ...files.filter((file) => file.is_judged)].slice(0, 60);
}
