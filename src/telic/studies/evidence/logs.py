"""Metrics out of whatever a training run logs: JSON, CSV, TensorBoard, W&B offline, text.

Files are only read: nothing is imported from the target repository and nothing is started. Binary
logs are read with the standard library alone; neither tool's package is needed.
"""

from __future__ import annotations

import csv
import json
import math
import re
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

from telic.errors import TelicError, UnknownName
from telic.storage.files import read_json, read_json_lines
from telic.storage.scalars import masked_crc
from telic.studies.evidence.series import Row, Series, flat, is_object

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


# ---------------------------------------------------------------------------- TensorBoard

# Framing and fields are those of `telic.storage.scalars`; beside `simple_value` (field 2) the
# newer form is read, in which a scalar is a tensor (Value field 8) of one float or double.

_CHECKED_BYTES = 65_536
"""records up to this size have their checksum recomputed; larger ones are pictures"""


def read_event_file(path: Path) -> Iterator[Row]:
    """Yield one row per event with its scalars; an unfinished last record is left out.

    Raises TelicError that names the place when a record in the middle is damaged.
    """
    for record in _event_records(path):
        yield from _row(record)


def _event_records(path: Path) -> Iterator[bytes]:
    data, place = path.read_bytes(), 0
    while place + 12 <= len(data):
        head = data[place : place + 8]
        (size,) = struct.unpack("<Q", head)
        if masked_crc(head) != data[place + 8 : place + 12]:
            raise TelicError(f"{path} is damaged at byte {place}: the length does not check out.")
        end = place + 12 + size
        if end + 4 > len(data):
            return
        record = data[place + 12 : end]
        if size <= _CHECKED_BYTES and masked_crc(record) != data[end : end + 4]:
            raise TelicError(f"{path} is damaged at byte {place}: the record does not check out.")
        yield record
        place = end + 4


def _row(event: bytes) -> Iterator[Row]:
    step, wall_time, scalars = 0, None, {}
    for field in fields(event):
        if field.number == 1:
            wall_time = field.number_value
        elif field.number == 2:
            step = field.whole
        elif field.number == 5:
            scalars = _scalars(field.content)
    if scalars:
        yield {"step": float(step), **({"time": wall_time} if wall_time else {}), **scalars}


def _scalars(summary: bytes) -> dict[str, float]:
    out: dict[str, float] = {}
    for value in fields(summary):
        tag, found = "", None
        for field in fields(value.content):
            if field.number == 1:
                tag = field.content.decode(errors="replace")
            elif field.number == 2:
                found = field.number_value
            elif field.number == 8:
                found = _tensor_scalar(field.content)
        if found is not None:
            out[tag] = found
    return out


def _tensor_scalar(tensor: bytes) -> float | None:
    """Return the number in a tensor of one float or double; None for any other tensor."""
    letter = ""
    for field in fields(tensor):
        if field.number == 1:
            letter = {1: "f", 2: "d"}.get(field.whole, "")
        elif field.number in (4, 5, 6) and letter:
            # content, float_val and double_val hold the same bytes when there is one value
            if len(field.content) != struct.calcsize(letter):
                return None
            return struct.unpack(f"<{letter}", field.content)[0]
    return None


# ---------------------------------------------------------------------------- Weights & Biases

# A `.wandb` file is a LevelDB log after a 7-byte header: blocks of 32 KiB, in them fragments of
# checksum (CRC-32 of type and data), length, type and data. The data is a protobuf `Record`:
#
#     Record         2 history HistoryRecord
#     HistoryRecord  1 item (repeated) | 2 step {1 num}
#     HistoryItem    1 key | 2 nested_key (repeated) | 16 value_json
#
# Only history rows are read: no media, no system metrics, no tables.

_HEADER = struct.Struct("<4sHB")
_FRAGMENT = struct.Struct("<IHB")
_BLOCK = 32_768
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4


def read_offline_run(folder: Path) -> list[Row]:
    """Return the history rows of an offline run folder.

    Looked for in this order: `run-*.wandb`, `wandb-history.jsonl`, `wandb-summary.json` (one row,
    the last values only), each also under `files/`.
    """
    logs = sorted(folder.glob("*.wandb"))
    if logs:
        return [row for log in logs for row in read_log(log)]
    for place in (folder, folder / "files"):
        history, summary = place / "wandb-history.jsonl", place / "wandb-summary.json"
        if history.exists():
            return [_named(flat(row)) for row in read_json_lines(history)]
        if summary.exists():
            return [_named(flat(read_json(summary)))]
    raise TelicError(
        f"{folder} holds no offline run of Weights & Biases.",
        hint="Expected run-*.wandb, wandb-history.jsonl or wandb-summary.json.",
    )


