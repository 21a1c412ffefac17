/** Model calls of a session, assembled from their events. */
import type { LoggedEvent } from "./stages";

export interface ModelCall {
  key: string;
  role: string;
  model: string;
  iteration: number;
  system: string | null;
  prompt: string;
  promptHash: string | null;
  attempts: { answer: string | null; error: string | null }[];
  answer: string | null;
  error: string | null;
  tokens: { input: number | null; output: number | null; reasoning: number | null; cached: number | null } | null;
  usd: number | null;
  isPriced: boolean;
  latency: number | null;
  isCached: boolean;
  images: number;
}

export interface CallTotal {
  calls: number;
  /** null: unknown for all calls */
  input: number | null;
  output: number | null;
  /** null: the price of a call is unknown */
  usd: number | null;
}

/** The calls in order, each with the iteration that was current. */
export function callsOf(events: LoggedEvent[]): ModelCall[] {
  const calls: ModelCall[] = [];
  const open = new Map<string, ModelCall>();
  let iteration = 0;
  const call = (event: LoggedEvent): ModelCall => {
    const key = String(event.key);
    let found = open.get(key);
    if (!found) {
      found = { key, role: String(event.role), model: String(event.model), iteration, system: null, prompt: "", promptHash: null, attempts: [], answer: null, error: null, tokens: null, usd: null, isPriced: false, latency: null, isCached: false, images: 0 };
      open.set(key, found);
      calls.push(found);
    }
    return found;
  };
  for (const event of events) {
    if (event.event === "session.judged") iteration = Number(event.number);
    if (!event.event.startsWith("model.")) continue;
    const found = call(event);
    switch (event.event) {
      case "model.sent":
        found.system = (event.system as string | null) ?? null;
        found.prompt = String(event.prompt);
        found.promptHash = (event.prompt_hash as string | null) ?? null;
        found.images = ((event.images as unknown[]) ?? []).length;
        break;
      case "model.rejected":
        found.attempts.push({ answer: String(event.answer), error: String(event.error) });
        break;
      case "model.retry":
        found.attempts.push({ answer: null, error: String(event.error) });
        break;
      case "model.failed":
        found.error = String(event.error);
        open.delete(found.key);
        break;
      case "model.reply":
        found.answer = String(event.answer);
        found.tokens = event.tokens as ModelCall["tokens"];
        found.usd = event.price_usd as number | null;
        found.isPriced = true;
        found.latency = event.latency_s as number;
        found.isCached = Boolean(event.cached);
        open.delete(found.key);
        break;
    }
  }
  return calls;
}

export function totalOf(calls: ModelCall[]): CallTotal {
  const sum = (pick: (call: ModelCall) => number | null | undefined) => calls.reduce((all, call) => all + (pick(call) ?? 0), 0);
  const known = (pick: (call: ModelCall) => number | null | undefined) => (calls.some((call) => pick(call) != null) ? sum(pick) : null);
  const isKnown = calls.every((call) => !call.isPriced || call.isCached || call.usd !== null);
  return { calls: calls.length, input: known((call) => call.tokens?.input), output: known((call) => call.tokens?.output), usd: isKnown ? sum((call) => (call.isCached ? 0 : call.usd)) : null };
}
