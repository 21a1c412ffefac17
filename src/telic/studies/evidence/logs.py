"""Series out of whatever a training run logs: JSON, CSV, TensorBoard, W&B offline, text.

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
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard, cast

from telic.errors import TelicError, UnknownName
from telic.storage.files import read_json, read_json_lines
from telic.storage.reading import check_file, files_below, parse_json, read_bytes, read_text
from telic.storage.scalars import masked_crc

_NUMBER = r"[-+]?(?:\d[\d_]*\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|nan|inf)"
LINE_PATTERN = rf"(?P<key>[A-Za-z_][\w/.]*)\s*[:=|]\s*(?P<value>{_NUMBER})\b"
"""what is found in text when no pattern is given: `name: 1.5`, `name=1.5`, `name | 1.5`"""

Row = Mapping[str, float | str]
"""numbers and words of one point in time; nested names are joined by a slash"""


def read_rows(kind: str, path: Path, pattern: str | None = None) -> list[Row]:
    """Return the rows of a file or a folder, files in the order of their names.

    Args:
        kind: jsonl, json, csv, tensorboard, wandb_offline or regex_stdout.
        path: the file; for a folder, everything in it that has the kind's usual name.
        pattern: for regex_stdout: groups `key` and `value`, or groups named like metrics.

    Raises TelicError when there is nothing to read, and names what was looked for.
    """
    if kind == "python_file":
        raise TelicError(
            "Extractors written in Python are not run: reading evidence starts no process.",
            hint="Let the evaluation write JSON lines, and name that file in the metric spec.",
        )
    if kind not in _KINDS:
        raise UnknownName("kind of log", kind, list(_KINDS))
    if kind == "wandb_offline" and path.is_dir():
        return read_offline_run(path)
    usual, read = _KINDS[kind]
    files = files_below(path, usual) if path.is_dir() else [path] if path.is_file() else []
    if not files:
        raise TelicError(
            f"There is no {kind} log at {path}.",
            hint=f"Looked for {usual}. Has the run ended, and is the path right?",
        )
    return [row for file in files for row in read(file, pattern)]


def is_object(value: Any) -> TypeGuard[Mapping[str, Any]]:
    """Whether plain data is an object with named values."""
    return isinstance(value, Mapping)


def flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, float | str]:
    """Return nested data as one row: numbers and texts; lists and missing values are left out."""
    out: dict[str, float | str] = {}
    for key, part in value.items():
        name = f"{prefix}{key}"
        if is_object(part):
            out.update(flat(part, f"{name}/"))
        elif isinstance(part, str):
            out[name] = _number(part)
        elif isinstance(part, bool | int | float):
            out[name] = float(part)
    return out


def _number(text: str) -> float | str:
    """Return a text as the number it writes, NaN and infinity included, else the text itself."""
    try:
        return float(text)
    except ValueError:
        return text


def _json_lines(path: Path, _: str | None) -> Iterator[Row]:
    """Yield rows; a torn last line is left out, a bad one before it is an error."""
    lines = read_text(path, errors="replace").split("\n")[:-1]
    for number, line in enumerate(lines, start=1):
        row = parse_json(line, f"{path}, line {number},") if line.strip() else None
        if is_object(row):
            yield flat(row)


def _json(path: Path, _: str | None) -> Iterator[Row]:
    """Yield rows of a list of objects, or of one object; columns of equal length become rows."""
    data = read_json(path)
    rows = cast("list[Any]", data) if isinstance(data, list) else []
    if is_object(data):
        columns = [cast("list[Any]", column) for column in data.values() if type(column) is list]
        rows = [data]
        if columns and len(columns) == len(data) and len({len(column) for column in columns}) == 1:
            rows = [dict(zip(data, row, strict=True)) for row in zip(*columns, strict=True)]
    for row in rows:
        if is_object(row):
            yield flat(row)


def _csv(path: Path, _: str | None) -> Iterator[Row]:
    check_file(path)
    with path.open(newline="", errors="replace") as file:
        for row in csv.DictReader(line for line in file if not line.startswith("#")):
            yield flat({key: value for key, value in row.items() if key and value})


def _text(path: Path, pattern: str | None) -> Iterator[Row]:
    """Yield one row per block: a name that comes again begins the next row."""
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
        event = _last_fields(record)
        scalars = _scalars(event[5].content)
        if scalars:
            when = event[1].number_value
            yield {"step": float(event[2].whole), **({"time": when} if when else {}), **scalars}


def _event_records(path: Path) -> Iterator[bytes]:
    data, place = read_bytes(path), 0
    while place + 12 <= len(data):
        head = data[place : place + 8]
        if masked_crc(head) != data[place + 8 : place + 12]:
            raise TelicError(f"{path} is damaged at byte {place}: the length does not check out.")
        size = int.from_bytes(head, "little")
        end = place + 12 + size
        if end + 4 > len(data):
            return
        record = data[place + 12 : end]
        if size <= _CHECKED_BYTES and masked_crc(record) != data[end : end + 4]:
            raise TelicError(f"{path} is damaged at byte {place}: the record does not check out.")
        yield record
        place = end + 4


def _scalars(summary: bytes) -> dict[str, float]:
    scalars: dict[str, float] = {}
    for part in fields(summary):
        value = _last_fields(part.content)
        plain = value[2].number_value
        number = _tensor_scalar(value[8].content) if plain is None else plain
        if number is not None:
            scalars[value[1].content.decode(errors="replace")] = number
    return scalars


def _tensor_scalar(tensor: bytes) -> float | None:
    """Return the number in a tensor of one float or double; None for any other tensor."""
    parts = _last_fields(tensor)
    letter = {1: "f", 2: "d"}.get(parts[1].whole)
    # content, float_val and double_val hold the same bytes when there is one value
    content = parts[4].content or parts[5].content or parts[6].content
    if letter is None or len(content) != struct.calcsize(letter):
        return None
    return struct.unpack(f"<{letter}", content)[0]


# ---------------------------------------------------------------------------- Weights & Biases

# A `.wandb` file is a LevelDB log after a 7-byte header: blocks of 32 KiB, in them fragments of
# checksum (CRC-32 of type and data), length, type and data. The data is a protobuf `Record`:
#
#     Record         2 history HistoryRecord
#     HistoryRecord  1 item (repeated) | 2 step {1 num}
#     HistoryItem    1 key | 2 nested_key (repeated) | 16 value_json
#
# Only history rows are read: no media, no system metrics, no tables.

_HEADER_BYTES = 7
_FRAGMENT = struct.Struct("<IHB")
_BLOCK = 32_768
_FULL, _FIRST, _LAST = 1, 2, 4


def read_offline_run(folder: Path) -> list[Row]:
    """Return the history rows of an offline run folder.

    Looked for in this order: `run-*.wandb`, `wandb-history.jsonl`, `wandb-summary.json` (one row,
    the last values only), the latter two also under `files/`.
    """
    if logs := sorted(folder.glob("*.wandb")):
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
        for history in (field.content for field in fields(record) if field.number == 2):
            row: dict[str, float | str] = {}
            for field in fields(history):
                if field.number == 1:
                    row.update(_item(field.content))
                elif field.number == 2:
                    row["_step"] = float(_last_fields(field.content)[1].whole)
            yield _named(row)


def _history_records(path: Path) -> Iterator[bytes]:
    data = read_bytes(path)
    if len(data) < _HEADER_BYTES or data[:4] != b":W&B":
        raise TelicError(f"{path} is not a Weights & Biases log.")
    place, parts = _HEADER_BYTES, b""
    while place + _FRAGMENT.size <= len(data):
        left = _BLOCK - place % _BLOCK
        fits = left >= _FRAGMENT.size
        checksum, size, kind = _FRAGMENT.unpack_from(data, place) if fits else (0, 0, 0)
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


def _item(message: bytes) -> Row:
    texts = [(field.number, field.content.decode(errors="replace")) for field in fields(message)]
    nested, last = [text for number, text in texts if number == 2], dict(texts)
    key, value = last.get(1, ""), last.get(16, "null")
    try:
        return flat({key or "/".join(nested): json.loads(value)})
    except ValueError:
        raise TelicError(f'The history value of "{key}" is not JSON: {value[:80]}') from None


def _named(row: Row) -> Row:
    """Return the row with its step and time under their plain names."""
    named = {"step": row.get("_step"), "time": row.get("_timestamp")}
    times = {name: x for name, x in named.items() if isinstance(x, float) and math.isfinite(x)}
    return {**times, **{key: value for key, value in row.items() if not key.startswith("_")}}


# ---------------------------------------------------------------------------- protobuf

_VARINT, _LENGTH = 0, 2
_NUMBERS = {1: struct.Struct("<d"), 5: struct.Struct("<f")}
"""wire types of fixed width"""


class Field(NamedTuple):
    """One field of a message as it stands in the bytes; what it is not is empty."""

    number: int
    content: bytes = b""
    """of a text, a message or a fixed-width number"""
    whole: int = 0
    """two's complement for negative ones"""
    number_value: float | None = None
    """of a float or double field"""


