"""Where everything of a study lies: every path inside .telic/, and finding the active study."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from telic.errors import UnknownName
from telic.studies.documents.adapter import Adapter
from telic.studies.documents.base import read_document
from telic.studies.documents.contract import Contract
from telic.studies.documents.metrics import MetricSpec, Protocol
from telic.studies.registry import STATE_FOLDER, read_registry


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
        known = [each.study_id for each in entry.studies]
        if study is None:
            is_active = task_id == registry.active.task_id
            study = registry.active.study_id if is_active or len(known) != 1 else known[0]
        if study not in known:
            raise UnknownName("study", study, known)
        return cls(root.absolute(), task_id, study)

    @property
    def name(self) -> str:
        """What the ledger calls it: task/study."""
        return f"{self.task_id}/{self.study_id}"

    # ------------------------------------------------------------------ the repository

    state_root = _Inside("root", STATE_FOLDER)
    """the folder of all studies"""
    registry = _Inside("state_root", "registry.yaml")
    shared = _Inside("state_root", "shared")
    """schemas, extractors and templates that studies share"""
    locks = _Inside("state_root", "locks")

    @property
    def lock(self) -> Path:
        """The study's lock."""
        return self.locks / f"{self.task_id}.{self.study_id}.lock"

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
    """what the ledger comes to"""
    queue = _Inside("path", "queue.json")
    experiments = _Inside("path", "experiments.yaml")
    """the plan for people"""
    report = _Inside("path", "report.md")
    report_page = _Inside("path", "report.html")
    stop_file = _Inside("path", "STOP")
    """a file of this name pauses the study"""
    candidates = _Inside("path", "candidates")
    runs = _Inside("path", "runs")
    evidence = _Inside("path", "evidence")
    audits = _Inside("path", "audits")
    decisions = _Inside("path", "decisions")

    def contract_version(self, version: int) -> Path:
        """Return where an agreed version of the contract is kept."""
        return self.path / "contract.history" / f"{version}.yaml"

    def candidate(self, candidate_id: str) -> Path:
        """Return the folder of a candidate."""
        return self.candidates / candidate_id

    def candidate_file(self, candidate_id: str) -> Path:
        """Return a candidate's candidate.json."""
        return self.candidate(candidate_id) / "candidate.json"

    def run(self, run_id: str) -> Path:
        """Return the folder of a run."""
        return self.runs / run_id

    def run_file(self, run_id: str) -> Path:
        """Return a run's run.json."""
        return self.run(run_id) / "run.json"

    def evidence_file(self, evidence_id: str) -> Path:
        """Return the file of a piece of evidence."""
        return self.evidence / f"{evidence_id}.json"

    def audit_file(self, audit_id: str) -> Path:
        """Return the file of an audit."""
        return self.audits / f"{audit_id}.json"

    def decision_file(self, decision_id: str) -> Path:
        """Return the file of a decision."""
        return self.decisions / f"{decision_id}.json"

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
