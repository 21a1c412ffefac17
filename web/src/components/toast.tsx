/** Short messages, and dialogs that ask before an action. */
import { useEffect, useRef, useState, type FormEvent, type ReactNode } from "react";
import { Problem } from "../api/client";

interface Toast {
  id: number;
  tone: "good" | "bad" | "";
  text: string;
  hint?: string | null;
}

let count = 0;
let show: (toast: Toast) => void = () => {};

export function say(text: string, tone: Toast["tone"] = "good", hint?: string | null): void {
  show({ id: ++count, tone, text, hint });
}

/** Run an action that may fail and show the result; returns whether it succeeded. */
export async function attempt<Value>(work: () => Promise<Value>, done?: (value: Value) => string | void): Promise<boolean> {
  try {
    const value = await work();
    const text = done?.(value);
    if (text) say(text);
    return true;
  } catch (error) {
    if (error instanceof Problem) say(error.message, "bad", error.hint);
    else say(error instanceof Error ? error.message : String(error), "bad");
    return false;
  }
}

export function Toasts() {
  const [toasts, setToasts] = useState<Toast[]>([]);
  useEffect(() => {
    show = (toast) => {
      setToasts((all) => [...all.slice(-3), toast]);
      setTimeout(() => setToasts((all) => all.filter((other) => other.id !== toast.id)), toast.tone === "bad" ? 12000 : 5000);
    };
    return () => {
      show = () => {};
    };
  }, []);
  return (
    <div className="toasts" role="status" aria-live="polite">
      {toasts.map((toast) => (
        <div key={toast.id} className={`notice ${toast.tone}`}>
          <p>{toast.text}</p>
          {toast.hint && <p className="small">{toast.hint}</p>}
        </div>
      ))}
    </div>
  );
}

/** A dialog with a form; Escape closes it and returns the focus. */
export function Dialog(props: { title: string; submit?: string; danger?: boolean; onClose: () => void; onSubmit?: () => Promise<boolean> | boolean; children: ReactNode; disabled?: boolean }) {
  const element = useRef<HTMLDialogElement>(null);
  const [isBusy, setBusy] = useState(false);
  useEffect(() => {
    element.current?.showModal();
  }, []);
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    const isDone = await props.onSubmit?.();
    setBusy(false);
    if (isDone) props.onClose();
  };
  return (
    <dialog ref={element} onClose={props.onClose} aria-label={props.title}>
      <form onSubmit={submit}>
        <h2>{props.title}</h2>
        {props.children}
        <div className="actions">
          <button type="button" onClick={() => element.current?.close()}>{props.onSubmit ? "Cancel" : "Close"}</button>
          {props.onSubmit && <button type="submit" className={props.danger ? "danger" : "primary"} disabled={isBusy || props.disabled}>{isBusy ? "Working…" : (props.submit ?? "OK")}</button>}
        </div>
      </form>
    </dialog>
  );
}
