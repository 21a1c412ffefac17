/** Describe a behavior, check how it will be measured and what it will cost, and start. */
import { useDeferredValue, useEffect, useMemo, useRef, useState } from "react";
import { Link, useLocation } from "wouter";
import { api, ask, got, read, type Schema } from "../api/client";
import { waitForJob } from "../api/jobs";
import { refresh, useLoaded, type Loaded } from "../api/query";
import { Badge, Command, Figures, Panel } from "../components/basics";
import { CriteriaForm, edited, type CriteriaEdits } from "../components/criteria";
import { Failure, Loading, Ready } from "../components/states";
import { attempt } from "../components/toast";
import { ago, count, duration, envName, money, number, plural, score, short } from "../format";
import { useShortcuts } from "../keyboard";
import { remember, remembered } from "../memory";
import { site } from "../site/answers";

const EXAMPLES: { intent: string; env: string }[] = [
  { intent: "run forward fast", env: "HalfCheetah-v5" },
  { intent: "do a backflip and land on your feet", env: "HalfCheetah-v5" },
  { intent: "hop in place", env: "Hopper-v5" },
  { intent: "walk slowly backward", env: "Walker2d-v5" },
  { intent: "trot forward", env: "Ant-v5" },
  { intent: "keep the pole upright", env: "InvertedPendulum-v5" },
];

/** Options as typed; empty fields use the server's defaults. */
type Options = Partial<Record<"iterations" | "seeds" | "steps" | "model" | "max_usd" | "max_hours", string>> & { approve?: boolean };
type Preview = Schema<"IntentPreview">;

const SETTLE_MS = 300;

function requestOf(intent: string, env: string, { iterations, seeds, steps, model, max_usd, max_hours, approve }: Options) {
  return {
    intent: intent.trim(), env,
    ...(iterations ? { iterations: Number(iterations) } : {}), ...(seeds ? { seeds } : {}), ...(steps ? { steps } : {}), ...(model ? { model } : {}),
    ...(max_usd ? { max_usd: Number(max_usd) } : {}), ...(max_hours ? { max_hours: Number(max_hours) } : {}), ...(approve ? { approve } : {}),
  };
}

export function StartPage() {
  const [, go] = useLocation();
  const [intent, setIntent] = useState(() => remembered("draft.intent", ""));
  const [env, setEnv] = useState(() => remembered("draft.env", "HalfCheetah-v5"));
  const [options, setOptions] = useState<Options>({});
  const [edits, setEdits] = useState<CriteriaEdits>({});
  const [isStarting, setStarting] = useState(false);
  const { preview, isSettled } = usePreview(requestOf(intent, env, options));
  const box = useRef<HTMLTextAreaElement>(null);
  useShortcuts([{ keys: "i", does: "describe a behavior", act: () => box.current?.focus() }]);
  useEffect(() => remember("draft.intent", intent), [intent]);
  useEffect(() => remember("draft.env", env), [env]);
  useEffect(() => {
    if (site) go(`/runs/${site.artifact}`);
  }, []);

  const criteria = preview.value?.criteria ?? [];
  const kept = useMemo(() => edited(criteria, edits), [criteria, edits]);
  const isEdited = criteria.length > 0 && JSON.stringify(kept) !== JSON.stringify(criteria);
  const hasWords = /[\p{L}\p{N}]/u.test(intent);
  const isRefused = preview.error !== null && isSettled;
  const canStart = hasWords && !isStarting && !isRefused && (criteria.length === 0 || kept.length > 0);
  const start = async () => {
    setStarting(true);
    await attempt(async () => {
      const job = await ask("/api/start/run", {}, { ...requestOf(intent, env, options), ...(isEdited ? { criteria: kept } : {}), fresh: true });
      const artifact = await waitForJob(job.job);
      refresh("artifacts", "recent");
      go(`/runs/${artifact}`);
    });
    setStarting(false);
  };
  return (
    <>
      <div className="hero">
        <h1>What should the robot do?</h1>
        <p className="soft">Describe a behavior, and telic trains a policy and verifies that it does what you asked.</p>
        <form className="intent" onSubmit={(event) => { event.preventDefault(); if (canStart) void start(); }}>
          <textarea ref={box} rows={2} aria-label="Intent" value={intent} maxLength={2000} autoFocus placeholder="For example: run forward fast"
            onChange={(event) => { setIntent(event.target.value); setEdits({}); }} onKeyDown={(event) => { if (event.key === "Enter" && !event.shiftKey && !event.nativeEvent.isComposing) { event.preventDefault(); if (canStart) void start(); } }} />
          <div className="row between">
            <span className="row small soft"><span className="chip">{envName(env)}</span><span className="chip">{options.model || "composer (no LLM needed)"}</span></span>
            <button type="submit" className="primary" disabled={!canStart}>{isStarting ? "Starting…" : "Start"}</button>
          </div>
        </form>
        <div className="chips" style={{ marginTop: "0.7rem" }} role="group" aria-label="Examples">
          {EXAMPLES.map((example) => <button key={example.intent} type="button" className="chip" onClick={() => { setIntent(example.intent); setEnv(example.env); setEdits({}); box.current?.focus(); }}>{example.intent}</button>)}
        </div>
      </div>
      <div className="grid" style={{ maxWidth: "92rem", margin: "0 auto" }}>
        <div className="span-7 stacked">
          <CriteriaPanel preview={preview} edits={edits} onEdits={setEdits} hasWords={hasWords} options={options} onOptions={setOptions} />
          <Environments chosen={env} onChoose={(next) => { setEnv(next); setEdits({}); }} />
        </div>
        <div className="span-5 stacked">
          <CostPanel preview={preview.value} options={options} isEdited={isEdited} onOptions={setOptions} />
          <Recent />
        </div>
      </div>
    </>
  );
}

