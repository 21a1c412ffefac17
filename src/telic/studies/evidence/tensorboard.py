"""Read the scalars of TensorBoard event files, with nothing but the standard library.

Framing and fields are those of `telic.storage.tensorboard`; beside `simple_value` (field 2) the
newer form is read, in which a scalar is a tensor (Value field 8) of one float or double.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from telic.errors import TelicError
from telic.storage.tensorboard import masked_crc
from telic.studies.evidence.rows import Row
from telic.studies.evidence.wire_format import fields

_CHECKED_BYTES = 65_536
"""records up to this size have their checksum recomputed; larger ones are pictures"""


def read_event_file(path: Path) -> Iterator[Row]:
    """Yield one row per event with its scalars; an unfinished last record is left out.

    Raises TelicError that names the place when a record in the middle is damaged.
    """
    for record in _records(path):
        yield from _row(record)


def _records(path: Path) -> Iterator[bytes]:
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
