"""Everything a study's report tells, gathered from structured files; nothing is made up."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from telic.errors import TelicError
from telic.storage.files import read_json, read_record
from telic.studies.candidates import read_candidate
from telic.studies.chain import LedgerEvent
from telic.studies.documents.base import Document
from telic.studies.documents.candidate import Candidate, Decision, EvidenceKind
from telic.studies.documents.contract import Contract
from telic.studies.documents.metrics import MetricSpec
from telic.studies.evidence.audit import MeasuredNumber, ScorecardResult, score
from telic.studies.evidence.claims import Audit
from telic.studies.evidence.measurement import Measurement
from telic.studies.evidence.probes import ProbeSummary
from telic.studies.evidence.reflection import Reflection
from telic.studies.evidence.statistics import iqm, iqm_interval, seed_of
from telic.studies.folder import StudyFolder
from telic.studies.next import NextAction
from telic.studies.state import CandidateState, StudyState, WorkSource
from telic.studies.study import Study

Read = TypeVar("Read")
Doc = TypeVar("Doc", bound=Document)


class CandidateFacts(NamedTuple):
    """A candidate and what came of it."""

    name: str
    state: CandidateState
    record: Candidate | None
    audits: tuple[Audit, ...]
    decisions: tuple[Decision, ...]

    @property
    def audit(self) -> Audit | None:
        """The last audit."""
        return self.audits[-1] if self.audits else None


class Alert(NamedTuple):
    """A sign of trouble that was entered."""

    run: str
    signature: str
    severity: str
    is_open: bool


class JudgeScore(NamedTuple):
    """What one judge said of a run that was trained in full."""

    candidate: str
    source: str
    score: float | None
    criteria: dict[str, tuple[float | None, float | None]]
    """by title: share that was earned, and what was measured"""


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
    card: ScorecardResult | None
    """of the incumbent"""
    commands: dict[str, list[str]]
    """how the incumbent's runs were started: arguments by run"""
    action: NextAction | None
    moved: tuple[tuple[str, str, str], ...]
    """when the incumbent changed, from whom, to whom"""
    judgements: tuple[JudgeScore, ...]
    source: WorkSource | None
    """the session or search that the study tells of"""

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
        alerts=_alerts(study.events),
        card=_card(state, spec, measurements),
        commands=_commands(folder, state),
        action=action,
        moved=tuple(
            (event.at, str(event.data.get("from") or ""), str(event.data.get("to") or ""))
            for event in study.events
            if event.type == "incumbent.changed"
        ),
        judgements=_judgements(study),
        source=study.source,
    )


def _readable(read: Callable[[], Read]) -> Read | None:
    """Return a document, or None while people are still writing it: the report says so."""
    try:
        return read()
    except TelicError:
        return None


def _candidate(study: Study, name: str) -> CandidateFacts:
    folder, state = study.folder, study.state
    record = read_candidate(folder, name) if folder.candidate_file(name).is_file() else None
    decisions = [
        read_record(folder.decision_file(number), Decision)
        for number, decision in state.decisions.items()
        if decision.candidate == name and folder.decision_file(number).is_file()
    ]
    own = state.candidates[name]
    return CandidateFacts(name, own, record, study.audits(name), tuple(decisions))


def _measurements(study: Study) -> dict[str, Measurement]:
    measurements: dict[str, Measurement] = {}
    for name in study.evidence_names("metrics"):
        run, payload = study.state.evidence[name].run, study.sheet(name).payload
        if "scores" in payload and run in study.state.runs:
            measurements[run] = Measurement.model_validate(payload)
    return measurements


def _judgements(study: Study) -> tuple[JudgeScore, ...]:
    """Return what judges said, the oldest first; sheets of another shape are not told here."""
    scores: list[JudgeScore] = []
    for name in study.evidence_names("judgment"):
        run = study.state.runs.get(study.state.evidence[name].run or "")
        payload = study.sheet(name).payload
        is_told = "source" in payload and "score" in payload
        if is_told and run is not None and run.phase == "promotion":
            criteria = {
                title: (criterion.get("credit"), criterion.get("measured"))
                for title, criterion in payload.get("criteria", {}).items()
            }
            scores.append(JudgeScore(run.candidate, payload["source"], payload["score"], criteria))
    return tuple(scores)


def _newest(study: Study, kind: EvidenceKind, record: type[Doc]) -> Doc | None:
    sheet = study.latest(kind)
    return record.parse(sheet.payload) if sheet else None


def _alerts(events: tuple[LedgerEvent, ...]) -> tuple[Alert, ...]:
    alerts: dict[tuple[str, str], Alert] = {}
    for event in events:
        if event.type != "monitor.alert":
            continue
        run = str(event.subject)
        for name in event.data.get("cleared", ()):
            if (run, name) in alerts:
                alerts[run, name] = alerts[run, name]._replace(is_open=False)
        if event.data["severity"] != "info":
            name = str(event.data["signature"])
            alerts[run, name] = Alert(run, name, event.data["severity"], True)
    return tuple(alerts.values())


def _card(
    state: StudyState, spec: MetricSpec | None, measurements: dict[str, Measurement]
) -> ScorecardResult | None:
    if spec is None or spec.scorecard is None or state.incumbent is None:
        return None
    values: dict[str, list[float]] = {}
    for measurement in measurements.values():
        is_trusted = measurement.candidate == state.incumbent.candidate
        if not is_trusted or measurement.phase not in ("promotion", "incumbent_validation"):
            continue
        if measurement.primary is not None:
            values.setdefault(spec.primary.key, []).append(measurement.primary)
        for key, value in measurement.guardrails.items():
            values.setdefault(key, []).append(value)
    numbers = {
        key: MeasuredNumber(value=iqm(own) or 0.0, ci=iqm_interval(own, seed_of(key)))
        for key, own in values.items()
    }
    return score(spec.scorecard, numbers)


def _commands(folder: StudyFolder, state: StudyState) -> dict[str, list[str]]:
    runs = state.runs_of(state.incumbent.candidate) if state.incumbent else ()
    files = {run: folder.run(run) / "cmd.json" for run in runs}
    return {
        run: [str(word) for word in read_json(path).get("argv", ())]
        for run, path in files.items()
        if path.is_file()
    }
