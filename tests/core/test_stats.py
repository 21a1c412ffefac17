"""Statistical tests: compared with scipy and hand counts, and None for too few samples."""

from itertools import combinations

import numpy as np
import pytest
import scipy.stats

from telic.core import stats

RNG = np.random.default_rng(5)


def test_the_paired_test_is_scipys():
    a, b = RNG.normal(1, 1, 6), RNG.normal(0, 1, 6)
    wanted = scipy.stats.ttest_rel(a, b, alternative="greater").pvalue
    assert stats.paired_greater(a, b) == pytest.approx(wanted, abs=1e-10)
    signs = scipy.stats.binomtest(6, 6, alternative="greater").pvalue
    assert stats.paired_greater(a, a - 1) == signs, "no spread: the signs are counted"
    assert stats.paired_greater(a, a + 1) == 1.0
    assert stats.paired_greater(a, a) is None


def test_the_exact_rank_test_counts_ties():
    a, b = np.array([1.0, 2.0, 2.0, 5.0]), np.array([0.0, 2.0, 3.0])
    pool = np.concatenate((a, b))
    ranks = scipy.stats.rankdata(pool)
    sums = [sum(ranks[list(chosen)]) for chosen in combinations(range(7), 4)]
    wanted = np.mean([each >= ranks[:4].sum() for each in sums])
    assert stats.mann_whitney_greater(a, b) == pytest.approx(wanted)


def test_holm_leaves_out_what_is_unknown():
    assert stats.holm([0.01, None, 0.04, 0.03]) == pytest.approx([0.03, None, 0.06, 0.06])


def test_equal_values_do_not_prove_a_zero_difference():
    low, high = stats.mean_interval(np.ones(200), 0.0, 1.0)
    assert (low, high) == pytest.approx((200 / 203.84, 1.0), 1e-3)  # n / (n + z^2)
    inside = stats.mean_interval(np.full(200, 250.0), 0.0, 500.0)
    assert inside.low < 250.0 < inside.high
    shares = stats.mean_interval(np.array([0.0, 1.0] * 50), 0.0, 1.0)
    assert shares == pytest.approx(stats.wilson(50, 100))
    assert stats.mean_interval(np.ones(1), 0.0, 1.0) is None
