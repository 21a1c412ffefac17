"""Enter what was tried: the candidate, its runs, its evidence, and what the source decided."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

from telic.retelling.auditing import write_audit
from telic.retelling.runs import add_sheets, write_run
from telic.retelling.tale import CandidateTale, Ruling, Tale, Written
from telic.storage.files import write_text
from telic.studies.candidates import keep_revision
from telic.studies.documents.base import SYSTEM, Actor
from telic.studies.documents.candidate import Candidate, CandidateStatus, Change, ChangedFile
from telic.studies.documents.files import write_once
from telic.studies.documents.runs import Decision, Verdict
from telic.studies.names import decision_id, next_number, utc_now
from telic.studies.state import CandidateState, Incumbent
from telic.studies.study import Study

TRIALS = "trials.jsonl"
_TO: dict[Verdict, CandidateStatus] = {
    "accept": CandidateStatus.ACCEPTED,
    "reject": CandidateStatus.REJECTED,
}
_CITED = ("judgment", "eval", "trajectory")


class CandidateWriter:
    """Writes the candidates of a tale, each as far as its source has come."""

    def __init__(self, study: Study, tale: Tale, actor: Actor) -> None:
        self.study, self.tale, self.actor = study, tale, actor

    def write(self, told: CandidateTale) -> None:
        """Enter what is new about a candidate."""
        self._enter(told)
        for run in told.runs:
            write_run(self.study, self.tale, told, run, self.actor)
        add_sheets(self.study, told.sheets, self.actor, told.name)
        if told.trials:
            self._keep_trials(told)
        if told.failure is not None and self._held(told).status == CandidateStatus.VALIDATED:
            self._move(told, "candidate.debug", CandidateStatus.DEBUG, told.failure)
        if not told.is_over or not told.runs:
            return
        if self._held(told).status == CandidateStatus.LAUNCHED:
            self._move(told, "candidate.completed", CandidateStatus.COMPLETED, "its runs are over")
        claim = write_audit(self.study, self.tale, told, self.actor)
        if told.ruling is not None:
            self._decide(told, told.ruling, claim)

    def _held(self, told: CandidateTale) -> CandidateState:
        return self.study.state.candidates[told.name]

    def _move(self, told: CandidateTale, event: str, to: CandidateStatus, why: str) -> None:
        facts = {"from": self._held(told).status, "to": to, "reason": why}
        self.study.append(event, told.name, facts, self.actor)

    # ------------------------------------------------------------------ the candidate itself

    def _enter(self, told: CandidateTale) -> None:
        study = self.study
        if told.name not in study.state.candidates:
            made, contents = self._document(told)
            keep_revision(study.folder, made, contents)
            facts = {
                "title": told.name,
                "kind": made.kind,
                "parents": list(made.parents),
                "revision": 1,
                "content_hash": made.content_hash,
                "to": CandidateStatus.DRAFT,
            }
            study.append("candidate.created", told.name, facts, self.actor)
        study.candidate(told.name)  # makes the copy that people look at, where missing
        if self._held(told).status == CandidateStatus.DRAFT:
            state = study.state
            facts = {
                "from": CandidateStatus.DRAFT,
                "to": CandidateStatus.VALIDATED,
                "reason": f"the {self.tale.source} went on with it",
                "checks": [each.as_data() for each in told.checks],
                "content_hash": state.candidates[told.name].content_hash,
                "contract_hash": state.contract_hash,
                "protocol_hash": state.protocol_hash,
            }
            study.append("candidate.validated", told.name, facts, SYSTEM)

    def _document(self, told: CandidateTale) -> tuple[Candidate, dict[str, bytes]]:
        state, folder = self.study.state, self.study.folder
        files = tuple(
            ChangedFile(path=name, sha256=sha256(content).hexdigest())
            for name, content in told.files.items()
        )
        seen = sorted(
            name
            for name, each in state.evidence.items()
            if each.candidate in told.parents and each.kind == "audit"
        )
        made = Candidate(
            id=told.name,
            created_at=utc_now(),
            created_by=self.actor,
            task_id=folder.task_id,
            study_id=folder.study_id,
            kind=told.kind,
            parents=told.parents,
            hypothesis=told.hypothesis,
            change=Change(overrides=told.overrides, files=files, params=told.params),
            evidence_refs=tuple(seen),
            plan=told.plan,
            origin=told.origin,
        )
        made = made.model_copy(update={"content_hash": made.compute_hash()})
        return made, {f"files/{name}": content for name, content in told.files.items()}

    def _keep_trials(self, told: CandidateTale) -> None:
        path = self.study.folder.candidate(told.name) / TRIALS
        text = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in told.trials)
        if not path.is_file() or path.read_text() != text:
            write_text(path, text)

    # ------------------------------------------------------------------ what the source decided

    def _decide(self, told: CandidateTale, ruling: Ruling, claim: Written | None) -> None:
        study, state = self.study, self.study.state
        trusted = self._trusted(told, claim) if ruling.verdict == "accept" else None
        if all(each.candidate != told.name for each in state.decisions.values()):
            cited = [
                name
                for name, each in state.evidence.items()
                if each.candidate == told.name and each.kind in _CITED
            ]
            self._record(told, ruling, claim, sorted(cited), trusted)
        moved = [each.subject for each in study.events if each.type == "incumbent.changed"]
        if trusted is not None and told.name not in moved:
            before = moved[-1] if moved else None
            facts = {**trusted.as_data(), "from": before, "to": told.name}
            study.append("incumbent.changed", told.name, facts, self.actor)

    def _record(
        self,
        told: CandidateTale,
        ruling: Ruling,
        claim: Written | None,
        cited: list[str],
        trusted: Incumbent | None,
    ) -> None:
        folder, state = self.study.folder, self.study.state
        there = [each.stem for each in folder.decisions.glob("d-*.json")]
        before = state.incumbent.candidate if state.incumbent else None
        evidence = (*cited, *([claim.evidence] if claim else []))
        made = Decision(
            id=decision_id(next_number([*state.decisions, *there])),
            created_at=utc_now(),
            created_by=self.actor,
            candidate=told.name,
            verdict=ruling.verdict,
            evidence=evidence,
            audit=claim.audit.id if claim else None,
            actor=self.actor,
            rationale=ruling.because,
            incumbent_before=before,
            incumbent_after=told.name if trusted else before,
            at=utc_now(),
        )
        made = made.model_copy(update={"content_hash": made.compute_hash()})
        write_once(folder.decision_file(made.id), made.as_data())
        facts: dict[str, Any] = {
            "decision": made.id,
            "decision_hash": made.content_hash,
            "verdict": ruling.verdict,
            "from": self._held(told).status,
            "to": _TO[ruling.verdict],
            "reason": ruling.because,
            "evidence": list(evidence),
            "audit": made.audit,
            "audit_verdict": claim.audit.verdict if claim else None,
            "decided_by": f"{self.tale.source} {self.tale.name}",
        }
        if trusted is not None:
            facts["incumbent"] = trusted.as_data()
        self.study.append("decision.recorded", told.name, facts, self.actor)

    def _trusted(self, told: CandidateTale, claim: Written | None) -> Incumbent:
        arm = claim.audit.arms["x"] if claim else None
        return Incumbent(
            candidate=told.name,
            protocol_hash=self.study.state.protocol_hash,
            iqm=arm.iqm if arm else None,
            ci=arm.ci if arm else None,
            n=arm.n if arm else len(told.runs),
        )
