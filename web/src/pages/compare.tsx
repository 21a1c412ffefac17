/** Several things side by side: curves with intervals, what differs, and what was measured. */
import { useState } from "react";
import { Link, useLocation, useSearch } from "wouter";
import { api, got, Problem, read } from "../api/client";
import { useLoaded } from "../api/use";
import { Badge, PageHead, Panel, Swatch } from "../components/basics";
import { Chart, type Curve } from "../components/chart";
import { Empty, Ready } from "../components/states";
import { number, percent, shortId, words } from "../format";
import { differences } from "../session/difference";
import { filled, joined, meanInterval } from "../session/joined";

const MOST = 6;

interface Compared {
  measure: string;
  rows: { thing: string; title: string; mean: number | null; low: number | null; high: number | null; count: number; better_than_first: number | null; p: number | null }[];
}

export default function ComparePage() {
  const ids = new URLSearchParams(useSearch()).getAll("id").slice(0, MOST);
  const [, go] = useLocation();
  const set = (next: string[]) => go(next.length ? `/compare?${next.map((id) => `id=${encodeURIComponent(id)}`).join("&")}` : "/compare");
  return (
    <>
      <PageHead title="Compare" lede="Choose two to six runs or sessions; curves, settings and judged episodes stand side by side." />
      <div className="stacked">
        <Chooser ids={ids} onChange={set} />
        {ids.length < 2 ? <Empty title="Choose at least two">Tick them in the <Link href="/runs">table of runs</Link> and press Compare, or add them above.</Empty> : <Comparison ids={ids} key={ids.join()} />}
      </div>
    </>
  );
}

function Chooser({ ids, onChange }: { ids: string[]; onChange: (ids: string[]) => void }) {
  const things = useLoaded("compare:things", () => got(api.GET("/api/things", { params: { query: { kind: ["session", "run"], limit: 200 } } })));
  const known = new Map((things.value?.things ?? []).map((line) => [line.id, line]));
  return (
    <div className="row">
      {ids.map((id, index) => {
        const line = known.get(id);
        return <span key={id} className="chip row" style={{ gap: "0.4rem" }}><Swatch colour={`var(--c${index + 1})`} /><Link href={`/things/${id}`}>{line ? line.title : shortId(id)}</Link><code className="small">{shortId(id)}</code><button type="button" className="plain small" style={{ padding: "0 0.2rem" }} aria-label={`remove ${line?.title ?? id} ${shortId(id)}`} onClick={() => onChange(ids.filter((each) => each !== id))}>×</button></span>;
      })}
      {ids.length < MOST && (
        <select aria-label="Add" value="" style={{ maxWidth: "12rem" }} onChange={(event) => event.target.value && onChange([...ids, event.target.value])}>
          <option value="">add…</option>
          {(things.value?.things ?? []).filter((line) => !ids.includes(line.id)).map((line) => <option key={line.id} value={line.id}>{line.title} · {line.env} · {shortId(line.id)}</option>)}
        </select>
      )}
    </div>
  );
}

