"""State and budget of a study, computed from its ledger entries.

Keys of `data` that are read from each kind of entry (other keys are informational):

    study.status        status
    contract.amended    version, hash, protocol_hash, required, budget, automation, stop_rules
    approval.*          key, candidate, subject_hash, by, at, method, note, sig, why (voided)
    candidate.*         to (new status), reason, kind, parents, revision, phase, seeds, hashes
    launch.intent       run, candidate, phase, seed, nonce, kind, reservation, gpu, retry_of,
                        sealed, steps, content_hash, gates
    launch.started      run, candidate, identity, to
    launch.aborted      run, reason
    run.*               run, actual, by, why, artifacts, code_hash
    evidence.added      id, kind, hash, run, candidate
    decision.recorded   decision, verdict, to, audit, incumbent, trusts_nobody, noise_floor
    incumbent.check     candidate, control, seeds
    stop.fired          rule, why, stands
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

from pydantic import BaseModel, Field

from telic.core.config import Record
from telic.storage.files import plain
from telic.storage.journal import JournalEntry, JournalHead
from telic.studies.documents.base import DocumentPart, Sha, actor_of
from telic.studies.documents.candidate import LIVE_RUNS, CandidateStatus, RunStatus
from telic.studies.documents.contract import (
    RESOURCES,
    Approval,
    ApprovalKey,
    Automation,
    CandidateKind,
    Resources,
    StopRule,
    StudyBudget,
    StudyPhase,
)
from telic.studies.folder import StudyStatus, artifacts_hash

_HASHES = ("content_hash", "contract_hash", "protocol_hash", "adapter_hash")
_APPROVAL = {"granted": "approved", "rejected": "rejected", "voided": "void"}


class CandidateState(DocumentPart):
    """State of a candidate according to the ledger."""

    status: CandidateStatus = CandidateStatus.DRAFT
    kind: CandidateKind = "config"
    author: str
    """label of the actor who created it"""
    parents: tuple[str, ...] = ()
    revision: int = 1
    phase: StudyPhase | None = None
    content_hash: Sha | None = None
    contract_hash: Sha | None = None
    protocol_hash: Sha | None = None
    adapter_hash: Sha | None = None
    debug_attempts: int = 0
    """number of revisions made in debug"""
    added_seeds: dict[StudyPhase, tuple[int, ...]] = Field(default={})
    """seeds added to those in its plan"""
    since_seq: int
    """ledger entry that set its status"""
    reason: str = ""


class RunState(Record):
    """State of a run according to the ledger."""

    status: RunStatus
    candidate: str
    revision: int = 1
    """candidate revision at launch"""
    phase: StudyPhase
    seed: int
    kind: str = "train"
    nonce: str | None = None
    gpu: int | None = None
    retry_of: str | None = None
    reservation: Resources
    actual: Resources | None = None
    identity: dict[str, Any] = Field(default={})
    """identity of the process or job"""
    killed_by: str | None = None
    why: str = ""
    is_sealed: bool = False
    """true if the supervisor signs the exit record"""
    artifacts: Sha | None = None
    """hash of the list of output files, or None until the run ends"""
    steps: int | None = None
    """value of {steps} in its command, or None if the command has no such placeholder"""
    content_hash: Sha | None = None
    """content hash of the candidate at launch"""
    is_clean: bool | None = None
    """true if the worktree had no unrelated changes at launch"""
    code_hash: Sha | None = None
    """hash of evaluator, interpreter and packages, recorded by the supervisor"""
    intent_at: str
    started_at: str | None = None
    ended_at: str | None = None

    @property
    def is_live(self) -> bool:
        """True if the run is starting or running."""
        return self.status in LIVE_RUNS

    @property
    def may_be_retried(self) -> bool:
        """True if the run's outcome is not informative about the candidate."""
        return self.status == RunStatus.LOST or self.killed_by == "preempted"

    @property
    def cost(self) -> Resources:
        """Reserved amounts while the run is live, then the actual amounts, if known."""
        if self.status == RunStatus.ABORTED:
            return Resources()
        actual = {} if self.actual is None else self.actual.model_dump(exclude_none=True)
        return self.reservation.model_copy(update=actual)


