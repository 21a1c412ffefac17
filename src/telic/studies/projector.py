"""Apply ledger events one by one: the replay that everything else follows from."""

from __future__ import annotations

from collections import Counter
from typing import Any

from pydantic import BaseModel, Field

from telic.studies.budget import Account
from telic.studies.chain import LedgerEvent, LedgerHead
from telic.studies.documents.base import Sha
from telic.studies.documents.candidate import (
    LIVE_RUNS,
    CandidateStatus,
    Job,
    QueuePolicy,
    RunStatus,
)
from telic.studies.documents.contract import (
    Amounts,
    Approval,
    ApprovalKey,
    Automation,
    StopRule,
    StudyBudget,
)
from telic.studies.state import (
    EMPTY,
    CandidateState,
    DecisionState,
    EvidenceState,
    FiredStop,
    Incumbent,
    RunState,
    StudyState,
)
from telic.studies.table import RecordTable, TableBuilder

_ENDS = ("finished", "failed", "killed", "lost")


_HASHES = ("content_hash", "contract_hash", "protocol_hash", "adapter_hash")
_PLAIN_FIELDS = (
    *("study", "study_kind", "study_status", "opened_seq", "contract_version", "contract_hash"),
    *("budget_limits", "automation", "stop_rules", "noise_floor", "baseline"),
)
"""of the state: what is kept as events give it"""
_APPROVAL = {"granted": "approved", "rejected": "rejected", "voided": "void"}


class Projection(BaseModel):
    """All that a projector has learned: enough to go on from there."""

    state: StudyState
    charged_to: dict[str, Amounts]
    charged_in: dict[str, Amounts]
    holding: list[str]
    """runs for which something is reserved"""
    run_revisions: dict[str, int]
    policy: QueuePolicy = QueuePolicy()
    jobs: RecordTable[Job] = Field(default_factory=lambda: RecordTable(Job))
    """as they were planned"""
    settled: RecordTable[Job] | None = None
    """the first of them, with what had become of them at an earlier line"""
    touched: frozenset[str] = frozenset()
    """candidates that lines after it are about"""


