"""Share the CPU cores and memory of this machine between sessions.

A lease is a file that is locked by a process. The kernel releases the lock when the process ends.
Only the process that holds the file `turn` may add a lease. Other processes queue for this file, so
that small requests cannot starve a large request.
"""

from __future__ import annotations

import os
import secrets
import stat
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import psutil

from telic.core.config import Record
from telic.core.events import Listener, SessionAdmitted, SessionWaiting, ignore
from telic.errors import BadFile, Refused, ResourceError
from telic.storage.locks import try_hold
from telic.storage.reading import read_bytes, read_text

_POLL_S = 0.2
_SETTLING_S = 30.0
"""seconds until the memory used by a new training run is no longer counted as free"""
_GIB = 2**30

_CGROUP = Path("/sys/fs/cgroup")


class ResourceNeed(NamedTuple):
    """Number of cores and amount of memory that work requires."""

    cores: int
    memory_bytes: int | None
    """memory in bytes, or None if unknown, so that it is not checked"""


def usable_cores() -> list[int]:
    """Return the CPU cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def available_bytes() -> int | None:
    """Return the memory available without swapping, within the container's limit."""
    free, left = psutil.virtual_memory().available, _container_bytes()
    return free if left is None else min(free, left)


def _container_bytes() -> int | None:
    """Return the memory left in the control group (version 2), including reclaimable file pages."""
    limit, used = _CGROUP / "memory.max", _CGROUP / "memory.current"
    if not (limit.exists() and used.exists()) or limit.read_text().strip() == "max":
        return None
    dropped = 0
    for line in (_CGROUP / "memory.stat").read_text().splitlines():
        if line.startswith("inactive_file "):
            dropped = int(line.split()[1])
    return int(limit.read_text()) - int(used.read_text()) + dropped


class CoreLease(Record):
    """Reservation of CPU cores by a process."""

    holder: str
    pid: int
    cores: int
    memory_bytes: int | None
    since: float


class Admission:
    """Pool of CPU cores that sessions share."""

    def __init__(
        self,
        folder: Path | None = None,
        *,
        cores: list[int] | None = None,
        free_bytes: Callable[[], int | None] = available_bytes,
    ) -> None:
        self.folder = folder or runtime_folder()
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.cores = usable_cores() if cores is None else cores
        self._free_bytes = free_bytes

    @contextmanager
    def admit(
        self,
        need: ResourceNeed,
        holder: str,
        *,
        emit: Listener = ignore,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> Generator[bool]:
        """Hold the resources during the block. Yields False if a stop was requested first.

        A request for more cores than the machine has gets all cores. `tell` receives
        session.waiting when the reason for waiting changes, and session.admitted afterwards. Raises
        ResourceError if memory is insufficient and no other session can release memory.
        """
        path = self.folder / f"lease_{os.getpid()}_{secrets.token_hex(4)}"
        handle = self._wait(path, need, holder, emit, should_stop)
        try:
            yield handle is not None
        finally:
            if handle is not None:
                path.unlink(missing_ok=True)
                os.close(handle)

    def leases(self) -> list[CoreLease]:
        """Return the current reservations, removing those of dead processes."""
        found: list[CoreLease] = []
        for path in sorted(self.folder.glob("lease_*")):
            if (handle := try_hold(path)) is not None:
                path.unlink(missing_ok=True)
                os.close(handle)
            else:
                with suppress(ValueError, BadFile):  # read while being written
                    found.append(CoreLease.model_validate_json(read_bytes(path)))
        return found

    def _wait(
        self,
        path: Path,
        need: ResourceNeed,
        holder: str,
        emit: Listener,
        should_stop: Callable[[], bool],
    ) -> int | None:
        """Return the handle of the reservation, or None if a stop was requested first."""
        started, shown, turn = time.monotonic(), "", None
        wanted = min(max(1, need.cores), len(self.cores))
        waiting = f"waiting for {wanted} of {len(self.cores)} cores"
        try:
            while not should_stop():
                if turn is None and (turn := try_hold(self.folder / "turn")) is not None:
                    os.ftruncate(turn, 0)
                    os.pwrite(turn, holder.encode(), 0)
                if turn is None:
                    reason = f"{waiting}; queued behind {_read_name(self.folder / 'turn')}"
                else:
                    leases = self.leases()
                    reason = self._lacking_memory(need, leases)
                    if reason is None and wanted + sum(x.cores for x in leases) <= len(self.cores):
                        if shown:
                            emit(SessionAdmitted(waited_s=time.monotonic() - started))
                        return _hold(path, holder, wanted, need.memory_bytes)
                    reason = reason or f"{waiting}; held by {_names(leases)}"
                if reason != shown:
                    shown = reason
                    emit(SessionWaiting(reason="cores", message=shown))
                time.sleep(_POLL_S)
            return None
        finally:
            if turn is not None:
                os.close(turn)

    def _lacking_memory(self, need: ResourceNeed, leases: list[CoreLease]) -> str | None:
        """Return the reason to wait for memory, if any. Raises ResourceError if this is futile."""
        free = self._free_bytes()
        if need.memory_bytes is None or free is None:
            return None
        # A training that has just started does not yet use the memory it was admitted with.
        free -= sum(
            lease.memory_bytes or 0 for lease in leases if time.time() - lease.since < _SETTLING_S
        )
        if need.memory_bytes <= free:
            return None
        wanted = f"{need.memory_bytes / _GIB:.1f} GiB of memory"
        there = f"{max(0, free) / _GIB:.1f} GiB are free"
        if leases:
            return f"waiting for {wanted}, {there}; held by {_names(leases)}"
        raise ResourceError(
            f"This training needs about {wanted}, and {there}.",
            hint="Close other programs, or use fewer seeds or a smaller num_envs.",
        )


def _hold(path: Path, holder: str, cores: int, memory_bytes: int | None) -> int | None:
    """Write a reservation file and lock it."""
    lease = CoreLease(
        holder=holder, pid=os.getpid(), cores=cores, memory_bytes=memory_bytes, since=time.time()
    )
    handle = try_hold(path)
    if handle is not None:
        os.pwrite(handle, lease.model_dump_json().encode(), 0)
    return handle


def runtime_folder() -> Path:
    """Return the folder that all sessions of this user on this machine share.

    Raises Refused if another user owns the folder and thus could block all sessions.
    """
    base = os.environ.get("XDG_RUNTIME_DIR")
    if base and os.access(base, os.W_OK):
        return Path(base) / "telic"
    folder = Path(tempfile.gettempdir()) / f"telic-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    facts = folder.lstat()
    if facts.st_uid != os.getuid() or not stat.S_ISDIR(facts.st_mode):
        raise Refused(
            f"The folder {folder} belongs to another user.",
            hint="Set XDG_RUNTIME_DIR to a folder that you own, and contact your administrator.",
        )
    return folder


def _names(leases: list[CoreLease]) -> str:
    return ", ".join({lease.holder: None for lease in leases}) or "a recently started session"


def _read_name(path: Path) -> str:
    try:
        return read_text(path) or "another session"
    except BadFile:
        return "another session"