/** Preview the request shortly after the last change; the previous preview stays until then. */
function usePreview(request: ReturnType<typeof requestOf>): { preview: Loaded<Preview>; isSettled: boolean } {
  const text = JSON.stringify(request);
  const [asked, setAsked] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => setAsked(text), SETTLE_MS);
    return () => clearTimeout(timer);
  }, [text]);
  const body = JSON.parse(asked) as typeof request;
  const found = useLoaded(/[\p{L}\p{N}]/u.test(body.intent) ? `preview:${asked}` : null, () => ask("/api/preview/run", {}, body) as Promise<Preview>);
  const last = useRef<Preview | undefined>(undefined);
  if (found.value) last.current = found.value;
  const isSame = last.current?.config.intent === body.intent && last.current?.config.env === body.env && (last.current?.config.model ?? "") === (body.model ?? "");
  return { preview: found.value || found.error || !isSame ? found : { ...found, value: last.current }, isSettled: asked === text };
}

interface CriteriaPanelProps {
  preview: Loaded<Preview>;
  edits: CriteriaEdits;
  onEdits: (edits: CriteriaEdits) => void;
  hasWords: boolean;
  options: Options;
  onOptions: (options: Options) => void;
}

function CriteriaPanel({ preview, edits, onEdits, hasWords, options, onOptions }: CriteriaPanelProps) {
  const { value, error } = preview;
  const approve = <label className="row small"><input type="checkbox" checked={options.approve ?? false} onChange={(event) => onOptions({ ...options, approve: event.target.checked })} />Approve criteria before training</label>;
  if (options.model)
    return (
      <Panel title="Criteria">
        <div className="column">
          {error ? <Failure error={error} /> : <p className="soft">{options.model} will read the intent and propose criteria when the session starts.</p>}
          {approve}
        </div>
      </Panel>
    );
  return (
    <Panel title="Criteria">
      {!hasWords && <p className="soft">Criteria appear as you type. You can edit targets and weights or remove criteria. Training does not begin until you press Start.</p>}
      {hasWords && error && <Failure error={error} />}
      {hasWords && !value && !error && <Loading />}
      {hasWords && value && !error && (
        <div className="column">
          <CriteriaForm criteria={value.criteria} edits={edits} onChange={onEdits} />
          {value.not_understood.length > 0 && <div className="notice middling"><strong>Not understood:</strong> {value.not_understood.join(", ")}. These words are not measured, so the best possible result is a partial pass.</div>}
          {value.dropped.length > 0 && <div className="notice middling"><strong>Omitted:</strong> {value.dropped.join(", ")}.</div>}
          {value.doubts.map((doubt) => <p key={doubt} className="small soft">{doubt}</p>)}
          {approve}
        </div>
      )}
    </Panel>
  );
}

