"""Confinement of a process, in processes made for it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from telic.sandbox import _kernel as kernel
from telic.sandbox.confine import (
    ALLOWED,
    ConfinementReport,
    clean_environment,
)
from telic.sandbox.host import available

SCRIPT = Path(__file__).with_name("confined_script.py")
PACKAGE = Path(__file__).parents[2] / "src"
needs_landlock = pytest.mark.skipif(kernel.landlock_abi() == 0, reason="this kernel lacks Landlock")


@pytest.fixture
def act(tmp_path):
    """Run an action of the script and return what it found, with the file outside."""
    folder, outside = tmp_path / "inside", tmp_path / "outside"
    folder.mkdir()
    folder.chmod(0o777)
    outside.write_text("untouched")
    outside.chmod(0o666)
    for parent in tmp_path.parents[:3]:
        # an ordinary user must be able to reach the folder, or nothing is tested
        if parent.stat().st_uid == os.getuid():
            parent.chmod(parent.stat().st_mode | 0o011)
    tmp_path.chmod(0o777)

    def run(action: str, *arguments: str) -> dict:
        ended = subprocess.run(
            [sys.executable, "-P", SCRIPT, action, folder, outside, *arguments],
            env=clean_environment(folder, python_path=(PACKAGE,)),
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        if action not in ("without_kernel_support", "threads_first"):
            assert outside.read_text() == "untouched"
        return json.loads(ended.stdout)

    return run


def assert_closed(found: dict) -> None:
    assert "Permission denied" in found["read"]
    assert "Permission denied" in found["write"]
    assert found["inside"] == "done"
    assert "not permitted" in found["socket"]
    assert "not permitted" in found["fork"]
    assert "MemoryError" in found["memory"]
    assert "too large" in found["file"]


@needs_landlock
def test_files_network_processes_and_memory_are_closed(act):
    found = act("plain")
    assert_closed(found)
    report = ConfinementReport.model_validate(found["report"])
    assert not report.missing
    assert [part.name for part in report.parts][:5] == [
        "environment",
        "limits",
        "privileges",
        "files",
        "system calls",
    ]


@needs_landlock
@pytest.mark.skipif(os.getuid() != 0, reason="only root can become an ordinary user")
def test_an_ordinary_user_is_confined_as_well_as_root(act):
    found = act("ordinary_user")
    assert found["uid"] == 65534
    assert_closed(found)


@needs_landlock
def test_thread_pools_and_checkpoints_work_afterwards_and_threads_are_bound(act):
    found = act("threads_afterwards")
    assert found["before"] == 1
    assert found["after"] >= 1
    assert found["sum"] == 600.0**3
    assert found["loaded"] == [600, 600]
    assert "Permission denied" in found["thread"]


@pytest.mark.parametrize("version", [each for each in (1, 5) if each <= kernel.landlock_abi()])
def test_older_versions_of_landlock_close_the_files_too(act, version):
    found = act("old_kernel", str(version))
    assert "Permission denied" in found["read"]
    assert "Permission denied" in found["write"]
    assert found["inside"] == "done"


def test_without_kernel_support_limits_remain_and_the_report_says_what_is_missing(act):
    found = act("without_kernel_support")
    report = ConfinementReport.model_validate(found["report"])
    assert {part.name for part in report.missing} >= {"files", "system calls"}
    assert "lacks Landlock" in report.missing[0].message
    assert "limits" not in {part.name for part in report.missing}
    assert "MemoryError" in found["memory"]


def test_secrets_leave_the_environment_of_python_and_of_c(act):
    found = act("environment")
    assert set(found["names"]) <= ALLOWED
    assert "LANG" in found["names"]
    assert not found["c"]


@needs_landlock
def test_available_tries_the_doors_without_confining_the_caller():
    report = available()
    assert not report.missing
    assert report.landlock_abi == kernel.landlock_abi()
    names = [part.name for part in report.parts]
    assert {"writing outside", "listing /", "opening a socket", "starting a process"} <= set(names)
    assert subprocess.run([sys.executable, "-c", ""], check=False).returncode == 0
