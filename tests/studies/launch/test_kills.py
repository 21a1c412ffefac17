"""SIGKILL at random moments: nothing starts twice, nothing stays reserved, the ledger verifies."""

import json
import subprocess
import sys

import pytest


def trials(count, seed, tmp_path, *options):
    words = [sys.executable, "-m", "tests.studies.launch.kills", str(count), str(seed)]
    done = subprocess.run(
        [*words, str(tmp_path), *options], capture_output=True, text=True, timeout=1200, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("count", "seed"), [(6, 1), pytest.param(200, 2, marks=pytest.mark.long)])
def test_a_killed_launch_loop_goes_on_without_a_fault(tmp_path, count, seed):
    found, said = trials(count, seed, tmp_path)
    assert found["trials"] == count
    assert found["faults"] == [] and found["driver_errors"] == 0, said
    assert found["runs"]["finished"] > 5
    # The trials are worth something only if they hit different moments of a launch.
    assert len(found["killed_after"]) >= min(3, count // 3)


@pytest.mark.long
def test_the_trials_notice_a_recovery_that_only_looks(tmp_path):
    found, _ = trials(40, 5, tmp_path, "--without-claim")
    assert any("is not accounted for" in each for each in found["faults"])
