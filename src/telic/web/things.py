"""Lists and pages of things: the records on disk, as they are.

A missing file is None. A file that cannot be read is reported in `damage` and hides nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from fastapi import APIRouter, Query
from fastapi import Path as PathPart
from pydantic import BaseModel, ValidationError

from telic.authors.candidate import RewardCandidate, SessionIteration, reward_text, weights_in
from telic.authors.request import SessionConfig
from telic.core.config import Record
from telic.core.verb import as_data
from telic.errors import TelicError
from telic.rewards.contract import RewardSpec
from telic.search.records import SearchConfig, SearchSummary
from telic.session.branch import BranchOrigin
from telic.session.certificate import Certificate
from telic.session.control import (
    CriteriaApproval,
    CriteriaProposal,
    DeliveredNotes,
    Note,
    read_notes,
)
from telic.session.labels import EpisodeLabel, Veto, read_labels, read_vetoes
from telic.session.records import Checkpoint, SessionSummary, Waiting, verified
from telic.session.report._history import reward_terms
from telic.session.robustness import RobustnessCard
from telic.storage.facts import ManifestFacts
from telic.storage.files import as_record, read_facts, read_json_lines, read_record
from telic.storage.layout import RunFolder, SessionFolder
from telic.storage.reading import read_text
from telic.storage.workspace import Kind, Thing, Workspace
from telic.tracking.reports import TrackingReport, reports_of
from telic.training.job import TrainJob
from telic.verbs.lines import ThingLine, open_orders, read_line
from telic.verbs.study_runs import status
from telic.verbs.study_server import StudyView, get_state
from telic.web.place import WebPlace

Model = TypeVar("Model", bound=BaseModel)
Value = TypeVar("Value")
_WORST_CLIPS = 12
_LAST = 1 << 62


class ThingPage(Record):
    """Lines of a list, the most recently active first."""

    things: tuple[ThingLine, ...]
    kinds: dict[str, int]
    """number of things of each kind"""


class IterationLine(Record):
    """An iteration of a session in short."""

    number: int
    parent: int | None = None
    change: str = ""
    is_judged: bool
    passed: bool | None = None
    score: float | None = None
    tags: tuple[str, ...] = ()
    steps: int | None = None
    training_s: float | None = None
    judging_s: float | None = None
    failure: str | None = None


class SessionDetail(Record):
    """A session."""

    config: SessionConfig | None
    iterations: tuple[IterationLine, ...]
    summary: SessionSummary | None
    """None while it runs"""
    certificate: Certificate | None
    robustness: RobustnessCard | None
    waiting: Waiting | None
    proposal: CriteriaProposal | None
    """criteria that were offered for approval"""
    approval: CriteriaApproval | None
    notes: tuple[Note, ...]
    labels: tuple[EpisodeLabel, ...]
    vetoes: tuple[Veto, ...]
    origin: BranchOrigin | None
    open_orders: int
    """work orders that wait for an answer"""


class RunDetail(Record):
    """A training run."""

    job: TrainJob | None
    command: str | None


class SearchDetail(Record):
    """A policy search."""

    config: SearchConfig | None
    summary: SearchSummary | None


class StudyDetail(Record):
    """A study."""

    view: StudyView | None
    state: dict[str, Any] | None


class ThingDetail(Record):
    """A thing with the records of its kind."""

    line: ThingLine
    path: str
    command: str
    """how to show it in a terminal"""
    session: SessionDetail | None = None
    run: RunDetail | None = None
    search: SearchDetail | None = None
    study: StudyDetail | None = None
    damage: tuple[str, ...] = ()
    """why files cannot be read"""


class RewardTermLine(Record):
    """A term of a reward, and its sum over an evaluation episode."""

    name: str
    words: str
    weight: float | None
    total: float | None
    share: float | None
    """of the absolute sums of all terms"""


class TermChange(Record):
    """A term that differs from the parent's."""

    name: str
    change: Literal["new", "gone", "weight"]
    before: float | None
    after: float | None


class RewardChange(Record):
    """A reward and the one it was revised from."""

    parent: int
    before: str
    after: str
    terms: tuple[TermChange, ...]


