"""A report on a terminal: what the page says, as wide as the screen, with charts in characters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text as Styled

from telic.report import document as doc
from telic.report.charts import Bar, Chart, Gauge, in_characters

_TONES = {"": "", "good": "green", "middling": "yellow", "bad": "red", "cost": "yellow"}
_COLOURS = ("blue", "dark_orange", "cyan", "magenta", "red", "yellow")
_BAR = 12
_SIGNS = tuple("0123456789−-–+$")
"""what a number begins with"""


def render_terminal(report: doc.Report) -> RenderableType:
    """Return a report for a console; foreign text is never taken for its markup."""
    parts: list[RenderableType] = [Styled(report.title, "bold"), *_blocks(report.header.blocks)]
    for section in report.sections:
        if section.blocks:
            parts.append(Styled())
            parts.append(Rule(Styled(section.title, "bold"), align="left", style="dim"))
            parts += _blocks(section.blocks)
    return Group(*parts)


def _table(table: doc.Table) -> Table:
    """Return a table without lines; columns of numbers go to the right."""
    title = Styled(table.title, "italic") if table.title else None
    out = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for index, name in enumerate(table.heads):
        column = [row[index] for row in table.rows]
        is_numeric = all(isinstance(cell, str) and cell[:1] in _SIGNS for cell in column)
        side = "right" if is_numeric else "left"
        out.add_column(Styled(name), justify=side, overflow="fold", no_wrap=index == 0)
    for row in table.rows:
        out.add_row(*map(_cell, row))
    return out


def _blocks(blocks: Iterable[doc.Block]) -> Iterator[RenderableType]:
    for block in blocks:
        yield from _block(block)


def _block(block: doc.Block) -> Iterator[RenderableType]:
    match block:
        case doc.Text():
            yield _words(block.words, "dim" if block.kind else "")
        case doc.Heading():
            yield Styled(f"\n{block.text}", "bold")
        case doc.Callout():
            title = Styled(f"{block.title} ", f"bold {_TONES[block.tone]}".strip())
            yield title.append_text(_words(block.words))
        case doc.Hero():
            yield (
                Styled(block.figure, "bold green")
                .append_text(Styled("  "))
                .append_text(_words(block.words))
            )
            yield _words(block.note, "dim")
        case doc.Items():
            yield from _lines(block, "• ")
        case doc.Table():
            yield _table(block)
            yield Styled()
        case doc.FactSheet():
            yield _facts(block.rows)
        case doc.Code():
            yield Padding(Styled(block.source.rstrip()), (0, 2))
        case doc.ShellLine():
            yield Styled(f"  $ {block.line}", "cyan")
        case doc.Formula():
            yield Styled(f"  {block.latex}")
        case _:
            yield from _picture(block)


def _picture(block: doc.Block) -> Iterator[RenderableType]:
    match block:
        case doc.Picture() | doc.Video():
            yield Styled(f"{block.alt}: {block.path}", "dim")
        case doc.Figure():
            yield Styled(block.title or block.chart.label, "bold")
            yield from map(Styled, in_characters(block.chart))
            yield Styled(block.caption, "dim")
        case doc.Details():
            yield Styled(block.title, "bold")
            yield from _blocks(block.blocks)
        case doc.Beside():
            yield from _blocks(block.blocks)
        case doc.Cards():
            for card in block.cards:
                yield from _card(card)
        case doc.Widget():
            yield Styled("(on the page only)", "dim")
        case _:
            assert isinstance(block, Chart)
            yield from _picture(doc.Figure(block))


def _card(card: doc.Card) -> Iterator[RenderableType]:
    yield Styled()
    chips = Styled("  " + " · ".join(card.chips), "dim")
    yield _words((card.state, "  ", doc.Strong(card.title))).append_text(chips)
    yield from _blocks((*card.pictures, *card.blocks))


def _facts(rows: Sequence[tuple[doc.Words, doc.Words]]) -> Table:
    out = Table.grid(padding=(0, 2, 0, 0))
    for name, value in rows:
        out.add_row(_words(name, "dim"), _words(value))
    return out


def _lines(items: doc.Items, mark: str = "") -> Iterator[Styled]:
    between = "  " if items.kind == "rated" else ""
    for line in items.lines:
        parts = line if isinstance(line, tuple) else (line,)
        yield Styled(mark).append_text(Styled(between).join(map(_inline, parts)))


def _cell(cell: doc.Cell) -> Styled:
    if not isinstance(cell, doc.Stack):
        return _words(cell)
    lines = [
        line
        for part in cell.parts
        for line in (_lines(part) if isinstance(part, doc.Items) else (_words(part),))
    ]
    return Styled("\n").join(lines)


def _words(value: doc.Words, style: str = "") -> Styled:
    parts = value if isinstance(value, tuple) else (value,)
    out = Styled("", style)
    for part in parts:
        out.append_text(_inline(part))
    return out


def _inline(part: doc.Inline) -> Styled:
    match part:
        case str():
            return Styled(part)
        case doc.Strong():
            return Styled(part.text, "bold")
        case doc.Soft():
            return Styled(part.text, "dim")
        case doc.Mono():
            return Styled(part.text, "cyan")
        case doc.Link():
            return Styled(part.text, "underline")
        case doc.Badge():
            return Styled(part.text, f"bold {_TONES[part.tone]}".strip())
        case doc.Swatch():
            return Styled("■ ", _COLOURS[part.colour % len(_COLOURS)])
        case doc.Tick():
            return Styled("✓ ", "green") if part.holds else Styled("✕ ", "red")
        case Bar():
            filled = round(_BAR * min(max(part.share, 0.0), 1.0))
            bar = Styled("█" * filled, _TONES[part.tone] or "blue")
            return bar.append("░" * (_BAR - filled), "dim").append(f" {part.text}")
        case Gauge():
            is_met = part.threshold is None or part.low >= part.threshold
            return Styled("● ", "green" if is_met else "yellow").append(part.text)
