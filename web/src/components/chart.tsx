/** Curves on a canvas: 100,000 points, bands, linked zoom, log axis, and the data as CSV or PNG. */
import { useEffect, useMemo, useRef, useState, type KeyboardEvent } from "react";
import uPlot from "uplot";
import { number, short } from "../format";
import { color, COLORS, seriesColor, seriesName, useTheme } from "../theme";
import { mean, piled } from "../session/joined";
import { save } from "./basics";
import { Empty } from "./states";

export interface Curve {
  name: string;
  values: (number | null)[];
  low?: (number | null)[];
  high?: (number | null)[];
  /** the curve before smoothing, drawn faintly behind */
  raw?: (number | null)[];
  /** index of its color; default: its own index */
  color?: number;
  isDashed?: boolean;
}

export interface ChartProps {
  x: number[];
  curves: Curve[];
  xLabel: string;
  yLabel?: string;
  height?: number;
  /** stack the curves: parts of a sum */
  isStack?: boolean;
  yRange?: [number, number];
  threshold?: number | null;
  /** position of a shared cursor, in units of x */
  cursor?: number | null;
  onCursor?: (x: number) => void;
  formatX?: (value: number) => string;
  formatY?: (value: number | null | undefined) => string;
  /** called with the visible range; null: everything */
  onZoom?: (range: [number, number] | null) => void;
  /** charts with the same key zoom together */
  link?: string;
  label: string;
}

