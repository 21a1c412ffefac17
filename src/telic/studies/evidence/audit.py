"""Does the evidence support the claim: the numbers, twelve checks, and a verdict by rule."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from telic.storage.files import read_record
from telic.studies.documents.base import DocumentPart, StudyActor, write_once
from telic.studies.documents.candidate import CheckResult, Evidence
from telic.studies.documents.metrics import Guardrail, Scorecard, ScorecardItem
from telic.studies.errors import InvalidDocument
from telic.studies.evidence import statistics
from telic.studies.evidence.checks import run_checks
from telic.studies.evidence.claims import (
    Arm,
    ArmSummary,
    Audit,
    AuditStats,
    AuditVerdict,
    ClaimFacts,
    GuardrailResult,
    gather_claim,
    oriented,
    run_value,
)
from telic.studies.evidence.series import spread
from telic.studies.evidence.store import add_evidence

if TYPE_CHECKING:
    from telic.studies.study import Study

FIRST_ALPHA, LATER_ALPHA = 0.05, 0.025
"""a claim that was looked at before is tested more strictly"""
LEAST_POI = 0.75
_VOIDING = ("A01", "A02", "A03", "A04", "A05", "A06", "A07", "A08", "A11")
_BASELINE = ("A01", "A02", "A05", "A06", "A07", "A08", "A09", "A12")
_CHECKPOINT_UNITS = ("motion_clip", "eval_episode")


class AuditResult(DocumentPart):
    """An audit and the evidence that a decision cites."""

    audit: Audit
    evidence: Evidence


def audit_result(study: Study, candidate: str, actor: StudyActor) -> AuditResult:
    """Audit the claim of a candidate against the incumbent; a baseline has none.

    The same facts give the same audit, which is then not written again.
    """
    facts = gather_claim(study, candidate)
    path = study.folder.audit_file(facts.id)
    if path.is_file():
        audit = read_record(path, Audit)
    else:
        audit = audit_claim(facts)
        write_once(path, audit.as_data())
    said = f"{audit.verdict}: {audit.reasons[0]}" if audit.reasons else audit.verdict
    evidence = enter_audit(study, audit, actor, "telic.audit_result", said)
    return AuditResult(audit=audit, evidence=evidence)


def enter_audit(
    study: Study, audit: Audit, actor: StudyActor, producer: str, said: str
) -> Evidence:
    """Add the evidence that cites an audit, which must be on disk."""
    stats = audit.stats
    facts = {
        "audit": audit.id,
        "verdict": audit.verdict,
        "incumbent": audit.incumbent,
        "runs": {name: list(arm.runs) for name, arm in audit.arms.items()},
        "delta": stats.delta,
        "ci": stats.ci,
        "poi": stats.poi,
        "audit_hash": audit.compute_hash(),
    }
    return add_evidence(
        study,
        "audit",
        facts,
        actor,
        candidate=audit.candidate,
        protocol_hash=audit.protocol_hash,
        producer=producer,
        summary=said,
    )


def audit_claim(facts: ClaimFacts) -> Audit:
    """Return the audit of a claim: the same facts give the same bytes."""
    seed = statistics.seed_of(facts.id)
    arms = {"x": _summary(facts, facts.candidate, seed)}
    if facts.incumbent is not None:
        arms["y"] = _summary(facts, facts.incumbent, seed)
    guardrails = tuple(_guardrail(facts, each, seed) for each in facts.guardrails)
    checks = run_checks(facts, guardrails)
    stats = _baseline_stats(facts, seed) if facts.is_baseline else _stats(facts, seed)
    verdict, reasons = _verdict(facts, checks, stats)
    excluded = facts.candidate.excluded + (facts.incumbent.excluded if facts.incumbent else ())
    is_open = verdict in ("inconclusive", "provisional") and stats.delta_min is not None
    return Audit(
        id=facts.id,
        at=facts.at,
        candidate=facts.candidate.candidate,
        incumbent=facts.incumbent.candidate if facts.incumbent else None,
        protocol_hash=facts.protocol_hash,
        arms=arms,
        excluded=excluded,
        checks=tuple(checks),
        stats=stats,
        guardrails=guardrails,
        verdict=verdict,
        reasons=tuple(reasons),
        label="checkpoint_claim" if _is_checkpoint_claim(facts) else "seed_claim",
        n_star=_seeds_needed(stats) if is_open else None,
        prng_seed=str(seed),
    )


def _is_checkpoint_claim(facts: ClaimFacts) -> bool:
    return facts.replication_unit in _CHECKPOINT_UNITS


def _scores(facts: ClaimFacts, arm: Arm) -> dict[str, list[float]]:
    """Return the arm's scores by stratum, larger is better, runs in the order of their seeds."""
    out: dict[str, list[float]] = {}
    for run in sorted(arm.runs, key=lambda run: run.seed):
        for stratum, value in sorted(run.scores.items()):
            out.setdefault(stratum, []).append(oriented(value, facts.primary.direction))
    if _is_checkpoint_claim(facts):  # one training run: its clips are the units
        return {"": [value for values in out.values() for value in values]}
    return out


