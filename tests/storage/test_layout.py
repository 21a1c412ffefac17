"""Paths of a run, and finding runs."""

import os

import pytest

from telic.errors import UnknownName, UsageError
from telic.storage.layout import RunFolder
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
    with pytest.raises(UsageError, match="matches 2 ids"):
        Workspace(runs).run("cheetah")
    with pytest.raises(UsageError, match="found in"):
        Workspace(runs / "nowhere").run("latest")