export function Chart(props: ChartProps) {
  const [hidden, setHidden] = useState<Set<string>>(new Set());
  const [at, setAt] = useState<number | null>(null);
  const [isLog, setLog] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  const shown = props.curves.map((curve, index) => ({ ...curve, color: curve.color ?? index })).filter((curve) => !hidden.has(curve.name));
  const canLog = !props.isStack && !props.yRange && props.curves.every((curve) => curve.values.every((value) => value === null || value > 0));
  if (props.x.length === 0) return <Empty title="No data yet">{props.label} will appear after the first measurement.</Empty>;
  const toggle = (name: string) =>
    setHidden((old) => {
      const next = new Set(old);
      if (!next.delete(name)) next.add(name);
      return next;
    });
  const file = props.label.toLowerCase().replaceAll(/[^a-z0-9]+/g, "-");
  const csv = () => {
    const cell = (value: unknown) => (/[",\n]/.test(String(value ?? "")) ? `"${String(value).replaceAll('"', '""')}"` : String(value ?? ""));
    const rows = props.x.map((x, index) => [x, ...props.curves.map((curve) => curve.raw?.[index] ?? curve.values[index])]);
    save(`${file}.csv`, new Blob([[[props.xLabel, ...props.curves.map((curve) => curve.name)], ...rows].map((row) => row.map(cell).join(",")).join("\n")], { type: "text/csv" }));
  };
  const png = () => box.current?.querySelector("canvas")?.toBlob((picture) => picture && save(`${file}.png`, picture));
  return (
    <div className="chart">
      <Canvas {...props} curves={shown} isLog={isLog && canLog} box={box} onAt={setAt} />
      <div className="legend">
        {props.curves.map((curve, index) => (
          <button key={curve.name} type="button" aria-pressed={!hidden.has(curve.name)} onClick={() => toggle(curve.name)} title={`Show or hide ${curve.name}`}>
            <span className="swatch" style={{ background: `var(--${seriesName(curve.color ?? index)})` }} aria-hidden="true" />
            {curve.name}
            <span className="soft">{(props.formatY ?? number)(curve.values[at ?? lastOf(curve.values)])}</span>
          </button>
        ))}
        {at !== null && <span className="soft">{props.xLabel} {(props.formatX ?? short)(props.x[at] ?? 0)}</span>}
        <span className="tools" title="Drag to zoom, double-click to reset, Ctrl + scroll to zoom, Shift + drag to pan">
          {canLog && <button type="button" aria-pressed={isLog} onClick={() => setLog(!isLog)}>log</button>}
          <button type="button" onClick={csv} aria-label={`Download ${props.label} as CSV`}>CSV</button>
          <button type="button" onClick={png} aria-label={`Download ${props.label} as PNG`}>PNG</button>
        </span>
      </div>
    </div>
  );
}

function lastOf(values: (number | null)[]): number {
  for (let index = values.length - 1; index >= 0; index -= 1) if (values[index] != null) return index;
  return values.length - 1;
}

interface CanvasProps extends ChartProps {
  isLog: boolean;
  box: React.RefObject<HTMLDivElement | null>;
  onAt: (index: number | null) => void;
}

/** Charts by their link: they show the same range. */
const linked = new Map<string, Set<uPlot>>();
let isFollowing = false;

function Canvas(props: CanvasProps) {
  const { box } = props;
  const plot = useRef<uPlot | null>(null);
  const theme = useTheme();
  const shape = props.curves.map((curve) => `${curve.name}:${curve.low ? 1 : 0}:${curve.raw ? 1 : 0}:${curve.color ?? ""}`).join("|");
  const data = useMemo(() => aligned(props), [props.x, props.curves, props.isStack, shape]); // eslint-disable-line
  const latest = useRef(props);
  latest.current = props;

  useEffect(() => {
    const place = box.current;
    if (!place) return undefined;
    const made = new uPlot(options(latest, place.clientWidth), data, place);
    plot.current = made;
    const link = props.link;
    if (link) linked.set(link, (linked.get(link) ?? new Set()).add(made));
    const observer = new ResizeObserver(() => made.setSize({ width: place.clientWidth, height: latest.current.height ?? 220 }));
    observer.observe(place);
    return () => {
      observer.disconnect();
      if (link) linked.get(link)?.delete(made);
      made.destroy();
      plot.current = null;
    };
  }, [theme, shape, props.isStack, props.isLog, props.threshold, props.height, props.link]);

  useEffect(() => {
    const made = plot.current;
    if (!made || made.data.length !== data.length) return;
    const isZoomed = isCloser(made);
    made.setData(data, !isZoomed);
    if (isZoomed) made.redraw(true);
  }, [data]);

  useEffect(() => {
    const made = plot.current;
    if (made && props.cursor != null) made.setCursor({ left: made.valToPos(props.cursor, "x"), top: 10 }, false);
  }, [props.cursor, data, theme]);

  const keys = (event: KeyboardEvent) => {
    const move = MOVES[event.key];
    if (!plot.current || !move || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation(); // arrow keys must not scroll the page
    look(plot.current, move);
  };
  const summary = `${props.label}: ${props.curves.length} curves of ${props.x.length} points, ${props.xLabel} ${short(props.x[0])} to ${short(props.x.at(-1))}`;
  return <div ref={box} role="img" aria-label={`${summary}. Keyboard: + and - zoom, arrow keys pan, 0 resets the zoom.`} tabIndex={0} onKeyDown={keys} style={{ minHeight: props.height ?? 220 }} />;
}

interface Look {
  /** relative to the visible span: its new size, and the shift */
  span: number;
  shift: number;
}

const EVERYTHING: Look = { span: Infinity, shift: 0 };
const MOVES: Record<string, Look> = {
  "+": { span: 0.7, shift: 0 }, "=": { span: 0.7, shift: 0 }, "-": { span: 1 / 0.7, shift: 0 },
  ArrowLeft: { span: 1, shift: -0.2 }, ArrowRight: { span: 1, shift: 0.2 }, "0": EVERYTHING,
};

/** Zoom or pan around a share of the visible range, within the data. */
function look(plot: uPlot, { span, shift }: Look, around = 0.5): void {
  const [first, last] = [plot.data[0][0]!, plot.data[0].at(-1)!];
  const { min, max } = plot.scales.x as { min: number; max: number };
  const wide = Math.min(last - first, (max - min) * span);
  const from = min + (max - min) * (around + shift) - wide * around;
  const start = Math.max(first, Math.min(last - wide, from));
  plot.setScale("x", { min: start, max: start + wide });
}

function isCloser(plot: uPlot): boolean {
  const x = plot.data[0];
  const { min, max } = plot.scales.x!;
  return x.length > 1 && min != null && max != null && (min > x[0]! || max < x[x.length - 2]!);
}

/** The columns that uPlot draws: bands and raw values behind their curve. */
function aligned({ x, curves, isStack }: ChartProps): uPlot.AlignedData {
  if (isStack) return [x, ...piled(x.length, curves)] as uPlot.AlignedData;
  const columns: (number | null)[][] = [];
  for (const curve of curves) {
    if (curve.low && curve.high) columns.push(curve.high, curve.low);
    if (curve.raw) columns.push(curve.raw);
    columns.push(curve.values);
  }
  return [x, ...columns] as uPlot.AlignedData;
}

function options(latest: { current: CanvasProps }, width: number): uPlot.Options {
  const { curves, height = 220, isStack, isLog, threshold, xLabel, yLabel, formatX = short } = latest.current;
  const soft = color("soft");
  const edge = color("edge");
  const font = "11px system-ui, sans-serif";
  const axis = { stroke: soft, font, labelFont: font, grid: { stroke: edge, width: 1 }, ticks: { stroke: edge, width: 1, size: 4 } };
  const series: uPlot.Series[] = [{ label: xLabel }];
  const bands: uPlot.Band[] = [];
  curves.forEach((curve, index) => {
    const line = seriesColor(curve.color ?? index);
    if (isStack) {
      const isCost = mean(curve.values) < 0;
      const below = curves.slice(0, index).findLastIndex((each) => mean(each.values) < 0 === isCost);
      series.push({ label: curve.name, stroke: line, width: 1, fill: below < 0 ? `${line}55` : undefined, points: { show: curve.values.length < 3, size: 4, fill: line } });
      if (below >= 0) bands.push({ series: [index + 1, below + 1], fill: `${line}55`, dir: isCost ? 1 : -1 });
      return;
    }
    if (curve.low && curve.high) {
      const none = { stroke: "transparent", width: 0, points: { show: false } };
      series.push({ label: `${curve.name} high`, ...none }, { label: `${curve.name} low`, ...none });
      bands.push({ series: [series.length - 2, series.length - 1], fill: `${line}26` });
    }
    if (curve.raw) series.push({ label: `${curve.name} raw`, stroke: `${line}55`, width: 1, points: { show: false } });
    const isDashed = curve.isDashed || (curve.color ?? index) >= COLORS;
    series.push({ label: curve.name, stroke: line, width: 1.6, dash: isDashed ? [5, 4] : undefined, points: { show: curve.values.length < 40, size: 4, fill: line } });
  });
  return {
    width, height, series, bands,
    padding: [8, 10, 0, 0],
    legend: { show: false },
    focus: { alpha: 0.4 },
    scales: { x: { time: false }, y: isLog ? { distr: 3 } : { range: (_plot, min, max) => verticalRange(latest.current, min, max) } },
    cursor: { drag: { x: true, y: false, setScale: true }, points: { size: 6 } },
    axes: [
      { ...axis, values: (_plot, ticks) => ticks.map(formatX), size: 26, label: undefined },
      { ...axis, values: (_plot, ticks) => ticks.map((tick) => short(tick)), size: 46, label: yLabel, labelSize: yLabel ? 18 : 0 },
    ],
    hooks: {
      setCursor: [(plot) => {
        const index = plot.cursor.idx ?? null;
        latest.current.onAt(plot.cursor.left != null && plot.cursor.left >= 0 ? index : null);
        if (plot.cursor.event && index !== null) latest.current.onCursor?.(plot.data[0][index]!);
      }],
      setScale: [(plot, key) => {
        if (key !== "x") return;
        latest.current.onZoom?.(isCloser(plot) ? [plot.scales.x!.min!, plot.scales.x!.max!] : null);
        if (isFollowing || !latest.current.link) return;
        isFollowing = true;
        const { min, max } = plot.scales.x as { min: number; max: number };
        for (const other of linked.get(latest.current.link) ?? []) if (other !== plot && other.data[0].length > 1) other.setScale("x", { min, max });
        isFollowing = false;
      }],
      draw: threshold == null ? [] : [(plot) => drawThreshold(plot, threshold)],
      ready: [wheel],
    },
  };
}

function verticalRange({ yRange, threshold, isStack }: ChartProps, min: number | null, max: number | null): [number, number] {
  if (yRange) return yRange;
  let low = min ?? 0;
  let high = max ?? 1;
  if (threshold != null) [low, high] = [Math.min(low, threshold), Math.max(high, threshold)];
  if (isStack) [low, high] = [Math.min(low, 0), Math.max(high, 0)];
  const room = (high - low || Math.abs(high) || 1) * 0.08;
  return [low - (isStack && low === 0 ? 0 : room), high + room];
}

function drawThreshold(plot: uPlot, value: number): void {
  const y = plot.valToPos(value, "y", true);
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.strokeStyle = color("ink");
  ctx.setLineDash([4, 4]);
  ctx.lineWidth = 1;
  ctx.beginPath();
  ctx.moveTo(bbox.left, y);
  ctx.lineTo(bbox.left + bbox.width, y);
  ctx.stroke();
  ctx.restore();
}

/** With Ctrl or Shift the wheel zooms at the pointer, else it scrolls the page; dragging with Shift pans; a double click resets. */
function wheel(plot: uPlot): void {
  const { over } = plot;
  over.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.shiftKey) return;
    event.preventDefault();
    const { left, width } = over.getBoundingClientRect();
    const turned = event.deltaY || event.deltaX; // with Shift some browsers scroll sideways
    look(plot, { span: turned < 0 ? 0.8 : 1.25, shift: 0 }, (event.clientX - left) / width);
  }, { passive: false });
  over.addEventListener("mousedown", (event) => {
    if (!event.shiftKey) return;
    event.stopImmediatePropagation();
    event.preventDefault();
    const start = { x: event.clientX, ...(plot.scales.x as { min: number; max: number }) };
    const width = over.clientWidth;
    const move = (next: MouseEvent) => {
      const shift = ((start.x - next.clientX) / width) * (start.max - start.min);
      plot.setScale("x", { min: start.min + shift, max: start.max + shift });
    };
    const end = () => {
      document.removeEventListener("mousemove", move);
      document.removeEventListener("mouseup", end);
    };
    document.addEventListener("mousemove", move);
    document.addEventListener("mouseup", end);
  }, { capture: true });
}
