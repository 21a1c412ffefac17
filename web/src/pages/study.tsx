/** A study: contract, next safe action, candidates, runs, ledger and budget. */
import { useState } from "react";
import { read } from "../api/client";
import { useLive } from "../api/live";
import type { components } from "../api/schema";
import { useLoaded } from "../api/query";
import { Badge, Command, Figures, PageHead, Panel } from "../components/basics";
import { Ready } from "../components/states";
import { ago, count, number, words } from "../format";

type Detail = components["schemas"]["ArtifactDetail"];
interface Candidate { status: string; kind: string; author: string; phase: string | null; parents: string[]; reason: string | null; revision: number }
interface StudyRun { status: string; candidate: string; phase: string; seed: number | null; why: string; intent_at: string | null }
interface State {
  study_status: string; contract_version: number | null; baseline: string | null; noise_floor: number | null; active_runs: string[]; pending_approvals: string[];
  incumbent: { candidate: string; iqm: number | null; ci: [number, number] | null } | null;
  counts: Record<string, number>; candidates: Record<string, Candidate>; runs: Record<string, StudyRun>;
  fired_stops: { rule: string; why: string }[]; budget: Record<string, Record<string, number | null>>;
  next_action: { action: string; why: string; blocking: string[]; command: string | null };
}
interface Gates { gates: { id: string; passed: boolean; why: string }[] }

const UNITS: [string, string][] = [["wall_clock_h", "hours"], ["gpu_h", "GPU hours"], ["cpu_core_h", "core hours"], ["env_steps", "steps"], ["launches", "launches"], ["llm_usd", "dollars"], ["llm_calls", "model calls"], ["llm_tokens", "tokens"], ["disk_gb", "GB"]];

export default function StudyPage({ detail, study }: { detail: Detail; study: NonNullable<Detail["study"]> }) {
  const state = study.state as unknown as State | null;
  const id = encodeURIComponent(detail.line.id);
  const live = useLive(detail.line.id, true);
  return (
    <>
      <PageHead title={detail.line.title} lede={state && <span className="row"><Badge state={state.study_status} /><span>contract {state.contract_version === null ? "not approved yet" : `version ${state.contract_version}`}</span></span>} />
      {!state && <div className="notice middling">This study could not be loaded. See the errors above.</div>}
      {state && (
        <div className="grid">
          <div className="span-7 stacked">
            <Next state={state} />
            <Candidates id={id} candidates={Object.entries(state.candidates)} incumbent={state.incumbent?.candidate ?? null} />
            <Runs runs={Object.entries(state.runs)} />
            <Ledger entries={[...live.events].reverse() as unknown as Record<string, unknown>[]} />
          </div>
          <div className="span-5 stacked">
            <Panel title="Status">
              <div className="column">
                <Figures rows={[["incumbent", state.incumbent?.candidate ?? state.baseline ?? "–"], ["metric", state.incumbent ? <>{number(state.incumbent.iqm)} {state.incumbent.ci && <small>{number(state.incumbent.ci[0])} to {number(state.incumbent.ci[1])}</small>}</> : "–"], ["noise floor", number(state.noise_floor)], ["running", count(state.active_runs.length)]]} />
                <ul className="chips">{Object.entries(state.counts).filter(([, many]) => many > 0).map(([status, many]) => <li key={status}><span className="chip">{count(many)} {words(status)}</span></li>)}</ul>
              </div>
            </Panel>
            <Budget budget={state.budget} />
            <Panel title="State"><details><summary>All records</summary><pre className="code small" tabIndex={0}>{JSON.stringify(state, null, 2)}</pre></details></Panel>
            <Panel title="Command line"><div className="column"><Command line="telic study status" /><Command line="telic study next" /><Command line="telic study report" /></div></Panel>
          </div>
        </div>
      )}
    </>
  );
}

function Next({ state }: { state: State }) {
  const next = state.next_action;
  return (
    <Panel title="Next safe action">
      <div className="column">
        <p><strong>{words(next.action)}</strong>: {next.why}</p>
        {next.blocking.length > 0 && <div className="notice middling"><strong>Blocked</strong><ul>{next.blocking.map((each) => <li key={each}>{each}</li>)}</ul></div>}
        {next.command && <Command line={next.command} />}
        {state.pending_approvals.length > 0 && <div className="notice middling"><strong>Waiting for approval:</strong> {state.pending_approvals.map(words).join(", ")}</div>}
        {state.fired_stops.map((stop) => <div key={stop.rule} className="notice bad"><strong>{words(stop.rule)}</strong> {stop.why}</div>)}
      </div>
    </Panel>
  );
}

const MOST_SHOWN = 100;

