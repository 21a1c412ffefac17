"""What the terms of a reward did during training: shares, trends, saturation, and advice."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pydantic import Field

from telic.studies.documents.base import Document, DocumentPart, StudyActor
from telic.studies.documents.candidate import Evidence
from telic.studies.documents.metrics import Component, Guardrail, MetricSpec
from telic.studies.errors import StudyError
from telic.studies.evidence.claims import oriented
from telic.studies.evidence.measurement import read_run_log, run_state
from telic.studies.evidence.review import last_review
from telic.studies.evidence.statistics import (
    Series,
    covariance,
    gain,
    mean,
    rank_correlation,
    slope,
    smooth,
    spread,
    turns,
)
from telic.studies.evidence.store import add_evidence

if TYPE_CHECKING:
    from telic.studies.study import Study

WINDOW = 0.2
"""the first and the last fifth of training are compared"""
FEWEST_EVALUATIONS = 8
EPSILON = 1e-8
_SMOOTHING = 5
_TERMS = "reward/"

Action = Literal["raise", "lower", "remove", "reshape", "keep"]


_WEIGHTS = {"A": 0.65, "B": 0.3, "C": 0.5, "D": 0.4, "E": 0.3}
MEDIUM, HIGH = 0.30, 0.60

Level = Literal["low", "medium", "high"]


class GuardrailSeries(DocumentPart):
    """A guardrail and how its number went."""

    rule: Guardrail
    series: Series


class GuardrailChange(DocumentPart):
    """How a guardrail went over training."""

    key: str
    mean_w0: float | None
    mean_w1: float | None
    is_degraded: bool
    """worse by more than its margin, or past its threshold at the end and not at the start"""


class Degenerate(DocumentPart):
    """Measures of behaviour that no honest solution shows; None is not measured."""

    horizon_share: float | None = None
    """share of episodes that reach the horizon"""
    motion_ratio: float | None = None
    """motion, in parts of the incumbent's"""
    action_saturation: float | None = None
    episode_length_ratio: float | None = None
    """length at the end against the length at the start"""
    violation_ratio: float | None = None
    """rate of contact or constraint violations, in parts of the baseline's"""

    def reasons(self) -> list[str]:
        """Return the indicators that fire."""
        tests = {
            "episodes last to the horizon almost without motion": (self.horizon_share or 0) > 0.5
            and self.motion_ratio is not None
            and self.motion_ratio < 0.05,
            "actions sit at their limits": (self.action_saturation or 0) > 0.5,
            "episodes became less than half as long": self.episode_length_ratio is not None
            and self.episode_length_ratio < 0.5,
            "violations more than doubled": (self.violation_ratio or 0) > 2,
        }
        return [why for why, fires in tests.items() if fires]


class Hacking(DocumentPart):
    """The five signals, 0 to 1 each, and what they amount to."""

    A: float
    B: float
    C: float
    D: float
    E: float
    score: float
    level: Level
    reasons: tuple[str, ...] = ()


class TermReflection(DocumentPart):
    """One term of the reward."""

    name: str
    share: float | None
    var_share: float | None
    mean_w0: float | None
    mean_w1: float | None
    trend: float | None
    saturation: float | None
    """bounded terms: share of the last window near the top; None for unbounded ones"""
    alignment: float | None
    """rank correlation with the metric at evaluations; None for fewer than 8"""
    churn: float | None
    flags: tuple[str, ...] = ()


class Advice(DocumentPart):
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
    guardrails: tuple[GuardrailChange, ...]
    hacking: Hacking
    advice: tuple[Advice, ...]
    insufficient_data: bool


class ReflectionResult(DocumentPart):
    """A reflection and the evidence that a candidate cites."""

    reflection: Reflection
    evidence: Evidence


class RewardLog(DocumentPart):
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
    guardrails: tuple[GuardrailSeries, ...] = ()
    degenerate: Degenerate = Degenerate()
    is_flagged: bool = False
    """a reviewer calls it an exploit"""


