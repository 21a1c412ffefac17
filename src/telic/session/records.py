"""What a session asks for, is doing, and comes to: the records behind its files."""

from __future__ import annotations

from contextlib import suppress
from typing import Literal

from typing_extensions import TypedDict

from telic.core.config import Record
from telic.errors import BadFile, UsageError
from telic.session.evidence import NO_SEAL, SEALED_ELSEWHERE, broken_seal, is_sealed_elsewhere
from telic.session.outcome import ENDED, PASSES, Outcome, outcome_words
from telic.storage.files import read_facts, read_record
from telic.storage.layout import SessionFolder, WorkFolder
from telic.storage.locks import lock_holder

Reason = Literal["pause", "approval", "cores"]
SessionState = Literal[
    "running",
    "pausing",
    "paused",
    "waiting for approval",
    "waiting for cores",
    "interrupted",
    Outcome,
]
_WAITS: dict[Reason, SessionState] = {
    "pause": "paused",
    "approval": "waiting for approval",
    "cores": "waiting for cores",
}


class SessionSummary(Record):
    """What a session came to."""

    schema_version: Literal[1] = 1
    session: str
    intent: str
    env: str
    outcome: Outcome
    reason: str | None = None
    """why it stopped before it passed or had tried everything"""
    out_of_budget: bool = False
    """whether it stopped because nothing more may be spent"""
    iterations: int
    best_iteration: int | None
    best_member: str | None
    best_step: int | None = None
    """its checkpoint that was judged, which need not be the one with the highest return"""
    score: float | None
    low: float | None
    """what the mean score is proven to be at least; None: nothing is proven"""
    passing: int | None = None
    """episodes of the best policy whose score reaches the threshold; None: not counted"""
    episodes: int | None = None
    """episodes that it was judged on"""
    start_seed: int | None = None
    """where judged episodes started is drawn from it; None: as in every session before"""
    steps: int = 0
    """environment steps of all policies"""
    seconds: float
    not_understood: tuple[str, ...]
    doubts: tuple[str, ...]
    reasons: tuple[str, ...] = ()
    """why it is unproven, or passed in part only; first on the screen and in the report"""
    limits: tuple[str, ...] = ()
    """what narrows a pass: one training seed"""

    def as_unproven(self) -> SessionSummary:
        """Return it without what it claims: of a proof that does not hold no number is left."""
        return self.model_copy(update={"outcome": "unproven", "low": None})


class SessionOutcome(TypedDict):
    """How a session ended, of its summary.json."""

    outcome: Outcome


class Waiting(Record):
    """What a running session waits for."""

    schema_version: Literal[1] = 1
    reason: Reason
    message: str


def state_of(folder: SessionFolder) -> SessionState:
    """Return what a session is doing now, or how it ended."""
    if lock_holder(folder.lock) is not None:
        with suppress(BadFile):  # it may go on at any moment
            return _WAITS[read_record(folder.waiting, Waiting).reason]
        return "pausing" if folder.pause.exists() else "running"
    if folder.summary.exists():
        outcome = read_facts(folder.summary, SessionOutcome)["outcome"]
        is_pass = outcome in PASSES
        return read_summary(folder, thorough=False).outcome if is_pass else outcome
    return "interrupted"


def read_summary(folder: SessionFolder, *, thorough: bool = True) -> SessionSummary:
    """Return what a session came to, as far as its files are those it ended with.

    A pass whose evidence was changed afterwards, or that no certificate stands behind, is unproven.

    Args:
        folder: of a session that has ended.
        thorough: look at the policy and the judged episodes, too, not only at the records.
    """
    summary = read_record(folder.summary, SessionSummary)
    is_pass = summary.outcome in PASSES
    needs = [folder.summary, *([folder.certificate] if is_pass else [])]
    if summary.best_iteration is not None and is_pass:
        needs.append(folder.iteration(summary.best_iteration).judgment)
    fault = broken_seal(folder, needs=tuple(needs), thorough=thorough)
    if fault == NO_SEAL and not is_pass:
        fault = None  # nothing is claimed
    if fault is None and is_pass and folder.vetoes.exists():
        fault = "a person vetoed it"
    if fault is not None:
        told = summary.model_copy(update={"reasons": (fault, *summary.reasons)})
        return told.as_unproven() if is_pass else told
    if is_pass and is_sealed_elsewhere(folder):
        return summary.model_copy(update={"limits": (*summary.limits, SEALED_ELSEWHERE)})
    return summary


def is_running(folder: WorkFolder) -> bool:
    """Say whether a process works in the folder, or waits in it."""
    return lock_holder(folder.lock) is not None


def require_unfinished(folder: SessionFolder) -> None:
    """Raise UsageError if the session came to its end, so that nothing can be asked of it."""
    state = state_of(folder)
    if state in ENDED:
        raise UsageError(
            f"{folder.name} came to its end: {outcome_words(state)}.",
            hint=f"Start from one of its iterations with: telic branch {folder.name} --iteration N",
        )
