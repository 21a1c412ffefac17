"""Enter what was tried: the candidate, its runs, its evidence, and what the source decided."""

from __future__ import annotations

import json
from collections.abc import Iterable
from hashlib import sha256
from typing import Any

from telic import __version__
from telic.importers.records import (
    Claim,
    EvidenceSheet,
    ImportedCandidate,
    ImportedRun,
    ImportedStudy,
    Ruling,
    source_audit,
)
from telic.storage.files import read_record, write_json, write_text
from telic.storage.reading import file_hash, read_text
from telic.studies.candidates import keep_revision
from telic.studies.canonical import content_hash, decision_id, moment, next_number, utc_now, written
from telic.studies.documents.base import RUNNER, SYSTEM, StudyActor, write_once
from telic.studies.documents.candidate import (
    Candidate,
    CandidateStatus,
    Change,
    ChangedFile,
    Decision,
    RunStatus,
    StudyRun,
    Times,
    Verdict,
)
from telic.studies.evidence.audit import AuditResult, enter_audit
from telic.studies.evidence.claims import Audit
from telic.studies.evidence.measurement import Measurement
from telic.studies.evidence.store import add_evidence
from telic.studies.state import CandidateState, Incumbent
from telic.studies.study import Study

LOG = "metrics.jsonl"
TRIALS = "trials.jsonl"
_TO: dict[Verdict, CandidateStatus] = {
    "accept": CandidateStatus.ACCEPTED,
    "reject": CandidateStatus.REJECTED,
}
_CITED = ("judgment", "eval", "trajectory")
_HOUR_S = 3600.0


