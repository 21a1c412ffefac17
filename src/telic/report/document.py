"""Document model of a report: sections of blocks with inline elements.

Producers build a `Report`; `html`, `markdown` and `terminal` render it. Strings are untrusted
text: renderers never interpret them as markup.
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
    """Main result and its reason, at the top of a report."""

    title: str
    words: Words
    tone: Tone = ""


@dataclass(frozen=True, slots=True)
class Hero:
    """Key figure with its description."""

    figure: str
    words: Words
    note: Words = ""


@dataclass(frozen=True, slots=True)
class Items:
    """List. "rated" aligns names and gauges in columns, and "checks" starts lines with ticks."""

    lines: tuple[Words, ...]
    kind: Literal["", "rated", "checks", "lacks"] = ""


@dataclass(frozen=True, slots=True)
class Stack:
    """Multiple lines or lists in one table cell."""

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
    """Name-value pairs; "glance" shows a few large values."""

    rows: Sequence[tuple[Words, Words]]
    kind: Literal["facts", "glance"] = "facts"
    heads: tuple[str, str] = ("what", "value")


@dataclass(frozen=True, slots=True)
class Code:
    """Source code, collapsible on a page if it has a title."""

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
    """Image, embedded in the page unless it is large."""

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
class Beside:
    """Blocks side by side if the page is wide enough: charts, or a video with details."""

    blocks: tuple[AnyBlock, ...]
    kind: Literal["charts", "footage"] = "charts"


@dataclass(frozen=True, slots=True)
class Card:
    """Item of a card grid: pictures, state and details."""

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
    """Interactive element of a page with its markup, style, script and data.

    The markup must not contain untrusted text. Pass such text as data. The script must insert it
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
    | Beside
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
    """position in a text, where numbered sections come first; a page keeps the given order"""
    empty: str = ""
    """text shown if `blocks` is empty; a page omits the section"""

    @property
    def anchor(self) -> str:
        """Name of the section in links on a page."""
        return self.title.lower().replace(" ", "-")


@dataclass(frozen=True, slots=True)
class Report:
    """Complete report."""

    title: str
    sections: tuple[Section, ...]
    header: Section = field(default_factory=lambda: Section("", ()))
    """leading section; needs no title on a page"""
    tab: str = ""
    """title of the browser tab if different from `title`"""
    footer: Words = ""
