"""Read training logs (JSON, CSV, TensorBoard, text) as numeric series.

Files are only read. Nothing is imported from the target repository and no process is started.
"""

from __future__ import annotations

import csv
import importlib
import math
import re
import statistics
import time
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import compress, pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

from telic.core.text import is_mapping
from telic.errors import MissingExtra, TelicError
from telic.storage.files import read_json
from telic.storage.reading import check_file, files_below, parse_json, read_text
from telic.studies.evidence._statistics import iqm, mean, oriented, pooled

# ---------------------------------------------------------------------------- series

_SLOPE_POINTS = 300
"""maximum length of a series before downsampling, since Theil-Sen compares all pairs"""
_NO_SPREAD = 1e-8
_ATOM = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
"""escaped character or character class of a regular expression"""
_REPEATED_GROUP, _REPEAT = re.compile(r"\)[*+{]"), re.compile(r"[*+]|\{\d*,\d*\}")
_MOST_REPEATS, _LONGEST_LINE, _MATCHING_S = 3, 400, 60.0
"""bounds on a pattern, the characters of a line that it reads, and the time that it takes"""

Aggregate = Literal["mean", "median", "iqm", "last", "auc"]


class Series(NamedTuple):
    """Metric over training, ordered by step."""

    steps: tuple[float, ...]
    values: tuple[float, ...]
    """values as logged, including NaN and infinity, which `finite` drops"""

    def finite(self) -> Series:
        """Return the points with finite values."""
        return self._where([math.isfinite(value) for value in self.values])

    def part(self, start: float, end: float) -> Series:
        """Return the points between two fractions of the steps (0.8 to 1: the last fifth)."""
        if not self.steps:
            return self
        first, width = self.steps[0], self.steps[-1] - self.steps[0]
        low, high = first + start * width, first + end * width if end < 1 else math.inf
        return self._where([low <= step <= high for step in self.steps])

    def _where(self, kept: Sequence[bool]) -> Series:
        return Series(tuple(compress(self.steps, kept)), tuple(compress(self.values, kept)))

    def at(self, step: float) -> float | None:
        """Return the last value logged at or before a step."""
        place = bisect_right(self.steps, step)
        return self.values[place - 1] if place else None

    def ends(self, share: float) -> tuple[float | None, float | None]:
        """Return the mean over the first part and the mean over the last part of the steps."""
        return mean(self.part(0, share).values), mean(self.part(1 - share, 1).values)

    def oriented(self, direction: str) -> Series:
        """Return the series oriented so that larger is better."""
        return self._replace(values=tuple(oriented(value, direction) for value in self.values))


def gain(series: Series, share: float) -> float | None:
    """Return the increase from the first to the last part, in pooled standard deviations.

    Returns None if a part is empty. A spread of zero yields 0 for equal means, else infinity.
    """
    before, after = series.part(0, share).values, series.part(1 - share, 1).values
    if not before or not after:
        return None
    start, end = statistics.fmean(before), statistics.fmean(after)
    width = pooled(before, after)
    if width < _NO_SPREAD:
        return 0.0 if math.isclose(start, end) else math.copysign(math.inf, end - start)
    return (end - start) / width


def slope(series: Series) -> float | None:
    """Return the Theil-Sen slope (median over all pairs), or None for fewer than two steps."""
    from scipy.stats import theilslopes

    stride = max(1, math.ceil(len(series.steps) / _SLOPE_POINTS))
    steps, values = series.steps[::stride], series.values[::stride]
    return float(theilslopes(values, steps).slope) if len(set(steps)) > 1 else None


def aggregate(series: Series, how: Aggregate) -> float | None:
    """Aggregate a series to one number, or None if it has no finite value.

    "auc" is the area under the curve divided by the range of steps, i.e. a mean that does not
    depend on the logging interval.
    """
    steps, values = series.finite()
    if not values:
        return None
    if how == "auc":
        points, width = list(zip(steps, values, strict=True)), steps[-1] - steps[0]
        area = math.fsum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in pairwise(points))
        return area / width if width > 0 else values[-1]
    if how == "last":
        return values[-1]
    return {"mean": mean, "median": statistics.median, "iqm": iqm}[how](values)


# ---------------------------------------------------------------------------- files

_NUMBER = r"[-+]?(?:\d[\d_]*\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|nan|inf)"
_LINE_PATTERN = rf"(?P<key>[A-Za-z_][\w/.]*)\s*[:=|]\s*(?P<value>{_NUMBER})\b"
"""default pattern for text: `name: 1.5`, `name=1.5`, `name | 1.5`"""

