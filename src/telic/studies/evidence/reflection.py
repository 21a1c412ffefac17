"""Reward reflection: what each reward term did during training, and is the reward exploited?"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from telic.studies.documents.base import Document, DocumentPart, StudyActor
from telic.studies.documents.candidate import Evidence
from telic.studies.documents.metrics import Guardrail, MetricSpec
from telic.studies.errors import StudyError
from telic.studies.evidence.logs import Series, gain, slope
from telic.studies.evidence.measurement import read_run_log, run_state
from telic.studies.evidence.review import last_review
from telic.studies.evidence.statistics import mean, oriented, spread
from telic.studies.evidence.store import add_evidence

if TYPE_CHECKING:
    from telic.studies.study import Study

_WINDOW = 0.2
"""the first and the last fifth of training are compared"""
_MIN_EVALUATIONS = 8
_TERMS = "reward/"
_WEIGHTS = {"A": 0.65, "B": 0.3, "C": 0.5, "D": 0.4, "E": 0.3}
_MEDIUM, _HIGH = 0.30, 0.60


class GuardrailChange(DocumentPart):
    """A guardrail at the start and at the end of training."""

    key: str
    mean_w0: float | None
    mean_w1: float | None
    is_degraded: bool
    """worse by more than its margin, or past its threshold at the end and not at the start"""


class Hacking(DocumentPart):
    """Reward-hacking risk from five signals of 0 to 1.

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
    """change over the last window, relative to the largest value"""
    saturation: float | None = None
    """only in reflections of earlier versions"""
    alignment: float | None
    """rank correlation with the metric at evaluations; None for fewer than 8"""
    flags: tuple[str, ...] = ()


class Reflection(Document):
    """reward_reflection.json."""

    schema_id: str = Field(default="telic.reward_reflection/1", alias="schema")
    run: str
    terms: tuple[TermReflection, ...]
    primary: dict[str, Any]
    guardrails: tuple[GuardrailChange, ...]
    hacking: Hacking
    advice: tuple[Any, ...] = ()
    """only in reflections of earlier versions"""
    insufficient_data: bool


class ReflectionResult(DocumentPart):
    """A reflection and the evidence that a candidate cites."""

    reflection: Reflection
    evidence: Evidence


def reflect_run(study: Study, run: str, actor: StudyActor) -> ReflectionResult:
    """Reflect on a run's reward; raises StudyError E_NO_TERMS when its log has no reward terms."""
    candidate, spec = run_state(study.state.runs, run).candidate, study.metric_spec
    series = read_run_log(study.folder, run).series
    names = [each.key for each in spec.components if each.key in series]
    names = names or [name for name in series if name.startswith(_TERMS)]
    if not names:
        raise StudyError(
            "E_NO_TERMS",
            f"The log of {run} has no reward terms.",
            hint=f"Log each term as {_TERMS}NAME, or name them as components in metric_spec.yaml.",
        )
    review = last_review(study, candidate)
    is_flagged = bool(review and review.payload.get("exploit"))
    reflection = reflect(run, names, series, spec, is_flagged=is_flagged)
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


def reflect(
    run: str,
    names: Iterable[str],
    series: Mapping[str, Series],
    spec: MetricSpec,
    *,
    is_flagged: bool = False,
) -> Reflection:
    """Return what the reward terms did, the reward-hacking risk, and advice per term.

    Args:
        run: id of the run.
        names: series with the weighted contribution of each term.
        series: everything that was logged.
        spec: the study's metrics.
        is_flagged: a reviewer calls it an exploit.
    """
    terms = {name: each for name in names if (each := series[name].finite()).values}
    metric = series.get(spec.primary.key)
    metric = metric and metric.finite().oriented(spec.primary.direction)
    sizes = {
        name: mean([abs(value) for value in each.last(_WINDOW).values]) or 0.0
        for name, each in terms.items()
    }
    total = math.fsum(sizes.values())
    shares = {name: size / total if total > 0 else None for name, size in sizes.items()}
    found = tuple(_reflect_term(name, terms[name], shares, metric) for name in terms)
    changes = tuple(
        guardrail_change(rule, series[rule.key]) for rule in spec.guardrails if rule.key in series
    )
    before, after = metric.ends(_WINDOW) if metric else (None, None)
    evaluations = len(metric.values) if metric else 0
    largest = max((share for share in shares.values() if share), default=0.0)
    return Reflection(
        run=run,
        terms=found,
        primary={"evaluations": evaluations, "mean_w0": before, "mean_w1": after},
        guardrails=changes,
        hacking=hacking_risk(series, metric, largest, changes, is_flagged=is_flagged),
        insufficient_data=evaluations < _MIN_EVALUATIONS or not terms,
    )


