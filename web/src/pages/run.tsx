/** A training run: its policies, curves and episodes. */
import { Link } from "wouter";
import { useAbout } from "../api/about";
import type { Schema } from "../api/client";
import { useLive } from "../api/live";
import { Badge, Command, Facts, Figures, PageHead, Panel } from "../components/basics";
import { TermStack, TrainingCurves } from "../components/curves";
import { count, duration, envName, number, short, shortId, words } from "../format";
import { findingsOf } from "../session/stages";
import { flat } from "../session/flat";
import { Tags, WorkActions } from "./actions";
import { TrackingPanels } from "./tracking";
import { VideoPanel } from "./video";

type Detail = Schema<"ArtifactDetail">;

export default function RunPage({ detail, run, reload }: { detail: Detail; run: NonNullable<Detail["run"]>; reload: () => void }) {
  const live = useLive(detail.line.id, detail.line.is_running);
  const about = useAbout();
  const line = { ...detail.line, state: live.status?.state ?? detail.line.state, is_running: live.status?.is_running ?? detail.line.is_running };
  const training = live.status?.training;
  const findings = findingsOf(live.events);
  return (
    <>
      <PageHead title={line.name ?? `${line.title} on ${envName(line.env)}`} lede={<span className="row"><Badge state={line.state} /><code className="small">{shortId(line.id)}</code></span>}
        actions={about.isReadOnly ? undefined : <><Link className="button" href={`/compare?id=${line.id}`}>Compare</Link><WorkActions line={line} canResume={line.state !== "completed"} reload={reload} /></>} />
      <div className="stacked" style={{ marginBottom: "var(--gap)" }}><Tags line={line} /></div>
      <div className="grid">
        <div className="span-7 stacked">
          <Panel title="Summary">
            <Figures rows={[["best return", number(line.best_return, 4)], ["policies", count(line.members)], ["steps", short(training ? training.step * (line.members ?? 1) : line.steps)], ["time", duration(training?.seconds ?? line.seconds)], ...(training?.seconds_left != null ? [["time left", duration(training.seconds_left)] as [string, string]] : [])]} />
            {line.error && <div className="notice bad">{line.error}</div>}
          </Panel>
          <TrackingPanels artifact={line.id} isLive={line.is_running} />
          <Panel title="Training"><TrainingCurves artifact={line.id} isLive={line.is_running} height={280} /></Panel>
          <Panel title="Reward by term"><TermStack artifact={line.id} isLive={line.is_running} /></Panel>
        </div>
        <div className="span-5 stacked">
          <VideoPanel artifact={line.id} env={line.env ?? null} iteration={null} member={null} isLive={line.is_running} />
          {findings.length > 0 && <Panel title="Health"><ul className="column">{findings.map((finding) => <li key={finding.name} className="small"><span className="badge middling">{words(finding.name.split(":")[0]!)}</span> {finding.message}</li>)}</ul></Panel>}
          <Panel title="Commands"><div className="column">{run.command && <Command line={run.command} />}<Command line={detail.command} /><Command line={`telic play ${line.id}`} /></div></Panel>
          {run.job && <Panel title="Settings"><details><summary>All settings</summary><Facts rows={flat(run.job).map(([name, value]) => [name, <code key={name} className="small">{value}</code>])} /></details></Panel>}
        </div>
      </div>
    </>
  );
}
