"""Does the evidence support the claim: the numbers, twelve checks, and a verdict by rule."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from telic.studies.documents.base import DocumentPart, StudyActor
from telic.studies.documents.candidate import CheckResult, Evidence
from telic.studies.documents.metrics import Guardrail
from telic.studies.evidence import statistics
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
)
from telic.studies.evidence.store import add_evidence

if TYPE_CHECKING:
    from telic.studies.study import Study

FEWEST_RUNS = 5
BUDGET_TOLERANCE = 0.02
_SEEDED_UNITS = ("training_seed", "search_run")
FIRST_ALPHA, LATER_ALPHA = 0.05, 0.025
"""a claim that was looked at before is tested more strictly"""
LEAST_POI = 0.75
_VOIDING = {"A01", "A02", "A03", "A04", "A05", "A06", "A07", "A08", "A11"}
_BASELINE = {"A01", "A02", "A05", "A06", "A07", "A08", "A09", "A12"}


class AuditResult(DocumentPart):
    """An audit and the evidence that a decision cites."""

    audit: Audit
    evidence: Evidence


def audit_result(study: Study, candidate: str, actor: StudyActor) -> AuditResult:
    """Audit the claim of a candidate against the incumbent; a baseline has none.

    The same facts give the same audit, which is then not entered again.
    """
    facts = gather_claim(study, candidate)
    for name in study.evidence_names("audit", candidate=candidate):
        if study.sheet(name).payload["id"] == facts.id:
            known = study.sheet(name)
            return AuditResult(audit=Audit.parse(known.payload, name), evidence=known)
    audit = audit_claim(facts)
    evidence = add_evidence(
        study,
        "audit",
        audit.as_data(),
        actor,
        candidate=candidate,
        protocol_hash=audit.protocol_hash,
        producer="telic.audit_result",
        summary=f"{audit.verdict}: {audit.reasons[0]}" if audit.reasons else audit.verdict,
    )
    return AuditResult(audit=audit, evidence=evidence)


def audit_claim(facts: ClaimFacts) -> Audit:
    """Return the audit of a claim: the same facts give the same bytes."""
    seed = statistics.seed_of(facts.id)
    guardrails = tuple(_guardrail(facts, rule, seed) for rule in facts.guardrails)
    checks = run_checks(facts, guardrails)
    stats = _baseline_stats(facts, seed) if facts.is_baseline else _stats(facts, seed)
    verdict, reasons = _verdict(facts, checks, stats)
    n_star = None
    if verdict in ("inconclusive", "provisional") and stats.delta_min is not None:
        n_star = statistics.seeds_needed(stats.sigma or 0.0, stats.delta_min)
        n_star = statistics.pairs_needed(stats.alpha) if stats.is_counted else n_star
    return Audit(
        id=facts.id,
        at=facts.at,
        candidate=facts.candidate.candidate,
        incumbent=facts.incumbent.candidate if facts.incumbent else None,
        protocol_hash=facts.protocol_hash,
        arms={
            name: _summary(facts, arm, seed) for name, arm in zip("xy", facts.arms, strict=False)
        },
        excluded=tuple(exclusion for arm in facts.arms for exclusion in arm.excluded),
        checks=tuple(checks),
        stats=stats,
        guardrails=guardrails,
        verdict=verdict,
        reasons=tuple(reasons),
        label="checkpoint_claim" if facts.is_checkpoint_claim else "seed_claim",
        n_star=n_star,
        prng_seed=str(seed),
    )


def _summary(facts: ClaimFacts, arm: Arm, seed: int) -> ArmSummary:
    runs, scores = arm.by_seed, facts.scores(arm)
    sign = oriented(1.0, facts.primary.direction)
    middle = statistics.iqm(scores) if runs else None
    interval = statistics.iqm_interval(scores, seed) if runs else None
    ends = sorted(sign * end for end in interval) if interval else None
    return ArmSummary(
        n=len(runs),
        seeds=tuple(run.seed for run in runs),
        runs=tuple(run.run for run in runs),
        scores=tuple(run.value for run in runs),
        iqm=None if middle is None else sign * middle,
        ci=None if ends is None else (ends[0], ends[1]),
    )


def _stats(facts: ClaimFacts, seed: int) -> AuditStats:
    from telic.core import stats

    alpha = FIRST_ALPHA if facts.look == 1 else LATER_ALPHA
    if facts.incumbent is None or not facts.incumbent.runs or not facts.candidate.runs:
        return AuditStats(look=facts.look, alpha=alpha)
    ours, theirs = facts.scores(facts.candidate), facts.scores(facts.incumbent)
    our_seeds, their_seeds = (sorted(run.seed for run in arm.runs) for arm in facts.arms)
    by_clip = facts.is_checkpoint_claim and len(ours[""]) == len(theirs[""])
    is_common = by_clip or our_seeds == their_seeds
    difference = statistics.difference(
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
    corrected = stats.holm([difference.p, *facts.other_p])[0]
    context = {"delta_min": least, "holm_p": corrected, "sigma_0": facts.sigma_0}
    context |= {"look": facts.look, "alpha": alpha}
    return difference_stats(difference).model_copy(update=context)


def difference_stats(difference: statistics.ArmDifference) -> AuditStats:
    """Return what is said about two arms, as an audit records it."""
    numbers = difference._asdict()
    return AuditStats(welch_p=numbers.pop("p"), mwu_p=numbers.pop("rank_p"), **numbers)


def _baseline_stats(facts: ClaimFacts, seed: int) -> AuditStats:
    """Return the noise floor: the spread over baseline seeds, with its interval."""
    values = [run.value for run in facts.candidate.runs]
    if len(values) < 2:
        return AuditStats(look=facts.look)
    return AuditStats(
        sigma_0=statistics.spread(values),
        sigma_0_ci=statistics.spread_interval(values, seed),
        look=facts.look,
    )


def _guardrail(facts: ClaimFacts, rule: Guardrail, seed: int) -> GuardrailResult:
    """Test a guardrail by its interval: the bad end must still be good enough."""
    arms = (facts.candidate, facts.incumbent or facts.candidate)
    passed, interval = False, None
    if all(arm.runs and all(rule.key in run.guardrails for run in arm.runs) for arm in arms):
        x, y = (
            [oriented(run.guardrails[rule.key], rule.direction) for run in arm.runs] for arm in arms
        )
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
    failed = {check.id: check.why for check in checks if not check.passed}
    reasons = [f"{code}: {why}" for code, why in sorted(failed.items())]
    counting = failed.keys() & _BASELINE if facts.is_baseline else failed.keys()
    if counting & _VOIDING:
        return "invalid", reasons
    if facts.is_baseline:
        return ("inconclusive" if counting else "baseline_established"), reasons
    if stats.ci is not None and stats.delta_min is not None and stats.ci[1] < stats.delta_min:
        most = f"at most {stats.ci[1]:.4g} better; {stats.delta_min:.4g} would count"
        return "no_improvement", [*reasons, most]
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
    low, poi = stats.ci[0] if stats.ci else 0.0, stats.poi or 0
    tests = {
        f"the gain of {delta:.4g} is below the {least:.4g} that count": delta < least,
        "the interval of the gain reaches zero": low <= 0,
        "the runs have no spread, so no test applies": stats.holm_p is None,
        _weak_p(stats): stats.holm_p is not None and stats.holm_p >= stats.alpha,
        f"a run beats the incumbent's with a chance of {poi:.2f} only": poi < LEAST_POI,
    }
    return [why for why, holds in tests.items() if holds]


def _weak_p(stats: AuditStats) -> str:
    said = f"corrected p is {stats.holm_p or 0:.3g}, not below {stats.alpha:g}"
    if not stats.is_counted or stats.holm_p != stats.welch_p:
        return said
    needed = statistics.pairs_needed(stats.alpha)
    return f"{said}: too few pairs; signs that all agree count from {needed} pairs on"


# ---------------------------------------------------------------------------- the twelve checks


class CheckAnswer(NamedTuple):
    """What a check looked at, and why it fails; an empty text is a pass."""

    value: Any
    why: str = ""


def run_checks(facts: ClaimFacts, guardrails: Iterable[GuardrailResult]) -> list[CheckResult]:
    """Return all twelve checks, in order; what does not apply to a baseline passes and says so."""
    answers = {code: check(facts) for code, check in CHECKS.items()}
    broken = [rail.key for rail in guardrails if not rail.passed and rail.severity == "block"]
    answers["A10"] = CheckAnswer(broken, _listed({"broken": broken}))
    return [
        CheckResult(id=code, passed=not why, value=value, why=why)
        for code, (value, why) in sorted(answers.items())
    ]


def _same(facts: ClaimFacts, field: str) -> CheckAnswer:
    """Check that a recorded field has one value over all runs of both arms."""
    values = [getattr(run, field) for run in facts.runs]
    recorded = sorted({value for value in values if value is not None})
    if None in values:
        return CheckAnswer(recorded, f"{field} is not recorded everywhere")
    return CheckAnswer(recorded, "" if len(recorded) == 1 else f"{field} differs between runs")


def _listed(problems: dict[str, list[str]]) -> str:
    return "; ".join(f"{text}: {', '.join(names)}" for text, names in problems.items() if names)


def ledger_and_evidence(facts: ClaimFacts) -> CheckAnswer:
    """A01: the ledger chain holds and evidence files have the hashes that were recorded."""
    parts = {"ledger": facts.ledger_intact, "evidence": facts.evidence_intact}
    broken = [name for name, is_intact in parts.items() if not is_intact]
    return CheckAnswer(broken, _listed({"altered": broken}))


def launched_as_validated(facts: ClaimFacts) -> CheckAnswer:
    """A02: what ran is what the candidate is, from a clean worktree."""
    other = [
        run.run
        for arm in facts.arms
        for run in arm.runs
        if run.content_hash is None or run.content_hash != arm.content_hash
    ]
    dirty = [run.run for run in facts.runs if run.is_clean is not True]
    problems = {"launched as something else": other, "worktree not clean": dirty}
    return CheckAnswer(other + dirty, _listed(problems))


def same_protocol(facts: ClaimFacts) -> CheckAnswer:
    """A03: both arms were measured under this protocol and this metric spec."""
    protocol, spec = _same(facts, "protocol_hash"), _same(facts, "metric_spec_hash")
    if not protocol.why and protocol.value != [facts.protocol_hash]:
        return CheckAnswer(protocol.value, "measured under another protocol than the study's")
    return CheckAnswer(protocol.value, protocol.why or spec.why)


def nothing_dropped(facts: ClaimFacts) -> CheckAnswer:
    """A05: every planned run finished; what is left out was so by a rule fixed before launch."""
    missing = [run for arm in facts.arms for run in arm.unfinished]
    excluded = [exclusion for arm in facts.arms for exclusion in arm.excluded]
    picked = [exclusion.run for exclusion in excluded if not exclusion.fixed_before_launch]
    problems = {
        "not finished": missing,
        "left out without a rule fixed before launch": picked,
        "no finished run": [arm.candidate for arm in facts.arms if not arm.runs],
    }
    return CheckAnswer(missing + picked, _listed(problems))


def honest_seeds(facts: ClaimFacts) -> CheckAnswer:
    """A06: seeds are unique, from the right pool, and were not used for selection."""
    allowed, used = set(facts.pools.get("allowed", ())), set(facts.pools.get("selection", ()))
    problems: list[str] = []
    for arm in facts.arms:
        seeds = [run.seed for run in arm.runs]
        if len(set(seeds)) < len(seeds):
            problems.append(f"{arm.candidate} uses a seed twice")
        if outside := sorted(set(seeds) - allowed):
            problems.append(f"{arm.candidate} uses seeds outside the pool: {outside}")
        if again := sorted(set(seeds) & used):
            problems.append(f"{arm.candidate} uses seeds of the selection: {again}")
    sets = {frozenset(run.seed for run in arm.runs) for arm in facts.arms}
    if facts.is_paired_claim and len(sets) > 1:
        problems.append("the claim is paired and the arms have different seeds")
    return CheckAnswer(problems, "; ".join(problems))


def checkpoint_rule(facts: ClaimFacts) -> CheckAnswer:
    """A07: the checkpoint was not chosen on the episodes that are reported."""
    rule = facts.checkpoint_selection
    is_fixed = rule in ("last", "fixed_step", "best_on_validation")
    return CheckAnswer(rule, "" if is_fixed else f"checkpoints were selected by {rule}")


def equal_budget(facts: ClaimFacts) -> CheckAnswer:
    """A08: all runs trained for as long, within 2 %."""
    field = "steps" if facts.budget_unit == "steps" else "wall_s"
    amounts = [getattr(run, field) for run in facts.runs]
    if None in amounts or not amounts:
        return CheckAnswer(None, f"{field} is not recorded everywhere")
    low, high = min(amounts), max(amounts)
    off = (high - low) / high if high else 0.0
    is_equal = off <= BUDGET_TOLERANCE
    return CheckAnswer(off, "" if is_equal else f"{field} differs by {off:.1%} between runs")


def enough_runs(facts: ClaimFacts) -> CheckAnswer:
    """A09: at least five independent runs per arm."""
    counts = [len(arm.runs) for arm in facts.arms]
    needed = FEWEST_RUNS if facts.replication_unit in _SEEDED_UNITS else 1
    short = f"{min(counts)} runs in an arm; {needed} are needed"
    return CheckAnswer(counts, short if min(counts) < needed else "")


def healthy(facts: ClaimFacts) -> CheckAnswer:
    """A11: no open fatal signature, no high hacking risk without a review."""
    is_gamed = facts.reflection_level == "high" and not facts.is_reflection_reviewed
    why = [f"open: {', '.join(facts.open_fatal)}"] if facts.open_fatal else []
    why += ["hacking risk is high and nobody has reviewed it"] if is_gamed else []
    return CheckAnswer(list(facts.open_fatal), "; ".join(why))


def same_hardware(facts: ClaimFacts) -> CheckAnswer:
    """A12: the class of hardware and precision is the same, or the difference is declared."""
    answer = _same(facts, "hardware")
    return CheckAnswer(answer.value) if facts.hardware_declared else answer


CHECKS: dict[str, Callable[[ClaimFacts], CheckAnswer]] = {
    "A01": ledger_and_evidence,
    "A02": launched_as_validated,
    "A03": same_protocol,
    "A04": lambda facts: _same(facts, "code_hash"),
    "A05": nothing_dropped,
    "A06": honest_seeds,
    "A07": checkpoint_rule,
    "A08": equal_budget,
    "A09": enough_runs,
    "A11": healthy,
    "A12": same_hardware,
}
