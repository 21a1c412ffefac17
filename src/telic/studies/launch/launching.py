"""The main flow of a launch: look, prepare, look again under the lock, announce, start, record."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from telic import __version__
from telic.core.config import Record
from telic.errors import TelicError
from telic.studies.documents.base import RUNNER, Actor
from telic.studies.documents.candidate import CheckResult
from telic.studies.documents.runs import RunStatus
from telic.studies.errors import EnvironmentBlocked
from telic.studies.launch.choose import ON_THIS_MACHINE
from telic.studies.launch.gates import evaluate, pass_gates, refusal, shut
from telic.studies.launch.isolation import prepare_tree
from telic.studies.launch.order import Started
from telic.studies.launch.processes import give_up, is_given_up, read_pid_record
from telic.studies.launch.recording import write_run_folder
from telic.studies.launch.recovery import reconcile
from telic.studies.launch.redaction import redact_environment
from telic.studies.launch.request import LaunchRequest, check_words
from telic.studies.launch.settling import record_start
from telic.studies.launch.situation import Situation
from telic.studies.ledger import Ledger
from telic.studies.names import run_id
from telic.studies.sourced import refuse_launch

_NONCE_BYTES = 8
_CLAIM_S = 20.0
_LOOK_EVERY_S = 0.005


class Start(Record):
    """Exactly what would be started; secrets are redacted."""

    argv: tuple[str, ...]
    cwd: str
    started_by: tuple[str, ...]
    document: str | None
    """the sbatch script or Job manifest"""
    environment: dict[str, str]
    reservation: dict[str, float]


class Look(Record):
    """What a dry run shows."""

    candidate: str
    phase: str
    seed: int
    gates: tuple[CheckResult, ...]
    start: Start | None
    """None when the command cannot be built"""

    @property
    def is_open(self) -> bool:
        """Every gate but the confirmation is open."""
        return not shut(self.gates, dry=True)


class Launched(Record):
    """A run that was started."""

    run: str
    nonce: str
    folder: Path
    pid: int | None
    job_id: str | None
    attach: str | None


def look(ledger: Ledger, request: LaunchRequest, *, processes: bool = True) -> Look:
    """Evaluate the gates and show what would be started; writes nothing.

    Args:
        ledger: of the study.
        request: what would be launched.
        processes: whether the GPU driver and the adapter's probe may be asked.
    """
    s = _situation(ledger, _with_retry(ledger, request), processes=processes)
    gates = evaluate(s)
    start: Start | None = None
    with contextlib.suppress(TelicError):  # the gates that need it say why
        start = Start(
            argv=s.command.argv,
            cwd=str(s.command.cwd),
            started_by=s.rendered.argv,
            document=s.rendered.document,
            environment=redact_environment(s.environment.changed),
            reservation=s.reservation.model_dump(exclude_none=True),
        )
    return Look(
        candidate=request.candidate,
        phase=request.phase,
        seed=request.seed,
        gates=gates,
        start=start,
    )


def launch(ledger: Ledger, request: LaunchRequest, actor: Actor) -> Launched:
    """Start one run, or raise the refusal; every look at the gates is recorded.

    Raises StudyError E_CONFIRM, GateRefused and its kin by gate, EnvironmentBlocked E_LAUNCHER.
    """
    check_words(request.execute, request.confirm)
    reconcile(ledger)
    first = _situation(ledger, _with_retry(ledger, request), processes=True)
    _record_gates(ledger, first, evaluate(first), actor, round_number=1)
    prepare_tree(ledger.folder, first.candidate)
    with ledger.locked():
        s = Situation(
            ledger,
            first.request,
            run_id=first.run_id,
            nonce=first.nonce,
            processes=True,
            is_final=True,
        )
        results = evaluate(s)
        _record_gates(ledger, s, results, actor, round_number=2)
        permit = pass_gates(s, results)
        write_run_folder(s)
        ledger.append("launch.intent", s.request.candidate, _intent(s, results, actor), RUNNER)
        try:
            started = s.launcher.start(permit, s.order)
            claim = _wait_for_claim(s)
        except TelicError as error:
            _abort(ledger, s, error)
            raise
        record_start(ledger, s.run_id, s.nonce, _identity(started, claim))
        if s.request.retry_of is not None:
            facts = {"run": s.request.retry_of, "retried_as": s.run_id}
            ledger.append("run.retried", s.request.retry_of, facts, RUNNER)
    return Launched(
        run=s.run_id,
        nonce=s.nonce,
        folder=s.run_folder,
        job_id=started.job_id,
        attach=started.attach,
        pid=None if claim is None else int(claim["pid"]),
    )


def _situation(ledger: Ledger, request: LaunchRequest, *, processes: bool) -> Situation:
    refuse_launch(ledger)
    return Situation(
        ledger,
        request,
        run_id=run_id(datetime.now(UTC)),
        nonce=secrets.token_hex(_NONCE_BYTES),
        processes=processes,
    )


def _with_retry(ledger: Ledger, request: LaunchRequest) -> LaunchRequest:
    """Name the lost or preempted run that this one repeats."""
    if request.retry_of is not None:
        return request
    same = [
        (name, run)
        for name, run in ledger.state().runs_of(request.candidate, request.phase).items()
        if run.seed == request.seed and run.status != RunStatus.ABORTED
    ]
    if same and (same[-1][1].status == RunStatus.LOST or same[-1][1].killed_by == "preempted"):
        return request._replace(retry_of=same[-1][0])
    return request


def _record_gates(
    ledger: Ledger,
    s: Situation,
    results: Sequence[CheckResult],
    actor: Actor,
    *,
    round_number: int,
) -> None:
    """Enter what the gates said; raises when one is shut."""
    request = s.request
    facts = {
        "run": s.run_id,
        "phase": request.phase,
        "seed": request.seed,
        "nonce": s.nonce,
        "round": round_number,
        "asked_by": actor.label,
    }
    listed = [each.as_data() for each in results]
    ledger.append("gate.evaluated", request.candidate, {**facts, "gates": listed}, RUNNER)
    if closed := shut(results):
        reasons = {each.id: each.why for each in closed}
        ledger.append("launch.refused", request.candidate, {**facts, "shut": reasons}, RUNNER)
        raise refusal(closed)


def _intent(s: Situation, results: Sequence[CheckResult], actor: Actor) -> dict[str, Any]:
    candidate, request = s.candidate, s.request
    return {
        "run": s.run_id,
        "candidate": request.candidate,
        "phase": request.phase,
        "seed": request.seed,
        "kind": "train",
        "nonce": s.nonce,
        "argv": list(s.command.argv),
        "argv_hash": s.command.hash,
        "rendered_hash": s.rendered.hash,
        "launcher": s.adapter.launcher.kind,
        "env": redact_environment(s.environment.changed),
        "withheld": list(s.environment.withheld),
        "cwd": str(s.command.cwd),
        "worktree": None if candidate.isolation.mode == "in_place" else str(s.tree),
        "base_commit": candidate.base_commit,
        "patch_hash": candidate.change.patch_sha256,
        "content_hash": candidate.compute_hash(),
        "gates": {each.id: each.passed for each in results},
        "reservation": s.reservation.model_dump(exclude_none=True),
        "gpu": s.gpus[0] if s.gpus else None,
        "retry_of": request.retry_of,
        "host": s.machine.host,
        "tool_version": __version__,
        "asked_by": actor.label,
    }


def _wait_for_claim(s: Situation) -> dict[str, Any] | None:
    """Wait until the supervisor has said who it is; a scheduler's job may do so much later."""
    if s.adapter.launcher.kind not in ON_THIS_MACHINE:
        return None
    deadline = time.monotonic() + _CLAIM_S
    while (record := read_pid_record(s.run_folder)) is None:
        if time.monotonic() > deadline:
            raise EnvironmentBlocked(
                "E_LAUNCHER", f"The supervisor of {s.run_id} did not start within {_CLAIM_S:g} s."
            )
        time.sleep(_LOOK_EVERY_S)
    if is_given_up(record):
        raise EnvironmentBlocked("E_LAUNCHER", f"The launch of {s.run_id} was given up.")
    return record


def _abort(ledger: Ledger, s: Situation, error: TelicError) -> None:
    """Give the launch up; when it started all the same, the next look adopts it."""
    if give_up(s.run_folder, error.message) or _was_given_up(s.run_folder):
        facts = {"run": s.run_id, "nonce": s.nonce, "reason": error.message}
        ledger.append("launch.aborted", s.request.candidate, facts, RUNNER)


def _was_given_up(folder: Path) -> bool:
    record = read_pid_record(folder)
    return record is not None and is_given_up(record)


def _identity(started: Started, claim: dict[str, Any] | None) -> dict[str, Any]:
    logs = {"logs": ["stdout.log", "stderr.log"]}
    return {**started.model_dump(exclude_none=True), **(claim or {}), **logs}
