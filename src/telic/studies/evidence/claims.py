"""A claim as data: the runs of both arms and everything an audit asks about them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from telic.storage.files import as_record
from telic.studies.canonical import content_hash, utc_now
from telic.studies.documents.base import Document, DocumentPart
from telic.studies.documents.candidate import CheckResult, RunStatus
from telic.studies.documents.contract import Phase
from telic.studies.documents.metrics import Guardrail, Primary
from telic.studies.errors import StudyError
from telic.studies.evidence.measurement import Measurement
from telic.studies.evidence.review import is_reviewed, newest_level
from telic.studies.evidence.signatures import fatal_alerts

if TYPE_CHECKING:
    from telic.studies.study import Study

_CLAIM_PHASES: tuple[Phase, ...] = ("promotion", "incumbent_validation")

AuditVerdict = Literal[
    "valid_improvement",
    "no_improvement",
    "inconclusive",
    "provisional",
    "baseline_established",
    "invalid",
]

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
}
"""what each check looks at"""


class ArmRun(DocumentPart):
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

    @property
    def value(self) -> float:
        """One number for the run: the mean over strata."""
        return sum(self.scores.values()) / len(self.scores)


class Exclusion(DocumentPart):
    """A run that is left out, and the rule that says so."""

    run: str
    rule: str
    fixed_before_launch: bool = False


class Arm(DocumentPart):
    """One side of a comparison."""

    candidate: str
    content_hash: str | None = None
    runs: tuple[ArmRun, ...] = ()
    unfinished: tuple[str, ...] = ()
    """planned runs that did not finish, and planned seeds without a run"""
    excluded: tuple[Exclusion, ...] = ()

    @property
    def by_seed(self) -> list[ArmRun]:
        """The runs in the order of their seeds."""
        return sorted(self.runs, key=lambda run: run.seed)


class ClaimFacts(DocumentPart):
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

    @property
    def arms(self) -> list[Arm]:
        """The candidate's, and the incumbent's where there is one."""
        return [arm for arm in (self.candidate, self.incumbent) if arm is not None]

    @property
    def runs(self) -> list[ArmRun]:
        """The runs of all arms."""
        return [run for arm in self.arms for run in arm.runs]

    @property
    def is_checkpoint_claim(self) -> bool:
        """Whether clips or episodes of one training run are compared, not training runs."""
        return self.replication_unit in ("motion_clip", "eval_episode")

    def scores(self, arm: Arm) -> dict[str, list[float]]:
        """Return an arm's scores by stratum, larger is better, runs in the order of their seeds."""
        scores: dict[str, list[float]] = {}
        for run in arm.by_seed:
            for stratum, value in sorted(run.scores.items()):
                scores.setdefault(stratum, []).append(oriented(value, self.primary.direction))
        if self.is_checkpoint_claim:  # one training run: its clips are the units
            return {"": [value for values in scores.values() for value in values]}
        return scores


class ArmSummary(DocumentPart):
    """One arm as the audit used it."""

    n: int
    seeds: tuple[int, ...]
    runs: tuple[str, ...]
    scores: tuple[float, ...]
    """one per run, as measured"""
    iqm: float | None
    ci: tuple[float, float] | None


class AuditStats(DocumentPart):
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


class GuardrailResult(DocumentPart):
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
    label: Literal["seed_claim", "checkpoint_claim"] = "seed_claim"
    n_star: int | None = None
    prng_seed: str
    """whole number as text: it does not fit into a double"""

    def check(self, code: str) -> CheckResult | None:
        """Return a check by its code."""
        return next((each for each in self.checks if each.id == code), None)


def oriented(value: float, direction: str) -> float:
    """Return a value turned so that larger is better."""
    return value if direction == "max" else -value


def gather_claim(study: Study, candidate: str) -> ClaimFacts:
    """Return the facts of the claim that a candidate beats the incumbent (or is a baseline).

    Raises StudyError E_NO_INCUMBENT when there is nothing to compare with, E_IS_INCUMBENT when that
    would be itself.
    """
    if candidate not in study.state.candidates:
        raise StudyError("E_NO_CANDIDATE", f"The ledger knows no candidate {candidate}.")
    incumbent = study.incumbent.candidate if study.incumbent else None
    is_baseline = study.state.candidates[candidate].kind == "baseline"
    phases: tuple[Phase, ...] = ("incumbent_validation",) if is_baseline else ("promotion",)
    if is_baseline and incumbent in (None, candidate):
        return _facts(study, _arm(study, candidate, phases), None)
    if incumbent is None:
        raise StudyError(
            "E_NO_INCUMBENT",
            f"There is no incumbent to compare {candidate} with.",
            hint="Run and accept a baseline under this protocol first.",
        )
    if incumbent == candidate:
        raise StudyError(
            "E_IS_INCUMBENT",
            f"{candidate} is the incumbent: there is nobody to compare it with.",
            hint="Its claim was audited before it was accepted; see telic study report.",
        )
    ours = _arm(study, candidate, phases)
    return _facts(study, ours, _control(study, incumbent, ours))


