"""Reward reflection and hacking risk: known answers, and a planted exploit."""

import math

import pytest

from telic.studies.documents.contract import MetricSpec
from telic.studies.evidence._logs import Series
from telic.studies.evidence.review import (
    GuardrailChange,
    hacking_risk,
    reflect,
)


def line(values):
    return Series(tuple(float(i) for i in range(len(values))), tuple(map(float, values)))


def wobble(i):
    return math.modf(i * 0.6180339887)[0] - 0.5


RISE = line([i / 100 for i in range(101)])
"""the metric of a run that goes well"""
FALL = line([1 - i / 100 for i in range(101)])
SPEC = MetricSpec.model_validate(
    {
        "primary": {"key": "success", "direction": "max"},
        "guardrails": (),
        "extractor": {"kind": "jsonl", "path": "metrics.jsonl"},
    }
)


def terms_of(terms, metric=RISE, returns=RISE, **series):
    named = {"success": metric, "return": returns, **series, **terms}
    found = reflect("r", terms, {name: x for name, x in named.items() if x is not None}, SPEC)
    return {each.name: each for each in found.terms}, found


def test_shares_by_hand_and_two_grades_of_domination():
    terms, _ = terms_of({"a": line([6] * 101), "b": line([-3] * 101), "c": line([1] * 101)})
    assert [terms[name].share for name in "abc"] == pytest.approx([0.6, 0.3, 0.1])
    assert "dominant" not in terms["a"].flags, "0.60 itself is still fine"
    for size, flag in ((7, "dominant"), (19, "dominant_critical")):
        terms, _ = terms_of({"a": line([size] * 101), "b": line([1] * 101), "c": line([0.5] * 101)})
        assert flag in terms["a"].flags
    terms, _ = terms_of({"a": line([99] * 101), "b": line([1] * 101)})
    assert "dominant_critical" not in terms["a"].flags, "two terms cannot be shared better"


def test_inactive_rising_falling():
    terms, _ = terms_of(
        {"still": line([0.0] * 101), "up": RISE, "down": line([-i / 100 for i in range(101)])}
    )
    assert terms["still"].flags == ("inactive",)
    # over the last fifth: slope 0.01 x 20 steps / 1
    assert terms["up"].trend == pytest.approx(0.2) and "rising" in terms["up"].flags
    assert "falling" in terms["down"].flags and "misaligned" in terms["down"].flags
    assert "inactive" in terms["still"].flags


def test_the_risk_formula_by_hand():
    half_broken = [
        GuardrailChange(key="a", mean_w0=1, mean_w1=0, is_degraded=True),
        GuardrailChange(key="b", mean_w0=1, mean_w1=1, is_degraded=False),
    ]
    series = {"return": RISE, "episode_length": line([100] * 9 + [40] * 9)}
    found = hacking_risk(series, FALL, 0.75, half_broken, is_flagged=True)
    assert (found.A, found.C, found.D, found.E) == (1.0, 0.5, 1.0, 1.0)
    assert pytest.approx(0.5) == found.B
    wanted = 1 - (1 - 0.65) * (1 - 0.15) * (1 - 0.25) * (1 - 0.4) * (1 - 0.3)
    assert found.score == pytest.approx(wanted) and found.level == "high"
    assert len(found.reasons) == 5
    for returns in (RISE, FALL):
        assert hacking_risk({"return": returns}, RISE, 0.0, ()).score == 0.0, "no divergence"
    for share, level in ((0.6, "low"), (0.9, "medium")):
        found = hacking_risk({}, None, share, ())
        assert found.level == level and found.score == pytest.approx(share - 0.6)


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
    _, honest_run = terms_of({"bonus": honest, "forward": RISE, "alive": honest})
    assert honest_run.hacking.level == "low"
