"""Small charts as inline SVG: lines with bands, bars, intervals, trees. Colours come from CSS."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from telic.core.pages.markup import Markup, join, tag

_WIDTH, _HEIGHT = 360, 210
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 12, 10, 34
_NODE_WIDTH, _NODE_HEIGHT, _GAP_X, _GAP_Y = 116, 48, 36, 14
COLOURS = 6


class Point(NamedTuple):
    """A value of a line, and the band around it."""

    x: float
    y: float
    low: float
    high: float


class Line(NamedTuple):
    """A named line of a chart; `marks` are drawn as dots on top of it."""

    name: str
    points: Sequence[Point]
    marks: Sequence[tuple[float, float]] = ()


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
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(number * step, 12) for number in range(first, last + 1)]


def line_chart(lines: Sequence[Line], *, label: str, x_name: str, y_name: str) -> Markup:
    """Draw lines over a common horizontal axis, each with its band."""
    xs = [each.x for line in lines for each in line.points]
    ys = [y for line in lines for each in line.points for y in (each.low, each.high)]
    ys += [y for line in lines for _, y in line.marks]
    across, up = ticks(min(xs), max(xs), 5), ticks(min(ys), max(ys), 4)
    left, right = min(xs), max(*xs, min(xs) + 1e-9)

    def place(x: float, y: float) -> tuple[float, float]:
        inside_x, inside_y = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
        return (
            _LEFT + inside_x * (x - left) / (right - left),
            _TOP + inside_y * (1 - (y - up[0]) / (up[-1] - up[0])),
        )

    drawn = [_grid([(y, place(left, y)[1]) for y in up], y_name)]
    drawn.append(_foot([(x, place(x, up[0])[0]) for x in across if left <= x <= right], x_name))
    for number, line in enumerate(lines):
        above = [place(each.x, each.high) for each in line.points]
        below = [place(each.x, each.low) for each in reversed(line.points)]
        colour = f"c{number % COLOURS + 1}"
        parts = [
            tag("path", d=_path(above + below) + "Z", class_="band"),
            tag("path", d=_path([place(each.x, each.y) for each in line.points]), class_="line"),
            *(_dot(*place(*mark), 3) for mark in line.marks),
        ]
        drawn.append(tag("g", *parts, class_=colour))
    return _svg(_WIDTH, _HEIGHT, label, *drawn, class_="chart")


def bar(share: float, label: str, kind: str = "") -> Markup:
    """Draw a bar that is filled from the left by a share, 0 to 1."""
    filled = 100 * min(max(share, 0.0), 1.0)
    return _svg(
        100,
        8,
        label,
        tag("rect", width=100, height=8, class_="track"),
        tag("rect", width=f"{filled:.1f}", height=8, class_="fill"),
        class_=f"bar {kind}".strip(),
        preserveAspectRatio="none",
    )


def columns(values: Sequence[float], chosen: Sequence[int], threshold: float, label: str) -> Markup:
    """Draw values from 0 to 1 as columns side by side, some of them in another colour."""
    width, height = 360, 120
    step = width / max(len(values), 1)
    parts: list[Markup] = []
    for index, value in enumerate(values):
        tall = max(2.0, height * min(max(value, 0.0), 1.0))
        place = {"x": f"{index * step + 1:.1f}", "width": f"{max(step - 2, 1):.1f}"}
        kind = "fill chosen" if index in chosen else "fill"
        parts.append(
            tag("rect", **place, y=f"{height - tall:.1f}", height=f"{tall:.1f}", class_=kind)
        )
    needed = f"{height * (1 - threshold):.1f}"
    parts.append(tag("line", x1=0, x2=width, y1=needed, y2=needed, class_="threshold"))
    return _svg(width, height, label, *parts, class_="columns")


def interval(low: float, middle: float, high: float, threshold: float, label: str) -> Markup:
    """Draw a value with its interval on a line from 0 to 1, and the threshold it must reach."""
    width, middle_y, margin = 160, 9, 5

    def x(value: float) -> str:
        return f"{margin + (width - 2 * margin) * min(max(value, 0.0), 1.0):.1f}"

    needed = x(threshold)
    return _svg(
        width,
        18,
        label,
        tag("line", x1=x(0), x2=x(1), y1=middle_y, y2=middle_y, class_="track"),
        tag("line", x1=needed, x2=needed, y1=2, y2=16, class_="threshold"),
        tag("line", x1=x(low), x2=x(high), y1=middle_y, y2=middle_y, class_="range"),
        tag("circle", cx=x(middle), cy=middle_y, r=4, class_="dot"),
        class_="interval" if low >= threshold else "interval short",
    )


def tree(nodes: Sequence[Node], label: str) -> Markup:
    """Draw boxes from left to right, each joined to the one it was made from."""
    places = _places(nodes)
    width = max(x for x, _ in places.values()) + _NODE_WIDTH + 4
    height = max(y for _, y in places.values()) + _NODE_HEIGHT + 4
    edges = [
        _edge(places[each.parent], places[each.key])
        for each in nodes
        if each.parent is not None and each.parent in places
    ]
    boxes = [_box(each, *places[each.key]) for each in nodes]
    size = f"width:{width}px;height:{height}px"
    return _svg(width, height, label, *edges, *boxes, class_="tree", style=size)


def _places(nodes: Sequence[Node]) -> dict[int, tuple[float, float]]:
    """Give every node a column by its depth and a row: the first child stays in its parent's."""
    children: dict[int | None, list[int]] = {}
    known = {each.key for each in nodes}
    for each in nodes:
        children.setdefault(each.parent if each.parent in known else None, []).append(each.key)
    places: dict[int, tuple[float, float]] = {}
    rows = 0
    waiting = [(key, 0, True) for key in reversed(children.get(None, []))]
    while waiting:
        key, depth, opens_row = waiting.pop()
        rows += opens_row
        row = rows - 1
        places[key] = (2 + depth * (_NODE_WIDTH + _GAP_X), 2 + row * (_NODE_HEIGHT + _GAP_Y))
        own = children.get(key, [])
        waiting += [(child, depth + 1, child != own[0]) for child in reversed(own)]
    return places


