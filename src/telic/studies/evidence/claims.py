"""A claim as data: the runs of both arms, and everything an audit checks about them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pydantic import Field

from telic.storage.files import as_record
from telic.studies.canonical import content_hash, utc_now
from telic.studies.documents.base import DocumentPart
from telic.studies.documents.candidate import RunStatus
from telic.studies.documents.contract import Phase
from telic.studies.documents.metrics import Guardrail, Primary
from telic.studies.errors import StudyError
from telic.studies.evidence.measurement import Measurement
from telic.studies.evidence.monitor import fatal_alerts
from telic.studies.evidence.review import is_reviewed, newest_level
from telic.studies.evidence.statistics import oriented

if TYPE_CHECKING:
    from telic.studies.evidence.audit import Audit
    from telic.studies.study import Study

_CLAIM_PHASES: tuple[Phase, ...] = ("promotion", "incumbent_validation")


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


class Arm(DocumentPart):
    """One side of a comparison; runs are in the order of their seeds."""

    candidate: str
    content_hash: str | None = None
    runs: tuple[ArmRun, ...] = ()
    unfinished: tuple[str, ...] = ()
    """planned runs that did not finish, and planned seeds without a run"""


class ClaimFacts(DocumentPart):
    """Everything that an audit looks at."""

    id: str
    at: str
    candidate: Arm
    incumbent: Arm | None
    """None for a baseline"""
    primary: Primary
    guardrails: tuple[Guardrail, ...] = ()
    replication_unit: str = "training_seed"
    altered: tuple[str, ...] = ()
    """ledger, evidence: what is not as it was written"""
    protocol_hash: str
    checkpoint_selection: str
    allowed_seeds: tuple[int, ...]
    selection_seeds: tuple[int, ...]
    """used to choose the candidate, so no evidence for it"""
    open_fatal: tuple[str, ...] = ()
    """unresolved fatal signatures"""
    is_risk_unreviewed: bool = False
    """the last reflection has a high hacking risk without a review"""
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
        """True if clips or episodes of one training run are compared, not training runs."""
        return self.replication_unit in ("motion_clip", "eval_episode")

    def scores(self, arm: Arm) -> dict[str, list[float]]:
        """Return an arm's scores by stratum, larger is better."""
        scores: dict[str, list[float]] = {}
        for run in arm.runs:
            for stratum, value in sorted(run.scores.items()):
                scores.setdefault(stratum, []).append(oriented(value, self.primary.direction))
        if self.is_checkpoint_claim:  # one training run: its clips are the units
            return {"": [value for values in scores.values() for value in values]}
        return scores


def gather_claim(study: Study, candidate: str) -> ClaimFacts:
    """Return the facts of the claim that a candidate beats the incumbent (or is a baseline).

    Raises StudyError E_NO_INCUMBENT when there is nothing to compare with, E_IS_INCUMBENT when that
    would be itself.
    """
    if candidate not in study.state.candidates:
        raise StudyError("E_NO_CANDIDATE", f"The ledger has no candidate {candidate}.")
    incumbent = study.incumbent.candidate if study.incumbent else None
    is_baseline = study.state.candidates[candidate].kind == "baseline"
    phases: tuple[Phase, ...] = ("incumbent_validation",) if is_baseline else ("promotion",)
    if is_baseline and incumbent in (None, candidate):
        return _facts(study, _arm(study, candidate, phases), None)
    if incumbent is None:
        raise StudyError(
            "E_NO_INCUMBENT",
            f"{candidate} needs an incumbent to be compared with.",
            hint="Run and accept a baseline under this protocol first.",
        )
    if incumbent == candidate:
        raise StudyError(
            "E_IS_INCUMBENT",
            f"{candidate} is the incumbent: there is nothing to compare it with.",
            hint="Its claim was audited before it was accepted; see telic study report.",
        )
    ours = _arm(study, candidate, phases)
    theirs = _arm(study, incumbent, _CLAIM_PHASES, is_control=True)
    wanted = {run.seed for run in ours.runs}
    common = tuple(run for run in theirs.runs if run.seed in wanted)
    if wanted and len(common) == len(wanted):  # its runs on our seeds, where it has all of them
        theirs = theirs.model_copy(update={"runs": common, "unfinished": ()})
    return _facts(study, ours, theirs)


