/** Actions on a session: pause, stop, resume, feedback, branch, approve, veto, name, delete. */
import { useState } from "react";
import { useLocation } from "wouter";
import { ask, type Schema } from "../api/client";
import { waitForJob } from "../api/jobs";
import { refresh } from "../api/query";
import { Figures, Panel } from "../components/basics";
import { CriteriaForm, edited, type CriteriaEdits } from "../components/criteria";
import { attempt, Dialog } from "../components/toast";
import { duration, money, short, words } from "../format";
import { useShortcuts } from "../keyboard";
import type { Criterion } from "../session/records";

type ArtifactDetail = Schema<"ArtifactDetail">;
type SessionDetail = Schema<"SessionDetail">;
type Line = Schema<"ArtifactSummary">;

/** Stop, resume, name and delete: the same for sessions, runs and searches. */
export function WorkActions({ line, canResume, reload }: { line: Line; canResume: boolean; reload: () => void }) {
  const [open, setOpen] = useState<"stop" | "resume" | "delete" | "about" | null>(null);
  const [, go] = useLocation();
  const artifact = line.id;
  const close = () => setOpen(null);
  const isStopping = line.state === "stopping";
  return (
    <>
      {!line.is_running && canResume && <button type="button" className="primary" disabled={line.state === "starting"} onClick={() => setOpen("resume")}>{line.state === "starting" ? "Starting…" : line.state === "not started" ? "Start" : "Resume"}</button>}
      {line.is_running && <button type="button" disabled={isStopping} onClick={() => setOpen("stop")}>{isStopping ? "Stopping…" : "Stop"}</button>}
      <button type="button" onClick={() => setOpen("about")}>Name and tags</button>
      {!line.is_running && <button type="button" className="danger" onClick={() => setOpen("delete")}>Delete</button>}
      {open === "stop" && (
        <Dialog title={`Stop this ${line.kind}?`} submit="Stop" onClose={close} onSubmit={() => attempt(() => ask("/api/artifacts/{artifact}/stop", { artifact }, { wait: 0 }), () => { reload(); return "Stopping: saving progress and writing the report."; })}>
          <p>Training progress is saved and can be resumed later.</p>
        </Dialog>
      )}
      {open === "delete" && (
        <Dialog title={`Delete this ${line.kind}?`} submit="Delete" danger onClose={close} onSubmit={() => attempt(() => ask("/api/artifacts/{artifact}/delete", { artifact }, {}), () => { refresh("artifacts", "recent", "gallery", "trash"); go("/trash"); return "Moved to the trash."; })}>
          <p>It can be restored from the trash.</p>
        </Dialog>
      )}
      {open === "resume" && <ResumeDialog line={line} onClose={close} reload={reload} />}
      {open === "about" && <AboutDialog line={line} onClose={close} reload={reload} />}
    </>
  );
}

const LIMITS = [["max_hours", "Hours"], ["max_steps", "Environment steps"], ["max_usd", "Model cost, USD"], ["max_calls", "Model calls"]] as const;

function ResumeDialog({ line, onClose, reload }: { line: Line; onClose: () => void; reload: () => void }) {
  const [limits, setLimits] = useState<Record<string, string>>({});
  const given = Object.fromEntries(Object.entries(limits).filter(([, value]) => value.trim() !== "").map(([name, value]) => [name, name === "max_steps" ? value : Number(value)]));
  const resume = () => attempt(async () => {
    const job = await ask("/api/artifacts/{artifact}/resume", { artifact: line.id }, given);
    reload();
    await waitForJob(job.job);
  }, () => { reload(); return "Resumed."; });
  return (
    <Dialog title={line.state === "not started" ? "Start this session?" : `Resume this ${line.kind}?`} submit={line.state === "not started" ? "Start" : "Resume"} onClose={onClose} onSubmit={resume}>
      <p>{line.state === "not started" ? "The session will start with its saved settings." : "It will continue from where it stopped."}</p>
      {line.kind === "session" && (
        <details><summary>New limits for the whole session</summary>
          <div className="grid" style={{ gap: "0.6rem" }}>{LIMITS.map(([name, title]) => <label key={name} className="field span-6">{title}<input value={limits[name] ?? ""} placeholder="unchanged" inputMode="decimal" onChange={(event) => setLimits({ ...limits, [name]: event.target.value })} /></label>)}</div>
        </details>
      )}
    </Dialog>
  );
}

