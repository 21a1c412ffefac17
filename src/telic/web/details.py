"""One thing: what was asked, how far it is, what it came to. The records are those on disk.

A file that is missing is None; one that cannot be read is told in `damage`, and hides nothing else.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from fastapi import APIRouter
from pydantic import BaseModel, ValidationError

from telic.authors.candidate import RewardCandidate
from telic.authors.request import SessionConfig
from telic.core.config import Record
from telic.core.text import is_dict
from telic.core.verb import as_data
from telic.errors import TelicError
from telic.search.records import SearchConfig, SearchSummary
from telic.search.report import page_data
from telic.search.runner import load
from telic.session.branch import BranchOrigin
from telic.session.certificate import Certificate
from telic.session.control import CriteriaApproval, CriteriaProposal, Note, read_notes
from telic.session.labels import EpisodeLabel, Veto, read_labels, read_vetoes
from telic.session.records import SessionSummary, Waiting, read_summary
from telic.session.robustness import RobustnessCard
from telic.storage.facts import JudgedFacts, ManifestFacts
from telic.storage.files import plain, read_facts, read_json_lines, read_record
from telic.storage.layout import RunFolder, SessionFolder
from telic.storage.workspace import Thing
from telic.training.folder import describe
from telic.training.job import TrainJob
from telic.verbs.lines import ThingLine, open_orders, thing_id
from telic.verbs.study_runs import status
from telic.verbs.study_server import StudyView, get_state
from telic.web.place import WebPlace

Model = TypeVar("Model", bound=BaseModel)
Value = TypeVar("Value")
_LAST_TOLD = ("session.forecast", "session.spent", "session.asked")
"""events of which the newest holds"""


class IterationLine(Record):
    """One try of a session, as its tree and its strip show it."""

    number: int
    parent: int | None
    change: str
    is_judged: bool
    passed: bool | None = None
    score: float | None = None
    best: str | None = None
    tags: tuple[str, ...] = ()
    steps: int | None = None
    training_s: float | None = None
    judging_s: float | None = None
    failure: str | None = None


class SessionDetail(Record):
    """A session as its page shows it."""

    config: SessionConfig | None
    asked: dict[str, Any] | None
    """the criteria read from the intent, doubts and words that were not understood"""
    forecast: dict[str, Any] | None
    """the newest forecast"""
    spending: dict[str, Any] | None
    """the newest SessionSpent"""
    iterations: tuple[IterationLine, ...]
    summary: SessionSummary | None
    """of a session that goes on, nothing"""
    certificate: Certificate | None
    robustness: RobustnessCard | None
    waiting: Waiting | None
    proposal: CriteriaProposal | None
    """criteria that wait for a person, or did"""
    approval: CriteriaApproval | None
    notes: tuple[Note, ...]
    labels: tuple[EpisodeLabel, ...]
    vetoes: tuple[Veto, ...]
    origin: BranchOrigin | None
    open_orders: int
    """questions that wait for an answer"""


class RunDetail(Record):
    """A run as its page shows it."""

    facts: dict[str, Any]
    job: TrainJob | None
    command: str | None


class SearchDetail(Record):
    """A search as its page shows it."""

    config: SearchConfig | None
    summary: SearchSummary | None


class StudyDetail(Record):
    """A study as its page shows it."""

    view: StudyView | None
    state: dict[str, Any] | None


class ThingDetail(Record):
    """Something that was made; the part of its kind is there, the others are None."""

    line: ThingLine
    path: str
    command: str
    """shows it in a terminal"""
    session: SessionDetail | None = None
    run: RunDetail | None = None
    search: SearchDetail | None = None
    study: StudyDetail | None = None
    damage: tuple[str, ...] = ()
    """files that cannot be read, and why"""


class SearchMapData(Record):
    """What the map shows; `telic report` writes the same into one file."""

    search: str
    data: dict[str, Any]


class PatientReader:
    """Reads what is there, and remembers what could not be read."""

    def __init__(self) -> None:
        self.damage: list[str] = []

    def record(self, path: Path, kind: type[Model]) -> Model | None:
        """Return the record in a file; None: it is missing or damaged."""
        return self.tried(lambda: read_record(path, kind)) if path.exists() else None

    def tried(self, read: Callable[[], Value]) -> Value | None:
        """Return what a function reads; None: it could not."""
        try:
            return read()
        except TelicError as error:
            self.damage.append(error.message)
        except ValidationError as error:
            self.damage.append(f"What was read is no {error.title}.")
        return None


def _session(thing: Thing, line: ThingLine, reader: PatientReader) -> SessionDetail:
    folder = SessionFolder(thing.path)
    told = reader.tried(lambda: _newest(folder)) or {}
    has_ended = folder.summary.exists() and not line.is_running
    return SessionDetail(
        config=reader.record(folder.config, SessionConfig),
        asked=told.get("session.asked"),
        forecast=told.get("session.forecast"),
        spending=told.get("session.spent"),
        iterations=tuple(_iteration(folder, number, reader) for number in folder.iterations()),
        summary=reader.tried(lambda: read_summary(folder, thorough=False)) if has_ended else None,
        certificate=reader.record(folder.certificate, Certificate),
        robustness=reader.record(folder.robustness, RobustnessCard),
        waiting=reader.record(folder.waiting, Waiting) if line.is_running else None,
        proposal=reader.record(folder.criteria, CriteriaProposal),
        approval=reader.record(folder.approval, CriteriaApproval),
        notes=tuple(reader.tried(lambda: read_notes(folder)) or ()),
        labels=tuple(reader.tried(lambda: read_labels(folder)) or ()),
        vetoes=tuple(reader.tried(lambda: read_vetoes(folder)) or ()),
        origin=reader.record(folder.origin, BranchOrigin),
        open_orders=open_orders(folder.path),
    )


def _newest(folder: SessionFolder) -> dict[str, dict[str, Any]]:
    rows = read_json_lines(folder.events)
    return {row["event"]: row for row in rows if is_dict(row) and row.get("event") in _LAST_TOLD}


def _iteration(folder: SessionFolder, number: int, reader: PatientReader) -> IterationLine:
    files = folder.iteration(number)
    candidate = reader.record(files.candidate, RewardCandidate)
    judged = None
    if files.judgment.exists():
        judged = reader.tried(lambda: read_facts(files.judgment, JudgedFacts))
    known: dict[str, Any] = {"parent": None, "change": "", **(judged or {})}
    if candidate is not None and judged is None:
        known["parent"] = candidate.parent
    known["change"] = known["change"] or (candidate.change if candidate else "")
    known |= {"number": number, "is_judged": judged is not None, "tags": known.get("tags") or ()}
    shown = {name: known[name] for name in IterationLine.model_fields if name in known}
    return IterationLine.model_validate(shown)


def _run(thing: Thing, line: ThingLine, reader: PatientReader) -> RunDetail:
    run = RunFolder(thing.path)
    manifest = None
    if run.manifest.exists():
        manifest = reader.tried(lambda: read_facts(run.manifest, ManifestFacts))
    return RunDetail(
        facts=reader.tried(lambda: describe(run)) or {},
        job=reader.record(run.config, TrainJob),
        command=manifest.get("command") if manifest else None,
    )


def _search(thing: Thing, line: ThingLine, reader: PatientReader) -> SearchDetail:
    return SearchDetail(
        config=reader.record(thing.path / "search.json", SearchConfig),
        summary=reader.record(thing.path / "summary.json", SearchSummary),
    )


def _study(thing: Thing, line: ThingLine, reader: PatientReader) -> StudyDetail:
    task, _, study = thing.name.partition("/")
    root = thing.path.absolute().parents[4]
    view = reader.tried(lambda: get_state(root=root, task=task, study=study))
    if view is None:
        return StudyDetail(view=None, state=None)
    return StudyDetail(view=view, state=as_data(status(root=root, task=task, study=study)))


_PARTS: dict[str, Callable[[Thing, ThingLine, PatientReader], Any]] = {
    "session": _session,
    "run": _run,
    "search": _search,
    "study": _study,
}


def read_detail(place: WebPlace, name: str) -> ThingDetail:
    """Return everything that the page of a thing begins with."""
    thing = place.thing(name)
    entry = place.index.entry(thing_id(thing))
    assert entry is not None
    reader = PatientReader()
    part = _PARTS[thing.kind](thing, entry.line, reader)
    return ThingDetail(
        line=entry.line,
        path=str(thing.path),
        command=f"telic show {thing.name}",
        damage=tuple(reader.damage),
        **{thing.kind: part},
    )


class SearchMaps:
    """Maps of every policy that was tried, until the records that they rest on change."""

    def __init__(self) -> None:
        self._made: dict[Path, tuple[tuple[float, ...], dict[str, Any]]] = {}
        self._turn = threading.Lock()

    def of(self, folder: Path) -> dict[str, Any]:
        """Return the map of a search; policies are played for it, which takes seconds."""
        files = [*folder.glob("run_*/*.jsonl"), folder / "summary.json"]
        stamp = tuple(sorted(file.stat().st_mtime for file in files if file.exists()))
        with self._turn:
            known = self._made.get(folder)
            if known is None or known[0] != stamp:
                data = plain(page_data(load(folder.parent, folder.name)))
                known = self._made[folder] = (stamp, data)
            return known[1]


def routes(place: WebPlace) -> APIRouter:
    """Return the routes of single things."""
    router, maps = APIRouter(), SearchMaps()

    @router.get("/things/{thing}", tags=["things"])
    def read_thing(thing: str) -> ThingDetail:
        """Return what a thing's page begins with."""
        return read_detail(place, thing)

    @router.get("/things/{thing}/map", tags=["searches"])
    def read_map(thing: str) -> SearchMapData:
        """Return every policy that a search tried, as a point of a plane."""
        return SearchMapData(search=thing, data=maps.of(place.thing(thing, "search").path))

    return router
