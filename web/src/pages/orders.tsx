/** Questions that wait for an answer of a person or a coding agent. */
import { useEffect, useState } from "react";
import { problemOf, read } from "../api/client";
import type { components } from "../api/schema";
import { useLoaded } from "../api/use";
import { Command, Panel } from "../components/basics";
import { Ready } from "../components/states";
import { attempt } from "../components/toast";

type OrderLine = components["schemas"]["WorkOrderLine"];
type Order = Record<string, unknown>;

export function OrdersPanel({ thing }: { thing: string }) {
  const orders = useLoaded(`orders:${thing}`, () => read<OrderLine[]>(`/api/things/${encodeURIComponent(thing)}/orders`), 3000);
  const waiting = (orders.value ?? []).filter((order) => order.state !== "answered");
  const first = waiting[0];
  return (
    <Panel title={`${waiting.length} ${waiting.length === 1 ? "question waits" : "questions wait"} for an answer`} className="live">
      <Ready of={orders}>{() => (first ? <OrderForm thing={thing} line={first} key={first.key} onDone={orders.reload} /> : <p className="soft">All questions are answered.</p>)}</Ready>
    </Panel>
  );
}

function OrderForm({ thing, line, onDone }: { thing: string; line: OrderLine; onDone: () => void }) {
  const address = `/api/things/${encodeURIComponent(thing)}/orders/${encodeURIComponent(line.key)}`;
  const order = useLoaded(`order:${address}`, () => read<Order>(address));
  const [text, setText] = useState("");
  const [fault, setFault] = useState<string | null>(null);
  useEffect(() => {
    if (order.value && !text) setText(JSON.stringify(skeleton(order.value.schema ?? order.value.answer_schema ?? order.value.answer ?? {}), null, 2));
  }, [order.value]);
  const send = async () => {
    let answer: unknown;
    try {
      answer = JSON.parse(text);
    } catch (error) {
      setFault(`This is not JSON: ${error instanceof Error ? error.message : ""}`);
      return;
    }
    setFault(null);
    await attempt(async () => {
      const response = await fetch(`${address}/answer`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(answer) });
      if (!response.ok) {
        const problem = problemOf(await response.json().catch(() => undefined), response.status);
        setFault([problem.message, problem.hint].filter(Boolean).join(" "));
        throw problem;
      }
    }, () => { onDone(); return "The answer was taken."; });
  };
  return (
    <Ready of={order}>
      {(told) => (
        <div className="column">
          <p><strong>{String(told.role ?? line.role ?? "question")}</strong></p>
          {["system", "instructions", "prompt", "request"].map((name) => typeof told[name] === "string" && <details key={name} open={name === "prompt" || name === "request"}><summary>{name}</summary><pre className="code" tabIndex={0} style={{ whiteSpace: "pre-wrap" }}>{told[name] as string}</pre></details>)}
          <label className="field">Your answer, as JSON<textarea rows={12} className="mono" spellCheck={false} value={text} onChange={(event) => setText(event.target.value)} /></label>
          {fault && <div className="notice bad" role="alert">{fault}</div>}
          <div className="row"><button type="button" className="primary" onClick={send}>Answer</button><Command line={`telic orders ${line.key} answer.json`} /></div>
        </div>
      )}
    </Ready>
  );
}

/** An answer of the right shape with nothing in it, to be filled in. */
export function skeleton(schema: unknown, root: unknown = schema): unknown {
  const told = (schema ?? {}) as { type?: string; properties?: Record<string, unknown>; $ref?: string; anyOf?: unknown[]; enum?: unknown[]; const?: unknown; default?: unknown; $defs?: Record<string, unknown> };
  if (told.$ref) return skeleton((root as { $defs?: Record<string, unknown> }).$defs?.[told.$ref.split("/").at(-1)!], root);
  if (told.default !== undefined) return told.default;
  if (told.const !== undefined) return told.const;
  if (told.enum) return told.enum[0];
  if (told.anyOf) return skeleton(told.anyOf[0], root);
  if (told.type === "object" || told.properties) return Object.fromEntries(Object.entries(told.properties ?? {}).map(([name, each]) => [name, skeleton(each, root)]));
  return { array: [], string: "", number: 0, integer: 0, boolean: false }[told.type ?? ""] ?? null;
}
