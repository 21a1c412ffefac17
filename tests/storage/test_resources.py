"""Admission to CPU cores, with real processes that are killed."""

import multiprocessing
import os
import signal
import time
from contextlib import ExitStack

import pytest

from telic.errors import Refused, ResourceError
from telic.storage import resources
from telic.storage.locks import try_hold
from telic.storage.resources import Admission, ResourceNeed
from tests.session.sessions import until

PROCESSES = multiprocessing.get_context("fork")
GIB = 2**30


@pytest.fixture
def start(tmp_path):
    """Start processes that come through the door, stay for a while and write down when."""
    started = []

    def one(name, cores=2, stay_s=0.2):
        process = PROCESSES.Process(target=visit, args=(tmp_path, name, cores, stay_s))
        process.start()
        started.append(process)
        return process

    yield one
    for process in started:
        process.kill()
        process.join()


def visit(folder, name, cores, stay_s):
    def emit(event):
        (folder / f"{name}.said").write_text(getattr(event, "message", ""))

    with Admission(folder / "door", cores=[0, 1]).admit(ResourceNeed(cores, None), name, emit=emit):
        write(folder, name, "in")
        time.sleep(stay_s)
        write(folder, name, "out")


def write(folder, name, what):
    with (folder / "visits").open("a") as file:
        file.write(f"{name} {what}\n")


def visits(folder):
    path = folder / "visits"
    return path.read_text().splitlines() if path.exists() else []


def test_sessions_that_need_everything_run_one_after_another(start, tmp_path):
    holder = start("holder", stay_s=60)
    until(lambda: visits(tmp_path) == ["holder in"])
    names = [f"s{number}" for number in range(4)]
    for name in names:
        start(name)
        until((tmp_path / f"{name}.said").exists)
    assert visits(tmp_path) == ["holder in"]
    holder.kill()
    until(lambda: len(visits(tmp_path)) == 1 + 2 * len(names))
    entered = visits(tmp_path)[1:]
    assert sorted(line.split()[0] for line in entered[::2]) == names
    assert [line.replace(" in", " out") for line in entered[::2]] == entered[1::2]


def test_killed_holder_frees_its_cores_at_once(start, tmp_path):
    holder = start("holder", stay_s=60)
    until(lambda: visits(tmp_path) == ["holder in"])
    start("next")
    printed = tmp_path / "next.said"
    until(lambda: printed.exists() and printed.read_text())
    assert printed.read_text() == "waiting for 2 of 2 cores; held by holder"
    os.kill(holder.pid, signal.SIGKILL)
    until(lambda: "next in" in visits(tmp_path))


def test_stopped_waiter_leaves_the_queue(tmp_path):
    door = Admission(tmp_path, cores=[0])
    with door.admit(ResourceNeed(1, None), "first") as first:
        asked = iter([False, False, False, True, True])
        with door.admit(ResourceNeed(1, None), "second", should_stop=lambda: next(asked)) as second:
            assert first and not second
        assert [each.holder for each in door.leases()] == ["first"]
    assert door.leases() == []


def test_unavailable_memory_is_refused(tmp_path):
    door = Admission(tmp_path, cores=[0], free_bytes=lambda: 1 * GIB)
    refused = pytest.raises(ResourceError, match=r"needs about 2\.0 GiB of memory, and 1\.0 GiB")
    with refused, door.admit(ResourceNeed(1, 2 * GIB), "large"):
        pass
    with door.admit(ResourceNeed(1, GIB // 2), "small") as got:
        assert got


def test_memory_promised_to_another_is_waited_for(tmp_path, monkeypatch):
    """Two that start together must not both count on the same free memory."""
    door = Admission(tmp_path, cores=[0, 1], free_bytes=lambda: 3 * GIB)
    printed = []
    with ExitStack() as first:
        first.enter_context(door.admit(ResourceNeed(1, 2 * GIB), "first"))

        def leave(event):
            printed.append(getattr(event, "message", None))
            first.close()

        with door.admit(ResourceNeed(1, 2 * GIB), "second", emit=leave) as got:
            assert got
    assert printed[0] == "waiting for 2.0 GiB of memory, 1.0 GiB are free; held by first"
    monkeypatch.setattr(resources, "_SETTLING_S", 0.0)  # later, what it took shows by itself
    with (
        door.admit(ResourceNeed(1, 2 * GIB), "first"),
        door.admit(ResourceNeed(1, 2 * GIB), "second") as got,
    ):
        assert got


def test_the_folder_is_the_users_own(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert resources.runtime_folder() == tmp_path / "telic"
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    monkeypatch.setattr(resources.tempfile, "gettempdir", lambda: str(tmp_path))
    made = resources.runtime_folder()
    assert made.parent == tmp_path and made.stat().st_mode & 0o777 == 0o700
    made.rmdir()
    made.symlink_to(tmp_path)
    with pytest.raises(Refused, match="another user"):
        resources.runtime_folder()


@pytest.mark.slow
def test_killed_waiter_blocks_no_one(start, tmp_path):
    start("holder", stay_s=4.0)  # long enough that both others come while it is there
    until(lambda: visits(tmp_path) == ["holder in"])
    waiter = start("waiter")
    until((tmp_path / "waiter.said").exists)
    start("last")
    printed = tmp_path / "last.said"
    until(lambda: printed.exists() and printed.read_text())  # there, and written
    assert printed.read_text().endswith("queued behind waiter")
    os.kill(waiter.pid, signal.SIGKILL)
    until(lambda: visits(tmp_path)[-1:] == ["last out"])
    assert not [line for line in visits(tmp_path) if line.startswith("waiter")]


def test_waiting_for_the_turn_can_be_stopped(tmp_path):
    door = Admission(tmp_path, cores=[0])
    handle = try_hold(tmp_path / "turn")
    deadline = time.monotonic() + 0.2
    with door.admit(
        ResourceNeed(1, None), "patient", should_stop=lambda: time.monotonic() > deadline
    ) as got:
        assert not got
    os.close(handle)
