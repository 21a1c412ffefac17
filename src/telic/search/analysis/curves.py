"""Reward curves on a common grid of episodes, with bands over runs, as one SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

import numpy as np

from telic.search.environments.task import Floats
from telic.search.records import SearchIteration

_POINTS = 100
_WIDTH, _HEIGHT = 760, 360
_LEFT, _RIGHT, _TOP, _BOTTOM = 72, 24, 40, 50
_COLOURS = ("#0b5cad", "#c2410c", "#15803d", "#7e22ce", "#b91c1c", "#0e7490", "#a16207", "#4d7c0f")


class Curve(NamedTuple):
    """The mean over runs, and a band of one standard deviation."""

    episodes: Floats
    mean: Floats
    spread: Floats


def curve(runs: Sequence[Sequence[SearchIteration]], kind: str = "incumbent") -> Curve:
    """Return the curve of several runs, which need not have tried at the same episodes.

    Args:
        runs: iterations of each run.
        kind: "incumbent", the best policy so far, or "selected", what each iteration chose.
    """
    last = min(run[-1].episodes for run in runs)
    grid = np.linspace(0, last, _POINTS + 1)[1:]
    rows = []
    for run in runs:
        at = np.array([each.episodes for each in run])
        value = np.array(
            [
                each.incumbent_mean if kind == "incumbent" else each.candidate(each.selected).mean
                for each in run
            ]
        )
        # What was known after n episodes is what the latest finished iteration said.
        place = np.searchsorted(at, grid, side="right") - 1
        rows.append(np.where(place >= 0, value[np.maximum(place, 0)], np.nan))
    table = np.array(rows)
    known = ~np.isnan(table).any(0)
    table = table[:, known]
    return Curve(
        grid[known], table.mean(0), table.std(0, ddof=1) if len(rows) > 1 else 0 * table[0]
    )


def draw_curves(title: str, curves: Mapping[str, Curve]) -> str:
    """Return curves as SVG; the labels say where no language model was used."""
    drawn = {label: each for label, each in curves.items() if len(each.episodes)}
    low = min((float((c.mean - c.spread).min()) for c in drawn.values()), default=0.0)
    high = max((float((c.mean + c.spread).max()) for c in drawn.values()), default=1.0)
    high = high if high > low else low + 1.0
    end = max((float(c.episodes[-1]) for c in drawn.values()), default=1.0)
    height = _HEIGHT + 18 * len(drawn)

    def x(value: float) -> float:
        return round(_LEFT + value / end * (_WIDTH - _LEFT - _RIGHT), 1)

    def y(value: float) -> float:
        share = (value - low) / (high - low)
        return round(_HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM), 1)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}"'
        f' height="{height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{height}" fill="#fff"/>',
        f'<text x="{_LEFT}" y="24" font-size="15" font-weight="600">{escape(title)}</text>',
        f'<text x="{_WIDTH // 2}" y="{_HEIGHT - 12}" text-anchor="middle">episodes</text>',
    ]
    for tick in np.linspace(low, high, 5):
        parts += [
            f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y(tick)}" y2="{y(tick)}" '
            'stroke="#e5e7eb"/>',
            f'<text x="{_LEFT - 8}" y="{y(tick) + 4}" text-anchor="end">{tick:.4g}</text>',
        ]
    below = _HEIGHT - _BOTTOM + 18
    parts += [
        f'<text x="{x(tick)}" y="{below}" text-anchor="middle">{tick:.0f}</text>'
        for tick in np.linspace(0, end, 5)
    ]
    for number, (label, item) in enumerate(drawn.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        top, bottom = item.mean + item.spread, item.mean - item.spread
        outline = [
            *zip(item.episodes, top, strict=True),
            *zip(item.episodes[::-1], bottom[::-1], strict=True),
        ]
        band = " ".join(f"{x(a)},{y(b)}" for a, b in outline)
        line = " ".join(f"{x(a)},{y(b)}" for a, b in zip(item.episodes, item.mean, strict=True))
        place = _HEIGHT + 18 * number
        parts += [
            f'<polygon points="{band}" fill="{colour}" opacity="0.15"/>',
            f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>',
            f'<rect x="{_LEFT}" y="{place - 4}" width="22" height="4" fill="{colour}"/>',
            f'<text x="{_LEFT + 30}" y="{place + 2}">{escape(label)}</text>',
        ]
    return "\n".join([*parts, "</svg>"]) + "\n"
