/** Benchmarks: suites of prompts with pass rates and their intervals, case by case. */
import { useState } from "react";
import { Link, useLocation, useParams } from "wouter";
import { useAbout } from "../api/about";
import { api, ask, got, read, type Schema } from "../api/client";
import { refresh, useLoaded } from "../api/query";
import { Badge, Command, Figures, Gauge, PageHead, Panel, Rows, Segmented } from "../components/basics";
import { Empty, Ready } from "../components/states";
import { attempt } from "../components/toast";
import { ago, count, duration, envName, percent, plural, score, short, words } from "../format";
import { useUrl } from "../url";

type Line = Schema<"BenchmarkEntry">;
type PassRate = Schema<"PassRate">;
type Job = Schema<"StartedJob">;

export default function BenchPage() {
  const { "*": id } = useParams<{ "*"?: string }>();
  return id ? <Detail id={decodeURIComponent(id)} /> : <List />;
}

function rateWords(rate: PassRate): string {
  return rate.share == null ? "–" : `${percent(rate.share)} (${percent(rate.low)} to ${percent(rate.high)})`;
}

/** Benchmarks that were started from the dashboard and have not ended. */
function useBenchJobs(): Job[] {
  const jobs = useLoaded("jobs", () => got(api.GET("/api/jobs")), 2500);
  return (jobs.value ?? []).filter((job) => job.verb === "machine:intents" && ["starting", "running"].includes(job.state));
}

function List() {
  const all = useLoaded("benchmarks", () => read<Line[]>("/api/benchmarks"), 5000);
  const jobs = useBenchJobs();
  return (
    <>
      <PageHead title="Benchmarks" lede="Pass rates of prompt suites, with 95% confidence intervals. A policy is trained and judged for each prompt." />
      <div className="stacked">
        <Start />
        {jobs.map((job) => <RunningBenchmark key={job.job} job={job} />)}
        <Ready of={all}>
          {(lines) => lines.length === 0 ? (jobs.length > 0 ? <p className="soft">The first case is still running. Results will appear once it has been judged.</p> : <Empty title="No benchmarks yet"><p>Run a prompt suite with</p><Command line="telic bench intents" /></Empty>) : (
            <Panel title={plural(lines.length, "benchmark")} tight>
              <Rows label="Benchmarks" heads={["suite", "author", "passed", "pass rate (95% interval)", "state", "last active"]} numbers={[2, 5]} rows={lines.map((line) => [
                <><Link href={`/bench/${line.id}`}>{line.config?.suite ?? line.id}</Link>{line.error && <div className="notice bad small">{line.error}</div>}</>,
                String(line.config?.options.model ?? "composer"), line.summary ? `${line.summary.overall.passed} of ${line.summary.overall.total}` : "–",
                line.summary && <><Gauge value={line.summary.overall.share ?? null} low={line.summary.overall.low} tone="live" /><span className="small soft">{rateWords(line.summary.overall)}</span></>,
                <Badge key="s" state={line.is_running ? "running" : line.summary ? "done" : "stopped"} />, ago(line.updated),
              ])} />
            </Panel>
          )}
        </Ready>
      </div>
    </>
  );
}

function RunningBenchmark({ job }: { job: Job }) {
  const [isStopping, setStopping] = useState(false);
  const stop = () => attempt(async () => { setStopping(true); await ask("/api/jobs/{job}/stop", { job: job.job }, {}); }, () => { refresh("jobs", "benchmarks"); return "Stopping once the running cases are saved."; });
  return (
    <div className="notice live row between" role="status">
      <span><strong>Running:</strong> <code>{job.command}</code>, started {ago(job.created)}. <Link href="/machine">Output</Link></span>
      <button type="button" onClick={stop} disabled={isStopping || job.state !== "running"}>{isStopping ? "Stopping…" : "Stop"}</button>
    </div>
  );
}