def _box(node: Node, x: float, y: float) -> Markup:
    inner = _NODE_WIDTH - 20
    shape = {"rx": 8, "class_": "box"}
    parts: list[Markup] = [
        tag("title", node.hint) if node.hint else Markup(),
        tag("rect", x=x, y=y, width=_NODE_WIDTH, height=_NODE_HEIGHT, **shape),
        tag("text", node.title, x=x + 10, y=y + 18, class_="title"),
        tag("text", node.note, x=x + _NODE_WIDTH - 10, y=y + 18, class_="note"),
    ]
    if node.share is not None:
        place = {"x": x + 10, "y": y + 30, "height": 6, "rx": 3}
        parts.append(tag("rect", **place, width=inner, class_="track"))
        parts.append(tag("rect", **place, width=f"{inner * node.share:.1f}", class_="fill"))
    return tag("g", *parts, class_="node chosen" if node.is_chosen else "node")


def _edge(start: tuple[float, float], end: tuple[float, float]) -> Markup:
    x1, y1 = start[0] + _NODE_WIDTH, start[1] + _NODE_HEIGHT / 2
    x2, y2 = end[0], end[1] + _NODE_HEIGHT / 2
    middle = (x1 + x2) / 2
    return tag("path", d=f"M{x1} {y1}C{middle} {y1} {middle} {y2} {x2} {y2}", class_="edge")


def _grid(rows: Sequence[tuple[float, float]], name: str) -> Markup:
    parts = [
        part
        for value, y in rows
        for part in (
            tag("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=f"{y:.1f}", y2=f"{y:.1f}"),
            tag("text", short(value), x=_LEFT - 6, y=f"{y + 4:.1f}", class_="end"),
        )
    ]
    middle = (_TOP + _HEIGHT - _BOTTOM) / 2
    turned = f"rotate(-90 11 {middle})"
    return tag(
        "g",
        *parts,
        tag("text", name, x=11, y=middle, transform=turned, class_="middle name"),
        class_="grid",
    )


def _foot(columns: Sequence[tuple[float, float]], name: str) -> Markup:
    y = _HEIGHT - _BOTTOM + 15
    parts = [tag("text", short(value), x=f"{x:.1f}", y=y, class_="middle") for value, x in columns]
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    return tag(
        "g", *parts, tag("text", name, x=middle, y=_HEIGHT - 4, class_="middle name"), class_="grid"
    )


def _dot(x: float, y: float, radius: float) -> Markup:
    return tag("circle", cx=f"{x:.1f}", cy=f"{y:.1f}", r=radius, class_="mark")


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def _svg(width: float, height: float, label: str, *parts: Markup, **attributes: object) -> Markup:
    box = {"viewBox": f"0 0 {width:g} {height:g}", "role": "img", "aria_label": label}
    return tag("svg", join(parts), **box, **attributes)
