"""A study's own life: begin it in a repository, pause it, open it again, close it, tidy it up."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, cast

from telic.errors import UsageError
from telic.storage.files import TEMPORARY_MARK, disk_errors, json_text, write_text
from telic.studies import git_read
from telic.studies.approvals import Consent
from telic.studies.candidates import candidate_ids
from telic.studies.canonical import canonical, check_slug, utc_now
from telic.studies.chain import SIGNS, LedgerEvent, LedgerHead, anchored
from telic.studies.documents.adapter import Adapter
from telic.studies.documents.base import SYSTEM, Document, StudyActor
from telic.studies.documents.candidate import (
    Candidate,
    Decision,
    Evidence,
    Experiments,
    QueueManifest,
    StudyRun,
)
from telic.studies.documents.contract import Contract
from telic.studies.documents.metrics import MetricSpec, Protocol
from telic.studies.errors import BrokenIntegrity, GateRefused, StudyError
from telic.studies.folder import (
    Registry,
    StudyEntry,
    StudyFolder,
    StudyKind,
    StudyStatus,
    add_study,
    set_status,
)
from telic.studies.ledger import Ledger
from telic.studies.state import StudyState
from telic.studies.study import Study

IGNORED = """\
locks/
worktrees/
ledger.index
.unfinished-*
"""

TASK_CARD = """\
# {task}

{statement}
"""

EXPERIMENTS = """\
# A plan for people. Editing it changes nothing until a candidate exists.
schema: telic.experiments/1
batches: []
backlog: []
"""

CONTRACT = """\
# What may be tried, with what, for how much, and how it is judged.
# Each part is approved by a person; an edit voids the approval of its part.
schema: telic.contract/1
version: 1
task:
  task_id: {task}
  statement: {statement}
  env_ids: []
  success_definition: ""        # when is it done? e.g. no fall for 20 s
metrics:
  spec: metric_spec.yaml
scope:
  kinds: [config, reward_tuning, curriculum, dr_probe]   # reward_engineering, code: opt in
  params: {{}}                    # name: {{type: float, min: 0.5, max: 4, max_step_ratio: 2}}
  files:
    allow: []
    deny: ["**/eval*.py"]
  limits: {{max_diff_lines: 200, max_changed_params: 4, max_concurrent: 1}}
budget:
  launches: 60
  # wall_clock_h, gpu_h, cpu_core_h, env_steps, llm_usd, llm_tokens, disk_gb, per_candidate
hardware:
  hosts: [local]
  gpus: []
  launcher: local
baseline:
  command: train
  overrides: {{}}
  seeds: [900, 901, 902, 903, 904]
  # steps: 1000000              # of a full training
  # est: {{wall_clock_h: 1}}      # what measuring one candidate costs
evaluation:
  protocol: eval_protocol.yaml
seeds:                          # disjoint: choosing, claiming, confirming
  selection: "1-99"
  promotion: "100-199"
  validation: "900-999"
automation:
  autoloop: false
  launch: ask                   # ask | pre_approved
  decide: ask                   # ask | auto
  max_debug_attempts: 3
stop_rules:
  - {{rule: no_progress, k: 5}}
