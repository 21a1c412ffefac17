"""What the terms of a reward did during training: shares, trends, saturation, and advice."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from telic.studies.documents.base import Document, Part
from telic.studies.documents.metrics import Component
from telic.studies.evidence import hacking
from telic.studies.evidence.series import Series, mean
from telic.studies.evidence.terms import (
    FEWEST_EVALUATIONS,
    WINDOW,
    TermReflection,
    reflect_term,
)

Action = Literal["raise", "lower", "remove", "reshape", "keep"]


class Advice(Part):
    """What to do about a term."""

    term: str
    action: Action
    why: str


class Reflection(Document):
    """reward_reflection.json."""

    schema_id: str = Field(default="telic.reward_reflection/1", alias="schema")
    run: str
    window: dict[str, tuple[float, float]]
    terms: tuple[TermReflection, ...]
    n_eff: float | None
    primary: dict[str, Any]
    guardrails: tuple[hacking.GuardrailChange, ...]
    hacking: hacking.Hacking
    advice: tuple[Advice, ...]
    insufficient_data: bool


class RewardLog(Part):
    """What a reflection is made from."""

    run: str
    terms: dict[str, Series]
    """weighted contribution of each term per step"""
    metric: Series | None
    """the primary metric at evaluations, turned so that larger is better"""
    returns: Series | None
    components: tuple[Component, ...] = ()
    target: float | None = None
    """turned like the metric"""
    guardrails: tuple[hacking.GuardrailSeries, ...] = ()
    degenerate: hacking.Degenerate = hacking.Degenerate()
    judges: hacking.JudgeConflict = hacking.JudgeConflict()


def reflect(log: RewardLog) -> Reflection:
    """Return what the terms did, how likely the reward is being gamed, and what to do."""
    terms = {name: each.finite() for name, each in log.terms.items()}
    terms = {name: each for name, each in terms.items() if each.values}
    ends = _ends(terms)
    last = {
        name: each.between(ends[0] + 0.8 * (ends[1] - ends[0]), ends[1])
        for name, each in terms.items()
    }
    sizes = {name: mean([abs(v) for v in each.values]) or 0.0 for name, each in last.items()}
    total = math.fsum(sizes.values())
    shares = {name: size / total if total > 0 else None for name, size in sizes.items()}
    metric = log.metric.finite() if log.metric else None
    below = _is_below(metric, log.target)
    bounds = {each.key: each.bounds for each in log.components}
    found = tuple(
        reflect_term(name, terms, last, shares, bounds.get(name), metric, below) for name in terms
    )
    known = [share for share in shares.values() if share]
    n_eff = math.exp(-math.fsum(p * math.log(p) for p in known)) if known else None
    if n_eff is not None and n_eff < 1.5 and len(terms) >= 3:
        found = tuple(_flagged(each, "collapsed_mix") for each in found)
    changes = tuple(hacking.guardrail_change(each) for each in log.guardrails)
    risk = hacking.hacking_risk(
        log.returns, metric, max(known, default=None), changes, log.degenerate, log.judges
    )
    evaluations = len(metric.values) if metric else 0
    width = WINDOW * (ends[1] - ends[0])
    return Reflection(
        run=log.run,
        window={"w0": (ends[0], ends[0] + width), "w1": (ends[1] - width, ends[1])},
        terms=found,
        n_eff=n_eff,
        primary=_primary(metric, evaluations, below),
        guardrails=changes,
        hacking=risk,
        advice=tuple(_advice(each, len(terms)) for each in found),
        insufficient_data=evaluations < FEWEST_EVALUATIONS or not terms,
    )


def _ends(terms: Mapping[str, Series]) -> tuple[float, float]:
    steps = [step for each in terms.values() for step in (each.steps[0], each.steps[-1])]
    return (min(steps), max(steps)) if steps else (0.0, 0.0)


def _is_below(metric: Series | None, target: float | None) -> bool:
    if target is None or not metric or not metric.values:
        return True
    return (mean(metric.last(WINDOW).values) or metric.values[-1]) < target


def _primary(metric: Series | None, evaluations: int, is_below: bool) -> dict[str, Any]:
    if not metric or not metric.values:
        return {"evaluations": 0, "mean_w0": None, "mean_w1": None, "below_target": None}
    return {
        "evaluations": evaluations,
        "mean_w0": mean(metric.first(WINDOW).values),
        "mean_w1": mean(metric.last(WINDOW).values),
        "below_target": is_below,
    }


def _flagged(term: TermReflection, flag: str) -> TermReflection:
    return term.model_copy(update={"flags": (*term.flags, flag)})


_ADVICE: tuple[tuple[str, Action, str], ...] = (
    ("misaligned", "reshape", "it grows while the metric falls"),
    ("dominant_critical", "lower", "it makes up more than 90 % of the reward"),
    ("dominant", "lower", "it makes up more than 60 % of the reward"),
    ("inactive", "remove", "it neither adds nor varies"),
    ("saturated", "reshape", "it gives all it can while the metric is short of its target"),
    ("oscillating", "reshape", "it swings instead of settling"),
    ("variance_dominant", "lower", "it alone decides how the reward varies"),
)


def _advice(term: TermReflection, count: int) -> Advice:
    for flag, action, why in _ADVICE:
        if flag in term.flags:
            return Advice(term=term.name, action=action, why=why)
    if count > 1 and term.share is not None and term.share < 0.01:
        return Advice(term=term.name, action="raise", why="it makes up less than 1 % of the reward")
    return Advice(term=term.name, action="keep", why="nothing speaks against it")
