"""A claim as data: the runs of both arms and everything an audit asks about them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from telic.studies.documents.base import Document, Part
from telic.studies.documents.candidate import CheckResult
from telic.studies.documents.metrics import Guardrail, Primary

AuditVerdict = Literal[
    "valid_improvement",
    "no_improvement",
    "inconclusive",
    "provisional",
    "baseline_established",
    "invalid",
    "target_met",
    "target_missed",
]
"""the last two are what a source of experiments concluded itself; see `telic study from`"""


class ArmRun(Part):
    """One finished run and what it was made under; None is not recorded."""

    run: str
    seed: int
    scores: dict[str, float]
    """the primary metric by stratum, as measured; without strata the one stratum is empty"""
    guardrails: dict[str, float] = Field(default_factory=dict[str, float])
    protocol_hash: str | None = None
    metric_spec_hash: str | None = None
    code_hash: str | None = None
    """evaluator, extractor and environment together"""
    content_hash: str | None = None
    """of the candidate as it was launched"""
    is_clean: bool | None = None
    """worktree clean at launch"""
    steps: float | None = None
    wall_s: float | None = None
    hardware: str | None = None
    """class of hardware and precision"""


class Exclusion(Part):
    """A run that is left out, and the rule that says so."""

    run: str
    rule: str
    fixed_before_launch: bool = False


class Arm(Part):
    """One side of a comparison."""

    candidate: str
    content_hash: str | None = None
    runs: tuple[ArmRun, ...] = ()
    unfinished: tuple[str, ...] = ()
    """planned runs that did not finish, and planned seeds without a run"""
    excluded: tuple[Exclusion, ...] = ()


class ClaimFacts(Part):
    """Everything that an audit looks at."""

    id: str
    at: str
    candidate: Arm
    incumbent: Arm | None
    """None for a baseline"""
    is_baseline: bool = False
    primary: Primary
    guardrails: tuple[Guardrail, ...] = ()
    replication_unit: str = "training_seed"
    ledger_intact: bool
    evidence_intact: bool
    protocol_hash: str
    checkpoint_selection: str
    pools: dict[str, tuple[int, ...]]
    """seeds allowed in the role, and those used for selection: keys allowed, selection"""
    is_paired_claim: bool = False
    budget_unit: Literal["steps", "wall"] = "steps"
    open_fatal: tuple[str, ...] = ()
    """unresolved fatal signatures"""
    reflection_level: str | None = None
    is_reflection_reviewed: bool = False
    hardware_declared: bool = False
    sigma_0: float | None = None
    other_p: tuple[float, ...] = ()
    """p values of other candidates that reached promotion against this incumbent"""
    look: int = Field(default=1, ge=1)


class ArmSummary(Part):
    """One arm as the audit used it."""

    n: int
    seeds: tuple[int, ...]
    runs: tuple[str, ...]
    scores: tuple[float, ...]
    """one per run, as measured"""
    iqm: float | None
    ci: tuple[float, float] | None


class AuditStats(Part):
    """The numbers of a comparison; scores are turned so that larger is better."""

    delta: float | None = None
    ci: tuple[float, float] | None = None
    delta_min: float | None = None
    welch_p: float | None = None
    is_paired: bool = False
    is_counted: bool = False
    """all pairs differ by the same amount, and p counts their signs"""
    holm_p: float | None = None
    mwu_p: float | None = None
    poi: float | None = None
    sigma: float | None = None
    """standard deviation the arms share"""
    sigma_0: float | None = None
    sigma_0_ci: tuple[float, float] | None = None
    look: int = 1
    alpha: float = 0.05


class GuardrailResult(Part):
    """A guardrail by interval: absolute of the number itself, non_inferior of its gain."""

    key: str
    ci: tuple[float, float] | None
    passed: bool
    severity: Literal["block", "warn"]


class Audit(Document):
    """audits/<id>.json: does the evidence support the claim."""

    schema_id: str = Field(default="telic.audit/1", alias="schema")
    id: str
    at: str
    candidate: str
    incumbent: str | None
    protocol_hash: str
    arms: dict[str, ArmSummary]
    excluded: tuple[Exclusion, ...] = ()
    checks: tuple[CheckResult, ...]
    stats: AuditStats
    guardrails: tuple[GuardrailResult, ...] = ()
    verdict: AuditVerdict
    reasons: tuple[str, ...] = ()
    label: Literal["seed_claim", "checkpoint_claim", "target_claim"] = "seed_claim"
    n_star: int | None = None
    prng_seed: str
    """whole number as text: it does not fit into a double"""

    def check(self, code: str) -> CheckResult | None:
        """Return a check by its code."""
        return next((each for each in self.checks if each.id == code), None)


def oriented(value: float, direction: str) -> float:
    """Return a value turned so that larger is better."""
    return value if direction == "max" else -value


def run_value(run: ArmRun) -> float:
    """Return one number for a run: the mean over strata."""
    return sum(run.scores.values()) / len(run.scores)
