"""CartPole, MountainCar and MountainCarContinuous: they equal Gymnasium's, in batches."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from telic.search.environments.task import (
    Floats,
    ObservedNumber,
    SearchTask,
    Seeds,
    StepResult,
    uniform,
)

CART_POLE = SearchTask(
    id="CartPole-v1",
    story="A pole stands on a cart that moves on a track. At every step the cart is pushed to the "
    "left or to the right. Keep the pole upright and the cart on the track.",
    rewards="1 for every step. The episode ends when the cart is more than 2.4 from the centre, "
    "when the pole leans more than 12 degrees (0.209 rad), or after 500 steps.",
    observations=(
        ObservedNumber("cart position", 0.0, 2.4),
        ObservedNumber("cart velocity", 0.0, 3.0),
        ObservedNumber("pole angle", 0.0, 0.2095),
        ObservedNumber("pole angular velocity", 0.0, 3.0),
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

    def step(self, action: NDArray[Any]) -> StepResult:
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
        return StepResult(self._seen(), np.ones(len(action)), fallen)

    def keep(self, rows: NDArray[np.int64]) -> None:
        """Go on with these rows only."""
        self._state = np.ascontiguousarray(self._state[:, rows])

    def _seen(self) -> NDArray[Any]:
        return self._state.T.astype(np.float32)


PLACE = ObservedNumber("position", -0.3, 0.9)
SPEED = ObservedNumber("velocity", 0.0, 0.07)

MOUNTAIN_CAR = SearchTask(
    id="MountainCar-v0",
    story="A car stands in a valley between two hills. Its engine is too weak to drive straight up "
    "the right hill, so it must swing back and forth to gather speed. The valley's lowest "
    "place is at position -0.52, the flag at 0.5; velocity is between -0.07 and 0.07.",
    rewards="-1 for every step until the car is at the flag (position at least 0.5), at most 200 "
    "steps.",
    observations=(PLACE, SPEED),
    actions=("push left", "do not push", "push right"),
    time_limit=200,
    target=-110.0,
    good=-120.0,
    solved=-199.0,
    warmup=0,
    edit_levels=(0.05, 0.4, 0.85),
    worst=-200.0,
)


class MountainCar:
    """Batched car between hills."""

    most_rows = 4096

    def start(self, seeds: Seeds) -> NDArray[Any]:
        """Begin at rest near the lowest place."""
        self._place = uniform(seeds, 1)[:, 0] * 0.2 - 0.6
        self._speed = np.zeros(len(seeds))
        return self._seen()

    def step(self, action: NDArray[Any]) -> StepResult:
        """Push."""
        speed = self._speed + ((action - 1) * 0.001 + np.cos(3 * self._place) * -0.0025)
        speed = np.clip(speed, -0.07, 0.07)
        place = np.clip(self._place + speed, -1.2, 0.6)
        speed[(place == -1.2) & (speed < 0)] = 0.0
        self._place, self._speed = place, speed
        arrived = (place >= 0.5) & (speed >= 0)
        return StepResult(self._seen(), np.full(len(place), -1.0), arrived)

    def keep(self, rows: NDArray[np.int64]) -> None:
        """Go on with these rows only."""
        self._place, self._speed = self._place[rows], self._speed[rows]

    def _seen(self) -> NDArray[Any]:
        return np.stack((self._place, self._speed), axis=1).astype(np.float32)


MOUNTAIN_CAR_CONTINUOUS = SearchTask(
    id="MountainCarContinuous-v0",
    story="A car stands in a valley between two hills. Its engine, which pushes with any strength "
    "from -1 (left) to 1 (right), is too weak to drive straight up the right hill, so it must "
    "swing back and forth to gather speed. The valley's lowest place is at position -0.52, the "
    "flag at 0.45; velocity is between -0.07 and 0.07.",
    rewards="100 when the car reaches the flag, minus 0.1 times the square of the push at every "
    "step: small pushes are cheap. The episode ends at the flag or after 999 steps.",
    observations=(PLACE, SPEED),
    actions=("push",),
    action_low=-1.0,
    action_high=1.0,
    time_limit=999,
    target=99.0,
    good=97.0,
    solved=0.0,
    excerpts=2,
    edit_levels=(0.5, 0.7, 0.97),
    worst=-99.9,
)


class MountainCarContinuous:
    """Batched car between hills; its state is kept in float32, as Gymnasium keeps it."""

    most_rows = 4096

    def start(self, seeds: Seeds) -> NDArray[Any]:
        """Begin at rest near the lowest place."""
        self._place = uniform(seeds, 1)[:, 0] * 0.2 - 0.6
        self._speed = np.zeros(len(seeds))
        return self._seen()

    def step(self, action: NDArray[Any]) -> StepResult:
        """Push."""
        push = action[:, 0]
        force = np.clip(push, -1.0, 1.0)
        speed = self._speed + (force * 0.0015 - 0.0025 * np.cos(3 * self._place))
        speed = np.clip(speed, -0.07, 0.07)
        place = np.clip(self._place + speed, -1.2, 0.6)
        speed[(place == -1.2) & (speed < 0)] = 0.0
        arrived = (place >= 0.45) & (speed >= 0)
        # Gymnasium rounds its state to float32 after every step.
        self._place = place.astype(np.float32).astype(np.float64)
        self._speed = speed.astype(np.float32).astype(np.float64)
        return StepResult(self._seen(), 100.0 * arrived - 0.1 * np.square(push), arrived)

    def keep(self, rows: NDArray[np.int64]) -> None:
        """Go on with these rows only."""
        self._place, self._speed = self._place[rows], self._speed[rows]

    def _seen(self) -> NDArray[Any]:
        return np.stack((self._place, self._speed), axis=1).astype(np.float32)