def _last_fields(message: bytes) -> dict[int, Field]:
    """Return the last field of every number; one that is absent reads as empty."""
    return defaultdict(lambda: Field(0), {field.number: field for field in fields(message)})


def fields(message: bytes) -> Iterator[Field]:
    """Yield the fields of a message; raises TelicError when the bytes are not one."""
    place = 0
    try:
        while place < len(message):
            key, place = _varint(message, place)
            number, kind = key >> 3, key & 7
            if kind == _VARINT:
                value, place = _varint(message, place)
                yield Field(number, whole=value - (1 << 64) if value >> 63 else value)
                continue
            form = _NUMBERS.get(kind)
            size = form.size if form else None
            if kind == _LENGTH:
                size, place = _varint(message, place)
            if size is None or place + size > len(message):
                raise TelicError("The bytes are not a protobuf message.")
            content = message[place : place + size]
            yield Field(number, content, 0, form.unpack(content)[0] if form else None)
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


_KINDS: dict[str, tuple[str, Callable[[Path, str | None], Iterator[Row]]]] = {
    "jsonl": ("*.jsonl", _json_lines),
    "json": ("*.json", _json),
    "csv": ("*.csv", _csv),
    "tensorboard": ("*tfevents*", lambda path, _: read_event_file(path)),
    "wandb_offline": ("*.wandb", lambda path, _: read_log(path)),
    "regex_stdout": ("*.log", _text),
}
"""by kind of log: the usual name of its files, and how one is read"""
