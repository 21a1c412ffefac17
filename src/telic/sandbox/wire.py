"""Messages between host and worker: one JSON object per line, and errors that cross intact.

The host trusts nothing that arrives: lines are bounded, only known error classes are rebuilt, and
text is freed of control characters before anyone prints it.
"""

from __future__ import annotations

import json
from typing import Any, TypeGuard

from telic import errors
from telic.errors import TelicError, WorkerDied

MAX_LINE = 64 << 20
MAX_TEXT = 20_000

Message = dict[str, Any]


def encode(message: Message) -> bytes:
    """Return a message as one line."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def is_record(value: object) -> TypeGuard[dict[str, Any]]:
    """Say whether a value that came as JSON is an object."""
    return isinstance(value, dict)


def decode(line: bytes) -> Message:
    """Return the message on a line.

    Raises:
        ValueError: the line is not a message with a "kind".
    """
    try:
        message: object = json.loads(line)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not is_record(message) or not isinstance(message.get("kind"), str):
        raise ValueError('not an object with a "kind"')
    return message


class LineBuffer:
    """Cut a stream of bytes into lines."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[bytes]:
        """Add bytes and return the lines they complete.

        Raises:
            ValueError: a line is longer than allowed.
        """
        *whole, rest = data.split(b"\n")
        if whole:
            whole[0] = b"".join((*self._parts, whole[0]))
            self._parts, self._size = [], 0
        self._parts.append(rest)
        self._size += len(rest)
        if self._size > MAX_LINE:
            raise ValueError(f"a line of more than {MAX_LINE} bytes")
        return [line for line in whole if line]


def printable(text: object, limit: int = MAX_TEXT) -> str:
    """Return text without control characters, which could fool a terminal, and not too long."""
    shown = str(text)[:limit]
    return "".join(each if each.isprintable() or each in "\n\t" else "?" for each in shown)


def pack_error(error: TelicError) -> dict[str, Any]:
    """Return an error of ours as plain data."""
    plain = {
        name: value
        for name, value in vars(error).items()
        if value is None or isinstance(value, str | int | float)
    }
    known = next(each.__name__ for each in type(error).__mro__ if hasattr(errors, each.__name__))
    return {"class": known, "fields": plain}


def unpack_error(data: dict[str, Any]) -> TelicError:
    """Rebuild an error that `pack_error` packed; anything else becomes a WorkerDied."""
    cls = getattr(errors, str(data.get("class")), None)
    fields: object = data.get("fields")
    if not (isinstance(cls, type) and issubclass(cls, TelicError) and is_record(fields)):
        return WorkerDied("The confined process reported an error that cannot be read.")
    clean = {
        str(name): printable(value) if isinstance(value, str) else value
        for name, value in fields.items()
        if value is None or isinstance(value, str | int | float)
    }
    # Some classes build their message from other arguments, so it is restored, not rebuilt.
    error = cls.__new__(cls)
    message = str(clean.get("message", ""))
    Exception.__init__(error, message)
    vars(error).update({"hint": None, **clean, "message": message})
    return error
