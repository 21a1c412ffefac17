"""Reward reflection: what the terms of a reward did during training, and is the reward gamed?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from telic.studies.documents.base import Document, DocumentPart, StudyActor
from telic.studies.documents.candidate import Evidence
from telic.studies.documents.metrics import Guardrail, MetricSpec
from telic.studies.errors import StudyError
from telic.studies.evidence.measurement import read_run_log, run_state
from telic.studies.evidence.review import last_review
from telic.studies.evidence.statistics import Series, gain, mean, oriented, slope, spread
from telic.studies.evidence.store import add_evidence

if TYPE_CHECKING:
    from telic.studies.study import Study

_WINDOW = 0.2
"""the first and the last fifth of training are compared"""
_FEWEST_EVALUATIONS = 8
_EPSILON = 1e-8
_TERMS = "reward/"
_WEIGHTS = {"A": 0.65, "B": 0.3, "C": 0.5, "D": 0.4, "E": 0.3}
_MEDIUM, _HIGH = 0.30, 0.60

Action = Literal["raise", "lower", "remove", "reshape", "keep"]
_ADVICE: tuple[tuple[str, Action, str], ...] = (
    ("misaligned", "reshape", "it grows while the metric falls"),
    ("dominant_critical", "lower", "it makes up more than 90 % of the reward"),
    ("dominant", "lower", "it makes up more than 60 % of the reward"),
    ("inactive", "remove", "it neither adds nor varies"),
    ("saturated", "reshape", "it gives all it can while the metric is short of its target"),
)


class GuardrailChange(DocumentPart):
    """How a guardrail went over training."""

    key: str
    mean_w0: float | None
    mean_w1: float | None
    is_degraded: bool
    """worse by more than its margin, or past its threshold at the end and not at the start"""


class Hacking(DocumentPart):
    """Five signals, 0 to 1 each, and what they amount to.

    Divergence of return and metric (A), domination by one term (B), degraded guardrails (C),
    degenerate behaviour (D), a reviewer's flag (E); the score is
    1 - (1 - 0.65 A)(1 - 0.3 B)(1 - 0.5 C)(1 - 0.4 D)(1 - 0.3 E).
    """

    A: float
    B: float
    C: float
    D: float
    E: float
    score: float
    level: Literal["low", "medium", "high"]
    reasons: tuple[str, ...] = ()


class TermReflection(DocumentPart):
    """One term of the reward."""

    name: str
    share: float | None
    mean_w0: float | None
    mean_w1: float | None
    trend: float | None
    """change over the last window, in parts of the largest value"""
    saturation: float | None
    """bounded terms: share of the last window near the top; None for unbounded ones"""
    alignment: float | None
    """rank correlation with the metric at evaluations; None for fewer than 8"""
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
    terms: tuple[TermReflection, ...]
    primary: dict[str, Any]
    guardrails: tuple[GuardrailChange, ...]
    hacking: Hacking
    advice: tuple[Advice, ...]
    insufficient_data: bool


class ReflectionResult(DocumentPart):
    """A reflection and the evidence that a candidate cites."""

    reflection: Reflection
    evidence: Evidence


@dataclass(frozen=True)
class RewardLog:
    """What a reflection is made from: the series of a run, and the study's metric spec."""

    run: str
    terms: Mapping[str, Series]
    """weighted contribution of each term per step"""
    series: Mapping[str, Series]
    spec: MetricSpec
    is_flagged: bool = False
    """a reviewer calls it an exploit"""

    @property
    def metric(self) -> Series | None:
        """The primary metric at evaluations, oriented so that larger is better."""
        found = self.series.get(self.spec.primary.key)
        found = found and found.finite().oriented(self.spec.primary.direction)
        return found if found and found.values else None

    @property
    def is_below_target(self) -> bool:
        """Whether the metric is short of its target; without a target it always is."""
        primary, metric = self.spec.primary, self.metric
        if primary.target is None or metric is None:
            return True
        reached = metric.ends(_WINDOW)[1] or metric.values[-1]
        return reached < oriented(primary.target, primary.direction)


