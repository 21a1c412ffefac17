"""Advance many runs together, so that their episodes are played in one batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from telic.search.confirming import Plays
from telic.search.records import Outcome
from telic.search.rollouts import Player, Rollouts, Trial

Ended = Callable[[int, Outcome], None]


def drive(runs: Mapping[int, Plays[Outcome]], player: Player, ended: Ended) -> None:
    """Advance every run to its end; `ended` is called with its number and how it ended.

    The numbers of a run do not depend on the company it is driven in.
    """
    waiting: dict[int, Trial] = {}

    def advance(number: int, rollouts: Rollouts | None) -> None:
        try:
            # A generator that has not begun is sent None.
            waiting[number] = runs[number].send(rollouts)  # type: ignore[arg-type]
        except StopIteration as end:
            waiting.pop(number, None)
            ended(number, end.value)

    for number in runs:
        advance(number, None)
    while waiting:
        numbers = list(waiting)
        for number, rollouts in zip(numbers, player.play(list(waiting.values())), strict=True):
            advance(number, rollouts)
