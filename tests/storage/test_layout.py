"""Paths of a run, and finding runs."""

import os

import pytest

from telic.errors import UnknownName, UsageError
from telic.storage.layout import RunFolder, file_name, list_runs
from telic.storage.workspace import Workspace


@pytest.fixture
def runs(tmp_path):
    for age, name in enumerate(["cheetah-a1", "cheetah-b2", "ant-c3"]):
        folder = RunFolder(tmp_path / name)
        folder.path.mkdir()
        folder.config.write_text("{}")
        os.utime(folder.config, (1000 - age, 1000 - age))
    (tmp_path / "not-a-run").mkdir()
    return tmp_path


def test_runs_are_listed_by_when_they_were_last_active(runs):
    assert [run.name for run in list_runs(runs)] == ["cheetah-a1", "cheetah-b2", "ant-c3"]
    status = RunFolder(runs / "ant-c3").status
    status.write_text("{}")
    assert list_runs(runs)[0].name == "ant-c3"
    assert list_runs(runs / "nowhere") == []


def test_a_run_is_found_by_id_prefix_path_and_latest(runs, monkeypatch):
    assert Workspace(runs).run("ant-c3").name == "ant-c3"
    assert Workspace(runs).run("ant").name == "ant-c3"
    assert Workspace(runs).run(str(runs / "cheetah-b2")).name == "cheetah-b2"
    assert Workspace(runs).run("latest").name == "cheetah-a1"
    monkeypatch.chdir(runs)
    assert Workspace(runs / "elsewhere").run("ant-c3").path.name == "ant-c3"


def test_a_run_that_is_not_there_gets_the_closest_names(runs):
    with pytest.raises(UnknownName, match="cheetah-b2"):
        Workspace(runs).run("chetah-b2")
    with pytest.raises(UsageError, match="start of 2 ids"):
        Workspace(runs).run("cheetah")
    with pytest.raises(UsageError, match="holds none yet"):
        Workspace(runs / "nowhere").run("latest")


def test_members_are_ordered_by_config_and_seed_as_a_number(tmp_path):
    run = RunFolder(tmp_path)
    for config, seed in [("base", 10), ("base", 2), ("a long name!", 1)]:
        run.member(config, seed).path.mkdir()
    (tmp_path / "report").mkdir()
    assert [m.name for m in run.members()] == ["a-long-name_seed_1", "base_seed_2", "base_seed_10"]


def test_what_an_evaluation_left_is_listed_by_step(tmp_path):
    member = RunFolder(tmp_path).member("base", 1)
    for step, label in [(2000, "p90"), (1000, "median"), (2000, "median")]:
        for path in (member.video(step, label), member.trajectory(step, label)):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
    member.checkpoint(50).parent.mkdir()
    member.checkpoint(50).touch()
    (member.videos_dir / ".unfinished-1-eval_1_x.mp4").touch()
    wanted = [(1000, "median"), (2000, "median"), (2000, "p90")]
    assert [(each.step, each.label) for each in member.videos()] == wanted
    assert [(each.step, each.label) for each in member.trajectories()] == wanted
    assert [(each.step, each.label) for each in member.checkpoints()] == [(50, None)]
    assert member.video(2000, "p90").relative_to(tmp_path).as_posix() == (
        "base_seed_1/videos/eval_2000_p90.mp4"
    )


def test_a_name_without_letters_cannot_name_a_folder():
    assert file_name("ä b/c") == "b-c"
    with pytest.raises(UsageError):
        file_name("../..")
