"""Ask a model what to try next; it may look at anything tried before it decides."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from telic.agents.asking import ask
from telic.agents.author import ASK_ANEW, check_reward
from telic.agents.records import Look, Revision, Turn
from telic.errors import RewardError, TelicError
from telic.llm import Models

_LOOKS = 6
_TRIES = 3


class Flaw(NamedTuple):
    """What is wrong with a revision."""

    text: str
    is_fatal: bool = True
    """False: a doubt, which goes back to the reviser as long as tries are left"""


def no_flaw(revision: Revision) -> Flaw | None:
    """Find nothing wrong with a revision."""


def revise(
    models: Models,
    shown: dict[str, str],
    story: str,
    show: Callable[[Look], str],
    numbers: Collection[int],
    flaw: Callable[[Revision], Flaw | None] = no_flaw,
) -> Revision:
    """Return a revision whose code may run, made after at most six looks.

    Args:
        models: who is asked.
        shown: the intent and the robot, see `telic.agents.author.scene`.
        story: what was tried so far.
        show: answers a look.
        numbers: the iterations that a revision may be based on.
        flaw: says what is wrong with a revision that only trying it shows; None: nothing.
    """
    seen: list[str] = []
    looks = tries = 0
    while True:
        left = _LOOKS - looks
        values = {
            **shown,
            "story": story,
            "looks_left": str(left),
            "seen": "\n\n".join(seen) or "Nothing yet.",
        }
        turn = ask(models, "reviser", Turn, values)
        if turn.revision is not None:
            found = _problem(turn.revision, numbers) or flaw(turn.revision)
            tries += 1
            if found is None or (tries == _TRIES and not found.is_fatal):
                return turn.revision
            if tries == _TRIES:
                raise RewardError(
                    f"The reviser wrote nothing usable in {_TRIES} tries. {found.text}",
                    hint=ASK_ANEW,
                )
            seen.append(f"### Your revision was sent back\n\n{found.text}")
            continue
        assert turn.look is not None
        if left <= 0:
            seen.append("### No looks are left\n\nDecide now: answer with a revision.")
            tries += 1
            if tries == _TRIES:
                raise RewardError("The reviser never decided on a revision.", hint=ASK_ANEW)
            continue
        looks += 1
        seen.append(f"### You looked at {_words(turn.look)}\n\n{_shown(show, turn.look)}")


def _shown(show: Callable[[Look], str], look: Look) -> str:
    try:
        return show(look)
    except TelicError as error:
        return f"This cannot be shown: {error}"


def _words(look: Look) -> str:
    parts = [look.at, *(str(each) for each in (look.iteration, look.other, look.quantity) if each)]
    return " ".join(parts)


def _problem(revision: Revision, numbers: Collection[int]) -> Flaw | None:
    """Return what makes a revision unusable, or None."""
    if revision.based_on not in numbers:
        there = ", ".join(map(str, sorted(numbers)))
        return Flaw(f"There is no iteration {revision.based_on}; there are: {there}.")
    if revision.source is None:
        return None
    try:
        check_reward(revision.source)
    except TelicError as error:
        return Flaw(f"The file was refused: {error}\n\n```python\n{revision.source}\n```")
    return None