def _facts(study: Study, ours: Arm, theirs: Arm | None) -> ClaimFacts:
    spec, seeds = study.metric_spec, study.contract.seeds
    used = {run.run for arm in (ours, theirs) if arm for run in arm.runs}
    sheets = [name for name, x in study.state.evidence.items() if x.run in used]
    parts = {"ledger": study.ledger.verify().ok, "evidence": not study.altered(sheets)}
    is_risky = newest_level(study, used) == "high"
    facts = ClaimFacts(
        id="a-",
        at="",
        candidate=ours,
        incumbent=theirs,
        primary=spec.primary,
        guardrails=spec.guardrails,
        replication_unit=spec.replication_unit,
        altered=tuple(name for name, is_intact in parts.items() if not is_intact),
        protocol_hash=study.state.protocol_hash or "",
        checkpoint_selection=study.protocol.checkpoint_selection,
        allowed_seeds=tuple(sorted(seeds.pool("promotion") | seeds.pool("validation"))),
        selection_seeds=tuple(sorted(seeds.pool("selection"))),
        open_fatal=fatal_alerts(study.events_of("monitor.alert", about=tuple(used)), used),
        is_risk_unreviewed=is_risky and not is_reviewed(study, ours.candidate),
        sigma_0=study.state.noise_floor,
        other_p=_other_p(study, ours.candidate, theirs.candidate if theirs else None),
        look=1 + sum(_is_earlier_look(audit, ours) for audit in study.audits(ours.candidate)),
    )
    # Named by all it rests on: the same facts are the same audit, other facts another one.
    name = f"a-{content_hash(facts.as_data())[:12]}"
    return facts.model_copy(update={"id": name, "at": utc_now()})


def _is_earlier_look(audit: Audit, ours: Arm) -> bool:
    """Return whether an audit judged this claim with fewer runs and left it open."""
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


def _arm(study: Study, candidate: str, phases: Iterable[Phase], *, is_control: bool = False) -> Arm:
    """Return the runs of a candidate; of a control, only what was started or planned by itself."""
    state = study.state.candidates[candidate]
    runs: dict[int, ArmRun] = {}
    unmeasured: dict[int, str] = {}
    for phase in phases:
        for name, run in study.state.runs_of(candidate, phase).items():
            if run.revision != state.revision:
                continue
            sheet = study.latest("metrics", run=name)
            measured = as_record(sheet.payload, Measurement, sheet.id) if sheet else None
            if run.status == RunStatus.FINISHED and measured is not None and measured.scores:
                runs[run.seed] = _arm_run(study, name, measured)
            else:
                why = (measured.problem if measured else "") or run.status
                unmeasured.setdefault(run.seed, f"{name} ({why})")
    own = study.candidate(candidate).plan.seeds
    planned = {
        seed
        for phase in phases
        for seed in (own.get(phase, ()) if is_control else study.planned_seeds(candidate, phase))
    }
    missing = [text for seed, text in unmeasured.items() if seed not in runs]
    missing += [f"seed {seed}" for seed in sorted(planned - runs.keys() - unmeasured.keys())]
    return Arm(
        candidate=candidate,
        content_hash=state.content_hash,
        runs=tuple(runs[seed] for seed in sorted(runs)),
        unfinished=tuple(missing),
    )


def _arm_run(study: Study, run: str, measured: Measurement) -> ArmRun:
    """Return a measured run with the candidate's hash and tree (gate G18) at its launch."""
    intents = study.events_of("launch.intent", about=(measured.candidate,))
    empty: dict[str, Any] = {}
    intent = next((event.data for event in intents if event.data.get("run") == run), empty)
    return ArmRun(
        **measured.model_dump(include=set(ArmRun.model_fields)),
        content_hash=intent.get("content_hash"),
        is_clean=intent.get("gates", {}).get("G18"),
    )