class EvidenceState(Record):
    """Evidence record according to the ledger."""

    kind: str
    hash: Sha
    run: str | None = None
    candidate: str | None = None
    seq: int


class Incumbent(DocumentPart):
    """Accepted candidate under one protocol."""

    candidate: str
    protocol_hash: Sha | None = None
    iqm: float | None = None
    ci: tuple[float, float] | None = None
    n: int | None = None


class CheckPlan(DocumentPart):
    """Fresh seeds for checking an incumbent's gain over its predecessor."""

    control: str | None = None
    seeds: tuple[int, ...] = ()


class DecisionState(DocumentPart):
    """Decision according to the ledger."""

    candidate: str
    verdict: str
    to: CandidateStatus | None = None
    phase: StudyPhase | None = None
    audit: str | None = None
    audit_verdict: str | None = None
    incumbent: Incumbent | None = None
    why: str = ""
    actor: str
    at: str


class FiredStop(DocumentPart):
    """Stop rule that fired and has not been lifted."""

    rule: str
    why: str = ""
    at: str


@dataclass
class StudyState:
    """State derived from the ledger. Only `apply` modifies it."""

    study: str
    ledger_head: JournalHead
    updated_at: str | None = None
    study_status: StudyStatus = "open"
    opened_seq: int = 0
    """entry that reopened the study, before which failures are not counted"""
    contract_version: int | None = None
    contract_hash: Sha | None = None
    protocol_hash: Sha | None = None
    budget_limits: StudyBudget = field(default_factory=StudyBudget)
    automation: Automation = field(default_factory=Automation)
    stop_rules: tuple[StopRule, ...] = ()
    required_approvals: tuple[ApprovalKey, ...] = ()
    baseline: str | None = None
    noise_floor: float | None = None
    incumbents: dict[str, Incumbent] = field(default_factory=dict[str, Incumbent])
    """incumbent by protocol hash"""
    candidates: dict[str, CandidateState] = field(default_factory=dict[str, CandidateState])
    runs: dict[str, RunState] = field(default_factory=dict[str, RunState])
    evidence: dict[str, EvidenceState] = field(default_factory=dict[str, EvidenceState])
    decisions: dict[str, DecisionState] = field(default_factory=dict[str, DecisionState])
    approvals: dict[str, Approval] = field(default_factory=dict[str, Approval])
    """approval by key, or by key:candidate"""
    fired_stops: tuple[FiredStop, ...] = ()
    checks: dict[str, CheckPlan] = field(default_factory=dict[str, CheckPlan])
    """check of the gain by incumbent"""

    @property
    def incumbent(self) -> Incumbent | None:
        """The incumbent under the current protocol."""
        return self.incumbents.get(self.protocol_hash or "")

    @cached_property
    def active_runs(self) -> tuple[str, ...]:
        """Names of runs that are starting or running."""
        return tuple(name for name, run in self.runs.items() if run.is_live)

    @cached_property
    def _runs_by_candidate(self) -> dict[str, dict[str, RunState]]:
        found: dict[str, dict[str, RunState]] = {}
        for name, run in self.runs.items():
            found.setdefault(run.candidate, {})[name] = run
        return found

    def runs_of(self, candidate: str, phase: StudyPhase | None = None) -> dict[str, RunState]:
        """Return the runs of a candidate in one phase, or in all phases by default."""
        runs = self._runs_by_candidate.get(candidate, {})
        return {name: run for name, run in runs.items() if phase in (None, run.phase)}

    @property
    def counts(self) -> dict[str, int]:
        """Number of candidates by status."""
        counts = Counter(each.status for each in self.candidates.values())
        return {status.value: counts[status] for status in CandidateStatus}

    @property
    def pending_approvals(self) -> tuple[str, ...]:
        """Required approvals that have not been granted."""
        given = {key for key, each in self.approvals.items() if each.status == "approved"}
        return tuple(key for key in self.required_approvals if key not in given)

    @cached_property
    def budget(self) -> BudgetState:
        """Amounts spent, reserved and left."""
        runs = self.runs.values()
        spent = total_amounts(*(run.cost for run in runs if not run.is_live))
        reserved = total_amounts(*(run.cost for run in runs if run.is_live))
        left = left_of(self.budget_limits, total_amounts(spent, reserved))
        return BudgetState(spent=spent, reserved=reserved, left=left)

    def used(self, *, candidate: str | None = None, phase: StudyPhase | None = None) -> Resources:
        """Return the amounts spent and reserved for the runs of a candidate or of a phase."""
        runs = self.runs_of(candidate) if candidate else self.runs
        return total_amounts(*(run.cost for run in runs.values() if phase in (None, run.phase)))

    def previous_incumbent(self, candidate: str, to: str | None = None) -> Incumbent | None:
        """Return the latest earlier incumbent that this protocol still accepts, or `to`."""
        trusted = [
            each.incumbent
            for each in self.decisions.values()
            if each.incumbent is not None
            and each.incumbent.candidate != candidate
            and each.incumbent.protocol_hash in (None, self.protocol_hash)
            and to in (None, each.incumbent.candidate)
            and self.candidates[each.incumbent.candidate].status == CandidateStatus.ACCEPTED
        ]
        return trusted[-1] if trusted else None

    def as_data(self) -> dict[str, Any]:
        """Return the state as plain JSON values."""
        derived = ("incumbent", "counts", "budget", "active_runs", "pending_approvals")
        names = (*(each.name for each in fields(self)), *derived)
        return {name: plain(getattr(self, name)) for name in names}

    def snapshot(self) -> StudyState:
        """Return a copy of the state that later entries do not affect."""
        tables = {x.name: getattr(self, x.name) for x in fields(self)}
        return replace(self, **{k: copy(v) for k, v in tables.items() if isinstance(v, dict)})