Row = Mapping[str, float | str]
"""numbers and strings logged at one time, with nested names joined by a slash"""


def read_rows(kind: str, path: Path, pattern: str | None = None) -> list[Row]:
    """Return the rows of a log file, or of all log files of this kind in a folder.

    Args:
        kind: jsonl, json, csv, tensorboard or regex_stdout.
        path: the file or folder.
        pattern: for regex_stdout: groups `key` and `value`, or groups named like metrics.

    Raises TelicError if no log of this kind exists.
    """
    usual, read = _READERS[kind]
    files = files_below(path, usual) if path.is_dir() else [path] if path.is_file() else []
    if not files:
        raise TelicError(
            f"No {kind} log found at {path}.",
            hint=f"Expected {usual}. Check that the run has ended and that the path is correct.",
        )
    return [row for file in files for row in read(file, pattern)]


def _flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, float | str]:
    """Flatten nested data to one row of numbers and strings, dropping lists and nulls."""
    out: dict[str, float | str] = {}
    for key, part in value.items():
        name = f"{prefix}{key}"
        if is_mapping(part):
            out.update(_flat(part, f"{name}/"))
        elif isinstance(part, str | bool | int | float):
            try:
                out[name] = float(part)
            except ValueError:
                out[name] = str(part)
    return out


def _json_lines(path: Path, _: str | None) -> Iterator[Row]:
    """Yield rows, skipping an incomplete last line. Other malformed lines are errors."""
    lines = read_text(path, errors="replace").split("\n")[:-1]
    for number, line in enumerate(lines, start=1):
        row = parse_json(line, f"{path}, line {number},") if line.strip() else None
        if is_mapping(row):
            yield _flat(row)


def _json(path: Path, _: str | None) -> Iterator[Row]:
    data = read_json(path)
    rows = cast("list[Any]", data) if isinstance(data, list) else [data]
    yield from (_flat(row) for row in rows if is_mapping(row))


def _csv(path: Path, _: str | None) -> Iterator[Row]:
    check_file(path)
    with path.open(newline="", errors="replace") as file:
        for row in csv.DictReader(line for line in file if not line.startswith("#")):
            yield _flat({key: value for key, value in row.items() if key and value})


def _text(path: Path, pattern: str | None) -> Iterator[Row]:
    """Yield one row per block of text. A repeated name starts the next row."""
    plain = _ATOM.sub("x", pattern or "")
    repeats = max(len(_REPEAT.findall(each)) for each in plain.split("|"))
    if _REPEATED_GROUP.search(plain) or repeats > _MOST_REPEATS:
        raise TelicError(
            f'The pattern "{pattern}" may take too long: it repeats a group, or has more than '
            f"{_MOST_REPEATS} repetitions.",
            hint=r"Use alternatives: loss=(?P<loss>\S+)|reward=(?P<reward>\S+).",
        )
    try:
        search = re.compile(pattern or _LINE_PATTERN, re.IGNORECASE)
    except re.error as error:
        raise TelicError(f'The pattern "{pattern}" is not a regular expression: {error}.') from None
    row: dict[str, float | str] = {}
    check_file(path)
    for match in _matches(search, path, _LONGEST_LINE if pattern else None):
        groups = {name: text for name, text in match.groupdict().items() if text is not None}
        key, value = groups.pop("key", None), groups.pop("value", None)
        if key is not None and value is not None:
            groups[key] = value
        if groups.keys() & row.keys():
            yield row
            row = {}
        row.update(_flat(groups))
    if row:
        yield row


def _matches(search: re.Pattern[str], path: Path, longest: int | None) -> Iterator[re.Match[str]]:
    """Yield the matches in the lines of a file, of which at most `longest` characters are read."""
    began = time.monotonic()
    with path.open(errors="replace") as file:
        for line in file:
            if time.monotonic() - began > _MATCHING_S:
                raise TelicError(f'The pattern "{search.pattern}" takes too long to read {path}.')
            yield from search.finditer(line[:longest])


