"""Host and worker: results, messages, stopping, every kind of end, and no survivors."""

import math
import mmap
import os
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest

from telic.errors import ResourceError, RewardError, WorkerDied
from telic.sandbox import _kernel as kernel
from telic.sandbox.host import LOG_NAME, Worker
from telic.sandbox.limits import MEBIBYTE, Limits, Watch, disk_usage

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def alone(no_fork_server):
    """Workers here are new interpreters; forks are `test_fork_server`'s."""


def make(folder: Path, act: str, **payload) -> Worker:
    options = {
        name: payload.pop(name)
        for name in ("limits", "first_beat_s", "readable")
        if name in payload
    }
    payload |= {"act": act, "outside": str(folder.parent / "outside")}
    return Worker("worker_entry", payload, writable=[folder], python_path=[HERE], **options)


def test_a_result_comes_back_with_all_messages_in_order(folder, monkeypatch):
    monkeypatch.setenv("TELIC_TEST_API_KEY", "sk-secret")
    messages = []
    data = {"large": "x" * 300_000, "number": 0.1, "nothing": None}
    worker = make(folder, "echo", data=data)
    assert worker.report is None
    result = worker.run(messages.append)
    assert [each["number"] for each in messages] == [0, 1, 2]
    assert result["prepared"] == "read before confinement"
    assert result["data"] == data
    assert result["cwd"] == str(folder)
    assert "TELIC_TEST_API_KEY" not in result["environment"]
    assert (folder / "made_here").read_text() == "x"
    assert worker.report is not None and "limits" not in {
        part.name for part in worker.report.missing
    }


def test_stray_output_ends_in_the_log_and_not_on_the_wire(folder):
    result = make(folder, "echo", data=1).run()
    assert "fake" not in result
    log = (folder / LOG_NAME).read_text()
    assert "a stray line" in log and '"fake":true' in log


@pytest.mark.skipif(kernel.landlock_abi() == 0, reason="this kernel lacks Landlock")
def test_files_are_readable_only_where_granted(folder):
    with pytest.raises(WorkerDied, match="PermissionError"):
        make(folder, "read_outside").run()
    granted = make(folder, "read_outside", readable=[folder.parent / "outside"]).run()
    assert granted["text"] == "read before confinement"


@pytest.mark.parametrize("act", ["raise_reward_error", "fail_to_prepare"])
def test_an_error_of_ours_is_raised_here_with_everything_it_carries(folder, act):
    with pytest.raises(RewardError) as caught:
        make(folder, act).run()
    expected = {
        "raise_reward_error": ("term is NaN", "guard it", 12, "speed"),
        "fail_to_prepare": ("no such model", "give one", 4, "speed"),
    }[act]
    error = caught.value
    assert (error.message, error.hint, error.line, error.term) == expected


def test_a_bug_is_reported_with_the_last_lines_of_the_log(folder):
    with pytest.raises(WorkerDied) as caught:
        make(folder, "raise_bug").run()
    assert "KeyError: 'our own mistake'" in caught.value.message
    assert str(folder / LOG_NAME) in caught.value.hint
    assert "in raise_bug" in caught.value.hint


def test_out_of_memory_is_reported_as_such(folder):
    with pytest.raises(ResourceError, match="memory limit"):
        make(folder, "raise_memory_error").run()


def test_a_stop_asked_for_is_a_clean_end(folder):
    seen = []
    result = make(folder, "wait_for_stop").run(seen.append, lambda: bool(seen))
    assert result == {"stopped": True}


def test_paused_worker_does_not_count_as_silent(folder):
    received, asked = [], []

    def should_wait():
        if len(received) < 3:
            return False
        asked.append(time.monotonic())
        return asked[-1] - asked[0] < 0.8

    worker = make(folder, "tick_until_stopped", beat_s=0.4)
    ended = worker.run(
        lambda _: received.append(time.monotonic()), lambda: len(received) > 20, should_wait
    )
    assert ended == {"stopped": True}
    assert max(later - earlier for earlier, later in pairwise(received)) > 0.6


def test_silent_worker_is_ended_with_its_last_activity(folder):
    with pytest.raises(WorkerDied) as caught:
        make(folder, "fall_silent", beat_s=0.5).run()
    assert "no heartbeat for 0.5 s while running the reward of test.py" in str(caught.value)


