"""Chart records, rendered as SVG or as text.

The stylesheet of a page defines the colors. A standalone picture contains its own stylesheet.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Literal, NamedTuple

from markupsafe import Markup

from telic.core.text import figure, sparkline

Tone = Literal["", "good", "middling", "bad"]
_SLACK = 0.03
"""fraction of a tick step by which data may exceed the axis, e.g. 2,010 on an axis up to 2,000"""
COLORS = 6
"""number of different line colors"""


class Point(NamedTuple):
    """Point of a line, with the bounds of the band."""

    x: float
    y: float
    low: float
    high: float


class ChartLine(NamedTuple):
    """Line with a name. `marks` are dots on the line, with whiskers if they have a range."""

    name: str
    points: Sequence[Point]
    marks: Sequence[Point] = ()


@dataclass(frozen=True, slots=True)
class LineChart:
    """Line chart that draws a band around each line."""

    label: str
    """description for screen readers"""
    lines: tuple[ChartLine, ...]
    x_name: str
    y_name: str
    peak: Point | None = None
    """point that is labeled with its value"""
    from_zero: bool = False
    """whether the horizontal axis starts at zero"""


class ForestRow(NamedTuple):
    """Row of a forest plot, with a value, its interval and measurements."""

    name: str
    middle: float | None
    interval: tuple[float, float] | None = None
    dots: Sequence[float] = ()
    """single measurements. If there are any, the value is drawn as a tick, otherwise as a dot."""
    least: float | None = None
    """smallest relevant effect, up to which the range from zero is shaded"""
    tone: Tone = ""
    is_chosen: bool = False


@dataclass(frozen=True, slots=True)
class RowChart:
    """Forest plot that shows values with intervals on a common scale."""

    label: str
    rows: tuple[ForestRow, ...]
    target: float | None = None
    """value of a dashed line"""
    zero: str = ""
    """label of the line at zero, which is omitted if the label is empty"""


@dataclass(frozen=True, slots=True)
class ColumnChart:
    """Column chart of values in [0, 1], with some columns highlighted."""

    label: str
    values: tuple[float, ...]
    chosen: tuple[int, ...]
    threshold: float


@dataclass(frozen=True, slots=True)
class Bar:
    """Inline bar for a share in [0, 1], with a label."""

    share: float
    text: str
    tone: Tone | Literal["cost"] = ""


@dataclass(frozen=True, slots=True)
class Gauge:
    """Inline gauge for a value in [0, 1], with a confidence interval and a label."""

    low: float
    middle: float
    high: float
    threshold: float | None
    text: str


Chart = LineChart | RowChart | ColumnChart


def short(value: float) -> str:
    """Format a number for an axis, e.g. 1.5M, 60k, 0.25."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.4g}{letter}"
    return f"{value:.4g}"


def ticks(low: float, high: float, count: int) -> list[float]:
    """Return ticks for a range, with steps of 1, 2 or 5 times a power of ten."""
    if not high > low:  # include zero in the range of a constant
        low, high = min(low, 0.0), max(low, 0.0)
        high = high if high > low else 1.0
    raw = (high - low) / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(size * power for size in (1, 2, 5, 10) if size * power >= raw * 0.999)
    first, last = math.floor(low / step + _SLACK), math.ceil(high / step - _SLACK)
    return [round(index * step, 12) for index in range(first, last + 1)]


def in_characters(chart: Chart) -> list[str]:
    """Render a chart as lines of text with numbers and sparklines."""
    match chart:
        case LineChart():
            return [_line(line) for line in chart.lines]
        case RowChart():
            target = [] if chart.target is None else [f"target {figure(chart.target)}"]
            return [_row(row) for row in chart.rows] + target
        case ColumnChart():
            return [f"{sparkline((0.0, *chart.values, 1.0))[1:-1]}  {chart.threshold:g} needed"]


def _line(line: ChartLine) -> str:
    points = line.points or line.marks
    values = [point.y for point in points]
    ends = f"{figure(values[0])} to {figure(values[-1])}"
    return f"{sparkline(values)}  {line.name}: {ends} at {figure(points[-1].x)}"


def _row(row: ForestRow) -> str:
    interval = f" ({' to '.join(map(figure, row.interval))})" if row.interval else ""
    least = f", smallest relevant {figure(row.least)}" if row.least else ""
    return f"{row.name}: {figure(row.middle)}{interval}{least}"


