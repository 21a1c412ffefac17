"""Partial credit, gates and guards, by hand."""

import math

import pytest

from telic.errors import UsageError
from telic.judges.criteria import require, score, total_score


@pytest.mark.parametrize(
    ("value", "zero", "goal", "credit"),
    [
        (0.0, 1.0, 3.0, 0.0),
        (1.0, 1.0, 3.0, 0.0),
        (2.0, 1.0, 3.0, 0.5),
        (3.0, 1.0, 3.0, 1.0),
        (9.0, 1.0, 3.0, 1.0),
        (0.1, 0.5, 0.1, 1.0),
        (0.3, 0.5, 0.1, 0.5),
        (0.9, 0.5, 0.1, 0.0),
    ],
)
def test_credit_is_a_ramp_in_either_direction(value, zero, goal, credit):
    made = score("x", value, zero=zero, goal=goal)
    assert made.credit == pytest.approx(credit)
    assert made.passed == (credit == 1.0)


def test_what_is_not_a_number_earns_nothing_and_is_not_measured():
    made = score("x", math.nan, zero=0.0, goal=1.0)
    assert (made.value, made.credit, made.passed) == (None, 0.0, False)


def test_criterion_behind_a_closed_gate_does_not_count():
    first = score("turns", 0.4, zero=0.0, goal=1.0)
    second = score("lands", 1.0, zero=0.0, goal=1.0, after=first)
    assert (second.credit, second.counted, second.passed) == (1.0, 0.0, False)
    opened = score("lands", 1.0, zero=0.0, goal=1.0, after=score("turns", 0.6, zero=0.0, goal=1.0))
    assert opened.counted == 1.0


def test_the_score_is_the_mean_by_weight_times_every_guard():
    scores = [
        score("a", 1.0, zero=0.0, goal=1.0, weight=3.0),
        score("b", 0.0, zero=0.0, goal=1.0, weight=1.0),
    ]
    assert total_score(scores) == pytest.approx(0.75)
    assert total_score([*scores, require("upright", 0.5, zero=0.0, goal=1.0)]) == pytest.approx(
        0.375
    )


def test_a_judge_without_weight_or_range_is_refused():
    with pytest.raises(UsageError, match="at least one score"):
        total_score([require("upright", 1.0, zero=0.0, goal=1.0)])
    with pytest.raises(UsageError, match="range"):
        score("x", 1.0, zero=1.0, goal=1.0)
