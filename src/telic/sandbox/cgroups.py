"""Limits by control group (cgroup v2): the kernel counts what a worker uses, and ends it itself.

A group is made for each worker below one that this process may write to, and removed with it:

    memory.max memory.swap.max     what it uses, shared memory and files in memory included
    pids.max                       its threads
    cpu.max                        its share of the processors, where one was asked for

The kernel has rules that decide where a group can be. Below a group with processes none can have
limits, so ours is made beside the group of this process, or this process, if it is alone there,
moves into a leaf first. Never beside a group with limits of its own: the worker would escape them.
Where there is no such place, rlimits and the watch from outside remain; `telic doctor` says why.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from telic.sandbox.limits import Limits

_NEEDED = frozenset({"memory", "pids"})
_MARK = "telic-"
_LEAF = f"{_MARK}host-"
_PERIOD_US = 100_000
_REMOVAL_S = 2.0
_numbers = itertools.count(1)


class GroupHome(NamedTuple):
    """Where groups of workers are made; None, and why, where that is not possible."""

    path: Path | None
    why: str


class WorkerGroup:
    """The control group of one worker."""

    def __init__(self, path: Path, limits: Limits) -> None:
        """Make the group; raises OSError when the kernel does not allow it."""
        self.path = path
        path.mkdir()
        try:
            self._write("memory.max", limits.memory_bytes)
            # Without swap in this kernel there is no such file.
            if (path / "memory.swap.max").exists() or not (path / "memory.current").exists():
                self._write("memory.swap.max", 0)
            # One more than is allowed, which is what the watch sees and explains.
            self._write("pids.max", limits.threads + 1)
            if limits.processors is not None:
                quota = max(1_000, int(limits.processors * _PERIOD_US))
                self._write("cpu.max", f"{quota} {_PERIOD_US}")
        except OSError:
            self.remove()
            raise

    def admit(self, pid: int) -> None:
        """Move a process in."""
        self._write("cgroup.procs", pid)

    @property
    def was_out_of_memory(self) -> bool:
        """Whether the kernel ended something in it for lack of memory."""
        return _counts(self.path / "memory.events").get("oom_kill", 0) > 0

    @property
    def peak_bytes(self) -> int | None:
        """The most memory it used; None where the kernel does not say."""
        text = _read(self.path / "memory.peak").strip()
        return int(text) if text.isdigit() else None

    def remove(self) -> None:
        """Remove it; its processes have been ended."""
        deadline = time.monotonic() + _REMOVAL_S
        while not _removed(self.path) and time.monotonic() < deadline:
            time.sleep(0.005)  # the kernel takes a moment to bury a process

    def _write(self, name: str, value: object) -> None:
        (self.path / name).write_text(str(value))


def group_for(pid: int, limits: Limits, home: GroupHome | None = None) -> WorkerGroup | None:
    """Put a process that has run nothing foreign into a group of its own; None where there is none.

    What a killed host left behind is removed first.
    """
    home = home or find_home()
    if home.path is None:
        return None
    remove_stale_groups(home.path)
    name = f"{_MARK}{os.getpid()}-{_start_of(os.getpid())}-{next(_numbers)}"
    try:
        group = WorkerGroup(home.path / name, limits)
    except OSError:
        return None
    try:
        group.admit(pid)
    except OSError:
        group.remove()
        return None
    return group


def remove_stale_groups(home: Path) -> list[Path]:
    """Remove the groups of hosts that are gone and return them; others are left alone."""
    left = [path for path in home.glob(f"{_MARK}*") if path.is_dir() and not _has_owner(path.name)]
    return [path for path in left if _removed(path)]


def find_home(
    proc: Path = Path("/proc"), pid: int | None = None, *, may_move: bool = True
) -> GroupHome:
    """Return where groups can be made.

    Args:
        proc: where the kernel tells about processes.
        pid: the process whose place counts; None for this one.
        may_move: whether this process may be moved into a leaf, if it is alone in its group.
    """
    pid = pid or os.getpid()
    mount = _mount(proc)
    if mount is None:
        return GroupHome(None, "no cgroup v2 is mounted here")
    own = _own_group(proc, mount)
    if own is None:
        return GroupHome(None, "this process is in no cgroup v2")
    missing = _NEEDED - set(_read(own / "cgroup.controllers").split())
    if missing:
        listed = " and ".join(sorted(missing))
        return GroupHome(None, f"cgroup v2 does not have {listed} here (cgroup v1 may hold them)")
    for group in _above(own, mount.path):
        if set(_read(group / "cgroup.subtree_control").split()) >= _NEEDED and _is_writable(group):
            return GroupHome(group, "")
        if has_limits(group):
            break
    if not _is_writable(own):
        return GroupHome(None, f"{own} is not delegated to this user")
    return _move_into_leaf(own, pid, proc, may_move)


def has_limits(group: Path) -> bool:
    """Say whether memory or CPU of a group is limited."""
    memory, share = _read(group / "memory.max").strip(), _read(group / "cpu.max").split()
    cores = _read(group / "cpuset.cpus").strip()
    return memory not in ("", "max") or (bool(share) and share[0] != "max") or bool(cores)


def _move_into_leaf(own: Path, pid: int, proc: Path, may_move: bool) -> GroupHome:
    """Make room for groups below the own one, which may then hold no process itself."""
    inside = {int(number) for number in _read(own / "cgroup.procs").split()}
    strangers = [each for each in inside - {pid} if _parent_of(each, proc) != pid]
    if strangers:
        return GroupHome(None, f"{own} holds other processes, so groups below it get no limits")
    if not may_move:
        return GroupHome(own, "")
    try:
        leaf = own / f"{_LEAF}{pid}-{_start_of(pid)}"
        leaf.mkdir(exist_ok=True)
        for each in inside:
            (leaf / "cgroup.procs").write_text(str(each))
        (own / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in _NEEDED))
    except OSError as error:
        return GroupHome(None, f"{own} cannot be divided: {error.strerror}")
    return GroupHome(own, "")


class _Mount(NamedTuple):
    path: Path
    root: str
    """the group that is mounted there"""


def _mount(proc: Path) -> _Mount | None:
    for line in _read(proc / "self" / "mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        if after.split(" ")[0] == "cgroup2":
            fields = before.split(" ")
            return _Mount(Path(fields[4]), fields[3])
    return None


def _own_group(proc: Path, mount: _Mount) -> Path | None:
    for line in _read(proc / "self" / "cgroup").splitlines():
        if line.startswith("0::"):
            place = os.path.relpath(line.removeprefix("0::"), mount.root)
            found = mount.path / place
            return None if place.startswith("..") or not found.is_dir() else found
    return None


def _above(own: Path, top: Path) -> Iterator[Path]:
    """Yield a group and those above it, as far as they are mounted."""
    yield own
    while own != top:
        own = own.parent
        yield own


def _is_writable(group: Path) -> bool:
    return os.access(group, os.W_OK) and os.access(group / "cgroup.procs", os.W_OK)


def _has_owner(name: str) -> bool:
    """Say whether the host that made a group is alive."""
    pid, _, rest = name.removeprefix(_LEAF).removeprefix(_MARK).partition("-")
    started = rest.partition("-")[0]
    return not pid.isdigit() or str(_start_of(int(pid))) == started


def _start_of(pid: int) -> int:
    """Return when a process began, in ticks since boot; 0 when there is none."""
    fields = _read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    return int(fields[19]) if len(fields) > 19 else 0


def _parent_of(pid: int, proc: Path) -> int:
    fields = _read(proc / str(pid) / "stat").rpartition(")")[2].split()
    return int(fields[1]) if len(fields) > 1 else 0


def _removed(path: Path) -> bool:
    """Remove a group that holds no process; say whether it is gone."""
    with contextlib.suppress(OSError):
        path.rmdir()
    return not path.exists()


def _counts(path: Path) -> dict[str, int]:
    rows = (line.split() for line in _read(path).splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdigit()}


def _read(path: Path) -> str:
    """Return what the kernel says; nothing where it says nothing."""
    try:
        return path.read_text()
    except OSError:
        return ""