def _summary(facts: ClaimFacts, arm: Arm, seed: int) -> ArmSummary:
    runs = sorted(arm.runs, key=lambda run: run.seed)
    scores = _scores(facts, arm)
    sign = oriented(1.0, facts.primary.direction)
    middle = statistics.iqm(scores) if runs else None
    interval = statistics.iqm_interval(scores, seed) if runs else None
    ends = sorted(sign * end for end in interval) if interval else None
    return ArmSummary(
        n=len(runs),
        seeds=tuple(run.seed for run in runs),
        runs=tuple(run.run for run in runs),
        scores=tuple(run_value(run) for run in runs),
        iqm=None if middle is None else sign * middle,
        ci=None if ends is None else (ends[0], ends[1]),
    )


def _stats(facts: ClaimFacts, seed: int) -> AuditStats:
    from telic.core import stats

    alpha = FIRST_ALPHA if facts.look == 1 else LATER_ALPHA
    if facts.incumbent is None or not facts.incumbent.runs or not facts.candidate.runs:
        return AuditStats(look=facts.look, alpha=alpha)
    ours, theirs = _scores(facts, facts.candidate), _scores(facts, facts.incumbent)
    seeds = [sorted(run.seed for run in arm.runs) for arm in (facts.candidate, facts.incumbent)]
    by_clip = _is_checkpoint_claim(facts) and len(ours[""]) == len(theirs[""])
    is_common = by_clip or seeds[0] == seeds[1]
    found = statistics.difference(
        ours, theirs, seed, common_units=is_common, resample_pairs=by_clip
    )
    primary = facts.primary
    least = statistics.smallest_effect(
        statistics.iqm(theirs) or 0.0,
        absolute=primary.min_effect_abs,
        relative=primary.min_effect_rel,
        noise_k=primary.noise_k,
        sigma_0=facts.sigma_0,
    )
    corrected = stats.holm([found.p, *facts.other_p])[0]
    context = {"delta_min": least, "holm_p": corrected, "sigma_0": facts.sigma_0}
    context |= {"look": facts.look, "alpha": alpha}
    return difference_stats(found).model_copy(update=context)


def difference_stats(found: statistics.ArmDifference) -> AuditStats:
    """Return what is said about two arms, as an audit records it."""
    return AuditStats(
        delta=found.delta,
        ci=found.ci,
        welch_p=found.p,
        is_paired=found.is_paired,
        is_counted=found.is_counted,
        mwu_p=found.rank_p,
        poi=found.poi,
        sigma=found.sigma,
    )


def _seeds_needed(stats: AuditStats) -> int | None:
    if stats.is_counted:
        return statistics.pairs_needed(stats.alpha)
    return statistics.seeds_needed(stats.sigma or 0.0, stats.delta_min or 0.0)


def _baseline_stats(facts: ClaimFacts, seed: int) -> AuditStats:
    """Return the noise floor: the spread over baseline seeds, with its interval."""
    values = [run_value(run) for run in facts.candidate.runs]
    if len(values) < 2:
        return AuditStats(look=facts.look)
    return AuditStats(
        sigma_0=spread(values),
        sigma_0_ci=statistics.spread_interval(values, seed),
        look=facts.look,
    )


def _guardrail(facts: ClaimFacts, rule: Guardrail, seed: int) -> GuardrailResult:
    """Test a guardrail by its interval: the bad end must still be good enough."""
    ours = [run.guardrails.get(rule.key) for run in facts.candidate.runs]
    theirs = [run.guardrails.get(rule.key) for run in (facts.incumbent or facts.candidate).runs]
    passed, interval = False, None
    if ours and theirs and None not in ours and None not in theirs:
        x = [oriented(each, rule.direction) for each in ours if each is not None]
        y = [oriented(each, rule.direction) for each in theirs if each is not None]
        if rule.rule == "absolute":
            interval = statistics.iqm_interval(x, seed)
            limit = oriented(rule.threshold or 0.0, rule.direction)
        else:
            interval = statistics.difference_interval({"": x}, {"": y}, seed)
            limit = -(rule.margin or 0.0)
        passed = interval is not None and interval.low >= limit
        if facts.is_baseline and rule.rule == "non_inferior":
            passed, interval = True, None  # there is nothing yet to be inferior to
    if interval and rule.rule == "absolute" and rule.direction == "min":
        interval = statistics.Ends(-interval.high, -interval.low)
    return GuardrailResult(key=rule.key, ci=interval, passed=passed, severity=rule.severity)


