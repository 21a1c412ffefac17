"""Everything a report tells, gathered from structured files; nothing is made up or looked up."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from telic.errors import TelicError
from telic.storage.files import read_json, read_record
from telic.studies.candidates import read_candidate
from telic.studies.documents.base import Document
from telic.studies.documents.candidate import Candidate
from telic.studies.documents.contract import Contract
from telic.studies.documents.metrics import MetricSpec
from telic.studies.documents.runs import Decision
from telic.studies.evidence.audit import MeasuredNumber, ScorecardResult, score
from telic.studies.evidence.claims import Audit
from telic.studies.evidence.measurement import Measurement
from telic.studies.evidence.probes import ProbeSummary
from telic.studies.evidence.reflection import Reflection
from telic.studies.evidence.statistics import iqm, iqm_interval, seed_of
from telic.studies.evidence.store import read_evidence
from telic.studies.folder import StudyFolder
from telic.studies.next import NextAction
from telic.studies.state import CandidateState, StudyState, WorkSource
from telic.studies.study import Study

Read = TypeVar("Read")
Doc = TypeVar("Doc", bound=Document)


class Told(NamedTuple):
    """A candidate and what came of it."""

    name: str
    held: CandidateState
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


class Judged(NamedTuple):
    """What one judge said of a run that was trained in full."""

    candidate: str
    source: str
    score: float | None
    criteria: dict[str, tuple[float | None, float | None]]
    """by title: share that was earned, and what was measured"""


class Story(NamedTuple):
    """A study as a report tells it."""

    folder: StudyFolder
    state: StudyState
    contract: Contract | None
    spec: MetricSpec | None
    candidates: tuple[Told, ...]
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
    judgements: tuple[Judged, ...] = ()
    source: WorkSource | None = None
    """the session or search that the study tells of"""

    @property
    def last_audit(self) -> Audit | None:
        """The audit that was entered last, of whichever candidate."""
        found = [audit for told in self.candidates for audit in told.audits]
        return max(found, key=lambda each: each.at, default=None)

    @property
    def trusted(self) -> Told | None:
        """The incumbent."""
        held = self.state.incumbent
        return next(
            (each for each in self.candidates if held and each.name == held.candidate), None
        )


def gather(study: Study, action: NextAction | None = None) -> Story:
    """Return what there is to tell; what a young study lacks is None or empty."""
    folder, state = study.folder, study.state
    contract = _readable(folder.read_contract) if folder.contract.is_file() else None
    spec = _readable(folder.read_metric_spec) if folder.metric_spec.is_file() else None
    measurements = _measurements(folder, state)
    return Story(
        folder=folder,
        state=state,
        contract=contract,
        spec=spec,
        candidates=tuple(_told(study, name) for name in state.candidates),
        measurements=measurements,
        reflection=_newest(folder, state, "reflection", Reflection),
        probe=_newest(folder, state, "dr_probe", ProbeSummary),
        alerts=_alerts(study),
        card=_card(state, spec, measurements),
        commands=_commands(folder, state),
        action=action,
        moved=tuple(
            (event.at, str(event.data.get("from") or ""), str(event.data.get("to") or ""))
            for event in study.events
            if event.type == "incumbent.changed"
        ),
        judgements=_judgements(folder, state),
        source=study.source,
    )


def _readable(read: Callable[[], Read]) -> Read | None:
    """Return a document, or None while people are still writing it: the report says so."""
    try:
        return read()
    except TelicError:
        return None


def _told(study: Study, name: str) -> Told:
    folder, state = study.folder, study.state
    record = read_candidate(folder, name) if folder.candidate_file(name).is_file() else None
    decisions = [
        read_record(folder.decision_file(each), Decision)
        for each, held in state.decisions.items()
        if held.candidate == name and folder.decision_file(each).is_file()
    ]
    return Told(name, state.candidates[name], record, study.audits(name), tuple(decisions))


def _measurements(folder: StudyFolder, state: StudyState) -> dict[str, Measurement]:
    entries = sorted(
        (entry.seq, entry.run, name)
        for name, entry in state.evidence.items()
        if entry.kind == "metrics" and entry.run in state.runs
    )
    found: dict[str, Measurement] = {}
    for _, run, name in entries:
        payload = read_evidence(folder, name).payload
        if "scores" in payload and run is not None:
            found[run] = Measurement.model_validate(payload)
    return found


def _judgements(folder: StudyFolder, state: StudyState) -> tuple[Judged, ...]:
    """Return what judges said, the oldest first; sheets of another shape are not told here."""
    found = list[Judged]()
    for name, entry in state.evidence.items():
        run = state.runs.get(entry.run or "")
        if entry.kind != "judgment" or run is None or run.phase != "promotion":
            continue
        payload = read_evidence(folder, name).payload
        if "source" in payload and "score" in payload:
            criteria = {
                title: (each.get("credit"), each.get("measured"))
                for title, each in payload.get("criteria", {}).items()
            }
            found.append(Judged(run.candidate, payload["source"], payload["score"], criteria))
    return tuple(found)


def _newest(folder: StudyFolder, state: StudyState, kind: str, record: type[Doc]) -> Doc | None:
    found = [(entry.seq, name) for name, entry in state.evidence.items() if entry.kind == kind]
    return record.parse(read_evidence(folder, max(found)[1]).payload) if found else None


def _alerts(study: Study) -> tuple[Alert, ...]:
    found: dict[tuple[str, str], Alert] = {}
    for event in study.events:
        if event.type != "monitor.alert":
            continue
        run = str(event.subject)
        for name in event.data.get("cleared", ()):
            if (run, name) in found:
                found[run, name] = found[run, name]._replace(is_open=False)
        if event.data["severity"] != "info":
            name = str(event.data["signature"])
            found[run, name] = Alert(run, name, event.data["severity"], True)
    return tuple(found.values())


def _card(
    state: StudyState, spec: MetricSpec | None, measurements: dict[str, Measurement]
) -> ScorecardResult | None:
    if spec is None or spec.scorecard is None or state.incumbent is None:
        return None
    own = [
        each
        for each in measurements.values()
        if each.candidate == state.incumbent.candidate
        and each.phase in ("promotion", "incumbent_validation")
    ]
    values: dict[str, list[float]] = {}
    for each in own:
        if each.primary is not None:
            values.setdefault(spec.primary.key, []).append(each.primary)
        for key, value in each.guardrails.items():
            values.setdefault(key, []).append(value)
    found = {
        key: MeasuredNumber(value=iqm(each) or 0.0, ci=iqm_interval(each, seed_of(key)))
        for key, each in values.items()
    }
    return score(spec.scorecard, found)


def _commands(folder: StudyFolder, state: StudyState) -> dict[str, list[str]]:
    if state.incumbent is None:
        return {}
    found: dict[str, list[str]] = {}
    for run in state.runs_of(state.incumbent.candidate):
        path = folder.run(run) / "cmd.json"
        if path.is_file():
            found[run] = [str(each) for each in read_json(path).get("argv", ())]
    return found
