"""A system-call filter for this process and all its threads, assembled by hand.

Allowed are the calls of `syscalls`, some of them only with harmless arguments. What is left out:
sockets, programs, child processes, signals to others, ptrace, mounts and namespaces, modes and
owners of files, links, kernel interfaces. Refused calls fail with EPERM, so that the caller gets an
ordinary error.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from typing import NamedTuple

from telic.sandbox.kernel import LINUX, MACHINE, call
from telic.sandbox.syscalls import AUDIT_ARCHITECTURE, NEWEST, numbers

_SECCOMP = {"x86_64": 317, "aarch64": 277}
_SET_MODE_FILTER = 1
_SYNC_THREADS = 1

_LOAD, _AND = 0x20, 0x54
_JUMP_EQUAL, _JUMP_GREATER = 0x15, 0x25
_RETURN = 0x06
_ALLOW = 0x7FFF0000
_KILL = 0x80000000
_ERRNO = 0x00050000
_OFFSET_NUMBER, _OFFSET_ARCHITECTURE, _OFFSET_ARGUMENTS = 0, 4, 16

_CLONE_THREAD = 0x10000
_ANY_BIT = 0xFFFFFFFF
_TRUNCATE, _ACCESS_MODE = 0o1000, 0o3
# set/get name, get seccomp, capability and no-new-privileges state, name memory. Not PDEATHSIG.
_PRCTLS = (15, 16, 21, 23, 39, 0x53564D41)
# Push input to a terminal; talk to its driver.
_TERMINAL_IOCTLS = (0x5412, 0x541C)
# Have signals sent to another process.
_SIGNAL_FCNTLS = (8, 10, 15)

Instruction = tuple[int, int, int, int]


class Condition(NamedTuple):
    """Allow a call when (argument & mask) is, or is not, one of the values."""

    argument: int
    values: tuple[int, ...]
    mask: int = _ANY_BIT
    allows: bool = True


def conditions(pid: int) -> dict[str, Condition]:
    """Return the calls that are allowed only with certain arguments."""
    read_only_truncate = {"values": (_TRUNCATE,), "mask": _TRUNCATE | _ACCESS_MODE, "allows": False}
    return {
        "clone": Condition(0, (_CLONE_THREAD,), mask=_CLONE_THREAD),
        "fcntl": Condition(1, _SIGNAL_FCNTLS, allows=False),
        "ioctl": Condition(1, _TERMINAL_IOCTLS, allows=False),
        "kill": Condition(0, (pid,)),
        "open": Condition(1, **read_only_truncate),
        "openat": Condition(2, **read_only_truncate),
        "prctl": Condition(0, _PRCTLS),
        "prlimit64": Condition(0, (0, pid)),
        "sched_setaffinity": Condition(0, (0, pid)),
        "tgkill": Condition(0, (pid,)),
    }


def program(machine: str, pid: int) -> list[Instruction]:
    """Assemble the filter for a machine and a process."""
    refuse, unknown = _ERRNO | errno.EPERM, _ERRNO | errno.ENOSYS
    code: list[Instruction] = [
        (_LOAD, 0, 0, _OFFSET_ARCHITECTURE),
        (_JUMP_EQUAL, 1, 0, AUDIT_ARCHITECTURE[machine]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _OFFSET_NUMBER),
        (_JUMP_GREATER, 0, 1, NEWEST[machine]),
        (_RETURN, 0, 0, unknown),
    ]
    table = numbers(machine)
    # Its flags lie in memory, out of reach; told that it is missing, libc falls back to clone.
    code += _when(table.pop("clone3"), [(_RETURN, 0, 0, unknown)])
    for name, condition in conditions(pid).items():
        if name in table:
            code += _when(table.pop(name), _decide(condition, refuse))
    for number in table.values():
        code += _when(number, [(_RETURN, 0, 0, _ALLOW)])
    return [*code, (_RETURN, 0, 0, refuse)]


def _when(number: int, body: list[Instruction]) -> list[Instruction]:
    return [(_JUMP_EQUAL, 0, len(body), number), *body]


def _decide(condition: Condition, refuse: int) -> list[Instruction]:
    inside, outside = (_ALLOW, refuse) if condition.allows else (refuse, _ALLOW)
    body: list[Instruction] = [
        (_LOAD, 0, 0, _OFFSET_ARGUMENTS + 8 * condition.argument),  # the low half, little-endian
        (_AND, 0, 0, condition.mask),
    ]
    for value in condition.values:
        body += [(_JUMP_EQUAL, 0, 1, value), (_RETURN, 0, 0, inside)]
    return [*body, (_RETURN, 0, 0, outside)]


def supported() -> bool:
    """Say whether the filter is written for this machine."""
    return LINUX and MACHINE in AUDIT_ARCHITECTURE


def install() -> None:
    """Put the filter in force in every thread, for good. Needs no-new-privileges.

    Raises:
        OSError: the kernel has no seccomp filters, or a thread could not be covered.
    """
    code = b"".join(struct.pack("HBBI", *each) for each in program(MACHINE, os.getpid()))
    buffer = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(buffer))
    holder = ctypes.create_string_buffer(header, len(header))
    pointer = ctypes.cast(holder, ctypes.c_void_p)
    uncovered = call(_SECCOMP[MACHINE], _SET_MODE_FILTER, _SYNC_THREADS, pointer)
    if uncovered:
        raise OSError(errno.ESRCH, f"thread {uncovered} could not be covered by the filter")