# ---------------------------------------------------------------------------- the fold


def apply(state: StudyState, entry: JournalEntry) -> None:
    """Apply the next ledger entry to the state."""
    fold = _APPLY.get(entry.kind) or _APPLY.get(entry.kind.partition(".")[0])
    if fold is not None:
        fold(state, entry, entry.data)
    state.ledger_head, state.updated_at = entry.head, entry.at


def _known(kind: type[BaseModel], data: dict[str, Any]) -> dict[str, Any]:
    """Return those values of an entry that are fields of the record class `kind`."""
    return {key: data[key] for key in kind.model_fields if data.get(key) is not None}


def _status(state: StudyState, entry: JournalEntry, data: dict[str, Any]) -> None:
    state.study_status = data["status"]
    if data["status"] == "open":
        state.fired_stops, state.opened_seq = (), entry.seq


def _contract(state: StudyState, entry: JournalEntry, data: dict[str, Any]) -> None:
    state.contract_version, state.contract_hash = data["version"], data["hash"]
    state.protocol_hash = data.get("protocol_hash")
    state.required_approvals = tuple(data.get("required", ()))
    state.budget_limits = StudyBudget.model_validate(data.get("budget", {}))
    state.automation = Automation.model_validate(data.get("automation", {}))
    state.stop_rules = tuple(StopRule.model_validate(x) for x in data.get("stop_rules", ()))


def _approval(state: StudyState, entry: JournalEntry, data: dict[str, Any]) -> None:
    key, candidate = data["key"], data.get("candidate")
    own = {
        "status": _APPROVAL[entry.kind.partition(".")[2]],
        "note": data.get("note") or data.get("why", ""),
    }
    by = {"by": actor_of(entry).label, "at": entry.at}
    approval = Approval.model_validate({**by, **_known(Approval, data), **own})
    state.approvals[f"{key}:{candidate}" if candidate else key] = approval


