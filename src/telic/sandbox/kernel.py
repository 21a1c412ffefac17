"""System calls that Python has no function for, and Landlock, the kernel's own file rules.

A Landlock rule set once in force can only be tightened. It covers the calling thread and what that
thread starts later; other threads that already run are covered from ABI 8 on (`SYNC_ABI`). Not
covered by it, hence refused by `seccomp`: chmod, chown, extended attributes, times.
"""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import stat
import sys
from collections.abc import Iterable
from pathlib import Path

PR_SET_PDEATHSIG = 1
PR_CAPBSET_DROP = 24
PR_SET_NO_NEW_PRIVS = 38

LINUX = sys.platform == "linux"
MACHINE = platform.machine()

_CAPABILITY_VERSION_3 = 0x20080522
_CAPSET = {"x86_64": 126, "aarch64": 91}
# A run folder may belong to another user than the root of a container: keep write access to it.
_CAP_DAC_OVERRIDE = 1
_LAST_CAPABILITY = 63

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
EXECUTE = 1 << 0
# No symbolic links, sockets, pipes or devices: a reader outside could be led astray by them.
WRITE = READ | WRITE_FILE | REMOVE | MAKE_DIR | MAKE_FILE | REFER | TRUNCATE
DEVICE = READ_FILE | WRITE_FILE | DEVICE_IOCTL
_OF_A_FILE = EXECUTE | READ_FILE | WRITE_FILE | TRUNCATE | DEVICE_IOCTL

# Number of file rights known to each ABI: all that are known are denied unless granted.
_RIGHTS_OF_ABI = {1: 13, 2: 14, 3: 15, 4: 15}
_RIGHTS_NEWEST = 16


def call(number: int, *arguments: int | ctypes.c_void_p | None) -> int:
    """Make a raw system call.

    Raises:
        OSError: the kernel refused; errno says why.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    wide = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    return _checked(libc.syscall(ctypes.c_long(number), *wide))


def prctl(option: int, *arguments: int) -> int:
    """Set a property of this process; raises OSError when the kernel refuses."""
    libc = ctypes.CDLL(None, use_errno=True)
    padded = [ctypes.c_ulong(each) for each in (*arguments, 0, 0, 0, 0)[:4]]
    return _checked(libc.prctl(option, *padded))


def _checked(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def die_with_parent(number: signal.Signals = signal.SIGKILL) -> None:
    """Have the kernel end this process when its parent ends, however that happens."""
    if LINUX:
        prctl(PR_SET_PDEATHSIG, number)


def forbid_new_privileges() -> None:
    """Give up set-user-id programs for good; Landlock and seccomp ask for it."""
    prctl(PR_SET_NO_NEW_PRIVS, 1)


def drop_capabilities() -> None:
    """Give up every power of root but writing to files that the mode bits would deny."""
    if MACHINE not in _CAPSET:
        raise NotImplementedError(f"the number of the call is not known on {MACHINE}")
    for capability in range(_LAST_CAPABILITY + 1):
        if capability != _CAP_DAC_OVERRIDE:
            try:
                prctl(PR_CAPBSET_DROP, capability)
            except OSError:  # an ordinary user has none to drop; this kernel knows fewer
                break
    permitted = _capabilities_held()
    remaining = permitted & (1 << _CAP_DAC_OVERRIDE)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    low, high = remaining & 0xFFFFFFFF, remaining >> 32
    data = (ctypes.c_uint32 * 6)(low, low, 0, high, high, 0)  # effective, permitted, inheritable
    call(_CAPSET[MACHINE], _pointer(header), _pointer(data))


def threads() -> list[str]:
    """Return the names of the threads of this process, Python's or not."""
    if not LINUX:
        return ["main"]
    names: list[str] = []
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/comm") as file:
            names.append(file.read().strip())
    return names


def _capabilities_held() -> int:
    with open("/proc/self/status") as file:
        line = next(each for each in file if each.startswith("CapPrm:"))
    return int(line.split()[1], 16)


class _Ruleset(ctypes.Structure):
    _fields_ = (
        ("files", ctypes.c_uint64),
        ("network", ctypes.c_uint64),
        ("scoped", ctypes.c_uint64),
    )


class _PathRule(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("rights", ctypes.c_uint64), ("parent", ctypes.c_int32))


def landlock_abi() -> int:
    """Return the version of Landlock this kernel has, 0 when it has none."""
    if not LINUX:
        return 0
    try:
        return call(_CREATE_RULESET, None, 0, _VERSION_FLAG)
    except OSError:
        return 0


def restrict_files(grants: Iterable[tuple[Path, int]], version: int) -> None:
    """Confine this thread and its future ones to the granted paths; no network, no foreign signals.

    Args:
        grants: pairs of a file or folder and the rights on all beneath it; missing ones are
            skipped.
        version: what `landlock_abi` returned.
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


def _pointer(record: ctypes.Structure | ctypes.Array[ctypes.c_uint32]) -> ctypes.c_void_p:
    return ctypes.cast(ctypes.pointer(record), ctypes.c_void_p)
