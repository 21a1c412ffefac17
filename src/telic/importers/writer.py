"""Write imported work as an ordinary study: only what is new is added, and a killed writer goes on.

Every step first looks whether the ledger has it. What the source decided is entered as its own
decision: the gates of a study guard launches and decisions made here, and here none are made.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from telic.core.config import Record
from telic.importers.candidate_writer import CandidateWriter
from telic.importers.records import ImportedStudy
from telic.storage.files import write_text
from telic.storage.reading import read_text
from telic.studies.administration import create_study
from telic.studies.contract import contract_hash
from telic.studies.documents.adapter import (
    Adapter,
    Commands,
    ConfigSpec,
    Files,
    LauncherSpec,
    Logging,
    MetricMap,
    RepositoryOutputs,
    Seeds,
)
from telic.studies.documents.base import StudyActor, write_yaml
from telic.studies.documents.contract import Contract
from telic.studies.errors import StudyError
from telic.studies.folder import StudyFolder, StudyStatus, read_registry, set_status
from telic.studies.state import IMPORTED, WorkSource
from telic.studies.study import Study


class ImportResult(Record):
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


def write_study(root: Path, work: ImportedStudy) -> ImportResult:
    """Write imported work under `root`/.telic, or add what is new since it was last written.

    The study becomes the active one. Raises StudyError E_NAME_TAKEN when another study has its
    name.
    """
    actor = StudyActor(kind="engine", name=f"telic.{work.source}")
    folder = StudyFolder(root.absolute(), work.task_id, work.study_id)
    is_new = _require_own(Study(folder), work)
    create_study(root, work.task_id, work.study_id, actor, statement=work.statement, kind=work.kind)
    study = Study(folder)
    with study.locked():
        before = study.ledger.head.seq if not is_new else 0
        if study.source is None:
            study.append(IMPORTED, None, {"source": _source(root, work).as_data()}, actor)
        _agree(study, work, actor)
        _pay(study, work, actor)
        for candidate in work.candidates:
            CandidateWriter(study, work, candidate, actor).write()
        _set_status(study, work, actor)
    state = study.state
    return ImportResult(
        source=work.name,
        study=folder.name,
        folder=str(folder.path),
        status=state.study_status,
        ended=work.ended,
        is_new=is_new,
        events=study.ledger.head.seq - before,
        candidates=len(state.candidates),
        runs=len(state.runs),
        evidence=len(state.evidence),
        decisions=len(state.decisions),
        incumbent=state.incumbent.candidate if state.incumbent else None,
    )


def _require_own(study: Study, work: ImportedStudy) -> bool:
    """Say whether the study is new; raises when its name belongs to another one."""
    source = study.source
    # A writer killed at its second step leaves a study that says nothing but that it exists.
    if source is None and study.ledger.head.seq <= 1:
        return True
    if source is None or (source.kind, source.name) != (work.source, work.name):
        raise StudyError(
            "E_NAME_TAKEN",
            f"{study.folder.name} is another study, not the one of {work.name}.",
            hint="Tell of it in another folder with --root.",
        )
    return False


def _source(root: Path, work: ImportedStudy) -> WorkSource:
    path, here = work.path.absolute(), root.absolute()
    shown = path.relative_to(here) if path.is_relative_to(here) else path
    return WorkSource(
        kind=work.source, name=work.name, path=str(shown), continues_with=work.continues_with
    )


def _pay(study: Study, work: ImportedStudy, actor: StudyActor) -> None:
    """Charge the questions to models that are not in the ledger yet."""
    paid = {event.subject for event in study.events_of("work_order.submitted")}
    for call in work.calls:
        if call.key not in paid:
            facts = {"role": call.role, "model": call.model, "usd": call.usd, "tokens": call.tokens}
            study.append("work_order.submitted", call.key, facts, actor)


def _set_status(study: Study, work: ImportedStudy, actor: StudyActor) -> None:
    """Close the study of what has ended, open that of what goes on; a person's word stays."""
    last = next(reversed(study.events_of("study.status")), None)
    is_ours = last is None or last.actor == actor
    now = study.state.study_status
    wanted: StudyStatus = now
    if work.ended is not None:
        wanted = "closed"
    elif now == "closed" and is_ours:
        wanted = "open"
    told = work.ended or f"the {work.source} goes on"
    ended_otherwise = last is not None and is_ours and last.data["reason"] != told
    if wanted != now or (wanted == "closed" and ended_otherwise):
        study.append("study.status", None, {"status": wanted, "reason": told}, actor)
    folder = study.folder
    task = read_registry(folder.root).task(folder.task_id)
    entry = task.study(folder.study_id) if task else None
    if entry is not None and entry.status != wanted:
        set_status(folder, wanted)


