"""The index of tasks and studies: add to it, choose the active pair, keep its statuses current."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from telic.errors import UnknownName
from telic.studies.documents.base import Document, DocumentPart, read_document, write_yaml
from telic.studies.errors import StudyError
from telic.studies.lock import study_lock
from telic.studies.names import SLUG

if TYPE_CHECKING:
    from telic.studies.folder import StudyFolder

STATE_FOLDER = ".telic"
StudyStatus = Literal["open", "paused", "closed"]
StudyKind = Literal["external", "reward_loop", "policy_search", "tracking", "generic"]


class Project(DocumentPart):
    """The repository."""

    name: str
    vcs: Literal["git", "none"] = "none"


class Tool(DocumentPart):
    """What may work on it."""

    min_version: str | None = None


class StudyEntry(DocumentPart):
    """A study as the index knows it."""

    study_id: str = Field(pattern=SLUG)
    status: StudyStatus = "open"
    kind: StudyKind = "external"
    created_at: str


class TaskEntry(DocumentPart):
    """A task as the index knows it; card and adapter are paths inside the state folder."""

    task_id: str = Field(pattern=SLUG)
    title: str
    card: str
    adapter: str
    studies: tuple[StudyEntry, ...] = ()

    def study(self, study_id: str) -> StudyEntry | None:
        """Return the study of that name."""
        return next((each for each in self.studies if each.study_id == study_id), None)


class Active(DocumentPart):
    """The pair every command uses unless told otherwise."""

    task_id: str = Field(pattern=SLUG)
    study_id: str = Field(pattern=SLUG)


class Registry(Document):
    """registry.yaml: an index; the truth is in the folders."""

    schema_id: str = Field(default="telic.registry/1", alias="schema")
    project: Project
    layout: Literal["scoped", "legacy_flat"] = "scoped"
    tool: Tool | None = None
    active: Active
    tasks: tuple[TaskEntry, ...]

    def task(self, task_id: str) -> TaskEntry | None:
        """Return the task of that name."""
        return next((each for each in self.tasks if each.task_id == task_id), None)


def registry_file(root: Path) -> Path:
    """Return where a repository's registry is."""
    return root.absolute() / STATE_FOLDER / "registry.yaml"


def read_registry(root: Path) -> Registry:
    """Return the registry of a repository; raises StudyError E_NO_STUDY when there is none."""
    path = registry_file(root)
    if not path.is_file():
        raise StudyError(
            "E_NO_STUDY",
            f"{root} has no studies.",
            hint="Make one with: telic study init --task NAME --study NAME",
        )
    return read_document(path, Registry)


def add_study(folder: StudyFolder, entry: StudyEntry, title: str) -> Registry:
    """Enter a study (and its task, where new) and make it the active one; twice is once."""
    with _registry_lock(folder.root):
        path = registry_file(folder.root)
        held = read_registry(folder.root) if path.is_file() else None
        tasks = [] if held is None else list(held.tasks)
        task = next((each for each in tasks if each.task_id == folder.task_id), None)
        if task is None:
            task = TaskEntry(
                task_id=folder.task_id,
                title=title,
                card=str(folder.task_card.relative_to(folder.state_root)),
                adapter=str(folder.adapter.relative_to(folder.state_root)),
            )
            tasks.append(task)
        if task.study(entry.study_id) is None:
            grown = task.model_copy(update={"studies": (*task.studies, entry)})
            tasks[tasks.index(task)] = grown
        active = Active(task_id=folder.task_id, study_id=folder.study_id)
        if held is None:
            made = Registry(project=_project(folder.root), active=active, tasks=tuple(tasks))
        else:
            made = held.model_copy(update={"active": active, "tasks": tuple(tasks)})
        if made != held:
            write_yaml(path, made.as_data())
        return made


def set_status(folder: StudyFolder, status: StudyStatus) -> None:
    """Keep the index in step with the ledger's word on a study."""
    with _registry_lock(folder.root):
        held = read_registry(folder.root)
        task = held.task(folder.task_id)
        if task is None:
            raise UnknownName("task", folder.task_id, [each.task_id for each in held.tasks])
        studies = tuple(
            each.model_copy(update={"status": status}) if each.study_id == folder.study_id else each
            for each in task.studies
        )
        tasks = tuple(
            each.model_copy(update={"studies": studies}) if each is task else each
            for each in held.tasks
        )
        write_yaml(registry_file(folder.root), held.model_copy(update={"tasks": tasks}).as_data())


@contextlib.contextmanager
def _registry_lock(root: Path) -> Iterator[None]:
    with study_lock(root.absolute() / STATE_FOLDER / "locks" / "registry.lock"):
        yield


def _project(root: Path) -> Project:
    return Project(name=root.absolute().name, vcs="git" if (root / ".git").exists() else "none")
