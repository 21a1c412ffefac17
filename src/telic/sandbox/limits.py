"""Limits of a worker, and the watch over it from outside."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from telic.errors import ResourceError

GIBIBYTE = 1 << 30
MEBIBYTE = 1 << 20
_DEEPEST = 32
"""folders in one another below those that a worker may write to"""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits beyond which a worker is ended."""

    memory_bytes: int = 4 * GIBIBYTE
    """resident memory"""
    reserved_bytes: int = 0
    """memory it may set aside besides without using it, as simulators do for the worst case"""
    disk_bytes: int = 20 * GIBIBYTE
    """growth of its writable folders"""
    files: int = 100_000
    """files and folders in its writable folders; so many take long to look through, too"""
    file_bytes: int = 4 * GIBIBYTE
    """largest single file"""
    open_files: int = 512
    """files open at once"""
    threads: int = field(default_factory=lambda: max(256, 8 * (os.cpu_count() or 1)))
    """threads at once"""
    cpu_s: int | None = None
    """processor time, summed over threads; None for no limit"""
    wall_s: float | None = None
    """time from start to end; None for no limit"""


class Watch:
    """Measure a worker now and then, and say no when it is over a limit."""

    MEMORY_EVERY_S = 0.1
    DISK_EVERY_S = 1.0

    def __init__(self, pid: int, limits: Limits, writable: Sequence[Path]) -> None:
        self._process = Path(f"/proc/{pid}")
        self._of = psutil.Process(pid) if psutil.pid_exists(pid) else None
        self._limits = limits
        self._writable = writable
        self._disk_before = disk_usage(writable, limits.files)
        self._started = self._memory_at = self._disk_at = time.monotonic()

    def check(self) -> None:
        """Measure what is due; raises ResourceError for a worker over a limit, to be ended."""
        now = time.monotonic()
        wall_s = self._limits.wall_s
        if wall_s is not None and now - self._started > wall_s:
            raise ResourceError(
                f"The worker was ended: it ran for more than its {wall_s:g} s.",
                hint="Give it more time, or less to do.",
            )
        if now - self._memory_at > self.MEMORY_EVERY_S:
            self._memory_at = now
            self._check_memory_and_threads()
        if now - self._disk_at > self.DISK_EVERY_S:
            self._disk_at = now
            self._check_disk()

    def _check_memory_and_threads(self) -> None:
        if self._of is None:
            return
        try:
            resident, threads = self._of.memory_info().rss, self._of.num_threads()
        except (psutil.Error, OSError):  # ended meanwhile
            return
        if resident > self._limits.memory_bytes:
            raise ResourceError(
                f"The worker was ended: it used {resident / MEBIBYTE:,.0f} MiB of memory, more "
                f"than the {self._limits.memory_bytes / MEBIBYTE:,.0f} MiB allowed.",
                hint="Look for lists and tensors that grow with every step, or raise the limit.",
            )
        if threads > self._limits.threads:
            raise ResourceError(
                f"The worker was ended: it ran {threads} threads, more than the "
                f"{self._limits.threads} allowed.",
                hint="A reward needs no threads of its own.",
            )

    def _check_disk(self) -> None:
        used = disk_usage(self._writable, self._limits.files) + self._without_a_name()
        grown = used - self._disk_before
        if grown > self._limits.disk_bytes:
            raise ResourceError(
                f"The worker was ended: its folder grew by {grown / MEBIBYTE:,.0f} MiB, more than "
                f"the {self._limits.disk_bytes / MEBIBYTE:,.0f} MiB allowed.",
                hint="Keep fewer checkpoints and trajectories, or raise the limit.",
            )

    def _without_a_name(self) -> int:
        """Return the bytes of files that were removed and are still held open or mapped."""
        disks = {os.stat(folder).st_dev for folder in self._writable if folder.exists()}
        seen: dict[int, int] = {}
        for place in ("fd", "map_files"):
            for link in _entries(str(self._process / place)):
                try:
                    found = os.stat(link.path)
                except OSError:  # closed meanwhile
                    continue
                is_gone = stat.S_ISREG(found.st_mode) and found.st_nlink == 0
                if is_gone and found.st_dev in disks:
                    seen[found.st_ino] = found.st_blocks * 512
        return sum(seen.values())


def running_clock(pid: int) -> float:
    """Return seconds by a clock that stands still while a process waits for a CPU core."""
    try:
        waited_ns = int(Path(f"/proc/{pid}/schedstat").read_text().split()[1])
    except (OSError, IndexError, ValueError):  # ended meanwhile, or a system that does not count
        waited_ns = 0
    return time.monotonic() - waited_ns / 1e9


def disk_usage(folders: Sequence[Path], most_files: int) -> int:
    """Return the bytes that folders take on disk.

    Raises ResourceError for more files, or deeper folders, than can be looked through.
    """
    total, count = 0, 0
    waiting = [(str(folder), 0) for folder in folders]
    while waiting:
        folder, depth = waiting.pop()
        for entry in _entries(folder):
            count += 1
            if count > most_files:
                raise ResourceError(
                    f"The worker was ended: it made more than {most_files:,} files.",
                    hint="Keep fewer checkpoints and trajectories.",
                )
            try:
                if not entry.is_dir(follow_symlinks=False):
                    total += entry.stat(follow_symlinks=False).st_blocks * 512
                    continue
            except FileNotFoundError:  # renamed or removed while we look
                continue
            if depth >= _DEEPEST:
                raise ResourceError(
                    f"The worker was ended: it nested folders more than {_DEEPEST} deep.",
                    hint="A reward or a judge needs no folders of its own.",
                )
            waiting.append((entry.path, depth + 1))
    return total


def _entries(folder: str) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            yield from entries
    except OSError:  # not there yet or no longer, or not readable
        return
