/** Open work orders for a person or a coding agent, as a form. */
import { useState } from "react";
import { problemOf, read, type Schema } from "../api/client";
import { useLoaded } from "../api/query";
import { Command, Panel } from "../components/basics";
import { Markdown } from "../components/markdown";
import { Ready } from "../components/states";
import { attempt } from "../components/toast";
import { plural, words } from "../format";
import { blank, SchemaForm, type JsonSchema } from "../components/schema-form";

export function OrdersPanel({ artifact }: { artifact: string }) {
  const orders = useLoaded(`orders:${artifact}`, () => read<Schema<"WorkOrderRow">[]>(`/api/artifacts/${encodeURIComponent(artifact)}/orders`), 3000);
  const waiting = (orders.value ?? []).filter((order) => order.state !== "answered");
  const first = waiting[0];
  return (
    <Panel title={`${plural(waiting.length, "work order")} to answer`} className="live">
      <Ready of={orders}>{() => (first ? <OrderForm artifact={artifact} line={first} key={first.key} onDone={orders.reload} /> : <p className="soft">All work orders have been answered.</p>)}</Ready>
    </Panel>
  );
}

function OrderForm({ artifact, line, onDone }: { artifact: string; line: Schema<"WorkOrderRow">; onDone: () => void }) {
  const address = `/api/artifacts/${encodeURIComponent(artifact)}/orders/${encodeURIComponent(line.key)}`;
  const order = useLoaded(`order:${address}`, () => read<Schema<"WorkOrder">>(address));
  const [answer, setAnswer] = useState<unknown>(undefined);
  const [text, setText] = useState<string | null>(null);
  const [fault, setFault] = useState<string | null>(null);
  return (
    <Ready of={order}>
      {(request) => {
        const schema = request.answer_schema as JsonSchema;
        const value = answer ?? blank(schema);
        const send = async () => {
          let given: unknown = value;
          try {
            if (text !== null) given = JSON.parse(text);
          } catch (error) {
            setFault(`Not valid JSON: ${error instanceof Error ? error.message : ""}`);
            return;
          }
          setFault(null);
          await attempt(async () => {
            const response = await fetch(`${address}/answer`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(given) });
            if (response.ok) return;
            const problem = problemOf(await response.json().catch(() => undefined), response.status);
            setFault([problem.message, problem.hint].filter(Boolean).join(" "));
            throw problem;
          }, () => { onDone(); return "The answer was accepted."; });
        };
        return (
          <div className="column">
            <p>Role: <strong>{words(request.role)}</strong>{line.reason && <span className="soft"> · {line.reason}</span>}</p>
            {request.system && <details><summary>Instructions</summary><Markdown text={request.system} /></details>}
            <details open><summary>Request</summary><Markdown text={request.prompt} /></details>
            <div className="row between"><h3>Answer</h3><button type="button" className="plain small" aria-pressed={text !== null} onClick={() => { if (text === null) setText(JSON.stringify(value, null, 2)); else { try { setAnswer(JSON.parse(text)); } catch { /* the form keeps its last valid answer */ } setText(null); } }}>{text === null ? "Edit as JSON" : "Edit as a form"}</button></div>
            {text === null ? <SchemaForm schema={schema} value={value} onChange={setAnswer} label="answer" /> : <textarea rows={14} className="mono" aria-label="Answer as JSON" spellCheck={false} value={text} onChange={(event) => setText(event.target.value)} />}
            {fault && <div className="notice bad" role="alert">{fault}</div>}
            <div className="row"><button type="button" className="primary" onClick={send}>Answer</button><Command line={`telic orders ${line.key} answer.json`} /></div>
          </div>
        );
      }}
    </Ready>
  );
}