def reflect_run(study: Study, run: str, actor: StudyActor) -> ReflectionResult:
    """Reflect on a run's reward; raises StudyError E_NO_TERMS when its log has no reward terms."""
    candidate, spec = run_state(study.state.runs, run).candidate, study.metric_spec
    series = read_run_log(study.folder, run).series
    terms = reward_terms(series, spec)
    if not terms:
        raise StudyError(
            "E_NO_TERMS",
            f"The log of {run} has no reward terms.",
            hint=f"Log each term as {_TERMS}NAME, or name them as components in metric_spec.yaml.",
        )
    review = last_review(study, candidate)
    is_flagged = bool(review and review.payload.get("exploit"))
    reflection = reflect(RewardLog(run, terms, series, spec, is_flagged))
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
    terms: dict[str, Series] = {}
    for component in spec.components:
        term, weight = series.get(component.key), series.get(component.weight_key or "")
        if term is not None and weight is not None:
            # Before its first entry a weight is taken to have been what it was then.
            at = [weight.at(step) for step in term.steps]
            factors = [weight.values[0] if factor is None else factor for factor in at]
            values = tuple(x * factor for x, factor in zip(term.values, factors, strict=True))
            term = term._replace(values=values)
        if term is not None:
            terms[component.key] = term
    return terms or {name: each for name, each in series.items() if name.startswith(_TERMS)}


# ---------------------------------------------------------------------------- the terms


def reflect(log: RewardLog) -> Reflection:
    """Return what the terms did, how likely the reward is being gamed, and what to do."""
    terms = {name: each.finite() for name, each in log.terms.items()}
    terms = {name: each for name, each in terms.items() if each.values}
    sizes = {name: mean([abs(v) for v in _last(each)]) or 0.0 for name, each in terms.items()}
    total = math.fsum(sizes.values())
    shares = {name: size / total if total > 0 else None for name, size in sizes.items()}
    found = tuple(_reflect_term(name, terms[name], shares, log) for name in terms)
    changes = tuple(
        guardrail_change(rule, log.series[rule.key])
        for rule in log.spec.guardrails
        if rule.key in log.series
    )
    metric = log.metric
    before, after = metric.ends(_WINDOW) if metric else (None, None)
    evaluations = len(metric.values) if metric else 0
    return Reflection(
        run=log.run,
        terms=found,
        primary={
            "evaluations": evaluations,
            "mean_w0": before,
            "mean_w1": after,
            "below_target": log.is_below_target if metric else None,
        },
        guardrails=changes,
        hacking=hacking_risk(log, max((x for x in shares.values() if x), default=0.0), changes),
        advice=tuple(_advice(term, len(terms)) for term in found),
        insufficient_data=evaluations < _FEWEST_EVALUATIONS or not terms,
    )


def _last(series: Series) -> tuple[float, ...]:
    return series.last(_WINDOW).values


def _reflect_term(
    name: str, term: Series, shares: Mapping[str, float | None], log: RewardLog
) -> TermReflection:
    window = term.last(_WINDOW)
    rise = slope(window)
    length = window.steps[-1] - window.steps[0]
    bounds = {each.key: each.bounds for each in log.spec.components}.get(name)
    found = TermReflection(
        name=name,
        share=shares[name],
        mean_w0=mean(term.first(_WINDOW).values),
        mean_w1=mean(window.values),
        trend=None if rise is None else rise * length / (max(map(abs, term.values)) + _EPSILON),
        saturation=_near_top(window.values, bounds) if bounds else None,
        alignment=_alignment(term, log.metric),
    )
    is_flat = bounds is None and _has_levelled_off(term, window)
    share, trend = found.share or 0.0, found.trend or 0.0
    is_inactive = share < 0.01 and spread(window.values) < 1e-6
    is_saturated = is_flat or (found.saturation or 0.0) >= 0.80
    tests = {
        "dominant_critical": len(shares) >= 3 and share > 0.90,
        "dominant": len(shares) >= 3 and 0.60 < share <= 0.90,
        "inactive": is_inactive,
        "saturated": log.is_below_target and is_saturated and not is_inactive,
        "rising": trend > 0.05,
        "falling": trend < -0.05,
        "misaligned": found.alignment is not None and found.alignment < -0.5,
    }
    flags = tuple(name for name, holds in tests.items() if holds)
    return found.model_copy(update={"flags": flags})


def _near_top(values: Sequence[float], bounds: tuple[float, float]) -> float:
    """Return the share of values in the top 5 % of the range.

    Bounds given for a cost, as if it were positive, are mirrored when the contribution is not.
    """
    low, high = bounds
    if low >= 0 and max(values) <= 0:
        low, high = -high, -low
    edge = low + 0.95 * (high - low)
    return sum(value >= edge for value in values) / len(values)


