"""MountainCar-v0: three pushes, a weak engine, a hill. Equals Gymnasium's."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from telic.search.draws import Seeds, uniform
from telic.search.environments.task import Moved, Quantity, Task

PLACE = Quantity("position", -0.3, 0.9)
SPEED = Quantity("velocity", 0.0, 0.07)

TASK = Task(
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

    def step(self, action: NDArray[Any]) -> Moved:
        """Push."""
        speed = self._speed + ((action - 1) * 0.001 + np.cos(3 * self._place) * -0.0025)
        speed = np.clip(speed, -0.07, 0.07)
        place = np.clip(self._place + speed, -1.2, 0.6)
        speed[(place == -1.2) & (speed < 0)] = 0.0
        self._place, self._speed = place, speed
        arrived = (place >= 0.5) & (speed >= 0)
        return Moved(self._seen(), np.full(len(place), -1.0), arrived)

    def keep(self, rows: NDArray[np.int64]) -> None:
        """Go on with these rows only."""
        self._place, self._speed = self._place[rows], self._speed[rows]

    def _seen(self) -> NDArray[Any]:
        return np.stack((self._place, self._speed), axis=1).astype(np.float32)
