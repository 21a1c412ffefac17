/** Videos of trained policies with prompts and scores, and links to play, branch and export. */
import { useEffect, useRef, useState } from "react";
import { Link } from "wouter";
import { useAbout } from "../api/about";
import { read, type Schema } from "../api/client";
import { useLoaded } from "../api/query";
import { Badge, PageHead } from "../components/basics";
import { Empty, Ready } from "../components/states";
import { ago, envName, number, score } from "../format";
import { useUrl } from "../url";
import { BranchDialog } from "./actions";

type Card = Schema<"GalleryCard">;

export default function GalleryPage() {
  const cards = useLoaded("gallery", () => read<Card[]>("/api/gallery"), 10_000);
  const [filter, setFilter] = useUrl("filter");
  const [only, setOnly] = useUrl("only");
  const fits = ({ line }: Card) => `${line.title} ${line.name ?? ""} ${line.env ?? ""} ${line.tags.join(" ")}`.toLowerCase().includes(filter.toLowerCase()) && (!only || line.state === "passed");
  return (
    <>
      <PageHead title="Gallery" lede="Trained policies, newest first." actions={<><label className="row small"><input type="checkbox" checked={only !== ""} onChange={(event) => setOnly(event.target.checked ? "passed" : "")} />Passed only</label><input type="search" aria-label="Filter the gallery" placeholder="filter" value={filter} onChange={(event) => setFilter(event.target.value)} /></>} />
      <Ready of={cards}>
        {(all) => {
          const shown = all.filter(fits);
          if (shown.length === 0) return <Empty title={all.length === 0 ? "No videos yet" : "No videos match"}>{all.length === 0 && <><p>Each session renders a video of its median episode when it finishes.</p><Link href="/" className="button">Describe a behavior</Link></>}</Empty>;
          return <div className="gallery">{shown.map((card) => <GalleryCard key={card.line.id} card={card} />)}</div>;
        }}
      </Ready>
    </>
  );
}

function GalleryCard({ card: { line, video, low } }: { card: Card }) {
  const [isBranching, setBranching] = useState(false);
  const about = useAbout();
  const title = line.name ?? (line.kind === "session" ? line.title : `${line.title} on ${envName(line.env)}`);
  const isSession = line.kind === "session";
  return (
    <article className="panel card">
      <PlayingVideo source={video} label={`Video: ${title}`} />
      <div className="body">
        <h2><Link href={`/runs/${line.id}`}>{title}</Link></h2>
        <p className="row small soft"><Badge state={line.state} limits={line.limits} /><span>{envName(line.env)}</span>{line.score != null && <span>score {score(line.score)}{low != null && ` (lower bound ${score(low)})`}</span>}{line.best_return != null && <span>return {number(line.best_return, 4)}</span>}<span>{ago(line.updated)}</span></p>
        {!about.isReadOnly && (
          <div className="row">
            <Link className="button" href={`/live/${line.id}`}>Play live</Link>
            {isSession && (line.iterations ?? 0) > 0 && <button type="button" onClick={() => setBranching(true)}>Branch</button>}
            {isSession && <Link className="button" href={`/runs/${line.id}/report`}>Export</Link>}
          </div>
        )}
      </div>
      {isBranching && <Branching artifact={line.id} onClose={() => setBranching(false)} />}
    </article>
  );
}

function Branching({ artifact, onClose }: { artifact: string; onClose: () => void }) {
  const detail = useLoaded(`artifact:${artifact}`, () => read<Schema<"ArtifactDetail">>(`/api/artifacts/${encodeURIComponent(artifact)}`));
  const judged = (detail.value?.session?.iterations ?? []).filter((each) => each.is_judged).map((each) => each.number);
  if (judged.length === 0) return null;
  return <BranchDialog artifact={artifact} iterations={judged} best={detail.value!.session!.summary?.best_iteration ?? judged.at(-1)!} onClose={onClose} />;
}

/** A video that plays while it is visible, unless the reader prefers less motion. */
function PlayingVideo({ source, label }: { source: string; label: string }) {
  const video = useRef<HTMLVideoElement>(null);
  useEffect(() => {
    const shown = video.current;
    if (!shown || window.matchMedia("(prefers-reduced-motion: reduce)").matches) return undefined;
    const observer = new IntersectionObserver(([entry]) => (entry!.isIntersecting ? void shown.play().catch(() => {}) : shown.pause()));
    observer.observe(shown);
    return () => observer.disconnect();
  }, [source]);
  const [hasControls, setControls] = useState(false); // the controls cover the robot
  return <video ref={video} src={source} muted loop playsInline controls={hasControls} tabIndex={0} onMouseEnter={() => setControls(true)} onMouseLeave={() => setControls(false)} onFocus={() => setControls(true)} preload="metadata" aria-label={label} />;
}
