"""The system-call filter, run by a small interpreter: both machines, whatever this one is."""

import errno
import re
from pathlib import Path

import pytest

from telic.sandbox import _kernel as kernel
from telic.sandbox._kernel import AUDIT_ARCHITECTURE, NEWEST, call_numbers

PID = 4321
ALLOW, KILL = "allow", "kill"
HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}
EXTRA = {
    "x86_64": {"socket": 41, "execve": 59, "fork": 57, "ptrace": 101, "chmod": 90, "truncate": 76},
    "aarch64": {"socket": 198, "execve": 221, "ptrace": 117, "fchmodat": 53, "truncate": 45},
}


def decide(
    machine: str, number: int, *arguments: int, architecture: int | None = None
) -> str | int:
    """Run the filter on one call; return "allow", "kill" or the errno."""
    words = {0: number, 4: architecture or AUDIT_ARCHITECTURE[machine]}
    words |= {16 + 8 * index: value & 0xFFFFFFFF for index, value in enumerate(arguments)}
    code = kernel.filter_program(machine, PID)
    accumulator = position = 0
    while True:
        operation, if_true, if_false, value = code[position]
        position += 1
        match operation:
            case 0x20:
                accumulator = words.get(value, 0)
            case 0x54:
                accumulator &= value
            case 0x15:
                position += if_true if accumulator == value else if_false
            case 0x25:
                position += if_true if accumulator > value else if_false
            case 0x06:
                answers = {0x7FFF0000: ALLOW, 0x80000000: KILL}
                return answers.get(value) or value & 0xFFFF
            case _:
                raise AssertionError(f"unknown operation {operation:#x}")


@pytest.fixture(params=["x86_64", "aarch64"])
def machine(request):
    return request.param


def test_what_training_needs_is_allowed(machine):
    table = call_numbers(machine)
    for name in ("read", "write", "mmap", "futex", "newfstatat", "exit_group", "getrandom"):
        assert decide(machine, table[name]) == ALLOW, name
    assert decide(machine, table["clone"], 0x3D0F00) == ALLOW
    assert decide(machine, table["openat"], 0, 0, 0o1101) == ALLOW


def test_what_is_not_in_the_table_is_refused(machine):
    for name, number in EXTRA[machine].items():
        assert decide(machine, number) == errno.EPERM, name


def test_calls_are_refused_by_their_arguments(machine):
    table = call_numbers(machine)
    assert decide(machine, table["clone"], 17) == errno.EPERM
    assert decide(machine, table["kill"], PID) == ALLOW
    assert decide(machine, table["kill"], PID + 1) == errno.EPERM
    assert decide(machine, table["kill"], -1) == errno.EPERM
    assert decide(machine, table["tgkill"], PID, 5, 6) == ALLOW
    assert decide(machine, table["prlimit64"], 0) == ALLOW
    assert decide(machine, table["prlimit64"], 1) == errno.EPERM
    assert decide(machine, table["prctl"], 15) == ALLOW
    assert decide(machine, table["prctl"], 1) == errno.EPERM
    assert decide(machine, table["ioctl"], 0, 0x5401) == ALLOW
    assert decide(machine, table["ioctl"], 0, 0x5412) == errno.EPERM
    assert decide(machine, table["fcntl"], 0, 8) == errno.EPERM
    assert decide(machine, table["openat"], 0, 0, 0o1000) == errno.EPERM


def test_newer_calls_and_clone3_look_missing_so_that_libraries_fall_back(machine):
    assert decide(machine, call_numbers(machine)["clone3"]) == errno.ENOSYS
    assert decide(machine, NEWEST[machine] + 1) == errno.ENOSYS
    assert decide(machine, 0x40000000 + 41) == errno.ENOSYS


def test_calls_of_another_machine_type_end_the_process(machine):
    assert decide(machine, 1, architecture=0x40000003) == KILL


def test_numbers_agree_with_the_kernel_headers(machine):
    header = HEADERS[machine]
    if not header.exists():
        pytest.skip(f"{header} is not installed")
    found = re.findall(r"#define (?:__NR_|__NR3264_)(\w+) (\d+)", header.read_text())
    known = {name: int(number) for name, number in found}
    known["newfstatat"] = known.get("newfstatat", known.get("fstatat", -1))
    for name, number in (call_numbers(machine) | EXTRA[machine]).items():
        assert known[name] == number, name