def _has_levelled_off(term: Series, window: Series) -> bool:
    """Return whether the last 30 % gained under 1 % of the range, with little variation left."""
    tail = term.last(0.3).values
    third = max(1, len(tail) // 3)
    before, after, middle = mean(tail[:third]), mean(tail[-third:]), mean(window.values)
    height = max(term.values) - min(term.values)
    if before is None or after is None or not middle or height <= 0:
        return False
    return abs(after - before) < 0.01 * height and spread(window.values) / abs(middle) < 0.05


def _alignment(term: Series, metric: Series | None) -> float | None:
    from scipy.stats import spearmanr

    pairs = [
        (value, goal)
        for step, goal in (zip(metric.steps, metric.values, strict=True) if metric else ())
        if (value := term.at(step)) is not None
    ]
    one, other = [each for each, _ in pairs], [goal for _, goal in pairs]
    if len(pairs) < _FEWEST_EVALUATIONS or spread(one) == 0 or spread(other) == 0:
        return None
    return float(spearmanr(one, other).statistic)


def _advice(term: TermReflection, count: int) -> Advice:
    for flag, action, why in _ADVICE:
        if flag in term.flags:
            return Advice(term=term.name, action=action, why=why)
    if count > 1 and term.share is not None and term.share < 0.01:
        return Advice(term=term.name, action="raise", why="it makes up less than 1 % of the reward")
    return Advice(term=term.name, action="keep", why="nothing speaks against it")


# ---------------------------------------------------------------------------- hacking risk


def hacking_risk(
    log: RewardLog, largest_share: float, guardrails: Sequence[GuardrailChange]
) -> Hacking:
    """Return how likely the reward is being gamed."""
    degenerate = degenerate_signs(log.series)
    reasons: list[str] = []
    signals = {
        "A": _divergence(log.series.get("return"), log.metric, reasons),
        "B": _clip((largest_share - 0.6) / 0.3),
        "C": sum(each.is_degraded for each in guardrails) / len(guardrails) if guardrails else 0.0,
        "D": 1.0 if degenerate else 0.0,
        "E": 1.0 if log.is_flagged else 0.0,
    }
    if signals["B"]:
        reasons.append(f"one term makes up {largest_share:.0%} of the reward")
    reasons += [f"{each.key} degraded" for each in guardrails if each.is_degraded]
    reasons += degenerate
    reasons += ["a reviewer calls it an exploit"] if log.is_flagged else []
    score = 1 - math.prod(1 - _WEIGHTS[name] * value for name, value in signals.items())
    level = "high" if score >= _HIGH else "medium" if score >= _MEDIUM else "low"
    return Hacking(**signals, score=score, level=level, reasons=tuple(reasons))


def guardrail_change(rule: Guardrail, series: Series) -> GuardrailChange:
    """Return how a guardrail went from the first fifth of training to the last."""
    before, after = series.finite().ends(_WINDOW)
    is_degraded = False
    if before is not None and after is not None:
        start, end = oriented(before, rule.direction), oriented(after, rule.direction)
        if rule.rule == "non_inferior":
            is_degraded = start - end > (rule.margin or 0.0)
        elif rule.threshold is not None:
            is_degraded = end < oriented(rule.threshold, rule.direction) <= start
    return GuardrailChange(key=rule.key, mean_w0=before, mean_w1=after, is_degraded=is_degraded)


def _divergence(returns: Series | None, metric: Series | None, reasons: list[str]) -> float:
    """Return clip((z_R - z_M) / 2), which counts only if the metric did not rise."""
    z_return = gain(returns.finite(), _WINDOW) if returns else None
    z_metric = gain(metric, _WINDOW) if metric else None
    if z_return is None or z_metric is None or z_metric > 0 or z_return <= z_metric:
        return 0.0
    if z_return > 0:
        reasons.append(
            f"the return rose by {z_return:.2g} standard deviations, the metric by {z_metric:.2g}"
        )
    return _clip((z_return - z_metric) / 2)


def _clip(value: float) -> float:
    return min(max(value, 0.0), 1.0)


def degenerate_signs(series: Mapping[str, Series]) -> list[str]:
    """Return the signs of behaviour that no honest solution shows, as far as the log has them."""

    def last(name: str) -> float | None:
        return mean(_last(series[name].finite())) if name in series else None

    length = series.get("episode_length")
    before, after = length.finite().ends(_WINDOW) if length else (None, None)
    motion = last("motion_ratio")
    tests = {
        "episodes last to the horizon almost without motion": (last("horizon_share") or 0) > 0.5
        and motion is not None
        and motion < 0.05,
        "actions sit at their limits": (last("action_saturation") or 0) > 0.5,
        "episodes became less than half as long": bool(before and after is not None)
        and (after or 0.0) / (before or 1.0) < 0.5,
        "violations more than doubled": (last("violation_ratio") or 0) > 2,
    }
    return [why for why, fires in tests.items() if fires]
