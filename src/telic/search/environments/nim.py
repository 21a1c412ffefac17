"""Nim-v0: ten sticks, take one to three, whoever takes the last one loses."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from telic.search.draws import Seeds, uniform
from telic.search.environments.task import Moved, Task

TASK = Task(
    id="Nim-v0",
    story="Ten sticks lie on a table. You and an opponent take turns, you first; each takes 1, 2 "
    "or 3 sticks. Whoever takes the last stick loses. The opponent plays perfectly. The state is "
    "the number of sticks left when it is your turn, 0 to 10 (0 never happens).",
    rewards="1 for winning, -1 for losing or for taking more sticks than there are.",
    states=11,
    actions=("take 1", "take 2", "take 3"),
    first_action=1,
    time_limit=10,
    target=1.0,
    good=0.95,
    solved=1.0,
    warmup=0,
    excerpts=100,
    edit_levels=(0.5, 0.65, 0.9),
    worst=-1.0,
)

_STICKS, _MOST = 10, 3


class Nim:
    """Batched games against a perfect opponent."""

    most_rows = 4096

    def start(self, seeds: Seeds) -> NDArray[Any]:
        """Lay ten sticks."""
        self._sticks = np.full(len(seeds), _STICKS)
        self._draws = uniform(seeds, TASK.time_limit)
        self._turn = 0
        return self._sticks

    def step(self, action: NDArray[Any]) -> Moved:
        """Take sticks, and let the opponent take some."""
        sticks = self._sticks
        illegal = (action < 1) | (action > _MOST) | (action > sticks)
        left = np.where(illegal, 0, sticks - action)
        lost = illegal | (left == 0)
        # A perfect player leaves 1, 5, 9, ...; where that is impossible, any legal number.
        perfect = (left - 1) % 4
        legal = np.minimum(left, _MOST)
        anything = 1 + (self._draws[:, self._turn] * legal).astype(np.int64)
        left = np.where(lost, 0, left - np.where(perfect > 0, perfect, anything))
        won = ~lost & (left == 0)
        self._sticks = left
        self._turn += 1
        return Moved(left, won * 1.0 - lost * 1.0, won | lost)

    def keep(self, rows: NDArray[np.int64]) -> None:
        """Go on with these rows only."""
        self._sticks, self._draws = self._sticks[rows], self._draws[rows]
