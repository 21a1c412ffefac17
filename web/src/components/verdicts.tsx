/** The verdict of the judge: criteria by episodes, with the measured value of every cell. */
import type { Schema } from "../api/client";
import type { Judgment } from "../session/records";
import { goalOf } from "../session/records";
import { number, percent, score } from "../format";

function paint(credit: number | null): { background: string; color: string } {
  if (credit === null) return { background: "repeating-linear-gradient(45deg, var(--edge) 0 3px, transparent 3px 6px)", color: "var(--ink)" };
  const paper = `color-mix(in oklab, var(--good-paper) ${Math.round(credit * 100)}%, var(--bad-paper))`;
  return { background: paper, color: credit > 0.5 ? "var(--good)" : "var(--bad)" };
}

export function VerdictGrid(props: { judgment: Judgment; chosen?: number | null; onChoose?: (episode: number) => void; labels?: Map<number, boolean> }) {
  const { verdicts } = props.judgment;
  const rows = titles(verdicts.map((verdict) => verdict.criteria));
  return (
    <div className="scroll-x" tabIndex={0} role="group" aria-label="Verdicts by criterion and episode">
      <table className="verdict-grid">
        <caption className="sr">Credit for each criterion in each judged episode</caption>
        <thead>
          <tr>
            <th scope="col"><span className="sr">criterion</span></th>
            {verdicts.map((verdict, index) => (
              <th key={index} scope="col" className="tilt">
                <button type="button" className="cellbox plain" aria-pressed={props.chosen === index} aria-label={`episode ${index + 1}, score ${score(verdict.score)}`} onClick={() => props.onChoose?.(index)}>
                  {props.labels?.has(index) ? (props.labels.get(index) ? "✓" : "✕") : index + 1}
                </button>
              </th>
            ))}
            <th scope="col" className="tilt">mean</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((criterion) => {
            const cells = verdicts.map((verdict) => verdict.criteria.find((each) => each.title === criterion.title));
            const values = cells.map((cell) => cell?.value).filter((value): value is number => value != null);
            const average = values.length ? values.reduce((a, b) => a + b, 0) / values.length : null;
            return (
              <tr key={criterion.title}>
                <th scope="row">{criterion.title}{criterion.is_guard && <span className="soft small"> · constraint</span>}</th>
                {cells.map((cell, index) => (
                  <td key={index}><span className="cellbox" style={{ ...paint(cell?.credit ?? null), display: "grid", placeItems: "center" }} title={cell ? `episode ${index + 1}: ${number(cell.value)} ${cell.unit} (target ${goalOf({ goal: cell.goal, unit: cell.unit, direction: cell.goal < cell.zero ? "at_most" : "at_least" })}), credit ${percent(cell.credit)}` : "not judged"}>{cell?.credit == null ? "?" : cell.passed ? "✓" : percent(cell.credit).replace("%", "")}</span></td>
                ))}
                <td className="number soft" style={{ paddingLeft: "0.6rem" }}>{number(average)} {criterion.unit}</td>
              </tr>
            );
          })}
          <tr>
            <th scope="row">score</th>
            {verdicts.map((verdict, index) => <td key={index}><span className="cellbox" style={{ ...paint(verdict.score), display: "grid", placeItems: "center", fontWeight: 650 }}>{verdict.score === null ? "?" : score(verdict.score).replace(/^0/, "")}</span></td>)}
            <td className="number" style={{ paddingLeft: "0.6rem" }}><strong>{score(props.judgment.score)}</strong></td>
          </tr>
        </tbody>
      </table>
    </div>
  );
}

/** The first score of every title, in their order. */
function titles(all: Schema<"CriterionScore">[][]): Schema<"CriterionScore">[] {
  const found = new Map<string, Schema<"CriterionScore">>();
  for (const criterion of all.flat()) if (!found.has(criterion.title)) found.set(criterion.title, criterion);
  return [...found.values()];
}
