"""Probes and curricula: known answers and what is refused."""

import math

import pytest

from telic.studies.errors import StudyError
from telic.studies.evidence.curriculum import curriculum_problems
from telic.studies.evidence.probes import (
    ProbedParameter,
    ProbePlan,
    ProbeResult,
    grid,
    range_problems,
    summarise,
)


def plan(**changes):
    parameter = {"path": "mass", "nominal": 1.0, "grid": (0.5, 0.75, 1.0, 1.25, 1.5), **changes}
    return ProbePlan(
        candidate="c-0001-base",
        checkpoint_sha="f" * 64,
        protocol_hash="a" * 64,
        parameters=(ProbedParameter(**parameter),),
        seeds=(1, 2, 3),
    )


def results(retentions, broken=()):
    """Scores without noise, so that bounds equal the means."""
    return {
        "mass": [
            ProbeResult(value=v, scores=(10 * r,) * 3, guardrails_held=v not in broken)
            for v, r in zip((0.5, 0.75, 1.0, 1.25, 1.5), retentions, strict=True)
        ]
    }


def test_the_feasible_range_is_contiguous_around_the_nominal_value():
    found = summarise(plan(), results((0.9, 0.5, 1.0, 0.9, 0.4))).parameters[0]
    assert found.feasible == (1.0, 1.25), "0.5 holds again, but not from the centre"
    # up: from 0.9 at 1.25 to 0.4 at 1.5, 0.8 lies a fifth of the way; down: from 1 to 0.5, 0.4
    assert found.suggested_range == pytest.approx((1.0 - 0.4 * 0.25, 1.25 + 0.2 * 0.25))
    assert found.censored == ()
    assert found.sensitivity == pytest.approx(0.5 / math.log(1.5 / 1.25))


def test_a_grid_that_ends_before_the_policy_does_is_censored():
    found = summarise(plan(), results((0.95, 0.97, 1.0, 0.9, 0.7))).parameters[0]
    assert found.censored == ("lo",) and found.feasible == (0.5, 1.25)


def test_a_broken_guardrail_ends_the_range_at_the_last_good_point():
    found = summarise(plan(), results((0.9, 0.9, 1.0, 0.95, 0.95), broken=(1.25,))).parameters[0]
    assert found.feasible[1] == 1.0 == found.suggested_range[1]
    assert found.safety_notes == ("a guardrail broke at 1.25",)


def test_the_worst_policy_counts_as_zero_and_noise_lowers_the_bound():
    scores = {0.5: -50.0, 0.75: -20.0, 1.0: 0.0, 1.25: -10.0, 1.5: -90.0}
    shifted = {"mass": [ProbeResult(value=v, scores=(s,) * 3) for v, s in scores.items()]}
    found = summarise(plan(), shifted, worst=-100.0).parameters[0]
    assert [each.retention for each in found.points] == pytest.approx([0.5, 0.8, 1, 0.9, 0.1])
    assert found.feasible == (0.75, 1.25)
    noisy = results((0.9, 0.9, 1.0, 0.9, 0.9))
    noisy["mass"][3] = ProbeResult(value=1.25, scores=(10.0, 10.0, 7.0))
    point = summarise(plan(), noisy).parameters[0].points[3]
    assert point.retention == pytest.approx(0.9) and point.rho_lo < 0.81


def test_results_that_are_missing_are_named():
    with pytest.raises(StudyError, match="no results for mass"):
        summarise(plan(), {})
    with pytest.raises(StudyError, match="worst policy"):
        summarise(plan(), results((1, 1, 0, 1, 1)))


def test_grids_hold_the_nominal_value_and_both_ends():
    assert grid(1.0, 0.5, 2.0, is_log=True) == pytest.approx(
        tuple(0.5 * 4 ** (i / 6) for i in range(7))
    )
    made = grid(0.9, 0.0, 2.0)
    assert 0.9 in made and (made[0], made[-1], len(made)) == (0.0, 2.0, 7)
    assert grid(0.0, 0.0, 6.0) == (0, 1, 2, 3, 4, 5, 6)
    assert plan(grid=grid(1.0, 0.5, 1.6)).evaluations == (1 + 6) * 3
    with pytest.raises(StudyError, match="no grid"):
        grid(1.0, 0.0, 2.0, is_log=True)


def test_ranges_may_exceed_what_was_probed_by_a_tenth():
    found = summarise(plan(), results((0.5, 0.9, 1.0, 0.9, 0.4)))  # feasible 0.75 to 1.25
    assert range_problems({"mass": (0.7, 1.3)}, found) == []
    assert "more than a tenth" in range_problems({"mass": (0.69, 1.3)}, found)[0]
    assert range_problems({"wind": (0, 1)}, found) == ["wind was not probed"]


# ---------------------------------------------------------------------------- curriculum

GOOD = {
    "mode": "generate",
    "success": {"a": 0.1, "b": 0.5, "c": 0.95},
    "bridges": {"a": "f1", "b": "f1", "c": "f2"},
    "protocol_hash": "p",
    "rollback": {"condition": "success < 0.5", "action": "restore", "checkpoint": "last.pt"},
}


def test_a_good_curriculum_has_no_problems():
    assert curriculum_problems(GOOD, "p") == []
    schedule = {**GOOD, "mode": "schedule", "bridges": {}}
    assert curriculum_problems(schedule, "p") == []
    assert curriculum_problems(None, "p") == ["the curriculum section is missing"]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"success": {"a": 0.5, "b": 1.0}}, "only 50%"),
        ({"protocol_hash": "q"}, "not the study's"),
        ({"overlap_hashes": ["h"]}, "equal held-out"),
        ({"bridges": {"a": "f"}}, "case b names no failure"),
        ({"rollback": {"condition": "", "action": "x", "checkpoint": "y"}}, "rollback.condition"),
    ],
)
def test_what_a_curriculum_lacks_is_named(change, complaint):
    assert any(complaint in each for each in curriculum_problems({**GOOD, **change}, "p"))
