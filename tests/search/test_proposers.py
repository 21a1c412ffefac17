"""Proposers without a model do what they promise on tasks that tell them apart."""

import numpy as np
import pytest

from telic.search.policies import make_policy
from telic.search.proposers import Ars, Climb, Cma, Random, SearchView
from telic.search.records import History, PolicyCandidate, TrialEpisodes
from telic.search.worlds import find_task
from telic.verbs.search import search

POLICY = make_policy(None, find_task("CartPole-v1"), is_scaled=True, seed=0, decimals=2)


def candidates(drafts, score):
    return [
        PolicyCandidate(
            number=i,
            params=d.params,
            origin=d.origin,
            tried=TrialEpisodes(
                seed=0, returns=(score(np.array(d.params)),), lengths=(1,), ends="t"
            ),
        )
        for i, d in enumerate(drafts)
    ]


def view(iteration, history=None):
    return SearchView(history or History(confirm=0, keeps_losers=True), iteration, 100, 1, 1)


def climb_a_hill(proposer, iterations, seed=1):
    """Let a proposer maximize -|x - 1|^2 and return the best it found."""
    history, best = History(confirm=0, keeps_losers=True), -np.inf
    number = 0
    for iteration in range(iterations):
        drafts = proposer.propose(view(iteration, history)._replace(seed=seed)).drafts
        assert len(drafts) == proposer.at_once
        tried = candidates(drafts, lambda x: -float(np.square(x - 1).sum()))
        for each in tried:
            history.count(each.model_copy(update={"number": number}))
            number += 1
        proposer.observe(tried, None)
        best = max(best, *(each.mean for each in tried))
    return best


def test_optimizers_climb_and_random_draws_do_not():
    task = find_task("CartPole-v1")
    found = {
        kind.name: climb_a_hill(kind(task, POLICY, 1), 200 if kind is Climb else 80)
        for kind in (Cma, Ars, Climb, Random)
    }
    assert found["cma"] > -0.01 and found["ars"] > -1 and found["climb"] > -1
    assert found["random"] < found["cma"] - 5


@pytest.mark.parametrize(
    ("env", "method", "least"),
    [("CartPole-v1", "cma", 475), ("Nim-v0", "tabular", 1.0), ("Maze-v0", "tabular", 0.966)],
)
def test_a_thousand_episodes_are_enough_for(env, method, least, tmp_path):
    found = search(env, method=method, episodes=1000, runs_dir=tmp_path, jobs=1)
    assert found.best.fresh.mean >= least


@pytest.mark.slow
@pytest.mark.parametrize("env", ["CartPole-v1", "MountainCar-v0"])
def test_hill_climbing_beats_random_draws_on_tasks_over_seeds(env, tmp_path):
    request = {"runs": 10, "episodes": 1000, "runs_dir": tmp_path, "jobs": 1}
    found = {m: search(env, method=m, **request).summary.runs for m in ("climb", "random")}
    fresh = {m: [run.fresh.mean for run in runs] for m, runs in found.items()}
    everything = {m: [run.mean_all for run in runs] for m, runs in found.items()}
    assert np.mean(fresh["climb"]) >= np.mean(fresh["random"])
    assert np.median(fresh["climb"]) >= np.median(fresh["random"])
    assert min(everything["climb"]) > np.mean(everything["random"])