def _reflect_term(
    name: str, term: Series, shares: Mapping[str, float | None], metric: Series | None
) -> TermReflection:
    from scipy.stats import spearmanr

    window = term.last(_WINDOW)
    rise, share, alignment = slope(window), shares[name] or 0.0, None
    largest = max(map(abs, term.values)) + 1e-8
    trend = None if rise is None else rise * (window.steps[-1] - window.steps[0]) / largest
    points = zip(metric.steps, metric.values, strict=True) if metric else ()
    pairs = [(value, goal) for step, goal in points if (value := term.at(step)) is not None]
    values, goals = [value for value, _ in pairs], [goal for _, goal in pairs]
    if len(pairs) >= _MIN_EVALUATIONS and spread(values) and spread(goals):
        alignment = float(spearmanr(values, goals).statistic)
    tests = {
        "dominant_critical": len(shares) >= 3 and share > 0.90,
        "dominant": len(shares) >= 3 and 0.60 < share <= 0.90,
        "inactive": share < 0.01 and spread(window.values) < 1e-6,
        "rising": (trend or 0.0) > 0.05,
        "falling": (trend or 0.0) < -0.05,
        "misaligned": alignment is not None and alignment < -0.5,
    }
    return TermReflection(
        name=name,
        share=shares[name],
        mean_w0=mean(term.first(_WINDOW).values),
        mean_w1=mean(window.values),
        trend=trend,
        alignment=alignment,
        flags=tuple(flag for flag, holds in tests.items() if holds),
    )


# ---------------------------------------------------------------------------- hacking risk


def hacking_risk(
    series: Mapping[str, Series],
    metric: Series | None,
    largest_share: float,
    guardrails: Sequence[GuardrailChange],
    *,
    is_flagged: bool = False,
) -> Hacking:
    """Return how likely the reward is exploited."""
    reasons: list[str] = []
    returns, divergence = series.get("return"), 0.0
    z_return = gain(returns.finite(), _WINDOW) if returns else None
    z_metric = gain(metric, _WINDOW) if metric else None
    # Divergence counts only if the metric did not rise.
    if z_return is not None and z_metric is not None and z_metric <= 0 and z_return > z_metric:
        divergence = min((z_return - z_metric) / 2, 1.0)
        if z_return > 0:
            text = f"the return rose by {z_return:.2g} standard deviations, the metric by"
            reasons.append(f"{text} {z_metric:.2g}")
    degraded = [change.key for change in guardrails if change.is_degraded]
    length = series.get("episode_length")
    before, after = length.finite().ends(_WINDOW) if length else (None, None)
    is_short = before is not None and after is not None and after < 0.5 * before
    signals = {
        "A": divergence,
        "B": min(max((largest_share - 0.6) / 0.3, 0.0), 1.0),
        "C": len(degraded) / len(guardrails) if guardrails else 0.0,
        "D": 1.0 if is_short else 0.0,
        "E": 1.0 if is_flagged else 0.0,
    }
    if signals["B"]:
        reasons.append(f"one term makes up {largest_share:.0%} of the reward")
    reasons += [f"{key} degraded" for key in degraded]
    reasons += ["episodes became less than half as long"] if is_short else []
    reasons += ["a reviewer calls it an exploit"] if is_flagged else []
    score = 1 - math.prod(1 - _WEIGHTS[name] * value for name, value in signals.items())
    level = "high" if score >= _HIGH else "medium" if score >= _MEDIUM else "low"
    return Hacking(**signals, score=score, level=level, reasons=tuple(reasons))


def guardrail_change(rule: Guardrail, series: Series) -> GuardrailChange:
    """Compare a guardrail in the first fifth of training with the last."""
    before, after = series.finite().ends(_WINDOW)
    is_degraded = False
    if before is not None and after is not None:
        start, end = oriented(before, rule.direction), oriented(after, rule.direction)
        if rule.rule == "non_inferior":
            is_degraded = start - end > (rule.margin or 0.0)
        elif rule.threshold is not None:
            is_degraded = end < oriented(rule.threshold, rule.direction) <= start
    return GuardrailChange(key=rule.key, mean_w0=before, mean_w1=after, is_degraded=is_degraded)
