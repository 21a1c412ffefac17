"""Policies and runs of a search are jobs of their own, and join to what one machine computes."""

import pytest

from telic.jobs.board import JobBoard
from telic.verbs.search import search

SEARCH = {"env": "CartPole-v1", "method": "random", "episodes": 100, "fresh_episodes": 10}


def test_runs_of_a_search_are_jobs_with_the_results_of_one_machine(tmp_path, monkeypatch):
    here = search(**SEARCH, runs=2, runs_dir=tmp_path / "here", jobs=1)
    asked = {**SEARCH, "runs": 2, "runs_dir": tmp_path / "there", "on": "local"}
    with monkeypatch.context() as patch, pytest.raises(ZeroDivisionError):
        patch.setattr("telic.verbs.search.require_completed", lambda outcomes: 1 / 0)
        search(**asked)
    there = search(**asked)  # what was done before the interruption is not done again
    exact = [each.model_copy(update={"seconds": 0.0}) for each in there.summary.runs]
    assert exact == [each.model_copy(update={"seconds": 0.0}) for each in here.summary.runs]
    assert [line.state for line in JobBoard(tmp_path / "there").lines()] == ["done", "done"]
    assert [path.name for path in (tmp_path / "there").glob("search_*")] == [there.path.name]
