"""The index of tasks and studies: add to it, choose the active pair, keep its statuses current."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from telic.errors import UnknownName
from telic.studies.documents.registry import (
    Active,
    Project,
    Registry,
    StudyEntry,
    StudyStatus,
    TaskEntry,
)
from telic.studies.folder import STATE_FOLDER, StudyFolder, read_registry, registry_file
from telic.studies.locking import study_lock
from telic.studies.yaml_files import write_yaml


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
