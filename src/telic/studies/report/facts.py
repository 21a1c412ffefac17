"""Everything a study's report tells, gathered from structured files; nothing is made up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple, TypeVar

from telic.core.text import MISSING
from telic.errors import TelicError
from telic.storage.facts import CommandFacts
from telic.storage.files import as_record, read_facts, read_record
from telic.studies.candidates import read_candidate
from telic.studies.documents.base import Document, DocumentPart
from telic.studies.documents.candidate import Candidate, Decision, EvidenceKind
from telic.studies.documents.contract import Contract
from telic.studies.documents.metrics import MetricSpec, Scorecard, ScorecardItem
from telic.studies.errors import InvalidDocument
from telic.studies.evidence.claims import Audit
from telic.studies.evidence.measurement import Measurement
from telic.studies.evidence.probes import ProbeSummary
from telic.studies.evidence.reflection import Reflection
from telic.studies.evidence.signatures import Alert, entered_alerts
from telic.studies.evidence.statistics import iqm, iqm_interval, seed_of
from telic.studies.folder import StudyFolder
from telic.studies.next import NextAction
from telic.studies.state import CandidateState, StudyState, WorkSource
from telic.studies.study import Study

Band = Literal["good", "ok", "poor"]
_POINTS: dict[Band, float] = {"good": 1.0, "ok": 0.5, "poor": 0.0}
VERDICTS = {
    "valid_improvement": "valid improvement",
    "no_improvement": "no improvement",
    "inconclusive": "inconclusive",
    "provisional": "provisional: too few seeds",
    "baseline_established": "baseline established",
    "invalid": "invalid",
    "target_met": "target met",
    "target_missed": "target missed",
}
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
            return self.decisions[-1].rationale
        if self.audit and self.audit.reasons:
            return self.audit.reasons[0]
        return self.state.reason or MISSING


class JudgeScore(NamedTuple):
    """What one judge said of a run that was trained in full."""

    candidate: str
    source: str
    score: float | None
    criteria: dict[str, tuple[float | None, float | None]]
    """by title: share that was earned, and what was measured"""


class MeasuredNumber(DocumentPart):
    """A number and its interval."""

    value: float
    ci: tuple[float, float] | None = None


class ScoredItem(DocumentPart):
    """A line of the scorecard."""

    key: str
    value: float | None
    ci: tuple[float, float] | None
    band: Band | None
    weight: float


class ScorecardResult(DocumentPart):
    """The scorecard of a result."""

    items: tuple[ScoredItem, ...]
    total: float | None
    """weighted share of points, 0 to 1, over what was measured; None when nothing was"""
    caveats: tuple[str, ...] = ()


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
        alerts=tuple(entered_alerts(study.events_of("monitor.alert"))),
        card=_card(state, spec, measurements),
        commands=_commands(folder, state),
        action=action,
        moved=tuple(
            (event.at, str(event.data.get("from") or ""), str(event.data.get("to") or ""))
            for event in study.events_of("incumbent.changed")
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
        if "scores" in payload and run is not None and run in study.state.runs:
            measurements[run] = as_record(payload, Measurement, name)
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
        run: read_facts(path, CommandFacts).get("argv", [])
        for run, path in files.items()
        if path.is_file()
    }


def score(card: Scorecard, numbers: Mapping[str, MeasuredNumber]) -> ScorecardResult:
    """Return a summary in bands, beside the verdict and never instead of it.

    What is missing becomes a caveat, not a zero.
    """
    total_weight = sum(item.weight for item in card.items)
    if abs(total_weight - card.weights_sum) > 1e-9:
        raise InvalidDocument(
            "E_SCORECARD",
            f"The weights of the scorecard sum to {total_weight:g}, not {card.weights_sum:g}.",
        )
    items: list[ScoredItem] = []
    caveats: list[str] = []
    doubts: list[str] = []
    points = weight = 0.0
    for item in card.items:
        number = numbers.get(item.key)
        band = band_of(item, number.value) if number else None
        value, ci = (number.value, number.ci) if number else (None, None)
        items.append(ScoredItem(key=item.key, value=value, ci=ci, band=band, weight=item.weight))
        if band is None:
            caveats.append(f"{item.key} was not measured")
            continue
        weight += item.weight
        points += item.weight * _POINTS[band]
        if ci and {band_of(item, end) for end in ci} != {band}:
            doubts.append(f"the interval of {item.key} reaches into another band")
    return ScorecardResult(
        items=tuple(items),
        total=points / weight if weight else None,
        caveats=tuple(caveats + doubts),
    )


def band_of(item: ScorecardItem, value: float) -> Band:
    """Return the band of a value.

    `bands` are two numbers, (ok from, good from). When the first is the larger one, smaller values
    are better and both are upper limits.
    """
    if len(item.bands) != 2:
        raise InvalidDocument(
            "E_SCORECARD",
            f"The bands of {item.key} are {item.bands}.",
            hint="Write two numbers: where ok begins and where good begins.",
        )
    ok, good = (float(each) for each in item.bands)
    sign = 1.0 if good >= ok else -1.0
    if sign * value >= sign * good:
        return "good"
    return "ok" if sign * value >= sign * ok else "poor"
