"""Logs as they grow: one look at a file serves all who follow it, each from where it was.

A place in a log is a number of bytes, which survives every restart of the server. Whoever follows a
log gets whole lines in order, each with the place where it ends; a log that became shorter was
begun anew, and is told from its start.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

_LOOK_S = 0.4
_PIECE = 1 << 18
_MOST_KEPT = 64


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


class Tails:
    """The logs that somebody follows; those who are at the same place share what is read."""

    def __init__(self) -> None:
        self._watched: dict[Path, _Watched] = {}
        self._read: dict[Path, tuple[int, int, list[LogLine]]] = {}

    def lines(self, path: Path, place: int) -> list[LogLine]:
        """Return the lines behind a place; the last answer is kept for those who come next."""
        size = _size(path)
        known = self._read.get(path)
        if known is not None and known[:2] == (place, size):
            return known[2]
        lines = read_lines(path, place)
        if len(self._read) > _MOST_KEPT:
            self._read.clear()
        self._read[path] = (place, size, lines)
        return lines

    async def grown(self, path: Path, seen: int, seconds: float) -> bool:
        """Wait until a log has another size than `seen`; False after some seconds without."""
        watched = self._watched.setdefault(path, _Watched(path))
        watched.readers += 1
        try:
            return await watched.wait(seen, seconds)
        finally:
            watched.readers -= 1
            if not watched.readers:
                watched.close()
                self._watched.pop(path, None)

    async def follow(
        self, path: Path, start: int, beat_s: float = 10.0
    ) -> AsyncIterator[list[LogLine]]:
        """Yield lines from a place on as they come, and an empty list at every beat without."""
        place = start
        while True:
            lines = self.lines(path, place)
            if lines:
                place = lines[-1].end
                yield lines
            elif _size(path) < place:
                place = 0
            elif not await self.grown(path, _size(path), beat_s):
                yield []


class _Watched:
    """One log, and everybody who waits for it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.readers = 0
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def wait(self, seen: int, seconds: float) -> bool:
        if self._task is None:
            self._task = asyncio.create_task(self._look())
        deadline = asyncio.get_running_loop().time() + seconds
        while _size(self.path) == seen:
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0:
                return False
            try:
                await asyncio.wait_for(self._changed.wait(), left)
            except TimeoutError:
                return False
        return True

    async def _look(self) -> None:
        size = _size(self.path)
        while True:
            await asyncio.sleep(_LOOK_S)
            now = _size(self.path)
            if now != size:
                size = now
                changed, self._changed = self._changed, asyncio.Event()
                changed.set()

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
