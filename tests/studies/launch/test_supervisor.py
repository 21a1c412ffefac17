"""The supervisor: identity, end, timeout, relayed signals, leftovers, and the exclusive claim."""

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from telic.jobs.process import Process
from telic.studies.launch import supervisor
from telic.studies.launch.process import RunProcess

PROGRAM = [sys.executable, "-I", "-m", supervisor.__name__]


def start(folder: Path, *command: str, **limits: float) -> RunProcess:
    """Order a command and start its supervisor."""
    folder.mkdir(exist_ok=True)
    step = {"name": "train", "folder": ".", "argv": command, "cwd": str(folder), "env": {}}
    limits = {"timeout_s": None, "grace_s": 30.0, "heartbeat_s": 0.05, **limits}
    rule = {"checkpoint_glob": None, "selection": "last"}
    order = {"nonce": "abc", "steps": [step], **rule, **limits}
    (folder / "cmd.json").write_text(json.dumps(order))
    Process.detach([*PROGRAM, folder], folder / "supervisor.log", dict(os.environ))
    return RunProcess(folder)


def python(code: str) -> tuple[str, str, str]:
    return (sys.executable, "-c", code)


def wait_for(what, seconds: float = 120.0):
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


def ended(process: RunProcess) -> dict:
    return wait_for(lambda: process.exit_record)


def test_it_is_found_by_its_identity_and_stopped(tmp_path):
    process = start(tmp_path, *python("import time; time.sleep(600)"))
    wait_for(lambda: process.heartbeat)
    claim = process.claim
    assert process.state == "alive"
    for other in ({"started": claim["started"] - 1}, {"boot": "another"}):
        (tmp_path / "pid.json").write_text(json.dumps({**claim, **other}))
        assert process.state == "gone"
    (tmp_path / "pid.json").write_text(json.dumps({**claim, "host": "another"}))
    assert process.state == "elsewhere"
    (tmp_path / "pid.json").write_text(json.dumps(claim))
    assert process.ask_to_stop("user", "enough")
    found = ended(process)
    assert (found["signal"], found["ended_by"]) == ("SIGTERM", "signal")
    assert process.stop_request["why"] == "enough"


def test_a_timeout_ends_a_program_that_ignores_requests(tmp_path):
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    found = ended(start(tmp_path, *python(code), timeout_s=0.5, grace_s=0.3))
    assert (found["ended_by"], found["signal"]) == ("timeout", "SIGKILL")
    assert 0.8 <= found["wall_s"] < 60


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_program_may_use_the_grace_to_save_its_work(tmp_path, number):
    code = (
        "import signal, sys, time\n"
        "def save(*_): open('saved', 'w').close(); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, save); open('ready', 'w').close(); time.sleep(600)"
    )
    process = start(tmp_path, *python(code))
    wait_for((tmp_path / "ready").exists)
    os.kill(process.claim["pid"], number)
    found = ended(process)
    assert (found["code"], found["ended_by"]) == (0, "signal") and (tmp_path / "saved").exists()


def test_what_a_run_leaves_behind_ends_with_it(tmp_path):
    code = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'],"
        " process_group=0)\n"
        "print(child.pid, flush=True)"
    )
    assert ended(start(tmp_path, *python(code), grace_s=0.2))["code"] == 0
    assert not is_running(int((tmp_path / "stdout.log").read_text()))


def test_leftovers_of_a_killed_supervisor_are_ended(tmp_path):
    code = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True)"
    )
    process = start(tmp_path, *python(f"{code}; time.sleep(600)"))
    wait_for(lambda: (tmp_path / "stdout.log").exists() and (tmp_path / "stdout.log").read_text())
    child = process.heartbeat["child"]["pid"]
    os.kill(process.claim["pid"], signal.SIGKILL)
    wait_for(lambda: process.state == "gone")
    assert is_running(child)
    assert process.end_leftovers() == 1
    wait_for(lambda: not is_running(child))
    assert process.end_leftovers() == 0
