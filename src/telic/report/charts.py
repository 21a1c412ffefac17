"""Charts as records: what each shows, and the same in characters where nothing can be drawn."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from telic.core.text import figure, percent, sparkline

Tone = Literal["", "good", "middling", "bad"]
_SLACK = 0.03
"""share of a step by which data may stick out: 2,010 does not need an axis up to 2,500"""
COLOURS = 6
"""after so many lines or pieces colours begin anew"""


class Point(NamedTuple):
    """A value of a line, and the band around it."""

    x: float
    y: float
    low: float
    high: float


class ChartLine(NamedTuple):
    """A named line; `marks` are dots on top of it, with whiskers where they have a range."""

    name: str
    points: Sequence[Point]
    marks: Sequence[Point] = ()


@dataclass(frozen=True, slots=True)
class LineChart:
    """Lines over a common horizontal axis, each with its band."""

    label: str
    """what a person who cannot see it is told"""
    lines: tuple[ChartLine, ...]
    x_name: str
    y_name: str
    peak: Point | None = None
    """a point whose value is written beside it"""
    from_zero: bool = False
    """whether the horizontal axis starts at zero"""


class Row(NamedTuple):
    """A row of a row chart: a value with its interval, and what it was taken from."""

    name: str
    middle: float | None
    interval: tuple[float, float] | None = None
    dots: Sequence[float] = ()
    """single measurements; the middle is a tick among them, or else a dot of its own"""
    least: float | None = None
    """what would count; the part from zero to it is shaded"""
    note: str = ""
    tone: Tone = ""
    is_chosen: bool = False


@dataclass(frozen=True, slots=True)
class RowChart:
    """Values with intervals below each other on one scale."""

    label: str
    rows: tuple[Row, ...]
    target: float | None = None
    """drawn as a dashed line"""
    zero: str = ""
    """what the line at zero is called; empty draws none"""
    are_shares: bool = False
    """whether values are shares of a whole, drawn as bars from 0 to 1"""


class Node(NamedTuple):
    """A box of a tree."""

    key: int
    parent: int | None
    title: str
    note: str
    share: float | None
    """how far its bar is filled, 0 to 1; None draws no bar"""
    is_chosen: bool = False
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Tree:
    """Boxes from left to right, each joined to the one it was made from."""

    label: str
    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class ColumnChart:
    """Values from 0 to 1 as columns side by side, some of them in full colour."""

    label: str
    values: tuple[float, ...]
    chosen: tuple[int, ...]
    threshold: float


@dataclass(frozen=True, slots=True)
class Shares:
    """Shares of a whole as one stacked bar; pieces are coloured in order."""

    label: str
    pieces: tuple[tuple[str, float], ...]
    has_legend: bool = True


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar filled from the left by a share, 0 to 1, and its words; stands inside a line."""

    share: float
    text: str
    tone: Tone | Literal["cost"] = ""


@dataclass(frozen=True, slots=True)
class Gauge:
    """A value with its interval on a line from 0 to 1, and its words; stands inside a line."""

    low: float
    middle: float
    high: float
    threshold: float | None
    text: str


Chart = LineChart | RowChart | Tree | ColumnChart | Shares


def short(value: float) -> str:
    """Return a number for an axis: 1.5M, 60k, 0.25."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.4g}{letter}"
    return f"{value:.4g}"


def ticks(low: float, high: float, count: int) -> list[float]:
    """Return round numbers that span a range: steps of 1, 2 or 5 times a power of ten."""
    if not high > low:  # a constant is seen beside zero
        low, high = min(low, 0.0), max(low, 0.0)
        high = high if high > low else 1.0
    raw = (high - low) / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(size * power for size in (1, 2, 5, 10) if size * power >= raw * 0.999)
    first, last = math.floor(low / step + _SLACK), math.ceil(high / step - _SLACK)
    return [round(index * step, 12) for index in range(first, last + 1)]


def in_characters(chart: Chart) -> list[str]:
    """Return a chart as lines of text: its numbers, and blocks for the shape."""
    match chart:
        case LineChart():
            return [_line(line) for line in chart.lines]
        case RowChart():
            target = [] if chart.target is None else [f"target {figure(chart.target)}"]
            return [_row(row, chart.are_shares) for row in chart.rows] + target
        case Tree():
            return list(_branches(chart.nodes))
        case ColumnChart():
            return [f"{sparkline((0.0, *chart.values, 1.0))[1:-1]}  {chart.threshold:g} needed"]
        case Shares():
            return [f"{percent(share):>4}  {name}" for name, share in chart.pieces]


def _line(line: ChartLine) -> str:
    points = line.points or line.marks
    values = [point.y for point in points]
    ends = f"{figure(values[0])} to {figure(values[-1])}"
    return f"{sparkline(values)}  {line.name}: {ends} at {figure(points[-1].x)}"


def _row(row: Row, is_share: bool) -> str:
    write = percent if is_share else figure
    interval = f" ({' to '.join(map(write, row.interval))})" if row.interval else ""
    note = f", {row.note}" if row.note else ""
    least = f", {figure(row.least)} would count" if row.least else ""
    return f"{row.name}: {write(row.middle)}{interval}{note}{least}"


def _branches(nodes: Sequence[Node]) -> Iterator[str]:
    """Yield every node below the one it was made from, the first ones first."""
    keys = {node.key for node in nodes}

    def below(parent: int | None, depth: int) -> Iterator[str]:
        for node in nodes:
            if (node.parent if node.parent in keys else None) == parent:
                yield f"{'  ' * depth}{'└ ' if depth else ''}{node.title} {node.note}".rstrip()
                yield from below(node.key, depth + 1)

    return below(None, 0)
