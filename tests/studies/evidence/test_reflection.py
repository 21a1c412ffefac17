"""Reward reflection and hacking risk: known answers, and a planted exploit."""

import math

import pytest

from telic.studies.documents.metrics import Component, Guardrail
from telic.studies.evidence.reflection import (
    Degenerate,
    GuardrailChange,
    GuardrailSeries,
    RewardLog,
    guardrail_change,
    hacking_risk,
    reflect,
)
from telic.studies.evidence.statistics import Series


def line(values):
    return Series(tuple(float(i) for i in range(len(values))), tuple(map(float, values)))


def wobble(i):
    return math.modf(i * 0.6180339887)[0] - 0.5


RISE = line([i / 100 for i in range(101)])
"""the metric of a run that goes well"""


def terms_of(terms, **more):
    found = reflect(RewardLog(run="r", terms=terms, **{"metric": RISE, "returns": RISE, **more}))
    return {each.name: each for each in found.terms}, found


def test_shares_and_diversity_by_hand():
    terms, found = terms_of({"a": line([6] * 101), "b": line([-3] * 101), "c": line([1] * 101)})
    assert [terms[name].share for name in "abc"] == pytest.approx([0.6, 0.3, 0.1])
    entropy = -(0.6 * math.log(0.6) + 0.3 * math.log(0.3) + 0.1 * math.log(0.1))
    assert found.n_eff == pytest.approx(math.exp(entropy))
    assert "dominant" not in terms["a"].flags, "0.60 itself is still fine"


def test_domination_has_two_grades_and_needs_three_terms():
    for size, flag in ((7, "dominant"), (19, "dominant_critical")):
        terms, _ = terms_of({"a": line([size] * 101), "b": line([1] * 101), "c": line([0.5] * 101)})
        assert flag in terms["a"].flags
    terms, found = terms_of({"a": line([99] * 101), "b": line([1] * 101)})
    assert "dominant_critical" not in terms["a"].flags
    assert not any("collapsed_mix" in each.flags for each in found.terms)


def test_a_collapsed_mix_needs_three_terms():
    terms, found = terms_of({"a": line([98] * 101), "b": line([1] * 101), "c": line([1] * 101)})
    assert found.n_eff < 1.5 and all("collapsed_mix" in each.flags for each in terms.values())


def test_the_variance_shares_sum_to_one():
    terms, _ = terms_of(
        {
            "a": line([10 * wobble(i) for i in range(101)]),
            "b": line([wobble(7 * i) for i in range(101)]),
        }
    )
    assert terms["a"].var_share + terms["b"].var_share == pytest.approx(1.0)
    assert "variance_dominant" in terms["a"].flags


def test_inactive_rising_falling():
    terms, found = terms_of(
        {"still": line([0.0] * 101), "up": RISE, "down": line([-i / 100 for i in range(101)])}
    )
    assert terms["still"].flags == ("inactive",)
    # over the last fifth: slope 0.01 x 20 steps / 1
    assert terms["up"].trend == pytest.approx(0.2) and "rising" in terms["up"].flags
    assert "falling" in terms["down"].flags and "misaligned" in terms["down"].flags
    advice = {each.term: each.action for each in found.advice}
    assert advice == {"still": "remove", "up": "keep", "down": "reshape"}


def test_bounded_terms_saturate_near_their_top_while_the_metric_is_short():
    top = {"alive": line([0.5] * 80 + [0.96] * 21), "other": RISE}
    bounded = (Component(key="alive", bounds=(0.0, 1.0)),)
    terms, _ = terms_of(top, components=bounded, target=2.0)
    assert terms["alive"].saturation == 1.0 and "saturated" in terms["alive"].flags
    terms, _ = terms_of(top, components=bounded, target=0.5)
    assert "saturated" not in terms["alive"].flags, "the target is reached"


def test_a_cost_given_by_its_size_saturates_where_it_vanishes():
    bounded = (Component(key="energy", bounds=(0.0, 1.0)),)
    terms, _ = terms_of({"energy": line([-1] * 50 + [-0.01] * 51)}, components=bounded)
    assert terms["energy"].saturation == 1.0


def test_unbounded_terms_saturate_when_they_level_off():
    levelled = line([min(i, 60) for i in range(101)])
    terms, _ = terms_of({"speed": levelled, "climb": RISE})
    assert "saturated" in terms["speed"].flags and "saturated" not in terms["climb"].flags


