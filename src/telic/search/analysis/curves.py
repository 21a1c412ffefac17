"""Reward curves on a common grid of episodes, with bands over runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from telic.report.charts import ChartLine, LineChart, Point
from telic.report.svg import picture
from telic.search.environments.task import Floats
from telic.search.records import SearchIteration

_POINTS = 100


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
        at = np.array([iteration.episodes for iteration in run])
        value = np.array([_mean(iteration, kind) for iteration in run])
        # What was known after n episodes is what the latest finished iteration said.
        place = np.searchsorted(at, grid, side="right") - 1
        rows.append(np.where(place >= 0, value[np.maximum(place, 0)], np.nan))
    table = np.array(rows)
    known = ~np.isnan(table).any(0)
    table = table[:, known]
    return Curve(
        grid[known], table.mean(0), table.std(0, ddof=1) if len(rows) > 1 else 0 * table[0]
    )


def _mean(iteration: SearchIteration, kind: str) -> float:
    if kind == "incumbent":
        return iteration.incumbent_mean
    return iteration.candidate(iteration.selected).mean


def line_chart(label: str, curves: Mapping[str, Curve]) -> LineChart:
    """Return curves as a chart; the names say where no language model was used."""
    lines = [
        ChartLine(
            name,
            [
                Point(x, mean, mean - spread, mean + spread)
                for x, mean, spread in zip(*map(np.ndarray.tolist, each), strict=True)
            ],
        )
        for name, each in curves.items()
        if len(each.episodes)
    ]
    return LineChart(label, tuple(lines), "episodes", "return", from_zero=True)


def draw_curves(title: str, curves: Mapping[str, Curve]) -> str:
    """Return curves as a picture."""
    return picture(line_chart(title, curves), title)