function AboutDialog({ line, onClose, reload }: { line: Line; onClose: () => void; reload: () => void }) {
  const [name, setName] = useState(line.name ?? "");
  const [tags, setTags] = useState(line.tags.join(", "));
  const [note, setNote] = useState(line.note ?? "");
  const save = () => attempt(() => ask("/api/artifacts/{artifact}/about", { artifact: line.id }, { name: name.trim() || null, tags: [...new Set(tags.split(",").map((tag) => tag.trim()).filter(Boolean))], note: note.trim() || null }), () => { reload(); refresh("artifacts", "recent"); return "Saved."; });
  return (
    <Dialog title="Name and tags" submit="Save" onClose={onClose} onSubmit={save}>
      <label className="field">Name<input autoFocus value={name} maxLength={200} placeholder={line.title} onChange={(event) => setName(event.target.value)} /></label>
      <label className="field">Tags, separated by commas<input value={tags} onChange={(event) => setTags(event.target.value)} placeholder="baseline, go1" /></label>
      <label className="field">Note<textarea rows={4} value={note} maxLength={5000} onChange={(event) => setNote(event.target.value)} /></label>
    </Dialog>
  );
}

export function SessionActions(props: { detail: ArtifactDetail; session: SessionDetail; line: Line; reload: () => void }) {
  const { session, line, reload } = props;
  const artifact = line.id;
  const [open, setOpen] = useState<"feedback" | "branch" | "veto" | null>(null);
  const isPaused = line.state === "paused" || line.state === "pausing";
  const pause = () => attempt(() => ask("/api/artifacts/{artifact}/pause", { artifact }, { wait: 0 }), () => { reload(); return "Pausing at the next safe point."; });
  const unpause = () => attempt(() => ask("/api/artifacts/{artifact}/resume", { artifact }, {}), () => { reload(); return "Resumed."; });
  const hasEnded = session.summary !== null && session.summary.outcome !== "stopped";
  const judged = session.iterations.filter((each) => each.is_judged);
  const close = () => setOpen(null);
  useShortcuts([
    ...(line.is_running ? [{ keys: "p", does: isPaused ? "resume" : "pause", act: () => void (isPaused ? unpause() : pause()) }] : []),
    ...(hasEnded ? [] : [{ keys: "n", does: "add feedback for the next revision", act: () => setOpen("feedback") }]),
  ]);
  return (
    <>
      {line.is_running && (isPaused ? <button type="button" className="primary" onClick={unpause}>Resume</button> : <button type="button" disabled={line.state === "stopping"} onClick={pause}>Pause</button>)}
      {!hasEnded && <button type="button" onClick={() => setOpen("feedback")}>Feedback</button>}
      {judged.length > 0 && <button type="button" onClick={() => setOpen("branch")}>Branch</button>}
      {session.summary && ["passed", "passed_in_part"].includes(session.summary.outcome) && <button type="button" onClick={() => setOpen("veto")}>Veto</button>}
      <WorkActions line={line} canResume={!hasEnded} reload={reload} />
      {open === "feedback" && <FeedbackDialog artifact={artifact} onClose={close} reload={reload} />}
      {open === "veto" && <VetoDialog artifact={artifact} onClose={close} reload={reload} />}
      {open === "branch" && <BranchDialog artifact={artifact} iterations={judged.map((each) => each.number)} best={session.summary?.best_iteration ?? judged.at(-1)!.number} onClose={close} />}
    </>
  );
}

