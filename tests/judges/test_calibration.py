"""Labels of people raise the bar of a judge that is too kind, and do nothing else."""

import random

import pytest

from telic.judges.verdict import HANDFUL, Verdict, calibrate, lowered, unknown


def labels(*rows):
    return list(rows)


def drawn(seed):
    """Return labels of a person who mostly sees it as a judge with some cut does."""
    chance = random.Random(seed)
    cut, number = chance.random(), chance.randrange(0, 40)
    scores = [chance.choice([chance.random(), 1.0, 0.8]) for _ in range(number)]
    return labels(*((score, (score >= cut) ^ (chance.random() < 0.2)) for score in scores))


def test_scores_are_never_raised_and_only_lowered_where_people_then_agree_more():
    shifts = 0
    for given in map(drawn, range(500)):
        found = calibrate(given, 0.8)
        assert found.shift >= 0.0 and found.labels == len(given)
        agreeing = sum((score >= 0.8) == is_wanted for score, is_wanted in given)
        assert found.agreeing == agreeing
        if found.shift:
            shifts += 1
            after = sum((score - found.shift >= 0.8) == is_wanted for score, is_wanted in given)
            assert found.agreeing_after == after >= agreeing + 2 and len(given) >= HANDFUL
        assert str(found.labels) in found.words or not given
    assert 50 < shifts < 450


def test_a_handful_is_needed_and_one_slip_moves_nothing():
    refused = [(1.0, False)] * (HANDFUL - 1)
    assert calibrate(labels(*refused), 0.8).shift == 0.0
    one_slip = [(0.85, False), *[(0.9, True)] * HANDFUL]
    assert calibrate(labels(*one_slip), 0.8).shift == 0.0


def test_a_judge_whose_best_scores_people_refuse_can_prove_nothing():
    found = calibrate(labels(*[(1.0, False)] * HANDFUL), 0.8)
    (perfect,) = lowered([Verdict(source="code", score=1.0)], found)
    assert perfect.score < 0.8 and "6 labels" in perfect.reason


def test_a_yes_for_what_the_judge_refuses_makes_no_pass():
    found = calibrate(labels(*[(0.5, True)] * 20), 0.8)
    assert found.shift == 0.0 and found.agreeing == 0
    assert "0 of 20" in found.words


def test_unknown_stays_unknown_and_no_score_falls_below_nothing():
    found = calibrate(labels(*[(0.95, False)] * 4, *[(0.99, True)] * 4), 0.8)
    assert found.shift == pytest.approx(0.17)
    lost = lowered([unknown("code", "it broke"), Verdict(source="code", score=0.1)], found)
    assert [verdict.score for verdict in lost] == [None, 0.0]
