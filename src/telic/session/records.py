"""Records of a session: outcome, summary, interim evaluations and state.

A session has `passed` only without any doubts. If policies reached the threshold but the judge
or a reward failed validation, it is `unproven`. If the judge measures only part of the intent, it
`passed_in_part`. A pass that this user did not sign is `claimed` (see `verified`).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Literal, NamedTuple, get_args

from telic.core.config import Record
from telic.core.events import Event
from telic.errors import BadFile, UsageError
from telic.session.evidence import NOT_SIGNED_OFF, check_end
from telic.storage.files import read_fields, read_record
from telic.storage.layout import SessionFolder, WorkFolder
from telic.storage.locks import lock_holder

Outcome = Literal["passed", "passed_in_part", "claimed", "unproven", "not_passed", "stopped"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
PASSES: tuple[Outcome, ...] = ("passed", "passed_in_part")
ENDED: tuple[Outcome, ...] = (*PASSES, "claimed", "unproven", "not_passed")
"""final outcomes, of which only a stopped session can be resumed"""
ONE_SEED = "one training seed"
_OUT_OF_BUDGET = 3
_NAMES: dict[Outcome, tuple[str, int]] = {
    "passed": ("passed", 0),
    "passed_in_part": ("partial pass", 6),
    "claimed": ("claimed", 7),
    "unproven": ("unproven", 7),
    "not_passed": ("did not pass", 1),
    "stopped": ("stopped", 1),
}
"""name and exit code of each outcome"""
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
_CLAIMS = (*PASSES, "claimed")


class SessionOutcome(NamedTuple):
    """Outcome of a session. If it is not an unqualified pass, the reasons are given."""

    outcome: Outcome
    reasons: tuple[str, ...] = ()
    """why it is unproven or a partial pass, with the most important reason first"""
    limits: tuple[str, ...] = ()
    """qualifications of a pass, such as one training seed"""


def ending_of_pass(
    doubts: Sequence[str],
    left_out: Sequence[str],
    limits: Sequence[str],
    *,
    accept_partial: bool,
) -> SessionOutcome:
    """Return the outcome of a session whose policies reached the threshold."""
    words = ", ".join(f"“{text}”" for text in left_out)
    part = (f"no criterion measures {words}",) if left_out and not accept_partial else ()
    if doubts:
        return SessionOutcome("unproven", (*doubts, *part), tuple(limits))
    return SessionOutcome("passed_in_part" if part else "passed", part, tuple(limits))


def outcome_words(outcome: Outcome, limits: Sequence[str] = ()) -> str:
    """Return the display name of an outcome, e.g. "passed (one training seed)"."""
    words = _NAMES[outcome][0]
    is_limited = bool(limits) and outcome in PASSES
    return f"{words} ({', '.join(limits)})" if is_limited else words


def exit_code(outcome: Outcome, *, out_of_budget: bool = False) -> int:
    """Return the exit code of an outcome: 0 only for a pass."""
    return _OUT_OF_BUDGET if out_of_budget else _NAMES[outcome][1]


class SessionSummary(Record):
    """Result of a session."""

    schema_version: Literal[1] = 1
    session: str
    intent: str
    env: str
    outcome: Outcome
    reason: str | None = None
    """why the session stopped before it passed or exhausted all candidates"""
    out_of_budget: bool = False
    iterations: int
    best_iteration: int | None
    best_member: str | None
    best_step: int | None = None
    """step of the judged checkpoint, which may not be the one with the highest return"""
    score: float | None
    low: float | None
    """lower confidence bound of the mean score, or None if nothing is proven"""
    passing: int | None = None
    """number of episodes of the best policy that pass, or None if not counted"""
    episodes: int | None = None
    """number of episodes on which it was judged"""
    start_seed: int | None = None
    """seed of the initial states of judged episodes, or None in earlier versions"""
    steps: int = 0
    """total environment steps of all policies"""
    seconds: float
    not_understood: tuple[str, ...]
    doubts: tuple[str, ...]
    reasons: tuple[str, ...] = ()
    """why it is unproven or only a partial pass (displayed first)"""
    limits: tuple[str, ...] = ()
    """qualifications of a pass, e.g. one training seed"""

    def because(self, reason: str) -> SessionSummary:
        """Return a copy of the outcome with `reason` prepended."""
        return self.model_copy(update={"reasons": (reason, *self.reasons)})


class Checkpoint(Event):
    """Interim evaluation: the scores of all policies of a training run at one step."""

    NAME = "session.checkpoint"

    number: int
    """number of the iteration"""
    step: int
    scores: dict[str, float | None]
    """mean score of each member on the selection episodes, or None if not judged"""
    unjudged: tuple[str, ...] = ()
    """distinct reasons for missing scores, with counts"""


class SessionWait(Record):
    """Reason why a running session is waiting."""

    schema_version: Literal[1] = 1
    reason: Reason
    message: str


def session_state(folder: SessionFolder) -> SessionState:
    """Return the current state of a session, or the outcome if the session has ended."""
    if lock_holder(folder.lock) is not None:
        with suppress(BadFile):  # the file may be removed at any moment
            return _WAITS[read_record(folder.waiting, SessionWait).reason]
        return "pausing" if folder.pause.exists() else "running"
    if not folder.summary.exists():
        return "interrupted"
    outcome = read_fields(folder.summary, outcome=Outcome)["outcome"]
    return verified(folder).outcome if outcome in _CLAIMS else outcome


def verified(folder: SessionFolder) -> SessionSummary:
    """Return the verified result of an ended session, which states whether it passed.

    A pass is `passed` only if this user's key signed it and all its files are unchanged: policy,
    judged episodes, robot, judge, criteria, request and vetoes. If the pass is unsigned or signed
    with another key, it is `claimed`. Any other pass is `unproven`, with the reason.
    """
    summary = read_record(folder.summary, SessionSummary)
    is_pass, needs = summary.outcome in _CLAIMS, [folder.summary]
    if is_pass:
        needs.append(folder.certificate)
        if summary.best_iteration is not None:
            needs.append(folder.iteration(summary.best_iteration).judgment)
    fault, not_ours = check_end(folder, needs)
    if not is_pass and fault in (None, NOT_SIGNED_OFF):  # nothing is claimed
        return summary
    if fault is not None:
        outcome = "unproven" if is_pass else summary.outcome
        unknown = {"outcome": outcome, "score": None, "low": None, "passing": None}
        return summary.because(fault).model_copy(update=unknown)
    if not_ours is not None or summary.outcome == "claimed":
        words = f"{outcome_words(summary.outcome)} according to its folder: {not_ours}"
        return summary.because(words).model_copy(update={"outcome": "claimed", "low": None})
    return summary


def is_running(folder: WorkFolder) -> bool:
    """Return whether a process holds the folder's lock."""
    return lock_holder(folder.lock) is not None


def require_unfinished(folder: SessionFolder) -> None:
    """Raise UsageError if the session has ended."""
    state = session_state(folder)
    if state in ENDED:
        raise UsageError(
            f"{folder.name} has ended: {outcome_words(state)}.",
            hint=f"Continue from an iteration with: telic branch {folder.name} --iteration N",
        )
