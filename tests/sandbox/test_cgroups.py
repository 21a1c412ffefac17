"""Limits by control group: among plain files, and in the real hierarchy where there is one."""

import os
import shutil
from pathlib import Path

import pytest

from telic.errors import ResourceError
from telic.sandbox import cgroups, host
from telic.sandbox.cgroups import GroupHome, find_home, group_for, remove_stale_groups
from telic.sandbox.host import run_worker
from telic.sandbox.limits import MEBIBYTE, Limits
from telic.training.machine import examine

BOTH = "cpu io memory pids"
HOME = find_home(may_move=False)
LIMITS = Limits(memory_bytes=64 * MEBIBYTE, threads=40, processors=1.5)


class FakeHierarchy:
    """Groups as folders of plain files, and the two files that say where a process is."""

    def __init__(self, folder: Path, own: str, root: str = "/") -> None:
        self.top, self.proc = folder / "cgroup", folder / "proc"
        (self.proc / "self").mkdir(parents=True)
        self.own = self.group(os.path.relpath(own, root))
        (self.proc / "self" / "mountinfo").write_text(
            "22 1 0:20 / /proc rw - proc proc rw\n"
            f"30 22 0:26 {root} {self.top} rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
        )
        (self.proc / "self" / "cgroup").write_text(f"1:name=systemd:/x\n0::{own}\n")

    def group(self, path: str, divided: str = "", processes: str = "", **limits: str) -> Path:
        group = self.top / path
        for each in (group, *group.parents):
            if each.is_relative_to(self.top):
                each.mkdir(parents=True, exist_ok=True)
                for name, text in (("controllers", BOTH), ("subtree_control", ""), ("procs", "")):
                    if not (each / f"cgroup.{name}").exists():
                        (each / f"cgroup.{name}").write_text(text)
        (group / "cgroup.subtree_control").write_text(divided)
        (group / "cgroup.procs").write_text(processes)
        for name, text in limits.items():
            (group / name.replace("_", ".")).write_text(text)
        return group

    def find(self, **options) -> GroupHome:
        return find_home(self.proc, **options)


@pytest.fixture(autouse=True)
def folders_are_removed(monkeypatch):
    """The kernel removes the files of a group with it; a file system does not."""

    def removed(path: Path) -> bool:
        if not str(path).startswith("/sys"):
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.rmdir()
        return not path.exists()

    if HOME.path is None:
        monkeypatch.setattr(cgroups, "_removed", removed)


def test_groups_are_made_beside_the_own_one_where_the_parent_is_divided(tmp_path):
    fake = FakeHierarchy(tmp_path, "/user.slice/app.slice/shell.scope")
    fake.group("user.slice/app.slice", divided="memory pids")
    fake.own.joinpath("cgroup.procs").write_text("1\n2\n")
    assert fake.find() == GroupHome(fake.top / "user.slice" / "app.slice", "")


@pytest.mark.parametrize(
    "limit", [{"memory_max": "1000000"}, {"cpu_max": "50000 100000"}, {"cpuset_cpus": "0-1"}]
)
def test_a_worker_does_not_escape_limits_that_somebody_set(tmp_path, limit):
    fake = FakeHierarchy(tmp_path, "/jobs/one")
    fake.group("jobs", divided="cpu memory pids")
    assert fake.find().path is not None
    fake.group("jobs/one", processes="1\n", **limit)
    found = fake.find()
    assert found.path is None and "other processes" in found.why


def test_a_process_that_is_alone_in_its_group_moves_into_a_leaf(tmp_path):
    fake = FakeHierarchy(tmp_path, "/")
    fake.group(".", processes=f"{os.getpid()}\n")
    assert fake.find(may_move=False) == GroupHome(fake.top, "")
    assert not list(fake.top.glob("telic-*")), "looking changes nothing"
    assert fake.find() == GroupHome(fake.top, "")
    (leaf,) = fake.top.glob("telic-host-*")
    assert (leaf / "cgroup.procs").read_text() == str(os.getpid())
    asked = (fake.top / "cgroup.subtree_control").read_text().split()
    assert sorted(asked) == ["+memory", "+pids"]
    assert remove_stale_groups(fake.top) == [], "its owner lives"