class IterationDetail(Record):
    """An iteration of a session: reward, change, verdicts."""

    number: int
    candidate: RewardCandidate | None
    judged: SessionIteration | None
    code: str | None
    spec: RewardSpec | None
    terms: tuple[RewardTermLine, ...]
    change: RewardChange | None
    members: tuple[str, ...]
    checkpoints: tuple[Checkpoint, ...]
    """interim evaluations by the judge"""
    notes: DeliveredNotes | None
    """feedback that this iteration answers"""
    damage: tuple[str, ...]


class _Reader:
    """Reads files and collects what cannot be read."""

    def __init__(self) -> None:
        self.damage: list[str] = []

    def record(self, path: Path, kind: type[Model]) -> Model | None:
        return self.attempt(lambda: read_record(path, kind)) if path.exists() else None

    def attempt(self, read: Callable[[], Value]) -> Value | None:
        try:
            return read()
        except TelicError as error:
            self.damage.append(error.message)
        except ValidationError as error:
            self.damage.append(f"A file does not contain a valid {error.title}.")
        return None


def _session(thing: Thing, is_running: bool, reader: _Reader) -> SessionDetail:
    folder = SessionFolder(thing.path)
    has_ended = folder.summary.exists() and not is_running
    return SessionDetail(
        config=reader.record(folder.config, SessionConfig),
        iterations=tuple(_line(folder, number, reader) for number in folder.iterations()),
        summary=reader.attempt(lambda: verified(folder)) if has_ended else None,
        certificate=reader.record(folder.certificate, Certificate),
        robustness=reader.record(folder.robustness, RobustnessCard),
        waiting=reader.record(folder.waiting, Waiting) if is_running else None,
        proposal=reader.record(folder.criteria, CriteriaProposal),
        approval=reader.record(folder.approval, CriteriaApproval),
        notes=tuple(reader.attempt(lambda: read_notes(folder)) or ()),
        labels=tuple(reader.attempt(lambda: read_labels(folder)) or ()),
        vetoes=tuple(reader.attempt(lambda: read_vetoes(folder)) or ()),
        origin=reader.record(folder.origin, BranchOrigin),
        open_orders=open_orders(folder.path),
    )


def _line(folder: SessionFolder, number: int, reader: _Reader) -> IterationLine:
    files = folder.iteration(number)
    judged = reader.record(files.judgment, SessionIteration)
    known = judged or reader.record(files.candidate, RewardCandidate)
    names = IterationLine.model_fields.keys() - {"number", "is_judged"}
    if judged is None:
        names = {"parent", "change"} if known else set[str]()
    values = {name: getattr(known, name) for name in names}
    return IterationLine(number=number, is_judged=judged is not None, **values)


def _run(thing: Thing, is_running: bool, reader: _Reader) -> RunDetail:
    run = RunFolder(thing.path)
    manifest: ManifestFacts | None = None
    if run.manifest.exists():
        manifest = reader.attempt(lambda: read_facts(run.manifest, ManifestFacts))
    command = manifest.get("command") if manifest else None
    return RunDetail(job=reader.record(run.config, TrainJob), command=command)


def _search(thing: Thing, is_running: bool, reader: _Reader) -> SearchDetail:
    return SearchDetail(
        config=reader.record(thing.path / "search.json", SearchConfig),
        summary=reader.record(thing.path / "summary.json", SearchSummary),
    )


def _study(thing: Thing, is_running: bool, reader: _Reader) -> StudyDetail:
    task, _, study = thing.name.partition("/")
    where = {"root": thing.path.absolute().parents[4], "task": task, "study": study}
    view = reader.attempt(lambda: get_state(**where))
    return StudyDetail(view=view, state=None if view is None else as_data(status(**where)))


_PARTS: dict[str, Callable[[Thing, bool, _Reader], Any]] = {
    "session": _session,
    "run": _run,
    "search": _search,
    "study": _study,
}


