/** Formula rendering, in its own chunk. */
import katex from "katex";
import "katex/dist/katex.min.css";

/** Draw a formula; returns false if it is not valid. */
export function render(latex: string, place: HTMLElement): boolean {
  try {
    katex.render(latex, place, { displayMode: true, throwOnError: true, trust: false, maxExpand: 200, output: "htmlAndMathml" });
    return true;
  } catch {
    return false;
  }
}
