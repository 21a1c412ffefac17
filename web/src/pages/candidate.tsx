/** One iteration of a session: formula, code, changes since its parent or any other, and the verdict. */
import { useMemo } from "react";
import { Link } from "wouter";
import { useAbout } from "../api/about";
import { ask, read, type Schema } from "../api/client";
import { useLoaded } from "../api/query";
import { Badge, Figures, Gauge, Panel, Rows } from "../components/basics";
import { Chart } from "../components/chart";
import { TermStack, TrainingCurves } from "../components/curves";
import { Formula, SourceCode } from "../components/formula";
import { Ready } from "../components/states";
import { attempt } from "../components/toast";
import { VerdictGrid } from "../components/verdicts";
import { count, duration, number, percent, score, short, words } from "../format";
import { useShortcuts } from "../keyboard";
import { useUrl } from "../url";
import { EpisodePlayer } from "./player";
import { MomentLink } from "./session";

type IterationDetail = Schema<"IterationDetail">;
type SessionDetail = Schema<"SessionDetail">;

function useIteration(artifact: string, iteration: number | null, isLive: boolean) {
  return useLoaded(iteration === null ? null : `iteration:${artifact}:${iteration}`, () => read<IterationDetail>(`/api/artifacts/${encodeURIComponent(artifact)}/iterations/${iteration}`), isLive ? 4000 : null);
}

export function CandidatePanel({ detail, session, iteration }: { detail: Schema<"ArtifactDetail">; session: SessionDetail; iteration: number }) {
  const artifact = detail.line.id;
  const isLive = detail.line.is_running;
  const loaded = useIteration(artifact, iteration, isLive);
  return (
    <Ready of={loaded}>
      {(found) => (
        <div className="stacked">
          <Heading artifact={artifact} found={found} session={session} />
          <div className="grid">
            <div className="span-7 stacked"><Reward artifact={artifact} found={found} session={session} /><Verdicts artifact={artifact} found={found} session={session} /></div>
            <div className="span-5 stacked">
              <Terms found={found} />
              <Panel title="Training"><TrainingCurves artifact={artifact} iteration={iteration} isLive={isLive} height={190} /></Panel>
              <Panel title="Reward by term"><TermStack artifact={artifact} iteration={iteration} isLive={isLive} height={170} /></Panel>
              <InterimEvaluations found={found} threshold={session.config?.threshold ?? null} />
              <Lessons found={found} />
            </div>
          </div>
        </div>
      )}
    </Ready>
  );
}

function Heading({ artifact, found, session }: { artifact: string; found: IterationDetail; session: SessionDetail }) {
  const { judged } = found;
  const line = session.iterations.find((each) => each.number === found.number);
  return (
    <Panel title={<>Iteration {found.number}: {line?.change || found.candidate?.change}</>} actions={judged && <Badge tone={judged.passed ? "good" : "bad"}>{judged.passed ? "reached the threshold" : "did not pass"}</Badge>}>
      <div className="column">
        <Figures rows={[["mean policy score", score(judged?.score)], ["steps", short(line?.steps)], ["training time", duration(line?.training_s)], ["judging time", duration(line?.judging_s)], ["policies", count(found.members.length)]]} />
        {line?.failure && <div className="notice bad">{line.failure}</div>}
        {line && line.tags.length > 0 && <p className="small">Failed criteria: {line.tags.map(words).join(", ")} <MomentLink artifact={artifact} iteration={found.number} /></p>}
        {found.notes && found.notes.notes.length > 0 && <p className="small soft">Addresses the feedback {found.notes.notes.map((note) => `“${note.text}”`).join(", ")}</p>}
        {found.damage.map((each) => <div key={each} className="notice bad small">{each}</div>)}
      </div>
    </Panel>
  );
}

/** The reward, alone or as a diff to the reward of any other iteration. */
function Reward({ artifact, found, session }: { artifact: string; found: IterationDetail; session: SessionDetail }) {
  const [against, setAgainst] = useUrl("diff");
  const isParent = against === String(found.change?.parent);
  const other = useIteration(artifact, against && !isParent ? Number(against) : null, false);
  const before = against === "" ? null : isParent ? found.change!.before : other.value?.change?.after ?? other.value?.code ?? null;
  const others = session.iterations.map((each) => each.number).filter((each) => each !== found.number);
  return (
    <Panel title="Reward" actions={others.length > 0 && (
      <label className="row small">compare with<select value={against} onChange={(event) => setAgainst(event.target.value)}><option value="">none</option>{others.map((each) => <option key={each} value={each}>iteration {each}{each === found.change?.parent ? " (parent)" : ""}</option>)}</select></label>
    )}>
      <div className="column">
        {found.spec?.description && <p className="soft">{found.spec.description}</p>}
        {found.spec?.latex && <Formula latex={found.spec.latex} />}
        {found.change && found.change.terms.length > 0 && (
          <ul className="chips" aria-label="Changed terms">{found.change.terms.map((term) => <li key={term.name}><Badge tone={term.change === "gone" ? "bad" : term.change === "new" ? "good" : "middling"}>{words(term.name)} {term.change === "weight" ? `${number(term.before)} → ${number(term.after)}` : term.change === "gone" ? "removed" : "new"}</Badge></li>)}</ul>
        )}
        {found.code === null ? <p className="soft">The reward has not been written yet.</p> : <SourceCode text={found.change?.after ?? found.code} before={before} label={`reward of iteration ${found.number}`} />}
      </div>
    </Panel>
  );
}

