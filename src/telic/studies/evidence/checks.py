"""The twelve checks of a claim, A01 to A12, each a pure function of the facts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

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


class CheckAnswer(NamedTuple):
    """What a check looked at, and why it fails; an empty text is a pass."""

    value: Any
    why: str = ""


def run_checks(facts: ClaimFacts, guardrails: Iterable[GuardrailResult]) -> list[CheckResult]:
    """Return all twelve checks, in order; what does not apply to a baseline passes and says so."""
    answers = {code: check(facts) for code, check in CHECKS.items()}
    broken = [each.key for each in guardrails if not each.passed and each.severity == "block"]
    answers["A10"] = CheckAnswer(broken, _listed({"broken": broken}))
    return [
        CheckResult(id=code, passed=not why, value=value, why=why)
        for code, (value, why) in sorted(answers.items())
    ]


def _arms(facts: ClaimFacts) -> list[Arm]:
    return [arm for arm in (facts.candidate, facts.incumbent) if arm is not None]


def _all_runs(facts: ClaimFacts) -> list[ArmRun]:
    return [run for arm in _arms(facts) for run in arm.runs]


def _same(facts: ClaimFacts, field: str) -> CheckAnswer:
    """Check that a recorded field has one value over all runs of both arms."""
    values = [getattr(run, field) for run in _all_runs(facts)]
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
        for arm in _arms(facts)
        for run in arm.runs
        if run.content_hash is None or run.content_hash != arm.content_hash
    ]
    dirty = [run.run for run in _all_runs(facts) if run.is_clean is not True]
    problems = {"launched as something else": other, "worktree not clean": dirty}
    return CheckAnswer(other + dirty, _listed(problems))


def same_protocol(facts: ClaimFacts) -> CheckAnswer:
    """A03: both arms were measured under this protocol and this metric spec."""
    protocol, spec = _same(facts, "protocol_hash"), _same(facts, "metric_spec_hash")
    if not protocol.why and protocol.value != [facts.protocol_hash]:
        return CheckAnswer(protocol.value, "measured under another protocol than the study's")
    return CheckAnswer(protocol.value, protocol.why or spec.why)


def same_code(facts: ClaimFacts) -> CheckAnswer:
    """A04: evaluator, extractor and environment are the same code in both arms."""
    return _same(facts, "code_hash")


def nothing_dropped(facts: ClaimFacts) -> CheckAnswer:
    """A05: every planned run finished; what is left out was so by a rule fixed before launch."""
    arms = _arms(facts)
    missing = [run for arm in arms for run in arm.unfinished]
    picked = [each.run for arm in arms for each in arm.excluded if not each.fixed_before_launch]
    problems = {
        "not finished": missing,
        "left out without a rule fixed before launch": picked,
        "no finished run": [arm.candidate for arm in arms if not arm.runs],
    }
    return CheckAnswer(missing + picked, _listed(problems))


def honest_seeds(facts: ClaimFacts) -> CheckAnswer:
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
    return CheckAnswer(problems, "; ".join(problems))


def checkpoint_rule(facts: ClaimFacts) -> CheckAnswer:
    """A07: the checkpoint was not chosen on the episodes that are reported."""
    rule = facts.checkpoint_selection
    is_fixed = rule in ("last", "fixed_step", "best_on_validation")
    return CheckAnswer(rule, "" if is_fixed else f"checkpoints were selected by {rule}")


def equal_budget(facts: ClaimFacts) -> CheckAnswer:
    """A08: all runs trained for as long, within 2 %."""
    field = "steps" if facts.budget_unit == "steps" else "wall_s"
    amounts = [getattr(run, field) for run in _all_runs(facts)]
    if None in amounts or not amounts:
        return CheckAnswer(None, f"{field} is not recorded everywhere")
    low, high = min(amounts), max(amounts)
    off = (high - low) / high if high else 0.0
    is_equal = off <= BUDGET_TOLERANCE
    return CheckAnswer(off, "" if is_equal else f"{field} differs by {off:.1%} between runs")


def enough_runs(facts: ClaimFacts) -> CheckAnswer:
    """A09: at least five independent runs per arm."""
    counts = [len(arm.runs) for arm in _arms(facts)]
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
    "A04": same_code,
    "A05": nothing_dropped,
    "A06": honest_seeds,
    "A07": checkpoint_rule,
    "A08": equal_budget,
    "A09": enough_runs,
    "A11": healthy,
    "A12": same_hardware,
}
