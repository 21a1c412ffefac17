/** A session: its progress, training, verdict, evidence, and the actions on it. */
import { useMemo, useState } from "react";
import { Link, useLocation } from "wouter";
import { useAbout } from "../api/about";
import { ask, read, type Schema } from "../api/client";
import { useLive, type Live } from "../api/live";
import { useLoaded } from "../api/query";
import { Badge, Command, Facts, Figures, Gauge, PageHead, Panel, Rows } from "../components/basics";
import { CriteriaList } from "../components/criteria";
import { TermStack, TrainingCurves } from "../components/curves";
import { Lineage } from "../components/lineage";
import { Empty } from "../components/states";
import { StageStrip } from "../components/strip";
import { attempt } from "../components/toast";
import { clock, count, duration, envName, money, number, percent, plural, score, short, shortId, words } from "../format";
import { findingsOf, latest, sentenceOf, stagesOf, standingOf } from "../session/stages";
import { metOf, type Criterion } from "../session/records";
import { useUrl } from "../url";
import { Approval, SessionActions, Tags } from "./actions";
import { CandidatePanel } from "./candidate";
import { ReportPanel } from "./export";
import { OrdersPanel } from "./orders";
import { TracePanel } from "./trace";
import { VideoPanel } from "./video";

type ArtifactDetail = Schema<"ArtifactDetail">;
type SessionDetail = Schema<"SessionDetail">;
interface Spent { seconds: number; usd: number | null }

const TABS: [string, string][] = [["", "Overview"], ["candidates", "Iterations"], ["evidence", "Evidence"], ["trace", "Model calls"], ["report", "Report and export"], ["events", "Log"], ["about", "Settings"]];

export function SessionPage({ detail, session, tab, reload }: { detail: ArtifactDetail; session: SessionDetail; tab: string; reload: () => void }) {
  const live = useLive(detail.line.id, detail.line.is_running);
  const about = useAbout();
  const at = useMemo(() => standingOf(live.events, session.config?.iterations), [live.events, session.config?.iterations]);
  const line = { ...detail.line, state: live.status?.state ?? detail.line.state, is_running: live.status?.is_running ?? detail.line.is_running };
  const training = live.status?.training;
  const judged = session.summary?.score ?? at.score;
  const standing = training ? { ...at, step: Math.max(training.step, at.step ?? 0), totalSteps: training.total_steps, isScreening: training.is_screening } : { ...at, score: judged };
  const [asked, number_] = tab.split("/");
  const place = TABS.some(([key]) => key === asked) ? asked : "";
  return (
    <>
      <PageHead
        title={line.name ?? line.title}
        lede={<span className="row">{line.name && <span>{line.title}</span>}<Badge state={line.state} limits={line.limits} /><span title={line.env ?? ""}>{envName(line.env)}</span><code className="small">{shortId(line.id)}</code>{session.origin && <Link href={`/runs/${session.origin.session}`}>branched from iteration {session.origin.iteration} of {shortId(session.origin.session)}</Link>}{!live.isConnected && line.is_running && <span className="small">connecting…</span>}</span>}
        actions={about.isReadOnly ? undefined : <SessionActions detail={detail} session={session} line={line} reload={reload} />}
      />
      <div className="stacked">
        <Tags line={line} />
        <StageStrip stages={stagesOf(standing, line.state, line.is_running)} />
        <NowLine live={live} state={line.state} isRunning={line.is_running} session={session} sentence={at.sentence} />
        {session.waiting?.reason === "approval" && session.proposal && !session.approval && <Approval artifact={line.id} criteria={session.proposal.criteria} forecast={latest(live.events, "session.forecast")} reload={reload} />}
        {session.open_orders > 0 && <OrdersPanel artifact={line.id} />}
        <nav className="tabs" aria-label="Session sections" style={{ marginBottom: 0 }}>
          {TABS.map(([key, name]) => <Link key={key} href={`/runs/${line.id}${key && `/${key}`}`} aria-current={(place ?? "") === key ? "page" : undefined}>{name}</Link>)}
        </nav>
        {(place ?? "") === "" && <Overview line={line} session={session} live={live} />}
        {place === "candidates" && <Candidates detail={detail} session={session} chosen={number_ ? Number(number_) : null} />}
        {place === "evidence" && <Evidence artifact={line.id} session={session} />}
        {place === "trace" && <TracePanel events={live.events} />}
        {place === "report" && <ReportPanel artifact={line.id} isReadOnly={about.isReadOnly} />}
        {place === "events" && <Log live={live} />}
        {place === "about" && <Settings detail={detail} session={session} />}
      </div>
    </>
  );
}

