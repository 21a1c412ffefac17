"""Charts of a study as inline SVG: runs side by side, differences with intervals, shares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from telic.core.pages.charts import short, ticks
from telic.core.pages.markup import Markup, join, tag

_NAME, _WIDTH, _ROW, _FOOT = 190, 860, 34, 26
_RIGHT = 14


class Strip(NamedTuple):
    """One candidate: a dot per run, and its interval."""

    name: str
    values: Sequence[float]
    middle: float | None
    ci: tuple[float, float] | None
    kind: str = ""
    """trusted, good, bad or nothing: the colour"""


class Effect(NamedTuple):
    """One difference from the incumbent."""

    name: str
    delta: float
    ci: tuple[float, float]
    least: float | None
    """what would count"""
    kind: str = ""


class Scale:
    """Places values from left to right of the names."""

    def __init__(self, values: Sequence[float]) -> None:
        self.marks = ticks(min(values), max(values), 6)
        self._low, self._high = self.marks[0], self.marks[-1]

    def x(self, value: float) -> float:
        """Return where a value stands."""
        inside = _WIDTH - _NAME - _RIGHT
        return _NAME + inside * (value - self._low) / (self._high - self._low)


def strips(rows: Sequence[Strip], label: str, target: float | None = None) -> Markup:
    """Draw runs as dots on a common scale, one row a candidate; the target is a dashed line."""
    values = [value for row in rows for value in (*row.values, *(row.ci or ()))]
    scale = Scale([*values, *([target] if target is not None else [])])
    height = len(rows) * _ROW
    parts = [_axis(scale, height)]
    if target is not None:
        parts.append(_vertical(scale.x(target), height, "target", f"target {short(target)}"))
    for place, row in enumerate(rows):
        y = place * _ROW + _ROW / 2
        inside = [_label(row.name, y)]
        if row.ci is not None:
            inside.append(_range(scale.x(row.ci[0]), scale.x(row.ci[1]), y))
        inside += [
            tag(
                "circle",
                tag("title", short(each)),
                cx=_at(scale.x(each)),
                cy=_at(y),
                r=4,
                class_="run",
            )
            for each in row.values
        ]
        if row.middle is not None:
            x = scale.x(row.middle)
            inside.append(tag("path", d=f"M{_at(x)} {_at(y - 9)}v18", class_="middle-mark"))
        parts.append(tag("g", *inside, class_=f"row {row.kind}".strip()))
    return _svg(height, label, parts)


def forest(rows: Sequence[Effect], label: str) -> Markup:
    """Draw differences with their intervals; what lies right of the shaded part counts."""
    values = [value for row in rows for value in (*row.ci, row.delta, row.least or 0.0)]
    scale = Scale([*values, 0.0])
    height = len(rows) * _ROW
    parts = [_axis(scale, height), _vertical(scale.x(0.0), height, "zero", "no difference")]
    for place, row in enumerate(rows):
        y = place * _ROW + _ROW / 2
        inside = [_label(row.name, y)]
        if row.least:
            start, end = scale.x(0.0), scale.x(row.least)
            inside.append(
                tag(
                    "rect",
                    tag("title", f"{short(row.least)} would count"),
                    x=_at(start),
                    y=_at(y - _ROW / 2 + 3),
                    width=_at(end - start),
                    height=_ROW - 6,
                    class_="too-small",
                )
            )
        inside.append(_range(scale.x(row.ci[0]), scale.x(row.ci[1]), y))
        words = f"{row.delta:+.4g} ({short(row.ci[0])} to {short(row.ci[1])})"
        inside.append(
            tag(
                "circle",
                tag("title", words),
                cx=_at(scale.x(row.delta)),
                cy=_at(y),
                r=6,
                class_="delta",
            )
        )
        parts.append(tag("g", *inside, class_=f"row {row.kind}".strip()))
    return _svg(height, label, parts)


def shares(parts: Sequence[tuple[str, float]], label: str) -> Markup:
    """Draw shares of a whole as one stacked bar; pieces are coloured in order."""
    width, height, left = _WIDTH, 22, 0.0
    drawn: list[Markup] = []
    for place, (name, share) in enumerate(parts):
        size = width * share
        drawn.append(
            tag(
                "rect",
                tag("title", f"{name}: {share:.0%}"),
                x=_at(left),
                y=0,
                width=_at(max(size - 2, 0.5)),
                height=height,
                class_=f"piece c{place % 6 + 1}",
            )
        )
        left += size
    box = {"viewBox": f"0 0 {width} {height}", "role": "img", "aria_label": label}
    return tag("svg", join(drawn), **box, class_="shares", preserveAspectRatio="none")


def _axis(scale: Scale, height: float) -> Markup:
    parts: list[Markup] = []
    for value in scale.marks:
        x = _at(scale.x(value))
        parts.append(tag("line", x1=x, x2=x, y1=0, y2=_at(height)))
        parts.append(tag("text", short(value), x=x, y=_at(height + 17), class_="middle"))
    return tag("g", *parts, class_="grid")


def _vertical(x: float, height: float, kind: str, words: str) -> Markup:
    return tag("line", tag("title", words), x1=_at(x), x2=_at(x), y1=0, y2=_at(height), class_=kind)


def _label(name: str, y: float) -> Markup:
    shown = name if len(name) <= 27 else f"{name[:26]}…"
    return tag("text", tag("title", name), shown, x=0, y=_at(y + 4), class_="name")


def _range(start: float, end: float, y: float) -> Markup:
    return tag(
        "rect",
        x=_at(start),
        y=_at(y - 4),
        width=_at(max(end - start, 1.5)),
        height=8,
        rx=4,
        class_="range",
    )


def _at(value: float) -> str:
    return f"{value:.1f}"


def _svg(height: float, label: str, parts: Sequence[Markup]) -> Markup:
    box = {"viewBox": f"0 0 {_WIDTH} {height + _FOOT:g}", "role": "img", "aria_label": label}
    return tag("svg", join(parts), **box, class_="rows")
