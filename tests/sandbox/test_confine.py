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
    code_paths,
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
@pytest.mark.skipif(
    kernel.landlock_abi() >= kernel.SYNC_ABI, reason="this kernel covers all threads"
)
def test_a_process_with_threads_is_not_confined_by_halves(act):
    found = act("threads_first")
    assert "1 other threads are running (python" in found["said"]
    assert "Confine the process before" in found["said"]
    assert found["socket"] == "done"


@needs_landlock
def test_thread_pools_and_checkpoints_work_afterwards_and_threads_are_bound(act):
    found = act("threads_afterwards")
    assert found["before"] == 1
    assert found["after"] >= 1
    assert found["sum"] == 600.0**3
    assert found["loaded"] == [600, 600]
    assert "Permission denied" in found["thread"]


@needs_landlock
def test_files_can_be_moved_within_the_writable_folder(act):
    assert act("moved_between_folders")["moved"] == "done"


@pytest.mark.parametrize(
    "version", [each for each in (1, 2, 3, 5) if each <= kernel.landlock_abi()]
)
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


def test_packages_that_pythonpath_names_are_there_and_projects_are_not(tmp_path):
    packages, project = tmp_path / "packages", tmp_path / "project"
    for made in (packages / "found-1.0.dist-info", project / "found.egg-info"):
        made.mkdir(parents=True)
    base = {"PYTHONPATH": os.pathsep.join(["", str(packages), str(project), "nowhere"])}
    made = clean_environment(Path("/run"), python_path=(Path("/a"),), base=base)
    assert made["PYTHONPATH"] == f"/a{os.pathsep}{packages}"


def test_a_clean_environment_has_allowed_names_only():
    base = {
        "PATH": "/bin",
        "HOME": "/root",
        "OPENAI_API_KEY": "sk",
        "LANG": "C",
        "MUJOCO_GL": "egl",
    }
    made = clean_environment(Path("/run"), python_path=(Path("/a"), Path("/b")), base=base)
    assert set(made) <= ALLOWED
    assert made["LANG"] == "C"
    assert made["PYTHONPATH"] == "/a:/b"
    assert not {"PATH", "HOME", "OPENAI_API_KEY", "MUJOCO_GL"} & set(made)


@needs_landlock
def test_available_tries_the_doors_without_confining_the_caller():
    report = available()
    assert not report.missing
    assert report.landlock_abi == kernel.landlock_abi()
    names = [part.name for part in report.parts]
    assert {"writing outside", "listing /", "opening a socket", "starting a process"} <= set(names)
    assert subprocess.run([sys.executable, "-c", ""], check=False).returncode == 0


@pytest.mark.parametrize("parallel", ["mine.egg-info", "src"])
def test_installed_packages_can_be_read_wherever_a_pth_file_names_them_and_no_project(
    tmp_path, monkeypatch, parallel
):
    unpacked, project = tmp_path / "unpacked", tmp_path / "project"
    for folder in (unpacked / "robots-1.0.dist-info", project / "mine", project / parallel):
        folder.mkdir(parents=True)
    for name in ("mine/__init__.py", "settings.py", ".env"):
        (project / name).touch()
    monkeypatch.setattr(sys, "path", [*sys.path, str(unpacked), str(project), str(tmp_path / "no")])
    found = code_paths()
    assert unpacked.resolve() in found
    assert not [path for path in found if path.is_relative_to(project.resolve())]
    assert not {project.resolve(), tmp_path.resolve()} & found