const OUTCOMES: Record<string, string> = {
  passed: "The policy meets all criteria.", passed_in_part: "Partial pass.", not_passed: "No policy has met all criteria yet.", unproven: "A policy reached the threshold, but the result could not be verified.", claimed: "Reported as passed, but not signed with your key.",
  unconfirmed: "The score was not confirmed on fresh episodes.", stopped: "Stopped. It can be resumed.",
};
const STATES: Record<string, [string, string]> = {
  interrupted: ["Interrupted.", "Resume continues from where it stopped; no training progress is lost."],
  starting: ["Starting.", "Starting up. This takes a few seconds."],
  "not started": ["Not started yet.", "Press Start to run it."],
  deleted: ["Deleted.", "It may be in the trash."],
};

function NowLine({ live, state, isRunning, session, sentence }: { live: Live; state: string; isRunning: boolean; session: SessionDetail; sentence: string }) {
  const training = live.status?.training;
  const spent = latest<Spent>(live.events, "session.spent");
  const { summary } = session;
  if (isRunning)
    return (
      <div className="notice live row between" role="status">
        <span>{state === "stopping" ? "Stopping: saving the policies and writing the report." : session.waiting?.message ?? sentence}</span>
        <span className="small soft">{[training?.is_screening && "screening", training && `${count(training.steps_per_second)} steps/s`, training?.seconds_left != null && `${duration(training.seconds_left)} of training left`, spent && `${duration(spent.seconds)} so far`, spent && money(spent.usd)].filter(Boolean).join(" · ")}</span>
      </div>
    );
  if (!summary) {
    const [title, more] = STATES[state] ?? [words(state), ""];
    return <div className="notice middling" role="status"><strong>{title}</strong> {more}</div>;
  }
  const tone = summary.outcome === "passed" ? "good" : summary.outcome === "not_passed" ? "bad" : "middling";
  const best = session.iterations.find((each) => each.number === summary.best_iteration);
  return (
    <div className={`notice ${tone}`}>
      <p><strong>{OUTCOMES[summary.outcome] ?? words(summary.outcome)}</strong> {summary.reason}</p>
      {summary.reasons.map((reason) => <p key={reason} className="small">{reason}</p>)}
      {summary.limits.map((limit) => <p key={limit} className="small soft">{limit}</p>)}
      {summary.outcome !== "passed" && best && best.tags.length > 0 && <p className="small">Failed criteria: {best.tags.map(words).join(", ")}. <MomentLink artifact={summary.session} iteration={best.number} /></p>}
    </div>
  );
}

/** Open the worst recorded episode of an iteration where it fails a criterion. */
export function MomentLink({ artifact, iteration }: { artifact: string; iteration: number }) {
  const home = `/api/artifacts/${encodeURIComponent(artifact)}`;
  const found = useLoaded(`iteration:${artifact}:${iteration}`, () => read<Schema<"IterationDetail">>(`${home}/iterations/${iteration}`));
  const files = useLoaded(`judged:${artifact}:${iteration}`, () => read<Schema<"ArtifactFile">[]>(`${home}/files?kind=recording&iteration=${iteration}`));
  const best = found.value?.judged?.members.find((each) => each.member === found.value?.judged?.best);
  const kept = (best?.judgment.verdicts ?? []).flatMap((verdict, index) => {
    const file = files.value?.find((each) => each.is_judged && each.member === best!.member && each.label === String(index + 1));
    return file && verdict.score !== null ? [{ verdict, score: verdict.score, file }] : [];
  });
  const worst = kept.sort((a, b) => a.score - b.score)[0];
  const missed = worst?.verdict.criteria.filter((criterion) => !criterion.passed).sort((a, b) => Number(b.is_guard) - Number(a.is_guard) || b.weight * (1 - b.counted) - a.weight * (1 - a.counted))[0];
  return worst && missed ? <Link href={`/play/${artifact}?file=${worst.file.key}&moment=${encodeURIComponent(missed.title)}`}>Show where it fails</Link> : null;
}