class Projector:
    """Builds the state of a study event by event."""

    def __init__(self, study: str) -> None:
        self.head: LedgerHead = EMPTY
        self.updated_at: str | None = None
        self._known: StudyState | None = None
        self._fields: dict[str, Any] = {"study": study}
        self._candidates: dict[str, CandidateState] = {}
        self._runs = TableBuilder(RunState)
        self._account = Account()
        self._sheets = TableBuilder(EvidenceState)
        self._decisions: dict[str, DecisionState] = {}
        self._approvals: dict[str, Approval] = {}
        self._incumbents: dict[str, Incumbent] = {}
        self._required: tuple[ApprovalKey, ...] = ()
        self._protocol_hash: Sha | None = None
        self._fired: list[FiredStop] = []
        self.run_revisions: dict[str, int] = {}
        """which revision of its candidate each run was started for"""
        self._policy, self._jobs = QueuePolicy(), TableBuilder(Job)
        self._settled: RecordTable[Job] | None = None
        self._touched: set[str] = set()

    @classmethod
    def restored(cls, seen: Projection) -> Projector:
        """Return a projector that has seen what led to a projection."""
        state, made = seen.state, cls(seen.state.study)
        made.head, made.updated_at, made._known = state.ledger_head, state.updated_at, state
        made._fields = {name: getattr(state, name) for name in _PLAIN_FIELDS}
        made._candidates, made._decisions = dict(state.candidates), dict(state.decisions)
        made._runs = TableBuilder(RunState, state.runs)
        made._sheets = TableBuilder(EvidenceState, state.evidence)
        made._approvals, made._incumbents = dict(state.approvals), dict(state.incumbents)
        made._required, made._fired = state.required_approvals, list(state.fired_stops)
        made._protocol_hash = state.protocol_hash
        made.run_revisions = dict(seen.run_revisions)
        made._policy, made._jobs = seen.policy, TableBuilder(Job, seen.jobs)
        made._settled, made._touched = seen.settled, set(seen.touched)
        made._account = Account(
            limits=state.budget_limits,
            charged_to=dict(seen.charged_to),
            charged_in=dict(seen.charged_in),
            spent=state.budget.spent,
        )
        for name in seen.holding:
            run = state.runs[name]
            made._account.reserve(name, run.candidate, run.phase, run.reservation)
        return made

    def projection(self) -> Projection:
        """Return all that was learned so far; nothing is checked again that is known to fit."""
        return Projection.model_construct(
            state=self.state(),
            charged_to=dict(self._account.charged_to),
            charged_in=dict(self._account.charged_in),
            holding=list(self._account.held),
            run_revisions=dict(self.run_revisions),
            policy=self._policy,
            jobs=self._jobs.table(),
            settled=self._settled,
            touched=frozenset(self._touched),
        )

    def apply(self, event: LedgerEvent) -> None:
        """Take in the next event."""
        group, _, name = event.type.partition(".")
        handler = getattr(self, f"_{group}", None)
        if handler is not None:
            handler(name, event)
        self.head = event.head
        self._fields["study"] = event.study
        self.updated_at = event.at
        self._known = None

    def state(self) -> StudyState:
        """Return what all events so far come to."""
        if self._known is None:
            self._known = self._build()
        return self._known

    def _build(self) -> StudyState:
        counts = Counter(each.status.value for each in self._candidates.values())
        approved = {key for key, given in self._approvals.items() if given.status == "approved"}
        return StudyState(
            **self._fields,
            ledger_head=self.head,
            updated_at=self.updated_at,
            protocol_hash=self._protocol_hash,
            incumbents=dict(self._incumbents),
            incumbent=self._incumbents.get(self._protocol_hash or ""),
            counts={status.value: counts[status.value] for status in CandidateStatus},
            budget=self._account.summary(),
            spent_by_candidate=self._account.by_candidate(),
            spent_by_phase=self._account.by_phase(),
            candidates=dict(self._candidates),
            runs=(runs := self._runs.table()),
            active_runs=tuple(
                name for name, status in runs.values_of("status") if status in LIVE_RUNS
            ),
            evidence=self._sheets.table(),
            decisions=dict(self._decisions),
            approvals=dict(self._approvals),
            required_approvals=self._required,
            pending_approvals=tuple(key for key in self._required if key not in approved),
            fired_stops=tuple(self._fired),
        )

    # ------------------------------------------------------------------ one method a group

    def _study(self, name: str, event: LedgerEvent) -> None:
        if name == "created":
            self._fields["study_kind"] = event.data.get("kind")
        elif name == "status":
            self._fields["study_status"] = event.data["status"]
            if event.data["status"] == "open":
                self._fired.clear()
                self._fields["opened_seq"] = event.seq

    def _contract(self, name: str, event: LedgerEvent) -> None:
        data = event.data
        limits = StudyBudget.model_validate(data.get("budget", {}))
        self._account.limits = limits
        self._required = tuple(data.get("required", ()))
        self._protocol_hash = data.get("protocol_hash")
        self._fields |= {
            "contract_version": data["version"],
            "contract_hash": data["hash"],
            "budget_limits": limits,
            "automation": Automation.model_validate(data.get("automation", {})),
            "stop_rules": tuple(StopRule.model_validate(x) for x in data.get("stop_rules", ())),
        }

    def _approval(self, name: str, event: LedgerEvent) -> None:
        data = event.data
        key, candidate = data["key"], data.get("candidate")
        self._approvals[f"{key}:{candidate}" if candidate else key] = Approval(
            key=key,
            status=_APPROVAL[name],  # pyright: ignore[reportArgumentType]
            by=data.get("by", event.actor.label),
            at=data.get("at", event.at),
            method=data.get("method"),
            subject_hash=data.get("subject_hash"),
            candidate=candidate,
            note=data.get("note") or data.get("why", ""),
            sig=data.get("sig"),
        )

    def _candidate(self, name: str, event: LedgerEvent) -> None:
        subject, data = str(event.subject), event.data
        if name == "created":
            self._candidates[subject] = CandidateState(
                kind=data.get("kind", "config"),
                author=event.actor.label,
                parents=tuple(data.get("parents", ())),
                since_seq=event.seq,
            )
        self._move(subject, event)

    def _move(self, candidate: str, event: LedgerEvent) -> None:
        """Give a candidate the status, phase and hashes that an event names."""
        held, data = self._candidates.get(candidate), event.data
        self._touched.add(candidate)
        if held is None:
            return
        names = (*_HASHES, "phase")
        if event.type in ("candidate.created", "candidate.revised"):
            names = (*names, "revision")
        changes: dict[str, Any] = {key: data[key] for key in names if data.get(key) is not None}
        if data.get("to") is not None:
            changes["status"] = CandidateStatus(data["to"])
            changes["since_seq"] = event.seq
            changes["reason"] = data.get("reason", "")
        if event.type == "candidate.revised" and held.status == CandidateStatus.DEBUG:
            changes["debug_attempts"] = held.debug_attempts + 1
        self._candidates[candidate] = held.model_copy(update=changes)

    def _launch(self, name: str, event: LedgerEvent) -> None:
        data = event.data
        if name == "intent":
            self._intend(event)
        elif name == "started":
            identity = dict(data.get("identity", {}))
            running = RunStatus.RUNNING
            self._update_run(data["run"], status=running, started_at=event.at, identity=identity)
            self._move(str(data.get("candidate") or event.subject), event)
        elif name == "aborted":
            why = data.get("reason", "")
            self._update_run(data["run"], status=RunStatus.ABORTED, ended_at=event.at, why=why)
            self._account.release(data["run"])

    def _intend(self, event: LedgerEvent) -> None:
        data = event.data
        reservation = Amounts.model_validate({"launches": 1, **data.get("reservation", {})})
        run = RunState(
            status=RunStatus.STARTING,
            candidate=data["candidate"],
            phase=data["phase"],
            seed=data["seed"],
            kind=data.get("kind", "train"),
            nonce=data.get("nonce"),
            gpu=data.get("gpu"),
            retry_of=data.get("retry_of"),
            is_sealed=bool(data.get("sealed")),
            reservation=reservation,
            intent_at=event.at,
        )
        held = self._candidates.get(run.candidate)
        self._runs.put(data["run"], run)
        self._touched.add(run.candidate)
        self.run_revisions[data["run"]] = 1 if held is None else held.revision
        self._account.reserve(data["run"], run.candidate, run.phase, reservation)

    def _run(self, name: str, event: LedgerEvent) -> None:
        run = str(event.data.get("run") or event.subject)
        if name == "adopted":
            self._update_run(run, status=RunStatus.RUNNING)
        if name not in _ENDS or run not in self._runs:
            return
        actual = Amounts.model_validate(event.data.get("actual") or {})
        self._update_run(
            run,
            status=RunStatus(name),
            ended_at=event.at,
            actual=actual,
            killed_by=event.data.get("by"),
            why=event.data.get("why", ""),
            artefacts=event.data.get("artefacts"),
        )
        self._account.settle(run, actual)

    def _update_run(self, run: str, **changes: Any) -> None:
        if run in self._runs:
            held = self._runs[run]
            self._runs.put(run, held.model_copy(update=changes))
            self._touched.add(held.candidate)

    def _queue(self, name: str, event: LedgerEvent) -> None:
        data = event.data
        self._policy = QueuePolicy.model_validate(data.get("policy") or self._policy)
        for fields in data.get("jobs", ()):
            job = Job.model_validate(fields)
            self._jobs.put(fields["job_id"], job)
            self._touched.add(job.candidate)
        for name, changes in data.get("changes", {}).items():
            if name in self._jobs:
                job = self._jobs[name]
                self._jobs.put(name, Job.model_validate({**job.as_data(), **changes}))
                self._touched.add(job.candidate)

    def _evidence(self, name: str, event: LedgerEvent) -> None:
        data = event.data
        sheet = EvidenceState(
            kind=data["kind"],
            hash=data["hash"],
            run=data.get("run"),
            candidate=data.get("candidate"),
            seq=event.seq,
        )
        self._sheets.put(data["id"], sheet)

    def _decision(self, name: str, event: LedgerEvent) -> None:
        if name != "recorded":
            return
        data, candidate = event.data, str(event.subject)
        held = self._candidates.get(candidate)
        trusted = data.get("incumbent")
        incumbent = None if trusted is None else Incumbent.model_validate(trusted)
        self._decisions[data.get("decision") or f"seq-{event.seq}"] = DecisionState(
            candidate=candidate,
            verdict=data.get("verdict", ""),
            to=data.get("to"),
            phase=data.get("phase") or (None if held is None else held.phase),
            audit=data.get("audit"),
            audit_verdict=data.get("audit_verdict"),
            incumbent=incumbent,
            actor=event.actor.label,
            at=event.at,
        )
        self._move(candidate, event)
        if incumbent is not None:
            self._trust(incumbent)
        if data.get("noise_floor") is not None:
            self._fields["noise_floor"] = data["noise_floor"]
        if data.get("to") == "accepted" and held is not None and held.kind == "baseline":
            self._fields["baseline"] = candidate

    def _incumbent(self, name: str, event: LedgerEvent) -> None:
        data = event.data
        if data.get("to") is None:
            self._incumbents.pop(data.get("protocol_hash") or self._protocol_hash or "", None)
            return
        kept = {key: data.get(key) for key in ("protocol_hash", "iqm", "ci", "n")}
        self._trust(Incumbent.model_validate({"candidate": data["to"], **kept}))

    def _trust(self, incumbent: Incumbent) -> None:
        protocol = incumbent.protocol_hash or self._protocol_hash or ""
        self._incumbents[protocol] = incumbent

    def _work_order(self, name: str, event: LedgerEvent) -> None:
        if name == "submitted":
            self._account.pay_call(event.data.get("usd"), event.data.get("tokens"))

    def _stop(self, name: str, event: LedgerEvent) -> None:
        rule, why = event.data["rule"], event.data.get("why", "")
        self._fired = [each for each in self._fired if each.rule != rule]
        if event.data.get("stands", True):
            self._fired.append(FiredStop(rule=rule, why=why, at=event.at))