exceptions: []
approvals: {{}}                   # for reading only: the ledger holds what counts
"""

ORPHAN_DAYS = 7
ORPHANS = "orphans"
_DOCUMENTS: tuple[type[Document], ...] = (
    Adapter,
    Candidate,
    Contract,
    Decision,
    Evidence,
    Experiments,
    MetricSpec,
    Protocol,
    QueueManifest,
    Registry,
    StudyRun,
    StudyState,
)
_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def create_study(
    root: Path,
    task_id: str,
    study_id: str,
    actor: StudyActor,
    *,
    statement: str = "",
    kind: StudyKind = "external",
) -> Study:
    """Make a study under `root`/.telic and make it the active one.

    Doing it again changes nothing but the active pair, and finishes what a killed process began.
    Nothing outside `root` is written but the note of the ledger's last line, see `heads`.
    """
    if not root.is_dir():
        raise UsageError(f"{root} is not a folder.", hint="Name the repository with --root.")
    folder = StudyFolder(
        root.absolute(), check_slug("task", task_id), check_slug("study", study_id)
    )
    _write_missing(folder, statement or f"{task_id}: say here what the robot must do")
    study = Study(folder)
    with study.locked():
        if study.state.study_kind is None:
            study.append("study.created", None, {"kind": kind, SIGNS: True}, actor)
    entry = StudyEntry(study_id=study_id, kind=kind, created_at=utc_now())
    add_study(folder, entry, title=statement or task_id)
    return study


def _write_missing(folder: StudyFolder, statement: str) -> None:
    for name in ("metric_extractors", "templates"):
        (folder.shared / name).mkdir(parents=True, exist_ok=True)
    for name, text in _schema_texts().items():
        if not (folder.shared / "schemas" / name).exists():
            write_text(folder.shared / "schemas" / name, text)
    for path in (folder.candidates, folder.runs, folder.evidence, folder.audits, folder.decisions):
        path.mkdir(parents=True, exist_ok=True)
    escaped = statement.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
    in_quotes = f'"{escaped}"'
    texts = {
        folder.state_root / ".gitignore": IGNORED,
        folder.task_card: TASK_CARD.format(task=folder.task_id, statement=statement),
        folder.contract: CONTRACT.format(task=folder.task_id, statement=in_quotes),
        folder.experiments: EXPERIMENTS,
    }
    for path, text in texts.items():
        if not path.exists():
            write_text(path, text)


@cache
def json_schemas() -> dict[str, dict[str, Any]]:
    """Return the schema of every document by file name, e.g. contract-1.json."""
    schemas: dict[str, dict[str, Any]] = {}
    for kind in _DOCUMENTS:
        name = str(kind.model_fields["schema_id"].default)
        schema = _closed(kind.model_json_schema(by_alias=True))
        schema["properties"]["schema"] = {"const": name}
        file = name.removeprefix("telic.").replace("/", "-") + ".json"
        schemas[file] = {"$schema": _DIALECT, "$id": name, **schema}
    return schemas


@cache
def _schema_texts() -> dict[str, str]:
    return {name: json_text(schema) for name, schema in json_schemas().items()}


def _closed(schema: Any) -> Any:
    """Allow no keys but the known ones and those that start with x-."""
    if isinstance(schema, list):
        return [_closed(part) for part in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    out = {key: _closed(value) for key, value in cast("dict[str, Any]", schema).items()}
    if out.get("type") == "object" and "properties" in out:
        out |= {"additionalProperties": False, "patternProperties": {"^x-": {}}}
    return out


# ---------------------------------------------------------------------------- its status


def pause_study(study: Study, actor: StudyActor, reason: str) -> LedgerEvent:
    """Stop launches until a person resumes; anyone may do this."""
    with study.locked():
        event = _enter_status(study, "paused", actor, reason)
    set_status(study.folder, "paused")
    return event


def resume_study(study: Study, consent: Consent, reason: str) -> LedgerEvent:
    """Open a paused study: fired stop rules are lifted, and a STOP file is removed."""
    with study.locked():
        _require_not_closed(study)
        study.folder.stop_file.unlink(missing_ok=True)
        event = _enter_status(study, "open", consent.actor, reason)
    set_status(study.folder, "open")
    return event


def close_study(study: Study, consent: Consent, reason: str) -> LedgerEvent:
    """End a study: nothing more is launched or proposed in it, and it cannot be opened again.

    Raises GateRefused E_RUN_LIVE while runs are under way.
    """
    with study.locked():
        _require_not_closed(study)
        if live := study.state.active_runs:
            raise GateRefused(
                "E_RUN_LIVE",
                f"{', '.join(live)} still runs in {study.name}.",
                hint="Wait for it, or stop it: telic study run --stop RUN",
            )
        event = _enter_status(study, "closed", consent.actor, reason)
        study.ledger.anchor()
    set_status(study.folder, "closed")
    return event


def why_stopped(study: Study) -> str:
    """Say why a study stands still."""
    reasons = [f"{each.rule} ({each.why})" for each in study.state.fired_stops]
    if study.folder.stop_file.exists():
        reasons.append("a file named STOP")
    return "; ".join(reasons) or f"it is {study.state.study_status}"


def _enter_status(study: Study, status: StudyStatus, actor: StudyActor, reason: str) -> LedgerEvent:
    _require_not_closed(study)
    return study.append("study.status", None, {"status": status, "reason": reason}, actor)


def _require_not_closed(study: Study) -> None:
    if study.state.study_status == "closed":
        raise StudyError("E_CLOSED", f"{study.name} is closed.", hint="Begin a new study.")


# ---------------------------------------------------------------------------- orphans
# Files that a crash left between their writing and their line in the ledger stand for nothing,
# since the append is the commit point. After a week nobody is about to commit them any more; then
# they are put aside, not deleted.


def collect_orphans(study: Study, days: float = ORPHAN_DAYS) -> tuple[str, ...]:
    """Move orphans older than some days into the study's orphans/; returns where they were."""
    home = study.folder.path
    with study.locked():
        study.require_intact()
        names = tuple(str(path.relative_to(home)) for path in find_orphans(study, days))
        if names:
            # First the line, then the deed: a rerun finds and moves what a crash left in place.
            text = f"put aside what a crash left behind: {', '.join(names)}"
            study.append("note.added", None, {"text": text, "orphans": list(names)}, SYSTEM)
        for name in names:
            aside = home / ORPHANS / name
            with disk_errors(aside):
                aside.parent.mkdir(parents=True, exist_ok=True)
                (home / name).rename(aside)
    return names


