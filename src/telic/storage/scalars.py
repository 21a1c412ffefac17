"""Metric series: one JSON line per training iteration or evaluation (`"type": "eval"`).

Every row has "global_step". When a run is resumed, the file is truncated to the step of its saved
state, so that no step is recorded twice.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired

from annotated_types import Len
from typing_extensions import TypedDict  # pydantic requires it before Python 3.12

from telic.errors import BadFile
from telic.storage.files import (
    JsonLines,
    checked_fields,
    plain,
    read_fields,
    read_json_lines,
    write_text,
)

if TYPE_CHECKING:
    import numpy as np

RowKind = Literal["train", "eval", "all"]
_MetricRow = dict[str, Any]
Column = list[float | None]
_REPAIR = "Delete that line. The other lines are intact."


class EvaluationRow(TypedDict):
    """Metrics from the evaluation of a member."""

    global_step: int
    mean_return: NotRequired[float | None]
    interval: NotRequired[Annotated[list[float], Len(2, 2)] | None]
    episodes: NotRequired[int]
    p10_return: NotRequired[float | None]
    median_return: NotRequired[float | None]
    p90_return: NotRequired[float | None]
    env_return: NotRequired[float | None]
    episode_length: NotRequired[float | None]
    terminated_share: NotRequired[float | None]
    reward_terms: NotRequired[dict[str, float | None]]


class _FindingRow(TypedDict):
    """Finding of the health checks of a member."""

    name: NotRequired[str]
    step: NotRequired[int]
    message: str


def read_findings(summary: Path) -> list[_FindingRow]:
    """Return the findings in the summary of a member, which may not exist yet."""
    kind = list[_FindingRow] | None
    return (read_fields(summary, findings=kind)["findings"] or []) if summary.exists() else []


class ScalarLog(JsonLines):
    """Writer of metric rows. The file remains readable after a crash."""

    def append(self, row: Mapping[str, Any]) -> None:
        """Append one row with "global_step". Non-finite numbers become None."""
        if "global_step" not in row:
            raise ValueError(f'a metric row requires "global_step", but only has {sorted(row)}')
        super().append(row)

    def truncate_after(self, global_step: int) -> int:
        """Remove the rows after a step and return their number."""
        rows = read_rows(self.path)
        kept = [row for row in rows if row["global_step"] <= global_step]
        if len(kept) < len(rows):
            self.close()
            lines = [json.dumps(plain(row), separators=(",", ":")) + "\n" for row in kept]
            write_text(self.path, "".join(lines))
            super().__init__(self.path)
        return len(rows) - len(kept)


def read_rows(path: Path, kind: RowKind = "all") -> list[_MetricRow]:
    """Return the rows of a metric file in order, without a truncated last line."""
    rows = [
        row
        for row in read_json_lines(path)
        if kind == "all" or is_evaluation(row) == (kind == "eval")
    ]
    for row in rows:
        if is_evaluation(row):
            checked_fields({"row": row}, str(path), row=EvaluationRow)
        elif not _is_number(row.get("global_step")):
            raise BadFile(f'{path} has a row without "global_step".', hint=_REPAIR)
    return rows


def is_evaluation(row: _MetricRow) -> bool:
    """Return whether a row is from an evaluation instead of a training iteration."""
    return row.get("type") == "eval"


def read_columns(
    path: Path, names: Iterable[str] | None = None, kind: RowKind = "train"
) -> dict[str, Column]:
    """Return series of equal length by name, with None for missing values.

    By default, all names with a number in at least one row are returned.
    """
    return columns_of(read_rows(path, kind), names)


def columns_of(rows: Sequence[_MetricRow], names: Iterable[str] | None = None) -> dict[str, Column]:
    """Return the same series as `read_columns`, from rows in memory."""
    if names is None:
        names = dict.fromkeys(
            name for row in rows for name, value in row.items() if _is_number(value)
        )
    columns = {name: [row.get(name) for row in rows] for name in names}
    return {name: [x if _is_number(x) else None for x in own] for name, own in columns.items()}


def downsample(
    xs: Sequence[float] | np.ndarray, ys: Sequence[float | None] | np.ndarray, points: int
) -> tuple[list[float], list[float]]:
    """Downsample a series to at most `points` points. Its shape and extremes are preserved.

    Missing values are dropped from lists. Arrays must not have any.
    """
    import numpy as np

    if points < 3:
        raise ValueError(f"cannot downsample to {points} points, because the minimum is 3")
    if isinstance(xs, np.ndarray) and isinstance(ys, np.ndarray):
        series = np.stack((xs, ys))
    else:
        known = [(x, y) for x, y in zip(xs, ys, strict=True) if y is not None]
        series = np.array(known, dtype=np.float64).reshape(-1, 2).T
    size = series.shape[1]
    if size > points:  # from each inner bucket, keep the point farthest from its mean
        edges = np.linspace(1, size - 1, points - 1).round().astype(int)
        kept = [
            start + int(np.abs(series[1, start:end] - series[1, start:end].mean()).argmax())
            for start, end in itertools.pairwise(edges.tolist())
        ]
        series = series[:, [0, *kept, size - 1]]
    return series[0].tolist(), series[1].tolist()


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
