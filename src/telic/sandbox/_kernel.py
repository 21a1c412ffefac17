"""Kernel confinement by Landlock file rules and a system-call filter (seccomp).

Once enforced, Landlock rules can only be tightened. They cover the calling thread and the threads
that it starts later, and from ABI 8 on (`SYNC_ABI`) all running threads. The filter refuses file
operations that Landlock does not cover: chmod, chown, extended attributes and times.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import stat
import struct
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

PR_CAPBSET_DROP = 24
PR_SET_NO_NEW_PRIVS = 38

LINUX = sys.platform == "linux"
MACHINE = platform.machine()

_CAPABILITY_VERSION_3 = 0x20080522
_CAPSET = {"x86_64": 126, "aarch64": 91}
# A run folder may belong to a user other than the container's root: keep write access to it.
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
# No symbolic links, sockets, pipes or devices, which could mislead a reader outside.
WRITE = READ | WRITE_FILE | REMOVE | MAKE_DIR | MAKE_FILE | REFER | TRUNCATE
DEVICE = READ_FILE | WRITE_FILE | DEVICE_IOCTL
_OF_A_FILE = EXECUTE | READ_FILE | WRITE_FILE | TRUNCATE | DEVICE_IOCTL

# Number of file rights per ABI: all known rights are denied unless granted.
_RIGHTS_OF_ABI = {1: 13, 2: 14, 3: 15, 4: 15}
_RIGHTS_NEWEST = 16


def call(number: int, *arguments: int | ctypes.c_void_p | None) -> int:
    """Make a raw system call. Raises OSError if the kernel refuses."""
    libc = _libc()
    libc.syscall.restype = ctypes.c_long
    wide = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    return _checked(libc.syscall(ctypes.c_long(number), *wide))


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def prctl(option: int, *arguments: int) -> int:
    """Set an attribute of this process. Raises OSError if the kernel refuses."""
    libc = _libc()
    padded = [ctypes.c_ulong(each) for each in (*arguments, 0, 0, 0, 0)[:4]]
    return _checked(libc.prctl(option, *padded))


def _checked(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def forbid_new_privileges() -> None:
    """Disable set-user-id programs permanently, which Landlock and seccomp require."""
    prctl(PR_SET_NO_NEW_PRIVS, 1)


def drop_capabilities() -> None:
    """Drop all capabilities except the one that bypasses write permissions of files."""
    if MACHINE not in _CAPSET:
        raise NotImplementedError(f"the number of this system call is unknown on {MACHINE}")
    for capability in range(_LAST_CAPABILITY + 1):
        if capability != _CAP_DAC_OVERRIDE:
            try:
                prctl(PR_CAPBSET_DROP, capability)
            except OSError:  # not held by an ordinary user, or unknown to this kernel
                break
    permitted = _capabilities_held()
    remaining = permitted & (1 << _CAP_DAC_OVERRIDE)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    low, high = remaining & 0xFFFFFFFF, remaining >> 32
    data = (ctypes.c_uint32 * 6)(low, low, 0, high, high, 0)  # effective, permitted, inheritable
    call(_CAPSET[MACHINE], _pointer(header), _pointer(data))


def threads() -> list[str]:
    """Return the names of all threads of this process, including native threads."""
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
    """Return the Landlock ABI version of this kernel, or 0 if it is not supported."""
    if not LINUX:
        return 0
    try:
        return call(_CREATE_RULESET, None, 0, _VERSION_FLAG)
    except OSError:
        return 0


def restrict_files(grants: Iterable[tuple[Path, int]], version: int) -> None:
    """Confine this thread and its new threads to the granted paths, without network and signals."""
    handled = (1 << _RIGHTS_OF_ABI.get(version, _RIGHTS_NEWEST)) - 1
    rules = _Ruleset(handled, 0b11 if version >= 4 else 0, 0b11 if version >= 6 else 0)
    # Older kernels accept a longer struct if the unknown fields are zero.
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


# ---- the filter

# Applies to all threads of this process; assembled manually. The calls in the table are allowed,
# some only with harmless arguments. Excluded: sockets, programs, child processes, signals to
# others, ptrace, mounts and namespaces, modes and owners of files, links, kernel interfaces.
# Refused calls fail with EPERM, so that the caller gets an ordinary error.

NEWEST = {"x86_64": 450, "aarch64": 450}
"""Calls above this number are newer than the table and fail as on an older kernel."""

AUDIT_ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

_TABLE = Path(__file__).with_name("system_calls.txt").read_text()


_CHILDREN = ", fork 57 -, vfork 58 -, execve 59 221, wait4 61 260, waitid 247 95"
"""calls for a process that starts trusted programs, e.g. ffmpeg for rendering"""


def call_numbers(machine: str, table: str = _TABLE) -> dict[str, int]:
    """Return the numbers of the system calls in the table that exist on this machine."""
    column = {"x86_64": 1, "aarch64": 2}[machine]
    rows = [row.split() for row in table.split(",")]
    return {row[0]: int(row[column]) for row in rows if row[column] != "-"}


_SECCOMP = {"x86_64": 317, "aarch64": 277}
_SET_MODE_FILTER = 1
_FILTER_THREADS = 1

_LOAD, _AND = 0x20, 0x54
_JUMP_EQUAL, _JUMP_GREATER = 0x15, 0x25
_RETURN = 0x06
_ALLOW = 0x7FFF0000
_KILL = 0x80000000
_ERRNO = 0x00050000
_OFFSET_NUMBER, _OFFSET_ARCHITECTURE, _OFFSET_ARGUMENTS = 0, 4, 16

_CLONE_THREAD = 0x10000
_CLONE_NAMESPACES = 0x7E020000
_ANY_BIT = 0xFFFFFFFF
_TRUNCATE, _ACCESS_MODE = 0o1000, 0o3
# set/get name, get seccomp, capability and no-new-privileges state, name memory. Not PDEATHSIG.
_PRCTLS = (15, 16, 21, 23, 39, 0x53564D41)
# Push input to a terminal; control its driver.
_TERMINAL_IOCTLS = (0x5412, 0x541C)
# Deliver signals to another process.
_SIGNAL_FCNTLS = (8, 10, 15)

Instruction = tuple[int, int, int, int]


class ArgumentRule(NamedTuple):
    """Rule that allows a call if (argument & mask) is, or is not, one of the values."""

    argument: int
    values: tuple[int, ...]
    mask: int = _ANY_BIT
    allows: bool = True


def argument_rules(pid: int, children: bool = False) -> dict[str, ArgumentRule]:
    """Return the system calls that are allowed only with specific arguments."""
    threads = ArgumentRule(0, (_CLONE_THREAD,), mask=_CLONE_THREAD)
    no_namespaces = ArgumentRule(0, (0,), mask=_CLONE_NAMESPACES)
    read_only_truncate = ArgumentRule(1, (_TRUNCATE,), _TRUNCATE | _ACCESS_MODE, allows=False)
    return {
        "clone": no_namespaces if children else threads,
        "fcntl": ArgumentRule(1, _SIGNAL_FCNTLS, allows=False),
        "ioctl": ArgumentRule(1, _TERMINAL_IOCTLS, allows=False),
        "kill": ArgumentRule(0, (pid,)),
        "open": read_only_truncate,
        "openat": read_only_truncate._replace(argument=2),
        "prctl": ArgumentRule(0, _PRCTLS),
        "prlimit64": ArgumentRule(0, (0, pid)),
        "sched_setaffinity": ArgumentRule(0, (0, pid)),
        "tgkill": ArgumentRule(0, (pid,)),
    }


def filter_program(machine: str, pid: int, children: bool = False) -> list[Instruction]:
    """Assemble the filter for a machine and a process, which may be allowed to have children."""
    refuse, unknown = _ERRNO | errno.EPERM, _ERRNO | errno.ENOSYS
    code: list[Instruction] = [
        (_LOAD, 0, 0, _OFFSET_ARCHITECTURE),
        (_JUMP_EQUAL, 1, 0, AUDIT_ARCHITECTURE[machine]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _OFFSET_NUMBER),
        (_JUMP_GREATER, 0, 1, NEWEST[machine]),
        (_RETURN, 0, 0, unknown),
    ]
    table = call_numbers(machine, _TABLE + _CHILDREN if children else _TABLE)
    # Its flags are in memory, which a filter cannot read; on ENOSYS libc falls back to clone.
    code += _when(table.pop("clone3"), [(_RETURN, 0, 0, unknown)])
    for name, condition in argument_rules(pid, children).items():
        if name in table:
            code += _when(table.pop(name), _decide(condition, refuse))
    for number in table.values():
        code += _when(number, [(_RETURN, 0, 0, _ALLOW)])
    return [*code, (_RETURN, 0, 0, refuse)]


def _when(number: int, body: list[Instruction]) -> list[Instruction]:
    return [(_JUMP_EQUAL, 0, len(body), number), *body]


def _decide(condition: ArgumentRule, refuse: int) -> list[Instruction]:
    inside, outside = (_ALLOW, refuse) if condition.allows else (refuse, _ALLOW)
    body: list[Instruction] = [
        (_LOAD, 0, 0, _OFFSET_ARGUMENTS + 8 * condition.argument),  # low half, little-endian
        (_AND, 0, 0, condition.mask),
    ]
    for value in condition.values:
        body += [(_JUMP_EQUAL, 0, 1, value), (_RETURN, 0, 0, inside)]
    return [*body, (_RETURN, 0, 0, outside)]


def has_filter() -> bool:
    """Return whether the filter supports this machine's architecture."""
    return LINUX and MACHINE in AUDIT_ARCHITECTURE


def install_filter(children: bool = False) -> None:
    """Enforce the filter permanently in all threads. The process must have no-new-privileges set.

    If `children` is true, programs may be started, which inherit the filter and the file rules.
    Raises OSError if the kernel has no seccomp filters or a thread could not be covered.
    """
    code = b"".join(
        struct.pack("HBBI", *each) for each in filter_program(MACHINE, os.getpid(), children)
    )
    buffer = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(buffer))
    holder = ctypes.create_string_buffer(header, len(header))
    pointer = ctypes.cast(holder, ctypes.c_void_p)
    uncovered = call(_SECCOMP[MACHINE], _SET_MODE_FILTER, _FILTER_THREADS, pointer)
    if uncovered:
        raise OSError(errno.ESRCH, f"the filter could not be applied to thread {uncovered}")
