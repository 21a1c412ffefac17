"""Outcomes of a session are named in one module, and only a pass is a pass."""

from itertools import product
from typing import get_args

import pytest

from telic.bench._report import WORDS
from telic.bench.results import CaseOutcome
from telic.cli._views import OUTCOMES as SHOWN
from telic.session.records import (
    ENDED,
    ONE_SEED,
    OUTCOMES,
    SessionState,
    ending_of_pass,
    exit_code,
    outcome_words,
)


def test_every_outcome_has_words_and_is_known_wherever_outcomes_are():
    assert len({outcome_words(outcome) for outcome in OUTCOMES}) == len(OUTCOMES)
    assert set(OUTCOMES) <= set(get_args(SessionState))
    assert set(OUTCOMES) <= set(get_args(CaseOutcome)) == set(WORDS) == set(SHOWN)
    assert set(ENDED) == set(OUTCOMES) - {"stopped"}


def test_exit_code_is_zero_only_for_a_pass():
    codes = {outcome: exit_code(outcome) for outcome in OUTCOMES}
    assert codes == {
        "passed": 0,
        "passed_in_part": 6,
        "claimed": 7,
        "unproven": 7,
        "not_passed": 1,
        "stopped": 1,
    }
    assert exit_code("stopped", out_of_budget=True) == 3


@pytest.mark.parametrize(
    ("doubts", "left_out", "accept_partial", "limits"),
    list(product([(), ("a doubt",)], [(), ("the piano",)], [False, True], [(), (ONE_SEED,)])),
)
def test_only_what_nothing_speaks_against_is_a_pass(doubts, left_out, accept_partial, limits):
    ending = ending_of_pass(doubts, left_out, limits, accept_partial=accept_partial)
    is_part = bool(left_out) and not accept_partial
    expected = "unproven" if doubts else "passed_in_part" if is_part else "passed"
    assert ending.outcome == expected
    assert bool(ending.reasons) == (expected != "passed")
    assert ending.limits == limits
    if doubts:
        assert ending.reasons[0] == "a doubt"
    if is_part:
        assert "“the piano”" in ending.reasons[-1]


def test_limits_of_a_pass_are_reported_with_it():
    assert outcome_words("passed", (ONE_SEED,)) == "passed (one training seed)"
    assert outcome_words("not_passed", (ONE_SEED,)) == "did not pass"