function Comparison({ ids }: { ids: string[] }) {
  const compared = useLoaded(`compare:${ids}`, () => read<Compared>(`/api/compare?${ids.map((id) => `thing=${encodeURIComponent(id)}`).join("&")}`));
  const details = useLoaded(`compare:details:${ids}`, () => Promise.all(ids.map((thing) => got(api.GET("/api/things/{thing}", { params: { path: { thing } } })))));
  return (
    <div className="grid">
      <div className="span-8 stacked">
        <Panel title="Verdict">
          <Ready of={compared}>
            {(result) => (
              <div className="column">
                <div className="scroll-x" tabIndex={0} role="group" aria-label="Measured values">
                  <table className="plain">
                    <thead><tr><th>what</th><th>{result.measure}</th><th>95 % interval</th><th>n</th><th>better than the first</th></tr></thead>
                    <tbody>
                      {result.rows.map((row, index) => (
                        <tr key={row.thing}><td><Swatch colour={`var(--c${index + 1})`} /> {row.title} <code className="small soft">{shortId(row.thing)}</code></td><td className="number">{number(row.mean)}</td><td className="number soft">{row.low === null ? "–" : `${number(row.low)} to ${number(row.high)}`}</td><td className="number soft">{row.count}</td><td className="number soft">{row.better_than_first === null ? "–" : `${percent(row.better_than_first)}${row.p === null ? "" : `, p ${number(row.p, 2)}`}`}</td></tr>
                      ))}
                    </tbody>
                  </table>
                </div>
              </div>
            )}
          </Ready>
        </Panel>
        <Panel title="Curves"><Curves ids={ids} /></Panel>
      </div>
      <div className="span-4 stacked">
        <Panel title="What differs" tight>
          <Ready of={details}>
            {(all) => {
              const rows = differences(all.map((detail) => ({ environment: detail.line.env, ...(detail.session?.config ?? detail.run?.job ?? {}) })));
              return rows.length === 0 ? <p className="soft" style={{ padding: "0.9rem" }}>Their settings are the same.</p> : (
                <div className="scroll-x" tabIndex={0} role="group" aria-label="Settings that differ" style={{ maxHeight: "32rem", overflow: "auto" }}>
                  <table className="plain small">
                    <thead><tr><th>setting</th>{all.map((detail, index) => <th key={detail.line.id}><Swatch colour={`var(--c${index + 1})`} /> {shortId(detail.line.id)}</th>)}</tr></thead>
                    <tbody>{rows.map((row) => <tr key={row.name}><td className="soft">{words(row.name)}</td>{row.values.map((value, index) => <td key={index}>{value.length > 90 ? `${value.slice(0, 90)}…` : value}</td>)}</tr>)}</tbody>
                  </table>
                </div>
              );
            }}
          </Ready>
        </Panel>
        <Panel title="States" tight>
          <Ready of={details}>{(all) => <table className="plain"><thead className="sr"><tr><th>what</th><th>state</th></tr></thead><tbody>{all.map((detail) => <tr key={detail.line.id}><td><Link href={`/things/${detail.line.id}`}>{detail.line.title}</Link></td><td><Badge state={detail.line.state} /></td></tr>)}</tbody></table>}</Ready>
        </Panel>
        {ids.length === 2 && <Panel title="Side by side"><Link className="button" href={`/play/${ids[0]}?with=${ids[1]}`}>Play both in lock-step</Link></Panel>}
      </div>
    </div>
  );
}

interface Band { id: string; x: number[]; mean: (number | null)[]; low: (number | null)[]; high: (number | null)[] }

/** The mean of a metric over the seeds of one thing; null: it has not trained anything yet. */
async function bandOf(id: string, name: string): Promise<Band | null> {
  try {
    const { series } = await got(api.GET("/api/things/{thing}/series", { params: { path: { thing: id }, query: { name: [name], points: 200 } } }));
    const { x, columns } = joined(series);
    return { id, x, ...meanInterval(columns.map((column) => filled(x, column))) };
  } catch (error) {
    if (error instanceof Problem && error.status === 422) return null;
    throw error;
  }
}

const METRICS = ["episodic_return", "episode_length", "entropy", "policy_std", "value_loss", "explained_variance", "sps"];

function Curves({ ids }: { ids: string[] }) {
  const [name, setName] = useState("episodic_return");
  const bands = useLoaded(`compare:bands:${ids}:${name}`, () => Promise.all(ids.map((id) => bandOf(id, name))));
  return (
    <div className="column">
      <label className="row small">metric<select value={name} onChange={(event) => setName(event.target.value)}>{METRICS.map((each) => <option key={each} value={each}>{words(each)}</option>)}</select><span className="soft">mean over training seeds, with its 95 % interval where there are two or more</span></label>
      <Ready of={bands}>
        {(all) => {
          const known = all.flatMap((band, place) => (band && band.x.length ? [{ ...band, place }] : []));
          const series = known.flatMap((band) => [band.mean, band.low, band.high].map((values, part) => ({ member: band.id, name: String(part), steps: band.x, values: values as number[] })));
          const { x, columns } = joined(series);
          const curves = known.map((band, index): Curve => {
            const [mean, low, high] = [0, 1, 2].map((part) => filled(x, columns[index * 3 + part]!));
            const hasBand = low!.some((value) => value !== null);
            return { name: shortId(band.id), values: mean!, colour: band.place, ...(hasBand ? { low: low!, high: high! } : {}) };
          });
          return <Chart x={x} curves={curves} xLabel="steps" label={words(name)} height={300} />;
        }}
      </Ready>
    </div>
  );
}
