"""Read what a training run logs, JSON, CSV, TensorBoard or text, and make series of it.

Files are only read: nothing is imported from the target repository and nothing is started.
"""

from __future__ import annotations

import csv
import importlib
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeGuard, cast

from telic.errors import MissingExtra, TelicError, UnknownName
from telic.storage.files import read_json
from telic.storage.reading import check_file, files_below, parse_json, read_text
from telic.studies.evidence.statistics import Series

_NUMBER = r"[-+]?(?:\d[\d_]*\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|nan|inf)"
LINE_PATTERN = rf"(?P<key>[A-Za-z_][\w/.]*)\s*[:=|]\s*(?P<value>{_NUMBER})\b"
"""default pattern for text: `name: 1.5`, `name=1.5`, `name | 1.5`"""

Row = Mapping[str, float | str]
"""numbers and words of one point in time; nested names are joined by a slash"""


def read_rows(kind: str, path: Path, pattern: str | None = None) -> list[Row]:
    """Return the rows of a file or a folder, files in the order of their names.

    Args:
        kind: jsonl, json, csv, tensorboard or regex_stdout.
        path: the file; for a folder, everything in it that has the kind's usual name.
        pattern: for regex_stdout: groups `key` and `value`, or groups named like metrics.

    Raises TelicError when there is nothing to read, and names what was searched for.
    """
    if kind == "python_file":
        raise TelicError(
            "Extractors written in Python are not run: reading evidence starts no process.",
            hint="Let the evaluation write JSON lines, and name that file in the metric spec.",
        )
    if kind == "wandb_offline":
        raise TelicError(
            "Binary logs of Weights & Biases are not read.",
            hint="Export the history as JSON lines or CSV, and set extractor.kind to jsonl or csv.",
        )
    if kind not in _KINDS:
        raise UnknownName("kind of log", kind, list(_KINDS))
    usual, read = _KINDS[kind]
    files = files_below(path, usual) if path.is_dir() else [path] if path.is_file() else []
    if not files:
        raise TelicError(
            f"There is no {kind} log at {path}.",
            hint=f"Looked for {usual}. Has the run ended, and is the path right?",
        )
    return [row for file in files for row in read(file, pattern)]


def _is_object(value: Any) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(value, Mapping)


def _flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, float | str]:
    """Return nested data as one row: numbers and texts; lists and missing values are left out."""
    out: dict[str, float | str] = {}
    for key, part in value.items():
        name = f"{prefix}{key}"
        if _is_object(part):
            out.update(_flat(part, f"{name}/"))
        elif isinstance(part, str):
            try:
                out[name] = float(part)
            except ValueError:
                out[name] = part
        elif isinstance(part, bool | int | float):
            out[name] = float(part)
    return out


def _json_lines(path: Path, _: str | None) -> Iterator[Row]:
    """Yield rows; an incomplete last line is left out, a bad one before it is an error."""
    lines = read_text(path, errors="replace").split("\n")[:-1]
    for number, line in enumerate(lines, start=1):
        row = parse_json(line, f"{path}, line {number},") if line.strip() else None
        if _is_object(row):
            yield _flat(row)


def _json(path: Path, _: str | None) -> Iterator[Row]:
    """Yield rows of a list of objects, or of one object; columns of equal length become rows."""
    data = read_json(path)
    rows = cast("list[Any]", data) if isinstance(data, list) else []
    if _is_object(data):
        columns = [cast("list[Any]", column) for column in data.values() if type(column) is list]
        rows = [data]
        if columns and len(columns) == len(data) and len({len(column) for column in columns}) == 1:
            rows = [dict(zip(data, row, strict=True)) for row in zip(*columns, strict=True)]
    yield from (_flat(row) for row in rows if _is_object(row))


def _csv(path: Path, _: str | None) -> Iterator[Row]:
    check_file(path)
    with path.open(newline="", errors="replace") as file:
        for row in csv.DictReader(line for line in file if not line.startswith("#")):
            yield _flat({key: value for key, value in row.items() if key and value})


def _text(path: Path, pattern: str | None) -> Iterator[Row]:
    """Yield one row per block: a repeated name begins the next row."""
    try:
        search = re.compile(pattern or LINE_PATTERN, re.IGNORECASE)
    except re.error as error:
        raise TelicError(f'The pattern "{pattern}" is not a regular expression: {error}.') from None
    row: dict[str, float | str] = {}
    check_file(path)
    with path.open(errors="replace") as file:
        for match in (match for line in file for match in search.finditer(line)):
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


