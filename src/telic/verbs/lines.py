"""Rows for sessions, runs, searches and studies in the lists of all interfaces."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from telic import session as sessions
from telic.core.config import Record
from telic.errors import TelicError
from telic.llm import work_orders
from telic.session.evidence import check_end
from telic.session.records import PASSES, is_running, session_state
from telic.storage.files import read_fields, read_record
from telic.storage.layout import DAMAGED, RunFolder, SessionFolder
from telic.storage.workspace import Artifact, ArtifactKind
from telic.training.folder import run_facts, status_of

STUDY_MARK = "~"
"""separates task and study in an id, and is not allowed in names"""


def artifact_id(artifact: Artifact) -> str:
    """Return the id of an artifact in the API."""
    return artifact.name.replace("/", STUDY_MARK)


class ArtifactSummary(Record):
    """One row of a list."""

    id: str
    kind: ArtifactKind
    title: str
    """intent, method, or task"""
    name: str | None = None
    """name set by a person, like the tags and the note"""
    tags: tuple[str, ...] = ()
    note: str | None = None
    env: str | None
    state: str
    limits: tuple[str, ...] = ()
    """qualifications of a pass, such as one training seed"""
    is_running: bool
    score: float | None = None
    """score from a judge, in [0, 1]"""
    best_return: float | None = None
    iterations: int | None = None
    members: int | None = None
    steps: int | None = None
    """number of environment steps trained"""
    seconds: float | None = None
    """training time"""
    seeds: tuple[int, ...] = ()
    group: str | None = None
    """equal for runs that differ only in seeds"""
    origin: str | None = None
    """session from which it was branched"""
    labels: int = 0
    disputed: int = 0
    """number of labels that disagree with the judge"""
    open_orders: int = 0
    """number of unanswered work orders"""
    error: str | None = None
    updated: float
    """Unix time in seconds"""


class ArtifactAbout(Record):
    """User-defined name, tags and note of an artifact, stored as about.json in its folder."""

    name: str | None = Field(default=None, max_length=200)
    tags: tuple[Annotated[str, Field(min_length=1, max_length=60)], ...] = Field(
        default=(), max_length=30
    )
    note: str | None = Field(default=None, max_length=5000)


def read_line(artifact: Artifact) -> ArtifactSummary:
    """Read the row of an artifact. Errors are reported in the row, not raised."""
    try:
        line, about = _LINES[artifact.kind](artifact), _read_about(artifact)
        return line if about is None else line.model_copy(update=about.model_dump())
    except TelicError as error:
        facts = {"error": error.message, "is_running": False}
        return _line(artifact, artifact_id(artifact), DAMAGED, **facts)


def _line(
    artifact: Artifact, title: str, state: str, env: str | None = None, **facts: Any
) -> ArtifactSummary:
    known = {"id": artifact_id(artifact), "kind": artifact.kind, "updated": artifact.last_active}
    return ArtifactSummary.model_validate(
        {
            **known,
            "is_running": artifact.is_running,
            **facts,
            "title": title,
            "state": state,
            "env": env,
        }
    )


def _read_about(artifact: Artifact) -> ArtifactAbout | None:
    """Read the name, tags and note of an artifact."""
    file = artifact.path / "about.json"
    return read_record(file, ArtifactAbout) if file.exists() else None


_JUDGED: dict[str, Any] = {
    "change": str | None,
    "score": float | None,
    "passed": bool | int | None,
    "best": str | int | None,
    "tags": list[str] | None,
    "steps": int | None,
    "failure": str | None,
}


def judged_facts(folder: SessionFolder) -> list[dict[str, Any]]:
    """Return the facts about each judged iteration that are displayed in lists."""
    files = {number: folder.iteration(number).judgment for number in folder.iterations()}
    read = ((number, file) for number, file in files.items() if file.exists())
    return [read_fields(file, **_JUDGED) | {"number": number} for number, file in read]


def _session(artifact: Artifact) -> ArtifactSummary:
    folder = SessionFolder(artifact.path)
    request = read_fields(folder.config, intent=str, env=str)
    judged = [each for each in judged_facts(folder) if each.get("number") != 0]  # 0: its origin
    origin = labels = None
    if folder.origin.exists():
        origin = sessions.branch.origin_of(folder)
    if folder.labels.exists():
        read = sessions.labels.EpisodeLabel.read(folder.labels)
        labels = sessions.labels.effective_labels(read)
    scores = [each["score"] for each in judged if each["score"] is not None]
    state, limits = _session_state(folder), None
    known: dict[str, Any] = {"score": max(scores, default=None), "seconds": None}
    known["steps"] = sum(each.get("steps") or 0 for each in judged) or None
    if folder.summary.exists():  # summary of the final policy
        kinds = {"steps": int | None, "seconds": float | None, "score": float | None}
        known |= {name: read_fields(folder.summary, **kinds)[name] for name in kinds}
        if check_end(folder, [folder.summary]) != (None, None):
            known["score"] = None
        if state in PASSES:
            limits = read_fields(folder.summary, limits=list[str] | None)["limits"]
    return _line(
        artifact,
        request["intent"],
        state,
        request["env"],
        limits=tuple(limits or ()),
        **{name: known[name] for name in ("score", "steps", "seconds")},
        iterations=len(judged),
        origin=origin.session if origin else None,
        labels=len(labels or ()),
        disputed=sum(label.disagrees for label in labels or ()),
        open_orders=open_orders(artifact.path),
    )


def _session_state(folder: SessionFolder) -> str:
    """Return the state of a session, even if it never ran or if a stop was requested."""
    state = session_state(folder)
    if folder.stop.exists() and is_running(folder):
        return "stopping"
    return "not started" if state == "interrupted" and not folder.events.exists() else state


def open_orders(path: Path) -> int:
    """Return the number of unanswered work orders of a session or search."""
    if not (path / "orders").is_dir():
        return 0
    try:
        lines = work_orders.list_orders(path / "orders")
        return sum(line.state in ("open", "rejected") for line in lines)
    except TelicError:  # the artifact's page reports the error
        return 0


def _run(artifact: Artifact) -> ArtifactSummary:
    facts = run_facts(RunFolder(artifact.path))
    names = [member.name for member in RunFolder(artifact.path).members()]
    seeds = [name.rpartition("_seed_") for name in names]
    configs = sorted({config for config, _, _ in seeds})
    return _line(
        artifact,
        ", ".join(configs) or artifact.name,
        facts["status"],
        facts["env"],
        best_return=facts["best_return"],
        members=len(names),
        steps=facts["total_timesteps"],
        seconds=facts["training_time_s"],
        seeds=tuple(sorted({int(seed) for _, _, seed in seeds})),
        group=f"{facts['env']} {' '.join(configs)}",
        error=facts["error"],
    )


_Ended = Literal["completed", "stopped", "failed"]


def state_of(artifact: Artifact) -> str:
    """Return the state or the outcome of a session, run or search."""
    if artifact.kind == "session":
        return session_state(SessionFolder(artifact.path))
    if artifact.kind == "run":
        return status_of(RunFolder(artifact.path))
    if artifact.is_running:
        return "running"
    summary = artifact.path / "summary.json"
    return read_fields(summary, outcome=_Ended)["outcome"] if summary.exists() else "interrupted"


def _search(artifact: Artifact) -> ArtifactSummary:
    request = read_fields(artifact.path / "search.json", method=str, env=str)
    return _line(
        artifact,
        request["method"],
        state_of(artifact),
        request["env"],
        group=f"{request['env']} {request['method']}",
        open_orders=open_orders(artifact.path),
    )


_LINES: dict[ArtifactKind, Callable[[Artifact], ArtifactSummary]] = {
    "session": _session,
    "run": _run,
    "search": _search,
    "study": lambda artifact: _line(artifact, artifact.name, "study", is_running=False),
}