function Overview({ line, session, live }: { line: Schema<"ArtifactSummary">; session: SessionDetail; live: Live }) {
  const [, go] = useLocation();
  const { summary } = session;
  const findings = findingsOf(live.events);
  const last = session.iterations.at(-1)?.number ?? null;
  const asked = latest<{ criteria?: Criterion[]; doubts?: string[]; not_understood?: string[] }>(live.events, "session.asked");
  const criteria = session.approval?.criteria ?? asked?.criteria ?? null;
  const spent = latest<Spent>(live.events, "session.spent");
  const judged = summary?.best_iteration ?? session.iterations.filter((each) => each.is_judged).at(-1)?.number ?? null;
  const met = useMet(line.id, judged);
  return (
    <div className="grid">
      <div className="span-7 stacked">
        {summary && summary.score != null && (
          <Panel title="Result">
            <Figures rows={[
              ["score", score(summary.score)], ["lower bound (95%)", summary.low == null ? "none" : score(summary.low)],
              ...(summary.passing != null ? [["passing episodes", <>{summary.passing} <small>of {summary.episodes}</small></>] as [string, React.ReactNode]] : []),
              ["iterations", count(summary.iterations)], ["steps", short(summary.steps)], ["time", duration(summary.seconds)], ["model cost", money(spent?.usd)],
            ]} />
          </Panel>
        )}
        <Panel title={last === null ? "Training" : `Training of iteration ${last}`}>
          {last === null ? <p className="soft">Training curves will appear here once training starts.</p> : <TrainingCurves artifact={line.id} iteration={last} isLive={line.is_running} />}
        </Panel>
        {last !== null && <Panel title="Reward by term"><TermStack artifact={line.id} iteration={last} isLive={line.is_running} /></Panel>}
        <Panel title="Health" actions={<span className="small soft">{findings.length === 0 ? "no problems found" : plural(findings.length, "finding")}</span>}>
          {findings.length === 0 ? <p className="soft">Problems with the reward or the training run are listed here.</p> : (
            <ul className="column">{findings.map((finding) => <li key={finding.name} className="small"><span className="badge middling">{words(finding.name.split(":")[0]!)}</span> {finding.message} {finding.members.length > 0 && <span className="soft">({finding.members.map(words).join(", ")})</span>}</li>)}</ul>
          )}
        </Panel>
      </div>
      <div className="span-5 stacked">
        <VideoPanel artifact={line.id} env={line.env ?? null} iteration={summary?.best_iteration ?? last} member={summary?.best_member ?? null} isLive={line.is_running} />
        <Panel title="Criteria" actions={criteria && <span className="small soft">{criteria.length}</span>}>
          {criteria ? <><CriteriaList criteria={criteria} met={met} />{(asked?.not_understood ?? []).length > 0 && <div className="notice middling small">Not understood: {asked!.not_understood!.join(", ")}</div>}{(asked?.doubts ?? []).map((doubt) => <p key={doubt} className="small soft">{doubt}</p>)}</> : <p className="soft">{line.is_running ? "Reading the intent." : "No criteria found."}</p>}
        </Panel>
        {session.iterations.length > 0 && (
          <Panel title="Lineage" actions={<Link className="small" href={`/runs/${line.id}/candidates`}>iterations</Link>}>
            <Lineage nodes={lineageOf(session)} onOpen={(id) => go(`/runs/${line.id}/candidates/${id}`)} />
          </Panel>
        )}
      </div>
    </div>
  );
}

/** Credit of the best policy of an iteration per criterion, over its judged episodes. */
function useMet(artifact: string, iteration: number | null) {
  const found = useLoaded(iteration === null ? null : `iteration:${artifact}:${iteration}`, () => read<Schema<"IterationDetail">>(`/api/artifacts/${encodeURIComponent(artifact)}/iterations/${iteration}`));
  return useMemo(() => {
    const members = found.value?.judged?.members ?? [];
    const best = members.find((each) => each.member === found.value?.judged?.best) ?? members[0];
    return best ? metOf(best.judgment.verdicts) : undefined;
  }, [found.value]);
}

function lineageOf(session: SessionDetail) {
  return session.iterations.map((each) => ({ id: String(each.number), parent: each.parent == null ? null : String(each.parent), title: `iteration ${each.number}`, note: each.failure ?? each.change, score: each.score ?? null, isBest: each.number === session.summary?.best_iteration }));
}