# ---------------------------------------------------------------------------------------- SVG


def _tag(name: str, /, *children: str | None, **attributes: object) -> Markup:
    """Return an element with escaped text. `class_` becomes class, and None is omitted."""
    pairs = [
        Markup(' {}="{}"').format(key.rstrip("_").replace("_", "-"), value)
        for key, value in attributes.items()
        if value is not None
    ]
    inside = [child for child in children if child is not None]
    return Markup("<{0}{1}>{2}</{0}>").format(name, Markup().join(pairs), Markup().join(inside))


class _Frame(NamedTuple):
    """Size and margins of a picture."""

    width: float = 360
    height: float = 210
    left: float = 44
    right: float = 12
    top: float = 10
    bottom: float = 34


def draw(chart: Chart | Bar | Gauge) -> Markup:
    """Render a chart as SVG."""
    match chart:
        case LineChart():
            return _svg(*_Frame()[:2], chart.label, _draw_lines(chart, _Frame()), class_="chart")
        case RowChart():
            return _rows(chart)
        case ColumnChart():
            return _column_chart(chart)
        case Bar():
            return _bar(chart)
        case Gauge():
            return _interval(chart)


def picture(chart: LineChart, title: str) -> str:
    """Render a chart as a standalone SVG file with title, legend, and light and dark colors."""
    legend_rows = len(chart.lines)
    frame = _Frame(760, 340, 72, 24, 48 + 18 * legend_rows, 50)
    parts = [
        _tag("style", Markup(_picture_style())),
        _tag("rect", width=frame.width, height=frame.height, rx=8, class_="paper"),
        _tag("text", title, x=frame.left, y=26, class_="title"),
    ]
    for index, line in enumerate(chart.lines):
        y = 45 + 18 * index
        key = _tag("path", d=f"M{frame.left} {y}h22", class_="line")
        name = _tag("text", line.name, x=frame.left + 30, y=y + 4)
        parts.append(_tag("g", key, name, class_=f"key c{index % COLORS + 1}"))
    size = {"xmlns": "http://www.w3.org/2000/svg", "width": frame.width, "height": frame.height}
    drawn = _draw_lines(chart, frame)
    return _svg(frame.width, frame.height, title, *parts, drawn, **size) + "\n"


def _picture_style() -> str:
    """Return the stylesheet, with CSS variables inlined for viewers that do not support them."""
    here = files("telic.report")
    rules = here.joinpath("picture.css").read_text()
    for line in re.findall(r"^.*cN.*$", rules, re.MULTILINE):
        each_color = (line.replace("cN", f"c{index + 1}") for index in range(COLORS))
        rules = rules.replace(line, "\n".join(each_color))
    light, dark = (
        dict(re.findall(r"--([\w-]+): (#\w+)", part))
        for part in here.joinpath("colors.css").read_text().split("@media")
    )
    plain, shaded = (
        re.sub(r"var\(--([\w-]+)\)", lambda name, of=palette: of[name[1]], rules)
        for palette in (light, dark)
    )
    return f"{plain}@media (prefers-color-scheme: dark) {{\n{shaded}}}\n"


def _svg(width: float, height: float, label: str, /, *parts: str | None, **kind: object) -> Markup:
    """Return an SVG element with a text alternative."""
    box = {"viewBox": f"0 0 {width:g} {height:g}", "role": "img", "aria_label": label}
    return _tag("svg", *parts, **box, **kind)