def reflect_run(study: Study, run: str, actor: StudyActor) -> ReflectionResult:
    """Reflect on a run's reward; raises StudyError E_NO_TERMS when its log has no reward terms."""
    candidate = run_state(study.state.runs, run).candidate
    spec = study.metric_spec
    series = read_run_log(study.folder, run).series
    terms = reward_terms(series, spec)
    if not terms:
        raise StudyError(
            "E_NO_TERMS",
            f"The log of {run} has no reward terms.",
            hint=f"Log each term as {_TERMS}NAME, or name them as components in metric_spec.yaml.",
        )
    metric, target = series.get(spec.primary.key), spec.primary.target
    review = last_review(study, candidate)
    reflection = reflect(
        RewardLog(
            run=run,
            terms=terms,
            metric=metric and metric.turned(spec.primary.direction),
            returns=series.get("return"),
            components=spec.components,
            target=None if target is None else oriented(target, spec.primary.direction),
            guardrails=tuple(
                GuardrailSeries(rule=rule, series=series[rule.key])
                for rule in spec.guardrails
                if rule.key in series
            ),
            degenerate=degenerate_signs(series),
            is_flagged=bool(review and review.payload.get("exploit")),
        )
    )
    evidence = add_evidence(
        study,
        "reflection",
        reflection.as_data(),
        actor,
        run=run,
        candidate=candidate,
        producer="telic.reflect",
        summary=f"hacking risk {reflection.hacking.level}",
    )
    return ReflectionResult(reflection=reflection, evidence=evidence)


def reward_terms(series: Mapping[str, Series], spec: MetricSpec) -> dict[str, Series]:
    """Return the weighted contribution of every term.

    Terms are the components of the metric spec, else every series named reward/…; one whose
    weight is logged apart is multiplied by it.
    """
    terms = {each.key: series[each.key] for each in spec.components if each.key in series}
    for component in spec.components:
        weight = series.get(component.weight_key) if component.weight_key else None
        if component.key in terms and weight is not None:
            terms[component.key] = _weighted(terms[component.key], weight)
    return terms or {name: each for name, each in series.items() if name.startswith(_TERMS)}


def _weighted(term: Series, weight: Series) -> Series:
    # Before its first entry a weight is taken to have been what it was then.
    weights = [weight.at(step) for step in term.steps]
    values = [
        value * (weight.values[0] if factor is None else factor)
        for value, factor in zip(term.values, weights, strict=True)
    ]
    return term._replace(values=tuple(values))


def reflect(log: RewardLog) -> Reflection:
    """Return what the terms did, how likely the reward is being gamed, and what to do."""
    terms = {name: each.finite() for name, each in log.terms.items()}
    terms = {name: each for name, each in terms.items() if each.values}
    steps = [step for each in terms.values() for step in (each.steps[0], each.steps[-1])]
    start, end = (min(steps), max(steps)) if steps else (0.0, 0.0)
    width = WINDOW * (end - start)
    last = {name: each.between(start + 0.8 * (end - start), end) for name, each in terms.items()}
    sizes = {name: mean([abs(v) for v in each.values]) or 0.0 for name, each in last.items()}
    total = math.fsum(sizes.values())
    shares = {name: size / total if total > 0 else None for name, size in sizes.items()}
    metric = log.metric.finite() if log.metric else None
    mix = _Mix(terms, last, shares, metric, _is_below(metric, log.target))
    bounds = {component.key: component.bounds for component in log.components}
    found = tuple(_reflect_term(name, mix, bounds.get(name)) for name in terms)
    known = [share for share in shares.values() if share]
    # exp of the entropy of the shares: how many terms of equal size would mix as much
    n_eff = math.exp(-math.fsum(p * math.log(p) for p in known)) if known else None
    if n_eff is not None and n_eff < 1.5 and len(terms) >= 3:
        found = tuple(t.model_copy(update={"flags": (*t.flags, "collapsed_mix")}) for t in found)
    changes = tuple(guardrail_change(each) for each in log.guardrails)
    risk = hacking_risk(
        log.returns, metric, max(known, default=None), changes, log.degenerate, log.is_flagged
    )
    evaluations = len(metric.values) if metric else 0
    return Reflection(
        run=log.run,
        window={"w0": (start, start + width), "w1": (end - width, end)},
        terms=found,
        n_eff=n_eff,
        primary=_primary(metric, mix.is_below),
        guardrails=changes,
        hacking=risk,
        advice=tuple(_advice(term, len(terms)) for term in found),
        insufficient_data=evaluations < FEWEST_EVALUATIONS or not terms,
    )


def _is_below(metric: Series | None, target: float | None) -> bool:
    if target is None or not metric or not metric.values:
        return True
    return (mean(metric.last(WINDOW).values) or metric.values[-1]) < target


