"""Which tasks and studies a repository has, and which pair is active."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from telic.studies.documents.base import Document, Part
from telic.studies.names import SLUG

StudyStatus = Literal["open", "paused", "closed"]
StudyKind = Literal["external", "reward_loop", "policy_search", "tracking", "generic"]


class Project(Part):
    """The repository."""

    name: str
    vcs: Literal["git", "none"] = "none"


class Tool(Part):
    """What may work on it."""

    min_version: str | None = None


class StudyEntry(Part):
    """A study as the index knows it."""

    study_id: str = Field(pattern=SLUG)
    status: StudyStatus = "open"
    kind: StudyKind = "external"
    created_at: str


class TaskEntry(Part):
    """A task as the index knows it; card and adapter are paths inside the state folder."""

    task_id: str = Field(pattern=SLUG)
    title: str
    card: str
    adapter: str
    studies: tuple[StudyEntry, ...] = ()

    def study(self, study_id: str) -> StudyEntry | None:
        """Return the study of that name."""
        return next((each for each in self.studies if each.study_id == study_id), None)


class Active(Part):
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
