/** What people ask of a session: pause, stop, resume, note, branch, approve, veto, delete. */
import { useState, type ReactNode } from "react";
import { useLocation } from "wouter";
import { ask } from "../api/client";
import { untilThing } from "../api/jobs";
import { Figures, Panel } from "../components/basics";
import { CriteriaForm, type EditedCriterion } from "../components/criteria";
import { attempt, Dialog } from "../components/toast";
import { duration, money, short } from "../format";
import { useShortcuts } from "../keyboard";
import type { Criterion } from "../session/records";
import type { SessionDetail, ThingDetail } from "./session";

type Asked = "note" | "branch" | "veto" | "delete" | "stop" | null;

export function SessionActions(props: { detail: ThingDetail; session: SessionDetail; state: string; isRunning: boolean; reload: () => void }) {
  const { detail, session, state, isRunning, reload } = props;
  const thing = detail.line.id;
  const [asked, setAsked] = useState<Asked>(null);
  const [, go] = useLocation();
  const pause = () => attempt(() => ask("/api/things/{thing}/pause", { thing }, {}), (now) => { reload(); return `It is ${now.status}.`; });
  const resume = () => attempt(async () => {
    const job = await ask("/api/things/{thing}/resume", { thing }, {});
    await untilThing(job.job);
  }, () => { reload(); return "It goes on."; });
  const hasEnded = session.summary !== null && session.summary.outcome !== "stopped";
  const isPaused = state === "paused" || state === "pausing";
  const judged = session.iterations.filter((each) => each.is_judged);
  const canNote = !hasEnded;
  useShortcuts([
    ...(isRunning ? [{ keys: "p", does: isPaused ? "go on" : "pause", act: () => void (isPaused ? resume() : pause()) }] : []),
    ...(canNote ? [{ keys: "n", does: "note for the next revision", act: () => setAsked("note") }] : []),
  ]);
  return (
    <>
      {isRunning && !isPaused && <button type="button" onClick={pause}>Pause</button>}
      {(isPaused || (!isRunning && !hasEnded)) && <button type="button" className="primary" onClick={resume}>Resume</button>}
      {isRunning && <button type="button" onClick={() => setAsked("stop")}>Stop</button>}
      {canNote && <button type="button" onClick={() => setAsked("note")}>Note</button>}
      {judged.length > 0 && <button type="button" onClick={() => setAsked("branch")}>Branch</button>}
      {session.summary && ["passed", "passed_in_part"].includes(session.summary.outcome) && <button type="button" onClick={() => setAsked("veto")}>Veto</button>}
      {!isRunning && <button type="button" className="danger" onClick={() => setAsked("delete")}>Delete</button>}
      {asked === "stop" && (
        <Dialog title="Stop this session?" submit="Stop" onClose={() => setAsked(null)} onSubmit={() => attempt(() => ask("/api/things/{thing}/stop", { thing }, {}), (now) => { reload(); return `It is ${now.status}.`; })}>
          <p>What was trained is saved; Resume goes on where it was.</p>
        </Dialog>
      )}
      {asked === "delete" && (
        <Dialog title="Delete this session?" submit="Delete" danger onClose={() => setAsked(null)} onSubmit={() => attempt(() => ask("/api/things/{thing}/delete", { thing }, {}), () => { go("/trash"); return "It is in the trash."; })}>
          <p>It moves to the trash, from where it can be restored.</p>
        </Dialog>
      )}
      {asked === "note" && <NoteDialog thing={thing} onClose={() => setAsked(null)} reload={reload} />}
      {asked === "veto" && <VetoDialog thing={thing} onClose={() => setAsked(null)} reload={reload} />}
      {asked === "branch" && <BranchDialog thing={thing} iterations={judged.map((each) => each.number)} best={session.summary?.best_iteration ?? judged.at(-1)!.number} onClose={() => setAsked(null)} />}
    </>
  );
}

function NoteDialog({ thing, onClose, reload }: { thing: string; onClose: () => void; reload: () => void }) {
  const [text, setText] = useState("");
  return (
    <Dialog title="Note for the next revision" submit="Add note" disabled={!text.trim()} onClose={onClose}
      onSubmit={() => attempt(() => ask("/api/things/{thing}/note", { thing }, { text }), () => { reload(); return "The next revision heeds it."; })}>
      <label className="field">What should be different?<textarea autoFocus rows={3} value={text} onChange={(event) => setText(event.target.value)} placeholder="keep the body lower" /></label>
    </Dialog>
  );
}

function VetoDialog({ thing, onClose, reload }: { thing: string; onClose: () => void; reload: () => void }) {
  const [why, setWhy] = useState("");
  return (
    <Dialog title="This pass does not stand" submit="Veto" danger disabled={!why.trim()} onClose={onClose}
      onSubmit={() => attempt(() => ask("/api/things/{thing}/veto", { thing }, { why }), () => { reload(); return "The session is unproven now."; })}>
      <p>The session becomes unproven, on record and for good.</p>
      <label className="field">Why?<textarea autoFocus rows={3} value={why} onChange={(event) => setWhy(event.target.value)} placeholder="it slides instead of walking" /></label>
    </Dialog>
  );
}

function BranchDialog({ thing, iterations, best, onClose }: { thing: string; iterations: number[]; best: number; onClose: () => void }) {
  const [iteration, setIteration] = useState(best);
  const [note, setNote] = useState("");
  const [, go] = useLocation();
  const branch = () => attempt(async () => {
    const made = await ask("/api/things/{thing}/branch", { thing }, { iteration, ...(note.trim() ? { note } : {}) });
    const session = (made as { session: string }).session;
    await ask("/api/things/{thing}/resume", { thing: session }, {});
    return session;
  }, (session) => { go(`/things/${session}`); return "A new session goes on from there."; });
  return (
    <Dialog title="Start a new session from a candidate" submit="Branch and run" onClose={onClose} onSubmit={branch}>
      <label className="field">From try<select value={iteration} onChange={(event) => setIteration(Number(event.target.value))}>{iterations.map((each) => <option key={each} value={each}>{each}{each === best ? " (best)" : ""}</option>)}</select></label>
      <label className="field">What should be different? (may be left out)<textarea rows={3} value={note} onChange={(event) => setNote(event.target.value)} /></label>
    </Dialog>
  );
}

export function Approval({ thing, criteria, forecast, reload }: { thing: string; criteria: Criterion[]; forecast: Record<string, unknown> | null; reload: () => void }): ReactNode {
  const [edited, setEdited] = useState<EditedCriterion[]>(() => criteria.map((each) => ({ ...each, isUsed: true })));
  const kept = edited.filter((each) => each.isUsed).map(({ isUsed: _used, ...rest }) => rest);
  const isChanged = JSON.stringify(kept) !== JSON.stringify(criteria);
  const approve = () => attempt(() => ask("/api/things/{thing}/approve", { thing }, isChanged ? { criteria: kept } : {}), () => { reload(); return "It goes on with these criteria."; });
  const told = forecast as { first_seconds: number | null; first_steps: number; usd: number | null } | null;
  return (
    <Panel title="Do these criteria say what you mean?" actions={<button type="button" className="primary" disabled={kept.length === 0} onClick={approve}>{isChanged ? "Approve my edit" : "Approve"}</button>}>
      <div className="column">
        <CriteriaForm criteria={edited} onChange={setEdited} />
        {told && <Figures rows={[["if the first try passes", told.first_seconds === null ? `${short(told.first_steps)} steps` : duration(told.first_seconds)], ["money", money(told.usd)]]} />}
      </div>
    </Panel>
  );
}
