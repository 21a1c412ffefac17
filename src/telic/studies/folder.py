"""Where everything of a study lies: the index of studies, and every path inside .telic/."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field

from telic.errors import UnknownName
from telic.storage.locks import taking_turns
from telic.studies.canonical import SLUG
from telic.studies.documents.adapter import Adapter
from telic.studies.documents.base import Document, DocumentPart, read_document, write_yaml
from telic.studies.documents.contract import Contract
from telic.studies.documents.metrics import MetricSpec, Protocol
from telic.studies.errors import StudyError

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

    def with_task(self, task: TaskEntry) -> Registry:
        """Return it with a task in place of the one of its name, or as the last one."""
        tasks = {each.task_id: each for each in self.tasks} | {task.task_id: task}
        return self.model_copy(update={"tasks": tuple(tasks.values())})


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


# ---------------------------------------------------------------------------- the paths


class _Inside:
    """A place in one of a study's folders."""

    def __init__(self, folder: str, name: str) -> None:
        self._folder, self._name = folder, name

    def __get__(self, held: StudyFolder, kind: type[StudyFolder]) -> Path:
        folder: Path = getattr(held, self._folder)
        return folder / self._name


@dataclass(frozen=True)
class StudyFolder:
    """The files of one study of one task in a repository; nothing is read until asked for."""

    root: Path
    """the repository"""
    task_id: str
    study_id: str

    @classmethod
    def find(cls, root: Path, task: str | None = None, study: str | None = None) -> StudyFolder:
        """Return the active study of a repository, or the named one.

        A task alone means its only study, or the active one. Raises StudyError E_NO_STUDY when the
        repository has none, UnknownName when there is none of that name.
        """
        registry = read_registry(root)
        task_id = task or registry.active.task_id
        entry = registry.task(task_id)
        if entry is None:
            raise UnknownName("task", task_id, [each.task_id for each in registry.tasks])
        studies = [each.study_id for each in entry.studies]
        if study is None:
            is_active = task_id == registry.active.task_id
            study = registry.active.study_id if is_active or len(studies) != 1 else studies[0]
        if study not in studies:
            raise UnknownName("study", study, studies)
        return cls(root.absolute(), task_id, study)

    @property
    def name(self) -> str:
        """What the ledger calls it: task/study."""
        return f"{self.task_id}/{self.study_id}"

    # ------------------------------------------------------------------ the repository

    state_root = _Inside("root", STATE_FOLDER)
    """the folder of all studies"""
    registry = _Inside("state_root", "registry.yaml")
    locks = _Inside("state_root", "locks")

    # ------------------------------------------------------------------ the task

    @property
    def task(self) -> Path:
        """Folder of the task."""
        return self.state_root / "tasks" / self.task_id

    task_card = _Inside("task", "task_card.md")
    adapter = _Inside("task", "adapter.yaml")

    # ------------------------------------------------------------------ the study

    @property
    def path(self) -> Path:
        """Folder of the study."""
        return self.task / "studies" / self.study_id

    contract = _Inside("path", "contract.yaml")
    metric_spec = _Inside("path", "metric_spec.yaml")
    protocol = _Inside("path", "eval_protocol.yaml")
    ledger = _Inside("path", "ledger.jsonl")
    """the truth"""
    state = _Inside("path", "state.json")
    """a summary of the ledger"""
    report = _Inside("path", "report.md")
    report_page = _Inside("path", "report.html")
    stop_file = _Inside("path", "STOP")
    """a file of this name pauses the study"""
    candidates = _Inside("path", "candidates")
    runs = _Inside("path", "runs")
    evidence = _Inside("path", "evidence")

    def contract_version(self, version: int) -> Path:
        """Return where an agreed version of the contract is kept."""
        return self.path / "contract.history" / f"{version}.yaml"

    def candidate_file(self, candidate_id: str, revision: int = 1) -> Path:
        """Return the candidate.json of a revision; attached files lie beside it."""
        return self.candidates / candidate_id / "revisions" / str(revision) / "candidate.json"

    def run(self, run_id: str) -> Path:
        """Return the folder of a run."""
        return self.runs / run_id

    def evidence_file(self, evidence_id: str) -> Path:
        """Return the file of a piece of evidence."""
        return self.evidence / f"{evidence_id}.json"

    # ------------------------------------------------------------------ what the files hold

    def read_contract(self) -> Contract:
        """Return the contract as it is on disk."""
        return read_document(self.contract, Contract)

    def read_adapter(self) -> Adapter:
        """Return the task's adapter."""
        return read_document(self.adapter, Adapter)

    def read_metric_spec(self) -> MetricSpec:
        """Return what is measured."""
        return read_document(self.metric_spec, MetricSpec)

    def read_protocol(self) -> Protocol:
        """Return how results are measured."""
        return read_document(self.protocol, Protocol)


# ---------------------------------------------------------------------------- changing the index


def add_study(folder: StudyFolder, entry: StudyEntry, title: str) -> Registry:
    """Enter a study (and its task, where new) and make it the active one; twice is once."""
    with taking_turns(folder.locks / "registry.lock"):
        before = read_registry(folder.root) if folder.registry.is_file() else None
        task = before.task(folder.task_id) if before is not None else None
        grown = task or TaskEntry(
            task_id=folder.task_id,
            title=title,
            card=str(folder.task_card.relative_to(folder.state_root)),
            adapter=str(folder.adapter.relative_to(folder.state_root)),
        )
        if grown.study(entry.study_id) is None:
            grown = grown.model_copy(update={"studies": (*grown.studies, entry)})
        active = Active(task_id=folder.task_id, study_id=folder.study_id)
        if before is None:
            root = folder.root.absolute()
            vcs = "git" if (root / ".git").exists() else "none"
            project = Project(name=root.name, vcs=vcs)
            registry = Registry(project=project, active=active, tasks=(grown,))
        else:
            registry = before.with_task(grown).model_copy(update={"active": active})
        if registry != before:
            write_yaml(folder.registry, registry.as_data())
        return registry


def set_status(folder: StudyFolder, status: StudyStatus) -> None:
    """Keep the index in step with the ledger's word on a study."""
    with taking_turns(folder.locks / "registry.lock"):
        held = read_registry(folder.root)
        task = held.task(folder.task_id)
        if task is None:
            raise UnknownName("task", folder.task_id, [each.task_id for each in held.tasks])
        studies = tuple(
            each.model_copy(update={"status": status}) if each.study_id == folder.study_id else each
            for each in task.studies
        )
        changed = held.with_task(task.model_copy(update={"studies": studies}))
        write_yaml(folder.registry, changed.as_data())
