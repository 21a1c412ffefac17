/** A policy search: what it came to, and its map where every policy plays. */
import { useState } from "react";
import { useLocation } from "wouter";
import { useAbout } from "../api/about";
import { api, ask, got } from "../api/client";
import { useLive } from "../api/live";
import type { components } from "../api/schema";
import { useLoaded } from "../api/use";
import { Badge, Command, Facts, Figures, PageHead, Panel } from "../components/basics";
import { Chart } from "../components/chart";
import { Empty } from "../components/states";
import { attempt, Dialog } from "../components/toast";
import { count, duration, money, number, shortId, words } from "../format";

type Detail = components["schemas"]["ThingDetail"];

interface Played { event: string; run: number; number: number; episodes: number; incumbent: number; selected: number; winner: string | null; note: string | null }

export default function SearchPage({ detail, search, reload }: { detail: Detail; search: NonNullable<Detail["search"]>; reload: () => void }) {
  const { line } = detail;
  const live = useLive(line.id);
  const about = useAbout();
  const [, go] = useLocation();
  const [asks, setAsks] = useState(false);
  const isRunning = live.pulse?.is_running ?? line.is_running;
  const played = live.events.filter((event) => event.event === "search.iteration") as unknown as Played[];
  const runs = [...new Set(played.map((each) => each.run))].sort((a, b) => a - b);
  const x = [...new Set(played.map((each) => each.episodes))].sort((a, b) => a - b);
  const curves = runs.map((run) => {
    const mine = new Map(played.filter((each) => each.run === run).map((each) => [each.episodes, each.incumbent]));
    let last: number | null = null;
    return { name: `run ${run}`, values: x.map((episodes) => (last = mine.get(episodes) ?? last)) };
  });
  const path = { params: { path: { thing: line.id } } };
  const files = useLoaded(`reports:${line.id}`, () => got(api.GET("/api/things/{thing}/files", { ...path, params: { ...path.params, query: { kind: ["report"] } } })), isRunning ? 10_000 : null);
  const page = files.value?.find((file) => file.name.endsWith(".html"));
  const { summary } = search;
  return (
    <>
      <PageHead title={`${line.title} on ${line.env}`} lede={<span className="row"><Badge state={live.pulse?.state ?? line.state} /><code className="small">{shortId(line.id)}</code></span>}
        actions={about.isReadOnly ? undefined : <>
          {isRunning && <button type="button" onClick={() => attempt(() => ask("/api/things/{thing}/stop", { thing: line.id }, {}), () => { reload(); return "It stops."; })}>Stop</button>}
          <button type="button" onClick={() => attempt(() => ask("/api/things/{thing}/report", { thing: line.id }, {}), () => { files.reload(); return "The map is drawn."; })}>{page ? "Draw the map anew" : "Draw the map"}</button>
          {!isRunning && <button type="button" className="danger" onClick={() => setAsks(true)}>Delete</button>}
        </>} />
      {asks && <Dialog title="Delete this search?" submit="Delete" danger onClose={() => setAsks(false)} onSubmit={() => attempt(() => ask("/api/things/{thing}/delete", { thing: line.id }, {}), () => { go("/trash"); return "It is in the trash."; })}><p>It moves to the trash, from where it can be restored.</p></Dialog>}
      <div className="grid">
        <div className="span-8 stacked">
          <Panel title="Best policy so far"><Chart x={x} curves={curves} xLabel="episodes" label="Return of the best policy so far" yLabel="return" height={260} /></Panel>
          <Panel title="Map of policies" tight>
            {page ? <iframe src={page.url} title="Map of policies: every point plays" style={{ width: "100%", height: "44rem", border: 0, display: "block" }} sandbox="allow-scripts" /> : <Empty title="The map is not drawn yet">Every point of it is a policy that plays, with the model's reason. Press “Draw the map”.</Empty>}
          </Panel>
        </div>
        <div className="span-4 stacked">
          {summary && <Panel title="Result"><Figures rows={[["outcome", summary.outcome], ["runs", count(summary.runs.length)], ["time", duration(summary.seconds)]]} /></Panel>}
          {summary && (
            <Panel title="Runs" tight>
              <table className="plain small"><thead><tr><th>run</th><th className="number">fresh return</th><th className="number">95 %</th><th className="number">calls</th><th className="number">price</th></tr></thead>
                <tbody>{summary.runs.map((run) => <tr key={run.run}><td>{run.run}</td><td className="number">{number(run.fresh.mean)}</td><td className="number soft">{run.fresh.low == null ? "–" : `${number(run.fresh.low)} to ${number(run.fresh.high)}`}</td><td className="number">{count(run.calls)}</td><td className="number">{money(run.price_usd)}</td></tr>)}</tbody></table>
            </Panel>
          )}
          {played.length > 0 && <Panel title="Iterations" tight>
            <ol className="timeline" style={{ maxHeight: "22rem", overflow: "auto" }} tabIndex={0} aria-label="Iterations">
              {played.slice(-200).reverse().map((each, index) => <li key={index}><time>{each.run}.{each.number}</time><span>{number(each.selected)} <span className="soft small">best {number(each.incumbent)}{each.winner && ` · ${each.winner}`}{each.note && ` · ${each.note}`}</span></span></li>)}
            </ol>
          </Panel>}
          <Panel title="In a terminal"><div className="column"><Command line={`telic show ${line.id}`} /><Command line={`telic report ${line.id}`} /></div></Panel>
          {search.config && <Panel title="Settings"><Facts rows={Object.entries(search.config).filter(([, value]) => value !== null && typeof value !== "object").map(([name, value]) => [words(name), String(value)])} /></Panel>}
        </div>
      </div>
    </>
  );
}
