"""Protocol between host and worker: JSON lines, serialized errors and crash reports.

The host does not trust received data: the length of lines is limited, only known error classes are
rebuilt, and control characters are removed from text.
"""

from __future__ import annotations

import json
import math
import os
import signal
from pathlib import Path
from typing import Any, TypeGuard, cast

from telic import errors
from telic.errors import ResourceError, TelicError, WorkerDied

LOG_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
"""flags with which both sides open the log, to append and not follow links"""
LOG_TAIL = 2000
MAX_LINE = 64 << 20
MAX_TEXT = 20_000
_MAX_NAME = 500

Message = dict[str, Any]


def encode(message: Message) -> bytes:
    """Encode a message as a line."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def is_record(value: object) -> TypeGuard[dict[str, Any]]:
    """Return whether a decoded JSON value is an object."""
    return isinstance(value, dict)


def decode(line: bytes) -> Message:
    """Decode a line. Raises ValueError if the message lacks a "kind"."""
    try:
        message: object = json.loads(line)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not is_record(message) or not isinstance(message.get("kind"), str):
        raise ValueError('not an object with a field "kind"')
    return message


class LineBuffer:
    """Incremental parser of lines in a byte stream."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[bytes]:
        """Add bytes and return the completed lines. Raises ValueError if a line is too long."""
        *whole, rest = data.split(b"\n")
        if whole:
            whole[0] = b"".join((*self._parts, whole[0]))
            self._parts, self._size = [], 0
        self._parts.append(rest)
        self._size += len(rest)
        if self._size > MAX_LINE:
            raise ValueError(f"the line has more than {MAX_LINE} bytes")
        return [line for line in whole if line]


def bounded_text(text: object, limit: int = MAX_TEXT) -> str:
    """Return a text without control characters, truncated to the limit."""
    shown = str(text)[:limit]
    return "".join(each if each.isprintable() or each in "\n\t" else "?" for each in shown)


def cleaned(message: Message, most_values: int) -> Message:
    """Return a message without control characters and non-finite numbers.

    Raises ValueError if a message has too many values.
    """
    left = most_values

    def clean(value: Any) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            raise ValueError(f"the message has more than {most_values:,} values")
        if isinstance(value, str):
            return bounded_text(value)
        if isinstance(value, float):
            return value if math.isfinite(value) else None
        if isinstance(value, dict):
            items = cast("Message", value).items()
            return {bounded_text(name, _MAX_NAME): clean(item) for name, item in items}
        if isinstance(value, list):
            return [clean(item) for item in cast("list[Any]", value)]
        return value

    return clean(message)


def pack_error(error: TelicError) -> dict[str, Any]:
    """Serialize a TelicError to plain data."""
    plain = {
        name: value
        for name, value in vars(error).items()
        if value is None or isinstance(value, str | int | float)
    }
    known = next(each.__name__ for each in type(error).__mro__ if hasattr(errors, each.__name__))
    return {"class": known, "fields": plain}


def unpack_error(data: dict[str, Any]) -> TelicError:
    """Rebuild an error from the result of `pack_error`. Any other value becomes WorkerDied."""
    cls = getattr(errors, str(data.get("class")), None)
    fields: object = data.get("fields")
    if not (isinstance(cls, type) and issubclass(cls, TelicError) and is_record(fields)):
        return WorkerDied("The sandboxed process sent an invalid error.")
    if issubclass(cls, errors.BudgetExceeded):  # it has no budget, and would end a session with it
        return WorkerDied("The sandboxed process sent an error that cannot occur there.")
    clean = {
        str(name): bounded_text(value) if isinstance(value, str) else value
        for name, value in fields.items()
        if value is None or isinstance(value, str | int | float)
    }
    # Some classes build their message from other arguments, so the message is restored directly.
    error = cls.__new__(cls)
    message = str(clean.get("message", ""))
    Exception.__init__(error, message)
    vars(error).update({"hint": None, **clean, "message": message})
    return error


def silent(seconds: float, doing: str) -> WorkerDied:
    """Return the error for a worker that was killed because it missed its heartbeat."""
    during = bounded_text(doing, 200)
    return WorkerDied(
        f"The worker was killed: no heartbeat for {seconds:g} s while {during}.",
        hint="The usual cause is an endless or very slow loop. Limit every loop and use array "
        "operations.",
    )


def garbled(reason: object) -> WorkerDied:
    """Return the error for a worker that was killed because it violated the protocol."""
    return WorkerDied(
        f"The worker was killed: it sent an invalid message ({bounded_text(reason, 200)}).",
        hint="This happens if untrusted code writes to the worker's pipe. Check the reward.",
    )


def crashed(message: Message, log: Path, tail: str) -> TelicError:
    """Return the error for an unhandled exception in the worker's entry point."""
    kind, text = bounded_text(message.get("type"), 100), bounded_text(message.get("text"), 2000)
    if kind == "MemoryError":
        return ResourceError(
            f"The worker exceeded its memory limit. {text}".rstrip(),
            hint="Check for lists and tensors that grow with every step, or raise the limit.",
        )
    if kind in {"SystemExit", "KeyboardInterrupt", "GeneratorExit"}:
        return WorkerDied(
            f"Untrusted code tried to exit with {kind}.",
            hint="Raise a ValueError to report a problem, and return otherwise.",
        )
    return WorkerDied(f"The worker failed: {kind}: {text}", hint=_see(log, tail))


def ended(code: int, cpu_limit_s: int | None, log: Path, tail: str) -> TelicError:
    """Return the error for a worker that ended without a result."""
    if code >= 0:
        return WorkerDied(
            f"The worker exited with code {code} before returning a result.",
            hint=_see(log, tail),
        )
    number = signal.Signals(-code)
    if number == signal.SIGXCPU:
        return ResourceError(
            f"The worker exceeded its CPU time limit of {cpu_limit_s} s.",
            hint="Increase the time limit, or reduce the work.",
        )
    why = " The system is probably out of memory." if number == signal.SIGKILL else ""
    return WorkerDied(f"The worker was killed by {number.name}.{why}", hint=_see(log, tail))


def read_tail(log: Path, start: int) -> str:
    """Return the last lines written to the worker's log since `start`."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(start, size - LOG_TAIL))
            return bounded_text(file.read().decode(errors="replace")).strip()
    except OSError:
        return ""


def _see(log: Path, tail: str) -> str:
    lines = "\n".join(tail.splitlines()[-12:])
    return f"The log is {log}" + (f"; its last lines:\n{lines}" if lines else ", and it is empty.")