class CandidateWriter:
    """Writes one candidate; every step first looks whether the ledger has it."""

    def __init__(
        self, study: Study, work: ImportedStudy, candidate: ImportedCandidate, actor: StudyActor
    ) -> None:
        self.study, self.work, self.candidate, self.actor = study, work, candidate, actor
        self.name = candidate.name

    def write(self) -> None:
        """Enter what is new about the candidate, as far as its source has come."""
        candidate = self.candidate
        self._enter()
        for run in candidate.runs:
            self._write_run(run)
        self._add_sheets(candidate.sheets)
        if candidate.trials:
            path = self.study.folder.candidate(self.name) / TRIALS
            text = _lines(candidate.trials)
            if not path.is_file() or read_text(path) != text:
                write_text(path, text)
        if candidate.failure is not None and self._state.status == CandidateStatus.VALIDATED:
            self._move("candidate.debug", CandidateStatus.DEBUG, candidate.failure)
        if not candidate.is_over or not candidate.runs:
            return
        if self._state.status == CandidateStatus.LAUNCHED:
            self._move("candidate.completed", CandidateStatus.COMPLETED, "its runs are over")
        audit = self._write_audit(candidate.claim) if candidate.claim else None
        if candidate.ruling is not None:
            self._decide(candidate.ruling, audit)

    @property
    def _state(self) -> CandidateState:
        return self.study.state.candidates[self.name]

    def _move(self, event: str, to: CandidateStatus, why: str) -> None:
        facts = {"from": self._state.status, "to": to, "reason": why}
        self.study.append(event, self.name, facts, self.actor)

    # ------------------------------------------------------------------ the candidate itself

    def _enter(self) -> None:
        study = self.study
        if self.name not in study.state.candidates:
            document = self._document()
            files = {f"files/{name}": text for name, text in self.candidate.files.items()}
            keep_revision(study.folder, document, files)
            facts = {
                "title": self.name,
                "kind": document.kind,
                "parents": list(document.parents),
                "revision": 1,
                "content_hash": document.content_hash,
                "to": CandidateStatus.DRAFT,
            }
            study.append("candidate.created", self.name, facts, self.actor)
        study.candidate(self.name)  # makes the copy that people look at, where missing
        if self._state.status == CandidateStatus.DRAFT:
            facts = {
                "from": CandidateStatus.DRAFT,
                "to": CandidateStatus.VALIDATED,
                "reason": f"the {self.work.source} went on with it",
                "checks": [check.as_data() for check in self.candidate.checks],
                "content_hash": self._state.content_hash,
                "contract_hash": study.state.contract_hash,
                "protocol_hash": study.state.protocol_hash,
            }
            study.append("candidate.validated", self.name, facts, SYSTEM)

    def _document(self) -> Candidate:
        candidate, folder = self.candidate, self.study.folder
        files = tuple(
            ChangedFile(path=name, sha256=sha256(content).hexdigest())
            for name, content in candidate.files.items()
        )
        seen = sorted(
            name
            for name, entry in self.study.state.evidence.items()
            if entry.candidate in candidate.parents and entry.kind == "audit"
        )
        document = Candidate(
            id=self.name,
            created_at=utc_now(),
            created_by=self.actor,
            task_id=folder.task_id,
            study_id=folder.study_id,
            kind=candidate.kind,
            parents=candidate.parents,
            hypothesis=candidate.hypothesis,
            change=Change(overrides=candidate.overrides, files=files, params=candidate.params),
            evidence_refs=tuple(seen),
            plan=candidate.plan,
            origin=candidate.origin,
        )
        return document.model_copy(update={"content_hash": document.compute_hash()})

    # ------------------------------------------------------------------ its runs

    def _write_run(self, run: ImportedRun) -> None:
        """Enter what is new about a run: its folder, its three ledger lines, and its evidence."""
        study, name = self.study, run.name_in(self.work)
        subject: dict[str, Any] = {"run": name, "candidate": self.name, "phase": run.phase}
        if name not in study.state.runs:
            self._write_folder(name, run)
            facts: dict[str, Any] = {
                **subject,
                "seed": run.seed,
                "kind": run.kind,
                "reservation": {},
                "content_hash": self._state.content_hash,
                "made_by": self.work.name,
                "tool_version": __version__,
            }
            study.append("launch.intent", self.name, facts, self.actor)
        if study.state.runs[name].status == RunStatus.STARTING:
            identity = {"made_by": str(self.actor.name), "at": run.began_at}
            facts = {**subject, "identity": identity}
            if self._state.status == CandidateStatus.VALIDATED:
                facts |= {"from": CandidateStatus.VALIDATED, "to": CandidateStatus.LAUNCHED}
            study.append("launch.started", self.name, facts, self.actor)
        if study.state.runs[name].is_live:
            cost = run.cost.model_dump(exclude_none=True)
            facts = {"run": name, "actual": cost, "why": run.why}
            study.append(f"run.{run.status}", name, facts, self.actor)
        text = "not measured" if run.primary is None else f"{run.primary:.6g}"
        measurement = self._measurement(name, run).as_data()
        measured = EvidenceSheet("metrics", measurement, self.actor.name, text)
        self._add_sheets((measured, *run.sheets), name)

    def _write_folder(self, name: str, run: ImportedRun) -> None:
        folder, began = self.study.folder, written(moment(run.began_at))
        write_text(folder.run(name) / LOG, _lines(run.rows))
        command = {"argv": list(run.argv), "tool_version": __version__}
        write_json(folder.run(name) / "cmd.json", command)
        document = StudyRun(
            id=name,
            created_at=began,
            created_by=RUNNER,
            candidate=self.name,
            phase=run.phase,
            seed=run.seed,
            kind=run.kind,
            cmd_hash=content_hash(list(run.argv)),
            status=RunStatus(run.status),
            why=run.why,
            times=Times(planned_at=began, started_at=began),
            cost=run.cost,
            artefacts={} if run.origin is None else {"source": str(run.origin)},
        )
        write_json(folder.run_file(name), document.as_data())

    def _measurement(self, name: str, run: ImportedRun) -> Measurement:
        study, hours = self.study, run.cost.wall_clock_h
        return Measurement(
            run=name,
            candidate=self.name,
            phase=run.phase,
            seed=run.seed,
            kind=run.kind,
            primary=run.primary,
            scores={} if run.primary is None else {"": run.primary},
            guardrails={},
            steps=run.steps,
            wall_s=None if hours is None else _HOUR_S * hours,
            protocol_hash=study.state.protocol_hash,
            metric_spec_hash=study.metric_spec_hash,
            code_hash=content_hash(study.folder.read_protocol().evaluator_files),
            hardware=run.hardware,
            files={LOG: file_hash(study.folder.run(name) / LOG)},
            curves=run.curves,
        )

    def _add_sheets(self, sheets: Iterable[EvidenceSheet], run: str | None = None) -> None:
        """Add the evidence that is not there yet.

        What one producer said of a run is never said twice, also when a later telic would put it
        into other words.
        """
        state = self.study.state
        told = {
            (entry.kind, self.study.sheet(name).producer.name)
            for name, entry in state.evidence.items()
            if (entry.candidate, entry.run) == (self.name, run)
        }
        for sheet in sheets:
            if (sheet.kind, sheet.producer) not in told:
                add_evidence(
                    self.study,
                    sheet.kind,
                    sheet.payload,
                    self.actor,
                    run=run,
                    candidate=self.name,
                    protocol_hash=state.protocol_hash,
                    producer=sheet.producer,
                    summary=sheet.summary,
                )

    # ------------------------------------------------------------------ what the source concluded

    def _write_audit(self, claim: Claim) -> AuditResult:
        """Write down what the source concluded: its checks, its numbers, its verdict."""
        entered = self.study.evidence_names("audit", candidate=self.name)
        if entered:
            sheet = self.study.sheet(entered[0])
            return AuditResult(audit=self.study.audits(self.name)[-1], evidence=sheet)
        audit = source_audit(self.work, self.candidate, claim, self.study.state.protocol_hash or "")
        path = self.study.folder.audit_file(audit.id)
        if path.is_file():
            audit = read_record(path, Audit)
        else:
            write_once(path, audit.as_data())
        sheet = enter_audit(self.study, audit, self.actor, self.actor.name, audit.verdict)
        return AuditResult(audit=audit, evidence=sheet)

    def _decide(self, ruling: Ruling, audit: AuditResult | None) -> None:
        study, state = self.study, self.study.state
        trusted = self._trusted(audit) if ruling.verdict == "accept" else None
        if all(decision.candidate != self.name for decision in state.decisions.values()):
            self._record(ruling, audit, trusted)
        moved = [event.subject for event in study.events_of("incumbent.changed")]
        if trusted is not None and self.name not in moved:
            before = moved[-1] if moved else None
            facts = {**trusted.as_data(), "from": before, "to": self.name}
            study.append("incumbent.changed", self.name, facts, self.actor)

    def _record(self, ruling: Ruling, audit: AuditResult | None, trusted: Incumbent | None) -> None:
        folder, state = self.study.folder, self.study.state
        cited = sorted(
            name
            for name, entry in state.evidence.items()
            if entry.candidate == self.name and entry.kind in _CITED
        )
        there = [path.stem for path in folder.decisions.glob("d-*.json")]
        before = state.incumbent.candidate if state.incumbent else None
        evidence = (*cited, *([audit.evidence.id] if audit else []))
        decision = Decision(
            id=decision_id(next_number([*state.decisions, *there])),
            created_at=utc_now(),
            created_by=self.actor,
            candidate=self.name,
            verdict=ruling.verdict,
            evidence=evidence,
            audit=audit.audit.id if audit else None,
            actor=self.actor,
            rationale=ruling.because,
            incumbent_before=before,
            incumbent_after=self.name if trusted else before,
            at=utc_now(),
        )
        decision = decision.model_copy(update={"content_hash": decision.compute_hash()})
        write_once(folder.decision_file(decision.id), decision.as_data())
        facts: dict[str, Any] = {
            "decision": decision.id,
            "decision_hash": decision.content_hash,
            "verdict": ruling.verdict,
            "from": self._state.status,
            "to": _TO[ruling.verdict],
            "reason": ruling.because,
            "evidence": list(evidence),
            "audit": decision.audit,
            "audit_verdict": audit.audit.verdict if audit else None,
            "decided_by": f"{self.work.source} {self.work.name}",
        }
        if trusted is not None:
            facts["incumbent"] = trusted.as_data()
        self.study.append("decision.recorded", self.name, facts, self.actor)

    def _trusted(self, audit: AuditResult | None) -> Incumbent:
        arm = audit.audit.arms["x"] if audit else None
        return Incumbent(
            candidate=self.name,
            protocol_hash=self.study.state.protocol_hash,
            iqm=arm.iqm if arm else None,
            ci=arm.ci if arm else None,
            n=arm.n if arm else len(self.candidate.runs),
        )


def _lines(rows: Iterable[dict[str, Any]]) -> str:
    return "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)
