"""Signs of trouble in a process: it hangs, it is gone, it ended and left nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from telic.studies.evidence.learning import Signature

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
    return [found for look in _LOOKS for found in look(run)]


def stalled(run: Vitals) -> Iterator[Signature]:
    """It lives, and nothing has come of it for long."""
    if not run.is_alive or run.silent_s is None or not run.is_step_unchanged:
        return
    limit = max(_PATIENCE_S, _PATIENCE_GAPS * (run.median_gap_s or 0.0))
    if run.silent_s > limit:
        yield Signature(
            id="stalled",
            severity="fatal" if run.silent_s > 3 * limit else "warn",
            value=run.silent_s,
            threshold=limit,
            evidence="seconds without a new point",
        )


def dead(run: Vitals) -> Iterator[Signature]:
    """It is gone and did not say how."""
    if not run.is_alive and not run.has_exit_record:
        yield Signature(
            id="dead", severity="fatal", evidence="the process is gone and left no exit record"
        )


def silent_failure(run: Vitals) -> Iterator[Signature]:
    """It says that all went well, and the results are not there."""
    if run.has_exit_record and run.exit_code == 0 and run.lacks:
        yield Signature(
            id="silent_failure",
            severity="fatal",
            evidence=f"exit code 0, but missing: {', '.join(run.lacks)}",
        )


def resource(run: Vitals) -> Iterator[Signature]:
    """The machine ran out of something."""
    found = _RESOURCE_TEXT.search(run.text)
    if found:
        yield Signature(
            id="resource", severity="fatal", evidence=f"its output says: {found.group(0)}"
        )
    elif run.exit_code == _KILLED_FOR_MEMORY:
        yield Signature(
            id="resource",
            severity="fatal",
            value=137.0,
            evidence="exit code 137: killed from outside, most often for want of memory",
        )
    if run.free_disk_gb is not None and run.free_disk_gb < _LEAST_DISK_GB:
        yield Signature(
            id="resource",
            severity="fatal",
            value=run.free_disk_gb,
            threshold=_LEAST_DISK_GB,
            evidence="GB left on the disk",
        )


def duplicate_seed(run: Vitals) -> Iterator[Signature]:
    """Another live run does the very same."""
    if run.twins:
        yield Signature(
            id="duplicate_seed",
            severity="warn",
            value=float(len(run.twins)),
            evidence=f"same candidate, phase and seed: {', '.join(run.twins)}",
        )


_LOOKS: tuple[Callable[[Vitals], Iterator[Signature]], ...] = (
    stalled,
    dead,
    silent_failure,
    resource,
    duplicate_seed,
)
