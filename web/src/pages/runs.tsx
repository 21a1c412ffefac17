/** All sessions, runs, searches and studies in one table: filter, sort, group, compare. */
import { useCallback, useDeferredValue, useEffect, useMemo, useRef, useState } from "react";
import { Link, useLocation } from "wouter";
import { api, got, type Schema } from "../api/client";
import { useLoaded } from "../api/query";
import { Badge, PageHead } from "../components/basics";
import { Empty, Failure, Loading } from "../components/states";
import { VirtualTable, type TableColumn } from "../components/table";
import { ago, count, duration, envName, number, plural, score, short, shortId } from "../format";
import { useShortcuts } from "../keyboard";
import { remember, remembered } from "../memory";
import { fits, sorted } from "../session/filter";
import { useUrl } from "../url";

type Line = Schema<"ArtifactSummary">;
interface Row extends Line {
  /** the rows of a group */
  inside?: Line[];
}

interface Column extends TableColumn<Row> {
  isOptional?: boolean;
}

/** Columns with `isWide` are hidden on phones. */
const COLUMNS: Column[] = [
  { key: "title", title: "Name", width: "minmax(6rem, 3fr)", cell: (row) => (row.inside ? <strong>{row.title} · {plural(row.inside.length, "run")}</strong> : <Link href={`/runs/${row.id}`} title={row.note ?? undefined} onClick={(event) => event.stopPropagation()}>{row.name ?? (row.title || row.id)}</Link>) },
  { key: "kind", title: "Kind", width: "5.2rem", isWide: true, cell: (row) => <span className="soft">{row.kind}</span> },
  { key: "env", title: "Environment", width: "minmax(9rem, 1.2fr)", isWide: true, cell: (row) => <span title={row.env ?? ""}>{envName(row.env)}</span> },
  { key: "state", title: "State", width: "8.8rem", cell: (row) => <Badge state={row.state} limits={row.limits} /> },
  { key: "score", title: "Score", width: "4rem", isNumber: true, cell: (row) => score(row.score) },
  { key: "best_return", title: "Return", width: "4.6rem", isNumber: true, isWide: true, cell: (row) => number(row.best_return, 4) },
  { key: "iterations", title: "Iterations", width: "5.5rem", isNumber: true, isWide: true, cell: (row) => count(row.iterations) },
  { key: "tags", title: "Tags", width: "minmax(4rem, 1fr)", isWide: true, isOptional: true, cell: (row) => row.tags.join(", ") },
  { key: "members", title: "Policies", width: "4.6rem", isNumber: true, isWide: true, isOptional: true, cell: (row) => count(row.members) },
  { key: "steps", title: "Steps", width: "4.4rem", isNumber: true, isWide: true, cell: (row) => short(row.steps) },
  { key: "seconds", title: "Time", width: "5.6rem", isNumber: true, isWide: true, cell: (row) => duration(row.seconds) },
  { key: "labels", title: "Labels", width: "4rem", isNumber: true, isWide: true, isOptional: true, cell: (row) => count(row.labels) },
  { key: "id", title: "ID", width: "6rem", isWide: true, isOptional: true, cell: (row) => <code className="small soft">{shortId(row.id)}</code> },
  { key: "updated", title: "Last active", width: "7rem", isNumber: true, isWide: true, cell: (row) => <span className="soft">{ago(row.updated)}</span> },
];

/** One row for all runs that differ only in their seeds. */
export function grouped(rows: Line[]): Row[] {
  const groups = new Map<string, Line[]>();
  for (const row of rows) {
    const key = row.group ?? row.id;
    groups.set(key, [...(groups.get(key) ?? []), row]);
  }
  const mean = (values: (number | null | undefined)[]) => {
    const known = values.filter((value): value is number => value != null);
    return known.length ? known.reduce((a, b) => a + b, 0) / known.length : null;
  };
  return [...groups.entries()].map(([key, inside]): Row => {
    const first = inside[0]!;
    if (inside.length === 1) return first;
    return { ...first, id: `group:${key}`, inside, score: mean(inside.map((row) => row.score)), best_return: mean(inside.map((row) => row.best_return)), seconds: mean(inside.map((row) => row.seconds)) };
  });
}

const NONE: Line[] = [];

