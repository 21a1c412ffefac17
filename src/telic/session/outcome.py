"""How a session can end, and what each ending is called: on screens, in reports, for a shell.

A pass is claimed only where nothing is left to doubt. Policies that proved the threshold under a
judge or a reward that did not meet their trial are `unproven`; those whose judge measures only a
part of what was said `passed_in_part`. Everybody who names an outcome asks this module.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

Outcome = Literal["passed", "passed_in_part", "unproven", "not_passed", "stopped"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
PASSES: tuple[Outcome, ...] = ("passed", "passed_in_part")
ENDED: tuple[Outcome, ...] = ("passed", "passed_in_part", "unproven", "not_passed")
"""there is nothing to go on with; a session that was stopped goes on"""
ONE_SEED = "one training seed"
OUT_OF_BUDGET = 3
_WORDS: dict[Outcome, str] = {
    "passed": "passed",
    "passed_in_part": "passed in part",
    "unproven": "unproven",
    "not_passed": "did not pass",
    "stopped": "stopped",
}
_CODES: dict[Outcome, int] = {
    "passed": 0,
    "not_passed": 1,
    "stopped": 1,
    "passed_in_part": 6,
    "unproven": 7,
}


class Ending(NamedTuple):
    """What a session came to, and why it is not more than that."""

    outcome: Outcome
    reasons: tuple[str, ...] = ()
    """why it is unproven, or passed in part; the first one first"""
    limits: tuple[str, ...] = ()
    """what narrows a pass, such as one training seed"""


def ending_of_pass(
    doubts: Sequence[str],
    left_out: Sequence[str],
    limits: Sequence[str],
    *,
    accept_partial: bool,
) -> Ending:
    """Return what policies that proved the threshold come to.

    Args:
        doubts: why the judge or the reward cannot be trusted; empty: both met their trial.
        left_out: what was said and nothing measures.
        limits: what narrows it.
        accept_partial: a person agreed to do without what is left out.
    """
    words = ", ".join(f"“{text}”" for text in left_out)
    part = (f"nothing measures {words}",) if left_out and not accept_partial else ()
    if doubts:
        return Ending("unproven", (*doubts, *part), tuple(limits))
    return Ending("passed_in_part" if part else "passed", part, tuple(limits))


def outcome_words(outcome: Outcome, limits: Sequence[str] = ()) -> str:
    """Return what an outcome is called: "passed (one training seed)", "did not pass"."""
    words = _WORDS[outcome]
    is_limited = bool(limits) and outcome in PASSES
    return f"{words} ({', '.join(limits)})" if is_limited else words


def exit_code(outcome: Outcome, *, out_of_budget: bool = False) -> int:
    """Return what a shell is told: 0 for a pass and nothing else."""
    return OUT_OF_BUDGET if out_of_budget else _CODES[outcome]