def _tensorboard(path: Path, _: str | None) -> Iterator[Row]:
    """Yield one row per event with its scalars; an incomplete last record is left out."""
    try:
        events = importlib.import_module("tensorboard.compat.proto.event_pb2")
        tensors = importlib.import_module("tensorboard.util.tensor_util")
    except ImportError:
        raise MissingExtra("tensorboard", "tensorboard", "Reading TensorBoard logs") from None
    for record in _event_records(path):
        event = events.Event.FromString(record)
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


def _event_records(path: Path) -> Iterator[bytes]:
    errors = importlib.import_module("tensorboard.compat.tensorflow_stub.errors")
    stub = importlib.import_module("tensorboard.compat.tensorflow_stub.pywrap_tensorflow")
    reader = stub.PyRecordReader_New(str(path))
    while True:
        try:
            reader.GetNext()
        except errors.OutOfRangeError:
            return
        except errors.DataLossError as error:
            if "truncated" in str(error):
                return
            raise TelicError(f"{path} is damaged: a checksum does not match.") from None
        yield reader.record()


_KINDS: dict[str, tuple[str, Callable[[Path, str | None], Iterator[Row]]]] = {
    "jsonl": ("*.jsonl", _json_lines),
    "json": ("*.json", _json),
    "csv": ("*.csv", _csv),
    "tensorboard": ("*tfevents*", _tensorboard),
    "regex_stdout": ("*.log", _text),
}
"""by kind of log: the usual name of its files, and how one is read"""


# ---------------------------------------------------------------------------- the step axis
# A wrong axis reorders points and makes another value the last one, so that nothing is guessed
# between columns that disagree.

_STEP_NAMES = (
    *("step", "global_step", "env_step", "env_steps", "total_timesteps", "timesteps"),
    *("total_steps", "steps", "num_steps", "iteration", "iterations", "iter", "update"),
    *("epoch", "episode"),
)
_TIME_NAMES = ("time", "wall_time", "timestamp", "time_elapsed", "elapsed_s", "elapsed")
_MEASURES = (
    *("reward", "return", "rew", "loss", "score", "cost", "penalty", "term", "metric", "success"),
    *("error", "grad", "lr", "entropy", "kl", "value", "advantage", "eval"),
)
"""groups whose columns hold measurements: reward/step is a reward per step, not a count"""


def to_series(rows: Iterable[Row], declared: str | None = None) -> dict[str, Series]:
    """Return one series per name, ordered by step; a repeated step keeps the last value.

    Rows of a log without any column that counts steps are counted; a row that lacks the column
    belongs to the step of the one before. Raises TelicError when columns disagree, or when the
    declared one is missing.
    """
    rows = list(rows)
    axis, clock = step_axis(rows, declared), _time_column(rows)
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
    measurements (reward/step) never counts. Raises TelicError when two groups disagree.
    """
    columns = dict.fromkeys(name for row in rows for name in row)
    if declared is not None:
        if rows and declared not in columns:
            raise TelicError(
                f"The log has no column {declared}, which is declared to count its steps.",
                hint="Correct extractor.step in metric_spec.yaml, or step in the adapter's map.",
            )
        return declared
    for name in _STEP_NAMES:
        if name in columns:
            return name
    for name in _STEP_NAMES:
        grouped = [each for each in columns if _counts(rows, each, name)]
        if not grouped:
            continue
        if any(_disagree(rows, grouped[0], each) for each in grouped[1:]):
            raise TelicError(
                f"Which column counts the steps: {', '.join(grouped)}? They disagree.",
                hint="Set it in metric_spec.yaml, e.g. extractor: {step: train/step, ...}.",
            )
        return grouped[0]
    return None


def _counts(rows: Sequence[Row], column: str, name: str) -> bool:
    """Return whether a grouped column may count steps: whole numbers, not a measurement."""
    group, slash, last = column.rpartition("/")
    words = re.split(r"[/_.]", group.lower())
    if not slash or last != name or any(word.startswith(_MEASURES) for word in words):
        return False
    values = [row[column] for row in rows if column in row]
    return all(isinstance(x, float) and x >= 0 and x.is_integer() for x in values)


def _disagree(rows: Sequence[Row], one: str, other: str) -> bool:
    both = [row for row in rows if one in row and other in row]
    return not both or any(row[one] != row[other] for row in both)


def _time_column(rows: Sequence[Row]) -> str | None:
    columns = dict.fromkeys(name for row in rows for name in row)
    last = {key.rsplit("/", 1)[-1]: key for key in reversed(list(columns))}
    return next(
        (name if name in columns else last[name] for name in _TIME_NAMES if name in last), None
    )
