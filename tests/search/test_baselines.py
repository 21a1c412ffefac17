"""Stable-Baselines3 beside the search: same tasks, same measurements, episodes as the budget."""

import pytest

from telic.errors import ConfigError, UnknownName, UsageError
from telic.search.compare import compare_searches
from telic.search.records import NO_MODEL, SearchRunFolder
from telic.search.report import write_page
from telic.search.results import load
from telic.verbs.search import search

pytest.importorskip("sb3_contrib")
SMALL = {"episodes": 20, "fresh_episodes": 3, "jobs": 1, "switches": {"rollouts": 2}}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env", "method"),
    [
        ("CartPole-v1", "sb3:dqn"),
        ("Nim-v0", "sb3:trpo"),
        ("InvertedPendulum-v5", "sb3:td3"),
    ],
)
def test_a_baseline_is_trained_for_its_episodes_and_measured_at_ten_points(env, method, tmp_path):
    found = search(env, method=method, runs_dir=tmp_path, **SMALL)
    log = list(SearchRunFolder(found.path / "run_01").read())
    assert len(log) == 10 and log[-1].episodes == 20
    assert found.summary.label == f"{method} rollouts=2 ({NO_MODEL})"
    assert found.best.fresh.episodes == 3


def test_a_baseline_compares_with_a_search_of_the_same_budget(tmp_path):
    ppo = search("CartPole-v1", method="sb3:a2c", runs_dir=tmp_path, **SMALL)
    cma = search("CartPole-v1", method="cma", runs_dir=tmp_path, **SMALL)
    found = compare_searches([load(tmp_path, each.path.name) for each in (cma, ppo)])
    assert len(found.report.tests) == 1
    with pytest.raises(UsageError, match="trained networks"):
        write_page(load(tmp_path, ppo.path.name))


def test_an_algorithm_that_does_not_fit_is_refused_before_anything_starts(tmp_path):
    with pytest.raises(ConfigError, match="does not apply to CartPole-v1"):
        search("CartPole-v1", method="sb3:sac", runs_dir=tmp_path)
    with pytest.raises(UnknownName, match="pp0"):
        search("CartPole-v1", method="sb3:pp0", runs_dir=tmp_path)
    assert not list(tmp_path.iterdir())
