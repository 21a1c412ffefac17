/** A study: what was agreed, what is safe to do now, what was tried and what came of it. */
import { useLive } from "../api/live";
import type { components } from "../api/schema";
import { Badge, Command, Facts, Figures, PageHead, Panel } from "../components/basics";
import { count, number, words } from "../format";

type Detail = components["schemas"]["ThingDetail"];

interface NextStep { action: string; reason?: string; why?: string; command?: string | null; blocked_by?: string[]; blockers?: string[] }

export default function StudyPage({ detail, study }: { detail: Detail; study: NonNullable<Detail["study"]> }) {
  const { view, state } = study;
  const live = useLive(detail.line.id);
  const next = view?.next as unknown as NextStep | undefined;
  const blocked = next?.blocked_by ?? next?.blockers ?? [];
  const entries = [...live.events].reverse() as unknown as Record<string, unknown>[];
  return (
    <>
      <PageHead title={detail.line.title} lede={view && <span className="row"><Badge state={view.status} /><span>contract {view.contract_version === null ? "not agreed yet" : `version ${view.contract_version}`}</span></span>} />
      {!view && <div className="notice middling">This study cannot be read; see the reasons above.</div>}
      {view && (
        <div className="grid">
          <div className="span-7 stacked">
            <Panel title="What is safe to do now">
              <div className="column">
                <p><strong>{words(next?.action ?? "")}</strong> {next?.reason ?? next?.why}</p>
                {blocked.length > 0 && <div className="notice middling"><strong>Blocked because</strong><ul>{blocked.map((each) => <li key={each}>{each}</li>)}</ul></div>}
                {next?.command && <Command line={next.command} />}
                {view.pending_approvals.length > 0 && <div className="notice middling"><strong>Waits for approval:</strong> {view.pending_approvals.join(", ")}</div>}
                {view.stopped_by.map((stop, index) => <div key={index} className="notice bad">{JSON.stringify(stop)}</div>)}
              </div>
            </Panel>
            <Panel title="Ledger" tight actions={<span className="small soft">{count(live.events.length)} entries, newest first</span>}>
              <ol className="timeline" style={{ maxHeight: "34rem", overflow: "auto" }} tabIndex={0} aria-label="Ledger">
                {entries.slice(0, 500).map((entry, index) => (
                  <li key={index}>
                    <time>{String(entry.time ?? entry.at ?? "").slice(0, 16).replace("T", " ")}</time>
                    <details><summary style={{ color: "var(--ink)" }}>{words(String(entry.kind ?? entry.event ?? entry.type ?? "entry"))} <span className="soft">{String(entry.candidate ?? entry.run ?? entry.subject ?? "")}</span></summary><pre className="code small" tabIndex={0}>{JSON.stringify(entry, null, 2)}</pre></details>
                  </li>
                ))}
              </ol>
            </Panel>
          </div>
          <div className="span-5 stacked">
            <Panel title="Where it stands">
              <Figures rows={[["incumbent", view.incumbent ? String((view.incumbent as Record<string, unknown>).candidate ?? "baseline") : "–"], ["noise floor", number(view.noise_floor)], ["running", count(view.active_runs.length)]]} />
              <Facts rows={Object.entries(view.candidates).map(([status, many]) => [words(status), count(many)])} />
            </Panel>
            <Panel title="Budget"><Facts rows={facts(view.budget)} /></Panel>
            {state && <Panel title="Everything"><details><summary>state as it is on disk</summary><pre className="code small" tabIndex={0}>{JSON.stringify(state, null, 2)}</pre></details></Panel>}
            <Panel title="In a terminal"><div className="column"><Command line="telic study state" /><Command line="telic study next" /><Command line="telic study report" /></div></Panel>
          </div>
        </div>
      )}
    </>
  );
}

function facts(record: object): [string, string][] {
  return Object.entries(record).map(([name, value]) => [words(name), value === null ? "–" : typeof value === "object" ? Object.entries(value as object).map(([key, each]) => `${words(key)} ${typeof each === "number" ? number(each) : String(each ?? "–")}`).join(", ") : typeof value === "number" ? number(value) : String(value)]);
}
