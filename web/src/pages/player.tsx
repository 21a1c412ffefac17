/** Playback on one time cursor: robot, reward terms, criteria and verdict; two synchronized episodes. */
import { useEffect, useMemo, useRef, useState } from "react";
import { Link, useLocation, useParams } from "wouter";
import { useAbout } from "../api/about";
import { api, ask, got, read, type Schema } from "../api/client";
import { loadEpisode, type Episode } from "../api/episodes";
import { useLoaded } from "../api/query";
import { PageHead, Panel, Segmented } from "../components/basics";
import { Chart } from "../components/chart";
import { FollowingVideo, Stage3d, Transport, useClock, type Actor, type Clock, type TimeMark } from "../components/player";
import { Empty, Loading, Ready } from "../components/states";
import { attempt } from "../components/toast";
import { number, percent, score, short, shortId, words } from "../format";
import { useShortcuts } from "../keyboard";
import { goalOf, type Verdict } from "../session/records";
import { useUrl } from "../url";

const TINTS = ["#6ea8ff", "#ff9d5c"];
const GHOST = "#5fce8f";
const TONES = { met: "good", lost: "bad", missed: "bad" } as const;

type Layout = "lanes" | "over";
type Ghosts = Layout | "none";
type Course = Schema<"Timeline">;

/** The robots of episodes, and their reference motions. */
function actorsOf(episodes: Episode[], length: number, layout: Layout, ghosts: Ghosts): Actor[] {
  const isOne = episodes.length === 1;
  return episodes.flatMap((episode, index): Actor[] => {
    const name = isOne ? "" : episode.name;
    const robot = { name, model: episode.model, motion: padded(episode.motion, episode.seconds, length), tint: isOne ? undefined : TINTS[index], isGhost: layout === "over" && index > 0, lane: index };
    if (!episode.reference || ghosts === "none") return [robot];
    const ghost = { name: isOne ? "reference" : "", model: episode.model, motion: padded(episode.reference, episode.seconds, length), tint: GHOST, isGhost: true, lane: isOne && ghosts === "lanes" ? 1 : index };
    return [robot, ghost];
  });
}

/** One episode with playback controls, for a panel. */
export function EpisodePlayer({ artifact, file }: { artifact: string; file: string }) {
  const episode = useLoaded(`episode:${artifact}:${file}`, () => loadEpisode(artifact, file));
  return <Ready of={episode}>{(loaded) => <Playing episodes={[loaded]} isSmall key={file} />}</Ready>;
}

interface PlayingProps {
  episodes: Episode[];
  isSmall: boolean;
  video?: string | null;
  course?: Course;
  /** title of a criterion: start where it is missed */
  moment?: string;
  start?: number;
  onTime?: (time: number) => void;
}

function Playing({ episodes, isSmall, video, course, moment, start = 0, onTime }: PlayingProps) {
  const length = Math.max(...episodes.map((episode) => episode.seconds));
  const clock = useClock(length, isSmall, start);
  const [layout, setLayout] = useState<Layout>("lanes");
  const [ghosts, setGhosts] = useState<Ghosts>("over");
  const actors = useMemo(() => actorsOf(episodes, length, layout, ghosts), [episodes, layout, ghosts, length]);
  const marks = useMemo(() => (course?.marks ?? []).map((mark): TimeMark => ({ time: Math.min(mark.time_s, length), label: `${mark.title}: ${mark.kind === "met" ? "met from here" : mark.kind === "lost" ? "no longer met" : "not met by the end"}`, tone: TONES[mark.kind] })), [course, length]);
  useEffect(() => {
    const missed = course?.marks.find((mark) => mark.title === moment && mark.kind !== "met");
    if (missed) clock.setTime(missed.time_s);
  }, [course, moment]);
  const settled = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => {
    clearTimeout(settled.current);
    if (!clock.isPlaying && onTime) settled.current = setTimeout(() => onTime(clock.time), 300);
    return () => clearTimeout(settled.current);
  }, [clock.time, clock.isPlaying]);
  const hasGhosts = episodes.some((episode) => episode.reference);
  return (
    <div className="column">
      {episodes.length > 1 && <Segmented label="Layout" value={layout} choices={[["lanes", "side by side"], ["over", "overlaid"]]} onChange={setLayout} />}
      {hasGhosts && <Segmented label="Reference motion" value={ghosts} choices={[["over", "overlaid"], ["lanes", "side by side"], ["none", "hidden"]]} onChange={setGhosts} />}
      <Stage3d actors={actors} clock={clock} sideBySide={layout === "lanes"} label={`3-D playback of ${episodes.map((episode) => episode.name).join(" and ")}`} />
      <Transport clock={clock} marks={marks} />
      {video && <FollowingVideo source={video} clock={clock} label="Video of the same episode" />}
      {!isSmall && <Tracks episodes={episodes} clock={clock} course={course} />}
    </div>
  );
}

