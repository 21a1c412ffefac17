"""File locks that ensure that only one process at a time writes to a run."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Generator
from pathlib import Path
from typing import Self

from telic.errors import Refused
from telic.storage.files import disk_errors, make_folder

_TIMEOUT_S = 0.2


class RunLock:
    """Exclusive lock on a folder. The kernel releases it when the process that holds it ends.

    Example:
        with RunLock(folder / "lock", name="run 1a2b"):
            ...
    """

    def __init__(self, path: Path, name: str | None = None, *, patience_s: float = 0.0) -> None:
        """Prepare the lock without acquiring it."""
        self.path, self.patience_s = path, patience_s
        self.name = name or str(path.parent)
        self._handle: int | None = None

    def acquire(self) -> None:
        """Acquire the lock, or raise Refused with the id of the process that holds it."""
        began = time.monotonic()
        handle = _open(self.path)
        while not _try_lock(handle, fcntl.LOCK_EX):
            holder = _written_number(handle)
            # Without a process id, another process only checks (`lock_holder`) or will write it.
            patience_s = max(self.patience_s, _TIMEOUT_S if holder is None else 0.0)
            if time.monotonic() - began > patience_s:
                os.close(handle)
                raise Refused(
                    f"{self.name} is in use: process {holder or '(unknown)'} is writing to it.",
                    hint="Wait until it has finished, or stop it, then try again.",
                )
            time.sleep(0.01)
        if not _is_at(handle, self.path):  # the last holder removed the folder
            os.close(handle)
            self.acquire()
            return
        # The process id is informational; the lock belongs to the kernel and ends with the process.
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        self._handle = handle

    @property
    def handle(self) -> int:
        """Descriptor of the lock file. A child process that inherits it also holds the lock."""
        assert self._handle is not None, "the lock is not held"
        return self._handle

    def release(self) -> None:
        """Release the lock, if it is held."""
        if self._handle is not None:
            os.ftruncate(self._handle, 0)
            os.close(self._handle)
            self._handle = None

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def lock_holder(path: Path) -> int | None:
    """Return the id of the process that holds the lock at `path`, or None if it is free."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    except OSError:  # missing, or not a lockable file
        return None
    try:
        return None if _try_lock(handle, fcntl.LOCK_SH) else _written_number(handle)
    finally:
        os.close(handle)


def try_hold(path: Path) -> int | None:
    """Lock a file, creating it if necessary. Return None if another process holds the lock.

    The lock is released when the returned descriptor is closed or the process ends.
    """
    handle = _open(path)
    if _try_lock(handle, fcntl.LOCK_EX):
        return handle
    os.close(handle)
    return None


@contextlib.contextmanager
def taking_turns(path: Path) -> Generator[None]:
    """Wait for the lock on a file, and hold it during the block."""
    handle = _open(path)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _open(path: Path) -> int:
    """Open a lock file, creating it and its folder if necessary, without following a link."""
    with disk_errors(path):
        while True:
            make_folder(path.parent)
            # Missing again if another process removed the folder in between.
            with contextlib.suppress(FileNotFoundError):
                return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)


def _try_lock(handle: int, kind: int) -> bool:
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(handle: int, path: Path) -> bool:
    """Return whether an open file is still the file at its path."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False


def _written_number(handle: int) -> int | None:
    number = os.pread(handle, 32, 0).strip()
    return int(number) if number.isdigit() else None
