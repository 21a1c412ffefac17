"""Index of a repository's studies, and paths of the files in .telic/."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from telic.core.text import is_dict
from telic.errors import UnknownName
from telic.storage.files import as_record
from telic.studies.canonical import SLUG
from telic.studies.documents.base import DocumentPart, read_yaml, write_yaml
from telic.studies.errors import StudyError

STATE_FOLDER = ".telic"
StudyStatus = Literal["open", "paused", "closed"]


class _Active(DocumentPart):
    """Study that commands use by default."""

    task_id: str = Field(pattern=SLUG)
    study_id: str = Field(pattern=SLUG)


class Registry(DocumentPart):
    """List of a repository's studies, with the active study."""

    active: _Active
    tasks: dict[str, tuple[str, ...]]
    """study names by task"""


def read_registry(root: Path) -> Registry:
    """Return the studies of a repository, or raise StudyError E_NO_STUDY."""
    path = root.absolute() / STATE_FOLDER / "registry.yaml"
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
    active = as_record(data.get("active") if is_dict(data) else None, _Active, str(path))
    return Registry(active=active, tasks=tasks)


def activate(folder: StudyFolder) -> None:
    """Make a study the active study of its repository."""
    active = {"task_id": folder.task_id, "study_id": folder.study_id}
    write_yaml(folder.registry, {"schema": "telic.registry/1", "active": active})


def in_run(folder: Path, name: str) -> Path:
    """Return a file or folder of a run. Earlier versions wrote artefacts (language: quoted)."""
    current = folder / name
    former = folder / name.replace("artifacts", "artefacts")  # language: quoted
    return former if former.exists() and not current.exists() else current


def artifacts_hash(record: Mapping[str, Any]) -> Any:
    """Return the hash of the list of output files in an exit record or an event."""
    return record.get("artifacts") or record.get("artefacts")  # language: quoted


class StudyFolder:
    """Paths of one study in a repository. The files themselves are not read."""

    def __init__(self, root: Path, task_id: str, study_id: str) -> None:
        self.root, self.task_id, self.study_id = root, task_id, study_id
        self.name = f"{task_id}/{study_id}"
        """name in the ledger"""
        self.state_root = root / STATE_FOLDER
        self.registry = self.state_root / "registry.yaml"
        self.locks = self.state_root / "locks"
        self.worktrees = self.state_root / "worktrees" / task_id
        self.task = self.state_root / "tasks" / task_id
        self.task_card = self.task / "task_card.md"
        self.adapter = self.task / "adapter.yaml"
        self.path = self.task / "studies" / study_id
        self.contract = self.path / "contract.yaml"
        self.metric_spec = self.path / "metric_spec.yaml"
        self.protocol = self.path / "eval_protocol.yaml"
        self.ledger = self.path / "ledger.jsonl"
        self.report = self.path / "report.md"
        self.report_page = self.path / "report.html"
        self.stop_file = self.path / "STOP"
        """file that pauses the study while it exists"""
        self.candidates = self.path / "candidates"
        self.runs = self.path / "runs"
        self.evidence = self.path / "evidence"
        self._refuse_links()

    def _refuse_links(self) -> None:
        """Raise StudyError for symbolic links in study paths, which could leave the repository."""
        below = [each for each in vars(self).values() if isinstance(each, Path)]
        below += [self.task.parent, self.path.parent, self.ledger.with_name("ledger.jsonl.lock")]
        below += [self.worktrees.parent]
        for path in below:
            if path.is_relative_to(self.state_root) and path.is_symlink():
                raise StudyError("E_LINK", f"{path} is a link.", hint="Replace it with a copy.")

    @classmethod
    def find(cls, root: Path, task: str | None = None, study: str | None = None) -> StudyFolder:
        """Return the named study of a repository, or the active study by default.

        Without a study name, a task's only or active study is selected. Raises
        StudyError E_NO_STUDY if the repository has no studies, or UnknownName if the name is
        unknown.
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

    def candidate_file(self, candidate_id: str, revision: int = 1) -> Path:
        """Return the path of a revision's candidate.json, next to its attached files."""
        return self.candidates / candidate_id / "revisions" / str(revision) / "candidate.json"

    def run(self, run_id: str) -> Path:
        """Return the folder of a run."""
        return self.runs / run_id

    def artifacts(self, run_id: str) -> Path:
        """Return the folder for the training outputs of a run, `{run_dir}` in the run's command."""
        return in_run(self.runs / run_id, "artifacts")

    def evidence_file(self, evidence_id: str) -> Path:
        """Return the file of an evidence record."""
        return self.evidence / f"{evidence_id}.json"