/** The poses of an episode on a longer clock: the last pose stays. */
function padded(motion: Episode["motion"], seconds: number, length: number): Episode["motion"] {
  if (seconds >= length || motion.frames === 0) return motion;
  const frames = Math.round((motion.frames * length) / seconds);
  const row = motion.bodies * 7;
  const poses = new Float32Array(frames * row);
  poses.set(motion.poses);
  const last = motion.poses.subarray((motion.frames - 1) * row, motion.frames * row);
  for (let frame = motion.frames; frame < frames; frame += 1) poses.set(last, frame * row);
  return { ...motion, frames, poses };
}

function Tracks({ episodes, clock, course }: { episodes: Episode[]; clock: Clock; course?: Course }) {
  const time = { xLabel: "s", formatX: (value: number) => number(value), cursor: clock.time, onCursor: (at: number) => !clock.isPlaying && clock.setTime(at), link: "player" };
  const terms = Object.entries(course?.reward_terms ?? {});
  return (
    <>
      {course && course.criteria.length > 0 && (
        <div>
          <h3>Credit per criterion so far</h3>
          <Chart {...time} x={course.times} curves={course.criteria.map((each) => ({ name: each.title, values: each.credits }))} label="Credit per criterion so far" yRange={[0, 1.05]} formatY={percent} height={170} />
        </div>
      )}
      {episodes.map((episode) => (
        <div key={episode.name} className="column">
          {episodes.length > 1 && <h3>{episode.name}</h3>}
          {episode.tracks.map((track) => <Chart key={track.title} {...time} x={episode.times} curves={track.curves} label={`${track.title} over time`} yLabel={track.title} height={track.curves.length > 1 ? 190 : 130} />)}
          {terms.length > 0 && <Chart {...time} x={episode.times} curves={terms.map(([name, values]) => ({ name: words(name), values }))} label="Reward terms over time" yLabel="reward terms" height={190} />}
          {episode.tracks.length === 0 && terms.length === 0 && <p className="soft small">{course?.missing.find((each) => each.startsWith("reward terms")) ?? "No reward terms were recorded for this episode."}</p>}
        </div>
      ))}
    </>
  );
}

/** The verdict on a judged episode, criterion by criterion. */
function VerdictPanel({ verdict, course }: { verdict: Verdict; course: ReturnType<typeof useCourse> }) {
  return (
    <Panel title={`Verdict: ${score(verdict.score)}`}>
      <div className="column">
        {verdict.reason && <p className="small">{verdict.reason}</p>}
        <ul className="criteria">
          {verdict.criteria.map((criterion) => (
            <li key={criterion.title}>
              <span className={`tick ${criterion.passed ? "good" : "bad"}`} role="img" aria-label={criterion.passed ? "met" : "not met"}>{criterion.passed ? "✓" : "✕"}</span>
              <div><div className="title">{criterion.title}</div><div className="small soft">{criterion.is_guard ? "constraint, " : ""}target {goalOf({ ...criterion, direction: criterion.goal < criterion.zero ? "at_most" : "at_least" })}</div></div>
              <div className="small met"><span>{criterion.value === null ? "not measured" : `${number(criterion.value)} ${criterion.unit}`}</span><span className="soft">{percent(criterion.counted)}</span></div>
            </li>
          ))}
        </ul>
        {verdict.seen.map((seen, index) => <p key={index} className="small"><strong>{seen.criterion}</strong> ({score(seen.score)}{seen.start_s != null && `, ${number(seen.start_s)} to ${number(seen.end_s)} s`}): {seen.evidence}</p>)}
        {verdict.disagreements.map((each, index) => <div key={index} className="notice middling small"><strong>{each.criterion}</strong>: code {score(each.code)} ({each.measured}), vision {score(each.vision)} ({each.seen}).</div>)}
        {course.error ? <p className="small soft">Criteria over time are not available: {course.error.message}</p> : course.value ? <p className="small soft">Green marks show where a criterion becomes met, red marks where it is no longer met.</p> : <div className="row small soft">Measuring criteria over time…<Loading lines={1} /></div>}
      </div>
    </Panel>
  );
}

function useCourse(artifact: string, file: string | null, isJudged: boolean) {
  return useLoaded(isJudged && file ? `course:${artifact}:${file}` : null, () => read<Course>(`/api/artifacts/${encodeURIComponent(artifact)}/playback/${file}/course`));
}

