"""What the ledger comes to: a pure replay of its events into the state of the study.

Which data the replay reads, by event type (everything else in `data` is kept but not looked at):

    study.created       kind
    study.status        status, reason
    contract.amended    version, hash, protocol_hash, required, budget, automation, stop_rules
    approval.*          key, subject_hash, candidate, by, at, method, note, sig; voided: why
    candidate.*         to (the status it moves to), kind, parents, revision, content_hash,
                        contract_hash, protocol_hash, adapter_hash, phase; created: author is actor
    launch.intent       run, candidate, phase, seed, nonce, kind, reservation, gpu, retry_of
    launch.started      run; identity (pid, start time, boot id or job id); to, via the lifecycle
    launch.aborted      run, reason
    run.*               subject or run; actual (amounts), by and why when killed
    evidence.added      id, kind, hash, run, candidate
    decision.recorded   decision, verdict, to, audit, audit_verdict, incumbent, noise_floor
    incumbent.changed   to, protocol_hash, iqm, ci, n
    work_order.submitted  usd, tokens
    stop.fired          rule, why; stands: until the study is opened again
"""

from __future__ import annotations

from typing import Any

from pydantic import Field

from telic.core.config import Record
from telic.studies.budget import BudgetState
from telic.studies.canonical import NO_HASH
from telic.studies.chain import LedgerHead
from telic.studies.documents.base import Document, DocumentPart, Sha
from telic.studies.documents.candidate import LIVE_RUNS, CandidateStatus, RunStatus
from telic.studies.documents.contract import (
    Amounts,
    Approval,
    ApprovalKey,
    Automation,
    CandidateKind,
    Phase,
    StopRule,
    StudyBudget,
)
from telic.studies.folder import StudyStatus
from telic.studies.table import RecordTable

IMPORTED = "study.imported"
"""the event by which a study takes over work that was done elsewhere"""
TOLD = 500
"""runs, and pieces of evidence, that are written down for readers"""
EMPTY = LedgerHead(seq=0, hash=NO_HASH)


class CandidateState(DocumentPart):
    """A candidate as the ledger knows it."""

    status: CandidateStatus = CandidateStatus.DRAFT
    kind: CandidateKind = "config"
    author: str
    """label of the actor who made it"""
    parents: tuple[str, ...] = ()
    revision: int = 1
    phase: Phase | None = None
    content_hash: Sha | None = None
    contract_hash: Sha | None = None
    protocol_hash: Sha | None = None
    adapter_hash: Sha | None = None
    debug_attempts: int = 0
    """revisions made out of debug"""
    since_seq: int
    """event that gave it its status"""
    reason: str = ""


class RunState(Record):
    """A run as the ledger knows it."""

    status: RunStatus
    candidate: str
    phase: Phase
    seed: int
    kind: str = "train"
    nonce: str | None = None
    gpu: int | None = None
    retry_of: str | None = None
    reservation: Amounts
    actual: Amounts | None = None
    identity: dict[str, Any] = Field(default={})
    """what proves which process or job it is"""
    killed_by: str | None = None
    why: str = ""
    is_sealed: bool = False
    """its supervisor was given a key to seal the record of its end with"""
    artefacts: Sha | None = None
    """of the list of files that it left; None until it ended, and in earlier versions"""
    intent_at: str
    started_at: str | None = None
    ended_at: str | None = None

    @property
    def is_live(self) -> bool:
        """Starting or running."""
        return self.status in LIVE_RUNS

    @property
    def may_be_retried(self) -> bool:
        """Its end says nothing about the candidate."""
        return self.status == RunStatus.LOST or self.killed_by == "preempted"


class EvidenceState(Record):
    """A piece of evidence as the ledger knows it."""

    kind: str
    hash: Sha
    run: str | None = None
    candidate: str | None = None
    seq: int


class Incumbent(DocumentPart):
    """The candidate that a study trusts under one protocol."""

    candidate: str
    protocol_hash: Sha | None = None
    iqm: float | None = None
    ci: tuple[float, float] | None = None
    n: int | None = None


class DecisionState(DocumentPart):
    """A decision as the ledger knows it."""

    candidate: str
    verdict: str
    to: CandidateStatus | None = None
    phase: Phase | None = None
    audit: str | None = None
    audit_verdict: str | None = None
    incumbent: Incumbent | None = None
    actor: str
    at: str


class FiredStop(DocumentPart):
    """A stop rule that fired and was not lifted since."""

    rule: str
    why: str = ""
    at: str


class WorkSource(DocumentPart):
    """The session, search or the like that a study tells of."""

    kind: str
    name: str
    path: str
    continues_with: str
    """what is typed to have its next runs made"""


class StudyState(Document):
    """state.json: enough for a fresh reader to go on, without any chat."""

    schema_id: str = Field(default="telic.state/1", alias="schema")
    study: str
    ledger_head: LedgerHead = EMPTY
    next_action: dict[str, Any] | None = None
    """stands first, so that nobody reads the rest for it"""
    updated_at: str | None = None
    study_status: StudyStatus = "open"
    opened_seq: int = 0
    """event by which a person opened it again; failures before it count no more"""
    study_kind: str | None = None
    contract_version: int | None = None
    contract_hash: Sha | None = None
    protocol_hash: Sha | None = None
    budget_limits: StudyBudget = StudyBudget()
    automation: Automation = Automation()
    stop_rules: tuple[StopRule, ...] = ()
    incumbent: Incumbent | None = None
    incumbents: dict[str, Incumbent] = Field(default={})
    """by protocol hash"""
    baseline: str | None = None
    noise_floor: float | None = None
    counts: dict[str, int] = Field(default={})
    budget: BudgetState = BudgetState()
    spent_by_candidate: dict[str, Amounts] = Field(default={})
    """spent and reserved, for the limits per candidate"""
    spent_by_phase: dict[str, Amounts] = Field(default={})
    queue_ref: str = "queue.json"
    candidates: dict[str, CandidateState] = Field(default={})
    runs: RecordTable[RunState] = Field(default_factory=lambda: RecordTable(RunState))
    active_runs: tuple[str, ...] = ()
    evidence: RecordTable[EvidenceState] = Field(default_factory=lambda: RecordTable(EvidenceState))
    decisions: dict[str, DecisionState] = Field(default={})
    approvals: dict[str, Approval] = Field(default={})
    """by key, or key:candidate"""
    required_approvals: tuple[ApprovalKey, ...] = ()
    pending_approvals: tuple[str, ...] = ()
    fired_stops: tuple[FiredStop, ...] = ()
    left_out: dict[str, int] = Field(default={})
    """how many runs and pieces of evidence are told by the ledger alone"""

    def told(self) -> StudyState:
        """Return what is written down for readers: of runs and evidence the newest, and all live.

        A file of everything is tens of megabytes in a long study, and written with each line.
        """
        runs, evidence = self.runs.newest(TOLD, self.active_runs), self.evidence.newest(TOLD)
        left_out = {
            "runs": len(self.runs) - len(runs),
            "evidence": len(self.evidence) - len(evidence),
        }
        told = {"runs": runs, "evidence": evidence, "left_out": left_out}
        return self.model_copy(update=told) if any(left_out.values()) else self

    def runs_of(self, candidate: str, phase: Phase | None = None) -> dict[str, RunState]:
        """Return the runs of a candidate, in one phase or in all."""
        within = {} if phase is None else {"phase": phase}
        return {name: self.runs[name] for name in self.runs.where(candidate=candidate, **within)}
