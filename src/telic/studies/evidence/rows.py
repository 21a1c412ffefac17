"""Rows of logged numbers, whatever they were logged with, and the series they make."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any, Literal

from telic.studies.evidence.series import Series

Row = Mapping[str, float | str]
"""numbers and words of one point in time; nested names are joined by a slash"""

STEP_NAMES = (
    "step",
    "global_step",
    "env_step",
    "env_steps",
    "total_timesteps",
    "timesteps",
    "total_steps",
    "steps",
    "num_steps",
    "iteration",
    "iterations",
    "iter",
    "update",
    "epoch",
    "episode",
)
TIME_NAMES = ("time", "wall_time", "timestamp", "time_elapsed", "elapsed_s", "elapsed")

Aggregate = Literal["mean", "median", "iqm", "last", "auc"]


def flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, float | str]:
    """Return nested data as one row: numbers and texts; lists and missing values are left out."""
    out: dict[str, float | str] = {}
    for key, each in value.items():
        name = f"{prefix}{key}"
        if isinstance(each, Mapping):
            out.update(flat(each, f"{name}/"))
        elif isinstance(each, str):
            out[name] = _number(each)
        elif isinstance(each, bool | int | float):
            out[name] = float(each)
    return out


def _number(text: str) -> float | str:
    """Return a text as the number it writes, NaN and infinity included, else the text itself."""
    try:
        return float(text)
    except ValueError:
        return text


def to_series(rows: Iterable[Row]) -> dict[str, Series]:
    """Return one series per name, in the order of the steps; a repeated step keeps the last value.

    The step is the first of `STEP_NAMES` that a row has, also at the end of a longer name
    ("time/total_timesteps"); rows without one are counted.
    """
    points: dict[str, dict[float, tuple[float, float | None]]] = {}
    for place, row in enumerate(rows):
        step_name, time_name = _find(row, STEP_NAMES), _find(row, TIME_NAMES)
        step = row[step_name] if step_name else float(place)
        when = row[time_name] if time_name else None
        if not isinstance(step, float) or not math.isfinite(step):
            continue
        for name, value in row.items():
            if isinstance(value, float) and name not in (step_name, time_name):
                found = when if isinstance(when, float) else None
                points.setdefault(name, {})[step] = (value, found)
    return {name: _ordered(each) for name, each in points.items()}


def _ordered(points: Mapping[float, tuple[float, float | None]]) -> Series:
    steps = tuple(sorted(points))
    return Series(
        steps, tuple(points[step][0] for step in steps), tuple(points[step][1] for step in steps)
    )


def _find(row: Row, names: Iterable[str]) -> str | None:
    last = {key.rsplit("/", 1)[-1]: key for key in reversed(list(row))}
    for name in names:
        if name in row:
            return name
        if name in last:
            return last[name]
    return None


def aggregate(series: Series, how: Aggregate) -> float | None:
    """Return one number for a series; None when it has no finite value.

    "auc" is the area under the values over steps, divided by the range of steps: a mean that
    does not depend on how densely was logged.
    """
    steps, values, _ = series.finite()
    if not values:
        return None
    match how:
        case "mean":
            return math.fsum(values) / len(values)
        case "median":
            return statistics.median(values)
        case "last":
            return values[-1]
        case "iqm":
            ordered = sorted(values)
            cut = len(ordered) // 4
            middle = ordered[cut : len(ordered) - cut]
            return math.fsum(middle) / len(middle)
        case "auc":
            points = list(zip(steps, values, strict=True))
            width = steps[-1] - steps[0]
            if width <= 0:
                return values[-1]
            area = math.fsum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in pairwise(points))
            return area / width
