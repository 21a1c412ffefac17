"""Enter a run that has ended: its folder, its three ledger lines, and its evidence."""

from __future__ import annotations

import json
from collections.abc import Iterable
from hashlib import sha256
from typing import Any

from telic import __version__
from telic.retelling.tale import CandidateTale, RunTale, Sheet, Tale
from telic.storage.files import write_json, write_text
from telic.studies.canonical import content_hash, file_hash
from telic.studies.documents.base import RUNNER, Actor
from telic.studies.documents.candidate import CandidateStatus
from telic.studies.documents.runs import Run, RunStatus, Times
from telic.studies.evidence.measurement import Measurement
from telic.studies.evidence.store import add_evidence, read_evidence
from telic.studies.names import moment, written
from telic.studies.study import Study

LOG = "metrics.jsonl"
_HOUR_S = 3600.0


def run_name(tale: Tale, run: RunTale) -> str:
    """Return a run's id: the same one whenever the source is told."""
    mark = sha256(f"{tale.name}/{run.key}".encode()).hexdigest()[:6]
    return f"r-{moment(run.began_at):%Y%m%dT%H%M%SZ}-{mark}"


def write_run(
    study: Study, tale: Tale, candidate: CandidateTale, run: RunTale, actor: Actor
) -> None:
    """Enter what is new about a run."""
    name = run_name(tale, run)
    if name not in study.state.runs:
        _write_folder(study, name, candidate, run)
        facts: dict[str, Any] = {
            "run": name,
            "candidate": candidate.name,
            "phase": run.phase,
            "seed": run.seed,
            "kind": run.kind,
            "reservation": {},
            "content_hash": study.state.candidates[candidate.name].content_hash,
            "made_by": tale.name,
            "tool_version": __version__,
        }
        study.append("launch.intent", candidate.name, facts, actor)
    if study.state.runs[name].status == RunStatus.STARTING:
        _start(study, name, candidate, run, actor)
    if study.state.runs[name].is_live:
        cost = run.cost.model_dump(exclude_none=True)
        facts = {"run": name, "actual": cost, "why": run.why}
        study.append(f"run.{run.status}", name, facts, actor)
    _measure(study, name, candidate, run, actor)


def _start(study: Study, name: str, candidate: CandidateTale, run: RunTale, actor: Actor) -> None:
    facts: dict[str, Any] = {
        "run": name,
        "candidate": candidate.name,
        "phase": run.phase,
        "identity": {"made_by": str(actor.name), "at": run.began_at},
    }
    if study.state.candidates[candidate.name].status == CandidateStatus.VALIDATED:
        facts |= {"from": CandidateStatus.VALIDATED, "to": CandidateStatus.LAUNCHED}
    study.append("launch.started", candidate.name, facts, actor)


def _write_folder(study: Study, name: str, candidate: CandidateTale, run: RunTale) -> None:
    folder = study.folder.run(name)
    rows = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in run.rows)
    write_text(folder / LOG, rows)
    write_json(folder / "cmd.json", {"argv": list(run.argv), "tool_version": __version__})
    began = written(moment(run.began_at))
    made = Run(
        id=name,
        created_at=began,
        created_by=RUNNER,
        candidate=candidate.name,
        phase=run.phase,
        seed=run.seed,
        kind=run.kind,
        cmd_hash=content_hash(list(run.argv)),
        status=RunStatus(run.status),
        why=run.why,
        times=Times(planned_at=began, started_at=began),
        cost=run.cost,
        artefacts={} if run.origin is None else {"source": str(run.origin)},
    )
    write_json(study.folder.run_file(name), made.as_data())


def _measure(study: Study, name: str, candidate: CandidateTale, run: RunTale, actor: Actor) -> None:
    folder, protocol = study.folder, study.state.protocol_hash
    hours = run.cost.wall_clock_h
    found = Measurement(
        run=name,
        candidate=candidate.name,
        phase=run.phase,
        seed=run.seed,
        kind=run.kind,
        primary=run.primary,
        scores={} if run.primary is None else {"": run.primary},
        guardrails={},
        steps=run.steps,
        wall_s=None if hours is None else _HOUR_S * hours,
        protocol_hash=protocol,
        metric_spec_hash=study.metric_spec_hash,
        code_hash=content_hash(folder.read_protocol().evaluator_files),
        hardware=run.hardware,
        files={LOG: file_hash(folder.run(name) / LOG)},
        curves=run.curves,
    )
    text = "not measured" if run.primary is None else f"{run.primary:.6g}"
    measured = Sheet("metrics", found.as_data(), actor.name, text)
    add_sheets(study, (measured, *run.sheets), actor, candidate.name, name)


def add_sheets(
    study: Study, sheets: Iterable[Sheet], actor: Actor, candidate: str, run: str | None = None
) -> None:
    """Add the evidence that is not there yet.

    What one producer said of a run is never said twice, also when a later telic would put it into
    other words.
    """
    folder, state = study.folder, study.state
    told = {
        (entry.kind, read_evidence(folder, name).producer.name)
        for name, entry in state.evidence.items()
        if (entry.candidate, entry.run) == (candidate, run)
    }
    for sheet in sheets:
        if (sheet.kind, sheet.producer) not in told:
            add_evidence(
                study,
                sheet.kind,
                sheet.payload,
                actor,
                run=run,
                candidate=candidate,
                protocol_hash=state.protocol_hash,
                producer=sheet.producer,
                summary=sheet.summary,
            )
