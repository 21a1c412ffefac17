/** Rendered prompts: headings, lists, code and paragraphs. Everything else stays text. */
import { Fragment, type ReactNode } from "react";

function inline(text: string): ReactNode[] {
  return text.split(/(`[^`]+`|\*\*[^*]+\*\*)/g).map((part, index) =>
    part.startsWith("`") && part.length > 1 ? <code key={index}>{part.slice(1, -1)}</code> : part.startsWith("**") && part.length > 3 ? <strong key={index}>{part.slice(2, -2)}</strong> : <Fragment key={index}>{part}</Fragment>);
}

export function Markdown({ text }: { text: string }) {
  const blocks: ReactNode[] = [];
  const lines = text.split("\n");
  for (let at = 0; at < lines.length; ) {
    const line = lines[at]!;
    const take = (fits: (line: string) => boolean) => {
      const start = at;
      while (at < lines.length && fits(lines[at]!)) at += 1;
      return lines.slice(start, at);
    };
    if (line.startsWith("```")) {
      at += 1;
      const code = take((each) => !each.startsWith("```"));
      at += 1;
      blocks.push(<pre key={at} className="code" tabIndex={0}>{code.join("\n")}</pre>);
    } else if (/^#{1,6} /.test(line)) {
      at += 1;
      blocks.push(<h3 key={at} style={{ color: "var(--ink)" }}>{inline(line.replace(/^#+ /, ""))}</h3>);
    } else if (/^\s*[-*] /.test(line)) {
      const items = take((each) => /^\s*[-*] /.test(each) || /^\s{2,}\S/.test(each));
      const joined = items.reduce<string[]>((all, each) => (/^\s*[-*] /.test(each) ? [...all, each.replace(/^\s*[-*] /, "")] : [...all.slice(0, -1), `${all.at(-1) ?? ""} ${each.trim()}`]), []);
      blocks.push(<ul key={at} className="bullets">{joined.map((each, index) => <li key={index}>{inline(each)}</li>)}</ul>);
    } else if (/^(\s{4,}|\t)\S/.test(line)) {
      blocks.push(<pre key={at} className="code" tabIndex={0}>{take((each) => /^(\s{4,}|\t)/.test(each)).join("\n")}</pre>);
    } else if (line.trim() === "") at += 1;
    else blocks.push(<p key={at}>{inline(take((each) => each.trim() !== "" && !/^(#{1,6} |```|\s*[-*] )/.test(each)).join(" "))}</p>);
  }
  return <div className="column prose">{blocks}</div>;
}
