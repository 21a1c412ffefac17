"""The twelve checks of a claim, A01 to A12, each a pure function of the facts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from telic.studies.documents.candidate import CheckResult
from telic.studies.evidence.claims import Arm, ArmRun, ClaimFacts, GuardrailResult

FEWEST_RUNS = 5
BUDGET_TOLERANCE = 0.02
TITLES = {
    "A01": "ledger and evidence intact",
    "A02": "launched as validated, tree clean",
    "A03": "same protocol and metric spec",
    "A04": "same evaluator, extractor and environment code",
    "A05": "every planned run finished, none dropped",
    "A06": "seeds unique, from their pool, not used for selection",
    "A07": "checkpoint rule fixed beforehand",
    "A08": "equal training budget",
    "A09": "enough independent runs",
    "A10": "guardrails hold",
    "A11": "no open fatal sign, no unreviewed hacking risk",
    "A12": "same hardware class",
    "T01": "every seed trained and judged",
    "T02": "measured on fresh episodes",
    "T03": "enough policies prove the target",
    "T04": "the interval reaches the target",
}
"""what each check looks at; T01 to T04 are those of a source of experiments"""
_SEEDED_UNITS = ("training_seed", "search_run")


def run_checks(facts: ClaimFacts, guardrails: Iterable[GuardrailResult]) -> list[CheckResult]:
    """Return all twelve checks, in order; what does not apply to a baseline passes and says so."""
    held = list(guardrails)
    results = [CHECKS[code](facts) for code in sorted(CHECKS)]
    broken = [each.key for each in held if not each.passed and each.severity == "block"]
    results.append(
        _check(
            "A10", not broken, value=broken, why=f"broken: {', '.join(broken)}" if broken else ""
        )
    )
    return sorted(results, key=lambda each: each.id)


def _check(code: str, passed: bool, *, value: Any = None, why: str = "") -> CheckResult:
    return CheckResult(id=code, passed=passed, value=value, why=why if not passed else "")


def _arms(facts: ClaimFacts) -> list[Arm]:
    return [each for each in (facts.candidate, facts.incumbent) if each is not None]


def _all_runs(facts: ClaimFacts) -> list[ArmRun]:
    return [run for arm in _arms(facts) for run in arm.runs]


def _same(facts: ClaimFacts, code: str, field: str) -> CheckResult:
    """Check that a recorded field has one value over all runs of both arms."""
    found = [getattr(run, field) for run in _all_runs(facts)]
    known = {each for each in found if each is not None}
    if None in found:
        return _check(code, False, value=sorted(known), why=f"{field} is not recorded everywhere")
    return _check(code, len(known) == 1, value=sorted(known), why=f"{field} differs between runs")


def ledger_and_evidence(facts: ClaimFacts) -> CheckResult:
    """A01: the ledger chain holds and evidence files have the hashes that were recorded."""
    broken = [
        name
        for name, good in (("ledger", facts.ledger_intact), ("evidence", facts.evidence_intact))
        if not good
    ]
    return _check("A01", not broken, value=broken, why=f"altered: {', '.join(broken)}")


def launched_as_validated(facts: ClaimFacts) -> CheckResult:
    """A02: what ran is what the candidate is, from a clean worktree."""
    other = [
        run.run
        for arm in _arms(facts)
        for run in arm.runs
        if run.content_hash is None or run.content_hash != arm.content_hash
    ]
    dirty = [run.run for run in _all_runs(facts) if run.is_clean is not True]
    why = "; ".join(
        f"{text}: {', '.join(runs)}"
        for text, runs in (("launched as something else", other), ("worktree not clean", dirty))
        if runs
    )
    return _check("A02", not other and not dirty, value=other + dirty, why=why)


def same_protocol(facts: ClaimFacts) -> CheckResult:
    """A03: both arms were measured under this protocol and this metric spec."""
    protocol = _same(facts, "A03", "protocol_hash")
    spec = _same(facts, "A03", "metric_spec_hash")
    other = protocol.passed and protocol.value != [facts.protocol_hash]
    why = "measured under another protocol than the study's" if other else protocol.why or spec.why
    return _check(
        "A03", protocol.passed and spec.passed and not other, value=protocol.value, why=why
    )


def same_code(facts: ClaimFacts) -> CheckResult:
    """A04: evaluator, extractor and environment are the same code in both arms."""
    return _same(facts, "A04", "code_hash")


def nothing_dropped(facts: ClaimFacts) -> CheckResult:
    """A05: every planned run finished; what is left out was so by a rule fixed before launch."""
    missing = [each for arm in _arms(facts) for each in arm.unfinished]
    picked = [
        each.run for arm in _arms(facts) for each in arm.excluded if not each.fixed_before_launch
    ]
    empty = [arm.candidate for arm in _arms(facts) if not arm.runs]
    why = "; ".join(
        f"{text}: {', '.join(each)}"
        for text, each in (
            ("not finished", missing),
            ("left out without a rule fixed before launch", picked),
            ("no finished run", empty),
        )
        if each
    )
    return _check("A05", not (missing or picked or empty), value=missing + picked, why=why)


def honest_seeds(facts: ClaimFacts) -> CheckResult:
    """A06: seeds are unique, from the right pool, and were not used for selection."""
    allowed, used = set(facts.pools.get("allowed", ())), set(facts.pools.get("selection", ()))
    problems: list[str] = []
    for arm in _arms(facts):
        seeds = [run.seed for run in arm.runs]
        if len(set(seeds)) < len(seeds):
            problems.append(f"{arm.candidate} uses a seed twice")
        if outside := sorted(set(seeds) - allowed):
            problems.append(f"{arm.candidate} uses seeds outside the pool: {outside}")
        if again := sorted(set(seeds) & used):
            problems.append(f"{arm.candidate} uses seeds of the selection: {again}")
    sets = {frozenset(run.seed for run in arm.runs) for arm in _arms(facts)}
    if facts.is_paired_claim and len(sets) > 1:
        problems.append("the claim is paired and the arms have different seeds")
    return _check("A06", not problems, value=problems, why="; ".join(problems))


def checkpoint_rule(facts: ClaimFacts) -> CheckResult:
    """A07: the checkpoint was not chosen on the episodes that are reported."""
    fixed = facts.checkpoint_selection in ("last", "fixed_step", "best_on_validation")
    return _check(
        "A07",
        fixed,
        value=facts.checkpoint_selection,
        why=f"checkpoints were selected by {facts.checkpoint_selection}",
    )


def equal_budget(facts: ClaimFacts) -> CheckResult:
    """A08: all runs trained for as long, within 2 %."""
    field = "steps" if facts.budget_unit == "steps" else "wall_s"
    amounts = [getattr(run, field) for run in _all_runs(facts)]
    if None in amounts or not amounts:
        return _check("A08", False, why=f"{field} is not recorded everywhere")
    low, high = min(amounts), max(amounts)
    off = (high - low) / high if high else 0.0
    return _check(
        "A08", off <= BUDGET_TOLERANCE, value=off, why=f"{field} differs by {off:.1%} between runs"
    )


def enough_runs(facts: ClaimFacts) -> CheckResult:
    """A09: at least five independent runs per arm."""
    counts = [len(arm.runs) for arm in _arms(facts)]
    needed = FEWEST_RUNS if facts.replication_unit in _SEEDED_UNITS else 1
    return _check(
        "A09",
        min(counts) >= needed,
        value=counts,
        why=f"{min(counts)} runs in an arm; {needed} are needed",
    )


def healthy(facts: ClaimFacts) -> CheckResult:
    """A11: no open fatal signature, no high hacking risk without a review."""
    gamed = facts.reflection_level == "high" and not facts.is_reflection_reviewed
    why = [f"open: {', '.join(facts.open_fatal)}"] if facts.open_fatal else []
    why += ["hacking risk is high and nobody has reviewed it"] if gamed else []
    return _check("A11", not why, value=list(facts.open_fatal), why="; ".join(why))


def same_hardware(facts: ClaimFacts) -> CheckResult:
    """A12: the class of hardware and precision is the same, or the difference is declared."""
    found = _same(facts, "A12", "hardware")
    return found if not facts.hardware_declared else _check("A12", True, value=found.value)


CHECKS: dict[str, Callable[[ClaimFacts], CheckResult]] = {
    "A01": ledger_and_evidence,
    "A02": launched_as_validated,
    "A03": same_protocol,
    "A04": same_code,
    "A05": nothing_dropped,
    "A06": honest_seeds,
    "A07": checkpoint_rule,
    "A08": equal_budget,
    "A09": enough_runs,
    "A11": healthy,
    "A12": same_hardware,
}
