"""Read what Weights & Biases leaves on disk when it is offline; its package is not needed.

A `.wandb` file is a LevelDB log after a 7-byte header: blocks of 32 KiB, in them fragments of
checksum (CRC-32 of type and data), length, type and data. The data is a protobuf `Record`:

    Record         2 history HistoryRecord
    HistoryRecord  1 item (repeated) | 2 step {1 num}
    HistoryItem    1 key | 2 nested_key (repeated) | 16 value_json

Only history rows are read: no media, no system metrics, no tables.
"""

from __future__ import annotations

import json
import math
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

from telic.errors import TelicError
from telic.storage.files import read_json, read_json_lines
from telic.studies.evidence.rows import Row, flat
from telic.studies.evidence.wire_format import fields

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
    for record in _records(path):
        for field in fields(record):
            if field.number == 2:
                yield _named(_history(field.content))


def _records(path: Path) -> Iterator[bytes]:
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
    key, nested, value = "", [], "null"
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
