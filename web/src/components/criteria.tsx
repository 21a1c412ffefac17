/** Criteria as a checklist; in a form they can be removed, weighted and given other targets. */
import type { Criterion } from "../session/records";
import { goalOf } from "../session/records";
import { percent } from "../format";
import { Gauge } from "./basics";

export interface Measured {
  credit: number | null;
  value: string;
}

const FULL = 0.995;

export function CriteriaList({ criteria, met }: { criteria: Criterion[]; met?: Map<string, Measured> }) {
  const total = criteria.reduce((sum, each) => sum + (each.is_guard ? 0 : each.weight), 0);
  return (
    <ul className="criteria">
      {criteria.map((criterion) => {
        const found = met?.get(criterion.title);
        const isMet = found?.credit == null ? null : found.credit >= FULL;
        const tone = isMet === null ? "" : isMet ? "good" : "bad";
        return (
          <li key={criterion.title}>
            <span className={`tick ${tone}`} aria-label={isMet === null ? "not judged" : isMet ? "met" : "not met"} role="img">{isMet === null ? "○" : isMet ? "✓" : "✕"}</span>
            <div>
              <div className="title">{criterion.title}</div>
              <div className="soft small">{criterion.quantity}: {goalOf(criterion)}{criterion.source && ` · ${criterion.source}`}</div>
            </div>
            <div className="small met">
              {found ? <><span>{found.value}</span><Gauge value={found.credit} tone={tone} /></> : <span className="soft">{criterion.is_guard ? "constraint" : total ? percent(criterion.weight / total) : ""}</span>}
            </div>
          </li>
        );
      })}
    </ul>
  );
}

/** Changes of a person to proposed criteria, by title. */
export type CriteriaEdits = Record<string, { isUsed?: boolean; goal?: number; weight?: number }>;

/** The criteria that remain after a person's changes, with titles that state the changed target. */
export function edited(criteria: Criterion[], edits: CriteriaEdits): Criterion[] {
  return criteria.flatMap((criterion) => {
    const { isUsed = true, goal = criterion.goal ?? null, weight = criterion.weight } = edits[criterion.title] ?? {};
    if (!isUsed) return [];
    return [{ ...criterion, title: retitled(criterion, goal), goal, weight }];
  });
}

/** Replace the target in the title, or append the new target. */
export function retitled(criterion: Criterion, goal: number | null): string {
  if (goal === null || criterion.goal == null || goal === criterion.goal) return criterion.title;
  const isShare = criterion.title.includes("%");
  const [before, after] = [criterion.goal, goal].map((value) => String(+(isShare ? value * 100 : value).toPrecision(4)));
  const found = new RegExp(`(?<![\\d.])${before!.replace(".", "\\.")}(?![\\d]|\\.\\d)`);
  if (found.test(criterion.title)) return criterion.title.replace(found, after!);
  return `${criterion.title} (${goalOf({ ...criterion, goal })})`;
}

export function CriteriaForm({ criteria, edits, onChange }: { criteria: Criterion[]; edits: CriteriaEdits; onChange: (edits: CriteriaEdits) => void }) {
  const set = (title: string, change: CriteriaEdits[string]) => onChange({ ...edits, [title]: { ...edits[title], ...change } });
  return (
    <ul className="criteria form">
      {criteria.map((criterion) => {
        const { isUsed = true, goal = criterion.goal ?? null, weight = criterion.weight } = edits[criterion.title] ?? {};
        const title = retitled(criterion, goal);
        return (
          <li key={criterion.title} className={isUsed ? "" : "unused"}>
            <input type="checkbox" checked={isUsed} disabled={criterion.is_guard} title={criterion.is_guard ? "Constraints cannot be removed. They rule out behaviors that merely look like the requested one." : undefined} aria-label={`Use criterion: ${title}`} onChange={(event) => set(criterion.title, { isUsed: event.target.checked })} />
            <div>
              <div className="title">{title}</div>
              <div className="soft small">{criterion.quantity}{criterion.source && ` · ${criterion.source}`}</div>
            </div>
            <div className="row small values">
              {goal !== null && (
                <label className="row">
                  <span className="soft">{goalOf(criterion).charAt(0)}</span>
                  <input type="number" step="any" aria-label={`Target of ${title}`} value={goal} disabled={!isUsed} onChange={(event) => event.target.value !== "" && set(criterion.title, { goal: Number(event.target.value) })} />
                  <span className="soft unit">{criterion.unit}</span>
                </label>
              )}
              {criterion.is_guard ? <span className="soft">constraint</span> : (
                <label className="row">
                  <span className="soft">weight</span>
                  <input type="number" min="0" step="0.5" className="narrow" aria-label={`Weight of ${title}`} value={weight} disabled={!isUsed} onChange={(event) => event.target.value !== "" && set(criterion.title, { weight: Math.max(0, Number(event.target.value)) })} />
                </label>
              )}
            </div>
          </li>
        );
      })}
    </ul>
  );
}
