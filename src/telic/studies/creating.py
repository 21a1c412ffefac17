"""Begin a study in a repository: its folders, a contract to fill in, the first ledger lines."""

from __future__ import annotations

from pathlib import Path

from telic.errors import UsageError
from telic.storage.files import write_json, write_text
from telic.studies.clock import utc_now
from telic.studies.documents.base import Actor
from telic.studies.documents.registry import StudyEntry, StudyKind
from telic.studies.folder import StudyFolder
from telic.studies.ledger import Ledger
from telic.studies.names import check_slug
from telic.studies.registry import add_study
from telic.studies.schemas import json_schemas
from telic.studies.templates import CONTRACT, EXPERIMENTS, IGNORED, TASK_CARD


def create_study(
    root: Path,
    task_id: str,
    study_id: str,
    actor: Actor,
    *,
    statement: str = "",
    kind: StudyKind = "external",
) -> StudyFolder:
    """Make a study under `root`/.telic and make it the active one.

    Doing it again changes nothing but the active pair, and finishes what a killed process began.
    Nothing outside `root` is written.
    """
    if not root.is_dir():
        raise UsageError(f"{root} is not a folder.", hint="Name the repository with --root.")
    folder = StudyFolder(
        root.absolute(), check_slug("task", task_id), check_slug("study", study_id)
    )
    _write_missing(folder, statement or f"{task_id}: say here what the robot must do")
    ledger = Ledger(folder)
    with ledger.locked():
        if ledger.state().study_kind is None:
            ledger.append("study.created", None, {"kind": kind}, actor)
    add_study(
        folder,
        StudyEntry(study_id=study_id, kind=kind, created_at=utc_now()),
        title=statement or task_id,
    )
    return folder


def _write_missing(folder: StudyFolder, statement: str) -> None:
    for each in ("metric_extractors", "templates"):
        (folder.shared / each).mkdir(parents=True, exist_ok=True)
    for name, schema in json_schemas().items():
        if not (folder.shared / "schemas" / name).exists():
            write_json(folder.shared / "schemas" / name, schema)
    for path in (folder.candidates, folder.runs, folder.evidence, folder.audits, folder.decisions):
        path.mkdir(parents=True, exist_ok=True)
    texts = {
        folder.state_root / ".gitignore": IGNORED,
        folder.task_card: TASK_CARD.format(task=folder.task_id, statement=statement),
        folder.contract: CONTRACT.format(task=folder.task_id, statement=_quoted(statement)),
        folder.experiments: EXPERIMENTS,
    }
    for path, text in texts.items():
        if not path.exists():
            write_text(path, text)


def _quoted(text: str) -> str:
    """Return a text as a YAML string in double quotes."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ") + '"'
