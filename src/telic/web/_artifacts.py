"""Lists and pages of artifacts, read directly from the records on disk.

Missing files yield None. Unreadable files are listed in `damage` and do not affect other records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from fastapi import APIRouter, Body, Query
from fastapi import Path as PathPart
from pydantic import BaseModel, ValidationError

from telic.authors.candidate import RewardCandidate, SessionIteration, reward_text, weights_in
from telic.authors.request import SessionConfig
from telic.core.config import Record
from telic.core.verb import as_data
from telic.envs.spec import RewardSpec
from telic.errors import TelicError, UnknownName, UsageError
from telic.judges.validation import JudgeValidation
from telic.llm import work_orders
from telic.llm.work_orders import ORDERS, WorkOrder, WorkOrderRow
from telic.search.records import SearchConfig, SearchFolder, SearchRunFolder, SearchSummary
from telic.session._report_sections import RewardTermLine, reward_terms
from telic.session.branch import BranchOrigin
from telic.session.certificate import Certificate
from telic.session.control import CriteriaApproval, CriteriaProposal, DeliveredNotes, Note
from telic.session.labels import EpisodeLabel, Veto
from telic.session.records import Checkpoint, SessionSummary, SessionWait, verified
from telic.session.robustness import RobustnessCard, summary_line
from telic.storage.files import (
    as_record,
    json_text,
    read_fields,
    read_json_lines,
    read_record,
    write_json,
)
from telic.storage.layout import RunFolder, SessionFolder
from telic.storage.reading import read_text
from telic.storage.workspace import WORK, Artifact, ArtifactKind, Workspace
from telic.tracking.reports import TrackingReport, reports_of
from telic.training.job import TrainJob
from telic.verbs.lines import ArtifactAbout, ArtifactSummary, artifact_id, open_orders, read_line
from telic.verbs.study_runs import status
from telic.web._files import file_key
from telic.web._gate import API
from telic.web._place import ListedArtifact, WebPlace

Model = TypeVar("Model", bound=BaseModel)
Value = TypeVar("Value")
_WORST_CLIPS = 12
_LAST = 1 << 62
_SEARCHED = ("iter_*/reward_fn.py", "judge_fn.py", "*_seed_*/reward_fn.py", "orders/*/*.md")
"""files that the text search covers"""
_MAX_FOUND, _MAX_BYTES = 100, 1 << 20


class ArtifactPage(Record):
    """One page of the list of artifacts that is sorted by most recent activity."""

    artifacts: tuple[ArtifactSummary, ...]
    kinds: dict[str, int]
    """number of artifacts by kind"""


class IterationSummary(Record):
    """Summary of a session's iteration."""

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
    """Details of a session."""

    config: SessionConfig | None
    iterations: tuple[IterationSummary, ...]
    summary: SessionSummary | None
    """summary, or None while the session is running"""
    certificate: Certificate | None
    robustness: RobustnessCard | None
    robustness_words: str | None
    validation: JudgeValidation | None
    """results of reward and judge on examples of known quality"""
    waiting: SessionWait | None
    proposal: CriteriaProposal | None
    """criteria submitted for approval"""
    approval: CriteriaApproval | None
    notes: tuple[Note, ...]
    labels: tuple[EpisodeLabel, ...]
    vetoes: tuple[Veto, ...]
    origin: BranchOrigin | None
    open_orders: int
    """number of unanswered work orders"""


class RunDetail(Record):
    """Details of a training run."""

    job: TrainJob | None
    command: str | None


class SearchCurve(Record):
    """Learning curve of one search run, by iteration."""

    run: int
    episodes: tuple[int, ...]
    incumbent: tuple[float, ...]
    """return of the best policy so far"""
    selected: tuple[float, ...]
    """return of the policy evaluated in the iteration"""
    notes: tuple[str, ...]


class SearchDetail(Record):
    """Details of a policy search."""

    config: SearchConfig | None
    summary: SearchSummary | None
    curves: tuple[SearchCurve, ...]


class StudyDetail(Record):
    """Details of a study."""

    state: dict[str, Any] | None
    """state as printed by `telic study status --json`, or None if unreadable"""