def _candidate(state: StudyState, entry: JournalEntry, data: dict[str, Any]) -> None:
    if entry.kind == "candidate.created":
        state.candidates[str(entry.subject)] = CandidateState(
            kind=data.get("kind", "config"),
            author=actor_of(entry).label,
            parents=tuple(data.get("parents", ())),
            since_seq=entry.seq,
        )
    _move(state, str(entry.subject), entry)


def _move(state: StudyState, name: str, entry: JournalEntry) -> None:
    """Update a candidate's status, phase and hashes from an entry."""
    held, data = state.candidates.get(name), entry.data
    if held is None:
        return
    changes = {key: data[key] for key in (*_HASHES, "phase") if data.get(key) is not None}
    if data.get("to") is not None:
        changes |= {"status": CandidateStatus(data["to"]), "since_seq": entry.seq}
        changes["reason"] = data.get("reason", "")
    if entry.kind in ("candidate.created", "candidate.revised"):
        changes["revision"] = data.get("revision", held.revision)
    if entry.kind == "candidate.revised":
        changes["added_seeds"] = {}
        changes["debug_attempts"] = held.debug_attempts + (held.status == CandidateStatus.DEBUG)
    if entry.kind == "candidate.advanced" and data.get("seeds"):
        phase: StudyPhase = data.get("phase") or held.phase or "smoke"
        seeds = (*held.added_seeds.get(phase, ()), *data["seeds"])
        changes["added_seeds"] = {**held.added_seeds, phase: seeds}
    state.candidates[name] = held.model_copy(update=changes)


def _intent(state: StudyState, entry: JournalEntry, data: dict[str, Any]) -> None:
    held = state.candidates.get(data["candidate"])
    own = {
        "status": RunStatus.STARTING,
        "revision": 1 if held is None else held.revision,
        "is_sealed": bool(data.get("sealed")),
        "is_clean": data.get("gates", {}).get("G18"),
        "reservation": {"launches": 1, **data.get("reservation", {})},
        "intent_at": entry.at,
    }
    state.runs[data["run"]] = RunState.model_validate({**_known(RunState, data), **own})


def _run(state: StudyState, entry: JournalEntry, data: dict[str, Any]) -> None:
    """Apply the start or end of a run to the state. A second end is ignored."""
    name, what = str(data.get("run") or entry.subject), entry.kind.partition(".")[2]
    run, changes = state.runs.get(name), dict[str, Any]()
    if what == "started":
        changes = {"started_at": entry.at, "identity": dict(data.get("identity", {}))}
        changes["status"] = RunStatus.RUNNING
        _move(state, str(data.get("candidate") or entry.subject), entry)
    elif what == "aborted":
        why = data.get("reason", "")
        changes = {"status": RunStatus.ABORTED, "ended_at": entry.at, "why": why}
    elif what in ("finished", "failed", "killed", "lost") and run is not None and run.is_live:
        changes = {"artifacts": artifacts_hash(data), "code_hash": data.get("code_hash")}
        changes |= {"status": RunStatus(what), "ended_at": entry.at, "why": data.get("why", "")}
        actual = Resources.model_validate(data.get("actual") or {})
        changes |= {"actual": actual, "killed_by": data.get("by")}
    if run is not None and changes:
        state.runs[name] = run.model_copy(update=changes)


def _evidence(state: StudyState, entry: JournalEntry, data: dict[str, Any]) -> None:
    known = {**_known(EvidenceState, data), "seq": entry.seq}
    state.evidence[data["id"]] = EvidenceState.model_validate(known)


