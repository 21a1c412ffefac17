/** Curves of a training while it runs: one line per policy, or their mean and range. */
import { useEffect, useMemo, useRef, useState } from "react";
import { api, got } from "../api/client";
import { useLoaded } from "../api/query";
import { duration, short, words } from "../format";
import { joined, filled, meanBand, smoothed, spliced } from "../session/joined";
import { useUrl } from "../url";
import { Segmented } from "./basics";
import { Chart, type Curve } from "./chart";
import { Ready } from "./states";

const SETTLE_MS = 100;
const TERM = "reward_term_";
const GROUPS: [string, string[]][] = [
  ["return", ["episodic_return"]],
  ["length", ["episode_length"]],
  ["loss", ["policy_loss", "value_loss", "approx_kl", "clip_fraction"]],
  ["exploration", ["entropy", "policy_std"]],
  ["speed", ["sps"]],
];

interface CurvesProps {
  artifact: string;
  iteration?: number | null;
  isLive: boolean;
  height?: number;
}

type Axis = "global_step" | "elapsed_time";

function useSeries({ artifact, iteration, isLive }: CurvesProps, name: string[], over: Axis, range: [number, number] | null) {
  return useLoaded(`series:${artifact}:${iteration}:${name}:${over}:${range}`, () =>
    got(api.GET("/api/artifacts/{artifact}/series", { params: { path: { artifact }, query: { name, iteration: iteration ?? undefined, points: 1200, over, start: range?.[0], end: range?.[1] } } })), isLive && !range ? 2000 : null);
}

export function TrainingCurves(props: CurvesProps) {
  const [group, setGroup] = useUrl("metric", "return");
  const [spread, setSpread] = useUrl("policies", "each");
  const [over, setOver] = useUrl("over", "global_step");
  const [smooth, setSmooth] = useUrl("smooth", "0");
  const [range, setRange] = useState<[number, number] | null>(null);
  const names = (GROUPS.find(([each]) => each === group) ?? GROUPS[0]!)[1];
  const axis = over === "elapsed_time" ? over : "global_step";
  const series = useSeries(props, names, axis, null);
  const finer = useSeries(props, names, axis, range);
  const shown = useMemo(() => (range && finer.value && series.value ? spliced(series.value.series, finer.value.series, range) : series.value?.series ?? []), [series.value, finer.value, range]);
  const zoom = useZoom(series.value?.series.some((each) => each.points > each.steps.length) ?? false, setRange);
  return (
    <div className="column">
      <div className="row between">
        <Segmented label="Metric" value={group} choices={GROUPS.map(([name]) => [name, name])} onChange={(next) => { setGroup(next); setRange(null); }} />
        <div className="row small">
          <Segmented label="Policies" value={spread} choices={[["each", "per policy"], ["mean", "mean"]]} onChange={setSpread} />
          <Segmented label="Horizontal axis" value={over} choices={[["global_step", "steps"], ["elapsed_time", "time"]]} onChange={(next) => { setOver(next); setRange(null); }} />
          <label className="row" style={{ gap: "0.4rem" }}>smoothing<input type="range" min={0} max={30} value={Number(smooth) || 0} onChange={(event) => setSmooth(event.target.value)} style={{ width: "5rem" }} /></label>
        </div>
      </div>
      {series.value?.is_screening && <p className="small soft">Screening runs: short training runs that compare variants of this reward. The best variant is then trained in full.</p>}
      <Ready of={series}>{({ members }) => members.length === 0 ? <p className="soft">Training curves will appear here once training starts.</p> : (
        <Curves set={shown} isMean={spread === "mean"} width={Number(smooth) || 0} height={props.height ?? 230} onZoom={zoom} hasSeveral={names.length > 1} axis={axis} link={`${props.artifact}:${axis}`} />
      )}</Ready>
    </div>
  );
}

