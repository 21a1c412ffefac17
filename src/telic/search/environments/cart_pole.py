"""CartPole-v1: push a cart left or right so that its pole stays up. Equals Gymnasium's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from telic.search.draws import Floats, Seeds, uniform
from telic.search.environments.task import Moved, Quantity, Task

TASK = Task(
    id="CartPole-v1",
    story="A pole stands on a cart that moves on a track. At every step the cart is pushed to the "
    "left or to the right. Keep the pole upright and the cart on the track.",
    rewards="1 for every step. The episode ends when the cart is more than 2.4 from the centre, "
    "when the pole leans more than 12 degrees (0.209 rad), or after 500 steps.",
    observations=(
        Quantity("cart position", 0.0, 2.4),
        Quantity("cart velocity", 0.0, 3.0),
        Quantity("pole angle", 0.0, 0.2095),
        Quantity("pole angular velocity", 0.0, 3.0),
    ),
    actions=("push left", "push right"),
    time_limit=500,
    target=500.0,
    good=480.0,
    solved=500.0,
    edit_levels=(0.04, 0.4, 0.9),
)

_GRAVITY, _FORCE, _DT = 9.8, 10.0, 0.02
_POLE_MASS, _TOTAL_MASS, _LENGTH = 0.1, 1.1, 0.5
_POLE_MASS_LENGTH = _POLE_MASS * _LENGTH
_ANGLE_LIMIT, _PLACE_LIMIT = 12 * 2 * math.pi / 360, 2.4


class CartPole:
    """Batched cart and pole; Euler steps of 0.02 s."""

    most_rows = 4096

    def start(self, seeds: Seeds) -> NDArray[Any]:
        """Begin near the centre, upright and at rest."""
        self._state: Floats = np.ascontiguousarray(uniform(seeds, 4).T * 0.1 - 0.05)  # (4, N)
        return self._seen()

    def step(self, action: NDArray[Any]) -> Moved:
        """Push."""
        _, x_dot, angle, angle_dot = self._state
        force = np.where(action == 1, _FORCE, -_FORCE)
        cos, sin = np.cos(angle), np.sin(angle)
        pushed = (force + _POLE_MASS_LENGTH * np.square(angle_dot) * sin) / _TOTAL_MASS
        angle_acc = (_GRAVITY * sin - cos * pushed) / (
            _LENGTH * (4.0 / 3.0 - _POLE_MASS * np.square(cos) / _TOTAL_MASS)
        )
        x_acc = pushed - _POLE_MASS_LENGTH * angle_acc * cos / _TOTAL_MASS
        change = np.array((x_dot, x_acc, angle_dot, angle_acc))
        self._state = self._state + _DT * change
        fallen = (np.abs(self._state[0]) > _PLACE_LIMIT) | (np.abs(self._state[2]) > _ANGLE_LIMIT)
        return Moved(self._seen(), np.ones(len(action)), fallen)

    def keep(self, rows: NDArray[np.int64]) -> None:
        """Go on with these rows only."""
        self._state = np.ascontiguousarray(self._state[:, rows])

    def _seen(self) -> NDArray[Any]:
        return self._state.T.astype(np.float32)
