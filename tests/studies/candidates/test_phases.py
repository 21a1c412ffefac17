import pytest

from telic.studies.rules.results import gain_outcome, next_phase


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
