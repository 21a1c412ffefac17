/** Playback on one time cursor: 3-D, video, reward terms and evidence; two episodes in lock-step. */
import { useMemo, useState } from "react";
import { Link, useParams, useSearch } from "wouter";
import { useAbout } from "../api/about";
import { api, ask, got } from "../api/client";
import { loadEpisode, type Episode } from "../api/episodes";
import { useLoaded } from "../api/use";
import { PageHead, Panel, Segmented } from "../components/basics";
import { Chart } from "../components/chart";
import { FollowingVideo, Stage3d, Transport, useClock, type Actor, type Clock } from "../components/player";
import { Empty, Ready } from "../components/states";
import { attempt } from "../components/toast";
import { number, short, shortId, words } from "../format";
import { useShortcuts } from "../keyboard";

const TINTS = ["#6ea8ff", "#ff9d5c"];
const GHOST = "#5fce8f";

type Layout = "beside" | "over";
type Ghosts = Layout | "none";

/** The robots of episodes, and as ghosts what they were to follow. */
function actorsOf(episodes: Episode[], length: number, layout: Layout, ghosts: Ghosts): Actor[] {
  const isOne = episodes.length === 1;
  return episodes.flatMap((episode, index): Actor[] => {
    const name = isOne ? "" : episode.name;
    const robot = { name, model: episode.model, motion: padded(episode.motion, episode.seconds, length), tint: isOne ? undefined : TINTS[index], isGhost: layout === "over" && index > 0, lane: index };
    if (!episode.reference || ghosts === "none") return [robot];
    const ghost = { name: isOne ? "reference" : "", model: episode.model, motion: padded(episode.reference, episode.seconds, length), tint: GHOST, isGhost: true, lane: isOne && ghosts === "beside" ? 1 : index };
    return [robot, ghost];
  });
}

/** One episode with its transport, for a panel. */
export function EpisodePlayer({ thing, file, isSmall = false }: { thing: string; file: string; isSmall?: boolean }) {
  const episode = useLoaded(`episode:${thing}:${file}`, () => loadEpisode(thing, file));
  return <Ready of={episode}>{(loaded) => <Playing episodes={[loaded]} isSmall={isSmall} key={file} />}</Ready>;
}

function Playing({ episodes, isSmall, video }: { episodes: Episode[]; isSmall: boolean; video?: string | null }) {
  const length = Math.max(...episodes.map((episode) => episode.seconds));
  const clock = useClock(length, isSmall);
  const [layout, setLayout] = useState<Layout>("beside");
  const [ghosts, setGhosts] = useState<Ghosts>("over");
  const actors = useMemo(() => actorsOf(episodes, length, layout, ghosts), [episodes, layout, ghosts, length]);
  const hasGhosts = episodes.some((episode) => episode.reference);
  return (
    <div className="column">
      {episodes.length > 1 && <Segmented label="Layout" value={layout} choices={[["beside", "side by side"], ["over", "one over the other"]]} onChange={setLayout} />}
      {hasGhosts && <Segmented label="Reference motion" value={ghosts} choices={[["over", "reference as a ghost"], ["beside", "beside it"], ["none", "hidden"]]} onChange={setGhosts} />}
      <Stage3d actors={actors} clock={clock} sideBySide={layout === "beside"} label={`3-D playback of ${episodes.map((episode) => episode.name).join(" and ")}`} />
      <Transport clock={clock} />
      {video && <FollowingVideo source={video} clock={clock} label="video of the same episode" />}
      {!isSmall && <Tracks episodes={episodes} clock={clock} />}
    </div>
  );
}

/** The poses of an episode on a clock that may run longer: the last stays. */
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

function Tracks({ episodes, clock }: { episodes: Episode[]; clock: Clock }) {
  return (
    <>
      {episodes.map((episode) => (
        <div key={episode.name} className="column">
          {episodes.length > 1 && <h3>{episode.name}</h3>}
          {episode.tracks.length === 0 ? <p className="soft small">No reward terms were recorded with this episode.</p> : episode.tracks.map((track) => (
            <Chart key={track.title} x={episode.times} curves={track.curves} xLabel="s" formatX={(value) => number(value)} label={`${track.title} over time`} yLabel={track.title} height={track.curves.length > 1 ? 190 : 130} cursor={clock.time} onCursor={(time) => !clock.isPlaying && clock.setTime(time)} />
          ))}
        </div>
      ))}
    </>
  );
}

