/** Criteria as a checklist; in a form they can be left out, weighted and given other goals. */
import type { Criterion } from "../session/records";
import { goalOf } from "../session/records";
import { percent } from "../format";
import { Gauge } from "./basics";

export function CriteriaList({ criteria, met }: { criteria: Criterion[]; met?: Map<string, { credit: number | null; value: string }> }) {
  const total = criteria.reduce((sum, each) => sum + (each.is_guard ? 0 : each.weight), 0);
  return (
    <ul className="criteria">
      {criteria.map((criterion) => {
        const found = met?.get(criterion.title);
        const mark = found?.credit == null ? "○" : found.credit >= 0.999 ? "✓" : "✕";
        const tone = found?.credit == null ? "soft" : found.credit >= 0.999 ? "good" : "bad";
        return (
          <li key={criterion.title}>
            <span className={tone} style={{ color: tone === "soft" ? "var(--soft)" : "var(--tone)", fontWeight: 700 }} aria-label={found?.credit == null ? "not judged" : found.credit >= 0.999 ? "met" : "not met"} role="img">{mark}</span>
            <div>
              <div className="title">{criterion.title}</div>
              <div className="soft small">{criterion.quantity}: {goalOf(criterion)}{criterion.source && ` · ${criterion.source}`}</div>
            </div>
            <div className="number small met">
              {found ? <>{found.value}<Gauge value={found.credit} tone={tone === "soft" ? "" : (tone as "good" | "bad")} /></> : <span className="soft">{criterion.is_guard ? "required" : total ? percent(criterion.weight / total) : ""}</span>}
            </div>
          </li>
        );
      })}
    </ul>
  );
}

export interface EditedCriterion extends Criterion {
  isUsed: boolean;
}

export function CriteriaForm({ criteria, onChange }: { criteria: EditedCriterion[]; onChange: (criteria: EditedCriterion[]) => void }) {
  const set = (index: number, change: Partial<EditedCriterion>) => onChange(criteria.map((each, place) => (place === index ? { ...each, ...change } : each)));
  return (
    <ul className="criteria">
      {criteria.map((criterion, index) => (
        <li key={criterion.title}>
          <input type="checkbox" checked={criterion.isUsed} disabled={criterion.is_guard} title={criterion.is_guard ? "rules out look-alikes, so it stays" : undefined} aria-label={`use: ${criterion.title}`} onChange={(event) => set(index, { isUsed: event.target.checked })} style={{ marginTop: "0.2rem" }} />
          <div style={{ opacity: criterion.isUsed ? 1 : 0.75 }}>
            <div className="title">{criterion.title}</div>
            <div className="soft small">{criterion.quantity}{criterion.source && ` · ${criterion.source}`}</div>
          </div>
          <div className="row small" style={{ flexWrap: "nowrap" }}>
            {criterion.goal !== null && (
              <label className="row" style={{ gap: "0.3rem", flexWrap: "nowrap" }}>
                <span className="soft">{goalOf(criterion).charAt(0)}</span>
                <input type="number" step="any" style={{ width: "5rem" }} aria-label={`goal of ${criterion.title}`} value={criterion.goal} disabled={!criterion.isUsed} onChange={(event) => event.target.value !== "" && set(index, { goal: Number(event.target.value) })} />
                <span className="soft" style={{ minWidth: "1.6rem" }}>{criterion.unit}</span>
              </label>
            )}
            {criterion.is_guard ? <span className="chip" style={{ border: 0 }}>required</span> : (
              <label className="row" style={{ gap: "0.3rem", flexWrap: "nowrap" }}>
                <span className="soft">weight</span>
                <input type="number" min="0" step="0.5" style={{ width: "3.6rem" }} aria-label={`weight of ${criterion.title}`} value={criterion.weight} disabled={!criterion.isUsed} onChange={(event) => event.target.value !== "" && set(index, { weight: Math.max(0, Number(event.target.value)) })} />
              </label>
            )}
          </div>
        </li>
      ))}
    </ul>
  );
}