def _facts(study: Study, ours: Arm, theirs: Arm | None) -> ClaimFacts:
    spec, seeds = study.metric_spec, study.contract.seeds
    runs = [*ours.runs, *(theirs.runs if theirs else ())]
    used = {run.run for run in runs}
    sheets = [name for name, x in study.state.evidence.items() if x.run in used]
    level = newest_level(study, used)
    facts = ClaimFacts(
        id="a-",
        at="",
        candidate=ours,
        incumbent=theirs,
        is_baseline=theirs is None,
        primary=spec.primary,
        guardrails=spec.guardrails,
        replication_unit=spec.replication_unit,
        ledger_intact=study.ledger.verify().ok,
        evidence_intact=not study.altered(sheets),
        protocol_hash=study.state.protocol_hash or "",
        checkpoint_selection=study.protocol.checkpoint_selection,
        pools={
            "allowed": tuple(sorted(seeds.pool("promotion") | seeds.pool("validation"))),
            "selection": tuple(sorted(seeds.pool("selection"))),
        },
        budget_unit="steps" if all(run.steps is not None for run in runs) else "wall",
        open_fatal=fatal_alerts(study.events_of("monitor.alert", about=tuple(used)), used),
        reflection_level=level,
        is_reflection_reviewed=level == "high" and is_reviewed(study, ours.candidate),
        sigma_0=study.state.noise_floor,
        other_p=_other_p(study, ours.candidate, theirs.candidate if theirs else None),
        look=1 + sum(_is_earlier_look(audit, ours) for audit in study.audits(ours.candidate)),
    )
    # Named by all it rests on: the same facts are the same audit, other facts another one.
    name = f"a-{content_hash(facts.as_data())[:12]}"
    return facts.model_copy(update={"id": name, "at": utc_now()})


def _is_earlier_look(audit: Audit, ours: Arm) -> bool:
    """Tell whether an audit judged this claim with fewer runs and left it open."""
    now, then = {run.run for run in ours.runs}, set(audit.arms["x"].runs)
    return audit.verdict in ("inconclusive", "provisional") and then < now


def _other_p(study: Study, candidate: str, incumbent: str | None) -> tuple[float, ...]:
    """Return the last p of every other candidate that was claimed against this incumbent."""
    claim = (incumbent, study.state.protocol_hash)
    last = {
        name: audit.stats.welch_p
        for name in study.state.candidates
        if name != candidate
        for audit in study.audits(name)
        if (audit.incumbent, audit.protocol_hash) == claim
    }
    return tuple(sorted(p for p in last.values() if p is not None))


def _control(study: Study, incumbent: str, ours: Arm) -> Arm:
    """Return the incumbent's arm: its runs on our seeds where it has all of them, else all."""
    arm = _arm(study, incumbent, _CLAIM_PHASES)
    wanted = {run.seed for run in ours.runs}
    common = {run.seed: run for run in arm.runs if run.seed in wanted}
    if wanted and common.keys() == wanted:
        return arm.model_copy(update={"runs": tuple(common.values()), "unfinished": ()})
    return arm


def _arm(study: Study, candidate: str, phases: Iterable[Phase]) -> Arm:
    state = study.state.candidates[candidate]
    runs: dict[int, ArmRun] = {}
    open_seeds: dict[int, str] = {}
    for phase in phases:
        for name, run in study.state.runs_of(candidate, phase).items():
            if run.revision != state.revision:
                continue
            measured = _arm_run(study, name) if run.status == RunStatus.FINISHED else None
            if measured is not None:
                runs[run.seed] = measured
            else:
                open_seeds.setdefault(run.seed, f"{name} ({_why_unmeasured(study, name)})")
    planned = {seed for phase in phases for seed in study.planned_seeds(candidate, phase)}
    missing = [text for seed, text in open_seeds.items() if seed not in runs]
    missing += [f"seed {seed}" for seed in sorted(planned - runs.keys() - open_seeds.keys())]
    return Arm(
        candidate=candidate,
        content_hash=state.content_hash,
        runs=tuple(runs[seed] for seed in sorted(runs)),
        unfinished=tuple(missing),
    )


def _why_unmeasured(study: Study, run: str) -> str:
    """Return why a run is no part of its arm."""
    sheet = study.latest("metrics", run=run)
    problem = str(sheet.payload.get("problem") or "") if sheet else ""
    return problem or str(study.state.runs[run].status)


def _arm_run(study: Study, run: str) -> ArmRun | None:
    """Return a finished run as an audit sees it; None while it is not measured."""
    sheet = study.latest("metrics", run=run)
    measurement = as_record(sheet.payload, Measurement, sheet.id) if sheet else None
    if measurement is None or not measurement.scores:
        return None
    content_hash, is_clean = _as_launched(study, run)
    shared = measurement.model_dump(include=set(ArmRun.model_fields))
    return ArmRun(**shared, content_hash=content_hash, is_clean=is_clean)


def _as_launched(study: Study, run: str) -> tuple[str | None, bool | None]:
    """Return the candidate's content hash at launch, and whether its tree was clean (gate G18)."""
    intents = study.events_of("launch.intent", about=(study.state.runs[run].candidate,))
    empty: dict[str, Any] = {}
    intent = next((event.data for event in intents if event.data.get("run") == run), empty)
    return intent.get("content_hash"), intent.get("gates", {}).get("G18")
