"""Judging while training goes on: told and recorded, and never in the way."""

import pytest

from telic.session import training
from telic.storage.files import read_json_lines
from tests.session.quick import PASSING, Asking, at_home


@pytest.fixture
def asking(tmp_path):
    with at_home() as patch:
        patch.setattr(training, "_LONG_S", 0.0)
        yield Asking(patch, tmp_path)


def test_checkpoints_are_judged_before_training_ends_and_the_last_one_afterwards(asking):
    asking.run(PASSING, steps=4096)
    told = asking.told("session.checkpoint")
    assert len(told) == 1 and told[0]["number"] == 1
    assert 0 < told[0]["step"] < asking.told("eval.done")[-1]["step"]
    assert len(told[0]["scores"]) == 2
    assert all(0.0 <= each <= 1.0 for each in told[0]["scores"].values())
    (row,) = read_json_lines(asking.folder.iteration(1).checkpoints)
    assert row == {"step": told[0]["step"], "scores": told[0]["scores"]}


def test_a_checkpoint_that_cannot_be_judged_costs_nothing_else(asking, monkeypatch):
    def full(path):
        raise training.TelicError("no room on the disk")

    monkeypatch.setattr(training, "JsonLines", full)
    session, _ = asking.run(PASSING, steps=4096)
    assert session.passed and not asking.told("session.checkpoint")
    assert any("no room on the disk" in each["message"] for each in asking.told("log"))


def test_what_is_over_in_a_moment_is_judged_only_then(asking, monkeypatch):
    monkeypatch.setattr(training, "_LONG_S", 1e9)
    session, _ = asking.run(PASSING, steps=4096)
    assert session.passed and not asking.told("session.checkpoint")
