"""What a worker may use, and the watch over it from outside."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from telic.errors import ResourceError

GIBIBYTE = 1 << 30
MEBIBYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """What a worker may use before it is ended."""

    memory_bytes: int = 4 * GIBIBYTE
    """resident memory"""
    reserved_bytes: int = 0
    """memory it may set aside besides without using it, as simulators do for the worst case"""
    disk_bytes: int = 20 * GIBIBYTE
    """growth of its writable folders"""
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
    processors: float | None = None
    """processors it may keep busy, where there are control groups; None for no limit"""


def too_much_memory(used: int, allowed: int) -> ResourceError:
    """Describe a worker that was ended for its memory, by the watch or by the kernel."""
    return ResourceError(
        f"The worker was ended: it used {used / MEBIBYTE:,.0f} MiB of memory, more "
        f"than the {allowed / MEBIBYTE:,.0f} MiB allowed.",
        hint="Look for lists and tensors that grow with every step, or raise the limit.",
    )


class Watch:
    """Measure a worker now and then, and say no when it is over a limit."""

    MEMORY_EVERY_S = 0.1
    DISK_EVERY_S = 1.0

    def __init__(self, pid: int, limits: Limits, writable: Sequence[Path]) -> None:
        self._status = Path(f"/proc/{pid}/status")
        self._limits = limits
        self._writable = writable
        self._disk_before = disk_usage(writable)
        self._started = self._memory_at = self._disk_at = time.monotonic()

    def check(self) -> None:
        """Measure what is due.

        Raises:
            ResourceError: the worker is over a limit and must be ended.
        """
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
        measured = self._measure()
        resident = measured.get("VmRSS", 0) * 1024
        if resident > self._limits.memory_bytes:
            raise too_much_memory(resident, self._limits.memory_bytes)
        threads = measured.get("Threads", 0)
        if threads > self._limits.threads:
            raise ResourceError(
                f"The worker was ended: it ran {threads} threads, more than the "
                f"{self._limits.threads} allowed.",
                hint="A reward needs no threads of its own.",
            )

    def _measure(self) -> dict[str, int]:
        """Return memory in KiB and the number of threads; nothing where /proc is missing."""
        try:
            lines = self._status.read_text().splitlines()
        except OSError:  # ended meanwhile, or a system without /proc
            return {}
        parts = [line.split() for line in lines]
        return {part[0][:-1]: int(part[1]) for part in parts if part[0] in {"VmRSS:", "Threads:"}}

    def _check_disk(self) -> None:
        grown = disk_usage(self._writable) - self._disk_before
        if grown > self._limits.disk_bytes:
            raise ResourceError(
                f"The worker was ended: its folder grew by {grown / MEBIBYTE:,.0f} MiB, more than "
                f"the {self._limits.disk_bytes / MEBIBYTE:,.0f} MiB allowed.",
                hint="Keep fewer checkpoints and trajectories, or raise the limit.",
            )


def running_clock(pid: int) -> float:
    """Return seconds by a clock that stands still while a process waits for a processor.

    Who has run for a minute without a word is stuck; who was not let run for a minute is not.
    """
    try:
        waited_ns = int(Path(f"/proc/{pid}/schedstat").read_text().split()[1])
    except (OSError, IndexError, ValueError):  # ended meanwhile, or a system that does not count
        waited_ns = 0
    return time.monotonic() - waited_ns / 1e9


def disk_usage(folders: Sequence[Path]) -> int:
    """Return the bytes that folders take on disk."""
    total = 0
    for folder in folders:
        for parent, _, names in os.walk(folder):
            for name in names:
                try:
                    total += os.lstat(os.path.join(parent, name)).st_blocks * 512
                except FileNotFoundError:  # renamed or removed while we look
                    continue
    return total
