"""Which column of a log counts the steps: what is declared, or else the only one that can be it.

A wrong axis puts points in a wrong order and makes another value the last one, so that nothing is
guessed between columns that disagree.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from telic.errors import TelicError
from telic.studies.evidence.logs import Row
from telic.studies.evidence.statistics import Series

STEP_NAMES = (
    *("step", "global_step", "env_step", "env_steps", "total_timesteps", "timesteps"),
    *("total_steps", "steps", "num_steps", "iteration", "iterations", "iter", "update"),
    *("epoch", "episode"),
)
TIME_NAMES = ("time", "wall_time", "timestamp", "time_elapsed", "elapsed_s", "elapsed")
_MEASURES = (
    *("reward", "return", "rew", "loss", "score", "cost", "penalty", "term", "metric", "success"),
    *("error", "grad", "lr", "entropy", "kl", "value", "advantage", "eval"),
)
"""groups of columns that hold what is measured: reward/step is a reward per step, and no count"""


def to_series(rows: Iterable[Row], declared: str | None = None) -> dict[str, Series]:
    """Return one series per name, in the order of the steps; a repeated step keeps the last value.

    Rows of a log without any column that counts steps are counted; a row that lacks the column
    belongs to the step of the one before. Raises TelicError when columns disagree, or when the
    declared one is not there.
    """
    rows = list(rows)
    axis, clock = step_axis(rows, declared), _exact_or_last(rows, TIME_NAMES)
    points: dict[str, dict[float, tuple[float, float | None]]] = {}
    step: float | str = -1.0
    for place, row in enumerate(rows):
        step = float(place) if axis is None else row.get(axis, step)
        when = row.get(clock) if clock is not None else None
        if not isinstance(step, float) or not math.isfinite(step):
            continue
        for name, value in row.items():
            if isinstance(value, float) and name not in (axis, clock):
                point = (value, when if isinstance(when, float) else None)
                points.setdefault(name, {})[step] = point
    series: dict[str, Series] = {}
    for name, at in points.items():
        steps = tuple(sorted(at))
        values, times = zip(*(at[each] for each in steps), strict=True)
        series[name] = Series(steps, values, times)
    return series


def step_axis(rows: Sequence[Row], declared: str | None = None) -> str | None:
    """Return the column that counts steps; None when no column does.

    A plain name (step, iteration) comes before one in a group (time/total_timesteps); a group of
    measures (reward/step) never counts. Raises TelicError when two groups disagree.
    """
    columns = dict.fromkeys(name for row in rows for name in row)
    if declared is not None:
        if rows and declared not in columns:
            raise TelicError(
                f"The log has no column {declared}, which is declared to count its steps.",
                hint="Correct extractor.step in metric_spec.yaml, or step in the adapter's map.",
            )
        return declared
    plain = [name for name in STEP_NAMES if name in columns]
    if plain:
        return plain[0]
    for name in STEP_NAMES:
        grouped = [each for each in columns if _counts(rows, each, name)]
        if not grouped:
            continue
        if any(_disagree(rows, grouped[0], each) for each in grouped[1:]):
            raise TelicError(
                f"Which column counts the steps: {', '.join(grouped)}? They disagree.",
                hint="Say it in metric_spec.yaml, e.g. extractor: {step: train/step, ...}.",
            )
        return grouped[0]
    return None


def _counts(rows: Sequence[Row], column: str, name: str) -> bool:
    """Say whether a column in a group may be a count of steps: whole numbers, and no measure."""
    group, slash, last = column.rpartition("/")
    if not slash or last != name or _is_measure(group):
        return False
    values = [row[column] for row in rows if column in row]
    return all(isinstance(x, float) and x >= 0 and x.is_integer() for x in values)


def _is_measure(group: str) -> bool:
    words = group.lower().replace("_", "/").replace(".", "/").split("/")
    return any(word.startswith(measure) for word in words for measure in _MEASURES)


def _disagree(rows: Sequence[Row], one: str, other: str) -> bool:
    return any(row[one] != row[other] for row in rows if one in row and other in row) or not any(
        one in row and other in row for row in rows
    )


def _exact_or_last(rows: Sequence[Row], names: Iterable[str]) -> str | None:
    columns = dict.fromkeys(name for row in rows for name in row)
    last = {key.rsplit("/", 1)[-1]: key for key in reversed(list(columns))}
    return next((name if name in columns else last[name] for name in names if name in last), None)
