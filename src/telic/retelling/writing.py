"""Write a tale as an ordinary study: only what is new is added, and a killed writer goes on.

Every step first looks whether the ledger has it. What the source decided is entered as its own
decision: the gates of a study guard launches and decisions made here, and here none are made.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from telic.core.config import Record
from telic.retelling.agreeing import agree
from telic.retelling.candidates import CandidateWriter
from telic.retelling.tale import Tale
from telic.studies.administration import create_study
from telic.studies.documents.base import Actor
from telic.studies.errors import StudyError
from telic.studies.folder import StudyFolder
from telic.studies.registry import StudyStatus, read_registry, set_status
from telic.studies.state import IMPORTED, WorkSource
from telic.studies.study import Study


class Retold(Record):
    """What became of a source."""

    source: str
    study: str
    folder: str
    status: StudyStatus
    ended: str | None
    """how the source ended; None while it has not"""
    is_new: bool
    events: int
    """added to the ledger this time"""
    candidates: int
    runs: int
    evidence: int
    decisions: int
    incumbent: str | None


def retell(root: Path, tale: Tale) -> Retold:
    """Write a tale under `root`/.telic, or add what is new since it was last written.

    The study becomes the active one. Raises StudyError E_NAME_TAKEN when another study has its
    name.
    """
    actor = Actor(kind="engine", name=f"telic.{tale.source}")
    folder = StudyFolder(root.absolute(), tale.task_id, tale.study_id)
    is_new = _require_own(Study(folder), tale)
    create_study(root, tale.task_id, tale.study_id, actor, statement=tale.statement, kind=tale.kind)
    study = Study(folder)
    with study.locked():
        before = study.ledger.head.seq if not is_new else 0
        if study.source is None:
            facts = {"source": _source(root, tale).as_data()}
            study.append(IMPORTED, None, facts, actor)
        agree(study, tale, actor)
        _pay(study, tale, actor)
        writer = CandidateWriter(study, tale, actor)
        for candidate in tale.candidates:
            writer.write(candidate)
        _set_status(study, tale, actor)
    state = study.state
    return Retold(
        source=tale.name,
        study=folder.name,
        folder=str(folder.path),
        status=state.study_status,
        ended=tale.ended,
        is_new=is_new,
        events=study.ledger.head.seq - before,
        candidates=len(state.candidates),
        runs=len(state.runs),
        evidence=len(state.evidence),
        decisions=len(state.decisions),
        incumbent=state.incumbent.candidate if state.incumbent else None,
    )


def _require_own(study: Study, tale: Tale) -> bool:
    """Say whether the study is new; raises when its name belongs to another one."""
    held = study.source
    # A writer killed at its second step leaves a study that says nothing but that it exists.
    if held is None and study.ledger.head.seq <= 1:
        return True
    if held is None or (held.kind, held.name) != (tale.source, tale.name):
        raise StudyError(
            "E_NAME_TAKEN",
            f"{study.folder.name} is another study, not the one of {tale.name}.",
            hint="Tell of it in another folder with --root.",
        )
    return False


def _source(root: Path, tale: Tale) -> WorkSource:
    path, here = tale.path.absolute(), root.absolute()
    shown = path.relative_to(here) if path.is_relative_to(here) else path
    return WorkSource(
        kind=tale.source, name=tale.name, path=str(shown), continues_with=tale.continues_with
    )


def _pay(study: Study, tale: Tale, actor: Actor) -> None:
    """Charge the questions to models that are not in the ledger yet."""
    paid = {each.subject for each in study.events if each.type == "work_order.submitted"}
    for call in tale.calls:
        if call.key not in paid:
            facts: dict[str, Any] = {
                "role": call.role,
                "model": call.model,
                "usd": call.usd,
                "tokens": call.tokens,
            }
            study.append("work_order.submitted", call.key, facts, actor)


def _set_status(study: Study, tale: Tale, actor: Actor) -> None:
    """Close the study of what has ended, open that of what goes on; a person's word stays."""
    last = next((e for e in reversed(study.events) if e.type == "study.status"), None)
    is_ours = last is None or last.actor == actor
    now = study.state.study_status
    wanted: StudyStatus = now
    if tale.ended is not None:
        wanted = "closed"
    elif now == "closed" and is_ours:
        wanted = "open"
    told = tale.ended or f"the {tale.source} goes on"
    ended_otherwise = last is not None and is_ours and last.data["reason"] != told
    if wanted != now or (wanted == "closed" and ended_otherwise):
        study.append("study.status", None, {"status": wanted, "reason": told}, actor)
    folder = study.folder
    task = read_registry(folder.root).task(folder.task_id)
    entry = task.study(folder.study_id) if task else None
    if entry is not None and entry.status != wanted:
        set_status(folder, wanted)