def _draw_lines(chart: LineChart, frame: _Frame) -> Markup:
    """Return the axes and lines without the enclosing SVG element."""
    points = [point for line in chart.lines for point in (*line.points, *line.marks)]
    points = points or [Point(0.0, 0.0, 0.0, 1.0)]  # empty axes
    xs = [point.x for point in points] + ([0.0] if chart.from_zero else [])
    ys = [y for point in points for y in (point.low, point.high)]
    across, up = ticks(min(xs), max(xs), 5), ticks(min(ys), max(ys), 4)
    left, right = min(xs), max(*xs, min(xs) + 1e-9)

    def place(x: float, y: float) -> tuple[float, float]:
        inside_x = frame.width - frame.left - frame.right
        inside_y = frame.height - frame.top - frame.bottom
        return (
            frame.left + inside_x * (x - left) / (right - left),
            frame.top + inside_y * (1 - (y - up[0]) / (up[-1] - up[0])),
        )

    marks = [(x, place(x, up[0])[0]) for x in across if left <= x <= right]
    drawn = [
        _grid([(y, place(left, y)[1]) for y in up], chart.y_name, frame),
        _foot(marks, chart.x_name, frame),
    ]
    for index, line in enumerate(chart.lines):
        above = [place(point.x, point.high) for point in line.points]
        below = [place(point.x, point.low) for point in reversed(line.points)]
        middle = [place(point.x, point.y) for point in line.points]
        parts = [_tag("path", d=_path(above + below) + "Z", class_="band")] if above else []
        parts += [_tag("path", d=_path(middle), class_="line")] if middle else []
        for mark in line.marks:
            (x, y), (_, top), (_, end) = (place(mark.x, v) for v in (mark.y, mark.high, mark.low))
            if mark.high > mark.low:
                whisker = f"M{x:.1f} {end:.1f}V{top:.1f}M{x - 4:.1f} {end:.1f}h8M{x - 4:.1f} "
                parts.append(_tag("path", d=f"{whisker}{top:.1f}h8", class_="whisker"))
            parts.append(_tag("circle", cx=_at(x), cy=_at(y), r=3, class_="mark"))
        drawn.append(_tag("g", *parts, class_=f"c{index % COLORS + 1}"))
    if chart.peak is not None:
        x, y = place(chart.peak.x, chart.peak.high)
        side = {"x": _at(x + 5), "class_": "peak end"} if x > frame.width / 2 else {}
        side = side or {"x": _at(x - 5), "class_": "peak"}
        drawn.append(_tag("text", _axis_number(chart.peak.y), y=_at(y - 10), **side))
    return Markup().join(drawn)


def _grid(rows: Sequence[tuple[float, float]], name: str, frame: _Frame) -> Markup:
    parts = [
        part
        for value, y in rows
        for part in (
            _tag("line", x1=frame.left, x2=frame.width - frame.right, y1=_at(y), y2=_at(y)),
            _tag("text", _axis_number(value), x=frame.left - 6, y=_at(y + 4), class_="end"),
        )
    ]
    middle = (frame.top + frame.height - frame.bottom) / 2
    x = frame.left - 33
    turned = f"rotate(-90 {x:g} {middle:g})"
    title = _tag("text", name, x=f"{x:g}", y=f"{middle:g}", transform=turned, class_="middle name")
    return _tag("g", *parts, title, class_="grid")


def _foot(columns: Sequence[tuple[float, float]], name: str, frame: _Frame) -> Markup:
    y = frame.height - frame.bottom + 15
    parts = [
        _tag("text", _axis_number(value), x=_at(x), y=y, class_="middle") for value, x in columns
    ]
    middle = (frame.left + frame.width - frame.right) / 2
    title = _tag("text", name, x=middle, y=y + 15, class_="middle name")
    return _tag("g", *parts, title, class_="grid")


class _Scale:
    """Horizontal scale of a forest plot."""

    def __init__(self, chart: RowChart) -> None:
        self.name, self.width, self.row, self.right = 190, 860, 34, 14
        self.height = len(chart.rows) * self.row
        values = [v for row in chart.rows for v in (*row.dots, *(row.interval or ()))]
        values += [v for row in chart.rows for v in (row.middle, row.least) if v is not None]
        values += [v for v in (chart.target, 0.0 if chart.zero else None) if v is not None]
        self.marks = ticks(min(values), max(values), 6)

    def x(self, value: float) -> float:
        """Return the horizontal position of a value."""
        low, high = self.marks[0], self.marks[-1]
        return self.name + (self.width - self.name - self.right) * (value - low) / (high - low)


def _rows(chart: RowChart) -> Markup:
    scale = _Scale(chart)
    parts: list[Markup] = []
    for value in scale.marks:
        x = _at(scale.x(value))
        parts.append(_tag("line", x1=x, x2=x, y1=0, y2=_at(scale.height)))
        parts.append(_tag("text", _axis_number(value), x=x, y=scale.height + 17, class_="middle"))
    parts = [_tag("g", *parts, class_="grid")]
    if chart.target is not None:
        parts.append(_upright(scale, chart.target, "target", f"target {short(chart.target)}"))
    if chart.zero:
        parts.append(_upright(scale, 0.0, "zero", chart.zero))
    for index, row in enumerate(chart.rows):
        y = index * scale.row + scale.row / 2
        kind = f"row {row.tone} {'chosen' if row.is_chosen else ''}"
        parts.append(_tag("g", *_interval_row(row, y, scale), class_=" ".join(kind.split())))
    return _svg(scale.width, max(scale.height, 1) + 26, chart.label, *parts, class_="rows")