/** Ask for finer points of the visible range, and half as much on both sides, once it no longer changes. */
function useZoom(hasMore: boolean, setRange: (range: [number, number] | null) => void) {
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  return (next: [number, number] | null) => {
    clearTimeout(timer.current);
    if (!next || !hasMore) return setRange(null);
    const margin = (next[1] - next[0]) / 2;
    timer.current = setTimeout(() => setRange([Math.max(0, Math.floor(next[0] - margin)), Math.ceil(next[1] + margin)]), SETTLE_MS);
  };
}

interface CurveSetProps {
  set: { member: string; name: string; steps: number[]; values: number[] }[];
  isMean: boolean;
  width: number;
  height: number;
  onZoom: (range: [number, number] | null) => void;
  hasSeveral: boolean;
  axis: Axis;
  link: string;
}

function Curves({ set, isMean, width, height, onZoom, hasSeveral, axis, link }: CurveSetProps) {
  const { x, curves } = useMemo(() => {
    const { x: steps, columns } = joined(set);
    const title = (each: { member: string; name: string }) => (hasSeveral ? `${words(each.name)} ${isMean ? "" : words(each.member)}` : words(each.member)).trim();
    const smooth = (values: (number | null)[]) => ({ values: smoothed(values, width), ...(width > 0 ? { raw: values } : {}) });
    if (!isMean) return { x: steps, curves: set.map((each, index): Curve => ({ name: title(each), ...smooth(columns[index]!) })) };
    const names = [...new Set(set.map((each) => each.name))];
    const byName = names.map((name) => [name, set.map((each, index) => ({ ...each, index })).filter((each) => each.name === name)] as const);
    return {
      x: steps,
      curves: byName.map(([name, members]): Curve => {
        const band = meanBand(members.map((each) => filled(steps, columns[each.index]!)));
        return { name: words(name), ...smooth(band.mean), low: smoothed(band.low, width), high: smoothed(band.high, width) };
      }),
    };
  }, [set, isMean, width, hasSeveral]);
  const isTime = axis === "elapsed_time";
  return <Chart x={x} curves={curves} xLabel={isTime ? "training time" : "steps"} formatX={isTime ? duration : short} label="Training curve" height={height} onZoom={onZoom} link={link} />;
}

/** The contribution of every reward term per episode, stacked, for one policy. */
export function TermStack(props: CurvesProps) {
  const [member, setMember] = useUrl("terms");
  const all = useSeries(props, ["episodic_return"], "global_step", null);
  const terms = (all.value?.names ?? []).filter((name) => name.startsWith(TERM));
  const chosen = member || all.value?.members[0] || "";
  const series = useLoaded(terms.length ? `terms:${props.artifact}:${props.iteration}:${chosen}:${terms}` : null, () =>
    got(api.GET("/api/artifacts/{artifact}/series", { params: { path: { artifact: props.artifact }, query: { name: terms, member: [chosen], iteration: props.iteration ?? undefined, points: 600 } } })), props.isLive ? 2500 : null);
  if (all.value && terms.length === 0) return <p className="soft">{all.value.members.length === 0 ? "Reward terms will appear here once training starts." : "This reward has no separate terms."}</p>;
  return (
    <div className="column">
      {(all.value?.members.length ?? 0) > 1 && (
        <div className="row"><label className="row small">policy<select value={chosen} onChange={(event) => setMember(event.target.value)}>{all.value!.members.map((name) => <option key={name} value={name}>{words(name)}</option>)}</select></label></div>
      )}
      <Ready of={series}>
        {(set) => {
          const { x, columns } = joined(set.series);
          return <Chart x={x} isStack height={props.height ?? 200} xLabel="steps" label="Reward by term" link={`${props.artifact}:global_step`} curves={set.series.map((each, index) => ({ name: words(each.name.slice(TERM.length)), values: smoothed(filled(x, columns[index]!), 2) }))} />;
        }}
      </Ready>
    </div>
  );
}
