"""One writer at a time for a study: a kernel lock, or a lease file where disks have no such locks.

The lock may be taken again by the thread that holds it, so a function that appends to the ledger
can be called from one that already decided to, under the same lock.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from telic.storage.disk import disk_errors
from telic.studies.errors import LockTimeout
from telic.studies.leases import Lease, has_kernel_locks

PATIENCE_S = 10.0
_LOOK_EVERY_S = 0.01


@dataclass
class _Holder:
    """The lock of one path in this process."""

    turn: threading.RLock = field(default_factory=threading.RLock)
    depth: int = 0


# A kernel lock belongs to an open file, so two openings in one process would wait for each other.
_holders: dict[Path, _Holder] = {}
_choosing = threading.Lock()


@contextlib.contextmanager
def study_lock(path: Path, patience_s: float = PATIENCE_S) -> Iterator[str | None]:
    """Hold the lock at `path`; yields a note when the lock of a dead owner had to be broken.

    Raises LockTimeout E_LOCK after `patience_s`. Never hold it while something trains, a model
    thinks or a person is asked.
    """
    path = path.absolute()
    with _choosing:
        holder = _holders.setdefault(path, _Holder())
    if not holder.turn.acquire(timeout=patience_s):
        raise _timeout(path, patience_s)
    try:
        if holder.depth:
            holder.depth += 1
            try:
                yield None
            finally:
                holder.depth -= 1
            return
        with _exclusive(path, patience_s) as note:
            holder.depth = 1
            try:
                yield note
            finally:
                holder.depth = 0
    finally:
        holder.turn.release()


@contextlib.contextmanager
def _exclusive(path: Path, patience_s: float) -> Iterator[str | None]:
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    if not has_kernel_locks(path.parent):
        with _leased(path, patience_s) as note:
            yield note
        return
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        deadline = time.monotonic() + patience_s
        while not _try(handle):
            if time.monotonic() > deadline:
                raise _timeout(path, patience_s)
            time.sleep(_LOOK_EVERY_S)
        yield None
    finally:
        os.close(handle)


@contextlib.contextmanager
def _leased(path: Path, patience_s: float) -> Iterator[str | None]:
    lease = Lease(path.with_name(path.name + ".lease"))
    deadline = time.monotonic() + patience_s
    note = None
    while not lease.try_take():
        note = lease.break_if_dead() or note
        if time.monotonic() > deadline:
            raise _timeout(path, patience_s)
        time.sleep(_LOOK_EVERY_S)
    try:
        yield note
    finally:
        lease.give_back()


def _try(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _timeout(path: Path, patience_s: float) -> LockTimeout:
    return LockTimeout(
        "E_LOCK",
        f"The study is busy: {path.name} could not be had within {patience_s:g} s.",
        hint="Somebody else is writing. Try again.",
    )
