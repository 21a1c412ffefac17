"""Markdown renderer. Charts are rendered as text."""

from __future__ import annotations

import html
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from telic.report import document as doc
from telic.report.charts import Bar, Chart, Gauge, in_characters

_SPECIAL = re.compile(r"([\\`*\[\]<>|#~$]|(?<![^\W_])_|_(?![^\W_]))")
"""Characters to escape. Underscores inside words have no meaning in Markdown."""


def escape_markdown(value: object) -> str:
    """Escape untrusted text for Markdown and collapse it to one line."""
    return _SPECIAL.sub(r"\\\1", " ".join(str(value).split()))


def render_markdown(report: doc.Report, folder: Path) -> str:
    """Render a report as Markdown. Links are relative to `folder`, in which it will be stored."""
    numbered = sorted(
        (section for section in (report.header, *report.sections) if section.number is not None),
        key=lambda section: section.number or 0,
    )
    others = [section for section in report.sections if section.number is None and section.blocks]
    parts = [f"# {escape_markdown(report.title)}"]
    if report.header.number is None:
        parts += _blocks(report.header.blocks, folder)
    for section in (*numbered, *others):
        parts += _section(section, folder)
    return "\n\n".join(parts) + "\n"


def render_section(section: doc.Section, folder: Path = Path()) -> str:
    """Render one section as Markdown."""
    return "\n\n".join(_section(section, folder))


def _section(section: doc.Section, folder: Path) -> Iterator[str]:
    if section.title:
        place = "" if section.number is None else f"{section.number}. "
        yield f"## {place}{escape_markdown(section.title)}"
    yield from _blocks(section.blocks, folder)
    if not section.blocks and section.empty:
        yield escape_markdown(section.empty)


def _blocks(blocks: Iterable[doc.AnyBlock], folder: Path) -> Iterator[str]:
    for block in blocks:
        yield from filter(None, _block(block, folder))


def _block(block: doc.AnyBlock, folder: Path) -> Iterator[str]:
    match block:
        case doc.Text():
            yield words(block.words)
        case doc.Heading():
            yield f"### {escape_markdown(block.text)}"
        case doc.Callout():
            yield f"**{escape_markdown(block.title)}** {words(block.words)}".rstrip()
        case doc.Hero():
            yield words(block.words)
            yield words(block.note)
        case doc.Items():
            yield "\n".join(f"- {line}" for line in _lines(block))
        case doc.Table():
            yield f"**{escape_markdown(block.title)}**" if block.title else ""
            yield _table(block.heads, block.rows)
        case doc.FactSheet():
            yield _table(block.heads, block.rows)
        case doc.Code():
            yield fenced(block.source, block.language)
        case doc.ShellLine():
            yield fenced(block.line, "sh")
        case doc.Formula():
            yield formula(block.latex)
        case _:
            yield from _picture(block, folder)


def _picture(block: doc.AnyBlock, folder: Path) -> Iterator[str]:
    match block:
        case doc.Details():
            inside = "\n\n".join(_blocks(block.blocks, folder))
            title = html.escape(block.title)
            yield f"<details><summary>{title}</summary>\n\n{inside}\n\n</details>"
        case doc.SideBySide():
            yield from _blocks(block.blocks, folder)
        case doc.Cards():
            for card in block.cards:
                yield from _card(card, folder)
        case doc.Picture():
            yield f"![{escape_markdown(block.alt)}]({_target(block.path, folder)})"
            yield escape_markdown(block.caption)
        case doc.Video():
            yield f"[{escape_markdown(block.alt)}]({_target(block.path, folder)})"
        case doc.Figure():
            yield f"**{escape_markdown(block.title)}**" if block.title else ""
            yield _chart(block.chart, is_named=bool(block.title))
            yield escape_markdown(block.caption)
        case doc.Widget():
            yield ""
        case _:
            assert isinstance(block, Chart)
            yield _chart(block)


def _chart(chart: Chart, *, is_named: bool = False) -> str:
    label = () if is_named else (chart.label, "")
    return fenced("\n".join((*label, *in_characters(chart))), "text")


def _card(card: doc.Card, folder: Path) -> Iterator[str]:
    yield f"### {escape_markdown(card.title)}"
    yield " · ".join([words(card.state), *map(escape_markdown, card.chips)])
    yield from _blocks((*card.pictures, *card.blocks), folder)


def words(value: doc.Words) -> str:
    """Render words as one line of Markdown."""
    return "".join(map(_inline, value)).strip() if isinstance(value, tuple) else _inline(value)


def _inline(part: doc.Inline) -> str:
    match part:
        case str():
            # Preserve the spaces around inline elements.
            before, after = " " * part[:1].isspace(), " " * part[-1:].isspace()
            return f"{before}{escape_markdown(part)}{after}" if part.strip() else before
        case doc.Strong():
            return f"**{escape_markdown(part.text)}**"
        case doc.Soft() | doc.Badge() | Bar() | Gauge():
            return escape_markdown(part.text)
        case doc.Mono():
            # A backtick would end the code span; a bar would end the table cell.
            return escape_markdown(part.text) if {*part.text} & {*"`|<\n\r"} else f"`{part.text}`"
        case doc.Link():
            link = f"[{escape_markdown(part.text)}]({_address(part.target)})"
            return link if part.is_local else escape_markdown(part.text)
        case doc.Tick():
            return "✓ " if part.holds else "✕ "


def _lines(items: doc.Items) -> list[str]:
    """Return the lines of a list. In "rated" lists, a colon separates names from gauges."""
    between = ": " if items.kind == "rated" else ""
    return [
        between.join(map(_inline, line)).strip() if isinstance(line, tuple) else _inline(line)
        for line in items.lines
    ]


def _cell(cell: doc.Cell) -> str:
    if not isinstance(cell, doc.Stack):
        return words(cell)
    parts = (_lines(part) if isinstance(part, doc.Items) else [words(part)] for part in cell.parts)
    return "<br>".join(line for lines in parts for line in lines)


def _table(heads: Sequence[str], rows: Iterable[Sequence[doc.Cell]]) -> str:
    lines = [[escape_markdown(head) for head in heads], ["---"] * len(heads)]
    lines += [[_cell(cell) for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def fenced(source: str, language: str) -> str:
    """Return a code block whose fence is longer than any run of backticks in the source."""
    longest = max(map(len, re.findall(r"`+", source)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{source.rstrip()}\n{fence}"


def formula(latex: str) -> str:
    """Render a formula as a math block, or as code if it contains the end delimiter."""
    source = latex.strip()
    if re.search(r"\$|[\n\r]\s*[\n\r]|<[a-z/!]", source, re.IGNORECASE):
        return fenced(source, "latex")
    return f"$$\n{source}\n$$"


def _target(path: Path, folder: Path) -> str:
    return _address(Path(os.path.relpath(path, folder)).as_posix())


def _address(target: str) -> str:
    """Percent-encode the delimiters of a link target."""
    return re.sub(r"[\s()<>\\]", lambda sign: f"%{ord(sign[0]):02X}", target)
