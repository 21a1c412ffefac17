/** Sessions or runs side by side: differences over training seeds, curves, rewards, criteria and settings. */
import { Link, useLocation, useSearch } from "wouter";
import { api, got, read, type Schema } from "../api/client";
import { useLoaded } from "../api/query";
import { Badge, PageHead, Panel, Rows, Swatch } from "../components/basics";
import { Chart, type Curve } from "../components/chart";
import { SourceCode } from "../components/formula";
import { Empty, Ready } from "../components/states";
import { number, percent, score, shortId, words } from "../format";
import { filled, joined, meanInterval } from "../session/joined";
import { goalOf } from "../session/records";
import { useUrl } from "../url";

const MOST = 6;
type Compared = Schema<"Comparison">;
type ComparedRow = Compared["rows"][number];

export default function ComparePage() {
  const ids = new URLSearchParams(useSearch()).getAll("id").slice(0, MOST);
  const [, go] = useLocation();
  const set = (next: string[]) => go(next.length ? `/compare?${next.map((id) => `id=${encodeURIComponent(id)}`).join("&")}` : "/compare");
  return (
    <>
      <PageHead title="Compare" lede="Compare up to six sessions or runs across training seeds. The first one is the baseline." />
      <div className="stacked">
        <Chooser ids={ids} onChange={set} />
        {ids.length < 2 ? <Empty title="Select at least two sessions or runs">Select rows in the <Link href="/runs">table of runs</Link> and press Compare, or add them above.</Empty> : <Comparison ids={ids} key={ids.join()} />}
      </div>
    </>
  );
}

function Chooser({ ids, onChange }: { ids: string[]; onChange: (ids: string[]) => void }) {
  const artifacts = useLoaded("compare:artifacts", () => got(api.GET("/api/artifacts", { params: { query: { kind: ["session", "run"], limit: 200 } } })));
  const known = new Map((artifacts.value?.artifacts ?? []).map((line) => [line.id, line]));
  return (
    <div className="row">
      {ids.map((id, index) => {
        const line = known.get(id);
        return <span key={id} className="chip row" style={{ gap: "0.4rem" }}><Swatch color={`var(--c${index + 1})`} /><Link href={`/runs/${id}`}>{line ? line.name ?? line.title : shortId(id)}</Link><code className="small">{shortId(id)}</code><button type="button" className="plain small" style={{ padding: "0 0.2rem" }} aria-label={`remove ${line?.title ?? id} ${shortId(id)}`} onClick={() => onChange(ids.filter((each) => each !== id))}>×</button></span>;
      })}
      {ids.length < MOST && (
        <select aria-label="Add" value="" style={{ maxWidth: "12rem" }} onChange={(event) => event.target.value && onChange([...ids, event.target.value])}>
          <option value="">Add…</option>
          {(artifacts.value?.artifacts ?? []).filter((line) => !ids.includes(line.id)).map((line) => <option key={line.id} value={line.id}>{line.name ?? line.title} · {line.env} · {shortId(line.id)}</option>)}
        </select>
      )}
    </div>
  );
}

function Comparison({ ids }: { ids: string[] }) {
  const compared = useLoaded(`compare:${ids}`, () => read<Compared>(`/api/compare?${ids.map((id) => `artifact=${encodeURIComponent(id)}`).join("&")}`));
  return (
    <Ready of={compared}>
      {(result) => (
        <div className="grid">
          <div className="span-8 stacked">
            <Result result={result} />
            <Panel title="Training curves"><Curves ids={ids} /></Panel>
            <Rewards rows={result.rows} />
          </div>
          <div className="span-4 stacked">
            <Panel title="Videos"><Link className="button" href={`/play/${ids[0]}?with=${ids[1]}`}>Play {ids.length > 2 ? "the first two" : "both"}, synchronized</Link></Panel>
            <Criteria rows={result.rows} />
            <Panel title="Different settings" tight={result.settings.length > 0}>
              {result.settings.length === 0 ? <p className="soft">All settings are identical.</p> : <Rows label="Different settings" heads={["setting", ...result.rows.map((row, index) => <span key={index}><Swatch color={`var(--c${index + 1})`} /> {shortId(row.line.id)}</span>)]} rows={result.settings.map((each) => [<span key="n" className="soft">{words(each.name)}</span>, ...each.values.map((value) => (value === "None" ? "–" : value.length > 90 ? `${value.slice(0, 90)}…` : value))])} />}
            </Panel>
          </div>
        </div>
      )}
    </Ready>
  );
}

