"""Confidence bounds hold for policies with known true scores."""

import numpy as np
import pytest

from telic.core.confidence import ALPHA, fewest_scores, proven_mean, proves, spending

WORTHS = {
    "perfect": lambda chance, n: np.ones(n),
    "fails one in five": lambda chance, n: (chance.random(n) < 0.8).astype(float),
    "fails one in a hundred": lambda chance, n: (chance.random(n) < 0.99).astype(float),
    "even": lambda chance, n: chance.random(n),
    "saturated": lambda chance, n: np.minimum(1.0, chance.normal(1.0, 0.3, n)).clip(0.0),
    "nearly the same": lambda chance, n: chance.normal(0.8, 0.01, n).clip(0.0, 1.0),
    "two values": lambda chance, n: np.where(chance.random(n) < 0.02, 0.0, 0.816),
}


@pytest.mark.parametrize("name", WORTHS)
@pytest.mark.parametrize("count", [8, 64])
def test_the_bound_is_hardly_ever_above_the_true_mean(name, count):
    chance = np.random.default_rng(0)
    truth = WORTHS[name](np.random.default_rng(1), 1_000_000).mean()
    sessions = [proven_mean(WORTHS[name](chance, count)) for _ in range(200)]
    assert np.mean([low <= truth + 1e-9 for low in sessions]) >= 1.0 - ALPHA - 0.01


@pytest.mark.parametrize("doubt", [ALPHA, ALPHA / 100])
def test_the_fewest_scores_that_prove_a_mean_are_enough_and_hardly_too_many(doubt):
    enough = next(count for count in range(512) if proves(np.ones(count), 0.8, doubt))
    assert enough <= fewest_scores(0.8, doubt) <= enough + 1


def test_adding_scores_until_it_is_enough_is_allowed_for():
    """A bound for one look only would be passed far more often than it says."""
    chance, wrong = np.random.default_rng(0), 0
    for _ in range(200):
        scores = (chance.random(256) < 0.8).astype(float)
        wrong += any(proves(scores[:count], 0.8) for count in range(32, 257, 32))
    assert wrong / 200 <= ALPHA


def test_all_looks_of_a_session_together_may_be_wrong_by_five_per_cent():
    spent = sum(
        3 * (7 * spending(number, 3, 7, is_last=False) + spending(number, 3, 7, is_last=True))
        for number in range(1, 1000)
    )
    assert ALPHA * 0.99 < spent <= ALPHA
    assert 3 * spending(1, 3, 0, is_last=True) == pytest.approx(ALPHA / 2)


def test_more_scores_prove_more_and_less_doubt_proves_less():
    lows = [proven_mean([0.9] * count) for count in (1, 4, 16, 64, 256)]
    assert lows == sorted(lows) and lows[0] < 0.1 and 0.86 < lows[-1] < 0.9
    assert proven_mean([1.0] * 12) == pytest.approx(0.743, abs=0.001)
    assert proven_mean([1.0] * 64, 0.001) < proven_mean([1.0] * 64, 0.05)
    assert proven_mean([]) == proven_mean([0.0] * 64) == 0.0