def test_why_there_are_no_groups_is_said(tmp_path):
    shared = FakeHierarchy(tmp_path / "a", "/")
    shared.group(".", processes=f"{os.getpid()}\n1\n")
    assert "holds other processes" in shared.find().why
    version_one = FakeHierarchy(tmp_path / "b", "/")
    (version_one.top / "cgroup.controllers").write_text("hugetlb\n")
    assert "does not have memory and pids" in version_one.find().why
    nothing = FakeHierarchy(tmp_path / "c", "/")
    (nothing.proc / "self" / "mountinfo").write_text("22 1 0:20 / /proc rw - proc proc rw\n")
    assert nothing.find() == GroupHome(None, "no cgroup v2 is mounted here")


def test_a_group_has_the_limits_of_its_worker_and_goes_with_it(tmp_path):
    group = group_for(123, LIMITS, GroupHome(tmp_path, ""))
    assert group is not None
    written = {path.name: path.read_text() for path in group.path.iterdir()}
    assert written == {
        "memory.max": str(64 * MEBIBYTE),
        "memory.swap.max": "0",
        "pids.max": "41",
        "cpu.max": "150000 100000",
        "cgroup.procs": "123",
    }
    group.remove()
    assert not group.path.exists()


def test_groups_of_hosts_that_are_gone_are_swept_and_those_of_living_ones_are_not(tmp_path):
    mine = group_for(1, LIMITS, GroupHome(tmp_path, ""))
    assert mine is not None
    reused = tmp_path / f"telic-{os.getpid()}-1-7"  # the number of a dead process, used again
    for path in (tmp_path / "telic-99999999-5-1", tmp_path / "telic-host-99999999-5", reused):
        path.mkdir()
    (tmp_path / "somebody").mkdir()
    again = group_for(1, LIMITS, GroupHome(tmp_path, ""))
    assert again is not None
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {mine.path.name, again.path.name, "somebody"}


def test_an_end_for_lack_of_memory_is_told_as_the_watch_tells_it(tmp_path, monkeypatch):
    home, folder = tmp_path / "groups", tmp_path / "work"
    home.mkdir()
    folder.mkdir()

    def in_fake(pid, limits):
        group = group_for(pid, limits, GroupHome(home, ""))
        (group.path / "memory.events").write_text("low 0\nmax 31\noom 1\noom_kill 1\n")
        (group.path / "memory.peak").write_text(f"{65 * MEBIBYTE}\n")
        os.kill(pid, 9)  # as the kernel does
        return group

    monkeypatch.setattr(host, "group_for", in_fake)
    with pytest.raises(ResourceError, match="used 65 MiB of memory, more than the 64 MiB allowed"):
        run_worker("tests.sandbox.worker_entry", {}, writable=[folder], limits=LIMITS)
    assert not list(home.iterdir())


def test_the_doctor_says_which_limits_are_in_force_and_why_not_the_others():
    (check,) = [check for check in examine() if check.name == "limits"]
    if HOME.path is None:
        assert check.state == "note" and HOME.why in check.message and "rlimits" in check.message
    else:
        assert check.state == "ok" and str(HOME.path) in check.message


@pytest.mark.skipif(HOME.path is None, reason=f"no control groups: {HOME.why}")
def test_the_kernel_counts_a_real_worker(tmp_path):
    import subprocess

    process = subprocess.Popen(["sleep", "60"])
    try:
        group = group_for(process.pid, LIMITS)
        assert group is not None
        assert (group.path / "cgroup.procs").read_text().split() == [str(process.pid)]
    finally:
        process.kill()
        process.wait()
    group.remove()
    assert not group.path.exists()
