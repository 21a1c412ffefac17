/** The newest episodes of an artifact in a small player, and links to the full player and the live policy. */
import { useEffect, useState } from "react";
import { Link } from "wouter";
import { api, got, type Schema } from "../api/client";
import { useLoaded } from "../api/query";
import { Panel } from "../components/basics";
import { envName } from "../format";
import { EpisodePlayer, recordingName } from "./player";

type ArtifactFile = Schema<"ArtifactFile">;

/** Label of the episode that is recorded before training. */
const UNTRAINED = "untrained network";

export function VideoPanel({ artifact, env, iteration, member, isLive }: { artifact: string; env: string | null; iteration: number | null; member: string | null; isLive: boolean }) {
  const files = useLoaded(`files:${artifact}`, () => got(api.GET("/api/artifacts/{artifact}/files", { params: { path: { artifact }, query: { kind: ["video", "recording"] } } })), isLive ? 3000 : null);
  const [chosen, setChosen] = useState<string | null>(null);
  useEffect(() => setChosen(null), [artifact]);
  const recordings = (files.value ?? []).filter((file) => file.kind === "recording" && (iteration === null || file.iteration === iteration));
  const untrained = (files.value ?? []).filter((file) => file.kind === "recording" && file.label === UNTRAINED);
  const own = recordings.filter((file) => member === null || file.member === member);
  const offered = recordings.length ? newest(own.length ? own : recordings) : untrained;
  const videos = (files.value ?? []).filter((file) => file.kind === "video");
  const shown = offered.find((file) => file.key === chosen) ?? offered.find((file) => file.label === "median") ?? offered[0];
  return (
    <Panel title="Episode" actions={shown && (
      <>
        <select aria-label="Episode" value={shown.key} onChange={(event) => setChosen(event.target.value)} style={{ flex: "1 1 11rem", maxWidth: "20rem" }}>
          {offered.map((file) => <option key={file.key} value={file.key}>{recordingName(iteration === null ? file : { ...file, iteration: null })}</option>)}
        </select>
        <Link className="small" href={`/play/${artifact}?file=${shown.key}`}>player</Link>
        {!__SITE__ && <Link className="small" href={`/live/${artifact}`} title="Run the policy interactively in the browser">live</Link>}
      </>
    )}>
      {shown ? <EpisodePlayer artifact={artifact} file={shown.key} /> : isLive ? (
        <figure className="column" key={env}>
          {env && <img src={`/api/pictures/${encodeURIComponent(env)}`} alt={envName(env)} style={{ width: "100%", borderRadius: "0.5rem" }} onError={(event) => event.currentTarget.remove()} />}
          <figcaption className="soft">The first episode is recorded at the first evaluation.</figcaption>
        </figure>
      ) : <p className="soft">No episodes recorded.</p>}
      {videos.length > 0 && (
        <details style={{ marginTop: "0.6rem" }}>
          <summary>{videos.length === 1 ? "Video" : `${videos.length} videos`}</summary>
          <video src={videos[0]!.url} controls muted loop playsInline preload="metadata" aria-label="Video of an episode" />
        </details>
      )}
    </Panel>
  );
}

/** Judged episodes, and the recordings of the newest checkpoint. */
function newest(files: ArtifactFile[]): ArtifactFile[] {
  const last = Math.max(0, ...files.map((file) => file.step ?? 0));
  return [...files.filter((file) => !file.is_judged && (file.step ?? 0) === last), ...files.filter((file) => file.is_judged)].slice(0, 60);
}
