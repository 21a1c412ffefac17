/** A session: where it stands, how it learns, what the judge says, and what people ask of it. */
import { useMemo, useState } from "react";
import { Link, useLocation } from "wouter";
import { useAbout } from "../api/about";
import { read } from "../api/client";
import { useLoaded } from "../api/use";
import type { components } from "../api/schema";
import { useLive, type Live } from "../api/live";
import { Badge, Command, Facts, Figures, PageHead, Panel } from "../components/basics";
import { CriteriaList } from "../components/criteria";
import { TermStack, TrainingCurves } from "../components/curves";
import { Lineage } from "../components/lineage";
import { Empty } from "../components/states";
import { StageStrip } from "../components/strip";
import { clock, count, duration, envName, money, number, percent, short, shortId, words } from "../format";
import { findingsOf, latest, sentenceOf, stagesOf, standingOf } from "../session/stages";
import { metOf, type Criterion, type MemberJudgement } from "../session/records";
import { Approval, SessionActions } from "./actions";
import { CandidatePanel } from "./candidate";
import { FilmPanel } from "./film";
import { ReportPanel } from "./leave";
import { OrdersPanel } from "./orders";
import { TracePanel } from "./trace";

export type ThingDetail = components["schemas"]["ThingDetail"];
export type SessionDetail = components["schemas"]["SessionDetail"];
interface Spent { seconds: number; usd: number | null }

const TABS: [string, string][] = [["", "Overview"], ["candidates", "Candidates"], ["trace", "Model calls"], ["report", "Report"], ["events", "Events"], ["about", "About"]];

export function SessionPage({ detail, session, tab, reload }: { detail: ThingDetail; session: SessionDetail; tab: string; reload: () => void }) {
  const { line } = detail;
  const live = useLive(line.id);
  const about = useAbout();
  const at = useMemo(() => standingOf(live.events), [live.events]);
  const state = live.pulse?.state ?? line.state;
  const isRunning = live.pulse?.is_running ?? line.is_running;
  const step = live.pulse?.training?.step;
  const stages = stagesOf(step ? { ...at, step: Math.max(step, at.step ?? 0) } : at, state, isRunning);
  const [place, number_] = tab.split("/");
  const summary = session.summary;
  return (
    <>
      <PageHead
        title={<>{line.title}</>}
        lede={<span className="row"><Badge state={state} /><span title={line.env ?? ""}>{envName(line.env)}</span><code className="small">{shortId(line.id)}</code>{session.origin && <Link href={`/things/${session.origin.session}`}>from iteration {session.origin.iteration} of {shortId(session.origin.session)}</Link>}{!live.isConnected && isRunning && <span className="small">connecting…</span>}</span>}
        actions={about.isReadOnly ? undefined : <SessionActions detail={detail} session={session} state={state} isRunning={isRunning} reload={reload} />}
      />
      <div className="stacked">
        <StageStrip stages={stages} />
        <NowLine live={live} state={state} isRunning={isRunning} session={session} sentence={at.sentence} />
        {session.waiting?.reason === "approval" && session.proposal && !session.approval && <Approval thing={line.id} criteria={session.proposal.criteria as Criterion[]} forecast={latest(live.events, "session.forecast")} reload={reload} />}
        {session.open_orders > 0 && <OrdersPanel thing={line.id} />}
        <nav className="tabs" aria-label="Parts of the session" style={{ marginBottom: 0 }}>
          {TABS.map(([key, name]) => <Link key={key} href={`/things/${line.id}${key && `/${key}`}`} aria-current={(place ?? "") === key ? "page" : undefined}>{name}</Link>)}
        </nav>
        {(place ?? "") === "" && <Overview detail={detail} session={session} live={live} isRunning={isRunning} summary={summary} />}
        {place === "candidates" && <Candidates detail={detail} session={session} chosen={number_ ? Number(number_) : null} />}
        {place === "trace" && <TracePanel thing={line.id} events={live.events} />}
        {place === "report" && <ReportPanel thing={line.id} isReadOnly={about.isReadOnly} />}
        {place === "events" && <Events live={live} />}
        {place === "about" && <AboutSession detail={detail} session={session} />}
      </div>
    </>
  );
}