function Candidates({ detail, session, chosen }: { detail: ArtifactDetail; session: SessionDetail; chosen: number | null }) {
  const [, go] = useLocation();
  const number_ = chosen ?? session.summary?.best_iteration ?? session.iterations.at(-1)?.number ?? null;
  if (number_ === null) return <Empty title="No iterations yet">The first iteration will appear once its reward has been written.</Empty>;
  return (
    <div className="stacked">
      <Panel title="Lineage"><Lineage nodes={lineageOf(session)} chosen={String(number_)} onOpen={(id) => go(`/runs/${detail.line.id}/candidates/${id}`)} /></Panel>
      <CandidatePanel detail={detail} session={session} iteration={number_} />
    </div>
  );
}

/** Judge the best policy again, on its recorded or on new episodes; the recorded verdict stays. */
function JudgeAgain({ artifact }: { artifact: string }) {
  const [episodes, setEpisodes] = useState("");
  const [isJudging, setJudging] = useState(false);
  const [found, setFound] = useState<Schema<"_Rejudgment"> | null>(null);
  const start = async () => {
    setJudging(true);
    await attempt(async () => setFound(await ask("/api/artifacts/{artifact}/judge", { artifact }, episodes ? { episodes: Number(episodes) } : {})));
    setJudging(false);
  };
  return (
    <Panel title="Judge again" actions={<button type="button" disabled={isJudging} onClick={start}>{isJudging ? "Judging…" : "Judge"}</button>}>
      <div className="column">
        <label className="field">New episodes<input type="number" min="1" value={episodes} placeholder="0 = use recorded episodes" onChange={(event) => setEpisodes(event.target.value)} /></label>
        {found && (
          <>
            <Figures rows={[["score", score(found.score)], ["lower bound (95%)", score(found.low)], ["passing episodes", <>{count(found.passing)} <small>of {found.episodes}</small></>], ...(found.recorded ? [["recorded score", score(found.previous_score)], ["verdicts changed", count(found.flipped)]] as [string, string][] : [])]} />
            {found.unknown > 0 && <p className="small">{plural(found.unknown, "episode")} could not be judged.</p>}
            <Rows label="Criteria, judged again" heads={["criterion", "mean credit", "median value"]} numbers={[1, 2]} rows={Object.entries(found.criteria).map(([title, [credit, value]]) => [title, percent(credit), number(value)])} />
          </>
        )}
        <p className="small soft">The judge of this session scores {words(found?.member ?? "the best policy")}. The recorded verdict does not change.</p>
      </div>
    </Panel>
  );
}

/** Evidence: validation of the judge, certificate, robustness, labels. */
function Evidence({ artifact, session }: { artifact: string; session: SessionDetail }) {
  const { certificate, robustness, validation } = session;
  const about = useAbout();
  return (
    <div className="grid">
      <div className="span-7 stacked">
        <Panel title="Reward and judge validation" tight={validation !== null && validation.examples.length > 0} actions={validation && <span className="small soft">{plural(validation.examples.length, "reference episode")}</span>}>
          {validation && validation.examples.length > 0 ? <Rows label="Reference episodes" heads={["reference episode", "expected", "judge score", "total reward", "criteria not met"]} numbers={[2, 3]} rows={validation.examples.map((each) => [
            words(each.name), each.is_good ? <Badge tone="good">good</Badge> : validation.fine.includes(each.name) ? <Badge tone="">acceptable</Badge> : <Badge tone="bad">failure mode</Badge>, score(each.score), number(each.pay), <span className="small soft">{each.reason ?? "–"}</span>,
          ])} /> : <p className="soft">Before training, the reward and the judge are validated on reference episodes: a scripted demonstration and known failure modes.</p>}
          {validation && [...validation.judge_problems, ...validation.reward_problems].map((problem) => <div key={problem} className="notice middling small" style={{ margin: "0.6rem" }}>{problem}</div>)}
        </Panel>
        <Panel title="Robustness" tight={robustness !== null} actions={robustness && <span className="small soft">{session.robustness_words}</span>}>
          {robustness ? <Rows label="Conditions" heads={["condition", "change", "passing episodes", "mean score"]} numbers={[3]} rows={robustness.rows.map((row) => [words(row.condition), row.words, row.passing == null ? row.reason ?? "unknown" : <>{row.passing} of {row.episodes}<Gauge value={row.passing / Math.max(1, row.episodes)} tone="live" /></>, score(row.score)])} /> : <p className="soft">A policy that passes is then tested under pushes, sensor noise and changed dynamics.</p>}
        </Panel>
      </div>
      <div className="span-5 stacked">
        <Panel title="Certificate">
          {certificate ? (
            <div className="column">
              {certificate.doubts.map((doubt) => <div key={doubt} className="notice middling small">{doubt}</div>)}
              <Facts rows={[["independent confirmation", certificate.good ?? "none"], ["judge SHA-256", <code key="j" className="small">{certificate.judge_hash ?? "not recorded"}</code>], ["reward hashes", plural(Object.keys(certificate.reward_hashes).length, "policy", "policies")]]} />
              {certificate.limits.map((limit) => <p key={limit} className="small soft">{limit}</p>)}
              {certificate.mutants.length > 0 && <Rows label="Altered episodes" heads={["criterion", "altered episodes", "value changed", "credit lost"]} numbers={[1, 2, 3]} rows={certificate.mutants.map((each) => [each.criterion, count(each.total), count(each.changed), count(each.caught)])} />}
            </div>
          ) : <p className="soft">If the session passes, a signed certificate with hashes of all evidence appears here.</p>}
        </Panel>
        {!about.isReadOnly && session.iterations.some((each) => each.is_judged) && <JudgeAgain artifact={artifact} />}
        <Panel title="Labels and vetoes">
          {session.labels.length + session.vetoes.length === 0 ? <p className="soft">To calibrate the judge, label judged episodes in the player.</p> : (
            <ul className="column">
              {session.labels.map((label, index) => <li key={index} className="small"><Badge tone={label.is_wanted ? "good" : "bad"}>{label.is_wanted ? "wanted" : "not wanted"}</Badge> episode {label.episode} of {words(label.member)} {label.why} <span className="soft">{label.author}</span></li>)}
              {session.vetoes.map((veto, index) => <li key={index} className="small"><Badge tone="bad">veto</Badge> {veto.why} <span className="soft">{veto.author}</span></li>)}
            </ul>
          )}
        </Panel>
        {session.notes.length > 0 && <Panel title="Feedback"><ul className="column">{session.notes.map((note) => <li key={note.id} className="small">“{note.text}” <span className="soft">{note.author}</span></li>)}</ul></Panel>}
      </div>
    </div>
  );
}

