"""Ask for disk space before work starts, and explain a full disk when it happens."""

from __future__ import annotations

import contextlib
import errno
import shutil
from collections.abc import Iterator
from pathlib import Path

from telic.errors import ResourceError, UsageError

_DISK_FULL = {errno.ENOSPC, errno.EDQUOT}
_NOT_ALLOWED = {errno.EACCES, errno.EPERM, errno.EROFS}
_FREE_HINT = (
    "Free space (in old runs, videos/ and checkpoints/ take the most) or choose another disk with "
    "--runs-dir, then run the same command again: it goes on from what was saved."
)


def free_bytes(path: Path) -> int:
    """Return the free space of the disk that holds `path`, which need not exist yet."""
    path = path.absolute()
    while not path.exists():
        path = path.parent
    return shutil.disk_usage(path).free


def require_free(path: Path, needed_bytes: int, purpose: str) -> None:
    """Raise ResourceError unless the disk of `path` has room for `needed_bytes`."""
    free = free_bytes(path)
    if free < needed_bytes:
        raise ResourceError(
            f"{purpose} needs about {_megabytes(needed_bytes)} on the disk of {path}, "
            f"which has {_megabytes(free)} free.",
            hint=_FREE_HINT,
        )


@contextlib.contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Explain a full disk (ResourceError) and a folder that refuses writing (UsageError)."""
    try:
        yield
    except OSError as error:
        if error.errno in _NOT_ALLOWED:
            raise UsageError(
                f"{path} cannot be written: {error.strerror}.",
                hint="Choose a folder you may write to with --runs-dir.",
            ) from error
        if error.errno not in _DISK_FULL:
            raise
        raise disk_full(path) from error


def disk_full(path: Path) -> ResourceError:
    """Return the error for a file that a full disk did not take."""
    return ResourceError(
        f"The disk is full: {path} could not be written ({_megabytes(free_bytes(path))} free). "
        "What was saved before is intact.",
        hint=_FREE_HINT,
    )


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.0f} MB"
