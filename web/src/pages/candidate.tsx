/** One try of a session: formula, code, what changed since its parent, and the verdict grid. */
import { useMemo, useState } from "react";
import { Link } from "wouter";
import { useAbout } from "../api/about";
import { ask, read } from "../api/client";
import type { components } from "../api/schema";
import { useLoaded } from "../api/use";
import { Badge, Figures, Gauge, Panel, Segmented } from "../components/basics";
import { TermStack, TrainingCurves } from "../components/curves";
import { Chart } from "../components/chart";
import { Formula, SourceCode } from "../components/formula";
import { Ready } from "../components/states";
import { attempt } from "../components/toast";
import { VerdictGrid } from "../components/verdicts";
import { count, duration, number, percent, short, words } from "../format";
import { useShortcuts } from "../keyboard";
import type { MemberJudgement } from "../session/records";
import { EpisodePlayer } from "./player";
import type { SessionDetail, ThingDetail } from "./session";

type IterationDetail = components["schemas"]["IterationDetail"];

export function CandidatePanel({ detail, session, iteration }: { detail: ThingDetail; session: SessionDetail; iteration: number }) {
  const thing = detail.line.id;
  const isLive = detail.line.is_running;
  const loaded = useLoaded(`iteration:${thing}:${iteration}`, () => read<IterationDetail>(`/api/things/${encodeURIComponent(thing)}/iterations/${iteration}`), isLive ? 4000 : null);
  return (
    <Ready of={loaded}>
      {(found) => (
        <div className="stacked">
          <Heading found={found} session={session} />
          <div className="grid">
            <div className="span-7 stacked"><Reward found={found} /><Verdicts thing={thing} found={found} session={session} /></div>
            <div className="span-5 stacked">
              <Terms found={found} />
              <Panel title="Training"><TrainingCurves thing={thing} iteration={iteration} isLive={isLive} height={190} /></Panel>
              <Panel title="Reward by term"><TermStack thing={thing} iteration={iteration} isLive={isLive} height={170} /></Panel>
              <Looks found={found} threshold={session.config?.threshold ?? null} />
              <Lessons found={found} />
            </div>
          </div>
        </div>
      )}
    </Ready>
  );
}

function Heading({ found, session }: { found: IterationDetail; session: SessionDetail }) {
  const { judged } = found;
  const line = session.iterations.find((each) => each.number === found.number);
  return (
    <Panel title={<>Try {found.number}: {line?.change || found.candidate?.change}</>} actions={judged && <Badge state={judged.passed ? "passed" : "not_passed"} />}>
      <div className="column">
        <Figures rows={[["score", number(judged?.score ?? null)], ["steps", short(line?.steps)], ["training", duration(line?.training_s)], ["judging", duration(line?.judging_s)], ["policies", count(found.members.length)]]} />
        {line?.failure && <div className="notice bad">{line.failure}</div>}
        {line && line.tags.length > 0 && <p className="small">What is lacking: {line.tags.map(words).join(", ")}</p>}
        {found.notes && found.notes.notes.length > 0 && <p className="small soft">Answers {found.notes.notes.map((note) => `“${note.text}”`).join(", ")}</p>}
        {found.damage.map((each) => <div key={each} className="notice bad small">{each}</div>)}
      </div>
    </Panel>
  );
}

function Reward({ found }: { found: IterationDetail }) {
  const [way, setWay] = useState<"code" | "change">("code");
  const before = found.change?.before ?? null;
  return (
    <Panel title="Reward" actions={before !== null && <Segmented label="Show" value={way} choices={[["code", "code"], ["change", `change since try ${found.change!.parent}`]]} onChange={setWay} />}>
      <div className="column">
        {found.spec?.description && <p className="soft">{found.spec.description}</p>}
        {found.spec?.latex && <Formula latex={found.spec.latex} />}
        {found.change && found.change.terms.length > 0 && (
          <ul className="chips" aria-label="What changed by term">{found.change.terms.map((term) => <li key={term.name}><Badge tone={term.change === "gone" ? "bad" : term.change === "new" ? "good" : "middling"}>{words(term.name)} {term.change === "weight" ? `${number(term.before)} → ${number(term.after)}` : term.change}</Badge></li>)}</ul>
        )}
        {found.code === null ? <p className="soft">It is not written yet.</p> : <SourceCode text={found.change?.after ?? found.code} before={way === "change" ? before : null} label={`reward of try ${found.number}`} />}
      </div>
    </Panel>
  );
}

function Terms({ found }: { found: IterationDetail }) {
  if (found.terms.length === 0) return null;
  return (
    <Panel title="What pays" tight>
      <table className="plain small">
        <thead><tr><th>term</th><th className="number">weight</th><th className="number">per episode</th><th style={{ width: "7rem" }}>share</th></tr></thead>
        <tbody>{found.terms.map((term) => <tr key={term.name}><td><strong>{words(term.name)}</strong><div className="soft">{term.words}</div></td><td className="number">{number(term.weight)}</td><td className="number">{number(term.total)}</td><td><Gauge value={term.share} tone="live" /><span className="soft">{percent(term.share)}</span></td></tr>)}</tbody>
      </table>
    </Panel>
  );
}

