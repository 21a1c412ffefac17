"""SIGKILL at any moment: nothing starts twice, nothing stays reserved, the ledger verifies."""

import json
import os
import signal
import subprocess
import sys
from itertools import product

import pytest
from filelock import FileLock

from telic.studies.launch import launch as launching
from telic.studies.launch.attempt import TOKEN, LaunchRequest
from tests.studies.fresh import FreshStudy
from tests.studies.launch import kills
from tests.studies.launch.toy_study import AGENT


def trials(count, seed, tmp_path, *options):
    words = [sys.executable, "-m", "tests.studies.launch.kills", str(count), str(seed)]
    done = subprocess.run(
        [*words, str(tmp_path), *options], capture_output=True, text=True, timeout=1200, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


POINTS = ("prepare_tree", "_write_run_folder", "_intent", "_start", "record_start")


def killed_launch(study, name, seed, point, is_late):
    """Launch in a child process that dies by SIGKILL before or after a step; return its end."""
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    try:
        step = getattr(launching, point)

        def die(*args):
            if is_late:
                step(*args)
            os.kill(os.getpid(), signal.SIGKILL)

        setattr(launching, point, die)
        FileLock._instances.clear()  # those of the parent are no good after a fork
        request = LaunchRequest(name, "smoke", seed, confirm=TOKEN)
        launching.launch(FreshStudy(study.folder), request, AGENT)
    except BaseException as error:
        sys.stderr.write(f"{error}\n")
    finally:
        os._exit(1)


def test_a_launch_that_is_killed_between_any_two_of_its_steps_is_recovered(tmp_path, monkeypatch):
    """One kill before and one after every step that writes or starts something."""
    monkeypatch.setenv("TELIC_CONFIG_DIR", str(tmp_path / "config"))
    study = kills.make_trial_study(tmp_path)
    (name,) = study.state.candidates
    for seed, (point, is_late) in enumerate(product(POINTS, (False, True)), start=1):
        assert killed_launch(study, name, seed, point, is_late) == -signal.SIGKILL, point
        kills.settle(study)
        started = [run for run in study.state.runs.values() if run.seed == seed]
        statuses = [run.status for run in started]
        is_running = (point, is_late) == ("_start", True) or point == "record_start"
        assert statuses == (["finished"] if is_running else statuses), (point, is_late)
        assert set(statuses) <= {"finished", "aborted"}
    assert kills.faults(study) == []


@pytest.mark.slow
def test_two_hundred_kills_of_a_launch_loop_leave_no_fault(tmp_path):
    found, printed = trials(200, 2, tmp_path)
    assert found["trials"] == 200
    assert found["faults"] == [], found["faults"]
    assert found["driver_errors"] == 0, printed
    assert found["finished"] > 5
    # The trials are worth something only if they hit different moments of a launch.
    assert len(found["killed_after"]) >= 3


@pytest.mark.long
def test_the_trials_notice_a_recovery_that_only_looks(tmp_path):
    found, _ = trials(40, 5, tmp_path, "--without-claim")
    assert any("is not accounted for" in each for each in found["faults"])