/** Run the suite of this installation; start others on the command line. */
function Start() {
  const about = useAbout();
  const [sample, setSample] = useState("3");
  const [model, setModel] = useState("");
  if (about.isReadOnly) return null;
  const start = () => attempt(() => ask("/api/start/bench", {}, { ...(sample ? { sample: Number(sample) } : {}), ...(model ? { settings: [`model=${model}`] } : {}) }), () => { refresh("jobs", "benchmarks"); return "The benchmark is starting."; });
  return (
    <Panel title="Run a benchmark">
      <form className="row" onSubmit={(event) => { event.preventDefault(); void start(); }}>
        <label className="field">Number of cases (blank for all)<input type="number" min="1" value={sample} onChange={(event) => setSample(event.target.value)} style={{ width: "8rem" }} /></label>
        <label className="field">Model (blank for composer)<input value={model} onChange={(event) => setModel(event.target.value)} /></label>
        <button type="submit" className="primary">Start</button>
        <span className="small soft">Each case takes between one minute and one hour on this machine.</span>
      </form>
    </Panel>
  );
}

function Detail({ id }: { id: string }) {
  const loaded = useLoaded(`benchmark:${id}`, () => read<Schema<"BenchmarkDetail">>(`/api/benchmarks/${encodeURIComponent(id)}`), 5000);
  const jobs = useBenchJobs();
  const [state, setState] = useUrl("outcome", "all");
  const [, go] = useLocation();
  return (
    <Ready of={loaded}>
      {({ line, cases, files }) => {
        const outcomes = ["all", ...new Set(cases.map((each) => each.outcome))];
        const summary = line.summary;
        return (
          <>
            <PageHead title={line.config?.suite ?? id} lede={<span className="row"><Badge state={line.is_running ? "running" : summary ? "done" : "stopped"} /><span>{String(line.config?.options.model ?? "composer")}</span></span>} actions={<button type="button" onClick={() => go("/bench")}>All benchmarks</button>} />
            <div className="stacked">
              {line.is_running && jobs.map((job) => <RunningBenchmark key={job.job} job={job} />)}
              {summary && (
                <div className="grid">
                  <div className="span-4"><Panel title="Passed"><Figures rows={[["cases", `${summary.overall.passed} of ${summary.overall.total}`], ["pass rate", percent(summary.overall.share)], ["95% interval", `${percent(summary.overall.low)} to ${percent(summary.overall.high)}`]]} /></Panel></div>
                  <div className="span-8"><Panel title="By difficulty, category and robot" tight><Rows label="Groups" heads={["group", "passed", "pass rate", "mean score"]} numbers={[1, 3]} rows={[...summary.by_difficulty, ...summary.by_category, ...summary.by_env].map((group) => [group.name, `${group.rate.passed} of ${group.rate.total}`, <Gauge key="g" value={group.rate.share ?? null} low={group.rate.low} tone="live" />, score(group.mean_score)])} /></Panel></div>
                </div>
              )}
              <div className="scroll-x"><Segmented label="Outcome" value={state} choices={outcomes.map((each) => [each, words(each)])} onChange={setState} /></div>
              {cases.length === 0 && <p className="soft">{line.is_running ? "The first case is running." : "No cases have been judged."}</p>}
              <div className="gallery">
                {cases.filter((each) => state === "all" || each.outcome === state).map((result) => (
                  <article key={result.case.id} className="panel card">
                    {result.video ? <video src={files[result.video]} muted loop playsInline preload="metadata" controls aria-label={`Video: ${result.case.intent}`} /> : result.strip ? <img src={files[result.strip]} alt={`Frames: ${result.case.intent}`} /> : null}
                    <div className="body">
                      <h2>{result.case.intent}</h2>
                      <p className="row small soft"><Badge state={result.outcome} /><span>{envName(result.case.env)}</span>{result.case.difficulty && <span>{words(result.case.difficulty)}</span>}</p>
                      <p className="small soft">score {score(result.score)}{result.low != null && `, lower bound ${score(result.low)}`} · {count(result.iterations)} iterations · {short(result.env_steps)} steps · {duration(result.seconds)}</p>
                      {result.reason && <p className="small">{result.reason}</p>}
                      {result.tags.length > 0 && <p className="small soft">Failed criteria: {result.tags.map(words).join(", ")}</p>}
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