function Result({ result }: { result: Compared }) {
  const write = (row: ComparedRow, value: number | null) => (row.line.kind === "session" ? score(value) : number(value, 4));
  return (
    <Panel title="Result">
      <div className="column">
        {result.obstacles.length > 0 && <div className="notice middling"><strong>The selected artifacts have no common metric.</strong>{result.obstacles.map((each) => <p key={each} className="small">{each}</p>)}</div>}
        {result.rows.map((row) => row.difference && <p key={row.line.id}><strong>{row.line.name ?? row.line.title} <code className="small">{shortId(row.line.id)}</code></strong>: {row.difference.words}</p>)}
        <Rows label="Measured values" heads={["", result.measure, "per seed", "difference from the first", "95% interval", "state"]} numbers={[1, 3, 4]} rows={result.rows.map((row, index) => [
          <><Swatch color={`var(--c${index + 1})`} /> {row.line.name ?? row.line.title} <code className="small soft">{shortId(row.line.id)}</code></>,
          write(row, row.mean),
          Object.keys(row.values).length === 0 ? "not measured" : <span className="soft">{Object.values(row.values).map((value) => write(row, value)).join(", ")}</span>,
          row.difference ? `${row.difference.value > 0 ? "+" : ""}${number(row.difference.value)}` : "–",
          row.difference?.low == null ? "–" : `${number(row.difference.low)} to ${number(row.difference.high)}`,
          <Badge key="s" state={row.line.state} limits={row.line.limits} />,
        ])} />
        <p className="small soft">Each training seed counts as one sample. Intervals are simultaneous 95% Welch confidence intervals over all rows.</p>
      </div>
    </Panel>
  );
}

function Rewards({ rows }: { rows: ComparedRow[] }) {
  const [second, setSecond] = useUrl("reward", "1");
  const other = rows[Number(second)] ?? rows[1]!;
  const first = rows[0]!;
  if (first.reward === null && other.reward === null) return null;
  const missing = [first, other].find((row) => row.reward === null);
  return (
    <Panel title="Reward" actions={rows.length > 2 && <select aria-label="Reward to compare with the first" value={second} onChange={(event) => setSecond(event.target.value)}>{rows.slice(1).map((row, index) => <option key={row.line.id} value={index + 1}>{row.line.title} · {shortId(row.line.id)}</option>)}</select>}>
      {missing ? <p className="soft">{missing.line.name ?? missing.line.title} ({shortId(missing.line.id)}) has no judged reward yet.</p> : first.reward === other.reward ? <p className="soft">Both use the same reward function.</p> : <SourceCode text={other.reward!} before={first.reward!} label={`changes from the reward of ${shortId(first.line.id)} to that of ${shortId(other.line.id)}`} />}
    </Panel>
  );
}

function Criteria({ rows }: { rows: ComparedRow[] }) {
  const titles = [...new Set(rows.flatMap((row) => row.criteria.map((each) => each.title)))];
  if (titles.length === 0) return null;
  const find = (row: ComparedRow, title: string) => row.criteria.find((each) => each.title === title);
  const total = (row: ComparedRow) => row.criteria.reduce((sum, each) => sum + each.weight, 0) || 1;
  return (
    <Panel title="Criteria" tight>
      <Rows label="Criteria" heads={["criterion", ...rows.map((row, index) => <span key={index}><Swatch color={`var(--c${index + 1})`} /> {shortId(row.line.id)}</span>)]} rows={titles.map((title) => [title, ...rows.map((row) => {
        const found = find(row, title);
        return found ? `${goalOf(found)}, ${found.is_guard ? "constraint" : percent(found.weight / total(row))}` : "–";
      })])} />
    </Panel>
  );
}

interface Band { id: string; x: number[]; mean: (number | null)[]; low: (number | null)[]; high: (number | null)[] }

/** The mean of a metric over training seeds. */
async function bandOf(id: string, name: string): Promise<Band> {
  const { series } = await got(api.GET("/api/artifacts/{artifact}/series", { params: { path: { artifact: id }, query: { name: [name], points: 200 } } }));
  const { x, columns } = joined(series);
  return { id, x, ...meanInterval(columns.map((column) => filled(x, column))) };
}

const METRICS = ["episodic_return", "episode_length", "entropy", "policy_std", "value_loss", "explained_variance", "sps"];

function Curves({ ids }: { ids: string[] }) {
  const [name, setName] = useUrl("metric", "episodic_return");
  const bands = useLoaded(`compare:bands:${ids}:${name}`, () => Promise.all(ids.map((id) => bandOf(id, name))));
  return (
    <div className="column">
      <label className="row small">metric<select value={name} onChange={(event) => setName(event.target.value)}>{METRICS.map((each) => <option key={each} value={each}>{words(each)}</option>)}</select><span className="soft">mean across training seeds with 95% interval</span></label>
      <Ready of={bands}>
        {(all) => {
          const known = all.flatMap((band, place) => (band.x.length ? [{ ...band, place }] : []));
          const series = known.flatMap((band) => [band.mean, band.low, band.high].map((values, part) => ({ member: band.id, name: String(part), steps: band.x, values: values as number[] })));
          const { x, columns } = joined(series);
          const curves = known.map((band, index): Curve => {
            const [mean, low, high] = [0, 1, 2].map((part) => filled(x, columns[index * 3 + part]!));
            const hasBand = low!.some((value) => value !== null);
            return { name: shortId(band.id), values: mean!, color: band.place, ...(hasBand ? { low: low!, high: high! } : {}) };
          });
          return <Chart x={x} curves={curves} xLabel="steps" label={words(name)} height={300} />;
        }}
      </Ready>
    </div>
  );
}