def _primary(metric: Series | None, is_below: bool) -> dict[str, Any]:
    if not metric or not metric.values:
        return {"evaluations": 0, "mean_w0": None, "mean_w1": None, "below_target": None}
    before, after = metric.ends(WINDOW)
    facts = {"evaluations": len(metric.values), "mean_w0": before, "mean_w1": after}
    return {**facts, "below_target": is_below}


class _Mix(NamedTuple):
    """All terms of a reward together."""

    terms: Mapping[str, Series]
    last: Mapping[str, Series]
    """the last window of every term"""
    shares: Mapping[str, float | None]
    metric: Series | None
    is_below: bool


def _reflect_term(name: str, mix: _Mix, bounds: tuple[float, float] | None) -> TermReflection:
    whole, window = mix.terms[name], mix.last[name]
    found = TermReflection(
        name=name,
        share=mix.shares[name],
        var_share=_variance_share(name, mix.last),
        mean_w0=mean(whole.first(WINDOW).values),
        mean_w1=mean(window.values),
        trend=_trend(whole, window),
        saturation=_near_top(window.values, bounds) if bounds else None,
        alignment=_alignment(whole, mix.metric),
        churn=_churn(whole.values),
    )
    is_flat = bounds is None and _has_levelled_off(whole, window)
    flags = _flags(found, len(mix.terms), spread(window.values), mix.is_below, is_flat)
    return found.model_copy(update={"flags": flags})


def _flags(
    term: TermReflection, count: int, deviation: float, is_below: bool, is_flat: bool
) -> tuple[str, ...]:
    share = term.share if term.share is not None else 0.0
    tests = {
        "dominant_critical": count >= 3 and share > 0.90,
        "dominant": count >= 3 and 0.60 < share <= 0.90,
        "variance_dominant": count > 1 and term.var_share is not None and term.var_share > 0.90,
        "inactive": share < 0.01 and deviation < 1e-6,
        "saturated": is_below and (is_flat or (term.saturation or 0.0) >= 0.80),
        "rising": (term.trend or 0.0) > 0.05,
        "falling": (term.trend or 0.0) < -0.05,
        "misaligned": term.alignment is not None and term.alignment < -0.5,
        "oscillating": (term.churn or 0.0) > 20,
    }
    if tests["inactive"]:
        tests["saturated"] = False  # a term that does nothing has nothing to saturate
    return tuple(name for name, holds in tests.items() if holds)


def _variance_share(name: str, last: Mapping[str, Series]) -> float | None:
    """Return cov(c_i, sum of c) / var(sum of c) over the steps that all terms have."""
    steps = sorted(set[float].intersection(*(set(each.steps) for each in last.values())))
    columns = {key: dict(zip(each.steps, each.values, strict=True)) for key, each in last.items()}
    total = [math.fsum(each[step] for each in columns.values()) for step in steps]
    variance, shared = covariance(total, total), None
    if variance is not None and variance > 0:
        shared = covariance([columns[name][step] for step in steps], total)
    return None if shared is None or not variance else shared / variance


def _trend(whole: Series, window: Series) -> float | None:
    found = slope(window.steps, window.values)
    if found is None:
        return None
    length = window.steps[-1] - window.steps[0]
    return found * length / (max(map(abs, whole.values)) + EPSILON)


def _near_top(values: Sequence[float], bounds: tuple[float, float]) -> float | None:
    """Return the share of values in the top 5 % of the range.

    Bounds given for a cost, as if it were positive, are mirrored when the contribution is not.
    """
    low, high = bounds
    if low >= 0 and values and max(values) <= 0:
        low, high = -high, -low
    edge = low + 0.95 * (high - low)
    return sum(value >= edge for value in values) / len(values) if values else None


