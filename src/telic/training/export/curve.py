"""The learning curve as one small SVG: training returns, and evaluations with their intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

from telic.storage.scalars import downsample

_WIDTH, _HEIGHT = 760, 340
_LEFT, _RIGHT, _TOP, _BOTTOM = 72, 24, 60, 50
_POINTS = 300
_SLACK = 0.03
"""share of a tick by which data may stick out: 2,010 does not need an axis up to 2,500"""
_STYLE = """
  text { font: 12px system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; fill: #57606a }
  .title { font-size: 15px; font-weight: 600; fill: #1f2328 }
  .best { font-weight: 600; fill: #1f2328; stroke: #ffffff; stroke-width: 5; paint-order: stroke }
  .paper { fill: #ffffff }
  .grid { stroke: #eaeef2 } .axis { stroke: #afb8c1 }
  .train { fill: none; stroke: #8fb8de; stroke-width: 1.5; stroke-linejoin: round }
  .eval { fill: none; stroke: #0b5cad; stroke-width: 2; stroke-linejoin: round }
  .whisker { stroke: #0b5cad; stroke-width: 1.5 }
  .dot { fill: #0b5cad; stroke: #ffffff; stroke-width: 1.5 }
  @media (prefers-color-scheme: dark) {
    text { fill: #9198a1 } .title, .best { fill: #f0f6fc } .best { stroke: #0d1117 }
    .paper { fill: #0d1117 }
    .grid { stroke: #21262d } .axis { stroke: #3d444d }
    .train { stroke: #2f5f8f } .eval, .whisker { stroke: #6cb6ff }
    .dot { fill: #6cb6ff; stroke: #0d1117 }
  }
"""


class _Axis(NamedTuple):
    """Maps values to pixels."""

    low: float
    high: float
    start: float
    end: float
    ticks: list[float]

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 1)


def learning_curve(
    train: Mapping[str, Sequence[float | None]],
    evaluations: Sequence[Mapping[str, Any]],
    title: str,
) -> str | None:
    """Return the picture; None when nothing was measured.

    Args:
        train: the columns "global_step" and "episodic_return".
        evaluations: rows with global_step, mean_return and interval.
        title: the line above it.
    """
    xs, ys = downsample(
        [float(x or 0) for x in train["global_step"]], train["episodic_return"], _POINTS
    )
    points = [each for each in evaluations if each["mean_return"] is not None]
    if not xs and not points:
        return None
    bounds = [y for each in points for y in (each["interval"] or [each["mean_return"]])]
    steps = [float(each["global_step"]) for each in points]
    across = _axis(0.0, max([*xs, *steps]), _LEFT, _WIDTH - _RIGHT, exact=True)
    up = _axis(min([*ys, *bounds]), max([*ys, *bounds]), _HEIGHT - _BOTTOM, _TOP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'width="{_WIDTH}" height="{_HEIGHT}" role="img" aria-label="{_attribute(title)}">',
        f"<style>{_STYLE}</style>",
        f'<rect class="paper" width="{_WIDTH}" height="{_HEIGHT}" rx="8"/>',
        f'<text class="title" x="{_LEFT}" y="26">{escape(title)}</text>',
        *_frame(across, up),
        *_series(xs, ys, across, up),
        *_evaluations(points, across, up),
        *_legend(bool(xs), bool(points)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _axis(low: float, high: float, start: float, end: float, *, exact: bool = False) -> _Axis:
    """Choose round ticks; an exact axis ends with its data, another one with a tick."""
    if high <= low:
        low, high = low - abs(low) * 0.1 - 1.0, high + abs(high) * 0.1 + 1.0
    raw = (high - low) / 5.0
    unit = 10.0 ** math.floor(math.log10(raw))
    size = unit * min((m for m in (1.0, 2.0, 2.5, 5.0, 10.0) if m * unit >= raw), default=10.0)
    first = math.floor(low / size + _SLACK)
    last = math.floor(high / size + 1e-9) if exact else math.ceil(high / size - _SLACK)
    ticks = [index * size for index in range(first, last + 1)]
    if not exact:
        low, high = ticks[0], ticks[-1]
    return _Axis(low, high, start, end, ticks)


def _frame(across: _Axis, up: _Axis) -> list[str]:
    left, right, bottom = across.start, across.end, up.start
    parts: list[str] = []
    for tick in up.ticks:
        y = up(tick)
        kind = "axis" if y == bottom else "grid"
        parts.append(f'<line class="{kind}" x1="{left}" y1="{y}" x2="{right}" y2="{y}"/>')
        parts.append(f'<text x="{left - 10}" y="{y + 4}" text-anchor="end">{_short(tick)}</text>')
    for tick in across.ticks:
        x = across(tick)
        parts.append(f'<line class="axis" x1="{x}" y1="{bottom}" x2="{x}" y2="{bottom + 4}"/>')
        parts.append(f'<text x="{x}" y="{bottom + 19}" text-anchor="middle">{_short(tick)}</text>')
    middle = (left + right) / 2
    parts.append(
        f'<text x="{middle}" y="{_HEIGHT - 10}" text-anchor="middle">environment steps</text>'
    )
    return parts


def _series(xs: Sequence[float], ys: Sequence[float], across: _Axis, up: _Axis) -> list[str]:
    if not xs:
        return []
    line = " ".join(f"{across(x)},{up(y)}" for x, y in zip(xs, ys, strict=True))
    return [f'<polyline class="train" points="{line}"/>']


def _evaluations(points: Sequence[Mapping[str, Any]], across: _Axis, up: _Axis) -> list[str]:
    if not points:
        return []
    places = [(across(each["global_step"]), up(each["mean_return"])) for each in points]
    parts = [f'<polyline class="eval" points="{" ".join(f"{x},{y}" for x, y in places)}"/>']
    for each, (x, y) in zip(points, places, strict=True):
        if each["interval"]:
            low, high = (up(bound) for bound in each["interval"])
            parts.append(f'<line class="whisker" x1="{x}" y1="{low}" x2="{x}" y2="{high}"/>')
            parts += [
                f'<line class="whisker" x1="{x - 4}" y1="{end}" x2="{x + 4}" y2="{end}"/>'
                for end in (low, high)
            ]
        parts.append(f'<circle class="dot" cx="{x}" cy="{y}" r="4.5"/>')
    best = max(range(len(points)), key=lambda index: points[index]["mean_return"])
    (x, _), mean = places[best], points[best]["mean_return"]
    top = up(max(points[best]["interval"] or [mean]))
    at_right = x > (across.start + across.end) / 2
    place = f'x="{x + 5}" text-anchor="end"' if at_right else f'x="{x - 5}"'
    parts.append(f'<text class="best" {place} y="{top - 10}">{_number(mean)}</text>')
    return parts


def _legend(has_train: bool, has_evaluations: bool) -> list[str]:
    parts: list[str] = []
    x = _LEFT
    if has_evaluations:
        parts.append(f'<line class="eval" x1="{x}" y1="43" x2="{x + 22}" y2="43"/>')
        parts.append(f'<circle class="dot" cx="{x + 11}" cy="43" r="4"/>')
        parts.append(f'<text x="{x + 30}" y="47">evaluation on fresh seeds, 95 % interval</text>')
        x += 290
    if has_train:
        parts.append(f'<line class="train" x1="{x}" y1="43" x2="{x + 22}" y2="43"/>')
        parts.append(f'<text x="{x + 30}" y="47">training, with exploration noise</text>')
    return parts


def _short(value: float) -> str:
    """Write a tick: 250k, 1.5M."""
    for least, unit, suffix in ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if abs(value) >= least:
            return f"{value / unit:g}{suffix}".replace("-", "\N{MINUS SIGN}")
    return _number(value)


def _number(value: float) -> str:
    text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return text.replace("-", "\N{MINUS SIGN}")


def _attribute(text: str) -> str:
    return escape(text, {'"': "&quot;"})