# ---------------------------------------------------------------------------- the terms


def _agree(study: Study, work: ImportedStudy, actor: StudyActor) -> None:
    """Write the documents and enter the contract; a request that changed is a new version.

    No approval is asked for: nothing is launched under this contract, it says under which terms the
    work was done.
    """
    folder, state = study.folder, study.state
    if not folder.adapter.is_file():
        write_yaml(folder.adapter, _adapter(work).as_data())
    if not folder.metric_spec.is_file() or folder.read_metric_spec() != work.spec:
        write_yaml(folder.metric_spec, work.spec.as_data())
    if not folder.protocol.is_file() or folder.read_protocol() != work.protocol:
        write_yaml(folder.protocol, work.protocol.as_data())
    study.refresh()
    agreed = _contract(study, work, state.contract_version or 1)
    if contract_hash(agreed) == state.contract_hash:
        return
    version = (state.contract_version or 0) + 1
    contract = _contract(study, work, version)
    write_yaml(folder.contract, contract.written_data())
    write_text(folder.contract_version(version), read_text(folder.contract))
    contract = folder.read_contract()
    written = contract.written_data()
    facts: dict[str, Any] = {
        "version": version,
        "hash": contract_hash(contract),
        "reason": f"the terms of the {work.source} {work.name}",
        "protocol_hash": contract.evaluation.protocol_hash,
        "required": [],
        "budget": written["budget"],
        "automation": written["automation"],
        "stop_rules": [],
    }
    study.append("contract.amended", None, facts, actor)


def _contract(study: Study, work: ImportedStudy, version: int) -> Contract:
    folder = study.folder
    data: dict[str, Any] = {
        "schema": "telic.contract/1",
        "version": version,
        "task": {
            "task_id": work.task_id,
            "statement": work.statement,
            "env_ids": list(work.env_ids),
            "success_definition": work.success,
        },
        "metrics": {"spec": folder.metric_spec.name, "spec_hash": study.metric_spec_hash},
        "scope": {"kinds": list(work.kinds)},
        "budget": work.budget.written_data(),
        "hardware": {},
        "baseline": {},
        "evaluation": {"protocol": folder.protocol.name, "protocol_hash": study.protocol_hash},
        "seeds": {
            "selection": "",
            "promotion": ",".join(map(str, sorted(work.seeds))),
            "validation": "",
        },
        "automation": {
            "autoloop": True,
            "launch": "pre_approved",
            "decide": "auto",
            "micro_trials": {"max": work.trials_at_most},
        },
        "x-request": work.settings,
    }
    return Contract.parse(data, "the contract")


def _adapter(work: ImportedStudy) -> Adapter:
    """Return an adapter without commands: the source starts its runs, and nobody else does."""
    return Adapter(
        commands=Commands(train=None, eval=None, smoke=None, resume=None),
        config=ConfigSpec(
            system="custom", detail=f"made by the {work.source} itself", override_style="file"
        ),
        logging=Logging(),
        metrics=MetricMap(),
        files=Files(),
        launcher=LauncherSpec(kind="local"),
        seeds=Seeds(controllable=False),
        outputs=RepositoryOutputs(),
    )
