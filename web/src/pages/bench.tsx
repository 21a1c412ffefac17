/** Benchmarks: intents that became policies, with intervals, case by case. */
import { useState } from "react";
import { Link, useLocation, useParams } from "wouter";
import { useAbout } from "../api/about";
import { ask, read } from "../api/client";
import { useLoaded } from "../api/use";
import { Badge, Command, Figures, Gauge, PageHead, Panel, Segmented } from "../components/basics";
import { Empty, Ready } from "../components/states";
import { attempt } from "../components/toast";
import { ago, count, duration, envName, number, percent, short, words } from "../format";

interface Rate { passed: number; total: number; share: number | null; low: number | null; high: number | null }
interface Group { name: string; rate: Rate; mean_score: number | null }
interface Line {
  id: string;
  config: { suite: string; options: { model?: string | null; device?: string } } | null;
  tally: { overall: Rate; by_difficulty: Group[]; by_category: Group[]; by_env: Group[]; cases_in_suite: number } | null;
  is_running: boolean;
  updated: number;
  error: string | null;
}
interface Case {
  case: { id: string; env: string; intent: string; difficulty?: string; category?: string }; outcome: string; reason: string | null; tags: string[]; score: number | null; low: number | null; iterations: number | null; env_steps: number | null; seconds: number; strip: string | null; video: string | null;
}

export default function BenchPage() {
  const { "*": id } = useParams<{ "*"?: string }>();
  return id ? <Detail id={decodeURIComponent(id)} /> : <List />;
}

function List() {
  const all = useLoaded("benchmarks", () => read<Line[]>("/api/benchmarks"), 5000);
  return (
    <>
      <PageHead title="Benchmarks" lede="Suites of intents, each tried from words to policy: how many pass, with the 95 % interval of that share." />
      <Start />
      <Ready of={all}>
        {(lines) => lines.length === 0 ? <Empty title="Nothing was measured here yet"><p>A suite of intents, from words to judged policies:</p><Command line="telic bench intents" /></Empty> : (
          <Panel title={`${lines.length} measured`} tight>
            <div className="scroll-x" tabIndex={0} role="group" aria-label="Benchmarks">
              <table className="plain">
                <thead><tr><th>Suite</th><th>Who writes</th><th className="number">Passed</th><th style={{ width: "12rem" }}>Share</th><th>State</th><th className="number">When</th></tr></thead>
                <tbody>{lines.map((line) => <tr key={line.id}><td><Link href={`/bench/${line.id}`}>{line.config?.suite ?? line.id}</Link>{line.error && <div className="small" style={{ color: "var(--bad)" }}>{line.error}</div>}</td><td>{line.config?.options.model ?? "composer"}</td><td className="number">{line.tally ? `${line.tally.overall.passed} of ${line.tally.overall.total}` : "–"}</td><td>{line.tally && <><Gauge value={line.tally.overall.share} low={line.tally.overall.low} tone="live" /><span className="small soft">{percent(line.tally.overall.share)}, {percent(line.tally.overall.low)} to {percent(line.tally.overall.high)}</span></>}</td><td><Badge state={line.is_running ? "running" : line.tally ? "done" : "stopped"} /></td><td className="number soft">{ago(line.updated)}</td></tr>)}</tbody>
              </table>
            </div>
          </Panel>
        )}
      </Ready>
    </>
  );
}

/** Measure the suite of this installation; another one is named in a terminal. */
function Start() {
  const about = useAbout();
  const [, go] = useLocation();
  const [sample, setSample] = useState("3");
  const [model, setModel] = useState("");
  if (about.isReadOnly) return null;
  const start = () => attempt(() => ask("/api/start/bench", {}, { ...(sample ? { sample: Number(sample) } : {}), ...(model ? { settings: [`model=${model}`] } : {}) }), () => { go("/machine"); return "It runs; this page lists it once its first case is measured."; });
  return (
    <Panel title="Measure">
      <form className="row" onSubmit={(event) => { event.preventDefault(); void start(); }}>
        <label className="field">Cases, a sample (empty: all)<input type="number" min="1" value={sample} onChange={(event) => setSample(event.target.value)} style={{ width: "8rem" }} /></label>
        <label className="field">Model (empty: the composer)<input value={model} onChange={(event) => setModel(event.target.value)} /></label>
        <button type="submit" className="primary">Start</button>
        <span className="small soft">A case takes from a minute to an hour of this machine.</span>
      </form>
    </Panel>
  );
}

function Detail({ id }: { id: string }) {
  const loaded = useLoaded(`benchmark:${id}`, () => read<{ line: Line; cases: Case[]; files: Record<string, string> }>(`/api/benchmarks/${encodeURIComponent(id)}`), 5000);
  const [state, setState] = useState("all");
  return (
    <Ready of={loaded}>
      {({ line, cases, files }) => {
        const outcomes = ["all", ...new Set(cases.map((each) => each.outcome))];
        const tally = line.tally;
        return (
          <>
            <PageHead title={line.config?.suite ?? id} lede={<span className="row"><Badge state={line.is_running ? "running" : "done"} /><span>{line.config?.options.model ?? "composer"}</span><Link href="/bench">all benchmarks</Link></span>} />
            <div className="stacked">
              {tally && (
                <div className="grid">
                  <div className="span-4"><Panel title="Passed"><Figures rows={[["of all", `${tally.overall.passed} of ${tally.overall.total}`], ["share", percent(tally.overall.share)], ["95 % interval", `${percent(tally.overall.low)} to ${percent(tally.overall.high)}`]]} /></Panel></div>
                  <div className="span-8"><Panel title="By difficulty, kind and robot" tight><table className="plain small"><thead><tr><th>group</th><th className="number">passed</th><th style={{ width: "10rem" }}>share</th><th className="number">mean score</th></tr></thead><tbody>{[...tally.by_difficulty, ...tally.by_category, ...tally.by_env].map((group) => <tr key={group.name}><td>{group.name}</td><td className="number">{group.rate.passed} of {group.rate.total}</td><td><Gauge value={group.rate.share} low={group.rate.low} tone="live" /></td><td className="number">{number(group.mean_score)}</td></tr>)}</tbody></table></Panel></div>
                </div>
              )}
              <div className="scroll-x"><Segmented label="Outcome" value={state} choices={outcomes.map((each) => [each, words(each)])} onChange={setState} /></div>
              <div className="pictures" style={{ gridTemplateColumns: "repeat(auto-fill, minmax(15rem, 1fr))" }}>
                {cases.filter((each) => state === "all" || each.outcome === state).map((result) => (
                  <article key={result.case.id} className="panel" style={{ overflow: "hidden" }}>
                    {result.video ? <video src={files[result.video]} muted loop playsInline preload="metadata" controls aria-label={`video of ${result.case.intent}`} style={{ borderRadius: 0 }} /> : result.strip ? <img src={files[result.strip]} alt={`pictures of ${result.case.intent}`} style={{ width: "100%", display: "block" }} /> : null}
                    <div className="body column" style={{ padding: "0.7rem 0.9rem", gap: "0.3rem" }}>
                      <h2>{result.case.intent}</h2>
                      <div className="row"><Badge state={result.outcome} /><span className="small soft">{envName(result.case.env)}</span></div>
                      <p className="small soft">score {number(result.score)} · {count(result.iterations)} tries · {short(result.env_steps)} steps · {duration(result.seconds)}</p>
                      {result.reason && <p className="small">{result.reason}</p>}
                    </div>
                  </article>
                ))}
              </div>
            </div>
          </>
        );
      }}
    </Ready>
  );
}
