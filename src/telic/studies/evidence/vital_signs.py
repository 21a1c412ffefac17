"""Signs of trouble in a process: it hangs, it is gone, it ended and left nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from telic.studies.evidence.signatures import Look, Sign, Signature, signatures

_PATIENCE_S = 120.0
_PATIENCE_GAPS = 10
_LEAST_DISK_GB = 2.0
_RESOURCE_TEXT = re.compile(
    r"out of memory|OutOfMemory|CUDA error: |Cannot allocate memory|No space left on device|"
    r"GPU has fallen off the bus|Unable to determine the device handle|oom-kill",
    re.IGNORECASE,
)
_KILLED_FOR_MEMORY = 137


@dataclass(frozen=True, slots=True)
class Vitals:
    """What is known about the process of a run; None is not known."""

    is_alive: bool
    has_exit_record: bool = False
    exit_code: int | None = None
    silent_s: float | None = None
    """seconds since the last logged point"""
    median_gap_s: float | None = None
    """usual seconds between points"""
    is_step_unchanged: bool = True
    """the step counter has stood still over that time"""
    lacks: tuple[str, ...] = ()
    """what a complete run leaves and this one did not: marker, checkpoint, steps"""
    text: str = ""
    """the end of its output"""
    free_disk_gb: float | None = None
    twins: tuple[str, ...] = ()
    """other live runs of the same candidate, phase and seed"""


def vital_signatures(run: Vitals) -> list[Signature]:
    """Return every sign of trouble in the process."""
    return signatures(_LOOKS, run)


def stalled(run: Vitals) -> Iterator[Sign]:
    """It lives, and nothing has come of it for long."""
    if not run.is_alive or run.silent_s is None or not run.is_step_unchanged:
        return
    limit = max(_PATIENCE_S, _PATIENCE_GAPS * (run.median_gap_s or 0.0))
    if run.silent_s > limit:
        severity = "fatal" if run.silent_s > 3 * limit else "warn"
        yield Sign(severity, "seconds without a new point", run.silent_s, limit)


def dead(run: Vitals) -> Iterator[Sign]:
    """It is gone and did not say how."""
    if not run.is_alive and not run.has_exit_record:
        yield Sign("fatal", "the process is gone and left no exit record")


def silent_failure(run: Vitals) -> Iterator[Sign]:
    """It says that all went well, and the results are not there."""
    if run.has_exit_record and run.exit_code == 0 and run.lacks:
        yield Sign("fatal", f"exit code 0, but missing: {', '.join(run.lacks)}")


def resource(run: Vitals) -> Iterator[Sign]:
    """The machine ran out of something."""
    said = _RESOURCE_TEXT.search(run.text)
    if said:
        yield Sign("fatal", f"its output says: {said[0]}")
    elif run.exit_code == _KILLED_FOR_MEMORY:
        text = "exit code 137: killed from outside, most often for want of memory"
        yield Sign("fatal", text, value=137.0)
    if run.free_disk_gb is not None and run.free_disk_gb < _LEAST_DISK_GB:
        yield Sign("fatal", "GB left on the disk", run.free_disk_gb, _LEAST_DISK_GB)


def duplicate_seed(run: Vitals) -> Iterator[Sign]:
    """Another live run does the very same."""
    if run.twins:
        text = f"same candidate, phase and seed: {', '.join(run.twins)}"
        yield Sign("warn", text, value=float(len(run.twins)))


_LOOKS: tuple[Look[Vitals], ...] = (stalled, dead, silent_failure, resource, duplicate_seed)
