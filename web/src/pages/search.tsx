/** A policy search: returns by run, results, and a map on which every policy plays. */
import { useAbout } from "../api/about";
import { api, ask, got, type Schema } from "../api/client";
import { useLive } from "../api/live";
import { useLoaded } from "../api/query";
import { Badge, Command, Facts, Figures, PageHead, Panel, Rows } from "../components/basics";
import { Chart } from "../components/chart";
import { Empty } from "../components/states";
import { attempt } from "../components/toast";
import { count, duration, envName, money, number, shortId, words } from "../format";
import { joined } from "../session/joined";
import { Tags, WorkActions } from "./actions";
import { OrdersPanel } from "./orders";

type Detail = Schema<"ArtifactDetail">;

export default function SearchPage({ detail, search, reload }: { detail: Detail; search: NonNullable<Detail["search"]>; reload: () => void }) {
  const live = useLive(detail.line.id, detail.line.is_running);
  const about = useAbout();
  const line = { ...detail.line, state: live.status?.state ?? detail.line.state, is_running: live.status?.is_running ?? detail.line.is_running };
  const { x, columns } = joined(search.curves.map((each) => ({ member: String(each.run), name: "", steps: each.episodes, values: each.incumbent })));
  const curves = search.curves.map((each, index) => {
    let last: number | null = null;
    return { name: `run ${each.run}`, values: columns[index]!.map((value) => (last = value ?? last)) };
  });
  const iterations = search.curves.flatMap((each) => each.episodes.map((episodes, index) => ({ run: each.run, number: index, episodes, incumbent: each.incumbent[index]!, selected: each.selected[index]!, note: each.notes[index]! })));
  iterations.sort((a, b) => b.episodes - a.episodes || b.run - a.run);
  const path = { artifact: line.id };
  const files = useLoaded(`reports:${line.id}`, () => got(api.GET("/api/artifacts/{artifact}/files", { params: { path, query: { kind: ["report"] } } })), line.is_running ? 10_000 : null);
  const page = files.value?.find((file) => file.name.endsWith(".html"));
  const { summary } = search;
  const draw = () => attempt(() => ask("/api/artifacts/{artifact}/report", path, {}), () => { files.reload(); return "The map was generated."; });
  return (
    <>
      <PageHead title={line.name ?? `${line.title} on ${envName(line.env)}`} lede={<span className="row"><Badge state={line.state} /><code className="small">{shortId(line.id)}</code></span>}
        actions={about.isReadOnly ? undefined : <><button type="button" onClick={draw}>{page ? "Regenerate the map" : "Generate the map"}</button><WorkActions line={line} canResume={line.state !== "completed"} reload={reload} /></>} />
      <div className="stacked" style={{ marginBottom: "var(--gap)" }}><Tags line={line} />{line.open_orders > 0 && <OrdersPanel artifact={line.id} />}</div>
      <div className="grid">
        <div className="span-8 stacked">
          <Panel title="Best policy so far"><Chart x={x} curves={curves} xLabel="episodes" label="Return of the best policy so far" yLabel="return" height={260} /></Panel>
          <Panel title="Map of policies" tight>
            {page ? <iframe src={page.url} title="Map of policies: select a point to play it" style={{ width: "100%", height: "44rem", border: 0, display: "block" }} sandbox="allow-scripts" /> : <Empty title="No map yet">Click “Generate the map” to plot all policies. Each point links to a video and the model's explanation.</Empty>}
          </Panel>
        </div>
        <div className="span-4 stacked">
          {summary && <Panel title="Result"><Figures rows={[["outcome", words(summary.outcome)], ["runs", count(summary.runs.length)], ["time", duration(summary.seconds)]]} /></Panel>}
          {summary && <Panel title="Runs" tight><Rows label="Runs" heads={["run", "return on fresh episodes", "95% interval", "calls", "cost"]} numbers={[1, 2, 3, 4]} rows={summary.runs.map((run) => [run.run, number(run.fresh.mean), run.fresh.low == null ? "–" : `${number(run.fresh.low)} to ${number(run.fresh.high)}`, count(run.calls), money(run.price_usd)])} /></Panel>}
          {iterations.length > 0 && (
            <Panel title="Iterations" tight>
              <ol className="timeline" style={{ maxHeight: "22rem", overflow: "auto" }} tabIndex={0} aria-label="Iterations">
                {iterations.slice(0, 200).map((each) => <li key={`${each.run}.${each.number}`}><time>{each.run}.{each.number}</time><span>{number(each.selected)} <span className="soft small">best {number(each.incumbent)}{each.note && ` · ${words(each.note)}`}</span></span></li>)}
              </ol>
            </Panel>
          )}
          <Panel title="Commands"><div className="column"><Command line={`telic show ${line.id}`} /><Command line={`telic report ${line.id}`} /></div></Panel>
          {search.config && <Panel title="Settings"><Facts rows={Object.entries(search.config).filter(([name, value]) => name !== "schema_version" && value !== null && typeof value !== "object").map(([name, value]) => [words(name), String(value)])} /></Panel>}
        </div>
      </div>
    </>
  );
}
