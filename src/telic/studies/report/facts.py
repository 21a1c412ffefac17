"""What a report of a study is made from, read from structured files only."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple, TypeVar

from telic.core.text import MISSING
from telic.errors import TelicError
from telic.storage.files import as_record, read_fields
from telic.studies.documents.base import Document, read_document
from telic.studies.documents.candidate import Candidate, EvidenceKind
from telic.studies.documents.contract import Contract
from telic.studies.documents.metrics import MetricSpec
from telic.studies.evidence.audit import Audit
from telic.studies.evidence.measurement import Measurement
from telic.studies.evidence.probes import ProbeSummary
from telic.studies.evidence.reflection import Reflection
from telic.studies.next import NextAction
from telic.studies.state import CandidateState, DecisionState
from telic.studies.study import Study

VERDICTS = {
    "valid_improvement": "valid improvement",
    "no_improvement": "no improvement",
    "inconclusive": "inconclusive",
    "provisional": "provisional: too few seeds",
    "baseline_established": "baseline established",
    "invalid": "invalid",
}
Doc = TypeVar("Doc", bound=Document)


class CandidateFacts(NamedTuple):
    """A candidate and its results; the record is None if it cannot be read."""

    name: str
    state: CandidateState
    record: Candidate | None
    audit: Audit | None
    """the last one"""
    decision: DecisionState | None
    """the last one"""

    @property
    def verdict(self) -> str:
        """The verdict of the last audit, or else of the last decision."""
        if self.audit is not None:
            return VERDICTS[self.audit.verdict]
        return self.decision.verdict if self.decision else MISSING

    @property
    def why(self) -> str:
        """The reason of its status."""
        if self.decision:
            return self.decision.why
        reasons = self.audit.reasons if self.audit else ()
        return next(iter(reasons), self.state.reason) or MISSING


class StudyFacts:
    """A study as a report shows it; what a new study lacks is None or empty."""

    def __init__(self, study: Study, action: NextAction | None = None) -> None:
        self.study, self.state, self.folder, self.action = study, study.state, study.folder, action
        self.trusted = self.state.incumbent.candidate if self.state.incumbent else None

    @cached_property
    def contract(self) -> Contract | None:
        """The contract, unless it cannot be read."""
        try:
            return read_document(self.folder.contract, Contract)
        except TelicError:  # people are still writing it: the report says so
            return None

    @cached_property
    def spec(self) -> MetricSpec | None:
        """The metric spec, unless it cannot be read."""
        try:
            return read_document(self.folder.metric_spec, MetricSpec)
        except TelicError:
            return None

    @cached_property
    def candidates(self) -> tuple[CandidateFacts, ...]:
        """All candidates in the order of their creation."""
        found: list[CandidateFacts] = []
        for name, held in self.state.candidates.items():
            try:
                record = self.study.candidate(name)
            except TelicError:
                record = None
            audits = self.study.audits(name)
            decided = [x for x in self.state.decisions.values() if x.candidate == name]
            last = decided[-1] if decided else None
            found.append(CandidateFacts(name, held, record, audits[-1] if audits else None, last))
        return tuple(found)

    @cached_property
    def last_audit(self) -> Audit | None:
        """The audit that was entered last, of any candidate."""
        audits = [audit for name in self.state.candidates for audit in self.study.audits(name)]
        return max(audits, key=lambda audit: audit.at, default=None)

    @cached_property
    def measurements(self) -> dict[str, Measurement]:
        """What was measured, by run."""
        measurements: dict[str, Measurement] = {}
        for name in self.study.evidence_names("metrics"):
            run, payload = self.state.evidence[name].run, self.study.sheet(name).payload
            if "scores" in payload and run is not None and run in self.state.runs:
                measurements[run] = as_record(payload, Measurement, name)
        return measurements

    def newest(self, kind: EvidenceKind, record: type[Doc]) -> Doc | None:
        """Return the newest evidence of a kind."""
        sheet = self.study.latest(kind)
        return record.parse(sheet.payload) if sheet else None

    @cached_property
    def reflection(self) -> Reflection | None:
        """The newest reflection on a reward."""
        return self.newest("reflection", Reflection)

    @cached_property
    def probe(self) -> ProbeSummary | None:
        """The newest robustness probe."""
        return self.newest("dr_probe", ProbeSummary)

    @property
    def commands(self) -> dict[str, list[str]]:
        """How the incumbent's runs were started: arguments by run."""
        runs = self.state.runs_of(self.trusted) if self.trusted else ()
        files = {run: self.folder.run(run) / "cmd.json" for run in runs}
        return {
            run: read_fields(path, argv=list[str] | None)["argv"] or []
            for run, path in files.items()
            if path.is_file()
        }
