"""A lock made of a file, for network disks: it names its owner, and expires unless renewed."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
import threading
import time
from pathlib import Path
from typing import Any

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


class Lease:
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
        owner = _read(self.path)
        if owner is None or not _is_dead(owner):
            return None
        # Of several who see the dead one, the rename lets exactly one remove it.
        grave = self.path.with_name(f"{self.path.name}.dead-{self._token}")
        try:
            os.rename(self.path, grave)
        except FileNotFoundError:
            return None
        taken = _read(grave)
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
        return (_read(self.path) or {}).get("token") == self._token


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


def _read(path: Path) -> dict[str, Any] | None:
    """Return what a lease says; None when it is gone."""
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
