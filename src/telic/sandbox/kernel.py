"""System calls that Python has no function for."""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import sys

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


def call(number: int, *arguments: int | ctypes.c_void_p | None) -> int:
    """Make a raw system call.

    Raises:
        OSError: the kernel refused; errno says why.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    wide = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    result = libc.syscall(ctypes.c_long(number), *wide)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def prctl(option: int, *arguments: int) -> int:
    """Set a property of this process; raises OSError when the kernel refuses."""
    libc = ctypes.CDLL(None, use_errno=True)
    padded = [ctypes.c_ulong(each) for each in (*arguments, 0, 0, 0, 0)[:4]]
    result = libc.prctl(option, *padded)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent ends, however that happens."""
    if LINUX:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


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
    held = _capabilities_held()
    kept = held & (1 << _CAP_DAC_OVERRIDE)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    low, high = kept & 0xFFFFFFFF, kept >> 32
    data = (ctypes.c_uint32 * 6)(low, low, 0, high, high, 0)  # effective, permitted, inheritable
    call(_CAPSET[MACHINE], _address(header), _address(data))


def threads() -> list[str]:
    """Return the names of the threads of this process, Python's or not."""
    if not LINUX:
        return ["main"]
    names = []
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/comm") as file:
            names.append(file.read().strip())
    return names


def _capabilities_held() -> int:
    with open("/proc/self/status") as file:
        line = next(each for each in file if each.startswith("CapPrm:"))
    return int(line.split()[1], 16)


def _address(buffer: ctypes.Array[ctypes.c_uint32]) -> ctypes.c_void_p:
    return ctypes.cast(buffer, ctypes.c_void_p)
