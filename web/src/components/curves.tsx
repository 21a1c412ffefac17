/** Curves of a training as they grow: one line per policy, or their mean and how far they lie apart. */
import { useEffect, useMemo, useRef, useState } from "react";
import { api, got } from "../api/client";
import { useLoaded } from "../api/use";
import { words } from "../format";
import { joined, filled, meanBand, smoothed, spliced } from "../session/joined";
import { Segmented } from "./basics";
import { Chart, type Curve } from "./chart";
import { Ready } from "./states";

const STILL_MS = 100;
const TERM = "reward_term_";
const GROUPS: [string, string[]][] = [
  ["return", ["episodic_return"]],
  ["length", ["episode_length"]],
  ["learning", ["policy_loss", "value_loss", "approx_kl", "clip_fraction"]],
  ["exploring", ["entropy", "policy_std"]],
  ["speed", ["sps"]],
];

interface CurvesProps {
  thing: string;
  iteration?: number | null;
  isLive: boolean;
  height?: number;
}

function useSeries({ thing, iteration, isLive }: CurvesProps, name: string[], range: [number, number] | null, member: string[] = []) {
  return useLoaded(`series:${thing}:${iteration}:${name}:${member}:${range}`, () =>
    got(api.GET("/api/things/{thing}/series", { params: { path: { thing }, query: { name, member, iteration: iteration ?? undefined, points: 1200, start: range?.[0], end: range?.[1] } } })), isLive && !range ? 2000 : null);
}

export function TrainingCurves(props: CurvesProps) {
  const [group, setGroup] = useState("return");
  const [spread, setSpread] = useState<"each" | "mean">("each");
  const [width, setWidth] = useState(0);
  const [range, setRange] = useState<[number, number] | null>(null);
  const names = GROUPS.find(([each]) => each === group)![1];
  const series = useSeries(props, names, null);
  const finer = useSeries(props, names, range);
  const shown = useMemo(() => (range && finer.value && series.value ? spliced(series.value.series, finer.value.series, range) : series.value?.series ?? []), [series.value, finer.value, range]);
  const closer = useCloser(series.value?.series.some((each) => each.points > each.steps.length) ?? false, setRange);
  return (
    <div className="column">
      <div className="row between">
        <Segmented label="Metric" value={group} choices={GROUPS.map(([name]) => [name, name])} onChange={(next) => { setGroup(next); setRange(null); }} />
        <div className="row small">
          <Segmented label="Policies" value={spread} choices={[["each", "each"], ["mean", "mean"]]} onChange={setSpread} />
          <label className="row" style={{ gap: "0.4rem" }}>smooth<input type="range" min={0} max={30} value={width} onChange={(event) => setWidth(Number(event.target.value))} style={{ width: "5rem" }} /></label>
        </div>
      </div>
      {isTooEarly(series) ? <p className="soft">Curves appear with the first steps of training.</p> : <Ready of={series}>{() => <Curves set={shown} isMean={spread === "mean"} width={width} height={props.height ?? 230} onZoom={closer} hasSeveral={names.length > 1} />}</Ready>}
    </div>
  );
}

/** Ask for finer points of what somebody looks at, and half as much on both sides, once the view stands still. */
function useCloser(hasMore: boolean, setRange: (range: [number, number] | null) => void) {
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  return (next: [number, number] | null) => {
    clearTimeout(timer.current);
    if (!next || !hasMore) return setRange(null);
    const beside = (next[1] - next[0]) / 2;
    timer.current = setTimeout(() => setRange([Math.max(0, Math.floor(next[0] - beside)), Math.ceil(next[1] + beside)]), STILL_MS);
  };
}

/** Whether nothing is trained yet, which is no fault. */
function isTooEarly(series: { value: unknown; error: { status: number } | null }): boolean {
  return series.value === undefined && series.error?.status === 422;
}

function Curves({ set, isMean, width, height, onZoom, hasSeveral }: { set: { member: string; name: string; steps: number[]; values: number[] }[]; isMean: boolean; width: number; height: number; onZoom: (range: [number, number] | null) => void; hasSeveral: boolean }) {
  const { x, curves } = useMemo(() => {
    const { x: steps, columns } = joined(set);
    const title = (each: { member: string; name: string }) => (hasSeveral ? `${words(each.name)} ${isMean ? "" : words(each.member)}` : words(each.member)).trim();
    if (!isMean) return { x: steps, curves: set.map((each, index): Curve => ({ name: title(each), values: smoothed(columns[index]!, width) })) };
    const names = [...new Set(set.map((each) => each.name))];
    const byName = names.map((name) => [name, set.map((each, index) => ({ ...each, index })).filter((each) => each.name === name)] as const);
    return {
      x: steps,
      curves: byName.map(([name, members]): Curve => {
        const band = meanBand(members.map((each) => filled(steps, columns[each.index]!)));
        return { name: words(name), values: smoothed(band.mean, width), low: smoothed(band.low, width), high: smoothed(band.high, width) };
      }),
    };
  }, [set, isMean, width, hasSeveral]);
  return <Chart x={x} curves={curves} xLabel="steps" label="Training curve" height={height} onZoom={onZoom} />;
}

/** What every reward term pays per episode, piled up, of one policy. */
export function TermStack(props: CurvesProps) {
  const [member, setMember] = useState("");
  const all = useSeries(props, ["episodic_return"], null);
  const terms = (all.value?.names ?? []).filter((name) => name.startsWith(TERM));
  const chosen = member || all.value?.members[0] || "";
  const series = useLoaded(terms.length ? `terms:${props.thing}:${props.iteration}:${chosen}:${terms}` : null, () =>
    got(api.GET("/api/things/{thing}/series", { params: { path: { thing: props.thing }, query: { name: terms, member: [chosen], iteration: props.iteration ?? undefined, points: 600 } } })), props.isLive ? 2500 : null);
  if (isTooEarly(all)) return <p className="soft">What every term pays appears with the first steps of training.</p>;
  if (all.value && terms.length === 0) return <p className="soft">This reward has no terms of its own, or nothing was measured yet.</p>;
  return (
    <div className="column">
      {(all.value?.members.length ?? 0) > 1 && (
        <div className="row"><label className="row small">policy<select value={chosen} onChange={(event) => setMember(event.target.value)}>{all.value!.members.map((name) => <option key={name} value={name}>{words(name)}</option>)}</select></label></div>
      )}
      <Ready of={series}>
        {(set) => {
          const { x, columns } = joined(set.series);
          return <Chart x={x} isStack height={props.height ?? 200} xLabel="steps" label="Reward by term" curves={set.series.map((each, index) => ({ name: words(each.name.slice(TERM.length)), values: smoothed(filled(x, columns[index]!), 2) }))} />;
        }}
      </Ready>
    </div>
  );
}
