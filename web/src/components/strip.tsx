/** The stages of a session: read, write, check, train, judge, decide. */
export interface Stage {
  name: string;
  state: "done" | "now" | "todo" | "failed" | "doubt";
  detail?: string;
}

const MARKS = { done: "✓", now: "", todo: "", failed: "✕", doubt: "!" };
const NAMES = { done: "done", now: "in progress", todo: "not started", failed: "failed", doubt: "not proven" };

export function StageStrip({ stages }: { stages: Stage[] }) {
  return (
    <ol className="strip" aria-label="Stages">
      {stages.map((stage) => (
        <li key={stage.name} className={stage.state} aria-current={stage.state === "now" ? "step" : undefined}>
          <div className="name">
            <span className="mark" aria-hidden="true">{MARKS[stage.state]}</span>
            {stage.name}
            <span className="sr">, {NAMES[stage.state]}</span>
          </div>
          <div className="detail" title={stage.detail}>{stage.detail ?? "\u00a0"}</div>
        </li>
      ))}
    </ol>
  );
}