def find_orphans(study: Study, days: float = ORPHAN_DAYS) -> list[Path]:
    """Return what the ledger does not know and nobody has touched for some days."""
    before = time.time() - days * 86_400
    home = study.folder.path / ORPHANS
    return sorted(
        path
        for path in _unknown(study)
        if path.stat().st_mtime < before and not path.is_relative_to(home)
    )


def _unknown(study: Study) -> Iterator[Path]:
    folder, state = study.folder, study.state
    audits = {
        str(study.sheet(name).payload["audit"])
        for name in study.evidence_names("audit")
        if folder.evidence_file(name).is_file()
    }
    for place, names in (
        (folder.evidence, state.evidence.keys()),
        (folder.audits, audits),
        (folder.decisions, state.decisions.keys()),
    ):
        yield from (path for path in place.glob("*.json") if path.stem not in names)
    for name in candidate_ids(folder):
        held = state.candidates.get(name)
        if held is None:
            yield folder.candidate(name)
            continue
        revisions = folder.candidate(name) / "revisions"
        yield from (
            path
            for path in revisions.glob("*")
            if path.name.isdigit() and int(path.name) > held.revision
        )
    yield from folder.path.rglob(f"{TEMPORARY_MARK}*")


# ---------------------------------------------------------------------------- git notes


def note_head(ledger: Ledger) -> str:
    """Add the head of the ledger to the note of the checked-out commit; returns the commit.

    Only the note is written (refs/notes/telic); pushing it is left to people.
    """
    root = ledger.folder.root
    ledger.require_intact()
    commit = git_read.head_commit(root) if git_read.is_repository(root) else None
    if commit is None:
        raise StudyError(
            "E_NO_COMMIT", f"{root} has no commit that a note could hang on.", hint="Commit first."
        )
    text = canonical(anchored(ledger.folder.name, ledger.head)).decode()
    git_read.add_note(root, commit, text)
    return commit


def require_noted(ledger: Ledger) -> int:
    """Return how many heads of this ledger git notes name; raises when one is not in it."""
    hashes = {event.seq: event.hash for event in ledger.events()}
    heads = noted_heads(ledger)
    for head in heads:
        if hashes.get(head.seq) != head.hash:
            raise BrokenIntegrity(
                "E_LEDGER_BROKEN",
                f"A git note knows another line {head.seq} of the ledger: it was rewritten.",
                hint="Compare with: git log --notes=telic",
            )
    return len(heads)


def noted_heads(ledger: Ledger) -> list[LedgerHead]:
    """Return the heads of this ledger that git notes name; none outside of git."""
    root = ledger.folder.root
    if not git_read.is_repository(root):
        return []
    lines = [line for text in git_read.notes(root) for line in text.splitlines() if line.strip()]
    return [
        LedgerHead(seq=note["seq"], hash=note["hash"])
        for note in map(json.loads, lines)
        if note.get("study") == ledger.folder.name
    ]