function FeedbackDialog({ artifact, onClose, reload }: { artifact: string; onClose: () => void; reload: () => void }) {
  const [text, setText] = useState("");
  return (
    <Dialog title="Feedback for the next revision" submit="Add feedback" disabled={!text.trim()} onClose={onClose}
      onSubmit={() => attempt(() => ask("/api/artifacts/{artifact}/note", { artifact }, { text }), () => { reload(); return "Feedback saved. It will be used in the next revision."; })}>
      <label className="field">What should change?<textarea autoFocus rows={3} value={text} onChange={(event) => setText(event.target.value)} placeholder="keep the body lower" /></label>
    </Dialog>
  );
}

function VetoDialog({ artifact, onClose, reload }: { artifact: string; onClose: () => void; reload: () => void }) {
  const [why, setWhy] = useState("");
  return (
    <Dialog title="Withdraw this pass?" submit="Veto" danger disabled={!why.trim()} onClose={onClose}
      onSubmit={() => attempt(() => ask("/api/artifacts/{artifact}/veto", { artifact }, { why }), () => { reload(); return "Pass withdrawn. The session is now marked as unproven."; })}>
      <p>The session will be marked as unproven. A veto is permanent and cannot be undone.</p>
      <label className="field">Reason<textarea autoFocus rows={3} value={why} onChange={(event) => setWhy(event.target.value)} placeholder="it slides instead of walking" /></label>
    </Dialog>
  );
}

export function BranchDialog({ artifact, iterations, best, onClose }: { artifact: string; iterations: number[]; best: number; onClose: () => void }) {
  const [iteration, setIteration] = useState(best);
  const [note, setNote] = useState("");
  const [, go] = useLocation();
  const branch = () => attempt(async () => {
    const { session } = (await ask("/api/artifacts/{artifact}/branch", { artifact }, { iteration, ...(note.trim() ? { note } : {}) })) as { session: string };
    await ask("/api/artifacts/{artifact}/resume", { artifact: session }, {});
    return session;
  }, (session) => { go(`/runs/${session}`); return "The new session is starting."; });
  return (
    <Dialog title="Branch a new session from an iteration" submit="Branch and run" onClose={onClose} onSubmit={branch}>
      <label className="field">Iteration<select value={iteration} onChange={(event) => setIteration(Number(event.target.value))}>{iterations.map((each) => <option key={each} value={each}>{each}{each === best ? " (best)" : ""}</option>)}</select></label>
      <label className="field">Feedback for the first revision (optional)<textarea rows={3} value={note} onChange={(event) => setNote(event.target.value)} /></label>
    </Dialog>
  );
}

export function Approval({ artifact, criteria, forecast, reload }: { artifact: string; criteria: Criterion[]; forecast: { first_seconds: number | null; first_steps: number; usd: number | null } | null; reload: () => void }) {
  const [edits, setEdits] = useState<CriteriaEdits>({});
  const kept = edited(criteria, edits);
  const isChanged = JSON.stringify(kept) !== JSON.stringify(criteria);
  const approve = () => attempt(() => ask("/api/artifacts/{artifact}/approve", { artifact }, isChanged ? { criteria: kept } : {}), () => { reload(); return "Approved. Training is starting."; });
  return (
    <Panel title="Approve the criteria before training" actions={<button type="button" className="primary" disabled={kept.length === 0} onClick={approve}>{isChanged ? "Approve with changes" : "Approve"}</button>}>
      <div className="column">
        <CriteriaForm criteria={criteria} edits={edits} onChange={setEdits} />
        {forecast && <Figures rows={[["if the first iteration passes", forecast.first_seconds === null ? `${short(forecast.first_steps)} steps` : duration(forecast.first_seconds)], ["model cost", money(forecast.usd)]]} />}
      </div>
    </Panel>
  );
}

export function Tags({ line }: { line: Line }) {
  if (line.tags.length === 0 && !line.note) return null;
  return <div className="row small">{line.tags.map((tag) => <span key={tag} className="chip">{words(tag)}</span>)}{line.note && <span className="soft">{line.note}</span>}</div>;
}
