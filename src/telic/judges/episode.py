"""A recorded episode as a judge sees it: measured quantities as plain arrays over time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from telic.core.tensors import norm
from telic.envs.spec import EnvSpec
from telic.errors import UnknownName
from telic.judges.verdict import EpisodeMeasure
from telic.quantities import QUANTITIES
from telic.quantities.quantity import NotRecorded, Quantity, Recording
from telic.storage.trajectories import Environment, Trajectory, TrajectoryFacts


def cut_episode(
    columns: Mapping[str, np.ndarray],
    row: int,
    length: int,
    spec: EnvSpec,
    environment: Environment,
    **more: Any,
) -> Trajectory:
    """Return a row of columns (T, N, ...), up to its length, as a recorded episode.

    `more` are further facts about it.
    """
    own = {name: np.ascontiguousarray(column[:length, row]) for name, column in columns.items()}
    facts = TrajectoryFacts(
        env_id=environment[0],
        env_kwargs=environment[1],
        dt_s=spec.dt_s,
        obs_names=spec.obs_names,
        action_names=spec.action_names,
        body_names=spec.body_names,
        joint_names=spec.joint_names,
        **more,
    )
    return Trajectory(own, facts)


def _fields(trajectory: Trajectory) -> dict[str, Tensor]:
    """Return the columns of an episode that quantities are measured from."""
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
    """One episode of T steps. `episode["forward_velocity"]` is an array (T,).

    Any quantity of `telic envs ENV`, and the raw columns `qpos qvel xpos xquat action` (after
    each step). `episode.quantity("body_height", "ffoot")` for those that take a name.
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
        self._folded: Callable[[str], np.ndarray] = self._fold

    def __len__(self) -> int:
        return len(self._trajectory)

    def __getitem__(self, name: str) -> np.ndarray:
        return self.quantity(name)

    def quantity(self, name: str, *arguments: Any) -> np.ndarray:
        """Return a quantity or a raw column at every step."""
        key = (name, *arguments)
        if key not in self._known:
            self._known[key] = self._measure(name, *arguments)
        return self._known[key].copy()  # what is done to it changes no later measurement

    def _measure(self, name: str, *arguments: Any) -> np.ndarray:
        quantity = QUANTITIES.get(name)
        if quantity is None:
            if name in self._recording:
                return self._recording[name].numpy()
            raise UnknownName("quantity", name, [*QUANTITIES, *self._recording])
        if quantity.width is not None:
            return self._folded(name)
        return quantity(self._recording, *arguments).numpy()

    def _fold(self, name: str) -> np.ndarray:
        return QUANTITIES[name].over(self._recording).numpy()

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
        if self._full_seconds is not None:
            return self._full_seconds
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

    def pace(self, values: np.ndarray, seconds: float = 0.5) -> np.ndarray:
        """Return how fast values change per second, at each step over so long around it.

        Shaking goes back and forth within that time and adds nothing, unlike to a velocity.
        """
        half, steps = max(1, round(0.5 * seconds / self.dt)), np.arange(len(self))
        first, last = np.maximum(steps - half, 0), np.minimum(steps + half, len(self) - 1)
        return (values[last] - values[first]) / (np.maximum(last - first, 1) * self.dt)

    def count(self, high: np.ndarray, low: np.ndarray) -> np.ndarray:
        """Return how often `high` held and then `low`, up to each step: jumps, steps, waves."""
        counts = np.zeros(len(self))
        is_up, total = False, 0
        for step, (up, down) in enumerate(zip(high.tolist(), low.tolist(), strict=True)):
            if is_up and down:
                total += 1
            is_up = bool(up) or (is_up and not down)
            counts[step] = total
        return counts

    def since(self, values: np.ndarray, mask: np.ndarray) -> np.ndarray:
        """Return how far values have changed since something last held; 0 before it ever did."""
        steps = np.where(np.asarray(mask, dtype=bool), np.arange(len(self)), -1)
        last = np.maximum.accumulate(steps)
        return np.where(last >= 0, values - values[np.maximum(last, 0)], 0.0)

    def when(self, mask: np.ndarray, seconds: float = 0.0) -> int | None:
        """Return the first step by which something had held for so long in all; None: never."""
        mask = np.asarray(mask, dtype=bool)
        # Half a step of slack: adding up steps must not miss a round number of seconds.
        return self.first(mask & (np.cumsum(mask) * self.dt >= seconds - 0.5 * self.dt))

    def before(self, step: int | None) -> RecordedEpisode:
        """Return the part up to and with a step; all of it if that never came (None)."""
        if step is None:
            return self
        return self._part(0, step + 1, (step + 1) * self.dt)

    def after(self, step: int | None) -> RecordedEpisode:
        """Return the part after a step; only the last step if that never came or was the last.

        What adds up over an episode (turns, air time) starts from zero.
        """
        start = len(self) - 1 if step is None else min(step + 1, len(self) - 1)
        return self._part(start, len(self), self.full_seconds - start * self.dt)

    def left(self, step: int | None) -> float:
        """Return the seconds recorded after a step; 0 if it never came."""
        return 0.0 if step is None else (len(self) - 1 - step) * self.dt

    def _part(self, start: int, end: int, full_seconds: float) -> RecordedEpisode:
        columns = {name: column[start:end] for name, column in self._trajectory.columns.items()}
        part = Trajectory(columns, self._trajectory.facts)
        return RecordedEpisode(
            part, self._spec, full_seconds=max(full_seconds, len(part) * self.dt)
        )

    def first(self, mask: np.ndarray) -> int | None:
        """Return the first step at which something held; None: never."""
        steps = np.flatnonzero(mask)
        return int(steps[0]) if len(steps) else None


def recorded_together(
    trajectories: Sequence[Trajectory],
    spec: EnvSpec,
    full_seconds: Sequence[float | None] | None = None,
) -> list[RecordedEpisode]:
    """Return episodes of one environment, over which what accumulates is measured in one go.

    Folding a quantity over the steps of a hundred episodes takes as long as over those of one. The
    shorter ones are continued as they ended; what comes later changes nothing that came before.
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


# ---- measurements that settle a dispute of judges


def measurable(spec: EnvSpec) -> list[Quantity]:
    """Return the quantities of an environment that are one number a step and need no name."""
    return [
        quantity
        for quantity in QUANTITIES.values()
        if quantity.available(spec) and quantity.per is None and not quantity.arguments
    ]


def measure_between(
    trajectory: Trajectory, spec: EnvSpec, quantity: str, between_s: tuple[float, float] | None
) -> EpisodeMeasure | None:
    """Return a quantity over a part of an episode, by default over all of it.

    None where time is not known, where the recording lacks a column that it needs, or where the
    simulation broke and it is not a number.
    """
    dt_s = trajectory.facts.dt_s
    if dt_s is None:
        return None
    first, last = 0, len(trajectory) - 1
    if between_s is not None:
        # Row n is the state after its step, at (n + 1) dt_s.
        first, last = (min(max(round(at / dt_s) - 1, 0), last) for at in between_s)
    try:
        track = RecordedEpisode(trajectory, spec)[quantity][first : last + 1]
    except NotRecorded:
        return None
    if not np.isfinite(track).all():
        return None
    return EpisodeMeasure(
        quantity=quantity,
        unit=QUANTITIES[quantity].unit,
        start_s=(first + 1) * dt_s,
        end_s=(last + 1) * dt_s,
        first=float(track[0]),
        last=float(track[-1]),
        mean=float(track.mean()),
        lowest=float(track.min()),
        highest=float(track.max()),
    )