def _verdict(
    facts: ClaimFacts, checks: Sequence[CheckResult], stats: AuditStats
) -> tuple[AuditVerdict, list[str]]:
    failed = {each.id: each.why for each in checks if not each.passed}
    reasons = [f"{code}: {why}" for code, why in sorted(failed.items())]
    if facts.is_baseline:
        if any(code in failed for code in _VOIDING if code in _BASELINE):
            return "invalid", reasons
        wanting = any(code in failed for code in _BASELINE)
        return ("inconclusive" if wanting else "baseline_established"), reasons
    if any(code in failed for code in _VOIDING):
        return "invalid", reasons
    if stats.ci is not None and stats.delta_min is not None and stats.ci[1] < stats.delta_min:
        return "no_improvement", [
            *reasons,
            f"at most {stats.ci[1]:.4g} better; {stats.delta_min:.4g} would count",
        ]
    short = _shortcomings(stats)
    if stats.is_counted and stats.sigma == 0:
        reasons.append("every seed gave the same score: does the seed reach the training?")
    if not short and not failed:
        return "valid_improvement", reasons
    if not short and set(failed) == {"A09"}:
        return "provisional", reasons
    return "inconclusive", reasons + short


def _shortcomings(stats: AuditStats) -> list[str]:
    """Return what keeps the numbers from showing an improvement."""
    delta = stats.delta or 0.0
    least = math.inf if stats.delta_min is None else stats.delta_min
    low = stats.ci[0] if stats.ci else None
    tests = {
        f"the gain of {delta:.4g} is below the {least:.4g} that count": delta < least,
        "the interval of the gain reaches zero": low is None or low <= 0,
        "the runs have no spread, so no test applies": stats.holm_p is None,
        _weak_p(stats): stats.holm_p is not None and stats.holm_p >= stats.alpha,
        f"a run beats the incumbent's with a chance of {stats.poi or 0:.2f} only": (stats.poi or 0)
        < LEAST_POI,
    }
    return [why for why, holds in tests.items() if holds]


def _weak_p(stats: AuditStats) -> str:
    said = f"corrected p is {stats.holm_p or 0:.3g}, not below {stats.alpha:g}"
    if not stats.is_counted or stats.holm_p != stats.welch_p:
        return said
    needed = statistics.pairs_needed(stats.alpha)
    return f"{said}: too few pairs; signs that all agree count from {needed} pairs on"


Band = Literal["good", "ok", "poor"]
_POINTS: dict[Band, float] = {"good": 1.0, "ok": 0.5, "poor": 0.0}


class MeasuredNumber(DocumentPart):
    """A number and its interval."""

    value: float
    ci: tuple[float, float] | None = None


class ScoredItem(DocumentPart):
    """A line of the scorecard."""

    key: str
    value: float | None
    ci: tuple[float, float] | None
    band: Band | None
    weight: float


class ScorecardResult(DocumentPart):
    """The scorecard of a result."""

    items: tuple[ScoredItem, ...]
    total: float | None
    """weighted share of points, 0 to 1, over what was measured; None when nothing was"""
    caveats: tuple[str, ...] = ()


def score(card: Scorecard, numbers: Mapping[str, MeasuredNumber]) -> ScorecardResult:
    """Return a summary in bands, beside the verdict and never instead of it.

    What is missing becomes a caveat, not a zero.
    """
    total_weight = sum(item.weight for item in card.items)
    if abs(total_weight - card.weights_sum) > 1e-9:
        raise InvalidDocument(
            "E_SCORECARD",
            f"The weights of the scorecard sum to {total_weight:g}, not {card.weights_sum:g}.",
        )
    items: list[ScoredItem] = []
    caveats: list[str] = []
    doubts: list[str] = []
    points = weight = 0.0
    for item in card.items:
        number = numbers.get(item.key)
        band = band_of(item, number.value) if number else None
        value, ci = (number.value, number.ci) if number else (None, None)
        items.append(ScoredItem(key=item.key, value=value, ci=ci, band=band, weight=item.weight))
        if band is None:
            caveats.append(f"{item.key} was not measured")
            continue
        weight += item.weight
        points += item.weight * _POINTS[band]
        if ci and {band_of(item, end) for end in ci} != {band}:
            doubts.append(f"the interval of {item.key} reaches into another band")
    return ScorecardResult(
        items=tuple(items),
        total=points / weight if weight else None,
        caveats=tuple(caveats + doubts),
    )


def band_of(item: ScorecardItem, value: float) -> Band:
    """Return the band of a value.

    `bands` are two numbers, (ok from, good from). When the first is the larger one, smaller values
    are better and both are upper limits.
    """
    if len(item.bands) != 2:
        raise InvalidDocument(
            "E_SCORECARD",
            f"The bands of {item.key} are {item.bands}.",
            hint="Write two numbers: where ok begins and where good begins.",
        )
    ok, good = (float(each) for each in item.bands)
    sign = 1.0 if good >= ok else -1.0
    if sign * value >= sign * good:
        return "good"
    return "ok" if sign * value >= sign * ok else "poor"
