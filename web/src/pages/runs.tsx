/** Everything that was made, in one table: filter by words or conditions, sort, group, compare. */
import { useCallback, useDeferredValue, useEffect, useMemo, useRef, useState } from "react";
import { Link, useLocation, useSearch } from "wouter";
import { api, got } from "../api/client";
import type { components } from "../api/schema";
import { useLoaded } from "../api/use";
import { Badge, PageHead } from "../components/basics";
import { Empty, Failure, Loading } from "../components/states";
import { VirtualTable, type Sorting, type TableColumn } from "../components/table";
import { ago, count, duration, envName, number, short, shortId } from "../format";
import { useShortcuts } from "../keyboard";
import { remember, remembered } from "../memory";
import { fits, sorted } from "../session/filter";

type Line = components["schemas"]["ThingLine"];
interface Row extends Line {
  /** rows that this one stands for, when it stands for several */
  inside?: Line[];
}
interface View {
  filter: string;
  sorting: Sorting;
  isGrouped: boolean;
}

const START: View = { filter: "", sorting: { key: "updated", isDown: true }, isGrouped: false };
const SORTED = ["updated", "id", "title", "env", "state", "kind", "score", "best_return", "iterations", "members", "steps", "seconds", "labels", "disputed"];

const COLUMNS: (TableColumn<Row> & { isOptional?: boolean })[] = [
  { key: "title", title: "What", width: "minmax(11rem, 3fr)", cell: (row) => (row.inside ? <strong>{row.title} · {row.inside.length} runs</strong> : <Link href={`/things/${row.id}`} onClick={(event) => event.stopPropagation()}>{row.title || row.id}</Link>) },
  { key: "kind", title: "Kind", width: "4.8rem", cell: (row) => <span className="soft">{row.kind}</span> },
  { key: "env", title: "Environment", width: "minmax(8.8rem, 1.2fr)", cell: (row) => <span title={row.env ?? ""}>{envName(row.env)}</span> },
  { key: "state", title: "State", width: "8.2rem", cell: (row) => <Badge state={row.state} /> },
  { key: "score", title: "Score", width: "4.4rem", isNumber: true, cell: (row) => number(row.score) },
  { key: "best_return", title: "Return", width: "5.2rem", isNumber: true, cell: (row) => number(row.best_return, 4) },
  { key: "iterations", title: "Tries", width: "4.1rem", isNumber: true, cell: (row) => count(row.iterations) },
  { key: "members", title: "Policies", width: "5.5rem", isNumber: true, isOptional: true, cell: (row) => count(row.members) },
  { key: "steps", title: "Steps", width: "4.7rem", isNumber: true, cell: (row) => short(row.steps) },
  { key: "seconds", title: "Time", width: "6rem", isNumber: true, cell: (row) => duration(row.seconds) },
  { key: "labels", title: "Labels", width: "4.5rem", isNumber: true, isOptional: true, cell: (row) => count(row.labels) },
  { key: "id", title: "Id", width: "7rem", isOptional: true, cell: (row) => <code className="small soft">{shortId(row.id)}</code> },
  { key: "updated", title: "Active", width: "6.6rem", isNumber: true, cell: (row) => <span className="soft">{ago(row.updated)}</span> },
];

/** One row for all that differ in their seeds only. */
export function grouped(rows: Line[]): Row[] {
  const groups = new Map<string, Line[]>();
  for (const row of rows) {
    const key = row.group ?? row.id;
    groups.set(key, [...(groups.get(key) ?? []), row]);
  }
  return [...groups.entries()].map(([key, inside]): Row => {
    const first = inside[0]!;
    if (inside.length === 1) return first;
    const mean = (values: (number | null | undefined)[]) => {
      const known = values.filter((value): value is number => value != null);
      return known.length ? known.reduce((a, b) => a + b, 0) / known.length : null;
    };
    return { ...first, id: `group:${key}`, inside, score: mean(inside.map((row) => row.score)), best_return: mean(inside.map((row) => row.best_return)), seconds: mean(inside.map((row) => row.seconds)) };
  });
}