def _tensorboard(path: Path, _: str | None) -> Iterator[Row]:
    """Yield one row of scalars per event, skipping an incomplete last record."""
    try:
        events = importlib.import_module("tensorboard.compat.proto.event_pb2")
        tensors = importlib.import_module("tensorboard.util.tensor_util")
        errors = importlib.import_module("tensorboard.compat.tensorflow_stub.errors")
        stub = importlib.import_module("tensorboard.compat.tensorflow_stub.pywrap_tensorflow")
    except ImportError:
        raise MissingExtra("tensorboard", "tensorboard", "Reading TensorBoard logs") from None
    reader = stub.PyRecordReader_New(str(path))
    while True:
        try:
            reader.GetNext()
        except errors.OutOfRangeError:
            return
        except errors.DataLossError as error:
            if "truncated" in str(error):
                return
            raise TelicError(f"{path} is corrupted: a checksum does not match.") from None
        event = events.Event.FromString(reader.record())
        row: dict[str, float | str] = {}
        for value in event.summary.value:
            if value.HasField("simple_value"):
                row[value.tag] = float(value.simple_value)
            elif value.HasField("tensor") and value.tensor.dtype in (1, 2):  # float, double
                tensor = tensors.make_ndarray(value.tensor)
                if tensor.size == 1:
                    row[value.tag] = float(tensor.item())
        if row:
            yield {"step": float(event.step), "time": float(event.wall_time), **row}


_READERS = {
    "jsonl": ("*.jsonl", _json_lines),
    "json": ("*.json", _json),
    "csv": ("*.csv", _csv),
    "tensorboard": ("*tfevents*", _tensorboard),
    "regex_stdout": ("*.log", _text),
}
"""log kind -> (usual file name, reader)"""


# ---------------------------------------------------------------------------- the step axis
# A wrong axis reorders points and changes the last value, so inconsistent step columns are
# refused.

_STEP_NAMES = (
    *("step", "global_step", "env_step", "env_steps", "total_timesteps", "timesteps"),
    *("total_steps", "steps", "num_steps", "iteration", "iterations", "iter", "update"),
    *("epoch", "episode"),
)
_MEASURES = (
    *("reward", "return", "rew", "loss", "score", "cost", "penalty", "term", "metric", "success"),
    *("error", "grad", "lr", "entropy", "kl", "value", "advantage", "eval"),
)
"""groups of measurements: reward/step is a reward per step, not a counter"""


def to_series(rows: Iterable[Row], declared: str | None = None) -> dict[str, Series]:
    """Return one series per name, ordered by step. The last value of a repeated step is kept.

    Without a step column, rows are numbered. A row that lacks the column belongs to the previous
    step. Raises TelicError if step columns disagree or the declared column is missing.
    """
    rows = list(rows)
    axis = step_axis(rows, declared)
    points: dict[str, dict[float, float]] = {}
    step: float | str = -1.0
    for place, row in enumerate(rows):
        step = float(place) if axis is None else row.get(axis, step)
        if not isinstance(step, float) or not math.isfinite(step):
            continue
        for name, value in row.items():
            if isinstance(value, float) and name != axis:
                points.setdefault(name, {})[step] = value
    return {
        name: Series(*zip(*sorted(at.items()), strict=True))  # pyrefly: ignore[bad-argument-type]
        for name, at in points.items()
    }


def step_axis(rows: Sequence[Row], declared: str | None = None) -> str | None:
    """Return the name of the step column, or None if the log has no such column.

    A plain name (step, iteration) has priority over one in a group (time/total_timesteps). Groups
    of measurements (reward/step) are ignored. Raises TelicError if two groups disagree.
    """
    columns: dict[str, list[float | str]] = {}
    for name, value in (item for row in rows for item in row.items()):
        columns.setdefault(name, []).append(value)
    if declared is not None:
        if rows and declared not in columns:
            raise TelicError(
                f"The declared step column, {declared}, is not in the log.",
                hint="Fix extractor.step in metric_spec.yaml, or step in the adapter's metrics.",
            )
        return declared
    if plain := next((name for name in _STEP_NAMES if name in columns), None):
        return plain
    grouped: dict[str, list[str]] = {}
    for column, values in columns.items():
        group, _, last = column.rpartition("/")
        is_measure = any(x.startswith(_MEASURES) for x in re.split(r"[/_.]", group.lower()))
        if not is_measure and all(isinstance(x, float) and x >= 0 and x % 1 == 0 for x in values):
            grouped.setdefault(last, []).append(column)
    found = next((grouped[name] for name in _STEP_NAMES if name in grouped), [None])
    for other in found[1:]:
        both = [row for row in rows if found[0] in row and other in row]
        if not both or any(row[str(found[0])] != row[str(other)] for row in both):
            raise TelicError(
                f"Several columns could be the step but disagree: {', '.join(map(str, found))}.",
                hint="Set it in metric_spec.yaml, e.g. extractor: {step: train/step, ...}.",
            )
    return found[0]
