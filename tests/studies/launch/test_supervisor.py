"""The supervisor: identity, end, timeout, relayed signals, leftovers, and the exclusive claim."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from telic.studies.launch import machine, supervisor

PROGRAM = [sys.executable, "-I", "-S", supervisor.__file__]


def start(folder: Path, *command: str, options: tuple[str, ...] = (), detach: bool = False):
    words = [*PROGRAM, "--folder", str(folder), "--nonce", "abc", "--cwd", str(folder)]
    words += ["--heartbeat", "0.05", *options, *(["--detach"] if detach else []), "--", *command]
    return subprocess.Popen(words, start_new_session=True)


def python(code: str) -> tuple[str, str, str]:
    return (sys.executable, "-c", code)


def wait_for(what, seconds: float = 10.0):
    deadline = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)
    return found


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_it_records_who_ran_and_how_it_ended(tmp_path):
    process = start(tmp_path, *python("print('hello'); raise SystemExit(3)"))
    assert process.wait(10) == 3
    record, ended = machine.read_pid_record(tmp_path), machine.read_exit(tmp_path)
    assert record["pid"] == process.pid and record["nonce"] == "abc"
    assert record["boot_id"] == supervisor.boot_id() and record["start_ticks"] > 0
    assert (ended["code"], ended["signal"], ended["ended_by"]) == (3, None, None)
    assert ended["wall_s"] > 0 and ended["cpu_s"] > 0
    assert (tmp_path / "stdout.log").read_text() == "hello\n"


def test_a_program_that_does_not_exist_is_an_end_too(tmp_path):
    assert start(tmp_path, "/no/such/program").wait(10) == 127
    assert "No such file" in machine.read_exit(tmp_path)["error"]


def test_it_survives_its_parent_and_is_found_by_its_identity(tmp_path):
    starter = start(tmp_path, *python("import time; time.sleep(30)"), detach=True)
    assert starter.wait(10) == 0
    record = wait_for(lambda: machine.read_pid_record(tmp_path))
    wait_for(lambda: machine.read_heartbeat(tmp_path))
    assert machine.is_alive(record) and machine.is_here(record)
    assert record["session"] == record["pid"] != starter.pid
    assert not machine.is_alive({**record, "start_ticks": record["start_ticks"] - 1})
    assert not machine.is_alive({**record, "boot_id": "another"})
    assert machine.ask_to_stop(tmp_path, "user", "enough")
    ended = wait_for(lambda: machine.read_exit(tmp_path))
    assert (ended["signal"], ended["ended_by"]) == ("SIGTERM", "signal")
    wait_for(lambda: not machine.is_alive(record))
    assert machine.stop_request(tmp_path)["why"] == "enough"


def test_a_timeout_ends_a_program_that_ignores_requests(tmp_path):
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(30)"
    began = time.monotonic()
    start(tmp_path, *python(code), options=("--timeout", "0.5", "--grace", "0.3")).wait(25)
    ended = machine.read_exit(tmp_path)
    assert (ended["ended_by"], ended["signal"]) == ("timeout", "SIGKILL")
    assert 0.8 <= time.monotonic() - began < 25


def test_a_program_may_use_the_grace_to_save_its_work(tmp_path):
    code = (
        "import signal, sys, time\n"
        "def save(*_): open('saved', 'w').close(); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, save); open('ready', 'w').close(); time.sleep(30)"
    )
    process = start(tmp_path, *python(code))
    wait_for((tmp_path / "ready").exists)
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 0
    assert (tmp_path / "saved").exists()
    assert machine.read_exit(tmp_path)["ended_by"] == "signal"


def test_what_a_run_leaves_behind_ends_with_it(tmp_path):
    code = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'],"
        " process_group=0)\n"
        "print(child.pid, flush=True)"
    )
    assert start(tmp_path, *python(code), options=("--grace", "0.2")).wait(10) == 0
    left = int((tmp_path / "stdout.log").read_text())
    assert not is_running(left)


def test_leftovers_of_a_killed_supervisor_are_ended(tmp_path):
    process = start(tmp_path, *python("import time; time.sleep(60)"))
    beat = wait_for(lambda: machine.read_heartbeat(tmp_path))
    process.kill()
    process.wait(10)
    record = machine.read_pid_record(tmp_path)
    assert is_running(beat["child_pid"]) and not machine.is_alive(record)
    assert machine.end_leftovers(record) == 1
    wait_for(lambda: not is_running(beat["child_pid"]))
    assert machine.end_leftovers(record) == 0


def test_a_launch_that_was_given_up_never_starts(tmp_path):
    assert machine.give_up(tmp_path, "nobody claimed it")
    assert start(tmp_path, *python("open('ran', 'w').close()")).wait(10) == 0
    assert not (tmp_path / "ran").exists() and machine.read_exit(tmp_path) is None
    assert machine.is_given_up(machine.read_pid_record(tmp_path))


def test_a_launch_that_started_cannot_be_given_up(tmp_path):
    start(tmp_path, *python("pass")).wait(10)
    assert not machine.give_up(tmp_path, "too late")
    assert not machine.is_given_up(machine.read_pid_record(tmp_path))


def test_of_many_supervisors_of_one_launch_one_starts(tmp_path):
    crowd = [start(tmp_path, *python("open('ran', 'a').write('x')")) for _ in range(6)]
    for each in crowd:
        each.wait(20)
    assert (tmp_path / "ran").read_text() == "x"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_each_way_of_asking_reaches_the_program(tmp_path, number):
    process = start(tmp_path, *python("import time; time.sleep(30)"))
    wait_for(lambda: machine.read_heartbeat(tmp_path))
    os.kill(process.pid, number)
    assert process.wait(10) == 128 + signal.SIGTERM
    assert json.loads((tmp_path / "exit.json").read_text())["ended_by"] == "signal"
