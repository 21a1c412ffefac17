"""Runs and what they cost, while a ledger is replayed."""

from __future__ import annotations

from typing import Any

from telic.studies.budget import Account
from telic.studies.documents.contract import Amounts
from telic.studies.documents.ledger import LedgerEvent
from telic.studies.documents.runs import RunStatus
from telic.studies.state import RunState

_ENDS = ("finished", "failed", "killed", "lost")


class RunBook:
    """Keeps the runs of a study and the account they draw on."""

    def __init__(self) -> None:
        self.runs: dict[str, RunState] = {}
        self.account = Account()

    def launch(self, name: str, event: LedgerEvent) -> None:
        """Take in a launch event."""
        data = event.data
        if name == "intent":
            self._intend(event)
        elif name == "started":
            self._update(
                data["run"],
                status=RunStatus.RUNNING,
                started_at=event.at,
                identity=dict(data.get("identity", {})),
            )
        elif name == "aborted":
            self._update(
                data["run"], status=RunStatus.ABORTED, ended_at=event.at, why=data.get("reason", "")
            )
            self.account.release(data["run"])

    def _intend(self, event: LedgerEvent) -> None:
        data = event.data
        reservation = Amounts.model_validate({"launches": 1, **data.get("reservation", {})})
        run = RunState(
            status=RunStatus.STARTING,
            candidate=data["candidate"],
            phase=data["phase"],
            seed=data["seed"],
            kind=data.get("kind", "train"),
            nonce=data.get("nonce"),
            gpu=data.get("gpu"),
            retry_of=data.get("retry_of"),
            reservation=reservation,
            intent_at=event.at,
        )
        self.runs[data["run"]] = run
        self.account.reserve(data["run"], run.candidate, run.phase, reservation)

    def run(self, name: str, event: LedgerEvent) -> None:
        """Take in a run event."""
        run = str(event.data.get("run") or event.subject)
        if name == "adopted":
            self._update(run, status=RunStatus.RUNNING)
        if name not in _ENDS or run not in self.runs:
            return
        actual = Amounts.model_validate(event.data.get("actual") or {})
        self._update(
            run,
            status=RunStatus(name),
            ended_at=event.at,
            actual=actual,
            killed_by=event.data.get("by"),
            why=event.data.get("why", ""),
        )
        self.account.settle(run, actual)

    def _update(self, run: str, **changes: Any) -> None:
        if run in self.runs:
            self.runs[run] = self.runs[run].model_copy(update=changes)
