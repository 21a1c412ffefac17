"""Reward reflection and hacking risk: known answers, and a planted exploit."""

import math
from dataclasses import replace

import pytest

from telic.studies.documents.metrics import Component, Guardrail, MetricSpec
from telic.studies.evidence.reflection import (
    GuardrailChange,
    RewardLog,
    degenerate_signs,
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


def reward_log(terms, metric=RISE, returns=RISE, components=(), target=None, **series):
    spec = MetricSpec.model_validate(
        {
            "primary": {"key": "success", "direction": "max", "target": target},
            "replication_unit": "training_seed",
            "components": components,
            "guardrails": (),
            "extractor": {"kind": "jsonl", "path": "metrics.jsonl"},
        }
    )
    named = {"success": metric, "return": returns, **series}
    return RewardLog("r", terms, {name: x for name, x in named.items() if x is not None}, spec)


def terms_of(terms, **more):
    found = reflect(reward_log(terms, **more))
    return {each.name: each for each in found.terms}, found


def test_shares_by_hand():
    terms, _ = terms_of({"a": line([6] * 101), "b": line([-3] * 101), "c": line([1] * 101)})
    assert [terms[name].share for name in "abc"] == pytest.approx([0.6, 0.3, 0.1])
    assert "dominant" not in terms["a"].flags, "0.60 itself is still fine"


def test_domination_has_two_grades_and_needs_three_terms():
    for size, flag in ((7, "dominant"), (19, "dominant_critical")):
        terms, _ = terms_of({"a": line([size] * 101), "b": line([1] * 101), "c": line([0.5] * 101)})
        assert flag in terms["a"].flags
    terms, _ = terms_of({"a": line([99] * 101), "b": line([1] * 101)})
    assert "dominant_critical" not in terms["a"].flags


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


def test_few_evaluations_are_insufficient():
    _, found = terms_of({"a": RISE}, metric=line(range(7)))
    assert found.insufficient_data and found.terms[0].alignment is None
    _, found = terms_of({"a": RISE}, metric=line(range(8)))
    assert not found.insufficient_data and found.terms[0].alignment == pytest.approx(1.0)
    _, found = terms_of({}, metric=None)
    assert found.insufficient_data and found.hacking.level == "low"


# ---------------------------------------------------------------------------- hacking

FALL = line([1 - i / 100 for i in range(101)])


def risk(share=0.0, guardrails=(), **log):
    return hacking_risk(
        reward_log({}, **{"metric": None, "returns": None, **log}), share, guardrails
    )


def test_the_risk_formula_by_hand():
    half_broken = [
        GuardrailChange(key="a", mean_w0=1, mean_w1=0, is_degraded=True),
        GuardrailChange(key="b", mean_w0=1, mean_w1=1, is_degraded=False),
    ]
    log = reward_log({}, metric=FALL, returns=RISE, action_saturation=line([0.6] * 9))
    found = hacking_risk(replace(log, is_flagged=True), 0.75, half_broken)
    assert (found.A, found.C, found.D, found.E) == (1.0, 0.5, 1.0, 1.0)
    assert pytest.approx(0.5) == found.B
    wanted = 1 - (1 - 0.65) * (1 - 0.15) * (1 - 0.25) * (1 - 0.4) * (1 - 0.3)
    assert found.score == pytest.approx(wanted) and found.level == "high"
    assert len(found.reasons) == 5


def test_a_rising_metric_is_no_divergence():
    assert risk(metric=RISE, returns=RISE).score == 0.0
    assert risk(metric=RISE, returns=FALL).A == 0.0


@pytest.mark.parametrize(("share", "level"), [(0.6, "low"), (0.9, "medium")])
def test_domination_alone_is_at_most_medium(share, level):
    found = risk(share)
    assert found.level == level and found.score == pytest.approx(0.3 * (share - 0.6) / 0.3)


@pytest.mark.parametrize(
    ("facts", "fires"),
    [
        ({"horizon_share": [0.9], "motion_ratio": [0.04]}, True),
        ({"horizon_share": [0.9], "motion_ratio": [0.06]}, False),
        ({"action_saturation": [0.51]}, True),
        ({"action_saturation": [0.5]}, False),
        ({"episode_length": [100, 49]}, True),
        ({"episode_length": [100, 51]}, False),
        ({"violation_ratio": [2.1]}, True),
        ({"violation_ratio": [2.0]}, False),
    ],
)
def test_degenerate_behaviour(facts, fires):
    series = {name: line(values) for name, values in facts.items()}
    assert bool(degenerate_signs(series)) is fires


def test_guardrails_degrade_beyond_their_margin_or_past_their_threshold():
    loss = Guardrail(key="falls", direction="min", rule="non_inferior", margin=0.5)
    assert guardrail_change(loss, RISE).is_degraded
    assert not guardrail_change(loss.model_copy(update={"margin": 0.9}), RISE).is_degraded
    limit = Guardrail(key="speed", direction="max", rule="absolute", threshold=0.5)
    assert guardrail_change(limit, FALL).is_degraded
    assert not guardrail_change(limit, RISE).is_degraded


def test_a_planted_exploit_is_high():
    """Return up, success down, one term takes over, episodes become short."""
    bonus = line([i + wobble(i) for i in range(101)])
    honest = line([1 + 0.1 * wobble(i) for i in range(101)])
    _, found = terms_of(
        {"bonus": bonus, "forward": honest, "alive": honest},
        metric=FALL,
        returns=bonus,
        episode_length=line([100] * 50 + [30] * 51),
    )
    assert found.hacking.level == "high"
    assert {each.term: each.action for each in found.advice}["bonus"] in ("lower", "reshape")
    _, honest_run = terms_of({"bonus": honest, "forward": RISE, "alive": honest})
    assert honest_run.hacking.level == "low"
