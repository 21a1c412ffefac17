"""FrozenLake, Maze, Nim and Pong: walks over a grid known only by walking, and two games."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from telic.search.environments.task import (
    Flags,
    Floats,
    ObservedNumber,
    SearchTask,
    Seeds,
    StepResult,
    uniform,
)

FROZEN_LAKE = SearchTask(
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
MAZE = SearchTask(
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
        self, task: SearchTask, following: NDArray[np.int64], reward: Floats, ending: Flags
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

    def step(self, action: NDArray[Any]) -> StepResult:
        """Take a step."""
        self._field = self.following[self._field, action, self._outcome[:, self._turn]]
        self._turn += 1
        return StepResult(self._field, self.reward[self._field], self.ending[self._field])

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


NIM = SearchTask(
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
        self._draws = uniform(seeds, NIM.time_limit)
        self._turn = 0
        return self._sticks

    def step(self, action: NDArray[Any]) -> StepResult:
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
        return StepResult(left, won * 1.0 - lost * 1.0, won | lost)

    def keep(self, rows: NDArray[np.int64]) -> None:
        """Go on with these rows only."""
        self._sticks, self._draws = self._sticks[rows], self._draws[rows]


PONG = SearchTask(
    id="Pong-v0",
    story="A ball flies over a field 800 wide and 600 high. Your paddle, 80 high, moves along the "
    "left edge by 5 up or down at every step; y grows downwards. The ball bounces off the upper "
    "and lower edge. When it meets your paddle it flies back, steeper the further from the "
    "paddle's centre it was met. The opponent on the right never misses.",
    rewards="1 for every ball you return. The episode ends when the ball leaves the field, or "
    "after 1000 steps, which is time for 3 returns at most.",
    observations=(
        ObservedNumber("own paddle centre y", 300.0, 60.0),
        ObservedNumber("ball x", 400.0, 400.0),
        ObservedNumber("ball y", 300.0, 60.0),
        ObservedNumber("ball velocity x", 0.0, 5.0),
        ObservedNumber("ball velocity y", 0.0, 5.0),
    ),
    actions=("move up (y - 5)", "move down (y + 5)", "stay"),
    time_limit=1000,
    target=3.0,
    good=2.8,
    solved=3.0,
    edit_levels=(0.067, 0.333, 0.933),
)

_WIDTH, _HEIGHT, _PADDLE, _BALL, _SPEED = 800.0, 600.0, 80.0, 10.0, 5.0
_LOWEST = _HEIGHT - _PADDLE
_FACE = 10.0  # width of a paddle


class Pong:
    """Batched ball, paddle and opponent, in pixels."""

    most_rows = 4096

    def start(self, seeds: Seeds) -> NDArray[Any]:
        """Begin with the ball in the middle, flying left or right."""
        draws = uniform(seeds, 2)
        count = len(seeds)
        self._own = np.full(count, (_HEIGHT - _PADDLE) / 2)
        self._other = self._own.copy()
        self._x, self._y = np.full(count, _WIDTH / 2), np.full(count, _HEIGHT / 2)
        self._dx = np.where(draws[:, 0] < 0.5, -_SPEED, _SPEED)
        self._dy = draws[:, 1] * 2 * _SPEED - _SPEED
        return self._seen()

    def step(self, action: NDArray[Any]) -> StepResult:
        """Move the paddle, then the opponent, then the ball."""
        wish = np.where(action == 0, -_SPEED, np.where(action == 1, _SPEED, 0.0))
        self._own = np.clip(self._own + wish, 0.0, _LOWEST)
        chase = np.sign(self._y - (self._other + _PADDLE / 2)) * _SPEED
        self._other = np.clip(self._other + chase, 0.0, _LOWEST)
        x, y = self._x + self._dx, self._y + self._dy
        dx, dy = self._dx, np.where((y <= 0) | (y >= _HEIGHT - _BALL), -self._dy, self._dy)
        hit = (dx < 0) & (x <= _FACE) & (self._own <= y) & (y <= self._own + _PADDLE)
        back = (
            (dx > 0)
            & (x >= _WIDTH - _FACE - _BALL)
            & (self._other <= y)
            & (y <= self._other + _PADDLE)
        )
        met = np.where(hit, self._own, self._other)
        turned = hit | back
        dy = np.where(turned, _SPEED * (2.0 * (y - met) / _PADDLE - 1.0), dy)
        self._x, self._y, self._dx, self._dy = x, y, np.where(turned, -dx, dx), dy
        return StepResult(self._seen(), hit.astype(np.float64), (x < 0) | (x > _WIDTH - _BALL))

    def keep(self, rows: NDArray[np.int64]) -> None:
        """Go on with these rows only."""
        for name in ("_own", "_other", "_x", "_y", "_dx", "_dy"):
            setattr(self, name, getattr(self, name)[rows])

    def _seen(self) -> NDArray[Any]:
        seen = (self._own + _PADDLE / 2, self._x, self._y, self._dx, self._dy)
        return np.stack(seen, axis=1).astype(np.float32)
