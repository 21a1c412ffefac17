"""How likely a reward is being gamed, and whether a review settled it.

Five signals make one number: h = 1 - (1 - 0.65 A)(1 - 0.3 B)(1 - 0.5 C)(1 - 0.4 D)(1 - 0.3 E)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from telic.studies.documents.base import DocumentPart
from telic.studies.documents.metrics import Guardrail
from telic.studies.evidence.review import last_review, reviews
from telic.studies.evidence.statistics import Series, gain, mean

if TYPE_CHECKING:
    from telic.studies.study import Study

_WINDOW = 0.2
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


class JudgeConflict(DocumentPart):
    """What judges made of the behaviour, 0 to 1; None is not judged."""

    code: float | None = None
    visual: float | None = None
    is_flagged: bool = False
    """a reviewer calls it an exploit"""


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


def hacking_risk(
    returns: Series | None,
    metric: Series | None,
    largest_share: float | None,
    guardrails: Sequence[GuardrailChange],
    degenerate: Degenerate,
    judges: JudgeConflict,
) -> Hacking:
    """Return how likely the reward is being gamed; the metric is turned so larger is better."""
    reasons: list[str] = []
    signals = {
        "A": _divergence(returns, metric, reasons),
        "B": _clip(((largest_share or 0.0) - 0.6) / 0.3),
        "C": sum(each.is_degraded for each in guardrails) / len(guardrails) if guardrails else 0.0,
        "D": 1.0 if degenerate.reasons() else 0.0,
        "E": _conflict(judges, reasons),
    }
    if signals["B"]:
        reasons.append(f"one term makes up {largest_share:.0%} of the reward")
    reasons += [f"{each.key} degraded" for each in guardrails if each.is_degraded]
    reasons += degenerate.reasons()
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
    before, after = given.series.finite().ends(_WINDOW)
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
    z_return = gain(rewarded.first(_WINDOW).values, rewarded.last(_WINDOW).values)
    z_metric = gain(real.first(_WINDOW).values, real.last(_WINDOW).values)
    if z_return is None or z_metric is None or z_metric > 0 or z_return <= z_metric:
        return 0.0
    value = _clip((z_return - z_metric) / 2)
    if z_return > 0:
        reasons.append(
            f"the return rose by {z_return:.2g} standard deviations, the metric by {z_metric:.2g}"
        )
    return value


def _conflict(judges: JudgeConflict, reasons: list[str]) -> float:
    if judges.is_flagged:
        reasons.append("a reviewer calls it an exploit")
        return 1.0
    if judges.code is None or judges.visual is None:
        return 0.0
    value = _clip(abs(judges.code - judges.visual) / 0.5)
    if value:
        reasons.append(f"the judges disagree: {judges.code:.2f} against {judges.visual:.2f}")
    return value


def _clip(value: float) -> float:
    return min(max(value, 0.0), 1.0)


def degenerate_signs(series: Mapping[str, Series]) -> Degenerate:
    """Return the measures of degenerate behaviour that the log has."""
    length = series.get("episode_length")
    before, after = length.finite().ends(_WINDOW) if length else (None, None)

    def last(name: str) -> float | None:
        return mean(series[name].finite().last(_WINDOW).values) if name in series else None

    return Degenerate(
        horizon_share=last("horizon_share"),
        motion_ratio=last("motion_ratio"),
        action_saturation=last("action_saturation"),
        episode_length_ratio=after / before if before and after is not None else None,
        violation_ratio=last("violation_ratio"),
    )


def judge_conflict(study: Study, candidate: str) -> JudgeConflict:
    """Return what judges and reviewers made of the candidate, where evidence says so."""
    judged = study.latest("judgment", candidate=candidate)
    review = last_review(study, candidate)
    scores = judged.payload if judged else {}
    return JudgeConflict(
        code=scores.get("code"),
        visual=scores.get("visual"),
        is_flagged=bool(review and review.payload.get("exploit")),
    )


def newest_level(study: Study, runs: Iterable[str]) -> str | None:
    """Return the hacking level of the newest reflection on one of the runs; None without one."""
    wanted, entries = set(runs), study.state.evidence
    names = [name for name in study.evidence_names("reflection") if entries[name].run in wanted]
    return _level(study, names[-1]) if names else None


def hacking_levels(study: Study) -> tuple[str, ...]:
    """Return the hacking levels of reflections that no review settled, the oldest first.

    What was known when a person opened the study again counts no more.
    """
    entries, opened = study.state.evidence, study.state.opened_seq
    names = [name for name in study.evidence_names("reflection") if entries[name].seq > opened]
    about = {name: entries[name].candidate for name in names}
    settled = {each for each in about.values() if each and is_reviewed(study, each)}
    return tuple(_level(study, name) for name, each in about.items() if each not in settled)


def is_reviewed(study: Study, candidate: str) -> bool:
    """Tell whether a review of a candidate, as it is now, counts since its risk was called high.

    One review settles it: further runs of what was reviewed only say the same again.
    """
    entries, now = study.state.evidence, study.state.candidates[candidate].content_hash
    reflections = study.evidence_names("reflection", candidate=candidate)
    risky = next((name for name in reflections if _level(study, name) == "high"), None)
    if risky is None:
        return False
    return any(
        entries[review.id].seq > entries[risky].seq
        for review in reviews(study, candidate)
        if review.payload.get("content_hash") == now
    )


def is_unreviewed(study: Study, candidate: str) -> bool:
    """Tell whether a candidate's last reflection calls its risk high and nobody reviewed it."""
    reflections = study.evidence_names("reflection", candidate=candidate)
    is_risky = bool(reflections) and _level(study, reflections[-1]) == "high"
    return is_risky and not is_reviewed(study, candidate)


def _level(study: Study, reflection: str) -> str:
    return study.sheet(reflection).payload["hacking"]["level"]
