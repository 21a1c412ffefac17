"""Proposers without a model do what they promise on tasks that tell them apart."""

import numpy as np
import pytest

from telic.search.history import History
from telic.search.policies import Space, make_policy
from telic.search.proposers import Ars, Climb, Cma, Random, TabularModel, View
from telic.search.records import PolicyCandidate, TrialEpisodes
from telic.search.rollouts import BatchRecording
from telic.search.task import generator
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
    return View(history or History(confirm=0, keeps_losers=True), iteration, 100, 1, 1)


def climb_a_hill(proposer, iterations):
    """Let a proposer maximise -|x - 1|^2 and return the best it found."""
    history, best = History(confirm=0, keeps_losers=True), -np.inf
    number = 0
    for iteration in range(iterations):
        drafts = proposer.propose(view(iteration, history)).drafts
        assert len(drafts) == proposer.at_once
        tried = candidates(drafts, lambda x: -float(np.square(x - 1).sum()))
        for each in tried:
            history.count(each.model_copy(update={"number": number}))
            number += 1
        proposer.observe(tried, None)
        best = max(best, *(each.mean for each in tried))
    return best


def test_optimisers_climb_and_random_draws_do_not():
    found = {
        "cma": climb_a_hill(Cma(POLICY.space, 1), 80),
        "ars": climb_a_hill(Ars(POLICY.space, 1), 80),
        "climb": climb_a_hill(Climb(POLICY), 200),
        "random": climb_a_hill(Random(POLICY), 80),
    }
    assert found["cma"] > -0.01 and found["ars"] > -1 and found["climb"] > -1
    assert found["random"] < found["cma"] - 5


@pytest.mark.parametrize("rank", [5, 10, 40])
@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_ars_comes_closer_to_the_top_of_a_hill_and_stays_there(rank, noise):
    names = tuple(f"x{i}" for i in range(rank))
    space = Space(names=names, formula="", low=-6.0, high=6.0, decimals=2)
    rng, ways = generator("hills", rank), []
    for seed in range(5):
        top = rng.uniform(-3.0, 3.0, rank)
        ars = Ars(space, seed)
        for iteration in range(100):
            drafts = ars.propose(view(iteration)).drafts
            ars.observe(
                candidates(
                    drafts,
                    lambda x, top=top: -float(np.square(x - top).sum()) + noise * rng.normal(),
                ),
                None,
            )
        ways.append(np.linalg.norm(ars._centre - top) / np.linalg.norm(top))
    assert max(ways) < 0.25, ways


def test_cma_starts_anew_when_all_returns_are_equal_and_stays_at_the_top():
    flat = Cma(POLICY.space, 1)
    places = []
    for iteration in range(60):
        drafts = flat.propose(view(iteration)).drafts
        places.append(np.mean([d.params for d in drafts], axis=0))
        flat.observe(candidates(drafts, lambda x: -200.0), None)
    assert flat._restarts > 0 and flat.at_once == Cma(POLICY.space, 1).at_once
    top = Cma(POLICY.space, 1)
    for iteration in range(60):
        drafts = top.propose(view(iteration)).drafts
        top.observe(candidates(drafts, lambda x: min(0.0, 3 - float(np.linalg.norm(x)))), None)
    assert top._restarts == 0


def test_proposals_lie_within_the_bounds():
    for proposer in (Cma(POLICY.space, 2), Ars(POLICY.space, 2), Random(POLICY)):
        params = np.array([d.params for d in proposer.propose(view(1)).drafts])
        assert np.abs(params).max() <= 6.0


def test_the_model_of_a_small_world_finds_the_way_and_improves_a_table():
    task = find_task("Maze-v0")
    model = TabularModel(task)
    rng = generator(0, "walk")
    from telic.search.worlds import maze

    world, steps = maze(), []
    state = 0
    for _ in range(400):
        action = int(rng.integers(4))
        following = int(world.following[state, action, 0])
        done = bool(world.ending[following])
        steps.append(
            tuple(
                np.array([each])
                for each in (0, state, action, world.reward[following], following, done)
            )
        )
        state = 0 if done else following
    model.learn(BatchRecording(steps, 0, 1))
    table = model.best_table(generator(0, "x"))
    assert [table[s] for s in (0, 3, 6, 7)] == [1, 1, 2, 2]
    before = (1.0, 0, 0, 1.0, 0, 0, 2.0, 3.0, 0)  # right but for the last step
    assert model.improve(before)[7] == 2


@pytest.mark.parametrize(
    ("env", "method", "least"),
    [("CartPole-v1", "cma", 475), ("Nim-v0", "tabular", 1.0), ("Maze-v0", "tabular", 0.966)],
)
def test_a_thousand_episodes_are_enough_for(env, method, least, tmp_path):
    found = search(env, method=method, episodes=1000, runs_dir=tmp_path, jobs=1)
    assert found.best.fresh.mean >= least


def test_the_offline_critic_takes_a_limited_step_and_leaves_good_policies_alone(tmp_path):
    found = search(
        "MountainCarContinuous-v0",
        method="r2po",
        episodes=300,
        runs_dir=tmp_path,
        jobs=1,
        fresh_episodes=2,
        switches={"rollouts": 2, "confirm": 0},
    )
    from telic.search.records import SearchRunFolder

    log = list(SearchRunFolder(found.path / "run_01").read())
    revised = [
        each for each in log if len(each.candidates) > 1 and each.candidates[-1].place == "second"
    ]
    assert revised
    for iteration in revised:
        first = max((c for c in iteration.candidates if c.place == "first"), key=lambda c: c.mean)
        second = iteration.candidates[-1]
        assert second.origin == "offline critic" and first.mean < 97
        assert np.abs(np.array(first.params) - np.array(second.params)).max() <= 1.0 + 1e-6
