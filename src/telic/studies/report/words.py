"""The sentences of a study's report."""

from __future__ import annotations

from telic.core.text import MISSING, figure, percent, signed, span
from telic.studies.evidence.claims import Audit, AuditStats
from telic.studies.report.facts import CandidateFacts, StudyFacts
from telic.studies.state import Incumbent, WorkSource

VERDICTS = {
    "valid_improvement": "valid improvement",
    "no_improvement": "no improvement",
    "inconclusive": "inconclusive",
    "provisional": "provisional: too few seeds",
    "baseline_established": "baseline established",
    "invalid": "invalid",
    "target_met": "target met",
    "target_missed": "target missed",
}
NOT_APPROVED_HERE = "No approval was asked for: nothing is launched under this contract."
RESOURCES = {
    "wall_clock_h": "wall clock (h)",
    "gpu_h": "GPU (h)",
    "cpu_core_h": "CPU cores (h)",
    "env_steps": "environment steps",
    "launches": "launches",
    "llm_usd": "models (USD)",
    "llm_tokens": "model tokens",
    "llm_calls": "model calls",
    "disk_gb": "disk (GB)",
}


def chance(value: float | None) -> str:
    """Return a p value."""
    if value is None:
        return MISSING
    return "< 0.0001" if value < 1e-4 else f"{value:.4f}"


def test_of(stats: AuditStats) -> str:
    """Return which test a p comes from."""
    if stats.is_counted:
        return "p (signs of the pairs)"
    return "p (paired t)" if stats.is_paired else "p (Welch, one-sided)"


def short_hash(value: str | None) -> str:
    """Return the first digits of a hash."""
    return MISSING if value is None else value[:12]


def status_line(facts: StudyFacts) -> str:
    """Say in one sentence whom the study trusts and how much."""
    state, metric = facts.state, facts.spec.primary.key if facts.spec else "metric"
    if state.incumbent is None and facts.source is not None:
        return f"Nothing that the {facts.source.kind} tried has been accepted by it."
    if state.incumbent is None:
        return "No incumbent yet: no baseline has been accepted under this protocol."
    reached = trusted(state.incumbent, metric, measured_over(facts, state.incumbent.n))
    return f"{state.incumbent.candidate} is trusted: {reached}."


def told_of(source: WorkSource) -> str:
    """Say where a study's runs and decisions were made."""
    return (
        f"This study tells of the {source.kind} {source.name}. Its runs and decisions were made "
        f"there, by the {source.kind}'s own rules; nothing is launched here."
    )


def trusted(held: Incumbent, metric: str, over: str) -> str:
    """Say what an incumbent reaches."""
    return f"{metric} {figure(held.iqm)} (95 % {span(held.ci)}, {over})"


def measured_over(facts: StudyFacts, count: int | None) -> str:
    """Say what a number is taken over, e.g. the middle half of 5 runs."""
    unit = facts.spec.replication_unit if facts.spec else "training_seed"
    if unit == "eval_episode":
        return f"mean of {figure(count)} fresh episodes"
    return f"middle half of {figure(count)} runs"


def verdict(candidate: CandidateFacts) -> str:
    """Say what an audit or a decision made of a candidate."""
    if candidate.audit is not None:
        return VERDICTS[candidate.audit.verdict]
    return candidate.decisions[-1].verdict if candidate.decisions else MISSING


def phase(candidate: CandidateFacts) -> str:
    """Name the phase a candidate is in."""
    return (candidate.state.phase or MISSING).replace("_", " ")


def statement(candidate: CandidateFacts) -> str:
    """Return a candidate's hypothesis in one line."""
    return " ".join(candidate.record.hypothesis.statement.split()) if candidate.record else MISSING


def conclusion(audit: Audit) -> str:
    """Say in one sentence what an audit found."""
    stats = audit.stats
    if audit.label == "target_claim":
        return _target_conclusion(audit)
    if audit.verdict == "baseline_established":
        return f"The baseline repeats; its noise floor is {figure(stats.sigma_0)}."
    if stats.delta is None:
        return "There was nothing to compare."
    return (
        f"{signed(stats.delta)} against {audit.incumbent} (95 % {span(stats.ci)}); "
        f"{figure(stats.delta_min)} would count. A run of it beats one of the incumbent's with a "
        f"chance of {percent(stats.poi)}."
    )


def _target_conclusion(audit: Audit) -> str:
    """Say what the work itself concluded; beside what came before, the difference is no claim."""
    arm, stats = audit.arms["x"], audit.stats
    said = f"It reaches {figure(arm.iqm)} (95 % {span(arm.ci)}), by the test of the work itself."
    if stats.delta is None:
        return said
    return f"{said} {signed(stats.delta)} beside {audit.incumbent} (95 % {span(stats.ci)})."


def budget_rows(
    facts: StudyFacts,
) -> list[tuple[str, float | None, float | None, float | None, float]]:
    """Return name, spent, reserved, limit and the share that is gone, where there is a limit."""
    budget, limits = facts.state.budget, facts.state.budget_limits
    rows: list[tuple[str, float | None, float | None, float | None, float]] = []
    for key, name in RESOURCES.items():
        spent, held = getattr(budget.spent, key), getattr(budget.reserved, key)
        limit = getattr(limits, key)
        if limit is None and not spent and not held:
            continue
        gone = ((spent or 0.0) + (held or 0.0)) / limit if limit else 0.0
        rows.append((name, spent, held, limit, gone))
    return rows


def failures(facts: StudyFacts) -> list[tuple[str, str, str]]:
    """Return what was tried and did not work: candidate, status and why."""
    lost = ("rejected", "inconclusive", "reverted", "debug")
    return [
        (candidate.name, candidate.state.status.value, _why(candidate))
        for candidate in facts.candidates
        if candidate.state.status.value in lost
    ]


def _why(candidate: CandidateFacts) -> str:
    if candidate.decisions:
        return candidate.decisions[-1].rationale
    if candidate.audit and candidate.audit.reasons:
        return candidate.audit.reasons[0]
    return candidate.state.reason or MISSING
