"""Everything a study's report tells, gathered from structured files; nothing is made up."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from telic.core.text import MISSING
from telic.errors import TelicError
from telic.storage.facts import CommandFacts
from telic.storage.files import as_record, read_facts
from telic.studies.documents.base import Document
from telic.studies.documents.candidate import Candidate, EvidenceKind
from telic.studies.documents.contract import Contract
from telic.studies.documents.metrics import MetricSpec
from telic.studies.evidence.audit import Audit
from telic.studies.evidence.measurement import Measurement
from telic.studies.evidence.monitor import Alert, entered_alerts
from telic.studies.evidence.probes import ProbeSummary
from telic.studies.evidence.reflection import Reflection
from telic.studies.folder import StudyFolder
from telic.studies.next import NextAction
from telic.studies.state import CandidateState, DecisionState, StudyState
from telic.studies.study import Study

VERDICTS = {
    "valid_improvement": "valid improvement",
    "no_improvement": "no improvement",
    "inconclusive": "inconclusive",
    "provisional": "provisional: too few seeds",
    "baseline_established": "baseline established",
    "invalid": "invalid",
}
Read = TypeVar("Read")
Doc = TypeVar("Doc", bound=Document)


class CandidateFacts(NamedTuple):
    """A candidate and what came of it."""

    name: str
    state: CandidateState
    record: Candidate | None
    audits: tuple[Audit, ...]
    decisions: tuple[DecisionState, ...]

    @property
    def audit(self) -> Audit | None:
        """The last audit."""
        return self.audits[-1] if self.audits else None

    @property
    def phase(self) -> str:
        """The phase that it is in."""
        return (self.state.phase or MISSING).replace("_", " ")

    @property
    def statement(self) -> str:
        """Its hypothesis in one line."""
        return " ".join(self.record.hypothesis.statement.split()) if self.record else MISSING

    @property
    def verdict(self) -> str:
        """What an audit or a decision made of it."""
        if self.audit is not None:
            return VERDICTS[self.audit.verdict]
        return self.decisions[-1].verdict if self.decisions else MISSING

    @property
    def why(self) -> str:
        """Why it is where it is."""
        if self.decisions:
            return self.decisions[-1].why
        if self.audit and self.audit.reasons:
            return self.audit.reasons[0]
        return self.state.reason or MISSING


class StudyFacts(NamedTuple):
    """A study as a report tells it; what a young one lacks is None or empty."""

    folder: StudyFolder
    state: StudyState
    contract: Contract | None
    spec: MetricSpec | None
    candidates: tuple[CandidateFacts, ...]
    measurements: dict[str, Measurement]
    """by run"""
    reflection: Reflection | None
    """the newest"""
    probe: ProbeSummary | None
    alerts: tuple[Alert, ...]
    commands: dict[str, list[str]]
    """how the incumbent's runs were started: arguments by run"""
    action: NextAction | None
    moved: tuple[tuple[str, str, str], ...]
    """when the incumbent changed, from whom, to whom"""

    @property
    def last_audit(self) -> Audit | None:
        """The audit that was entered last, of whichever candidate."""
        audits = [audit for candidate in self.candidates for audit in candidate.audits]
        return max(audits, key=lambda audit: audit.at, default=None)

    @property
    def trusted(self) -> str | None:
        """The name of the incumbent."""
        return self.state.incumbent.candidate if self.state.incumbent else None


def gather(study: Study, action: NextAction | None = None) -> StudyFacts:
    """Return what there is to tell."""
    folder, state = study.folder, study.state
    spec = _readable(folder.read_metric_spec) if folder.metric_spec.is_file() else None
    measurements = _measurements(study)
    return StudyFacts(
        folder=folder,
        state=state,
        contract=_readable(folder.read_contract) if folder.contract.is_file() else None,
        spec=spec,
        candidates=tuple(_candidate(study, name) for name in state.candidates),
        measurements=measurements,
        reflection=_newest(study, "reflection", Reflection),
        probe=_newest(study, "dr_probe", ProbeSummary),
        alerts=tuple(entered_alerts(study.events_of("monitor.alert"))),
        commands=_commands(folder, state),
        action=action,
        moved=tuple(
            (event.at, str(event.data.get("from") or ""), str(event.data.get("to") or ""))
            for event in study.events_of("incumbent.changed")
        ),
    )


def _readable(read: Callable[[], Read]) -> Read | None:
    """Return a document, or None while people are still writing it: the report says so."""
    try:
        return read()
    except TelicError:
        return None


def _candidate(study: Study, name: str) -> CandidateFacts:
    state = study.state
    record = _readable(lambda: study.candidate(name))
    decisions = [each for each in state.decisions.values() if each.candidate == name]
    own = state.candidates[name]
    return CandidateFacts(name, own, record, study.audits(name), tuple(decisions))


def _measurements(study: Study) -> dict[str, Measurement]:
    measurements: dict[str, Measurement] = {}
    for name in study.evidence_names("metrics"):
        run, payload = study.state.evidence[name].run, study.sheet(name).payload
        if "scores" in payload and run is not None and run in study.state.runs:
            measurements[run] = as_record(payload, Measurement, name)
    return measurements


def _newest(study: Study, kind: EvidenceKind, record: type[Doc]) -> Doc | None:
    sheet = study.latest(kind)
    return record.parse(sheet.payload) if sheet else None


def _commands(folder: StudyFolder, state: StudyState) -> dict[str, list[str]]:
    runs = state.runs_of(state.incumbent.candidate) if state.incumbent else ()
    files = {run: folder.run(run) / "cmd.json" for run in runs}
    return {
        run: read_facts(path, CommandFacts).get("argv", [])
        for run, path in files.items()
        if path.is_file()
    }
