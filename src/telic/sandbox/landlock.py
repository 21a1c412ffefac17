"""Landlock: the kernel's own file, network and signal rules for this process and its threads.

A rule set once in force can only be tightened. It covers the calling thread and what that thread
starts later; other threads that already run are covered from ABI 8 on (`SYNC_ABI`).
Not covered by it, hence refused by `seccomp`: chmod, chown, extended attributes, times.
"""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from telic.sandbox.kernel import LINUX, call

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION_FLAG = 1
_PATH_BENEATH = 1
_SYNC_THREADS = 1 << 3
SYNC_ABI = 8

WRITE_FILE = 1 << 1
READ_FILE = 1 << 2
READ_DIR = 1 << 3
REMOVE = 1 << 4 | 1 << 5
MAKE_DIR = 1 << 7
MAKE_FILE = 1 << 8
REFER = 1 << 13  # rename between folders, ABI 2
TRUNCATE = 1 << 14  # ABI 3
DEVICE_IOCTL = 1 << 15  # ABI 5

READ = READ_FILE | READ_DIR
# No symbolic links, sockets, pipes or devices: a reader outside could be led astray by them.
WRITE = READ | WRITE_FILE | REMOVE | MAKE_DIR | MAKE_FILE | REFER | TRUNCATE
DEVICE = READ_FILE | WRITE_FILE | DEVICE_IOCTL
_OF_A_FILE = READ_FILE | WRITE_FILE | TRUNCATE | DEVICE_IOCTL

# Number of file rights known to each ABI: all that are known are denied unless granted.
_RIGHTS_OF_ABI = {1: 13, 2: 14, 3: 15, 4: 15}
_RIGHTS_NEWEST = 16


class _Ruleset(ctypes.Structure):
    _fields_ = (
        ("files", ctypes.c_uint64),
        ("network", ctypes.c_uint64),
        ("scoped", ctypes.c_uint64),
    )


class _PathRule(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("rights", ctypes.c_uint64), ("parent", ctypes.c_int32))


def abi() -> int:
    """Return the version of Landlock this kernel has, 0 when it has none."""
    if not LINUX:
        return 0
    try:
        return call(_CREATE_RULESET, None, 0, _VERSION_FLAG)
    except OSError:
        return 0


def restrict(grants: Iterable[tuple[Path, int]], version: int) -> None:
    """Confine this thread and its future ones to the granted paths; no network, no foreign signals.

    Args:
        grants: pairs of a file or folder and the rights on all beneath it; missing ones are
            skipped.
        version: what `abi` returned.
    """
    handled = (1 << _RIGHTS_OF_ABI.get(version, _RIGHTS_NEWEST)) - 1
    rules = _Ruleset(handled, 0b11 if version >= 4 else 0, 0b11 if version >= 6 else 0)
    # Older kernels accept a longer record as long as what they do not know is zero.
    ruleset = call(_CREATE_RULESET, _pointer(rules), ctypes.sizeof(rules), 0)
    try:
        for path, rights in grants:
            _grant(ruleset, path, rights & handled)
        call(_RESTRICT_SELF, ruleset, _SYNC_THREADS if version >= SYNC_ABI else 0)
    finally:
        os.close(ruleset)


def _grant(ruleset: int, path: Path, rights: int) -> None:
    try:
        parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError, NotADirectoryError):
        return
    try:
        is_folder = stat.S_ISDIR(os.fstat(parent).st_mode)
        rule = _PathRule(rights if is_folder else rights & _OF_A_FILE, parent)
        call(_ADD_RULE, ruleset, _PATH_BENEATH, _pointer(rule), 0)
    finally:
        os.close(parent)


def _pointer(record: ctypes.Structure) -> ctypes.c_void_p:
    return ctypes.cast(ctypes.pointer(record), ctypes.c_void_p)
