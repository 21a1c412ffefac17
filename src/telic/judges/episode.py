"""A recorded episode as a judge sees it: measured quantities as plain arrays over time."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from telic.envs.spec import EnvSpec
from telic.errors import UnknownName
from telic.quantities import QUANTITIES
from telic.quantities.quantity import Accumulated, Recording
from telic.storage.trajectories import Trajectory


class Episode:
    """One episode of T steps. `episode["forward_velocity"]` is an array (T,).

    Any quantity of `telic quantities`, and the raw columns `qpos qvel xpos xquat action` (after
    each step). `episode.quantity("body_height", "ffoot")` for those that take a name.
    """

    def __init__(self, trajectory: Trajectory, spec: EnvSpec) -> None:
        self._trajectory = trajectory
        fields = {
            name: torch.from_numpy(np.array(column))
            for name, column in trajectory.columns.items()
            if column.dtype.kind in "fib"
        }
        if "cfrc_ext" in fields:
            fields["contacts"] = fields["cfrc_ext"][:, :, 3:].norm(dim=2)
        start = torch.zeros(len(trajectory), dtype=torch.bool)
        start[:1] = True
        fields["episode_start"] = start
        self._recording = Recording(fields, spec)
        self._spec = spec
        self._known: dict[tuple[Any, ...], np.ndarray] = {}

    def __len__(self) -> int:
        return len(self._trajectory)

    def __getitem__(self, name: str) -> np.ndarray:
        return self.quantity(name)

    def quantity(self, name: str, *arguments: Any) -> np.ndarray:
        """Return a quantity or a raw column at every step."""
        key = (name, *arguments)
        if key not in self._known:
            self._known[key] = self._measure(name, *arguments)
        return self._known[key]

    def _measure(self, name: str, *arguments: Any) -> np.ndarray:
        quantity = QUANTITIES.get(name)
        if quantity is None:
            if name in self._recording:
                return self._recording[name].numpy()
            raise UnknownName("quantity", name, [*QUANTITIES, *self._recording])
        if isinstance(quantity, Accumulated):
            return quantity.over(self._recording).numpy()
        return quantity(self._recording, *arguments).numpy()

    @property
    def dt(self) -> float:
        """Seconds per step."""
        return self._spec.dt_s or 1.0

    @property
    def seconds(self) -> float:
        """Length of the episode."""
        return len(self) * self.dt

    @property
    def full_seconds(self) -> float:
        """Length it would have had without ending early."""
        limit = self._spec.max_episode_steps
        return self.seconds if limit is None else limit * self.dt

    def mean(self, name: str, *arguments: Any) -> float:
        """Return the mean over the episode."""
        return float(np.mean(self.quantity(name, *arguments)))

    def highest(self, name: str, *arguments: Any) -> float:
        """Return the largest value of the episode."""
        return float(np.max(self.quantity(name, *arguments)))

    def lowest(self, name: str, *arguments: Any) -> float:
        """Return the smallest value of the episode."""
        return float(np.min(self.quantity(name, *arguments)))

    def last(self, name: str, *arguments: Any) -> float:
        """Return the value at the end."""
        return float(self.quantity(name, *arguments)[-1])

    def share(self, mask: np.ndarray) -> float:
        """Return the share of the full episode in which something held, ended steps counted out."""
        return float(np.sum(mask)) * self.dt / self.full_seconds

    def longest(self, mask: np.ndarray) -> float:
        """Return the longest unbroken time for which something held, in seconds."""
        best = run = 0
        for holds in np.asarray(mask, dtype=bool).tolist():
            run = run + 1 if holds else 0
            best = max(best, run)
        return best * self.dt

    def first(self, mask: np.ndarray) -> int | None:
        """Return the first step at which something held; None: never."""
        found = np.flatnonzero(mask)
        return int(found[0]) if len(found) else None
