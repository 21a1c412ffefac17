"""A report as plain records: sections of blocks, and words inside lines.

A producer builds a `Report`; `html`, `markdown` and `terminal` render it. Strings are untrusted
text: no renderer interprets them as markup.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from telic.report.charts import Bar, Chart, Gauge, Tone


@dataclass(frozen=True, slots=True)
class Strong:
    """Emphasized text."""

    text: str


@dataclass(frozen=True, slots=True)
class Soft:
    """Muted text."""

    text: str


@dataclass(frozen=True, slots=True)
class Mono:
    """A name or a value in code style."""

    text: str


@dataclass(frozen=True, slots=True)
class Link:
    """A link to a file in the report's folder."""

    text: str
    target: str

    @property
    def is_local(self) -> bool:
        """Say whether it leads to a file; one to elsewhere, or to a program, is shown as text."""
        return not re.match(r"\s*([a-z][a-z0-9+.-]*:|//)", self.target, re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Badge:
    """A state in one word or two."""

    text: str
    tone: Tone = ""


@dataclass(frozen=True, slots=True)
class Tick:
    """A statement that holds or does not."""

    holds: bool


Inline = str | Strong | Soft | Mono | Link | Badge | Tick | Bar | Gauge
Words = Inline | tuple[Inline, ...]


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph; a note explains, `where` says what the report is about, a reason why not."""

    words: Words
    kind: Literal["", "note", "where", "reason"] = ""


@dataclass(frozen=True, slots=True)
class Heading:
    """A title inside a section."""

    text: str


@dataclass(frozen=True, slots=True)
class Callout:
    """The main outcome and its reason, at the top of a report."""

    title: str
    words: Words
    tone: Tone = ""


@dataclass(frozen=True, slots=True)
class Hero:
    """One number that matters most, with what it is."""

    figure: str
    words: Words
    note: Words = ""


@dataclass(frozen=True, slots=True)
class Items:
    """A list; in a rated one names and gauges stand in columns, checks begin with ticks."""

    lines: tuple[Words, ...]
    kind: Literal["", "rated", "checks", "lacks"] = ""


@dataclass(frozen=True, slots=True)
class Stack:
    """Several lines or lists in one cell of a table."""

    parts: tuple[Words | Items, ...]


Cell = Words | Stack


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells under the names of their columns."""

    heads: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    title: str = ""
    kind: str = ""
    """a class for the page's style: which columns may be narrow"""


@dataclass(frozen=True, slots=True)
class FactSheet:
    """Names and values side by side; at a glance: few, large."""

    rows: Sequence[tuple[Words, Words]]
    kind: Literal["facts", "glance"] = "facts"
    heads: tuple[str, str] = ("what", "value")


@dataclass(frozen=True, slots=True)
class Code:
    """Source code; with a title it is folded on a page."""

    source: str
    language: str = ""
    title: str = ""


@dataclass(frozen=True, slots=True)
class ShellLine:
    """A command to copy."""

    line: str


@dataclass(frozen=True, slots=True)
class Formula:
    """A formula in LaTeX."""

    latex: str


@dataclass(frozen=True, slots=True)
class Picture:
    """An image; it is inside the page unless it is large."""

    path: Path
    alt: str
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Video:
    """A video; `inline` is a version that is small enough to embed, if available."""

    path: Path
    alt: str
    inline: Path | None = None
    plays: bool = True
    """whether it plays automatically"""


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart with a title above it, or a caption below."""

    chart: Chart
    title: str = ""
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Details:
    """A collapsible block."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Beside:
    """Blocks side by side if the page is wide enough: equal ones, or a video and its details."""

    blocks: tuple[Block, ...]
    kind: Literal["charts", "footage"] = "charts"


@dataclass(frozen=True, slots=True)
class Card:
    """One of many similar items: pictures, state and details."""

    title: str
    state: Badge
    chips: tuple[str, ...] = ()
    pictures: tuple[Picture | Video, ...] = ()
    blocks: tuple[Block, ...] = ()


@dataclass(frozen=True, slots=True)
class Cards:
    """Cards that can be filtered by their state."""

    cards: tuple[Card, ...]


@dataclass(frozen=True, slots=True)
class Widget:
    """An interactive part of a page: its own markup, style, script and data.

    The markup must hold no foreign text; foreign text comes as data, which the program may only
    set as text.
    """

    markup: str
    style: str
    program: str
    data: str
    """JSON"""


Block = (
    Text
    | Heading
    | Callout
    | Hero
    | Items
    | Table
    | FactSheet
    | Code
    | ShellLine
    | Formula
    | Picture
    | Video
    | Figure
    | Details
    | Beside
    | Cards
    | Widget
    | Chart
)


@dataclass(frozen=True, slots=True)
class Section:
    """A titled part of a report."""

    title: str
    blocks: tuple[Block, ...]
    number: int | None = None
    """its place in a text, where numbered sections come first; a page keeps the order as built"""
    empty: str = ""
    """text shown in place of missing blocks; a page omits the section"""


@dataclass(frozen=True, slots=True)
class Report:
    """A whole report."""

    title: str
    sections: tuple[Section, ...]
    header: Section = field(default_factory=lambda: Section("", ()))
    """leading section; on a page it needs no title"""
    tab: str = ""
    """the name of the page's tab, where it is not the title"""
    footer: Words = ""
