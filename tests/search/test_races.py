"""Races: the best advances, equal candidates rarely differ by chance, and luck proves nothing."""

from types import SimpleNamespace

import numpy as np
import pytest

from telic.search.loop import race, race_finalists
from telic.search.records import History, PolicyCandidate, TrialEpisodes
from telic.search.task import PolicyTrial, Rollouts, rollout_seeds


def candidate(number, returns, place="first", seed=0):
    tried = TrialEpisodes(
        seed=seed, returns=tuple(returns), lengths=(1,) * len(returns), ends="t" * len(returns)
    )
    return PolicyCandidate(
        number=number, params=(float(number),), origin="x", place=place, tried=tried
    )


class Drawn:
    """A run whose episodes are drawn: policy number i has mean i-th of `means`."""

    def __init__(self, means, rng, *, budget=600, rollouts=5, shared=0.0):
        self.means, self.rng, self.shared = means, rng, shared
        self.budget_left, self.is_spent = budget, True
        switches = SimpleNamespace(select="race")
        self.plan = SimpleNamespace(reserve=budget, rollouts=rollouts, switches=switches)
        self.history = History(confirm=0, keeps_losers=True)

    def seeds_for(self, purpose, count):
        return [0] * count

    def trial(self, params, seeds, count):
        return PolicyTrial(np.array(params), np.stack([rollout_seeds(0, count)] * len(params)))

    def spend(self, rollouts):
        self.budget_left -= rollouts.returns.size

    def play(self, steps):
        """Drive a generator to its end and return what it returns."""
        trial = next(steps, None)
        while trial is not None:
            means = np.array([self.means[int(row[0])] for row in trial.params])
            luck = self.shared * self.rng.normal(size=trial.seeds.shape[1])
            returns = means[:, None] + luck + self.rng.normal(size=trial.seeds.shape)
            ends = np.full(returns.shape, "t")
            try:
                trial = steps.send(Rollouts(returns, np.ones(returns.shape, np.int64), ends, None))
            except StopIteration as end:
                return end.value
        return None


def finalists_of(rng, count=16, budget=600):
    means = rng.normal(0, 0.5, count)
    run = Drawn(means, rng, budget=budget, shared=2.0)
    for number, mean in enumerate(means):
        run.history.count(candidate(number, mean + rng.normal(size=20)))
    return run, means


def test_the_race_of_finalists_finds_one_of_the_best_and_keeps_to_its_budget():
    rng, lost, alike = np.random.default_rng(0), [], []
    for _ in range(60):
        run, means = finalists_of(rng)
        checks = run.play(race_finalists(run))
        assert 0 <= run.budget_left < 600 * 0.1 and all(check.is_final for check in checks)
        lost.append(means.max() - means[run.history.incumbent.number])
        shares = [len(check.tried.returns) for check in checks]
        alike.append(max(shares) > 3 * min(shares))
    # With equal shares each would have a standard error of 0.16, and often a wrong one would win.
    assert np.mean(lost) < 0.1 and np.mean(np.array(lost) < 0.3) > 0.9 and all(alike)


@pytest.mark.parametrize(("gap", "most_decided"), [(0.0, 0.05), (3.0, 1.0)])
def test_races_between_equals_have_at_most_five_percent_false_positives(gap, most_decided):
    rng, decided = np.random.default_rng(2), 0
    for _ in range(300):
        run = Drawn([0.0, gap], rng, budget=1000, shared=3.0)
        luck = 3.0 * rng.normal(size=5)
        first, second = (
            candidate(0, luck + rng.normal(size=5)),
            candidate(1, luck + gap + rng.normal(size=5), "second"),
        )
        for each in (first, second):
            run.history.count(each)
        checks = run.play(race(run, [first], [second])) or []
        decided += len(checks) < 6  # three looks of two policies
    assert decided / 300 <= most_decided + 0.02 and (gap == 0 or decided > 250)
