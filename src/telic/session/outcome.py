"""Outcomes of a session, and their names on screens, in reports and as exit codes.

A pass is claimed only without doubts. Policies that reached the threshold under a judge or a reward
that failed its validation are `unproven`; those whose judge measures only a part of the intent
`passed_in_part`. A pass that this user did not sign is `claimed` (`records.verified`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

Outcome = Literal["passed", "passed_in_part", "claimed", "unproven", "not_passed", "stopped"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
PASSES: tuple[Outcome, ...] = ("passed", "passed_in_part")
ENDED: tuple[Outcome, ...] = (*PASSES, "claimed", "unproven", "not_passed")
"""outcomes that cannot be resumed; a stopped session can"""
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


class Ending(NamedTuple):
    """The outcome of a session, and what keeps it from a plain pass."""

    outcome: Outcome
    reasons: tuple[str, ...] = ()
    """why it is unproven, or a partial pass; the most important first"""
    limits: tuple[str, ...] = ()
    """what narrows a pass, such as one training seed"""


def ending_of_pass(
    doubts: Sequence[str],
    left_out: Sequence[str],
    limits: Sequence[str],
    *,
    accept_partial: bool,
) -> Ending:
    """Return the outcome of policies that reached the threshold."""
    words = ", ".join(f"“{text}”" for text in left_out)
    part = (f"no criterion measures {words}",) if left_out and not accept_partial else ()
    if doubts:
        return Ending("unproven", (*doubts, *part), tuple(limits))
    return Ending("passed_in_part" if part else "passed", part, tuple(limits))


def outcome_words(outcome: Outcome, limits: Sequence[str] = ()) -> str:
    """Return the name of an outcome: "passed (one training seed)", "did not pass"."""
    words = _NAMES[outcome][0]
    is_limited = bool(limits) and outcome in PASSES
    return f"{words} ({', '.join(limits)})" if is_limited else words


def exit_code(outcome: Outcome, *, out_of_budget: bool = False) -> int:
    """Return the exit code of an outcome: 0 for a pass and nothing else."""
    return _OUT_OF_BUDGET if out_of_budget else _NAMES[outcome][1]