def _has_levelled_off(whole: Series, window: Series) -> bool:
    """Tell whether the last 30 % gained under 1 % of the range, with hardly any variation left."""
    tail = whole.last(0.3)
    third = max(1, len(tail.values) // 3)
    before, after = mean(tail.values[:third]), mean(tail.values[-third:])
    middle, height = mean(window.values), max(whole.values) - min(whole.values)
    if before is None or after is None or not middle or height <= 0:
        return False
    return abs(after - before) < 0.01 * height and spread(window.values) / abs(middle) < 0.05


def _alignment(term: Series, metric: Series | None) -> float | None:
    pairs = [
        (value, goal)
        for step, goal in (zip(metric.steps, metric.values, strict=True) if metric else ())
        if (value := term.at(step)) is not None
    ]
    if len(pairs) < FEWEST_EVALUATIONS:
        return None
    return rank_correlation([each for each, _ in pairs], [goal for _, goal in pairs])


def _churn(values: Sequence[float]) -> float | None:
    if len(values) < FEWEST_EVALUATIONS:
        return None
    return 100 * turns(smooth(values, _SMOOTHING)) / len(values)


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


# ---------------------------------------------------------------------------- hacking risk


def hacking_risk(
    returns: Series | None,
    metric: Series | None,
    largest_share: float | None,
    guardrails: Sequence[GuardrailChange],
    degenerate: Degenerate,
    is_flagged: bool,
) -> Hacking:
    """Return how likely the reward is being gamed; a larger metric is better.

    Five signals, 0 to 1 each, make one number: divergence of return and metric (A), domination by
    one term (B), degraded guardrails (C), degenerate behaviour (D), a reviewer's flag (E).
    h = 1 - (1 - 0.65 A)(1 - 0.3 B)(1 - 0.5 C)(1 - 0.4 D)(1 - 0.3 E)
    """
    reasons: list[str] = []
    signals = {
        "A": _divergence(returns, metric, reasons),
        "B": _clip(((largest_share or 0.0) - 0.6) / 0.3),
        "C": sum(each.is_degraded for each in guardrails) / len(guardrails) if guardrails else 0.0,
        "D": 1.0 if degenerate.reasons() else 0.0,
        "E": 1.0 if is_flagged else 0.0,
    }
    if signals["B"]:
        reasons.append(f"one term makes up {largest_share:.0%} of the reward")
    reasons += [f"{each.key} degraded" for each in guardrails if each.is_degraded]
    reasons += degenerate.reasons()
    reasons += ["a reviewer calls it an exploit"] if is_flagged else []
    score = 1 - math.prod(1 - _WEIGHTS[name] * value for name, value in signals.items())
    return Hacking(
        **signals,
        score=score,
        level="high" if score >= HIGH else "medium" if score >= MEDIUM else "low",
        reasons=tuple(reasons),
    )


def guardrail_change(given: GuardrailSeries) -> GuardrailChange:
    """Return how a guardrail went from the first fifth of training to the last."""
    rule = given.rule
    before, after = given.series.finite().ends(WINDOW)
    sign = 1.0 if rule.direction == "max" else -1.0
    is_degraded = False
    if before is not None and after is not None:
        if rule.rule == "non_inferior":
            is_degraded = sign * (before - after) > (rule.margin or 0.0)
        elif rule.threshold is not None:
            is_degraded = sign * after < sign * rule.threshold <= sign * before
    return GuardrailChange(key=rule.key, mean_w0=before, mean_w1=after, is_degraded=is_degraded)


def _divergence(returns: Series | None, metric: Series | None, reasons: list[str]) -> float:
    """Return clip((z_R - z_M) / 2), which counts only if the metric did not rise."""
    if returns is None or metric is None:
        return 0.0
    rewarded, real = returns.finite(), metric.finite()
    z_return = gain(rewarded.first(WINDOW).values, rewarded.last(WINDOW).values)
    z_metric = gain(real.first(WINDOW).values, real.last(WINDOW).values)
    if z_return is None or z_metric is None or z_metric > 0 or z_return <= z_metric:
        return 0.0
    value = _clip((z_return - z_metric) / 2)
    if z_return > 0:
        reasons.append(
            f"the return rose by {z_return:.2g} standard deviations, the metric by {z_metric:.2g}"
        )
    return value


def _clip(value: float) -> float:
    return min(max(value, 0.0), 1.0)


def degenerate_signs(series: Mapping[str, Series]) -> Degenerate:
    """Return the measures of degenerate behaviour that the log has."""
    length = series.get("episode_length")
    before, after = length.finite().ends(WINDOW) if length else (None, None)

    def last(name: str) -> float | None:
        return mean(series[name].finite().last(WINDOW).values) if name in series else None

    return Degenerate(
        horizon_share=last("horizon_share"),
        motion_ratio=last("motion_ratio"),
        action_saturation=last("action_saturation"),
        episode_length_ratio=after / before if before and after is not None else None,
        violation_ratio=last("violation_ratio"),
    )
