"""Where everything of a study lies: the index of studies, and every path inside .telic/."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field

from telic.core.text import is_dict
from telic.errors import UnknownName
from telic.storage.files import as_record
from telic.studies.canonical import SLUG
from telic.studies.documents.adapter import Adapter
from telic.studies.documents.base import DocumentPart, read_document, read_yaml, write_yaml
from telic.studies.documents.contract import Contract
from telic.studies.documents.metrics import MetricSpec, Protocol
from telic.studies.errors import StudyError

STATE_FOLDER = ".telic"
StudyStatus = Literal["open", "paused", "closed"]
StudyKind = Literal["external", "reward_loop", "policy_search", "tracking", "generic"]


class Active(DocumentPart):
    """The pair that every command uses unless it names another."""

    task_id: str = Field(pattern=SLUG)
    study_id: str = Field(pattern=SLUG)


class Registry(DocumentPart):
    """Tasks and studies of a repository: the folders, and the active pair of registry.yaml."""

    active: Active
    tasks: dict[str, tuple[str, ...]]
    """names of the studies by task"""


def registry_file(root: Path) -> Path:
    """Return where a repository names its active study."""
    return root.absolute() / STATE_FOLDER / "registry.yaml"


def read_registry(root: Path) -> Registry:
    """Return the studies of a repository; raises StudyError E_NO_STUDY when there is none."""
    path = registry_file(root)
    if not path.is_file():
        raise StudyError(
            "E_NO_STUDY",
            f"{root} has no studies.",
            hint="Create one with: telic study init --task NAME --study NAME",
        )
    tasks: dict[str, tuple[str, ...]] = {}
    for ledger in sorted(path.parent.glob("tasks/*/studies/*/ledger.jsonl")):
        task, study = ledger.parts[-4], ledger.parts[-2]
        tasks[task] = (*tasks.get(task, ()), study)
    data = read_yaml(path)
    active = as_record(data.get("active") if is_dict(data) else None, Active, str(path))
    return Registry(active=active, tasks=tasks)


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
        active = registry.active
        task_id = task or active.task_id
        if task_id not in registry.tasks:
            raise UnknownName("task", task_id, list(registry.tasks))
        studies = registry.tasks[task_id]
        if study is None:
            is_active = task_id == active.task_id
            study = active.study_id if is_active or len(studies) != 1 else studies[0]
        if study not in studies:
            raise UnknownName("study", study, list(studies))
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


def activate(folder: StudyFolder) -> None:
    """Make a study the active one of its repository."""
    active = {"task_id": folder.task_id, "study_id": folder.study_id}
    write_yaml(folder.registry, {"schema": "telic.registry/1", "active": active})
