"""Four accountings: counted by hand, and nothing claimed that turns under one of them."""

import numpy as np
import pytest

from telic.search.accounting import (
    ACCOUNTINGS,
    CountedDifference,
    CountedRow,
    PublishedClaim,
    PublishedMean,
    better_of_two,
    make_claims,
    published,
)
from telic.search.records import PolicyCandidate, SearchIteration, TrialEpisodes
from telic.search.worlds import TASKS


def iteration(number, *means):
    candidates = tuple(
        PolicyCandidate(
            number=100 * number + place,
            params=(float(mean),),
            origin="x",
            tried=TrialEpisodes(seed=0, returns=(float(mean),), lengths=(1,), ends="t"),
        )
        for place, mean in enumerate(means)
    )
    return SearchIteration(
        number=number,
        candidates=candidates,
        selected=candidates[0].number,
        winner="first",
        incumbent=candidates[0].number,
        incumbent_mean=float(means[0]),
        episodes=1,
        steps=1,
        model="x",
    )


def test_the_better_of_two_is_counted_over_pairs_and_never_over_a_population():
    population = [iteration(1, 1, 5, 2, 3), iteration(2, 0, 0, 9, 1)]
    assert better_of_two(population, has_revisions=False) == (5 + 3 + 0 + 9) / 4
    single = [iteration(i, mean) for i, mean in enumerate((1, 4, 2, 0, 7), 1)]
    assert better_of_two(single, has_revisions=False) == (4 + 2 + 7) / 3
    revised = [iteration(1, 1, 4), iteration(2, 6), iteration(3, 2, 0)]
    assert better_of_two(revised, has_revisions=True) == (4 + 6 + 2) / 3


def test_the_better_of_two_lies_between_all_and_the_best():
    rng = np.random.default_rng(0)
    for _ in range(50):
        log = [iteration(i, *rng.normal(size=rng.integers(1, 7))) for i in range(1, 9)]
        means = [candidate.mean for each in log for candidate in each.candidates]
        for has_revisions in (False, True):
            pairs = better_of_two(log, has_revisions=has_revisions)
            assert np.mean(means) - 1e-12 <= pairs <= max(means)


def test_every_task_has_published_numbers_and_none_of_them_was_measured_afresh():
    for env in TASKS:
        rows = published(env)
        assert {"props", "props+", "r2po"} < set(rows) and len(rows) == 4
        for method, row in rows.items():
            mean = "better_of_two" if method == "r2po" else "all"
            assert set(row) == {mean, "best_seen"}, "nobody knows the others"
            assert row[mean].mean <= row["best_seen"].mean + 0.01
    assert published("Elsewhere-v0") == {}


def test_ten_runs_stand_for_a_published_mean_and_its_spread():
    runs = PublishedMean(3.0, 0.7).runs
    assert (
        len(runs) == 10
        and runs.mean() == pytest.approx(3)
        and runs.std(ddof=1) == pytest.approx(0.7)
    )


def standing(ours, difference, p, theirs=None):
    return CountedDifference(ours=ours, theirs=theirs or ours, difference=difference, p=p)


def verdict(*standings):
    return PublishedClaim(env="x", ours="own", theirs="r2po", standings=standings).verdict


def test_a_win_must_not_turn_under_any_accounting():
    pair, best = standing("better_of_two", 5, 0.001), standing("best_seen", 0.2, 0.9)
    everything = standing("all", 1, 0.5, theirs="better_of_two")
    fresh = standing("fresh", 0.1, 0.9, theirs="best_seen")
    assert verdict(everything, pair, best, fresh) == "win"
    assert verdict(pair, best) == "win"
    lower = standing("all", -3, 0.5, theirs="better_of_two")
    assert verdict(lower, pair, best, fresh) == "win where known"
    assert verdict(pair, standing("best_seen", -0.2, 0.9)) == "turns"
    assert verdict(standing("better_of_two", 5, 0.2), best) == "tie"
    assert verdict(standing("better_of_two", -5, 0.01), best) == "loss"
    assert verdict(standing("better_of_two", -5, 0.01), pair) == "turns"


def test_luckier_means_of_fewer_episodes_win_nothing_and_lose_all_the_same():
    def lucky(difference):
        return standing("best_seen", difference, 0.001).model_copy(update={"is_lucky": True})

    assert verdict(lucky(9)) == "tie" and verdict(lucky(-9)) == "loss"
    above = standing("fresh", 2, 0.001, theirs="best_seen")
    assert verdict(lucky(9), above) == "win", "fresh episodes above their best seen need no luck"
    values = {a: [3.0, 2.9, 3.0] for a in ACCOUNTINGS}
    for episodes, is_lucky in ((5, True), (20, False)):
        (claim,) = [
            c
            for c in make_claims([CountedRow("Pong-v0", "own", values, episodes)])
            if c.theirs == "r2po"
        ]
        assert {s.ours: s.is_lucky for s in claim.standings}["best_seen"] is is_lucky


def test_rounding_of_published_numbers_is_neither_a_win_nor_a_loss():
    assert standing("best_seen", -0.0033, None).sign == 0
    assert standing("best_seen", 0.02, None).sign == 1 and standing("all", 9, 0.2).sign == 0


def test_random_rows_claim_nothing_they_would_lose_under_another_accounting():
    rng = np.random.default_rng(1)
    for _ in range(200):
        values = {a: rng.normal(rng.normal(0, 3), 1, 6).tolist() for a in ACCOUNTINGS}
        for claim in make_claims([CountedRow("Pong-v0", "own", values, 20)]):
            signs = [each.sign for each in claim.standings]
            if claim.verdict == "win":
                assert min(signs) >= 0 and all(s.difference > -0.01 for s in claim.standings)
            if claim.verdict == "loss":
                assert -1 in signs


def test_more_comparisons_make_every_single_one_less_certain():
    values = {a: [2.9, 3.0, 2.8, 2.95, 2.85] for a in ACCOUNTINGS}
    alone = make_claims([CountedRow("Pong-v0", "own", values, 20)])
    many = make_claims([CountedRow("Pong-v0", "own", values, 20)] * 5)
    for one, same in zip(alone, many, strict=False):
        for a, b in zip(one.standings, same.standings, strict=True):
            assert a.p is None or a.p <= b.p