function Verdicts({ thing, found, session }: { thing: string; found: IterationDetail; session: SessionDetail }) {
  const about = useAbout();
  const members = (found.judged?.members ?? []) as unknown as MemberJudgement[];
  const [member, setMember] = useState<string | null>(null);
  const [episode, setEpisode] = useState<number | null>(null);
  const chosen = members.find((each) => each.member === (member ?? found.judged?.best)) ?? members[0];
  const files = useLoaded(`judged:${thing}:${found.number}`, () => read<components["schemas"]["ThingFile"][]>(`/api/things/${encodeURIComponent(thing)}/files?kind=recording&iteration=${found.number}`));
  const labels = useMemo(() => new Map(session.labels.filter((label) => label.iteration === found.number && label.member === chosen?.member).map((label) => [label.episode - 1, label.is_wanted])), [session.labels, chosen?.member, found.number]);
  const label = (answer: "yes" | "no") => episode !== null && chosen && void attempt(() => ask("/api/things/{thing}/label", { thing }, { answer, episode: String(episode + 1), member: chosen.member, iteration: found.number }), () => (answer === "yes" ? "Labelled: this is what I meant." : "Labelled: this is not what I meant."));
  useShortcuts(episode !== null && !about.isReadOnly ? [{ keys: "y", does: "this episode is what I meant", act: () => label("yes") }, { keys: "n", does: "this episode is not what I meant", act: () => label("no") }] : []);
  if (!chosen) return <Panel title="Verdict"><p className="soft">It is judged when training ends, on fresh episodes that nothing was chosen on.</p></Panel>;
  const verdict = episode === null ? null : chosen.judgement.verdicts[episode];
  const file = files.value?.find((each) => each.is_judged && each.member === chosen.member && each.label === String((episode ?? 0) + 1));
  return (
    <Panel title="Verdict" actions={members.length > 1 && <select aria-label="Policy" value={chosen.member} onChange={(event) => { setMember(event.target.value); setEpisode(null); }}>{members.map((each) => <option key={each.member} value={each.member}>{words(each.member)} · {number(each.judgement.score)}</option>)}</select>}>
      <div className="column">
        <div><Gauge value={chosen.judgement.score} low={chosen.judgement.low} threshold={session.config?.threshold ?? null} /><p className="small soft">score {number(chosen.judgement.score)}, proven at least {number(chosen.judgement.low)}; {session.config && `${number(session.config.threshold)} is needed`}{chosen.judgement.unknown > 0 && ` · ${chosen.judgement.unknown} episodes could not be judged`}</p></div>
        <VerdictGrid judgement={chosen.judgement} chosen={episode} onChoose={setEpisode} labels={labels} />
        {verdict && (
          <div className="column">
            <div className="row between">
              <strong>Episode {episode! + 1}: {number(verdict.score)}</strong>
              {!about.isReadOnly && <span className="row"><button type="button" onClick={() => label("yes")}>Is what I meant <kbd>y</kbd></button><button type="button" onClick={() => label("no")}>Is not <kbd>n</kbd></button></span>}
            </div>
            {verdict.reason && <p className="small">{verdict.reason}</p>}
            {(verdict.disagreements ?? []).map((each) => <div key={each} className="notice middling small">{each}</div>)}
            {file ? <><EpisodePlayer thing={thing} file={file.key} isSmall /><Link href={`/play/${thing}?file=${file.key}`}>Open in the player</Link></> : <p className="soft small">This episode was not kept.</p>}
          </div>
        )}
        {!verdict && <p className="small soft">Choose an episode to see it and to say whether it is what you meant.</p>}
      </div>
    </Panel>
  );
}

function Looks({ found, threshold }: { found: IterationDetail; threshold: number | null }) {
  if (found.checkpoints.length === 0) return null;
  const names = [...new Set(found.checkpoints.flatMap((each) => Object.keys(each.scores)))];
  return (
    <Panel title="What the judge saw while it learned">
      <Chart x={found.checkpoints.map((each) => each.step)} curves={names.map((name) => ({ name: words(name), values: found.checkpoints.map((each) => each.scores[name] ?? null) }))} xLabel="steps" label="Judged score" height={150} yRange={[0, 1.05]} threshold={threshold} />
    </Panel>
  );
}

function Lessons({ found }: { found: IterationDetail }) {
  const lessons = found.candidate?.lessons ?? [];
  if (lessons.length === 0) return null;
  return <Panel title="Lessons"><ul className="column">{lessons.map((lesson, index) => <li key={index} className="small"><Badge tone={lesson.tier === "retired" ? "" : lesson.tier === "hard" ? "bad" : lesson.tier === "strong" ? "middling" : "live"}>{lesson.tier}</Badge> {lesson.text}</li>)}</ul></Panel>;
}