def _interval_row(row: ForestRow, y: float, scale: _Scale) -> list[Markup]:
    shown = row.name if len(row.name) <= 27 else f"{row.name[:26]}…"
    parts = [_tag("text", _tag("title", row.name), shown, x=0, y=_at(y + 4), class_="name")]
    if row.least:
        start, end = sorted((scale.x(0.0), scale.x(row.least)))
        size = {"x": _at(start), "width": _at(end - start), "height": scale.row - 6}
        says = _tag("title", f"smallest relevant {short(row.least)}")
        parts.append(_tag("rect", says, y=_at(y - scale.row / 2 + 3), **size, class_="too-small"))
    if row.interval is not None:
        start, end = (scale.x(value) for value in row.interval)
        size = {"x": _at(start), "width": _at(max(end - start, 1.5)), "height": 8, "rx": 4}
        parts.append(_tag("rect", y=_at(y - 4), **size, class_="range"))
    for dot in row.dots:
        says = _tag("title", short(dot))
        parts.append(_tag("circle", says, cx=_at(scale.x(dot)), cy=_at(y), r=4, class_="run"))
    if row.middle is not None and row.dots:
        parts.append(
            _tag("path", d=f"M{_at(scale.x(row.middle))} {_at(y - 9)}v18", class_="middle-tick")
        )
    elif row.middle is not None:
        ends = f" ({short(row.interval[0])} to {short(row.interval[1])})" if row.interval else ""
        says = _tag("title", f"{row.middle:+.4g}{ends}")
        place = {"cx": _at(scale.x(row.middle)), "cy": _at(y), "r": 6}
        parts.append(_tag("circle", says, **place, class_="delta"))
    return parts


def _upright(scale: _Scale, value: float, kind: str, says: str) -> Markup:
    x = _at(scale.x(value))
    return _tag("line", _tag("title", says), x1=x, x2=x, y1=0, y2=_at(scale.height), class_=kind)


def _column_chart(chart: ColumnChart) -> Markup:
    width, height = 360, 120
    step = width / max(len(chart.values), 1)
    parts: list[Markup] = []
    for index, value in enumerate(chart.values):
        tall = max(2.0, height * _inside(value))
        place = {"x": _at(index * step + 1), "width": _at(max(step - 2, 1)), "height": _at(tall)}
        kind = "fill chosen" if index in chart.chosen else "fill"
        parts.append(_tag("rect", **place, y=_at(height - tall), class_=kind))
    needed = _at(height * (1 - chart.threshold))
    parts.append(_tag("line", x1=0, x2=width, y1=needed, y2=needed, class_="threshold"))
    return _svg(width, height, chart.label, *parts, class_="columns", preserveAspectRatio="none")


def _bar(bar: Bar) -> Markup:
    track = _tag("rect", width=100, height=8, class_="track")
    fill = _tag("rect", width=_at(100 * _inside(bar.share)), height=8, class_="fill")
    kind = f"bar {bar.tone}".strip()
    return _svg(100, 8, bar.text, track, fill, class_=kind, preserveAspectRatio="none")


def _interval(value: Gauge) -> Markup:
    width, y, margin = 160, 9, 5
    low, middle, high, zero, one, needed = (
        _at(margin + (width - 2 * margin) * _inside(number))
        for number in (value.low, value.middle, value.high, 0, 1, value.threshold or 0)
    )
    is_met = value.threshold is None or value.low >= value.threshold
    mark = None
    if value.threshold is not None:
        mark = _tag("line", x1=needed, x2=needed, y1=2, y2=16, class_="threshold")
    return _svg(
        width,
        18,
        value.text if value.threshold is None else f"{value.text}, {value.threshold:g} needed",
        _tag("line", x1=zero, x2=one, y1=y, y2=y, class_="track"),
        mark,
        _tag("line", x1=low, x2=high, y1=y, y2=y, class_="range"),
        _tag("circle", cx=middle, cy=y, r=4, class_="dot"),
        class_="interval" if is_met else "interval short",
    )


def _inside(share: float) -> float:
    return min(max(share, 0.0), 1.0)


def _axis_number(value: float) -> str:
    return short(value).replace("-", "−")


def _at(value: float) -> str:
    return f"{value:.1f}"


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
