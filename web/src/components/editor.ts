/** Highlighted code and diffs, in its own chunk. */
import { python } from "@codemirror/lang-python";
import { HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { unifiedMergeView } from "@codemirror/merge";
import { EditorState, type Extension } from "@codemirror/state";
import { EditorView, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";

/** Colors of the style sheet, so that code follows the theme. */
const highlight = HighlightStyle.define([
  { tag: tags.keyword, color: "var(--c4)" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--c3)" },
  { tag: tags.comment, color: "var(--soft)" },
  { tag: [tags.number, tags.bool, tags.null], color: "color-mix(in srgb, var(--c2), var(--ink) 20%)" },
  { tag: [tags.function(tags.variableName), tags.definition(tags.variableName)], color: "var(--c1)" },
  { tag: tags.className, color: "var(--c6)" },
]);

/** Show code, or its changes since `before`; returns a function that closes it. */
export function showCode(place: HTMLElement, text: string, before: string | null, label: string, isDark: boolean): () => void {
  const extensions: Extension[] = [
    lineNumbers(),
    python(),
    syntaxHighlighting(highlight),
    EditorState.readOnly.of(true),
    EditorView.editable.of(false),
    EditorView.contentAttributes.of({ "aria-label": label, tabindex: "0" }),
    EditorView.theme(
      {
        "&": { backgroundColor: "transparent", color: "var(--ink)" },
        ".cm-gutters": { backgroundColor: "transparent", color: "var(--soft)", borderRight: "1px solid var(--edge)" },
        ".cm-scroller": { fontFamily: "var(--mono)", overflow: "auto" },
        "&.cm-merge-b .cm-changedText, .cm-insertedLine, & .cm-deletedChunk .cm-deletedText": { background: "none" },
        ".cm-changedLine": { backgroundColor: "var(--good-paper) !important" },
        ".cm-deletedChunk": { backgroundColor: "var(--bad-paper) !important" },
      },
      { dark: isDark },
    ),
  ];
  if (before !== null && before !== text)
    extensions.push(unifiedMergeView({ original: before, mergeControls: false, highlightChanges: true, collapseUnchanged: { margin: 4, minSize: 8 } }));
  const view = new EditorView({ parent: place, state: EditorState.create({ doc: text, extensions }) });
  return () => view.destroy();
}
