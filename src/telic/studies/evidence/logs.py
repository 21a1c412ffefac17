"""Metrics out of whatever a training run logs: JSON, CSV, TensorBoard, W&B offline, text.

Files are only read: nothing is imported from the target repository and nothing is started.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from telic.errors import TelicError, UnknownName
from telic.storage.files import read_json
from telic.studies.evidence.binary_logs import read_event_file, read_log, read_offline_run
from telic.studies.evidence.series import Row, Series, flat, is_object, to_series

_NUMBER = r"[-+]?(?:\d[\d_]*\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|nan|inf)"
LINE_PATTERN = rf"(?P<key>[A-Za-z_][\w/.]*)\s*[:=|]\s*(?P<value>{_NUMBER})\b"
"""what is found in text when no pattern is given: `name: 1.5`, `name=1.5`, `name | 1.5`"""


def read_rows(kind: str, path: Path, pattern: str | None = None) -> list[Row]:
    """Return the rows of a file or a folder, files in the order of their names.

    Args:
        kind: jsonl, json, csv, tensorboard, wandb_offline or regex_stdout.
        path: the file; for a folder, everything in it that has the kind's usual name.
        pattern: for regex_stdout: groups `key` and `value`, or groups named like metrics.

    Raises TelicError when there is nothing to read, and names what was looked for.
    """
    reader = _READERS.get(kind)
    if kind == "python_file":
        raise TelicError(
            "Extractors written in Python are not run: reading evidence starts no process.",
            hint="Let the evaluation write JSON lines, and name that file in the metric spec.",
        )
    if reader is None:
        raise UnknownName("kind of log", kind, list(_READERS))
    if kind == "wandb_offline" and path.is_dir():
        return read_offline_run(path)
    files = sorted(path.rglob(_NAMES[kind])) if path.is_dir() else [path]
    files = [each for each in files if each.is_file()]
    if not files:
        raise TelicError(
            f"There is no {kind} log at {path}.",
            hint=f"Looked for {_NAMES[kind]}. Has the run ended, and is the path right?",
        )
    return [row for each in files for row in reader(each, pattern)]


def read_series(kind: str, path: Path, pattern: str | None = None) -> dict[str, Series]:
    """Return one series per logged name."""
    return to_series(read_rows(kind, path, pattern))


def renamed(series: Mapping[str, Series], names: Mapping[str, str]) -> dict[str, Series]:
    """Return the series with canonical names added, by the adapter's map {canonical: logged}."""
    found = {ours: series[theirs] for ours, theirs in names.items() if theirs in series}
    return {**series, **found}


def _json_lines(path: Path, _: str | None) -> Iterator[Row]:
    """Yield rows; a torn last line is left out, a bad one before it is an error."""
    lines = path.read_text(errors="replace").split("\n")
    for number, line in enumerate(lines[:-1], start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError:
            raise TelicError(f"{path}, line {number}, is not JSON.") from None
        if is_object(row):
            yield flat(row)


def _json(path: Path, _: str | None) -> Iterator[Row]:
    """Yield rows of a list of objects, or of one object; columns of equal length become rows."""
    data = read_json(path)
    rows = cast("list[Any]", data) if isinstance(data, list) else []
    if is_object(data):
        columns = {key: cast("list[Any]", each) for key, each in data.items() if type(each) is list}
        if columns and len(columns) == len(data) and len({len(c) for c in columns.values()}) == 1:
            whole = zip(*columns.values(), strict=True)
            rows = [dict(zip(columns, row, strict=True)) for row in whole]
        else:
            rows = [data]
    for row in rows:
        if is_object(row):
            yield flat(row)


def _csv(path: Path, _: str | None) -> Iterator[Row]:
    with path.open(newline="", errors="replace") as file:
        lines = (line for line in file if not line.startswith("#"))
        for row in csv.DictReader(lines):
            yield flat({key: each for key, each in row.items() if key and each})


def _text(path: Path, pattern: str | None) -> Iterator[Row]:
    try:
        search = re.compile(pattern or LINE_PATTERN, re.IGNORECASE)
    except re.error as error:
        raise TelicError(f'The pattern "{pattern}" is not a regular expression: {error}.') from None
    with path.open(errors="replace") as file:
        yield from _text_rows(file, search)


def _text_rows(lines: Iterable[str], search: re.Pattern[str]) -> Iterator[Row]:
    """Yield one row per block: a name that comes again begins the next row."""
    row: dict[str, float | str] = {}
    for line in lines:
        for found in search.finditer(line):
            groups = {name: each for name, each in found.groupdict().items() if each is not None}
            key, value = groups.pop("key", None), groups.pop("value", None)
            if key is not None and value is not None:
                groups[key] = value
            if groups.keys() & row.keys():
                yield row
                row = {}
            row.update(flat(groups))
    if row:
        yield row


_READERS: dict[str, Callable[[Path, str | None], Iterator[Row]]] = {
    "jsonl": _json_lines,
    "json": _json,
    "csv": _csv,
    "tensorboard": lambda path, _: read_event_file(path),
    "wandb_offline": lambda path, _: read_log(path),
    "regex_stdout": _text,
}
_NAMES = {
    "jsonl": "*.jsonl",
    "json": "*.json",
    "csv": "*.csv",
    "tensorboard": "*tfevents*",
    "wandb_offline": "*.wandb",
    "regex_stdout": "*.log",
}
