/** The part that draws formulas, in a chunk of its own. */
import katex from "katex";
import "katex/dist/katex.min.css";

/** Draw a formula; returns false where it is none. */
export function render(latex: string, place: HTMLElement): boolean {
  try {
    katex.render(latex, place, { displayMode: true, throwOnError: true, trust: false, maxExpand: 200, output: "htmlAndMathml" });
    return true;
  } catch {
    return false;
  }
}
