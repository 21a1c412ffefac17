"""Create studies with their initial files, and pause, resume and close them."""

from __future__ import annotations

from pathlib import Path

from telic.errors import UsageError
from telic.storage.files import write_text
from telic.storage.journal import JournalEntry
from telic.storage.reading import file_hash, read_text
from telic.studies.canonical import check_slug
from telic.studies.contract import evaluator_files
from telic.studies.documents.adapter import Adapter
from telic.studies.documents.base import StudyActor, read_document
from telic.studies.errors import GateRefused, StudyError
from telic.studies.folder import StudyFolder, StudyStatus, activate
from telic.studies.study import Study

_IGNORED = "locks/\nworktrees/\n*.lock\n.unfinished-*\n"
_KINDS = {
    "csv": ("csv", "progress.csv"),
    "json": ("jsonl", "metrics.jsonl"),
    "tensorboard": ("tensorboard", "."),
    "stdout": ("regex_stdout", "stdout.log"),
}


def create_study(
    root: Path, task_id: str, study_id: str, actor: StudyActor, *, statement: str = ""
) -> Study:
    """Create a study in the folder .telic of `root`, and make it the active study.

    If the study exists, it is activated, and missing files are completed. Outside of `root`,
    only the user's key and a copy of the ledger's last line are written.
    """
    if not root.is_dir():
        raise UsageError(f"{root} is not a folder.", hint="Pass the repository with --root.")
    folder = StudyFolder(
        root.absolute(), check_slug("task", task_id), check_slug("study", study_id)
    )
    purpose = statement or f"{task_id}: describe here what the robot must do"
    escaped = purpose.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
    texts = {
        folder.state_root / ".gitignore": _IGNORED,
        folder.task_card: f"# {task_id}\n\n{purpose}\n",
        folder.contract: _template("contract").format(task=task_id, statement=f'"{escaped}"'),
    }
    for path, text in texts.items():
        if not path.exists():
            write_text(path, text)
    study = Study(folder)
    with study.locked():
        if not study.state.ledger_head.seq:
            study.append("study.created", None, {}, actor)
    activate(folder)
    return study


def write_templates(folder: StudyFolder) -> tuple[str, ...]:
    """Write missing metric and protocol files and return their names."""
    adapter = read_document(folder.adapter, Adapter) if folder.adapter.is_file() else None
    logged = adapter.metrics.map if adapter else {}
    sources = [source.kind for source in adapter.logging.sources] if adapter else []
    kind, path = next((_KINDS[each] for each in sources if each in _KINDS), _KINDS["json"])
    key = next((name for name in ("success", "return") if name in logged), "return")
    evaluators = evaluator_files(folder.root, adapter)
    lines = [f"\n  {name}: {file_hash(folder.root / name)}" for name in evaluators]
    texts = {
        folder.metric_spec: _template("metric_spec").format(key=key, kind=kind, path=path),
        folder.protocol: _template("eval_protocol").format(files="".join(lines) or "{}"),
    }
    written = [path for path in texts if not path.exists()]
    for path in written:
        write_text(path, texts[path])
    return tuple(path.name for path in written)


def set_study_status(
    study: Study, status: StudyStatus, actor: StudyActor, reason: str
) -> JournalEntry:
    """Pause, resume or close a study. Agents may pause a study, but not resume or close it.

    Resuming lifts fired stop rules and removes the STOP file. Closing is permanent. Raises
    StudyError E_CLOSED if the study is closed, GateRefused E_NO_HUMAN if the actor is not a person,
    and E_RUN_LIVE if the study is to be closed while runs are live.
    """
    with study.locked():
        if study.state.study_status == "closed":
            raise StudyError("E_CLOSED", f"{study.name} is closed.", hint="Create a new study.")
        if status != "paused" and actor.kind != "human":
            raise GateRefused("E_NO_HUMAN", "Only a person can resume or close a study.")
        if status == "closed" and (live := study.state.active_runs):
            raise GateRefused(
                "E_RUN_LIVE",
                f"{', '.join(live)} is still running in {study.name}.",
                hint="Wait until it ends, or stop it: telic study run --stop RUN",
            )
        facts = {"status": status, "reason": reason}
        entry = study.append("study.status", None, facts, actor)
        if status == "open":
            study.folder.stop_file.unlink(missing_ok=True)
    return entry


def why_stopped(study: Study) -> str:
    """Return the reason why a study is stopped."""
    reasons = [f"{each.rule} ({each.why})" for each in study.state.fired_stops]
    if study.folder.stop_file.exists():
        reasons.append("a file named STOP exists")
    return "; ".join(reasons) or f"it is {study.state.study_status}"


def _template(name: str) -> str:
    return read_text(Path(__file__).parent / "templates" / f"{name}.yaml")