def test_swinging_terms_oscillate():
    swing = line([math.sin(i * math.pi / 4) for i in range(101)])  # a turn every 4 points
    terms, _ = terms_of({"swing": swing, "climb": RISE})
    assert (
        terms["swing"].churn == pytest.approx(25, abs=2) and "oscillating" in terms["swing"].flags
    )
    assert terms["climb"].churn == 0


def test_few_evaluations_are_insufficient():
    _, found = terms_of({"a": RISE}, metric=line(range(7)))
    assert found.insufficient_data and found.terms[0].alignment is None
    _, found = terms_of({"a": RISE}, metric=line(range(8)))
    assert not found.insufficient_data and found.terms[0].alignment == pytest.approx(1.0)
    _, found = terms_of({}, metric=None)
    assert found.insufficient_data and found.n_eff is None and found.hacking.level == "low"


# ---------------------------------------------------------------------------- hacking

QUIET = {"degenerate": Degenerate(), "is_flagged": False}
FALL = line([1 - i / 100 for i in range(101)])


def test_the_risk_formula_by_hand():
    half_broken = [
        GuardrailChange(key="a", mean_w0=1, mean_w1=0, is_degraded=True),
        GuardrailChange(key="b", mean_w0=1, mean_w1=1, is_degraded=False),
    ]
    found = hacking_risk(
        RISE,
        FALL,
        0.75,
        half_broken,
        Degenerate(action_saturation=0.6),
        True,
    )
    assert (found.A, found.C, found.D) == (1.0, 0.5, 1.0)
    assert pytest.approx(0.5) == found.B and found.E == 1.0
    wanted = 1 - (1 - 0.65) * (1 - 0.15) * (1 - 0.25) * (1 - 0.4) * (1 - 0.3)
    assert found.score == pytest.approx(wanted) and found.level == "high"
    assert len(found.reasons) == 5


def test_a_rising_metric_is_no_divergence():
    assert hacking_risk(RISE, RISE, None, [], **QUIET).score == 0.0
    assert hacking_risk(FALL, RISE, None, [], **QUIET).A == 0.0


@pytest.mark.parametrize(("share", "level"), [(0.6, "low"), (0.9, "medium")])
def test_domination_alone_is_at_most_medium(share, level):
    found = hacking_risk(None, None, share, [], **QUIET)
    assert found.level == level and found.score == pytest.approx(0.3 * (share - 0.6) / 0.3)


@pytest.mark.parametrize(
    ("facts", "fires"),
    [
        ({"horizon_share": 0.9, "motion_ratio": 0.04}, True),
        ({"horizon_share": 0.9, "motion_ratio": 0.06}, False),
        ({"action_saturation": 0.51}, True),
        ({"action_saturation": 0.5}, False),
        ({"episode_length_ratio": 0.49}, True),
        ({"episode_length_ratio": 0.51}, False),
        ({"violation_ratio": 2.1}, True),
        ({"violation_ratio": 2.0}, False),
    ],
)
def test_degenerate_behaviour(facts, fires):
    assert bool(Degenerate(**facts).reasons()) is fires


def test_guardrails_degrade_beyond_their_margin_or_past_their_threshold():
    loss = Guardrail(key="falls", direction="min", rule="non_inferior", margin=0.5)
    assert guardrail_change(GuardrailSeries(rule=loss, series=RISE)).is_degraded
    wide = loss.model_copy(update={"margin": 0.9})
    assert not guardrail_change(GuardrailSeries(rule=wide, series=RISE)).is_degraded
    limit = Guardrail(key="speed", direction="max", rule="absolute", threshold=0.5)
    assert guardrail_change(GuardrailSeries(rule=limit, series=FALL)).is_degraded
    assert not guardrail_change(GuardrailSeries(rule=limit, series=RISE)).is_degraded


def test_a_planted_exploit_is_high():
    """Return up, success down, one term takes over, episodes become short."""
    bonus = line([i + wobble(i) for i in range(101)])
    honest = line([1 + 0.1 * wobble(i) for i in range(101)])
    _, found = terms_of(
        {"bonus": bonus, "forward": honest, "alive": honest},
        metric=FALL,
        returns=bonus,
        degenerate=Degenerate(episode_length_ratio=0.3),
    )
    assert found.hacking.level == "high"
    assert {each.term: each.action for each in found.advice}["bonus"] in ("lower", "reshape")
    _, honest_run = terms_of({"bonus": honest, "forward": RISE, "alive": honest})
    assert honest_run.hacking.level == "low"
