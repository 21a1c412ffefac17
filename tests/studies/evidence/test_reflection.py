"""Reward reflection and hacking risk: known answers, and a planted exploit."""

import math

import pytest

from telic.studies.documents.contract import MetricSpec
from telic.studies.evidence._logs import Series
from telic.studies.evidence.review import (
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