@pytest.mark.parametrize("seconds", [1e300, math.inf, math.nan, -1.0, 10**400], ids=[*"abcde"])
def test_no_worker_is_waited_for_without_end(folder, seconds):
    with pytest.raises(WorkerDied):
        make(folder, "fall_silent", beat_s=seconds).run()


def test_beats_keep_a_slow_worker_alive(folder):
    assert make(folder, "keep_beating").run() == {}


def test_listener_time_does_not_count_as_silence(folder):
    def listen(message):
        time.sleep(1.2)
        return {}

    assert make(folder, "ask_and_think", beat_s=1.0).run(listen) == {}


def test_preparation_has_its_own_patience(folder):
    with pytest.raises(WorkerDied, match="while it was starting"):
        make(folder, "prepare_for_ever", first_beat_s=2.0).run()


def test_processor_and_wall_time_are_limited(folder):
    with pytest.raises(ResourceError, match="CPU time limit of 1 s"):
        make(folder, "burn", limits=Limits(cpu_s=1)).run()
    with pytest.raises(ResourceError, match=r"time limit of 0\.3 s"):
        make(folder, "fall_silent", limits=Limits(wall_s=0.3)).run()


def test_an_exception_in_the_listener_ends_the_worker(folder):
    worker = make(folder, "wait_for_stop")

    def listen(message):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        worker.run(listen)
    assert worker._process is not None and worker._process.code is not None


@pytest.mark.skipif(sys.platform != "linux", reason="needs the kernel to tie the two together")
def test_a_host_that_is_killed_takes_its_worker_along(folder):
    code = (
        "import sys; from pathlib import Path; from telic.sandbox.host import run_worker\n"
        f"run_worker('worker_entry', {{'act': 'announce_and_sleep', 'outside': '/dev/null'}},"
        f" writable=[Path({str(folder)!r})], python_path=[Path({str(HERE)!r})])"
    )
    path = os.pathsep.join([str(HERE.parents[1] / "src"), os.environ.get("PYTHONPATH", "")])
    host = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path})
    try:
        pid = wait_for(lambda: (folder / "pid").exists() and (folder / "pid").read_text())
    finally:
        host.kill()
        host.wait()
    assert wait_for(lambda: not is_alive(int(pid)))


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def wait_for(condition):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError("it did not happen")


def test_growth_of_the_folder_is_measured_from_the_start(tmp_path):
    (tmp_path / "old").write_bytes(b"x" * (3 * MEBIBYTE))
    watch = Watch(os.getpid(), Limits(disk_bytes=2 * MEBIBYTE), [tmp_path])
    watch.DISK_EVERY_S = 0.0
    watch.check()
    (tmp_path / "new").write_bytes(b"x" * (3 * MEBIBYTE))
    assert disk_usage([tmp_path], 9) >= 6 * MEBIBYTE
    with pytest.raises(ResourceError, match="folder grew by 3 MiB"):
        watch.check()


@pytest.mark.parametrize("is_mapped", [False, True], ids=["open", "mapped"])
def test_a_file_that_was_removed_and_is_held_all_the_same_counts(tmp_path, is_mapped):
    watch = Watch(os.getpid(), Limits(disk_bytes=2 * MEBIBYTE), [tmp_path])
    watch._check_disk()
    file = tmp_path / "hidden"
    with file.open("w+b") as hidden:
        hidden.write(b"x" * 6 * MEBIBYTE)
        hidden.flush()
        os.fsync(hidden.fileno())
        kept = mmap.mmap(hidden.fileno(), 0) if is_mapped else hidden
        file.unlink()
        if is_mapped:
            hidden.close()
        assert disk_usage([tmp_path], 9) < MEBIBYTE  # nothing is there to be seen
        with pytest.raises(ResourceError, match="grew by"):
            watch._check_disk()
        kept.close()
    watch._check_disk()


def test_worker_with_unscannable_folders_is_ended(tmp_path):
    """A thousand in one another ended who looked, and longer paths hid what lay below."""
    for number in range(12):
        (tmp_path / str(number)).touch()
    assert disk_usage([tmp_path], 12) == 0
    with pytest.raises(ResourceError, match="more than 11 files"):
        disk_usage([tmp_path], 11)
    (tmp_path / "/".join("d" * 40)).mkdir(parents=True)
    with pytest.raises(ResourceError, match="nested folders"):
        disk_usage([tmp_path], 100_000)
