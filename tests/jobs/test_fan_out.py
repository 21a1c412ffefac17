"""Policies and runs of a search are jobs of their own, and join to what one machine computes."""

import pytest

from telic.jobs.board import JobBoard
from telic.storage.files import read_json
from telic.storage.layout import RunFolder
from telic.verbs.search import search
from telic.verbs.train import train
from tests.training.small import SETTINGS

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


@pytest.mark.slow
def test_seeds_and_variants_are_jobs_with_the_results_of_one_machine(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    asked = {"settings": SETTINGS, "steps": 512, "evaluations": 1, "eval_episodes": 2}
    asked |= {"seeds": [1], "variants": [{"gamma": 0.9}, {"gamma": 0.99}], "videos": "none"}
    found = {}
    for where in (None, "local"):
        run = train("InvertedPendulum-v5", **asked, runs_dir=tmp_path / str(where), on=where)
        summaries = [read_json(each.summary) for each in RunFolder(run.path).members()]
        found[where] = [{**each, "training_time_s": 0} for each in summaries]
        assert run.best_return == max(each["best"]["mean_return"] for each in summaries)
    assert len(found["local"]) == 2 and found["local"] == found[None]
    assert [line.state for line in JobBoard(tmp_path / "local").lines()] == ["done", "done"]
    assert [path.name for path in (tmp_path / "local").glob("run_*")] == [run.path.name]


def test_what_is_done_is_not_done_again_after_an_interruption(tmp_path, monkeypatch):
    monkeypatch.setattr("telic.verbs.search.require_completed", lambda outcomes: 1 / 0)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            search(**SEARCH, runs=2, runs_dir=tmp_path, on="local")
    assert len(JobBoard(tmp_path).lines()) == 2
