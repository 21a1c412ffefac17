"""Logs as they grow: whole lines from a byte position on, valid across restarts of the server."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

_LOOK_S = 0.4
_PIECE = 1 << 18


class LogLine(NamedTuple):
    """A line of a log, and where it ends."""

    text: bytes
    end: int


def read_lines(path: Path, start: int, most_bytes: int = _PIECE) -> list[LogLine]:
    """Return whole lines from a place on; a place inside of a line goes on with the next one."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        size = os.fstat(handle).st_size
        start = start if 0 <= start <= size else 0
        content = os.pread(handle, most_bytes, start)
        while content and b"\n" not in content and len(content) >= most_bytes:
            most_bytes *= 2  # a line longer than a piece: a long prompt
            content = os.pread(handle, most_bytes, start)
        if start and content and os.pread(handle, 1, start - 1) != b"\n":
            skipped = content.find(b"\n") + 1
            start, content = start + skipped, content[skipped:]
    finally:
        os.close(handle)
    lines, end = list[LogLine](), start
    for line in content.splitlines(keepends=True):
        if not line.endswith(b"\n"):
            break
        end += len(line)
        lines.append(LogLine(line.rstrip(b"\r\n"), end))
    return lines


async def follow(path: Path, start: int, beat_s: float) -> AsyncIterator[list[LogLine]]:
    """Yield lines from a position on as they come, and an empty list after a beat without."""
    position, waited = start, 0.0
    while True:
        lines = read_lines(path, position)
        if lines or waited >= beat_s:
            position, waited = (lines[-1].end if lines else position), 0.0
            yield lines
        else:
            size = path.stat().st_size if path.exists() else 0
            position = 0 if size < position else position  # it was started from scratch
            await asyncio.sleep(_LOOK_S)
            waited += _LOOK_S
