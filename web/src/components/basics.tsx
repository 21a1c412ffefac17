/** Small parts of all pages: panels, badges, figures, gauges, commands to copy. */
import { useState, type ReactNode } from "react";
import { percent, words } from "../format";

export type Tone = "" | "good" | "middling" | "bad" | "live";

const TONES: Record<string, Tone> = {
  passed: "good", completed: "good", ok: "good", done: "good", kept: "good", complete: "good", adopted: "good", promoted: "good",
  passed_in_part: "middling", unproven: "middling", claimed: "middling", unconfirmed: "middling", stopped: "middling", interrupted: "middling",
  paused: "middling", "not started": "middling", warning: "middling", missing: "middling", "waiting for approval": "middling", "waiting for cores": "middling",
  not_passed: "bad", failed: "bad", refused: "bad", error: "bad", bad: "bad", damaged: "bad", crashed: "bad", blocked: "bad", rejected: "bad",
  running: "live", starting: "live", stopping: "live", pausing: "live", queued: "live", started: "live",
};

export function toneOf(state: string | null | undefined): Tone {
  return TONES[state ?? ""] ?? "";
}

/** `limits` qualify a pass, such as one training seed. */
export function Badge({ state, limits, children, tone }: { state?: string; limits?: readonly string[]; tone?: Tone; children?: ReactNode }) {
  const shown = tone ?? toneOf(state);
  return (
    <span className={`badge ${shown}`} title={limits?.join(", ")}>
      {shown && <span className="dot" aria-hidden="true" />}
      {children ?? words(state ?? "")}
      {limits && limits.length > 0 && " (limited)"}
    </span>
  );
}

export function Panel(props: { title: ReactNode; actions?: ReactNode; tight?: boolean; className?: string; children: ReactNode; id?: string }) {
  return (
    <section className={`panel ${props.className ?? ""}`} id={props.id}>
      <header>
        <h2>{props.title}</h2>
        {props.actions}
      </header>
      <div className={props.tight ? "body tight" : "body"}>{props.children}</div>
    </section>
  );
}

export function PageHead(props: { title: ReactNode; lede?: ReactNode; actions?: ReactNode }) {
  return (
    <div className="page-head">
      <div className="grow">
        <h1>{props.title}</h1>
        {props.lede && <div className="lede">{props.lede}</div>}
      </div>
      {props.actions && <div className="row">{props.actions}</div>}
    </div>
  );
}

export function Figures({ rows }: { rows: [string, ReactNode][] }) {
  return (
    <dl className="figures">
      {rows.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

export function Facts({ rows }: { rows: [ReactNode, ReactNode][] }) {
  return (
    <dl className="facts">
      {rows.map(([name, value], index) => (
        <div key={index} style={{ display: "contents" }}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** A score from 0 to 1 with its lower bound and the threshold. */
export function Gauge(props: { value: number | null; low?: number | null; threshold?: number | null; tone?: Tone; label?: string }) {
  const { value, low, threshold } = props;
  const tone = props.tone ?? (value === null ? "" : threshold != null ? ((low ?? value) >= threshold ? "good" : "middling") : "live");
  const place = (share: number) => `${Math.min(1, Math.max(0, share)) * 100}%`;
  return (
    <svg className={`gauge ${tone}`} role="img" aria-label={props.label ?? (value === null ? "unknown" : percent(value))}>
      <rect width="100%" height="100%" rx="4" fill="var(--edge)" />
      {value !== null && <rect width={place(value)} height="100%" rx="4" fill="var(--tone, var(--soft))" opacity={low != null ? 0.4 : 1} />}
      {low != null && <rect width={place(low)} height="100%" rx="4" fill="var(--tone, var(--soft))" />}
      {threshold != null && <rect x={place(threshold)} width="2" height="100%" fill="var(--ink)" />}
    </svg>
  );
}

export function Copy({ text, label = "Copy" }: { text: string; label?: string }) {
  const [isCopied, setCopied] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = document.createElement("textarea"); // pages without a secure origin have no clipboard
      area.value = text;
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    setCopied(true);
    setTimeout(() => setCopied(false), 1500);
  };
  return (
    <button type="button" className="plain small" onClick={copy} aria-live="polite">
      {isCopied ? "Copied" : label}
    </button>
  );
}

export function Command({ line, label }: { line: string; label?: string }) {
  return (
    <div className="command">
      <code tabIndex={0} aria-label={label ?? "command"}>{line}</code>
      <Copy text={line} />
    </div>
  );
}

export function Segmented<Value extends string>(props: { label: string; value: Value; choices: [Value, string][]; onChange: (value: Value) => void }) {
  return (
    <div className="segmented" role="group" aria-label={props.label}>
      {props.choices.map(([value, text]) => (
        <button key={value} type="button" aria-pressed={props.value === value} onClick={() => props.onChange(value)}>
          {text}
        </button>
      ))}
    </div>
  );
}

export function Swatch({ color }: { color: string }) {
  return <span className="swatch" style={{ background: color }} aria-hidden="true" />;
}

/** Save data as a file of the browser's downloads. */
export function save(name: string, data: Blob): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(data);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** Rows under named columns; scrolls sideways if it is too wide. */
export function Rows({ label, heads, rows, numbers = [] }: { label: string; heads: ReactNode[]; rows: ReactNode[][]; numbers?: number[] }) {
  const side = (index: number) => (numbers.includes(index) ? "number" : undefined);
  return (
    <div className="scroll-x" tabIndex={0} role="group" aria-label={label}>
      <table className="plain small">
        <thead><tr>{heads.map((head, index) => <th key={index} className={side(index)}>{head}</th>)}</tr></thead>
        <tbody>{rows.map((row, place) => <tr key={place}>{row.map((cell, index) => <td key={index} className={side(index)}>{cell}</td>)}</tr>)}</tbody>
      </table>
    </div>
  );
}