class ArtifactDetail(Record):
    """Details of an artifact, including the records specific to its kind."""

    line: ArtifactSummary
    path: str
    command: str
    """terminal command that shows it"""
    session: SessionDetail | None = None
    run: RunDetail | None = None
    search: SearchDetail | None = None
    study: StudyDetail | None = None
    damage: tuple[str, ...] = ()
    """reasons why files could not be read"""


class TermChange(Record):
    """Reward term that differs between a reward and its parent."""

    name: str
    change: Literal["new", "gone", "weight"]
    before: float | None
    after: float | None


class RewardChange(Record):
    """Source code of a reward and of its parent reward."""

    parent: int
    before: str
    after: str
    terms: tuple[TermChange, ...]


class IterationDetail(Record):
    """Reward, changes and verdicts of an iteration of a session."""

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
    """feedback that this iteration addresses"""
    damage: tuple[str, ...]


class GalleryCard(Record):
    """Card that represents an artifact with a video in the gallery."""

    line: ArtifactSummary
    video: str
    """URL of the median episode's video"""
    low: float | None = None
    """lower confidence bound of the score"""


class TextMatch(Record):
    """A match of the text search."""

    line: ArtifactSummary
    where: str
    """intent or file name"""
    text: str
    """matching line of the file"""


class AnsweredOrder(Record):
    """An accepted answer."""

    order: str


class _Reader:
    """Reader that collects the errors of unreadable files."""

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


def _session(artifact: Artifact, is_running: bool, reader: _Reader) -> SessionDetail:
    folder = SessionFolder(artifact.path)
    has_ended = folder.summary.exists() and not is_running
    card = reader.record(folder.robustness, RobustnessCard)
    return SessionDetail(
        config=reader.record(folder.config, SessionConfig),
        iterations=tuple(_line(folder, number, reader) for number in folder.iterations()),
        summary=reader.attempt(lambda: verified(folder)) if has_ended else None,
        certificate=reader.record(folder.certificate, Certificate),
        robustness=card,
        robustness_words=summary_line(card) if card else None,
        validation=reader.record(folder.trial, JudgeValidation),
        waiting=reader.record(folder.waiting, SessionWait) if is_running else None,
        proposal=reader.record(folder.criteria, CriteriaProposal),
        approval=reader.record(folder.approval, CriteriaApproval),
        notes=tuple(reader.attempt(lambda: Note.read(folder.notes)) or ()),
        labels=tuple(reader.attempt(lambda: EpisodeLabel.read(folder.labels)) or ()),
        vetoes=tuple(reader.attempt(lambda: Veto.read(folder.vetoes)) or ()),
        origin=reader.record(folder.origin, BranchOrigin),
        open_orders=open_orders(folder.path),
    )


def _line(folder: SessionFolder, number: int, reader: _Reader) -> IterationSummary:
    files = folder.iteration(number)
    judged = reader.record(files.judgment, SessionIteration)
    known = judged or reader.record(files.candidate, RewardCandidate)
    names = IterationSummary.model_fields.keys() - {"number", "is_judged"}
    if judged is None:
        names = {"parent", "change"} if known else set[str]()
    values = {name: getattr(known, name) for name in names}
    return IterationSummary(number=number, is_judged=judged is not None, **values)


def _run(artifact: Artifact, is_running: bool, reader: _Reader) -> RunDetail:
    run = RunFolder(artifact.path)
    command = None
    if run.manifest.exists():
        manifest = reader.attempt(lambda: read_fields(run.manifest, command=str | None))
        command = manifest["command"] if manifest else None
    return RunDetail(job=reader.record(run.config, TrainJob), command=command)


def _search(artifact: Artifact, is_running: bool, reader: _Reader) -> SearchDetail:
    return SearchDetail(
        config=reader.record(artifact.path / "search.json", SearchConfig),
        summary=reader.record(artifact.path / "summary.json", SearchSummary),
        curves=tuple(reader.attempt(lambda: _search_curves(SearchFolder(artifact.path))) or ()),
    )


