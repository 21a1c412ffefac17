/** States of a page without content: empty, loading, failed. */
import { Component, useEffect, useState, type ReactNode } from "react";
import type { Loaded } from "../api/query";

export function Empty({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <div className="empty">
      <strong>{title}</strong>
      {children}
    </div>
  );
}

/** Gray lines where content will be; only after a moment, so that fast answers do not flicker. */
export function Loading({ lines = 4, label = "Loading" }: { lines?: number; label?: string }) {
  const [isSlow, setSlow] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setSlow(true), 150);
    return () => clearTimeout(timer);
  }, []);
  return (
    <div className="column" role="status" aria-label={label} style={{ padding: "0.9rem" }}>
      {isSlow && Array.from({ length: lines }, (_, line) => <div key={line} className="skeleton" style={{ height: "1rem", width: `${90 - line * 13}%` }} />)}
    </div>
  );
}

export function Failure({ error, onRetry }: { error: { message: string; hint?: string | null }; onRetry?: () => void }) {
  return (
    <div className="notice bad" role="alert">
      <p><strong>{error.message}</strong></p>
      {error.hint && <p>{error.hint}</p>}
      {onRetry && <p><button type="button" onClick={onRetry}>Try again</button></p>}
    </div>
  );
}

/** Show loaded data, or that it loads or failed. */
export function Ready<Value>(props: { of: Loaded<Value>; lines?: number; children: (value: Value) => ReactNode }) {
  const { value, error, reload } = props.of;
  if (value !== undefined)
    return (
      <>
        {error && <div className="notice middling" role="status" style={{ marginBottom: "0.8rem" }}>{error.message} The data below may be out of date.</div>}
        {props.children(value)}
      </>
    );
  if (error) return <Failure error={error} onRetry={reload} />;
  return <Loading lines={props.lines} />;
}

export class Fence extends Component<{ children: ReactNode; name: string }, { error: Error | null }> {
  state: { error: Error | null } = { error: null };

  static getDerivedStateFromError(error: Error) {
    return { error };
  }

  render() {
    if (!this.state.error) return this.props.children;
    return <Failure error={{ message: `This page could not be displayed: ${this.state.error.message}`, hint: "No data was lost. Reload the page or use the command line." }} onRetry={() => this.setState({ error: null })} />;
  }
}
