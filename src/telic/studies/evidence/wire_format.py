"""Read protobuf messages without their definition: field numbers and raw values."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from telic.errors import TelicError

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
