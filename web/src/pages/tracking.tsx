/** Tracking performance: by encoder, over training, and the clips with the largest error. */
import { read, type Schema } from "../api/client";
import { useLoaded } from "../api/query";
import { Badge, Figures, Gauge, Panel, Rows } from "../components/basics";
import { Chart, type Curve } from "../components/chart";
import { count, number, percent, short, words } from "../format";

type Report = Schema<"TrackingReport">;

export function TrackingPanels({ artifact, isLive }: { artifact: string; isLive: boolean }) {
  const tracking = useLoaded(`tracking:${artifact}`, () => read<Report[]>(`/api/artifacts/${encodeURIComponent(artifact)}/tracking`), isLive ? 5000 : null);
  const measured = tracking.value ?? [];
  const last = measured.at(-1);
  if (!last) return null;
  return (
    <>
      <Panel title="Tracking of held-out clips"><Tracking report={last} /></Panel>
      {measured.length > 1 && <Panel title="Tracking over training"><Success measured={measured} /></Panel>}
      {last.clips.length > 0 && (
        <Panel title="Clips with the largest error" tight>
          <Rows label="Clips with the largest error" heads={["clip", "encoder", "result", "tracked", "local error, mm"]} numbers={[3, 4]} rows={last.clips.map((clip) => [clip.clip, words(clip.encoder), <Badge key="b" tone={clip.success ? "good" : "bad"}>{clip.success ? "tracked to the end" : "lost"}</Badge>, percent(clip.progress), number(clip.errors.mpjpe_l_mm)])} />
        </Panel>
      )}
      <Videos artifact={artifact} />
    </>
  );
}

function Tracking({ report }: { report: Report }) {
  const all = [...report.encoders, ...(report.control ? [report.control] : [])];
  const clips = (each: (typeof all)[number]) => `${Math.round(each.success_rate * each.clips)} of ${each.clips} clips`;
  return (
    <div className="column">
      <Figures rows={[["clips", count(report.encoders[0]?.clips)], ["split", words(report.split)], ["steps", short(report.step)], ...report.tokens.map((token): [string, string] => [`token levels in use, ${words(token.encoder)}`, percent(1 - token.dead_share)])]} />
      <Rows label="Encoders" heads={["encoder", "tracked to the end", "local error, mm", "joint error, rad", "mean fraction tracked"]} numbers={[2, 3, 4]} rows={all.map((each) => [
        <>{words(each.encoder)}{each === report.control && <div className="small soft">baseline: holds the initial pose</div>}</>,
        <><Gauge value={each.success_rate} low={each.interval?.[0]} tone="live" /><span className="small soft">{clips(each)}{each.interval && each.success_rate > 0 && `, 95% interval ${percent(each.interval[0])} to ${percent(each.interval[1])}`}</span></>,
        number(each.mpjpe_l_mm), number(each.joint_rad), percent(each.progress_rate),
      ])} />
    </div>
  );
}

/** Success by encoder, and the share of clips tracked, which shows progress before the first success. */
function Success({ measured }: { measured: Report[] }) {
  const steps = [...new Set(measured.map((line) => line.step))];
  const names = [...new Set(measured.flatMap((line) => line.encoders.map((each) => each.encoder)))];
  const curve = (name: string, title: string, index: number, pick: (each: Report["encoders"][number]) => number, isDashed: boolean): Curve => ({
    name: title, color: index, isDashed,
    values: steps.map((step) => {
      const found = measured.filter((line) => line.step === step).flatMap((line) => line.encoders.filter((each) => each.encoder === name));
      return found.length ? found.reduce((sum, each) => sum + pick(each), 0) / found.length : null;
    }),
  });
  const curves = names.flatMap((name, index) => [curve(name, `${words(name)}, to the end`, index, (each) => each.success_rate, false), curve(name, `${words(name)}, fraction tracked`, index, (each) => each.progress_rate, true)]);
  return <Chart x={steps} curves={curves} xLabel="steps" yLabel="share" label="Clips tracked over training" height={200} yRange={[0, 1.05]} formatY={percent} />;
}

/** Videos of clips with the reference overlaid; `telic track eval` renders them. */
function Videos({ artifact }: { artifact: string }) {
  const files = useLoaded(`clips:${artifact}`, () => read<Schema<"ArtifactFile">[]>(`/api/artifacts/${encodeURIComponent(artifact)}/files?kind=video`));
  const videos = (files.value ?? []).filter((file) => file.name.includes("/evaluations/"));
  if (videos.length === 0) return null;
  return (
    <Panel title="Videos with overlaid reference">
      <div className="column">{videos.slice(-6).map((video) => <figure key={video.key} style={{ margin: 0 }}><video src={video.url} controls muted loop playsInline preload="metadata" aria-label={video.name} /><figcaption className="small soft">{video.name.split("/").at(-1)}</figcaption></figure>)}</div>
    </Panel>
  );
}
