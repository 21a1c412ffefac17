"""Stable-Baselines3 beside the search: same tasks, same measurements, episodes as the budget."""

import inspect

import pytest

from telic.errors import ConfigError, UnknownName, UsageError
from telic.search.baselines import TrainingSpent, _arguments, find_algorithm
from telic.search.compare import compare_searches
from telic.search.methods import _zoo, zoo_settings
from telic.search.records import NO_MODEL, SearchRunFolder
from telic.search.report import write_page
from telic.search.results import load
from telic.search.worlds import find_task
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
    settings = "Zoo" if env == "CartPole-v1" else "the library's"
    assert found.summary.label == f"{method} rollouts=2, {settings} settings ({NO_MODEL})"
    assert found.best.fresh.episodes == 3


@pytest.mark.slow
def test_a_baseline_compares_with_a_search_of_the_same_budget(tmp_path):
    ppo = search("CartPole-v1", method="sb3:a2c", runs_dir=tmp_path, **SMALL)
    cma = search("CartPole-v1", method="cma", runs_dir=tmp_path, **SMALL)
    found = compare_searches([load(tmp_path, each.path.name) for each in (cma, ppo)])
    assert len(found.report.tests) == 1
    with pytest.raises(UsageError, match="trained networks"):
        write_page(load(tmp_path, ppo.path.name))


@pytest.mark.slow
def test_a_budget_of_steps_is_spent_to_the_step(tmp_path):
    found = search("Nim-v0", method="sb3:a2c", steps=300, runs_dir=tmp_path, **SMALL)
    log = list(SearchRunFolder(found.path / "run_01").read())
    assert len(log) == 10 and log[-1].steps == 300 and "300 steps" in found.summary.label


def test_settings_of_the_zoo_are_arguments_of_the_algorithms():
    for method, tasks in _zoo().items():
        for env in tasks:
            task = find_task(env)
            algorithm = find_algorithm(f"sb3:{method}", task)
            known = inspect.signature(algorithm).parameters
            assert set(_arguments(zoo_settings(f"sb3:{method}", env), task)) <= set(known)
    cartpole = _arguments(zoo_settings("sb3:ppo", "CartPole-v1"), find_task("CartPole-v1"))
    assert cartpole["learning_rate"](0.5) == 0.0005 and "n_envs" not in cartpole
    assert zoo_settings("sb3:ppo", "Nim-v0") is None


def test_a_budget_is_spent_by_episodes_or_by_steps():
    by_episodes, by_steps = TrainingSpent(10, None), TrainingSpent(10, 200)
    by_episodes.ended = by_steps.ended = 5
    assert by_episodes.share(50) == 0.5 and by_steps.share(50) == 0.25
    assert by_steps.share(500) == 1.0


def test_an_algorithm_that_does_not_fit_is_refused_before_anything_starts(tmp_path):
    with pytest.raises(ConfigError, match="does not apply to CartPole-v1"):
        search("CartPole-v1", method="sb3:sac", runs_dir=tmp_path)
    with pytest.raises(UnknownName, match="pp0"):
        search("CartPole-v1", method="sb3:pp0", runs_dir=tmp_path)
    assert not list(tmp_path.iterdir())
