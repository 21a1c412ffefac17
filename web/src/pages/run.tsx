/** A training run: its policies, how they learn, how they move. */
import { useState } from "react";
import { useLocation } from "wouter";
import { useAbout } from "../api/about";
import { ask } from "../api/client";
import { useLive } from "../api/live";
import { untilThing } from "../api/jobs";
import type { components } from "../api/schema";
import { Badge, Command, Facts, Figures, PageHead, Panel } from "../components/basics";
import { TermStack, TrainingCurves } from "../components/curves";
import { attempt, Dialog } from "../components/toast";
import { count, duration, envName, number, short, shortId, words } from "../format";
import { findingsOf } from "../session/stages";
import { FilmPanel } from "./film";
import { TrackingPanels } from "./tracking";
import { flat } from "../session/difference";

type Detail = components["schemas"]["ThingDetail"];

export default function RunPage({ detail, run, reload }: { detail: Detail; run: NonNullable<Detail["run"]>; reload: () => void }) {
  const { line } = detail;
  const live = useLive(line.id);
  const about = useAbout();
  const [asks, setAsks] = useState(false);
  const [, go] = useLocation();
  const isRunning = live.pulse?.is_running ?? line.is_running;
  const state = live.pulse?.state ?? line.state;
  const training = live.pulse?.training;
  const findings = findingsOf(live.events);
  const stop = () => attempt(() => ask("/api/things/{thing}/stop", { thing: line.id }, {}), () => { reload(); return "It stops and is saved."; });
  const resume = () => attempt(async () => untilThing((await ask("/api/things/{thing}/resume", { thing: line.id }, {})).job), () => { reload(); return "It goes on."; });
  return (
    <>
      <PageHead title={`${line.title} on ${envName(line.env)}`} lede={<span className="row"><Badge state={state} /><code className="small">{shortId(line.id)}</code></span>}
        actions={about.isReadOnly ? undefined : <>
          {isRunning ? <button type="button" onClick={stop}>Stop</button> : state !== "completed" && <button type="button" className="primary" onClick={resume}>Resume</button>}
          <button type="button" onClick={() => go(`/compare?id=${line.id}`)}>Compare</button>
          {!isRunning && <button type="button" className="danger" onClick={() => setAsks(true)}>Delete</button>}
        </>} />
      {asks && (
        <Dialog title="Delete this run?" submit="Delete" danger onClose={() => setAsks(false)} onSubmit={() => attempt(() => ask("/api/things/{thing}/delete", { thing: line.id }, {}), () => { go("/trash"); return "It is in the trash."; })}>
          <p>It moves to the trash, from where it can be restored.</p>
        </Dialog>
      )}
      <div className="grid">
        <div className="span-7 stacked">
          <Panel title="At a glance">
            <Figures rows={[["best return", number(line.best_return, 4)], ["policies", count(line.members)], ["steps", short(training ? training.step * (line.members ?? 1) : line.steps)], ["time", duration(training?.seconds ?? line.seconds)], ...(training?.seconds_left != null ? [["left", duration(training.seconds_left)] as [string, string]] : [])]} />
            {line.error && <div className="notice bad">{line.error}</div>}
          </Panel>
          <TrackingPanels thing={line.id} isLive={isRunning} />
          <Panel title="Training"><TrainingCurves thing={line.id} isLive={isRunning} height={280} /></Panel>
          <Panel title="Reward by term"><TermStack thing={line.id} isLive={isRunning} /></Panel>
        </div>
        <div className="span-5 stacked">
          <FilmPanel thing={line.id} iteration={null} member={null} isLive={isRunning} />
          {findings.length > 0 && <Panel title="Health"><ul className="column">{findings.map((finding) => <li key={finding.name} className="small"><span className="badge middling">{words(finding.name.split(":")[0]!)}</span> {finding.message}</li>)}</ul></Panel>}
          <Panel title="In a terminal"><div className="column">{run.command && <Command line={run.command} />}<Command line={detail.command} /><Command line={`telic play ${line.id}`} /></div></Panel>
          {run.job && <Panel title="Settings"><details><summary>everything it was trained with</summary><Facts rows={flat(run.job).map(([name, value]) => [name, <code key={name} className="small">{value}</code>])} /></details></Panel>}
        </div>
      </div>
    </>
  );
}
