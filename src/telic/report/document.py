"""Document model of a report: sections of blocks with inline elements.

A `Report` is rendered by `html` and `markdown`. Strings are untrusted text, which renderers never
interpret as markup.
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
    """Name or value in code style."""

    text: str


@dataclass(frozen=True, slots=True)
class Link:
    """Link to a file in the report's folder."""

    text: str
    target: str

    @property
    def is_local(self) -> bool:
        """Return whether the target is a file. Other URLs and schemes are rendered as text."""
        return not re.match(r"\s*([a-z][a-z0-9+.-]*:|//)", self.target, re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Badge:
    """Status label of one or two words."""

    text: str
    tone: Tone = ""


@dataclass(frozen=True, slots=True)
class Tick:
    """Check mark or cross."""

    holds: bool


Inline = str | Strong | Soft | Mono | Link | Badge | Tick | Bar | Gauge
Words = Inline | tuple[Inline, ...]


@dataclass(frozen=True, slots=True)
class Text:
    """Paragraph: plain text, a note, the subject of the report, or the reason for a failure."""

    words: Words
    kind: Literal["", "note", "where", "reason"] = ""


@dataclass(frozen=True, slots=True)
class Heading:
    """Heading inside a section."""

    text: str


@dataclass(frozen=True, slots=True)
class Callout:
    """Main result at the top of a report, with the reason."""

    title: str
    words: Words
    tone: Tone = ""


@dataclass(frozen=True, slots=True)
class Hero:
    """Key figure with a description."""

    figure: str
    words: Words
    note: Words = ""


@dataclass(frozen=True, slots=True)
class Items:
    """List of lines. "rated" aligns names and gauges, and "checks" adds a tick to each line."""

    lines: tuple[Words, ...]
    kind: Literal["", "rated", "checks", "lacks"] = ""


@dataclass(frozen=True, slots=True)
class Stack:
    """Several lines or lists in one table cell."""

    parts: tuple[Words | Items, ...]


Cell = Words | Stack


@dataclass(frozen=True, slots=True)
class Table:
    """Table with a header row."""

    heads: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    title: str = ""
    kind: str = ""
    """CSS class, e.g. to select narrow columns"""


@dataclass(frozen=True, slots=True)
class FactSheet:
    """Pairs of names and values. The style "glance" shows a few values in large type."""

    rows: Sequence[tuple[Words, Words]]
    kind: Literal["facts", "glance"] = "facts"
    heads: tuple[str, str] = ("what", "value")


@dataclass(frozen=True, slots=True)
class Code:
    """Source code. On a page, it is collapsible if it has a title."""

    source: str
    language: str = ""
    title: str = ""


@dataclass(frozen=True, slots=True)
class ShellLine:
    """Shell command to copy."""

    line: str


@dataclass(frozen=True, slots=True)
class Formula:
    """LaTeX formula."""

    latex: str


@dataclass(frozen=True, slots=True)
class Picture:
    """Image that is embedded in the page unless it is large."""

    path: Path
    alt: str
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Video:
    """Video. `inline` is an optional version that is small enough to embed."""

    path: Path
    alt: str
    inline: Path | None = None
    plays: bool = True
    """whether it plays automatically"""


@dataclass(frozen=True, slots=True)
class Figure:
    """Chart with an optional title above and caption below."""

    chart: Chart
    title: str = ""
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Details:
    """Collapsible block."""

    title: str
    blocks: tuple[AnyBlock, ...]


@dataclass(frozen=True, slots=True)
class SideBySide:
    """Blocks that a wide page shows side by side, e.g. charts, or a video with details."""

    blocks: tuple[AnyBlock, ...]
    kind: Literal["charts", "footage"] = "charts"


@dataclass(frozen=True, slots=True)
class Card:
    """Item of a card grid, with pictures, state and details."""

    title: str
    state: Badge
    chips: tuple[str, ...] = ()
    pictures: tuple[Picture | Video, ...] = ()
    blocks: tuple[AnyBlock, ...] = ()


@dataclass(frozen=True, slots=True)
class Cards:
    """Cards that can be filtered by state."""

    cards: tuple[Card, ...]


@dataclass(frozen=True, slots=True)
class Widget:
    """Interactive element of a page, with markup, style, script and data.

    The markup must not contain untrusted text. Pass such text as data, and let the script insert it
    only as text content.
    """

    markup: str
    style: str
    program: str
    data: str
    """JSON"""


AnyBlock = (
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
    | SideBySide
    | Cards
    | Widget
    | Chart
)


@dataclass(frozen=True, slots=True)
class Section:
    """Titled part of a report."""

    title: str
    blocks: tuple[AnyBlock, ...]
    number: int | None = None
    """position in Markdown, where numbered sections come first. A page keeps the list's order."""
    empty: str = ""
    """text shown if `blocks` is empty. A page omits such a section."""

    @property
    def anchor(self) -> str:
        """Name by which links on the page refer to the section."""
        return self.title.lower().replace(" ", "-")


@dataclass(frozen=True, slots=True)
class Report:
    """Complete report."""

    title: str
    sections: tuple[Section, ...]
    header: Section = field(default_factory=lambda: Section("", ()))
    """first section that needs no title on a page"""
    tab: str = ""
    """title of the browser tab, if it differs from `title`"""
    footer: Words = ""