export default function RunsPage() {
  const [, go] = useLocation();
  const search = new URLSearchParams(useSearch());
  const [view, setView] = useState<View>(() => ({ ...remembered("runs.view", START), ...(search.has("filter") ? { filter: search.get("filter")! } : {}) }));
  const [shown, setShown] = useState<string[]>(() => remembered("runs.columns", COLUMNS.filter((column) => !column.isOptional).map((column) => column.key)));
  const [chosen, setChosen] = useState<Set<string>>(new Set());
  const [open, setOpen] = useState<Set<string>>(new Set());
  const filter = useRef<HTMLInputElement>(null);
  const table = useTable(view);
  useEffect(() => remember("runs.view", view), [view]);
  useEffect(() => remember("runs.columns", shown), [shown]);
  const ids = [...chosen];
  useShortcuts([
    { keys: "/", does: "filter", act: () => filter.current?.focus() },
    { keys: "x", does: "compare what is chosen", act: () => ids.length > 1 && go(`/compare?${ids.map((id) => `id=${id}`).join("&")}`) },
  ]);
  const rows = useMemo((): Row[] => {
    if (!view.isGrouped) return table.rows;
    return grouped(table.rows).flatMap((row) => (row.inside && open.has(row.id) ? [row, ...row.inside] : [row]));
  }, [table.rows, view.isGrouped, open]);
  const toggle = useCallback((id: string) => setChosen((old) => {
    const next = new Set(old);
    if (!next.delete(id)) next.add(id);
    return next;
  }), []);
  const columns = useMemo(() => [
    { key: "choose", title: "", width: "2.4rem", cell: (row: Row) => row.inside ? <span aria-hidden="true">{open.has(row.id) ? "▾" : "▸"}</span> : <input type="checkbox" aria-label={`choose ${row.title} ${shortId(row.id)}`} checked={chosen.has(row.id)} onClick={(event) => event.stopPropagation()} onChange={() => toggle(row.id)} /> },
    ...COLUMNS.filter((column) => shown.includes(column.key)),
  ], [shown, chosen, open, toggle]);
  return (
    <div className="column" style={{ height: "calc(100dvh - 5.6rem)", minHeight: "26rem" }}>
      <PageHead title="Runs" lede={table.total === null ? "Sessions, training runs, searches and studies." : `${count(table.rows.length)} of ${count(table.total)} shown · ${describe(table.kinds)}`}
        actions={<button type="button" className="primary" disabled={ids.length < 2} onClick={() => go(`/compare?${ids.map((id) => `id=${id}`).join("&")}`)}>Compare {ids.length || ""}</button>} />
      <div className="row">
        <input ref={filter} className="grow" type="search" aria-label="Filter" style={{ maxWidth: "34rem", flexBasis: "15rem" }} value={view.filter} onChange={(event) => setView({ ...view, filter: event.target.value })} placeholder="words, or conditions: score>=0.8 env=Ant-v5 state=passed" />
        <SavedViews view={view} onChoose={setView} />
        <label className="row small"><input type="checkbox" checked={view.isGrouped} onChange={(event) => setView({ ...view, isGrouped: event.target.checked })} />Group by seed</label>
        <details className="small" style={{ position: "relative" }}>
          <summary>Columns</summary>
          <div className="panel column" style={{ position: "absolute", right: 0, zIndex: 5, padding: "0.7rem", width: "11rem", gap: "0.3rem" }}>
            {COLUMNS.map((column) => (
              <label key={column.key} className="row"><input type="checkbox" checked={shown.includes(column.key)} onChange={() => setShown(shown.includes(column.key) ? shown.filter((key) => key !== column.key) : COLUMNS.map((each) => each.key).filter((key) => key === column.key || shown.includes(key)))} />{column.title}</label>
            ))}
          </div>
        </details>
      </div>
      {table.error && <Failure error={table.error} onRetry={table.reload} />}
      <div className="panel grow" style={{ minHeight: "18rem", overflow: "hidden" }}>
        {table.total === null && !table.error && <Loading lines={8} />}
        {table.total !== null && table.rows.length === 0 && (view.filter ? <Empty title="Nothing fits this filter"><button type="button" onClick={() => setView({ ...view, filter: "" })}>Show everything</button></Empty> : <Empty title="Nothing was made yet"><Link href="/" className="button">Describe a behaviour</Link></Empty>)}
        {table.rows.length > 0 && (
          <VirtualTable columns={columns} rows={rows} rowKey={(row) => row.id} label="Runs" sorting={view.sorting}
            onSort={(sorting) => SORTED.includes(sorting.key) && setView({ ...view, sorting })} isGroup={(row: Row) => row.inside !== undefined} isChosen={(row) => chosen.has(row.id)}
            onOpen={(row: Row) => row.inside ? setOpen((old) => { const next = new Set(old); if (!next.delete(row.id)) next.add(row.id); return next; }) : go(`/things/${row.id}`)} />
        )}
      </div>
    </div>
  );
}

function describe(kinds: Record<string, number>): string {
  return Object.entries(kinds).map(([kind, many]) => `${count(many)} ${kind}${many === 1 ? "" : kind === "search" ? "es" : kind === "study" ? "" : "s"}`).join(", ").replace("1 study", "1 study");
}

/** The lines that fit a view, in its order; loaded again and again. */
function useTable(view: View) {
  const loaded = useLoaded("things", () => got(api.GET("/api/things")), 3000);
  const filter = useDeferredValue(view.filter);
  const all = loaded.value?.things ?? NONE;
  const rows = useMemo(() => sorted(all.filter(fits(filter)), view.sorting.key, view.sorting.isDown), [all, filter, view.sorting]);
  return { rows, total: loaded.value ? all.length : null, kinds: loaded.value?.kinds ?? {}, error: loaded.error, reload: loaded.reload };
}

const NONE: Line[] = [];

function SavedViews({ view, onChoose }: { view: View; onChoose: (view: View) => void }) {
  const [views, setViews] = useState<Record<string, View>>(() => remembered("runs.views", {}));
  const keep = (next: Record<string, View>) => {
    setViews(next);
    remember("runs.views", next);
  };
  const names = Object.keys(views);
  return (
    <div className="row">
      <select aria-label="Saved views" value="" onChange={(event) => { const name = event.target.value; if (name === " save") { const told = window.prompt("Name of this view"); if (told) keep({ ...views, [told]: view }); } else if (name === " all") onChoose(START); else if (name.startsWith(" drop ")) { const { [name.slice(6)]: _gone, ...rest } = views; keep(rest); } else if (views[name]) onChoose(views[name]); }}>
        <option value="">Views…</option>
        <option value=" all">Everything</option>
        {names.map((name) => <option key={name} value={name}>{name}</option>)}
        <option value=" save">Save this view…</option>
        {names.map((name) => <option key={name} value={` drop ${name}`}>Forget “{name}”</option>)}
      </select>
    </div>
  );
}