function CostPanel({ preview, options, isEdited, onOptions }: { preview: Preview | undefined; options: Options; isEdited: boolean; onOptions: (options: Options) => void }) {
  const forecast = preview?.forecast;
  const config = preview?.config;
  const field = (name: Exclude<keyof Options, "approve">, title: string, placeholder: string, isNumber = false) => (
    <label className="field span-4">{title}<input value={options[name] ?? ""} placeholder={placeholder} inputMode={isNumber ? "decimal" : undefined} list={name === "model" ? "models" : undefined} onChange={(event) => onOptions({ ...options, [name]: event.target.value.trim() })} /></label>
  );
  const amount = (steps: number | undefined, seconds: number | null | undefined) => (steps === undefined ? "–" : seconds == null ? <>{short(steps)} <small>steps</small></> : duration(seconds));
  return (
    <Panel title="Cost">
      <div className="column">
        <Figures rows={[["if the first iteration passes", amount(forecast?.first_steps, forecast?.first_seconds)], ["maximum", amount(forecast?.most_steps, forecast?.most_seconds)], ["model cost", options.model ? money(forecast?.usd) : "$0"]]} />
        {options.model && <p className="small soft">The cost can be estimated once the model has written the reward. You can set limits below.</p>}
        {forecast && forecast.first_seconds === null && <p className="small soft">No estimate yet: this environment has not been trained on this machine before.</p>}
        {forecast && forecast.measured_runs > 0 && <p className="small soft">Based on {plural(forecast.measured_runs, "training run")} on this machine ({count(forecast.steps_per_second)} steps/s).</p>}
        <details>
          <summary>Options and limits</summary>
          <div className="grid" style={{ gap: "0.6rem" }}>
            {field("iterations", "Maximum iterations", String(config?.iterations ?? ""), true)}
            {field("seeds", "Training seeds", config?.seeds.join(", ") ?? "")}
            {field("steps", "Steps per policy", "automatic")}
            {field("model", "Model", "composer")}
            {field("max_usd", "Maximum model cost (USD)", "no limit", true)}
            {field("max_hours", "Maximum hours", "no limit", true)}
          </div>
          <datalist id="models"><option value="host">answer work orders yourself</option></datalist>
          <p className="small soft" style={{ marginTop: "0.5rem" }}>For the model, enter <code>provider:model</code>, or <code>host</code> to answer work orders yourself on the session page.</p>
        </details>
        <div>
          <h3>Equivalent command</h3>
          <Command line={`${preview?.command ?? "telic run …"}${isEdited ? " --criteria criteria.json" : ""}`} />
        </div>
      </div>
    </Panel>
  );
}

function Environments({ chosen, onChoose }: { chosen: string; onChoose: (env: string) => void }) {
  const envs = useLoaded("envs", () => read<Schema<"EnvSummary">[]>("/api/envs"));
  const robots = useLoaded("robots", () => got(api.GET("/api/robots")));
  const [filter, setFilter] = useState("");
  const wanted = useDeferredValue(filter).toLowerCase();
  const fits = (text: string) => text.toLowerCase().includes(wanted);
  const isRobot = (robots.value ?? []).some((robot) => robot.robot === chosen);
  return (
    <Panel title="Robot" actions={<input type="search" aria-label="Filter robots" placeholder="filter" value={filter} onChange={(event) => setFilter(event.target.value)} style={{ width: "10rem" }} />}>
      <Ready of={envs}>
        {(list) => (
          <div className="column">
            <div className="pictures">
              {list.filter((env) => env.fast && env.install == null && fits(`${env.id} ${env.description}`)).map((env) => (
                <PictureButton key={env.id} name={env.id} title={env.id.replace(/-v\d+$/, "")} note={env.obs_dim == null ? "" : `${env.obs_dim} observations, ${plural(env.act_dim ?? 0, "actuator")}`} isChosen={chosen === env.id} onChoose={onChoose} />
              ))}
            </div>
            <details open={filter !== "" || isRobot}>
              <summary>More robots ({robots.value?.length ?? "…"})</summary>
              <div className="pictures">
                {(robots.value ?? []).filter((robot) => fits(`${robot.robot} ${robot.title} ${robot.kind}`)).map((robot) => (
                  <PictureButton key={robot.robot} name={robot.robot} title={robot.title} note={`${robot.kind}, ${number(robot.mass_kg)} kg`} isChosen={chosen === robot.robot} onChoose={onChoose} />
                ))}
              </div>
            </details>
          </div>
        )}
      </Ready>
    </Panel>
  );
}

function PictureButton(props: { name: string; title: string; note: string; isChosen: boolean; onChoose: (name: string) => void }) {
  const [hasPicture, setHasPicture] = useState(true);
  return (
    <button type="button" className="picture" aria-pressed={props.isChosen} onClick={() => props.onChoose(props.name)}>
      <span className="image">{hasPicture ? <img src={`/api/pictures/${encodeURIComponent(props.name)}`} alt="" loading="lazy" onError={() => setHasPicture(false)} /> : "no picture yet"}</span>
      <span className="caption">{props.title}<small>{props.note}</small></span>
    </button>
  );
}

function Recent() {
  const recent = useLoaded("recent", () => got(api.GET("/api/artifacts", { params: { query: { kind: ["session"], limit: 6 } } })), 3000);
  return (
    <Panel title="Recent sessions" tight actions={<Link href="/runs" className="small">All runs</Link>}>
      <Ready of={recent}>
        {(page) => page.artifacts.length === 0 ? <p className="soft" style={{ padding: "0.9rem" }}>No sessions yet.</p> : (
          <table className="plain">
            <thead className="sr"><tr><th>intent</th><th>state</th><th>last active</th></tr></thead>
            <tbody>
              {page.artifacts.map((line) => (
                <tr key={line.id}>
                  <td><Link href={`/runs/${line.id}`}>{line.name ?? line.title}</Link><div className="small soft">{envName(line.env)}{line.score != null && ` · score ${score(line.score)}`}</div></td>
                  <td><Badge state={line.state} limits={line.limits} /></td>
                  <td className="number small soft">{ago(line.updated)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
      </Ready>
    </Panel>
  );
}