export default function PlayerPage() {
  const { id } = useParams<{ id: string }>();
  const search = new URLSearchParams(useSearch());
  const other = search.get("with");
  const [first, setFirst] = useState(search.get("file"));
  const [second, setSecond] = useState(search.get("file2"));
  const a = useRecordings(id);
  const b = useRecordings(other);
  const about = useAbout();
  const fileA = first ?? usual(a.value ?? []);
  const fileB = second ?? usual(b.value ?? []);
  const episodes = useLoaded(fileA && (!other || fileB) ? `play:${id}:${fileA}:${other}:${fileB}` : null, () => Promise.all([loadEpisode(id, fileA!), ...(other ? [loadEpisode(other, fileB!)] : [])]));
  const chosen = a.value?.find((file) => file.key === fileA);
  const label = (answer: "yes" | "no") => chosen?.is_judged && attempt(() => ask("/api/things/{thing}/label", { thing: id }, { answer, episode: chosen.label, member: chosen.member, iteration: chosen.iteration }), () => (answer === "yes" ? "Labelled: this is what I meant." : "Labelled: this is not what I meant."));
  useShortcuts(chosen?.is_judged && !about.isReadOnly ? [{ keys: "y", does: "this is what I meant", act: () => void label("yes") }, { keys: "n", does: "this is not what I meant", act: () => void label("no") }] : []);
  const videos = useLoaded(`videos:${id}`, () => got(api.GET("/api/things/{thing}/files", { params: { path: { thing: id }, query: { kind: ["video"] } } })));
  const film = videos.value?.find((file) => chosen && file.member === chosen.member && file.step === chosen.step && file.label === chosen.label);
  return (
    <>
      <PageHead title="Player" lede={<span>One time cursor for robot, reward and verdict. <Link href={`/things/${id}`}>{shortId(id)}</Link>{other && <> and <Link href={`/things/${other}`}>{shortId(other)}</Link></>}</span>}
        actions={chosen?.is_judged && !about.isReadOnly && <><button type="button" onClick={() => label("yes")}>Is what I meant <kbd>y</kbd></button><button type="button" onClick={() => label("no")}>Is not <kbd>n</kbd></button></>} />
      <div className="row" style={{ marginBottom: "0.8rem" }}>
        <Choose name="Episode" files={a.value ?? []} value={fileA} onChange={setFirst} />
        {other ? <Choose name="Beside it" files={b.value ?? []} value={fileB} onChange={setSecond} /> : !about.isReadOnly && <Beside id={id} />}
      </div>
      {a.value && a.value.length === 0 ? <Empty title="Nothing was recorded yet">Episodes are recorded at every evaluation, and when a policy is judged.</Empty> : (
        <Panel title={episodes.value?.map((episode) => episode.name).join(" and ") ?? "Loading the episode"}>
          <Ready of={episodes}>{(loaded) => <Playing episodes={loaded} isSmall={false} video={other ? null : film?.url} key={`${fileA}${fileB}`} />}</Ready>
        </Panel>
      )}
    </>
  );
}

interface Recorded { key: string; label?: string | null; member?: string | null; step?: number | null; iteration?: number | null; is_judged?: boolean }

function useRecordings(thing: string | null) {
  return useLoaded(thing === null ? null : `recordings:${thing}`, () => got(api.GET("/api/things/{thing}/files", { params: { path: { thing: thing! }, query: { kind: ["recording"] } } })));
}

function usual(files: Recorded[]): string | null {
  const last = files.filter((file) => file.label === "median").at(-1);
  return (last ?? files.at(-1))?.key ?? null;
}

function Choose({ name, files, value, onChange }: { name: string; files: Recorded[]; value: string | null; onChange: (key: string) => void }) {
  return (
    <label className="row small">{name}
      <select value={value ?? ""} onChange={(event) => onChange(event.target.value)} style={{ maxWidth: "24rem" }}>
        {files.map((file) => <option key={file.key} value={file.key}>{file.iteration != null ? `try ${file.iteration} · ` : ""}{words(file.member ?? "")} · {file.is_judged ? `judged episode ${file.label}` : `${file.label} at ${short(file.step)}`}</option>)}
      </select>
    </label>
  );
}

function Beside({ id }: { id: string }) {
  const things = useLoaded("compare:things", () => got(api.GET("/api/things", { params: { query: { kind: ["session", "run"], limit: 200 } } })));
  return (
    <label className="row small">Beside it
      <select value="" onChange={(event) => { window.location.href = `/play/${id}?with=${event.target.value}`; }} style={{ maxWidth: "20rem" }}>
        <option value="">nothing</option>
        {(things.value?.things ?? []).map((line) => <option key={line.id} value={line.id}>{line.title} · {shortId(line.id)}</option>)}
      </select>
    </label>
  );
}
