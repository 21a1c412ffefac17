"""MountainCarContinuous-v0: the same hill, a push of any strength. Equals Gymnasium's."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from telic.search.draws import Seeds, uniform
from telic.search.environments.mountain_car import PLACE, SPEED
from telic.search.environments.task import Moved, Task

TASK = Task(
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

    def step(self, action: NDArray[Any]) -> Moved:
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
        return Moved(self._seen(), 100.0 * arrived - 0.1 * np.square(push), arrived)

    def keep(self, rows: NDArray[np.int64]) -> None:
        """Go on with these rows only."""
        self._place, self._speed = self._place[rows], self._speed[rows]

    def _seen(self) -> NDArray[Any]:
        return np.stack((self._place, self._speed), axis=1).astype(np.float32)
