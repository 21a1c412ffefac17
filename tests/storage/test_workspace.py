"""Artifacts are found by name, resumed, deleted and restored."""

import shutil

import pytest

from telic.errors import Refused, UnknownName, UsageError
from telic.storage.files import write_json
from telic.storage.keys import sign_folder
from telic.storage.locks import RunLock
from telic.storage.workspace import Workspace


@pytest.fixture
def workspace(tmp_path):
    """A run with a policy, a session, a search, and a study of the repository."""
    runs = tmp_path / "runs"
    write_json(runs / "run_1" / "config.json", {})
    write_json(runs / "run_1" / "reward_seed_1" / "config.json", {})
    write_json(runs / "session_20260101_aa" / "session.json", {})
    write_json(runs / "search_20260101_bb" / "search.json", {})
    study = tmp_path / ".telic" / "tasks" / "walk" / "studies" / "speed"
    study.mkdir(parents=True)
    (study / "ledger.jsonl").write_text("")
    return Workspace(runs, tmp_path)


def test_one_look_up_finds_every_kind(workspace):
    everything = ("run", "session", "search", "study", "policy")
    for name, kind in {
        "run_1": "run",
        "1": "run",
        "session_2026": "session",
        "walk/speed": "study",
        "speed": "study",
        "run_1/reward_seed_1": "policy",
        str(workspace.runs_dir / "search_20260101_bb"): "search",
    }.items():
        assert workspace.find(name, *everything).kind == kind, name
    with pytest.raises(UsageError, match="matches 2 ids"):
        workspace.find("2026")
    with pytest.raises(UnknownName, match="run_1"):
        workspace.find("run_2")


def test_running_and_ended_work_is_not_resumed(workspace):
    folder = workspace.runs_dir / "session_20260101_aa"
    assert workspace.unfinished("session", lambda path: True) is None, "nobody here began it"
    sign_folder(folder)
    assert workspace.unfinished("session", lambda path: True) == folder
    assert workspace.unfinished("session", lambda path: False) is None
    with RunLock(folder / "lock"):
        assert workspace.unfinished("session", lambda path: True) is None
    write_json(folder / "summary.json", {"outcome": "stopped"})
    assert workspace.unfinished("session", lambda path: True) == folder
    write_json(folder / "summary.json", {"outcome": "passed"})
    assert workspace.unfinished("session", lambda path: True) is None


def test_what_is_deleted_comes_back_and_nothing_is_lost(workspace):
    run = workspace.find("run_1", "run")
    with RunLock(run.path / "lock"), pytest.raises(Refused, match="running"):
        workspace.delete(run)
    kept = workspace.delete(run)
    assert kept.is_dir() and not run.path.exists()
    assert [artifact.name for artifact in workspace.deleted()] == ["run_1"]
    write_json(run.path / "config.json", {"another": True})
    with pytest.raises(Refused, match="already exists"):
        workspace.restore("run_1")
    assert workspace.delete(run).name == "run_1.2"
    assert workspace.restore("run_1").path == run.path
    assert (run.path / "reward_seed_1" / "config.json").exists()


@pytest.mark.parametrize("place", ["run_1/reward_seed_1/checkpoints/policy_1.pt", "run_1"])
def test_links_in_work_are_refused_whatever_part_of_it_is_named(workspace, tmp_path, place):
    checkpoints = workspace.runs_dir / "run_1" / "reward_seed_1" / "checkpoints"
    checkpoints.mkdir()
    (checkpoints / "policy_1.pt").write_bytes(b"")
    named = str(workspace.runs_dir / place)
    assert workspace.find(named, "run", "policy")
    (workspace.runs_dir / "run_1" / "export").symlink_to(tmp_path)
    with pytest.raises(Refused, match="link"):
        workspace.find(named, "run", "policy")


def test_a_copy_of_unfinished_work_is_not_resumed_unasked(workspace):
    folder = workspace.runs_dir / "session_20260101_aa"
    sign_folder(folder)
    moved = folder.with_name("kept")
    folder.rename(moved)
    shutil.copytree(moved, folder)
    assert workspace.unfinished("session", lambda path: True) is None
    shutil.rmtree(folder)
    moved.rename(folder)
    assert workspace.unfinished("session", lambda path: True) == folder
