"""Pong-v0: return the ball of an opponent that never misses."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from telic.search.draws import Seeds, uniform
from telic.search.environments.task import Moved, Quantity, Task

TASK = Task(
    id="Pong-v0",
    story="A ball flies over a field 800 wide and 600 high. Your paddle, 80 high, moves along the "
    "left edge by 5 up or down at every step; y grows downwards. The ball bounces off the upper "
    "and lower edge. When it meets your paddle it flies back, steeper the further from the "
    "paddle's centre it was met. The opponent on the right never misses.",
    rewards="1 for every ball you return. The episode ends when the ball leaves the field, or "
    "after 1000 steps, which is time for 3 returns at most.",
    observations=(
        Quantity("own paddle centre y", 300.0, 60.0),
        Quantity("ball x", 400.0, 400.0),
        Quantity("ball y", 300.0, 60.0),
        Quantity("ball velocity x", 0.0, 5.0),
        Quantity("ball velocity y", 0.0, 5.0),
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

    def step(self, action: NDArray[Any]) -> Moved:
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
        return Moved(self._seen(), hit.astype(np.float64), (x < 0) | (x > _WIDTH - _BALL))

    def keep(self, rows: NDArray[np.int64]) -> None:
        """Go on with these rows only."""
        for name in ("_own", "_other", "_x", "_y", "_dx", "_dy"):
            setattr(self, name, getattr(self, name)[rows])

    def _seen(self) -> NDArray[Any]:
        seen = (self._own + _PADDLE / 2, self._x, self._y, self._dx, self._dy)
        return np.stack(seen, axis=1).astype(np.float32)