export default function RunsPage() {
  const [, go] = useLocation();
  const [filter, setFilter] = useUrl("filter");
  const [sort, setSort] = useUrl("sort", "updated");
  const [order, setOrder] = useUrl("order", "down");
  const [group, setGroup] = useUrl("group");
  const [shown, setShown] = useState<string[]>(() => remembered("runs.columns", COLUMNS.filter((column) => !column.isOptional).map((column) => column.key)));
  const [chosen, setChosen] = useState<Set<string>>(new Set());
  const [open, setOpen] = useState<Set<string>>(new Set());
  const box = useRef<HTMLInputElement>(null);
  const loaded = useLoaded("artifacts", () => got(api.GET("/api/artifacts")), 3000);
  const all = loaded.value?.artifacts ?? NONE;
  const wanted = useDeferredValue(filter);
  const found = useMemo(() => sorted(all.filter(fits(wanted)), sort, order === "down"), [all, wanted, sort, order]);
  useEffect(() => remember("runs.columns", shown), [shown]);
  const ids = [...chosen];
  const compare = () => go(`/compare?${ids.map((id) => `id=${id}`).join("&")}`);
  useShortcuts([
    { keys: "/", does: "focus the filter", act: () => box.current?.focus() },
    { keys: "x", does: "compare the selected rows", act: () => ids.length > 1 && compare() },
  ]);
  const rows = useMemo((): Row[] => (group ? grouped(found).flatMap((row) => (row.inside && open.has(row.id) ? [row, ...row.inside] : [row])) : found), [found, group, open]);
  const toggle = useCallback((set: typeof setChosen, id: string) => set((old) => {
    const next = new Set(old);
    if (!next.delete(id)) next.add(id);
    return next;
  }), []);
  const isNarrow = useNarrow();
  const columns = useMemo(() => [
    { key: "choose", title: "", width: "2.4rem", cell: (row: Row) => row.inside ? <span aria-hidden="true">{open.has(row.id) ? "▾" : "▸"}</span> : <input type="checkbox" aria-label={`select ${row.title} ${shortId(row.id)}`} checked={chosen.has(row.id)} onClick={(event) => event.stopPropagation()} onChange={() => toggle(setChosen, row.id)} /> },
    ...COLUMNS.filter((column) => (isNarrow ? !column.isWide : shown.includes(column.key))),
  ], [shown, chosen, open, toggle, isNarrow]);
  const kinds = Object.entries(loaded.value?.kinds ?? {}).map(([kind, many]) => plural(many, kind, { search: "searches", study: "studies" }[kind])).join(", ");
  return (
    <div className="column table-page">
      <PageHead title="Runs" lede={loaded.value ? `${count(found.length)} of ${count(all.length)} shown · ${kinds}` : "Sessions, training runs, searches and studies."}
        actions={<button type="button" className="primary" disabled={ids.length < 2} onClick={compare}>Compare {ids.length || ""}</button>} />
      <div className="row">
        <input ref={box} className="grow" type="search" aria-label="Filter" style={{ maxWidth: "34rem", flexBasis: "12rem" }} value={filter} onChange={(event) => setFilter(event.target.value)} placeholder="Text or conditions: score>=0.8 env=Ant-v5 tags~baseline" />
        <SavedViews />
        <label className="row small"><input type="checkbox" checked={group !== ""} onChange={(event) => setGroup(event.target.checked ? "seed" : "")} />Group seeds</label>
        {!isNarrow && (
          <details className="small menu">
            <summary>Columns</summary>
            <div className="panel column">
              {COLUMNS.map((column) => (
                <label key={column.key} className="row"><input type="checkbox" checked={shown.includes(column.key)} onChange={() => setShown(shown.includes(column.key) ? shown.filter((key) => key !== column.key) : COLUMNS.map((each) => each.key).filter((key) => key === column.key || shown.includes(key)))} />{column.title}</label>
              ))}
            </div>
          </details>
        )}
      </div>
      {loaded.error && <Failure error={loaded.error} onRetry={loaded.reload} />}
      <div className="panel grow" style={{ minHeight: "18rem", overflow: "hidden" }}>
        {!loaded.value && !loaded.error && <Loading lines={8} />}
        {loaded.value && found.length === 0 && (filter ? <Empty title="No runs match this filter"><button type="button" onClick={() => setFilter("")}>Clear filter</button></Empty> : <Empty title="No runs yet"><Link href="/" className="button">Describe a behavior</Link></Empty>)}
        {found.length > 0 && (
          <VirtualTable columns={columns} rows={rows} rowKey={(row) => row.id} label="Runs" sorting={{ key: sort, isDown: order === "down" }}
            onSort={({ key, isDown }) => { setSort(key); setOrder(isDown ? "down" : "up"); }} isGroup={(row: Row) => row.inside !== undefined} isChosen={(row) => chosen.has(row.id)}
            onOpen={(row: Row) => (row.inside ? toggle(setOpen, row.id) : go(`/runs/${row.id}`))} />
        )}
      </div>
    </div>
  );
}

const NARROW = window.matchMedia("(max-width: 52rem)");

/** Return whether the window is as narrow as a phone. */
function useNarrow(): boolean {
  const [isNarrow, setNarrow] = useState(NARROW.matches);
  useEffect(() => {
    const change = () => setNarrow(NARROW.matches);
    NARROW.addEventListener("change", change);
    return () => NARROW.removeEventListener("change", change);
  }, []);
  return isNarrow;
}

/** Views by name: the query of the address, kept in this browser. */
function SavedViews() {
  const [, go] = useLocation();
  const [views, setViews] = useState<Record<string, string>>(() => remembered("runs.saved", {}));
  const keep = (next: Record<string, string>) => {
    setViews(next);
    remember("runs.saved", next);
  };
  const choose = (action: string) => {
    const [what, name = ""] = action.split(":", 2) as [string, string?];
    if (what === "all") go("/runs");
    else if (what === "open") go(`/runs${views[name]}`);
    else if (what === "drop") keep(Object.fromEntries(Object.entries(views).filter(([each]) => each !== name)));
    else if (what === "save") {
      const given = window.prompt("Name for this view");
      if (given) keep({ ...views, [given.replaceAll(":", " ")]: window.location.search });
    }
  };
  const names = Object.keys(views);
  return (
    <select aria-label="Saved views" value="" onChange={(event) => choose(event.target.value)}>
      <option value="">Saved views…</option>
      <option value="all">All runs</option>
      {names.map((name) => <option key={name} value={`open:${name}`}>{name}</option>)}
      <option value="save">Save this view…</option>
      {names.map((name) => <option key={name} value={`drop:${name}`}>Delete “{name}”</option>)}
    </select>
  );
}
