"""Recorded episodes for judges, with measured quantities as plain arrays over time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from telic.core.tensors import norm
from telic.envs.spec import EnvSpec
from telic.errors import UnknownName
from telic.quantities import QUANTITIES
from telic.quantities.quantity import Recording, current_names
from telic.storage.trajectories import Trajectory


def _fields(trajectory: Trajectory) -> dict[str, Tensor]:
    """Return the columns of an episode from which quantities are computed."""
    fields = {
        name: torch.as_tensor(np.array(column))
        for name, column in trajectory.columns.items()
        if column.dtype.kind in "fib" and len(column) == len(trajectory)
    }
    if "cfrc_ext" in fields:
        fields["contacts"] = norm(fields["cfrc_ext"][:, :, 3:])
    start = torch.zeros(len(trajectory), dtype=torch.bool)
    start[:1] = True
    fields["episode_start"] = start
    return fields


class RecordedEpisode:
    """One episode of T steps. `episode["forward_velocity"]` is an array of shape (T,).

    Supports all quantities of `telic envs ENV`, and the raw columns `qpos qvel xpos xquat action`
    after each step. Use `episode.quantity("body_height", "ffoot")` to pass arguments.
    """

    __offered__: ClassVar[str] = "an episode"

    def __init__(
        self,
        trajectory: Trajectory,
        spec: EnvSpec,
        full_seconds: float | None = None,
    ) -> None:
        self._trajectory = trajectory
        self._full_seconds = full_seconds
        self._recording = Recording(_fields(trajectory), spec)
        self._spec = spec
        self._known: dict[tuple[Any, ...], np.ndarray] = {}
        self._folded: Callable[[str], np.ndarray] = lambda name: (
            QUANTITIES[name].over(self._recording).numpy()
        )

    def __len__(self) -> int:
        return len(self._trajectory)

    def __getitem__(self, name: str) -> np.ndarray:
        return self.quantity(name)

    def quantity(self, name: str, *arguments: Any) -> np.ndarray:
        """Return a quantity or a raw column at every step."""
        name = current_names(name)
        key = (name, *arguments)
        if key not in self._known:
            self._known[key] = self._measure(name, *arguments)
        return self._known[key].copy()  # protects the cache from in-place changes

    def _measure(self, name: str, *arguments: Any) -> np.ndarray:
        quantity = QUANTITIES.get(name)
        if quantity is None:
            if name in self._recording:
                return self._recording[name].numpy()
            raise UnknownName("quantity", name, [*QUANTITIES, *self._recording])
        if quantity.width is not None:
            return self._folded(name)
        return quantity(self._recording, *arguments).numpy()

    @property
    def dt(self) -> float:
        """Seconds per step."""
        return self._spec.dt_s or 1.0

    @property
    def seconds(self) -> float:
        """Duration of the episode in seconds."""
        return len(self) * self.dt

    @property
    def full_seconds(self) -> float:
        """Duration that the episode would have without early termination, in seconds."""
        if self._full_seconds is not None:
            return self._full_seconds
        limit = self._spec.max_episode_steps
        return self.seconds if limit is None else limit * self.dt

    def mean(self, name: str, *arguments: Any) -> float:
        """Return the mean of a quantity over the episode."""
        return float(np.mean(self.quantity(name, *arguments)))

    def highest(self, name: str, *arguments: Any) -> float:
        """Return the maximum of a quantity over the episode."""
        return float(np.max(self.quantity(name, *arguments)))

    def lowest(self, name: str, *arguments: Any) -> float:
        """Return the minimum of a quantity over the episode."""
        return float(np.min(self.quantity(name, *arguments)))

    def last(self, name: str, *arguments: Any) -> float:
        """Return the value of a quantity at the last step."""
        return float(self.quantity(name, *arguments)[-1])

    def share(self, mask: np.ndarray) -> float:
        """Return the fraction of the full duration for which a mask is true."""
        return float(np.sum(mask)) * self.dt / self.full_seconds

    def longest(self, mask: np.ndarray) -> float:
        """Return the longest time in seconds for which a mask is true without interruption."""
        best = run = 0
        for holds in np.asarray(mask, dtype=bool).tolist():
            run = run + 1 if holds else 0
            best = max(best, run)
        return best * self.dt

    def pace(self, values: np.ndarray, seconds: float = 0.5) -> np.ndarray:
        """Return the rate of change per second over a window of `seconds` around each step.

        Unlike a velocity, the rate averages out oscillations shorter than the window.
        """
        half, steps = max(1, round(0.5 * seconds / self.dt)), np.arange(len(self))
        first, last = np.maximum(steps - half, 0), np.minimum(steps + half, len(self) - 1)
        return (values[last] - values[first]) / (np.maximum(last - first, 1) * self.dt)

    def count(self, high: np.ndarray, low: np.ndarray) -> np.ndarray:
        """Return a running count of transitions from `high` to `low`, e.g. of jumps or steps."""
        counts = np.zeros(len(self))
        is_up, total = False, 0
        for step, (up, down) in enumerate(zip(high.tolist(), low.tolist(), strict=True)):
            if is_up and down:
                total += 1
            is_up = bool(up) or (is_up and not down)
            counts[step] = total
        return counts

    def since(self, values: np.ndarray, mask: np.ndarray) -> np.ndarray:
        """Return the change in values since a mask was last true, or 0 if it was never true."""
        steps = np.where(np.asarray(mask, dtype=bool), np.arange(len(self)), -1)
        last = np.maximum.accumulate(steps)
        return np.where(last >= 0, values - values[np.maximum(last, 0)], 0.0)

    def when(self, mask: np.ndarray, seconds: float = 0.0) -> int | None:
        """Return the first step at which a mask has been true for `seconds` in total, or None."""
        mask = np.asarray(mask, dtype=bool)
        # Half a step of tolerance: accumulated rounding must not miss a whole number of seconds.
        return self.first(mask & (np.cumsum(mask) * self.dt >= seconds - 0.5 * self.dt))

    def before(self, step: int | None) -> RecordedEpisode:
        """Return the episode up to and including a step, or the whole episode without a step."""
        if step is None:
            return self
        return self._part(0, step + 1, (step + 1) * self.dt)

    def after(self, step: int | None) -> RecordedEpisode:
        """Return the episode after a step, or only its last step if nothing follows.

        Accumulated quantities such as turns and air time restart from zero.
        """
        start = len(self) - 1 if step is None else min(step + 1, len(self) - 1)
        return self._part(start, len(self), self.full_seconds - start * self.dt)

    def left(self, step: int | None) -> float:
        """Return the recorded time after a step in seconds, or 0 if the step is None."""
        return 0.0 if step is None else (len(self) - 1 - step) * self.dt

    def _part(self, start: int, end: int, full_seconds: float) -> RecordedEpisode:
        columns = {name: column[start:end] for name, column in self._trajectory.columns.items()}
        part = Trajectory(columns, self._trajectory.facts)
        return RecordedEpisode(
            part, self._spec, full_seconds=max(full_seconds, len(part) * self.dt)
        )

    def first(self, mask: np.ndarray) -> int | None:
        """Return the first step at which a mask is true, or None."""
        steps = np.flatnonzero(mask)
        return int(steps[0]) if len(steps) else None


def recorded_together(
    trajectories: Sequence[Trajectory],
    spec: EnvSpec,
    full_seconds: Sequence[float | None] | None = None,
) -> list[RecordedEpisode]:
    """Return episodes of one environment, with accumulated quantities computed in one batch.

    Accumulating over a hundred episodes at once takes as long as over one episode. Shorter episodes
    are padded with their last step, which does not change earlier values.
    """
    limits = full_seconds or [None] * len(trajectories)
    given = zip(trajectories, limits, strict=True)
    episodes = [RecordedEpisode(each, spec, limit) for each, limit in given]
    filled = [each for each in episodes if len(each)]
    fields = [each._recording for each in filled]
    longest = max(map(len, filled), default=0)
    rows = [torch.arange(longest).clamp(max=len(each) - 1) for each in filled]
    stacked: dict[str, Tensor] = {}
    for name in set[str].intersection(*map(set, fields)) if fields else ():
        columns = [own[name] for own in fields]
        if len({(column.shape[1:], column.dtype) for column in columns}) == 1:
            stacked[name] = torch.stack([x[row] for x, row in zip(columns, rows, strict=True)], 1)
    recording = Recording(stacked, spec)

    @cache
    def over(name: str) -> np.ndarray:
        return QUANTITIES[name].over(recording).numpy()

    def row(place: int, name: str) -> np.ndarray:
        return over(name)[: len(filled[place]), place]

    for place, each in enumerate(filled):
        each._folded = partial(row, place)
    return episodes