function Log({ live }: { live: Live }) {
  const [filter, setFilter] = useUrl("log");
  const fits = (text: string) => text.toLowerCase().includes(filter.toLowerCase());
  const all = live.events.map((event, index) => ({ event, index, sentence: sentenceOf(event) ?? "" })).filter(({ event, sentence }) => !filter || fits(event.event) || fits(sentence));
  return (
    <Panel title={`${plural(live.events.length, "event")}${live.status?.is_running ? ", live" : ""}`} tight actions={<input type="search" aria-label="Filter the log" placeholder="filter" value={filter} onChange={(event) => setFilter(event.target.value)} />}>
      <ol className="timeline" aria-live="off">
        {all.slice(-2000).reverse().map(({ event, index, sentence }) => (
          <li key={index}>
            <time>{clock(event.time ?? null) || "·"}</time>
            <details><summary style={{ color: "var(--ink)" }}><span className="soft mono small">{event.event}</span> {sentence}</summary><pre className="code small" tabIndex={0}>{JSON.stringify(event, null, 2)}</pre></details>
          </li>
        ))}
      </ol>
    </Panel>
  );
}

function Settings({ detail, session }: { detail: ArtifactDetail; session: SessionDetail }) {
  const { config } = session;
  const limits = config && [config.max_usd && money(config.max_usd), config.max_hours && `${config.max_hours} h`, config.max_steps && `${short(config.max_steps)} steps`, config.max_calls && `${config.max_calls} model calls`].filter(Boolean).join(", ");
  return (
    <div className="grid">
      <div className="span-7 stacked">
        <Panel title="Request">
          {config && <Facts rows={[["intent", config.intent], ["environment", config.env], ["reward author", config.model ?? "composer"], ["maximum iterations", config.iterations], ["training seeds", config.seeds.join(", ")], ["required lower bound", number(config.threshold)], ["evaluation episodes", config.episodes], ["device", config.device], ["limits", limits || "none"]]} />}
        </Panel>
      </div>
      <div className="span-5 stacked">
        <Panel title="Commands"><div className="column"><Command line={detail.command} /><Command line={`telic report ${detail.line.id}`} /><Command line={`telic export ${detail.line.id}`} /></div></Panel>
        <Panel title="Folder"><code className="small">{detail.path}</code></Panel>
      </div>
    </div>
  );
}