function Terms({ found }: { found: IterationDetail }) {
  if (found.terms.length === 0) return null;
  return (
    <Panel title="Reward terms" tight>
      <Rows label="Reward terms" heads={["term", "weight", "per episode", "share"]} numbers={[1, 2]} rows={found.terms.map((term) => [
        <><strong>{words(term.name)}</strong><div className="soft">{term.words}</div></>, number(term.weight), number(term.total), <><Gauge value={term.share} tone="live" /><span className="soft">{percent(term.share)}</span></>,
      ])} />
    </Panel>
  );
}

function Verdicts({ artifact, found, session }: { artifact: string; found: IterationDetail; session: SessionDetail }) {
  const about = useAbout();
  const members = found.judged?.members ?? [];
  const [member, setMember] = useUrl("policy");
  const [episodeText, setEpisodeText] = useUrl("episode");
  const episode = /^\d+$/.test(episodeText) ? Number(episodeText) - 1 : null;
  const chosen = members.find((each) => each.member === (member || found.judged?.best)) ?? members[0];
  const files = useLoaded(`judged:${artifact}:${found.number}`, () => read<Schema<"ArtifactFile">[]>(`/api/artifacts/${encodeURIComponent(artifact)}/files?kind=recording&iteration=${found.number}`));
  const labels = useMemo(() => new Map(session.labels.filter((label) => label.iteration === found.number && label.member === chosen?.member).map((label) => [label.episode - 1, label.is_wanted])), [session.labels, chosen?.member, found.number]);
  const label = (answer: "yes" | "no") => episode !== null && chosen && void attempt(() => ask("/api/artifacts/{artifact}/label", { artifact }, { answer, episode: String(episode + 1), member: chosen.member, iteration: found.number }), () => (answer === "yes" ? "Labeled as wanted." : "Labeled as not wanted."));
  useShortcuts(episode !== null && !about.isReadOnly ? [{ keys: "y", does: "label this episode as wanted", act: () => label("yes") }, { keys: "n", does: "label this episode as not wanted", act: () => label("no") }] : []);
  if (!chosen) return <Panel title="Verdict"><p className="soft">After training, the policy is judged on new evaluation episodes.</p></Panel>;
  const verdict = episode === null ? null : chosen.judgment.verdicts[episode];
  const file = files.value?.find((each) => each.is_judged && each.member === chosen.member && each.label === String((episode ?? 0) + 1));
  return (
    <Panel title="Verdict" actions={members.length > 1 && <select aria-label="Policy" value={chosen.member} onChange={(event) => { setMember(event.target.value); }}>{members.map((each) => <option key={each.member} value={each.member}>{words(each.member)} · {score(each.judgment.score)}</option>)}</select>}>
      <div className="column">
        <div><Gauge value={chosen.judgment.score} low={chosen.judgment.low} threshold={session.config?.threshold ?? null} /><p className="small soft">score {score(chosen.judgment.score)}, lower bound {score(chosen.judgment.low)}{session.config && `, required ${score(session.config.threshold)}`}{chosen.judgment.unknown > 0 && ` · ${chosen.judgment.unknown} episodes could not be judged`}</p></div>
        <VerdictGrid judgment={chosen.judgment} chosen={episode} onChoose={(next) => setEpisodeText(String(next + 1))} labels={labels} />
        {verdict ? (
          <div className="column">
            <div className="row between">
              <strong>Episode {episode! + 1}: {score(verdict.score)}</strong>
              {!about.isReadOnly && <span className="row"><button type="button" onClick={() => label("yes")}>Wanted <kbd>y</kbd></button><button type="button" onClick={() => label("no")}>Not wanted <kbd>n</kbd></button></span>}
            </div>
            {verdict.reason && <p className="small">{verdict.reason}</p>}
            {verdict.disagreements.map((each, index) => <div key={index} className="notice middling small"><strong>{each.criterion}</strong>: code {score(each.code)}, vision {score(each.vision)}</div>)}
            {file ? <><EpisodePlayer artifact={artifact} file={file.key} /><Link href={`/play/${artifact}?file=${file.key}`}>Open in the player with criteria over time</Link></> : <p className="soft small">This episode was not recorded.</p>}
          </div>
        ) : <p className="small soft">Select an episode to watch and label it.</p>}
      </div>
    </Panel>
  );
}

function InterimEvaluations({ found, threshold }: { found: IterationDetail; threshold: number | null }) {
  if (found.checkpoints.length === 0) return null;
  const names = [...new Set(found.checkpoints.flatMap((each) => Object.keys(each.scores)))];
  return (
    <Panel title="Interim evaluations by the judge">
      <Chart x={found.checkpoints.map((each) => each.step)} curves={names.map((name) => ({ name: words(name), values: found.checkpoints.map((each) => each.scores[name] ?? null) }))} xLabel="steps" label="Judged score" height={150} yRange={[0, 1.05]} formatY={score} threshold={threshold} />
    </Panel>
  );
}

function Lessons({ found }: { found: IterationDetail }) {
  const lessons = found.candidate?.lessons ?? [];
  if (lessons.length === 0) return null;
  return <Panel title="Lessons"><ul className="column">{lessons.map((lesson, index) => <li key={index} className="small"><Badge tone={lesson.tier === "retired" ? "" : lesson.tier === "hard" ? "bad" : lesson.tier === "strong" ? "middling" : "live"}>{lesson.tier}</Badge> {lesson.text}</li>)}</ul></Panel>;
}
