/** A virtualized table for thousands of rows with keyboard navigation. */
import { memo, useCallback, useLayoutEffect, useMemo, useRef, useState, type KeyboardEvent, type ReactNode } from "react";

export interface TableColumn<Row> {
  key: string;
  title: string;
  width: string;
  isNumber?: boolean;
  /** hidden in narrow windows */
  isWide?: boolean;
  cell: (row: Row) => ReactNode;
}

export interface Sorting {
  key: string;
  isDown: boolean;
}

interface VirtualTableProps<Row> {
  columns: TableColumn<Row>[];
  rows: Row[];
  rowKey: (row: Row) => string;
  label: string;
  sorting?: Sorting;
  onSort?: (sorting: Sorting) => void;
  onOpen?: (row: Row) => void;
  isGroup?: (row: Row) => boolean;
  isChosen?: (row: Row) => boolean;
}

export const ROW_HEIGHT = 36;
const SPARE = 8;
/** rows are added and dropped by this many at a time, so that most frames of a scroll change nothing */
const STEP = 6;

/** The range of rows to draw; it changes after every few rows of a scroll. */
export function visibleRows(top: number, height: number, count: number): [number, number] {
  const first = Math.floor(top / ROW_HEIGHT / STEP) * STEP;
  const shown = Math.ceil(height / ROW_HEIGHT) + STEP;
  return [Math.max(0, first - SPARE), Math.min(count, first + shown + SPARE)];
}

/** The least width of a column, from "5rem" or "minmax(5rem, 1fr)". */
export function leastRem(width: string): number {
  return Number(width.match(/([\d.]+)rem/)?.[1] ?? 0);
}

interface LineProps {
  row: unknown;
  columns: TableColumn<unknown>[];
  index: number;
  state: string;
  template: string;
  width: string;
  onOpen?: (row: unknown) => void;
}

/** One row, drawn again only if it changes. */
const Line = memo(function Line({ row, columns, index, state, template, width, onOpen }: LineProps) {
  return (
    <div role="row" aria-rowindex={index + 2} className={`line ${state}`} style={{ gridTemplateColumns: template, width, top: index * ROW_HEIGHT }} onClick={() => onOpen?.(row)}>
      {columns.map((column) => (
        <div key={column.key} role="cell" className={column.isNumber ? "cell number" : "cell"}>{column.cell(row)}</div>
      ))}
    </div>
  );
});

export function VirtualTable<Row>(props: VirtualTableProps<Row>) {
  const { columns, rows, sorting } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const [view, setView] = useState(() => visibleRows(0, 600, rows.length));
  const [focus, setFocus] = useState(-1);
  const template = useMemo(() => columns.map((column) => column.width).join(" "), [columns]);
  const width = `max(100%, ${columns.reduce((sum, column) => sum + leastRem(column.width), 0)}rem)`;
  const look = useCallback(() => {
    const place = scroller.current;
    if (!place) return;
    const seen = visibleRows(place.scrollTop, place.clientHeight, rows.length);
    setView((before) => (before[0] === seen[0] && before[1] === seen[1] ? before : seen));
  }, [rows.length]);
  useLayoutEffect(() => {
    look();
    const observer = new ResizeObserver(look);
    observer.observe(scroller.current!);
    return () => observer.disconnect();
  }, [look]);
  const [first, last] = view;

  const sort = (key: string) => props.onSort?.({ key, isDown: sorting?.key === key ? !sorting.isDown : true });
  const keys = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: 15, PageUp: -15 }[event.key];
    if (step) {
      event.preventDefault();
      const next = Math.min(rows.length - 1, Math.max(0, focus + step));
      setFocus(next);
      const place = scroller.current!;
      if (next * ROW_HEIGHT < place.scrollTop) place.scrollTop = next * ROW_HEIGHT;
      if ((next + 2) * ROW_HEIGHT > place.scrollTop + place.clientHeight) place.scrollTop = (next + 2) * ROW_HEIGHT - place.clientHeight;
    } else if (event.key === "Enter" && rows[focus] && event.target === scroller.current) {
      event.preventDefault();
      props.onOpen?.(rows[focus]);
    }
  };
  return (
    <div className="vtable">
      <div
        ref={scroller} className="scroller" tabIndex={0} role="table" aria-label={props.label} aria-rowcount={rows.length + 1} onKeyDown={keys}
        onScroll={look}
      >
        <div role="rowgroup" className="heads-group" style={{ position: "sticky", top: 0, zIndex: 2 }}>
          <div className="heads" role="row" style={{ gridTemplateColumns: template, width }}>
            {columns.map((column) => (
              <div key={column.key} role="columnheader" className={column.isNumber ? "number" : ""} aria-sort={sorting?.key === column.key ? (sorting.isDown ? "descending" : "ascending") : undefined}>
                {props.onSort && column.title ? (
                  <button type="button" onClick={() => sort(column.key)}>
                    {column.title}
                    {sorting?.key === column.key && <span aria-hidden="true">{sorting.isDown ? "↓" : "↑"}</span>}
                  </button>
                ) : (
                  <span className="sr">{column.title || "select"}</span>
                )}
              </div>
            ))}
          </div>
        </div>
        <div role="rowgroup" style={{ height: rows.length * ROW_HEIGHT, position: "relative" }}>
          {rows.slice(first, last).map((row, offset) => {
            const index = first + offset;
            const state = `${index === focus ? "focus" : ""} ${props.isGroup?.(row) ? "group" : ""} ${props.isChosen?.(row) ? "chosen" : ""}`;
            return <Line key={props.rowKey(row)} row={row} columns={columns as TableColumn<unknown>[]} index={index} state={state} template={template} width={width} onOpen={props.onOpen as LineProps["onOpen"]} />;
          })}
        </div>
      </div>
    </div>
  );
}