def _iteration(folder: SessionFolder, number: int) -> IterationDetail:
    files, reader = folder.iteration(number), _Reader()
    candidate = reader.record(files.candidate, RewardCandidate)
    judged = reader.record(files.judgment, SessionIteration)
    members = files.run.members() if files.run.path.is_dir() else []
    best = next((x for x in members if judged and x.name == judged.best), next(iter(members), None))
    terms: tuple[RewardTermLine, ...] = ()
    if best is not None and best.reward_code.exists():
        score = judged.best_member if judged else None
        found = reader.attempt(lambda: reward_terms(best, score.step if score else _LAST)) or ()
        terms = tuple(RewardTermLine(**term._asdict()) for term in found)
    rows = reader.attempt(lambda: list(read_json_lines(files.checkpoints))) or ()
    where = str(files.checkpoints)
    return IterationDetail(
        number=number,
        candidate=candidate,
        judged=judged,
        code=reader.attempt(lambda: read_text(files.reward)) if files.reward.exists() else None,
        spec=reader.record(best.reward_spec, RewardSpec) if best else None,
        terms=terms,
        change=reader.attempt(lambda: _change(folder, candidate, judged)) if candidate else None,
        members=tuple(member.name for member in members),
        checkpoints=tuple(
            each
            for row in rows
            if (each := reader.attempt(lambda row=row: as_record(row, Checkpoint, where)))
        ),
        notes=reader.record(files.notes, DeliveredNotes),
        damage=tuple(reader.damage),
    )


def _change(
    folder: SessionFolder, candidate: RewardCandidate, judged: SessionIteration | None
) -> RewardChange | None:
    if candidate.parent is None or not folder.iteration(candidate.parent).candidate.exists():
        return None
    origin = folder.iteration(candidate.parent)
    kept = 0
    if origin.judgment.exists():
        kept = read_record(origin.judgment, SessionIteration).variant
    before = reward_text(read_record(origin.candidate, RewardCandidate), kept)
    after = reward_text(candidate, judged.variant if judged else 0)
    old, new = weights_in(before), weights_in(after)
    terms = tuple(
        TermChange(
            name=name,
            change="new" if name not in old else "gone" if name not in new else "weight",
            before=old.get(name),
            after=new.get(name),
        )
        for name in dict.fromkeys([*old, *new])
        if old.get(name) != new.get(name)
    )
    return RewardChange(parent=candidate.parent, before=before, after=after, terms=terms)


def routes(place: WebPlace) -> APIRouter:
    """Return the routes of things."""
    router = APIRouter(tags=["things"])

    @router.get("/things")
    def list_all(
        kind: Annotated[list[Kind] | None, Query(description="only these kinds")] = None,
        limit: Annotated[int | None, Query(ge=1)] = None,
    ) -> ThingPage:
        """List sessions, runs, searches and studies, the most recently active first."""
        lines = [entry.line for entry in place.listed().values()]
        lines.sort(key=lambda line: (line.updated, line.id), reverse=True)
        chosen = [line for line in lines if not kind or line.kind in kind]
        counts = Counter(line.kind for line in lines)
        return ThingPage.model_construct(things=tuple(chosen[:limit]), kinds=dict(counts))

    @router.get("/trash")
    def list_deleted() -> list[ThingLine]:
        """List what was deleted and can be restored, the latest first."""
        lines = [read_line(thing) for thing in Workspace(place.runs_dir).deleted()]
        return sorted(lines, key=lambda line: line.updated, reverse=True)

    @router.get("/things/{thing}")
    def read_thing(thing: str) -> ThingDetail:
        """Return a thing with the records of its kind."""
        found, reader = place.thing(thing), _Reader()
        line = read_line(found)
        part = _PARTS[found.kind](found, line.is_running, reader)
        return ThingDetail(
            line=line,
            path=str(found.path),
            command=f"telic show {found.name}",
            damage=tuple(reader.damage),
            **{found.kind: part},
        )

    @router.get("/things/{thing}/iterations/{number}")
    def read_iteration(
        thing: str, number: Annotated[int, PathPart(ge=0, le=10**9)]
    ) -> IterationDetail:
        """Return an iteration of a session: reward, change, verdicts, lessons."""
        place.iteration(thing, number)
        return _iteration(place.session(thing), number)

    @router.get("/things/{thing}/tracking")
    def read_tracking(thing: str) -> list[TrackingReport]:
        """Return the evaluations of the trackers of a run by step, each with its worst clips."""
        members = RunFolder(place.thing(thing, "run").path).members()
        reports = sorted(
            (report for member in members for report in reports_of(member)),
            key=lambda report: (report.step, report.member),
        )
        return [
            report.model_copy(update={"clips": tuple(report.worst(_WORST_CLIPS))})
            for report in reports
        ]

    return router