def read_log(path: Path) -> Iterator[Row]:
    """Yield the history rows of a `.wandb` file; an unfinished end is left out."""
    for record in _history_records(path):
        for field in fields(record):
            if field.number == 2:
                yield _named(_history(field.content))


def _history_records(path: Path) -> Iterator[bytes]:
    data = path.read_bytes()
    if len(data) < _HEADER.size or data[:4] != b":W&B":
        raise TelicError(f"{path} is not a Weights & Biases log.")
    place, parts = _HEADER.size, b""
    while place + _FRAGMENT.size <= len(data):
        left = _BLOCK - place % _BLOCK
        if left < _FRAGMENT.size:
            place += left
            continue
        checksum, size, kind = _FRAGMENT.unpack_from(data, place)
        if kind == 0:  # the rest of the block is padding
            place += left
            continue
        start = place + _FRAGMENT.size
        piece = data[start : start + size]
        if len(piece) < size:
            return
        if zlib.crc32(piece, zlib.crc32(bytes([kind]))) != checksum:
            raise TelicError(f"{path} is damaged at byte {place}.")
        parts = piece if kind in (_FULL, _FIRST) else parts + piece
        if kind in (_FULL, _LAST):
            yield parts
        place = start + size


def _history(record: bytes) -> Row:
    row: dict[str, float | str] = {}
    for field in fields(record):
        if field.number == 1:
            row.update(_item(field.content))
        elif field.number == 2:
            row["_step"] = float(next((f.whole for f in fields(field.content)), 0))
    return row


def _item(message: bytes) -> Row:
    key, nested, value = "", list[str](), "null"
    for field in fields(message):
        content = field.content.decode(errors="replace")
        if field.number == 1:
            key = content
        elif field.number == 2:
            nested.append(content)
        elif field.number == 16:
            value = content
    try:
        return flat({key or "/".join(nested): json.loads(value)})
    except ValueError:
        raise TelicError(f'The history value of "{key}" is not JSON: {value[:80]}') from None


def _named(row: Row) -> Row:
    """Return the row with its step and time under their plain names."""
    out = {key: value for key, value in row.items() if not key.startswith("_")}
    step, time = row.get("_step"), row.get("_timestamp")
    if isinstance(step, float) and math.isfinite(step):
        out.setdefault("step", step)
    if isinstance(time, float):
        out.setdefault("time", time)
    return out


# ---------------------------------------------------------------------------- protobuf

_VARINT, _EIGHT_BYTES, _LENGTH, _FOUR_BYTES = 0, 1, 2, 5


class Field(NamedTuple):
    """One field of a message as it stands in the bytes."""

    number: int
    kind: int
    """wire type: 0 whole number, 1 eight bytes, 2 bytes with a length, 5 four bytes"""
    raw: int | bytes

    @property
    def content(self) -> bytes:
        """The bytes of a text, a message or a fixed-width number."""
        return self.raw if isinstance(self.raw, bytes) else b""

    @property
    def whole(self) -> int:
        """The value as a whole number; two's complement for negative ones."""
        if isinstance(self.raw, bytes):
            return int.from_bytes(self.raw, "little")
        return self.raw - (1 << 64) if self.raw >> 63 else self.raw

    @property
    def number_value(self) -> float | None:
        """The value of a float or double field; None for other wire types."""
        if self.kind == _FOUR_BYTES:
            return struct.unpack("<f", self.content)[0]
        if self.kind == _EIGHT_BYTES:
            return struct.unpack("<d", self.content)[0]
        return None


def fields(message: bytes) -> Iterator[Field]:
    """Yield the fields of a message; raises TelicError when the bytes are not one."""
    place = 0
    try:
        while place < len(message):
            key, place = _varint(message, place)
            kind = key & 7
            if kind == _VARINT:
                value, place = _varint(message, place)
                yield Field(key >> 3, kind, value)
                continue
            size = {_EIGHT_BYTES: 8, _FOUR_BYTES: 4}.get(kind)
            if kind == _LENGTH:
                size, place = _varint(message, place)
            if size is None or place + size > len(message):
                raise TelicError("The bytes are not a protobuf message.")
            yield Field(key >> 3, kind, message[place : place + size])
            place += size
    except IndexError:
        raise TelicError("The protobuf message is cut short.") from None


def _varint(message: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[place]
        value |= (byte & 0x7F) << shift
        place += 1
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, place
        shift += 7


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
