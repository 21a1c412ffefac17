/** Rendered formulas and highlighted code; both load on first use. */
import { useEffect, useRef, useState } from "react";
import { useTheme } from "../theme";

export function Formula({ latex }: { latex: string }) {
  const place = useRef<HTMLDivElement>(null);
  const [failed, setFailed] = useState(false);
  useEffect(() => {
    let isOver = false;
    void import("./katex").then(({ render }) => {
      if (isOver || !place.current) return;
      setFailed(!render(latex, place.current));
    });
    return () => {
      isOver = true;
    };
  }, [latex]);
  return (
    <>
      <div ref={place} className="formula scroll-x" tabIndex={0} role="group" aria-label="Reward formula" hidden={failed} />
      {failed && <code>{latex}</code>}
    </>
  );
}

export function SourceCode({ text, before, label }: { text: string; before?: string | null; label: string }) {
  const place = useRef<HTMLDivElement>(null);
  const [isReady, setReady] = useState(false);
  const theme = useTheme();
  useEffect(() => {
    let close = () => {};
    let isOver = false;
    void import("./editor").then(({ showCode }) => {
      if (isOver || !place.current) return;
      setReady(true);
      close = showCode(place.current, text, before ?? null, label, theme === "dark");
    });
    return () => {
      isOver = true;
      close();
    };
  }, [text, before, theme, label]);
  return (
    <>
      <div ref={place} hidden={!isReady} />
      {!isReady && <pre className="code" tabIndex={0} aria-label={label}>{text}</pre>}
    </>
  );
}
