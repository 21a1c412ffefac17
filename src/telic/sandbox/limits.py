"""Resource limits of a worker, monitored by its host."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil
from pydantic import Field

from telic.core.config import Record
from telic.errors import ResourceError

GIBIBYTE = 1 << 30
MEBIBYTE = 1 << 20
_MAX_DEPTH = 32
"""maximum nesting of folders below a worker's writable folders"""


class Limits(Record):
    """Limits of a worker's resources."""

    memory_bytes: int = 4 * GIBIBYTE
    """resident memory, in bytes"""
    reserved_bytes: int = 0
    """additional memory that may be reserved but unused, e.g. by simulators"""
    disk_bytes: int = 20 * GIBIBYTE
    """maximum growth of its writable folders, in bytes"""
    files: int = 100_000
    """maximum number of files and folders in its writable folders, which also limits scan time"""
    file_bytes: int = 4 * GIBIBYTE
    """maximum size of a file"""
    open_files: int = 512
    """maximum number of open files"""
    threads: int = Field(default_factory=lambda: max(256, 8 * (os.cpu_count() or 1)))
    """maximum number of threads"""
    cpu_s: int | None = None
    """CPU time in seconds, summed over threads, or None for no limit"""
    wall_s: float | None = None
    """wall time in seconds, or None for no limit"""


class Watch:
    """Monitor that measures a worker periodically and raises an error if a limit is exceeded."""

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
        """Take all measurements that are due. Raises ResourceError if a limit is exceeded."""
        now = time.monotonic()
        wall_s = self._limits.wall_s
        if wall_s is not None and now - self._started > wall_s:
            raise ResourceError(
                f"The worker was killed: it exceeded its time limit of {wall_s:g} s.",
                hint="Increase the time limit, or reduce the work.",
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
        except (psutil.Error, OSError):  # the process has ended
            return
        if resident > self._limits.memory_bytes:
            raise ResourceError(
                f"The worker was killed: it used {resident / MEBIBYTE:,.0f} MiB of memory. The "
                f"limit is {self._limits.memory_bytes / MEBIBYTE:,.0f} MiB.",
                hint="Check for lists and tensors that grow with every step, or raise the limit.",
            )
        if threads > self._limits.threads:
            raise ResourceError(
                f"The worker was killed: it had {threads} threads. The limit is "
                f"{self._limits.threads}.",
                hint="A reward must not start threads.",
            )

    def _check_disk(self) -> None:
        used = disk_usage(self._writable, self._limits.files) + self._without_a_name()
        grown = used - self._disk_before
        if grown > self._limits.disk_bytes:
            raise ResourceError(
                f"The worker was killed: its folder grew by {grown / MEBIBYTE:,.0f} MiB. The "
                f"limit is {self._limits.disk_bytes / MEBIBYTE:,.0f} MiB.",
                hint="Keep fewer checkpoints and trajectories, or raise the limit.",
            )

    def _without_a_name(self) -> int:
        """Return the size of a process's deleted files that are still open or mapped."""
        disks = {os.stat(folder).st_dev for folder in self._writable if folder.exists()}
        seen: dict[int, int] = {}
        for place in ("fd", "map_files"):
            for link in _entries(str(self._process / place)):
                try:
                    found = os.stat(link.path)
                except OSError:  # closed in the meantime
                    continue
                is_gone = stat.S_ISREG(found.st_mode) and found.st_nlink == 0
                if is_gone and found.st_dev in disks:
                    seen[found.st_ino] = found.st_blocks * 512
        return sum(seen.values())


def running_clock(pid: int) -> float:
    """Return a clock in seconds that stops while a process waits for a CPU core."""
    try:
        waited_ns = int(Path(f"/proc/{pid}/schedstat").read_text().split()[1])
    except (OSError, IndexError, ValueError):  # process ended, or no support by the system
        waited_ns = 0
    return time.monotonic() - waited_ns / 1e9


def disk_usage(folders: Sequence[Path], most_files: int) -> int:
    """Return the disk usage of folders in bytes.

    Raises ResourceError if there are too many files or too deeply nested folders.
    """
    total, count = 0, 0
    waiting = [(str(folder), 0) for folder in folders]
    while waiting:
        folder, depth = waiting.pop()
        for entry in _entries(folder):
            count += 1
            if count > most_files:
                raise ResourceError(
                    f"The worker was killed: it created more than {most_files:,} files.",
                    hint="Keep fewer checkpoints and trajectories.",
                )
            try:
                if not entry.is_dir(follow_symlinks=False):
                    total += entry.stat(follow_symlinks=False).st_blocks * 512
                    continue
            except FileNotFoundError:  # renamed or removed during the scan
                continue
            if depth >= _MAX_DEPTH:
                raise ResourceError(
                    f"The worker was killed: it nested folders more than {_MAX_DEPTH} levels deep.",
                    hint="A reward or a judge must not create folders.",
                )
            waiting.append((entry.path, depth + 1))
    return total


def _entries(folder: str) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            yield from entries
    except OSError:  # missing, or not readable
        return
