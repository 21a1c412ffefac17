import pytest

from telic.studies.rules.results import (
    RunFact,
    after_short_trial,
    after_smoke,
    gain_outcome,
    incumbent_median,
    median_score,
    next_phase,
)
from tests.studies.candidates.small_study import measure

GOOD = RunFact("r-1", True, 0.1)


@pytest.mark.parametrize(
    ("runs", "verdict"),
    [
        ([GOOD], "advance"),
        ([], "wait"),
        ([GOOD, RunFact("r-2", False, None)], "hold"),
        ([RunFact("r-1", True, 0.9, ("nan_inf",))], "hold"),
        ([RunFact("r-1", True, None)], "wait"),
    ],
)
def test_smoke_asks_whether_it_works_not_how_well(runs, verdict):
    assert after_smoke(runs).verdict == verdict


@pytest.mark.parametrize(
    ("scores", "incumbent", "direction", "verdict"),
    [
        ({"a": 0.6, "b": 0.9, "c": 0.8}, 0.5, "max", "advance"),  # beats the incumbent
        ({"a": 0.6, "b": 0.9, "c": 0.8}, 0.7, "max", "hold"),  # third of three
        ({"a": 0.9, "b": 0.6, "c": 0.8}, 0.95, "max", "advance"),  # first of three
        ({"a": 0.1, "b": 0.6, "c": 0.8}, None, "min", "advance"),
        ({"a": 0.4, "b": None}, None, "max", "wait"),
        ({"a": 0.4, "b": None}, 0.3, "max", "advance"),  # others cannot change that
        ({"a": None, "b": 0.1}, 0.3, "max", "wait"),
        ({"a": 0.4}, 0.5, "max", "advance"),  # alone it is the best of its batch
        ({"a": 0.7, "b": 0.9, "c": 0.8, "d": 0.1}, 1.0, "max", "hold"),  # ceil(4 / 3) = 2
    ],
)
def test_a_short_trial_filters(scores, incumbent, direction, verdict):
    assert after_short_trial("a", scores, incumbent, direction, 3).verdict == verdict


def test_a_median_needs_every_run():
    assert median_score([GOOD, RunFact("r-2", True, 0.3), RunFact("r-3", True, 0.2)]) == 0.2
    assert median_score([GOOD, RunFact("r-2", True, None)]) is None
    assert median_score([]) is None


@pytest.mark.parametrize(
    ("low", "high", "outcome"),
    [
        (0.06, 0.2, "holds"),  # all above half of 0.1
        (-0.02, 0.04, "lost"),  # all below
        (0.04, 0.2, "cannot_tell"),
        (0.05, 0.2, "cannot_tell"),
    ],
)
def test_a_claim_may_lose_half_of_its_gain_at_most(low, high, outcome):
    assert gain_outcome(0.1, low, high) == outcome


def test_phases_follow_the_plan():
    assert next_phase("smoke", ("smoke", "promotion")) == "promotion"
    assert next_phase("promotion", ("smoke", "promotion")) is None


def test_the_incumbent_is_summed_up_to_the_same_step_as_a_score_is(based):
    state = based.state
    rising = [(100.0, 0.1), (200.0, 0.3), (1000.0, 0.9)]
    for name in state.runs_of(state.incumbent.candidate, "incumbent_validation"):
        measure(based, name, 0.5, curve=rising)
    found = incumbent_median(based, 250.0)
    assert found == pytest.approx((0.1 + 0.3) / 2)  # the metric spec says: mean
    assert incumbent_median(based, 2000.0) is None