function NowLine({ live, state, isRunning, session, sentence }: { live: Live; state: string; isRunning: boolean; session: SessionDetail; sentence: string }) {
  const training = live.pulse?.training;
  const spent = latest<Spent>(live.events, "session.spent");
  const { summary } = session;
  if (isRunning)
    return (
      <div className="notice live row between">
        <span>{session.waiting?.message ?? sentence}</span>
        {training && <span className="small soft">{count(training.steps_per_second)} steps/s{training.seconds_left != null && ` · ${duration(training.seconds_left)} of training left`}{spent && ` · ${duration(spent.seconds)} so far · ${money(spent.usd)}`}</span>}
      </div>
    );
  if (!summary) return <div className="notice middling"><strong>{state === "interrupted" ? "It was interrupted." : words(state)}</strong> {state === "interrupted" && "Resume goes on where it was; nothing that was trained is lost."}</div>;
  const tone = summary.outcome === "passed" ? "good" : summary.outcome === "not_passed" ? "bad" : "middling";
  const best = summary.best_iteration == null ? null : session.iterations.find((each) => each.number === summary.best_iteration);
  return (
    <div className={`notice ${tone}`}>
      <p><strong>{SAID[summary.outcome] ?? words(summary.outcome)}</strong> {summary.reason}</p>
      {summary.reasons.map((reason) => <p key={reason} className="small">{reason}</p>)}
      {summary.limits.map((limit) => <p key={limit} className="small soft">{limit}</p>)}
      {summary.outcome === "not_passed" && best && best.tags.length > 0 && <p className="small">What is lacking: {best.tags.map(words).join(", ")}. <Link href={`/things/${summary.session}/candidates/${best.number}`}>See the moment</Link>, branch from it with a note, or give it more steps.</p>}
    </div>
  );
}

const SAID: Record<string, string> = {
  passed: "It does what was asked.", passed_in_part: "It passed in part.", not_passed: "It does not do what was asked yet.", unproven: "A policy scored, but it is not proven.",
  unconfirmed: "It was not confirmed on fresh episodes.", stopped: "It was stopped; it can be resumed.",
};

function Overview({ detail, session, live, isRunning, summary }: { detail: ThingDetail; session: SessionDetail; live: Live; isRunning: boolean; summary: SessionDetail["summary"] }) {
  const [, go] = useLocation();
  const thing = detail.line.id;
  const findings = findingsOf(live.events);
  const last = session.iterations.at(-1)?.number ?? null;
  const said = latest<{ criteria?: Criterion[]; doubts?: string[]; not_understood?: string[] }>(live.events, "session.asked");
  const asked = said && { criteria: said.criteria ?? [], doubts: said.doubts ?? [], not_understood: said.not_understood ?? [] }; // earlier versions said less
  const spent = latest<Spent>(live.events, "session.spent");
  const judged = summary?.best_iteration ?? session.iterations.filter((each) => each.is_judged).at(-1)?.number ?? null;
  const met = useMet(thing, judged);
  return (
    <div className="grid">
      <div className="span-7 stacked">
        {summary && summary.score != null && (
          <Panel title="Result">
            <Figures rows={[
              ["score", number(summary.score)], ["proven at least", summary.low == null ? "nothing" : number(summary.low)],
              ...(summary.passing != null ? [["episodes that pass", <>{summary.passing} <small>of {summary.episodes}</small></>] as [string, React.ReactNode]] : []),
              ["tries", count(summary.iterations)], ["steps", short(summary.steps)], ["time", duration(summary.seconds)], ["money", money(spent?.usd)],
            ]} />
          </Panel>
        )}
        <Panel title={last === null ? "Training" : `Training of try ${last}`}>
          {last === null ? <p className="soft">Curves appear once something is trained.</p> : <TrainingCurves thing={thing} iteration={last} isLive={isRunning} />}
        </Panel>
        {last !== null && <Panel title="Reward by term"><TermStack thing={thing} iteration={last} isLive={isRunning} /></Panel>}
        <Panel title="Health" actions={<span className="small soft">{findings.length === 0 ? "nothing looks wrong" : `${findings.length} to look at`}</span>}>
          {findings.length === 0 ? <p className="soft">What looks wrong with reward or training is said here in words.</p> : (
            <ul className="column">{findings.map((finding) => <li key={finding.name} className="small"><span className="badge middling">{words(finding.name.split(":")[0]!)}</span> {finding.message} {finding.members.length > 0 && <span className="soft">({finding.members.map(words).join(", ")})</span>}</li>)}</ul>
          )}
        </Panel>
      </div>
      <div className="span-5 stacked">
        <FilmPanel thing={thing} iteration={summary?.best_iteration ?? last} member={summary?.best_member ?? null} isLive={isRunning} />
        <Panel title="Criteria" actions={asked && <span className="small soft">{asked.criteria.length}</span>}>
          {asked ? <><CriteriaList criteria={asked.criteria} met={met} />{asked.not_understood.length > 0 && <div className="notice middling small">Not understood: {asked.not_understood.join(", ")}</div>}{asked.doubts.map((doubt) => <p key={doubt} className="small soft">{doubt}</p>)}</> : <p className="soft">The intent is being read.</p>}
        </Panel>
        {session.iterations.length > 0 && (
          <Panel title="Lineage" actions={<Link className="small" href={`/things/${thing}/candidates`}>candidates</Link>}>
            <Lineage nodes={lineageOf(session)} onOpen={(id) => go(`/things/${thing}/candidates/${id}`)} />
          </Panel>
        )}
      </div>
    </div>
  );
}