function Candidates({ id, candidates, incumbent }: { id: string; candidates: [string, Candidate][]; incumbent: string | null }) {
  const [chosen, setChosen] = useState<string | null>(null);
  return (
    <Panel title="Candidates" tight>
      {candidates.length === 0 ? <p className="soft" style={{ padding: "0.9rem" }}>No candidates yet.</p> : (
        <div className="scroll-x" tabIndex={0} role="group" aria-label="Candidates">
          <table className="plain">
            <thead><tr><th>Candidate</th><th>Status</th><th>Phase</th><th>Reason</th><th><span className="sr">gates</span></th></tr></thead>
            <tbody>
              {candidates.slice(-MOST_SHOWN).map(([name, candidate]) => (
                <tr key={name} className={name === incumbent ? "chosen" : ""}>
                  <td>{name === incumbent && <span title="incumbent">★ </span>}<strong>{name}</strong><div className="small soft">{candidate.kind}, {candidate.author}{candidate.parents.length > 0 && `, from ${candidate.parents.join(", ")}`}</div></td>
                  <td><Badge state={candidate.status} /></td>
                  <td className="soft">{words(candidate.phase ?? "–")}</td>
                  <td className="small">{candidate.reason}</td>
                  <td><button type="button" className="plain small" aria-pressed={chosen === name} onClick={() => setChosen(chosen === name ? null : name)}>Gates</button></td>
                </tr>
              ))}
            </tbody>
          </table>
          {candidates.length > MOST_SHOWN && <p className="small soft" style={{ padding: "0.6rem 0.9rem" }}>{count(candidates.length - MOST_SHOWN)} older candidates are hidden.</p>}
        </div>
      )}
      {chosen && <GateList id={id} candidate={chosen} key={chosen} />}
    </Panel>
  );
}

function GateList({ id, candidate }: { id: string; candidate: string }) {
  const gates = useLoaded(`gates:${id}:${candidate}`, () => read<Gates>(`/api/artifacts/${id}/gates?candidate=${encodeURIComponent(candidate)}`));
  return (
    <div style={{ padding: "0.9rem" }}>
      <h3>Launch gates of {candidate}</h3>
      <Ready of={gates}>
        {({ gates: list }) => (
          <ul className="column" style={{ gap: "0.3rem", marginTop: "0.4rem" }}>{list.map((gate) => <li key={gate.id}><Badge tone={gate.passed ? "good" : "bad"}>{gate.passed ? "passed" : "blocked"}</Badge> {gate.id} <span className="small soft">{gate.why}</span></li>)}</ul>
        )}
      </Ready>
    </div>
  );
}

function Runs({ runs }: { runs: [string, StudyRun][] }) {
  return (
    <Panel title="Runs" tight>
      {runs.length === 0 ? <p className="soft" style={{ padding: "0.9rem" }}>No runs yet.</p> : (
        <div className="scroll-x" tabIndex={0} role="group" aria-label="Runs of the study" style={{ maxHeight: "20rem", overflow: "auto" }}>
          <table className="plain small">
            <thead><tr><th>Run</th><th>Candidate</th><th>Phase</th><th className="number">Seed</th><th>Status</th><th className="number">Launched</th></tr></thead>
            <tbody>{runs.slice(-MOST_SHOWN).reverse().map(([id, run]) => <tr key={id}><td><code>{id}</code>{run.why && <div className="soft">{run.why}</div>}</td><td>{run.candidate}</td><td className="soft">{words(run.phase)}</td><td className="number">{run.seed ?? "–"}</td><td><Badge state={run.status === "finished" ? "done" : run.status}>{words(run.status)}</Badge></td><td className="number soft">{run.intent_at ? ago(Date.parse(run.intent_at) / 1000) : "–"}</td></tr>)}</tbody>
          </table>
        </div>
      )}
    </Panel>
  );
}

function Ledger({ entries }: { entries: Record<string, unknown>[] }) {
  return (
    <Panel title="Ledger" tight actions={<span className="small soft">{count(entries.length)} entries, newest first</span>}>
      <ol className="timeline" style={{ maxHeight: "30rem", overflow: "auto", ["--when" as string]: "8.2rem" }} tabIndex={0} aria-label="Ledger">
        {entries.slice(0, 500).map((entry, index) => (
          <li key={index}>
            <time>{String(entry.time ?? entry.at ?? "").slice(0, 16).replace("T", " ")}</time>
            <details><summary style={{ color: "var(--ink)" }}>{words(String(entry.kind ?? entry.event ?? entry.type ?? "entry"))} <span className="soft">{String(entry.candidate ?? entry.run ?? entry.subject ?? "")}</span></summary><pre className="code small" tabIndex={0}>{JSON.stringify(entry, null, 2)}</pre></details>
          </li>
        ))}
      </ol>
    </Panel>
  );
}

function Budget({ budget }: { budget: Record<string, Record<string, number | null>> }) {
  const rows = UNITS.filter(([name]) => ["spent", "reserved", "left"].some((part) => budget[part]?.[name] != null));
  if (rows.length === 0) return null;
  return (
    <Panel title="Budget" tight>
      <table className="plain small">
        <thead><tr><th>resource</th><th className="number">spent</th><th className="number">reserved</th><th className="number">left</th></tr></thead>
        <tbody>{rows.map(([name, unit]) => <tr key={name}><td>{unit}</td>{["spent", "reserved", "left"].map((part) => <td key={part} className="number">{number(budget[part]?.[name])}</td>)}</tr>)}</tbody>
      </table>
    </Panel>
  );
}
