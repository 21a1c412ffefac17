"""The state of a study: a pure replay of the entries of its ledger.

Data that the replay reads, by kind of entry (everything else in `data` is kept for people):

    study.created       kind
    study.status        status, reason
    contract.amended    version, hash, protocol_hash, required, budget, automation, stop_rules
    approval.*          key, subject_hash, candidate, by, at, method, note, sig; voided: why
    candidate.*         to (the new status), kind, parents, revision, content_hash, contract_hash,
                        protocol_hash, adapter_hash, phase; created: the actor is the author;
                        advanced: seeds that are added to the phase
    launch.intent       run, candidate, phase, seed, nonce, kind, reservation, gpu, retry_of
    launch.started      run; identity (pid, start time, boot id or job id); to
    launch.aborted      run, reason
    run.*               run; actual (amounts), by and why when killed
    evidence.added      id, kind, hash, run, candidate
    decision.recorded   decision, verdict, to, audit, audit_verdict, incumbent, noise_floor
    incumbent.changed   to, protocol_hash, iqm, ci, n
    incumbent.check     candidate, control, seeds
    work_order.submitted  usd, tokens
    stop.fired          rule, why; stands: until the study is opened again
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from pydantic import Field

from telic.core.config import Record
from telic.storage.journal import JournalEntry, JournalHead
from telic.studies.budget import Account, BudgetState
from telic.studies.documents.base import DocumentPart, Sha, actor_of
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

_ENTRIES = {
    "study": "created status",
    "contract": "amended",
    "approval": "granted rejected voided",
    "candidate": "created revised validated demoted advanced completed debug withdrawn",
    "gate": "evaluated",
    "launch": "refused intent started aborted",
    "run": "finished failed killed lost adopted retried",
    "evidence": "added",
    "monitor": "alert",
    "decision": "proposed recorded",
    "incumbent": "changed check",
    "work_order": "issued submitted rejected accepted",
    "stop": "fired",
    "note": "added",
}
ENTRY_KINDS = frozenset(f"{group}.{name}" for group, ns in _ENTRIES.items() for name in ns.split())
_ENDS = ("finished", "failed", "killed", "lost")
_HASHES = ("content_hash", "contract_hash", "protocol_hash", "adapter_hash")
_APPROVAL = {"granted": "approved", "rejected": "rejected", "voided": "void"}


class CandidateState(DocumentPart):
    """A candidate as the ledger knows it."""

    status: CandidateStatus = CandidateStatus.DRAFT
    kind: CandidateKind = "config"
    author: str
    """label of the actor who created it"""
    parents: tuple[str, ...] = ()
    revision: int = 1
    phase: Phase | None = None
    content_hash: Sha | None = None
    contract_hash: Sha | None = None
    protocol_hash: Sha | None = None
    adapter_hash: Sha | None = None
    debug_attempts: int = 0
    """revisions made in debug"""
    added_seeds: dict[Phase, tuple[int, ...]] = Field(default={})
    """besides those of its plan"""
    since_seq: int
    """entry that gave it its status"""
    reason: str = ""


class RunState(Record):
    """A run as the ledger knows it."""

    status: RunStatus
    candidate: str
    revision: int = 1
    """of the candidate when the run was launched"""
    phase: Phase
    seed: int
    kind: str = "train"
    nonce: str | None = None
    gpu: int | None = None
    retry_of: str | None = None
    reservation: Amounts
    actual: Amounts | None = None
    identity: dict[str, Any] = Field(default={})
    """identifies the process or job"""
    killed_by: str | None = None
    why: str = ""
    is_sealed: bool = False
    """its supervisor was given a key to sign the record of its end with"""
    artefacts: Sha | None = None
    """hash of the list of files that it left; None until it ended"""
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


class CheckPlan(DocumentPart):
    """Fresh seeds on which the gain of an incumbent is checked against the one before it."""

    control: str | None = None
    seeds: tuple[int, ...] = ()


class DecisionState(DocumentPart):
    """A decision as the ledger knows it."""

    candidate: str
    verdict: str
    to: CandidateStatus | None = None
    phase: Phase | None = None
    audit: str | None = None
    audit_verdict: str | None = None
    incumbent: Incumbent | None = None
    why: str = ""
    actor: str
    at: str


class FiredStop(DocumentPart):
    """A stop rule that fired and was not lifted since."""

    rule: str
    why: str = ""
    at: str


class StudyState(DocumentPart):
    """Everything that the ledger comes to."""

    study: str
    ledger_head: JournalHead = JournalHead(seq=0, hash="")
    updated_at: str | None = None
    study_status: StudyStatus = "open"
    opened_seq: int = 0
    """entry by which a person reopened it; failures before it no longer count"""
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
    """spent and reserved"""
    spent_by_phase: dict[str, Amounts] = Field(default={})
    candidates: dict[str, CandidateState] = Field(default={})
    runs: dict[str, RunState] = Field(default={})
    active_runs: tuple[str, ...] = ()
    evidence: dict[str, EvidenceState] = Field(default={})
    decisions: dict[str, DecisionState] = Field(default={})
    approvals: dict[str, Approval] = Field(default={})
    """by key, or key:candidate"""
    required_approvals: tuple[ApprovalKey, ...] = ()
    pending_approvals: tuple[str, ...] = ()
    fired_stops: tuple[FiredStop, ...] = ()
    checks: dict[str, CheckPlan] = Field(default={})
    """by incumbent"""

    def runs_of(self, candidate: str, phase: Phase | None = None) -> dict[str, RunState]:
        """Return the runs of a candidate, in one phase or in all."""
        return {
            name: run
            for name, run in self.runs.items()
            if run.candidate == candidate and phase in (None, run.phase)
        }

    def previous_incumbent(self, candidate: str, to: str | None = None) -> Incumbent | None:
        """Return whom the study trusted besides a candidate under this protocol: the last, or `to`.

        Only accepted candidates are trusted again.
        """
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

    def summary(self) -> dict[str, Any]:
        """Return state.json: enough for an agent to continue, without the long tables."""
        return self.model_dump(mode="json", exclude={"runs", "evidence"})


class LedgerReplay:
    """Builds the state of a study entry by entry."""

    def __init__(self, study: str, start: JournalHead) -> None:
        self.head = start
        self._fields: dict[str, Any] = {"study": study}
        self._account = Account()
        self._candidates: dict[str, CandidateState] = {}
        self._runs: dict[str, RunState] = {}
        self._sheets: dict[str, EvidenceState] = {}
        self._decisions: dict[str, DecisionState] = {}
        self._approvals: dict[str, Approval] = {}
        self._incumbents: dict[str, Incumbent] = {}
        self._checks: dict[str, CheckPlan] = {}
        self._fired: list[FiredStop] = []
        self._known: StudyState | None = None

    def apply(self, entry: JournalEntry) -> None:
        """Take in the next entry."""
        group, _, name = entry.kind.partition(".")
        handler = getattr(self, f"_{group}", None)
        if handler is not None:
            handler(name, entry)
        self.head, self._known = entry.head, None
        self._fields["updated_at"] = entry.at

    def state(self) -> StudyState:
        """Return what all entries so far come to."""
        if self._known is None:
            self._known = self._build()
        return self._known

    def _build(self) -> StudyState:
        counts = Counter(each.status.value for each in self._candidates.values())
        by_candidate, by_phase = self._account.totals()
        required: tuple[str, ...] = self._fields.get("required_approvals", ())
        given = self._approvals
        return StudyState.model_construct(
            **self._fields,
            ledger_head=self.head,
            incumbents=dict(self._incumbents),
            incumbent=self._incumbents.get(self._fields.get("protocol_hash") or ""),
            counts={status.value: counts[status.value] for status in CandidateStatus},
            budget=self._account.summary(),
            spent_by_candidate=by_candidate,
            spent_by_phase=by_phase,
            candidates=dict(self._candidates),
            runs=dict(self._runs),
            active_runs=tuple(name for name, run in self._runs.items() if run.is_live),
            evidence=dict(self._sheets),
            decisions=dict(self._decisions),
            approvals=dict(given),
            pending_approvals=tuple(
                key for key in required if key not in given or given[key].status != "approved"
            ),
            fired_stops=tuple(self._fired),
            checks=dict(self._checks),
        )

    # ------------------------------------------------------------------ one method per group

    def _study(self, name: str, entry: JournalEntry) -> None:
        if name == "created":
            self._fields["study_kind"] = entry.data.get("kind")
        else:
            self._fields["study_status"] = entry.data["status"]
            if entry.data["status"] == "open":
                self._fired.clear()
                self._fields["opened_seq"] = entry.seq

    def _contract(self, name: str, entry: JournalEntry) -> None:
        data = entry.data
        limits = StudyBudget.model_validate(data.get("budget", {}))
        self._account.limits = limits
        self._fields |= {
            "contract_version": data["version"],
            "contract_hash": data["hash"],
            "protocol_hash": data.get("protocol_hash"),
            "required_approvals": tuple(data.get("required", ())),
            "budget_limits": limits,
            "automation": Automation.model_validate(data.get("automation", {})),
            "stop_rules": tuple(StopRule.model_validate(x) for x in data.get("stop_rules", ())),
        }

    def _approval(self, name: str, entry: JournalEntry) -> None:
        data = entry.data
        key, candidate = data["key"], data.get("candidate")
        self._approvals[f"{key}:{candidate}" if candidate else key] = Approval(
            key=key,
            # pyrefly: ignore[bad-argument-type]
            status=_APPROVAL[name],
            by=data.get("by", actor_of(entry).label),
            at=data.get("at", entry.at),
            method=data.get("method"),
            subject_hash=data.get("subject_hash"),
            candidate=candidate,
            note=data.get("note") or data.get("why", ""),
            sig=data.get("sig"),
        )

    def _candidate(self, name: str, entry: JournalEntry) -> None:
        subject, data = str(entry.subject), entry.data
        if name == "created":
            self._candidates[subject] = CandidateState(
                kind=data.get("kind", "config"),
                author=actor_of(entry).label,
                parents=tuple(data.get("parents", ())),
                since_seq=entry.seq,
            )
        self._move(subject, entry)

    def _move(self, candidate: str, entry: JournalEntry) -> None:
        """Give a candidate the status, phase and hashes that an entry names."""
        held, data = self._candidates.get(candidate), entry.data
        if held is None:
            return
        names = (*_HASHES, "phase")
        if entry.kind in ("candidate.created", "candidate.revised"):
            names = (*names, "revision")
        changes: dict[str, Any] = {key: data[key] for key in names if data.get(key) is not None}
        if data.get("to") is not None:
            changes["status"] = CandidateStatus(data["to"])
            changes["since_seq"] = entry.seq
            changes["reason"] = data.get("reason", "")
        if entry.kind == "candidate.revised":
            changes["added_seeds"] = {}
            changes["debug_attempts"] = held.debug_attempts + (held.status == CandidateStatus.DEBUG)
        if entry.kind == "candidate.advanced" and data.get("seeds"):
            phase: Phase = data.get("phase") or held.phase or "smoke"
            before = held.added_seeds.get(phase, ())
            changes["added_seeds"] = {**held.added_seeds, phase: (*before, *data["seeds"])}
        self._candidates[candidate] = held.model_copy(update=changes)

    def _launch(self, name: str, entry: JournalEntry) -> None:
        data = entry.data
        if name == "intent":
            self._intend(entry)
        elif name == "started":
            identity = dict(data.get("identity", {}))
            running = RunStatus.RUNNING
            self._update_run(data["run"], status=running, started_at=entry.at, identity=identity)
            self._move(str(data.get("candidate") or entry.subject), entry)
        elif name == "aborted":
            why = data.get("reason", "")
            self._update_run(data["run"], status=RunStatus.ABORTED, ended_at=entry.at, why=why)
            self._account.held.pop(data["run"], None)

    def _intend(self, entry: JournalEntry) -> None:
        data = entry.data
        held = self._candidates.get(data["candidate"])
        run = RunState(
            status=RunStatus.STARTING,
            candidate=data["candidate"],
            revision=1 if held is None else held.revision,
            phase=data["phase"],
            seed=data["seed"],
            kind=data.get("kind", "train"),
            nonce=data.get("nonce"),
            gpu=data.get("gpu"),
            retry_of=data.get("retry_of"),
            is_sealed=bool(data.get("sealed")),
            reservation=Amounts.model_validate({"launches": 1, **data.get("reservation", {})}),
            intent_at=entry.at,
        )
        self._runs[data["run"]] = self._account.held[data["run"]] = run

    def _run(self, name: str, entry: JournalEntry) -> None:
        run = str(entry.data.get("run") or entry.subject)
        if name == "adopted":
            self._update_run(run, status=RunStatus.RUNNING)
        if name not in _ENDS or run not in self._runs:
            return
        actual = Amounts.model_validate(entry.data.get("actual") or {})
        self._update_run(
            run,
            status=RunStatus(name),
            ended_at=entry.at,
            actual=actual,
            killed_by=entry.data.get("by"),
            why=entry.data.get("why", ""),
            artefacts=entry.data.get("artefacts"),
        )
        self._account.settle(run, actual)

    def _update_run(self, run: str, **changes: Any) -> None:
        if run in self._runs:
            self._runs[run] = self._runs[run].model_copy(update=changes)

    def _evidence(self, name: str, entry: JournalEntry) -> None:
        data = entry.data
        self._sheets[data["id"]] = EvidenceState(
            kind=data["kind"],
            hash=data["hash"],
            run=data.get("run"),
            candidate=data.get("candidate"),
            seq=entry.seq,
        )

    def _decision(self, name: str, entry: JournalEntry) -> None:
        if name != "recorded":
            return
        data, candidate = entry.data, str(entry.subject)
        held = self._candidates.get(candidate)
        trusted = data.get("incumbent")
        incumbent = None if trusted is None else Incumbent.model_validate(trusted)
        self._decisions[data.get("decision") or f"seq-{entry.seq}"] = DecisionState(
            candidate=candidate,
            verdict=data.get("verdict", ""),
            to=data.get("to"),
            phase=data.get("phase") or (None if held is None else held.phase),
            audit=data.get("audit"),
            audit_verdict=data.get("audit_verdict"),
            incumbent=incumbent,
            why=data.get("reason", ""),
            actor=actor_of(entry).label,
            at=entry.at,
        )
        self._move(candidate, entry)
        if incumbent is not None:
            self._trust(incumbent)
        if data.get("noise_floor") is not None:
            self._fields["noise_floor"] = data["noise_floor"]
        if data.get("to") == "accepted" and held is not None and held.kind == "baseline":
            self._fields["baseline"] = candidate

    def _incumbent(self, name: str, entry: JournalEntry) -> None:
        data = entry.data
        if name == "check":
            before = self._checks.get(data["candidate"], CheckPlan())
            seeds = (*before.seeds, *data["seeds"])
            self._checks[data["candidate"]] = CheckPlan(control=data.get("control"), seeds=seeds)
            return
        if data.get("to") is None:
            protocol = data.get("protocol_hash") or self._fields.get("protocol_hash") or ""
            self._incumbents.pop(protocol, None)
            return
        kept = {key: data.get(key) for key in ("protocol_hash", "iqm", "ci", "n")}
        self._trust(Incumbent.model_validate({"candidate": data["to"], **kept}))

    def _trust(self, incumbent: Incumbent) -> None:
        protocol = incumbent.protocol_hash or self._fields.get("protocol_hash") or ""
        self._incumbents[protocol] = incumbent

    def _work_order(self, name: str, entry: JournalEntry) -> None:
        if name == "submitted":
            self._account.pay_call(entry.data.get("usd"), entry.data.get("tokens"))

    def _stop(self, name: str, entry: JournalEntry) -> None:
        rule, why = entry.data["rule"], entry.data.get("why", "")
        self._fired = [each for each in self._fired if each.rule != rule]
        if entry.data.get("stands", True):
            self._fired.append(FiredStop(rule=rule, why=why, at=entry.at))