/** How far the best policy of a try meets each criterion, over its judged episodes. */
function useMet(thing: string, iteration: number | null) {
  const found = useLoaded(iteration === null ? null : `iteration:${thing}:${iteration}`, () => read<components["schemas"]["IterationDetail"]>(`/api/things/${encodeURIComponent(thing)}/iterations/${iteration}`));
  return useMemo(() => {
    const members = (found.value?.judged?.members ?? []) as unknown as MemberJudgement[];
    const best = members.find((each) => each.member === found.value?.judged?.best) ?? members[0];
    return best ? metOf(best.judgement.verdicts) : undefined;
  }, [found.value]);
}

function lineageOf(session: SessionDetail) {
  return session.iterations.map((each) => ({ id: String(each.number), parent: each.parent === null ? null : String(each.parent), title: `try ${each.number}`, note: each.failure ?? each.change, score: each.score ?? null, isBest: each.number === session.summary?.best_iteration }));
}

function Candidates({ detail, session, chosen }: { detail: ThingDetail; session: SessionDetail; chosen: number | null }) {
  const [, go] = useLocation();
  const number_ = chosen ?? session.summary?.best_iteration ?? session.iterations.at(-1)?.number ?? null;
  if (number_ === null) return <Empty title="Nothing was tried yet">Candidates appear when the first reward is written.</Empty>;
  return (
    <div className="stacked">
      <Panel title="Lineage"><Lineage nodes={lineageOf(session)} chosen={String(number_)} onOpen={(id) => go(`/things/${detail.line.id}/candidates/${id}`)} /></Panel>
      <CandidatePanel detail={detail} session={session} iteration={number_} />
    </div>
  );
}

function Events({ live }: { live: Live }) {
  const [filter, setFilter] = useState("");
  const shown = live.events.filter((event) => !filter || event.event.includes(filter)).slice(-2000).reverse();
  return (
    <Panel title={`${live.events.length} events`} tight actions={<input type="search" aria-label="Filter events" placeholder="filter by kind" value={filter} onChange={(event) => setFilter(event.target.value)} />}>
      <ol className="timeline">
        {shown.map((event, index) => (
          <li key={live.events.length - index}>
            <time>{clock(event.time ?? null) || "·"}</time>
            <details><summary style={{ color: "var(--ink)" }}><span className="soft mono small">{event.event}</span> {sentenceOf(event)}</summary><pre className="code small" tabIndex={0}>{JSON.stringify(event, null, 2)}</pre></details>
          </li>
        ))}
      </ol>
    </Panel>
  );
}

function AboutSession({ detail, session }: { detail: ThingDetail; session: SessionDetail }) {
  const { config, certificate, robustness } = session;
  return (
    <div className="grid">
      <div className="span-7 stacked">
        <Panel title="What was asked">
          {config && <Facts rows={[["intent", config.intent], ["environment", config.env], ["who writes", config.model ?? "composer"], ["tries at most", config.iterations], ["training seeds", config.seeds?.join(", ")], ["score to prove", number(config.threshold)], ["episodes", config.episodes], ["device", config.device], ["limits", [config.max_usd && money(config.max_usd), config.max_hours && `${config.max_hours} h`, config.max_steps && `${short(config.max_steps)} steps`, config.max_calls && `${config.max_calls} calls`].filter(Boolean).join(", ") || "none"]]} />}
        </Panel>
        {session.notes.length > 0 && <Panel title="Notes"><ul className="column">{session.notes.map((note) => <li key={note.id}>“{note.text}” <span className="soft small">{note.author}</span></li>)}</ul></Panel>}
        {(session.labels.length > 0 || session.vetoes.length > 0) && (
          <Panel title="What people said">
            <ul className="column">
              {session.labels.map((label, index) => <li key={index}><Badge tone={label.is_wanted ? "good" : "bad"}>{label.is_wanted ? "is what I meant" : "is not what I meant"}</Badge> {label.why} <span className="soft small">{label.author}</span></li>)}
              {session.vetoes.map((veto, index) => <li key={index}><Badge tone="bad">veto</Badge> {veto.why} <span className="soft small">{veto.author}</span></li>)}
            </ul>
          </Panel>
        )}
      </div>
      <div className="span-5 stacked">
        <Panel title="In a terminal"><div className="column"><Command line={detail.command} /><Command line={`telic report ${detail.line.id}`} /><Command line={`telic export ${detail.line.id}`} /></div></Panel>
        <Panel title="Certificate">{certificate ? <pre className="code small" tabIndex={0}>{JSON.stringify(certificate, null, 2)}</pre> : <p className="soft">A pass is certified: what it rests on, hashed and signed.</p>}</Panel>
        {robustness && <Panel title="Robustness"><pre className="code small" tabIndex={0}>{JSON.stringify(robustness, null, 2)}</pre></Panel>}
        <Panel title="Folder"><code className="small">{detail.path}</code><p className="small soft">score {percent(detail.line.score)}</p></Panel>
      </div>
    </div>
  );
}