def _decision(state: StudyState, entry: JournalEntry, data: dict[str, Any]) -> None:
    name = str(entry.subject)
    held = state.candidates.get(name)
    own = {"candidate": name, "actor": actor_of(entry).label, "at": entry.at}
    own |= {"why": data.get("reason", ""), "phase": data.get("phase") or (held and held.phase)}
    decision = DecisionState.model_validate({"verdict": "", **_known(DecisionState, data), **own})
    state.decisions[data.get("decision") or f"seq-{entry.seq}"] = decision
    _move(state, name, entry)
    if (incumbent := decision.incumbent) is not None:
        state.incumbents[incumbent.protocol_hash or state.protocol_hash or ""] = incumbent
    elif data.get("trusts_nobody") and state.incumbent and state.incumbent.candidate == name:
        del state.incumbents[state.protocol_hash or ""]
    if data.get("noise_floor") is not None:
        state.noise_floor = data["noise_floor"]
    if data.get("to") == "accepted" and held is not None and held.kind == "baseline":
        state.baseline = name


def _incumbent(state: StudyState, entry: JournalEntry, data: dict[str, Any]) -> None:
    before = state.checks.get(data["candidate"], CheckPlan())
    plan = CheckPlan(control=data.get("control"), seeds=(*before.seeds, *data["seeds"]))
    state.checks[data["candidate"]] = plan


def _stop(state: StudyState, entry: JournalEntry, data: dict[str, Any]) -> None:
    kept = [each for each in state.fired_stops if each.rule != data["rule"]]
    if data.get("stands", True):
        kept.append(FiredStop(rule=data["rule"], why=data.get("why", ""), at=entry.at))
    state.fired_stops = tuple(kept)


_APPLY: dict[str, Callable[[StudyState, JournalEntry, dict[str, Any]], None]] = {
    "study.status": _status,
    "contract.amended": _contract,
    "approval": _approval,
    "candidate": _candidate,
    "launch.intent": _intent,
    "launch": _run,
    "run": _run,
    "evidence": _evidence,
    "decision.recorded": _decision,
    "incumbent.check": _incumbent,
    "stop": _stop,
}
"""handler by entry kind or its first word. Refusals, proposals and notes have none."""


_SLACK = 1e-9
_NOTHING = Resources()


class BudgetState(DocumentPart):
    """Amounts spent, reserved for live runs, and remaining (None if unlimited)."""

    spent: Resources = Resources()
    reserved: Resources = Resources()
    left: Resources = Resources()


def total_amounts(*amounts: Resources) -> Resources:
    """Sum amounts. A resource that is None in all amounts remains None."""
    totals: dict[str, float] = {}
    for each in amounts:
        for name in RESOURCES:
            if (value := getattr(each, name)) is not None:
                totals[name] = totals.get(name, 0) + value
    return Resources(**totals)


def left_of(limits: Resources, used: Resources, own: Resources = _NOTHING) -> Resources:
    """Return how much of each limited resource is left (at least 0), ignoring the cost `own`."""
    return Resources(
        **{
            name: max(0.0, limit - max(0.0, (getattr(used, name) or 0) - (getattr(own, name) or 0)))
            for name in RESOURCES
            if (limit := getattr(limits, name)) is not None
        }
    )


def exceeding(wanted: Resources, left: Resources) -> list[tuple[str, float, float]]:
    """Return (name, required, left) for each resource with an insufficient remaining amount."""
    amounts = [(name, getattr(wanted, name), getattr(left, name)) for name in RESOURCES]
    return [x for x in amounts if x[1] is not None and x[2] is not None and x[1] > x[2] + _SLACK]


def shortfalls(state: StudyState, wanted: Resources, candidate: str) -> list[str]:
    """Return one sentence per budget that a reservation would exceed."""
    limits = state.budget_limits
    own = left_of(limits.per_candidate, state.used(candidate=candidate))
    left = {"the study": state.budget.left, candidate: own}
    return [
        f"{name}: {need:g} requested, but {rest:g} left for {whose}."
        for whose, amounts in left.items()
        for name, need, rest in exceeding(wanted, amounts)
    ]
