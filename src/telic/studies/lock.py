"""One writer at a time for a study: a kernel lock, or a lease file where disks have no such locks.

The lock may be taken again by the thread that holds it, so a function that appends to the ledger
can be called from one that already decided to, under the same lock.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from telic.errors import MissingFile
from telic.storage.facts import LeaseFacts
from telic.storage.files import disk_errors, read_facts
from telic.studies.errors import LockTimeout

LIFETIME_S = 60.0
RENEW_S = 15.0
_NETWORK_DISKS = ("nfs", "lustre", "gpfs", "cifs", "smb", "ceph", "glusterfs", "beegfs", "fuse.")


def has_kernel_locks(folder: Path) -> bool:
    """Say whether the disk of `folder` can be trusted with kernel locks; unknown ones can."""
    try:
        mounts = Path("/proc/self/mounts").read_text().splitlines()
    except OSError:
        return True
    real = str(folder.resolve())
    best, kind = "", ""
    for line in mounts:
        _, point, name, *_ = line.split(" ")
        point = point.replace("\\040", " ")
        inside = real == point or real.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, name
    return not kind.startswith(_NETWORK_DISKS)


class LockLease:
    """Exclusive right to a file name, for as long as it is renewed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._token = secrets.token_hex(8)
        self._done = threading.Event()
        self._renewer: threading.Thread | None = None

    def try_take(self) -> bool:
        """Take it when it is free; from then on it is renewed until given back."""
        # Written beside and linked: a lease is there with its owner's name or not at all.
        fresh = self._fresh()
        try:
            os.link(fresh, self.path)
        except FileExistsError:
            return False
        finally:
            fresh.unlink()
        self._done.clear()
        self._renewer = threading.Thread(target=self._renew, daemon=True)
        self._renewer.start()
        return True

    def give_back(self) -> None:
        """Let others have it; a lease that somebody else broke meanwhile stays theirs."""
        self._done.set()
        if self._renewer is not None:
            self._renewer.join()
        if self._is_ours():
            self.path.unlink(missing_ok=True)

    def break_if_dead(self) -> str | None:
        """Remove the lease of an owner that is provably dead or expired; say whose it was."""
        owner = _owner_of(self.path)
        if owner is None or not _is_dead(owner):
            return None
        # Of several who see the dead one, the rename lets exactly one remove it.
        grave = self.path.with_name(f"{self.path.name}.dead-{self._token}")
        try:
            os.rename(self.path, grave)
        except FileNotFoundError:
            return None
        taken = _owner_of(grave)
        if taken is not None and taken.get("token") != owner.get("token"):
            # Somebody else was faster and this is their live lease: put it back.
            with contextlib.suppress(FileExistsError):
                os.link(grave, self.path)
            grave.unlink()
            return None
        grave.unlink()
        return f"broke the lock of process {owner.get('pid')} on {owner.get('host')}"

    def _content(self) -> bytes:
        return json.dumps(
            {
                "host": socket.gethostname(),
                "pid": os.getpid(),
                "boot_id": boot_id(),
                "start_time": start_time(os.getpid()),
                "expires": time.time() + LIFETIME_S,
                "token": self._token,
            }
        ).encode()

    def _renew(self) -> None:
        # A lease that expired while this process slept may be somebody else's by now.
        while not self._done.wait(RENEW_S) and self._is_ours():
            os.replace(self._fresh(), self.path)

    def _fresh(self) -> Path:
        path = self.path.with_name(f"{self.path.name}.{self._token}")
        path.write_bytes(self._content())
        return path

    def _is_ours(self) -> bool:
        return (_owner_of(self.path) or {}).get("token") == self._token


def boot_id() -> str | None:
    """Return what tells one start of this machine from another."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None


def start_time(pid: int) -> float | None:
    """Return when a process started; None when there is no such process."""
    import psutil

    try:
        return psutil.Process(pid).create_time()
    except psutil.Error:
        return None


def _is_dead(owner: dict[str, Any]) -> bool:
    if owner["expires"] < time.time():
        return True
    if owner["host"] != socket.gethostname():
        return False
    return owner["boot_id"] != boot_id() or owner["start_time"] != start_time(owner["pid"])


def _owner_of(path: Path) -> dict[str, Any] | None:
    """Return what a lease says; None when it is gone."""
    try:
        return dict(read_facts(path, LeaseFacts))
    except MissingFile:
        return None


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
def study_lock(path: Path, patience_s: float = PATIENCE_S) -> Generator[str | None]:
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
        with contextlib.ExitStack() as stack:
            note = None if holder.depth else stack.enter_context(_exclusive(path, patience_s))
            holder.depth += 1
            try:
                yield note
            finally:
                holder.depth -= 1
    finally:
        holder.turn.release()


@contextlib.contextmanager
def _exclusive(path: Path, patience_s: float) -> Generator[str | None]:
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
def _leased(path: Path, patience_s: float) -> Generator[str | None]:
    lease = LockLease(path.with_name(path.name + ".lease"))
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