def _search_curves(folder: SearchFolder) -> list[SearchCurve]:
    """Return the iterations of each run, read from its journal."""
    curves: list[SearchCurve] = []
    for path in sorted(folder.path.glob("run_[0-9]*")):
        rows = list(SearchRunFolder(path).read())
        curves.append(
            SearchCurve(
                run=int(path.name.removeprefix("run_")),
                episodes=tuple(row.episodes for row in rows),
                incumbent=tuple(row.incumbent_mean for row in rows),
                selected=tuple(row.candidate(row.selected).mean for row in rows),
                notes=tuple(" ".join(filter(None, (row.winner, row.note))) for row in rows),
            )
        )
    return curves


def _study(artifact: Artifact, is_running: bool, reader: _Reader) -> StudyDetail:
    task, _, study = artifact.name.partition("/")
    where = {"root": artifact.path.absolute().parents[4], "task": task, "study": study}
    return StudyDetail(state=reader.attempt(lambda: as_data(status(**where))))


_PARTS: dict[str, Callable[[Artifact, bool, _Reader], Any]] = {
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
        step = score.step if score else _LAST
        terms = tuple(reader.attempt(lambda: reward_terms(best, step)) or ())
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


def _gallery_video(artifact: Artifact) -> str | None:
    """Return the URL of an artifact's representative video, or None if it has no video."""
    path = artifact.path / "report" / "median.mp4"
    if artifact.kind == "run":
        videos = [video for each in RunFolder(artifact.path).members() for video in each.videos()]
        path = max(videos, key=lambda x: (x.label == "median", x.step)).path if videos else path
    if artifact.kind not in ("session", "run") or not path.is_file() or path.is_symlink():
        return None
    key = file_key(str(path.relative_to(artifact.path)))
    return f"{API}/artifacts/{artifact_id(artifact)}/files/{key}"


def _gallery_card(entry: ListedArtifact) -> GalleryCard | None:
    """Return the gallery card of an artifact, or None if it has no video."""
    video, summary = _gallery_video(entry.artifact), entry.artifact.path / "summary.json"
    if video is None:
        return None
    low = None
    if entry.line.kind == "session" and summary.exists():
        with suppress(TelicError):  # a damaged session must not hide the others
            low = verified(SessionFolder(summary.parent)).low
    return GalleryCard(line=entry.line, video=video, low=low)


def _found(entry: ListedArtifact, wanted: str) -> Iterator[TextMatch]:
    """Yield the first matching line of the artifact's description and of each of its files."""
    line, home = entry.line, entry.artifact.path
    texts = {"intent": " ".join(filter(None, (line.title, line.name, line.note)))}
    for file in (path for each in _SEARCHED for path in sorted(home.glob(each))):
        if file.is_file() and not file.is_symlink() and file.stat().st_size < _MAX_BYTES:
            texts[str(file.relative_to(home))] = file.read_text(errors="replace")
    for where, text in texts.items():
        hit = next((each for each in text.splitlines() if wanted in each.lower()), None)
        if hit is not None:
            yield TextMatch(line=line, where=where, text=hit.strip()[:300])


def _library_routes(router: APIRouter, place: WebPlace) -> None:
    """Register the routes of the gallery and the text search."""

    @router.get("/gallery")
    def read_gallery(limit: Annotated[int, Query(ge=1, le=500)] = 60) -> list[GalleryCard]:
        """List artifacts that have a video, most recently active first."""
        entries = sorted(place.listed().values(), key=lambda x: x.line.updated, reverse=True)
        cards = (card for entry in entries if (card := _gallery_card(entry)) is not None)
        return [card for card, _ in zip(cards, range(limit), strict=False)]

    @router.get("/find")
    def find_text(words: Annotated[str, Query(min_length=2, max_length=200)]) -> list[TextMatch]:
        """Search intents, names, notes, rewards, judges and work orders for text."""
        entries = place.listed().values()
        found = (each for entry in entries for each in _found(entry, words.lower()))
        return [each for each, _ in zip(found, range(_MAX_FOUND), strict=False)]


def _order_routes(router: APIRouter, place: WebPlace) -> None:
    """Register the routes for work orders, which can also be answered with `telic orders`."""

    def folder_of(artifact: str) -> Path:
        return place.artifact(artifact, "session", "search").path / ORDERS

    def listed(folder: Path) -> list[WorkOrderRow]:
        lines = work_orders.list_orders(folder) if folder.is_dir() else []
        return [line for line in lines if line.state != "closed"]

    def require(folder: Path, key: str) -> None:
        known = [line.key for line in listed(folder)]
        if key not in known:
            raise UnknownName("work order", key[:200], known)

    @router.get("/artifacts/{artifact}/orders")
    def list_orders(artifact: str) -> list[WorkOrderRow]:
        """List the work orders of a session or search, open orders first."""
        return listed(folder_of(artifact))

    @router.get("/artifacts/{artifact}/orders/{key}")
    def read_order(artifact: str, key: str) -> WorkOrder:
        """Return the instructions, the request and the answer schema of a work order."""
        folder = folder_of(artifact)
        require(folder, key)
        return work_orders.read_order(folder, key)

    @router.post("/artifacts/{artifact}/orders/{key}/answer")
    def answer(artifact: str, key: str, answer: Annotated[dict[str, Any], Body()]) -> AnsweredOrder:
        """Validate an answer against the schema of its work order and submit the answer."""
        folder = folder_of(artifact)
        require(folder, key)
        try:
            work_orders.answer_order(folder, key, json_text(answer))
        except TelicError as error:
            raise UsageError(error.message, hint=error.hint) from None
        return AnsweredOrder(order=key)


def routes(place: WebPlace) -> APIRouter:
    """Return the routes for artifacts."""
    router = APIRouter(tags=["artifacts"])

    @router.get("/artifacts")
    def list_all(
        kind: Annotated[list[ArtifactKind] | None, Query(description="only these kinds")] = None,
        limit: Annotated[int | None, Query(ge=1)] = None,
    ) -> ArtifactPage:
        """List sessions, runs, searches and studies, most recently active first."""
        lines = [entry.line for entry in place.listed().values()]
        lines.sort(key=lambda line: (line.updated, line.id), reverse=True)
        chosen = [line for line in lines if not kind or line.kind in kind]
        counts = Counter(line.kind for line in lines)
        return ArtifactPage.model_construct(artifacts=tuple(chosen[:limit]), kinds=dict(counts))

    @router.get("/trash")
    def list_deleted() -> list[ArtifactSummary]:
        """List deleted artifacts that can be restored, latest first."""
        lines = [read_line(artifact) for artifact in Workspace(place.runs_dir).deleted()]
        return sorted(lines, key=lambda line: line.updated, reverse=True)

    @router.get("/artifacts/{artifact}")
    def read_artifact(artifact: str) -> ArtifactDetail:
        """Return the details of an artifact, including the records specific to its kind."""
        found, reader = place.artifact(artifact), _Reader()
        line = read_line(found)
        part = _PARTS[found.kind](found, line.is_running, reader)
        return ArtifactDetail(
            line=line,
            path=str(found.path),
            command=f"telic show {found.name}",
            damage=tuple(reader.damage),
            **{found.kind: part},
        )

    @router.get("/artifacts/{artifact}/iterations/{number}")
    def read_iteration(
        artifact: str, number: Annotated[int, PathPart(ge=0, le=10**9)]
    ) -> IterationDetail:
        """Return the reward, changes, verdicts and lessons of an iteration of a session."""
        place.iteration(artifact, number)
        return _iteration(place.session(artifact), number)

    @router.post("/artifacts/{artifact}/about")
    def describe_artifact(artifact: str, about: ArtifactAbout) -> ArtifactSummary:
        """Set the name, tags and note of a session, run or search."""
        found = place.artifact(artifact, *WORK)
        write_json(found.path / "about.json", about)
        return read_line(found)

    @router.get("/artifacts/{artifact}/tracking")
    def read_tracking(artifact: str) -> list[TrackingReport]:
        """Return the tracker evaluations of a run by step, including the worst clips."""
        members = RunFolder(place.artifact(artifact, "run").path).members()
        reports = sorted(
            (report for member in members for report in reports_of(member)),
            key=lambda report: (report.step, report.member),
        )
        return [
            report.model_copy(update={"clips": tuple(report.worst(_WORST_CLIPS))})
            for report in reports
        ]

    _library_routes(router, place)
    _order_routes(router, place)
    return router
