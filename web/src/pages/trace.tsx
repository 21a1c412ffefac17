/** Model calls: prompt, answer, tokens, cost and time, by iteration and role. */
import { useMemo, useState } from "react";
import { Badge, Facts, Figures, Panel } from "../components/basics";
import { Empty } from "../components/states";
import { count, duration, money, words } from "../format";
import type { LoggedEvent } from "../session/stages";
import { callsOf, totalOf, type ModelCall } from "../session/trace";

export function TracePanel({ events }: { events: LoggedEvent[] }) {
  const calls = useMemo(() => callsOf(events), [events]);
  const [chosen, setChosen] = useState(0);
  if (calls.length === 0) return <Panel title="Model calls"><Empty title="No model calls">The composer wrote the reward and the judge, so no language model was called.</Empty></Panel>;
  const total = totalOf(calls);
  const groups = [...new Set(calls.map((call) => call.iteration))];
  const call = calls[Math.min(chosen, calls.length - 1)]!;
  return (
    <div className="grid">
      <div className="span-4 stacked">
        <Panel title="Total"><Figures rows={[["calls", count(total.calls)], ["input tokens", count(total.input)], ["output tokens", count(total.output)], ["cost", money(total.usd)]]} /></Panel>
        <Panel title="Calls" tight>
          <ul>
            {groups.map((iteration) => (
              <li key={iteration}>
                <h3 style={{ padding: "0.5rem 0.9rem 0.2rem" }}>{iteration === 0 ? "before the first iteration" : `after iteration ${iteration}`}</h3>
                <ul>
                  {calls.map((each, index) => each.iteration === iteration && (
                    <li key={index}>
                      <button type="button" className="plain" style={{ width: "100%", justifyContent: "space-between", borderRadius: 0, padding: "0.3rem 0.9rem 0.3rem 1.6rem" }} aria-pressed={index === chosen} onClick={() => setChosen(index)}>
                        <span>{words(each.role)}{each.error && <> <Badge tone="bad">failed</Badge></>}{each.isCached && <span className="soft small"> · cached</span>}</span>
                        <span className="soft small">{each.latency === null ? "…" : duration(each.latency)}</span>
                      </button>
                    </li>
                  ))}
                </ul>
              </li>
            ))}
          </ul>
        </Panel>
      </div>
      <div className="span-8"><CallPanel call={call} /></div>
    </div>
  );
}

function CallPanel({ call }: { call: ModelCall }) {
  return (
    <Panel title={`${words(call.role)}: ${call.model}`}>
      <div className="column">
        <Facts rows={[["tokens", call.tokens?.input != null || call.tokens?.output != null ? `${count(call.tokens.input)} input (${count(call.tokens.cached)} cached), ${count(call.tokens.output)} output (${count(call.tokens.reasoning)} reasoning)` : "unknown"], ["cost", call.isPriced ? money(call.usd) : "–"], ["time", duration(call.latency)], ["prompt version", <code key="t" className="small">{call.promptHash ?? "–"}</code>], ["images", call.images]]} />
        {call.system && <details><summary>System prompt</summary><pre className="code" tabIndex={0}>{call.system}</pre></details>}
        <details open><summary>Prompt</summary><pre className="code" tabIndex={0} style={{ whiteSpace: "pre-wrap" }}>{call.prompt}</pre></details>
        {call.attempts.map((attempt, index) => <details key={index}><summary>Attempt {index + 1}: {attempt.error}</summary>{attempt.answer && <pre className="code" tabIndex={0}>{attempt.answer}</pre>}</details>)}
        {call.answer !== null && <details open><summary>Answer</summary><pre className="code" tabIndex={0} style={{ whiteSpace: "pre-wrap" }}>{call.answer}</pre></details>}
        {call.error && <div className="notice bad">{call.error}</div>}
        {call.answer === null && !call.error && <p className="soft">Waiting for the answer.</p>}
      </div>
    </Panel>
  );
}
