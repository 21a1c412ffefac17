"""FrozenLake-v1 and Maze-v0: walk over a small grid that is known only by walking."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from telic.search.draws import Floats, Seeds, uniform
from telic.search.environments.task import Flags, Moved, Task

FROZEN_LAKE = Task(
    id="FrozenLake-v1",
    story="Walk over a frozen lake of 4 x 4 fields, numbered 0 (upper left, the start) to 15 "
    "(lower right, the goal) row by row. Some fields are holes; which ones is not told. The ice is "
    "slippery: a step goes where it was meant to in one of three cases, and in the other two at a "
    "right angle to it. A step over the edge stays.",
    rewards="1 for reaching the goal, else 0. The episode ends in a hole, at the goal or after 100 "
    "steps. No policy reaches the goal more often than in 74 of 100 episodes.",
    states=16,
    actions=("left", "down", "right", "up"),
    time_limit=100,
    target=0.74,
    good=0.7,
    solved=1.0,
    warmup=0,
    rollouts=20,
    excerpts=100,
    edit_levels=(0.068, 0.4, 0.95),
)
MAZE = Task(
    id="Maze-v0",
    story="Walk through a maze of 3 x 3 rooms, numbered 0 (upper left, the start) to 8 (lower "
    "right, the goal) row by row. Walls stand between some of them; which ones is not told. A step "
    "into a wall stays.",
    rewards="1 for reaching room 8, -0.0111 for every other step. The episode ends there or after "
    "20 steps.",
    states=9,
    actions=("north", "south", "east", "west"),
    time_limit=100,
    cap=20,
    target=0.9667,
    good=0.9,
    solved=0.9,
    rollouts=1,
    is_deterministic=True,
    excerpts=100,
    edit_levels=(0.3, 0.5, 0.95),
    worst=-0.22,
)

_HOLES, _LAKE_GOAL = (5, 7, 11, 12), 15
DOORS = ("SE", "EW", "SW", "NS", "E", "NW", "NE", "EW", "W")
_COMPASS = {"N": -3, "S": 3, "E": 1, "W": -1}


class Grid:
    """Batched walks; each action leads to one of several equally likely fields."""

    most_rows = 4096

    def __init__(
        self, task: Task, following: NDArray[np.int64], reward: Floats, ending: Flags
    ) -> None:
        """Walk by tables.

        Args:
            task: its time limit says how many random numbers an episode needs.
            following: (states, actions, outcomes) fields.
            reward: (states,) for entering a field.
            ending: (states,) whether entering it ends the episode.
        """
        self._limit = task.time_limit
        self.following, self.reward, self.ending = following, reward, ending

    def start(self, seeds: Seeds) -> NDArray[Any]:
        """Begin on field 0."""
        self._field = np.zeros(len(seeds), np.int64)
        outcomes = self.following.shape[2]
        self._outcome = (uniform(seeds, self._limit) * outcomes).astype(np.int64)
        self._turn = 0
        return self._field

    def step(self, action: NDArray[Any]) -> Moved:
        """Take a step."""
        self._field = self.following[self._field, action, self._outcome[:, self._turn]]
        self._turn += 1
        return Moved(self._field, self.reward[self._field], self.ending[self._field])

    def keep(self, rows: NDArray[np.int64]) -> None:
        """Go on with these rows only."""
        self._field, self._outcome = self._field[rows], self._outcome[rows]


def frozen_lake() -> Grid:
    """Return the slippery lake of Gymnasium."""
    row, column = np.divmod(np.arange(16), 4)
    moves = ((0, -1), (1, 0), (0, 1), (-1, 0))
    landed = np.stack(
        [np.clip(row + dr, 0, 3) * 4 + np.clip(column + dc, 0, 3) for dr, dc in moves], axis=1
    )
    slips = np.array([[(a - 1) % 4, a, (a + 1) % 4] for a in range(4)])
    following = landed[:, slips]  # (16, 4, 3)
    reward = (np.arange(16) == _LAKE_GOAL).astype(np.float64)
    ending = np.isin(np.arange(16), (*_HOLES, _LAKE_GOAL))
    following[ending] = np.arange(16)[ending][:, None, None]
    return Grid(FROZEN_LAKE, following, reward, ending)


def maze() -> Grid:
    """Return the maze of 3 x 3 rooms."""
    following = np.array(
        [
            [[room + _COMPASS[d] if d in doors else room] for d in "NSEW"]
            for room, doors in enumerate(DOORS)
        ]
    )
    at_goal = np.arange(9) == 8
    return Grid(MAZE, following, np.where(at_goal, 1.0, -0.1 / 9), at_goal)