export default function PlayerPage() {
  const { id } = useParams<{ id: string }>();
  const [other] = useUrl("with");
  const [first, setFirst] = useUrl("file");
  const [second, setSecond] = useUrl("file2");
  const [time, setTime] = useUrl("t", "0");
  const [moment] = useUrl("moment");
  const a = useRecordings(id);
  const b = useRecordings(other || null);
  const about = useAbout();
  const fileA = first || (a.value?.usual ?? null);
  const fileB = second || (b.value?.usual ?? null);
  const episodes = useLoaded(fileA && (!other || fileB) ? `play:${id}:${fileA}:${other}:${fileB}` : null, () => Promise.all([loadEpisode(id, fileA!), ...(other ? [loadEpisode(other, fileB!)] : [])]));
  const chosen = a.value?.files.find((file) => file.key === fileA);
  const course = useCourse(id, fileA, !other && !__SITE__ && (chosen?.is_judged ?? false));
  const label = (answer: "yes" | "no") => chosen?.is_judged && attempt(() => ask("/api/artifacts/{artifact}/label", { artifact: id }, { answer, episode: chosen.label, member: chosen.member, iteration: chosen.iteration }), () => (answer === "yes" ? "Labeled as wanted." : "Labeled as not wanted."));
  useShortcuts(chosen?.is_judged && !about.isReadOnly ? [{ keys: "y", does: "label this episode as wanted", act: () => void label("yes") }, { keys: "n", does: "label this episode as not wanted", act: () => void label("no") }] : []);
  const videos = useLoaded(`videos:${id}`, () => got(api.GET("/api/artifacts/{artifact}/files", { params: { path: { artifact: id }, query: { kind: ["video"] } } })));
  const video = videos.value?.find((file) => chosen && file.member === chosen.member && file.step === chosen.step && file.label === chosen.label);
  const verdict = other ? null : episodes.value?.[0]?.verdict;
  return (
    <>
      <PageHead title="Player" lede={<span>Synchronized playback of robot motion, reward and verdict. <Link href={`/runs/${id}`}>{shortId(id)}</Link>{other && <> and <Link href={`/runs/${other}`}>{shortId(other)}</Link></>}</span>}
        actions={chosen?.is_judged && !about.isReadOnly && <><button type="button" onClick={() => label("yes")}>Wanted <kbd>y</kbd></button><button type="button" onClick={() => label("no")}>Not wanted <kbd>n</kbd></button></>} />
      <div className="row" style={{ marginBottom: "0.8rem" }}>
        <Choose name="Episode" files={a.value?.files ?? []} value={fileA} onChange={(key) => { setFirst(key); setTime("0"); }} />
        {other ? <Choose name="Compare with" files={b.value?.files ?? []} value={fileB} onChange={setSecond} /> : !about.isReadOnly && <CompareWith id={id} />}
      </div>
      {a.value && a.value.files.length === 0 ? <Empty title="No recordings yet">Episodes are recorded at every evaluation and whenever a policy is judged.</Empty> : (
        <div className="grid">
          <div className={verdict ? "span-8" : "span-12"}>
            <Panel title={episodes.value?.map((episode) => episode.name).join(" and ") ?? "Loading episode"}>
              <Ready of={episodes}>{(loaded) => <Playing episodes={loaded} isSmall={false} video={other ? null : video?.url} course={course.value} moment={time === "0" ? moment : ""} start={Number(time) || 0} onTime={(at) => setTime(at < 0.005 ? "0" : at.toFixed(2))} key={`${fileA}${fileB}`} />}</Ready>
            </Panel>
          </div>
          {verdict && <div className="span-4"><VerdictPanel verdict={verdict} course={course} /></div>}
        </div>
      )}
    </>
  );
}

type Recorded = Pick<Schema<"ArtifactFile">, "key" | "label" | "member" | "step" | "iteration" | "is_judged">;

/** The recordings of an artifact, and the one that opens first: the latest median episode, of a session's best policy. */
function useRecordings(artifact: string | null) {
  return useLoaded(artifact === null ? null : `recordings:${artifact}`, async () => {
    const [files, { session }] = await Promise.all([
      got(api.GET("/api/artifacts/{artifact}/files", { params: { path: { artifact: artifact! }, query: { kind: ["recording"] } } })),
      read<Schema<"ArtifactDetail">>(`/api/artifacts/${encodeURIComponent(artifact!)}`),
    ]);
    const best = files.filter((file) => file.iteration === session?.summary?.best_iteration && file.member === session?.summary?.best_member);
    const offered = best.length ? best : files;
    return { files, usual: (offered.filter((file) => file.label === "median").at(-1) ?? offered.at(-1))?.key ?? null };
  });
}

export function recordingName(file: Recorded): string {
  const episode = file.is_judged ? `judged episode ${file.label}` : `${file.label ?? "episode"} at ${short(file.step)} steps`;
  return `${file.iteration != null ? `iteration ${file.iteration} · ` : ""}${file.member ? `${words(file.member)} · ` : ""}${episode}`;
}

function Choose({ name, files, value, onChange }: { name: string; files: Recorded[]; value: string | null; onChange: (key: string) => void }) {
  return (
    <label className="row small">{name}
      <select value={value ?? ""} onChange={(event) => onChange(event.target.value)} style={{ maxWidth: "min(24rem, 100%)" }}>
        {files.map((file) => <option key={file.key} value={file.key}>{recordingName(file)}</option>)}
      </select>
    </label>
  );
}

function CompareWith({ id }: { id: string }) {
  const artifacts = useLoaded("compare:artifacts", () => got(api.GET("/api/artifacts", { params: { query: { kind: ["session", "run"], limit: 200 } } })));
  const [, go] = useLocation();
  return (
    <label className="row small">Compare with
      <select value="" onChange={(event) => go(`/play/${id}?with=${event.target.value}`)} style={{ maxWidth: "min(20rem, 100%)" }}>
        <option value="">none</option>
        {(artifacts.value?.artifacts ?? []).map((line) => <option key={line.id} value={line.id}>{line.name ?? line.title} · {shortId(line.id)}</option>)}
      </select>
    </label>
  );
}
