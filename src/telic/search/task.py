"""What a task of policy search is: its settings, N episodes of it, and their random numbers.

Random numbers are pure functions of (seed, place), alone or in any batch.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from telic.core.config import Record
from telic.core.seeds import derive

Seeds = NDArray[np.uint64]  # (N,), one per rollout
Floats = NDArray[np.float64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
Flags = NDArray[np.bool_]


def rollout_seeds(root: int, count: int) -> Seeds:
    """Return `count` seeds of rollouts that belong to one root seed."""
    return _mix(np.full(count, root, np.uint64) * _GOLDEN, np.arange(count, dtype=np.uint64))


def uniform(seeds: Seeds, size: int) -> Floats:
    """Return numbers in [0, 1), shape (N, size); the same for a seed in whatever company."""
    place = np.arange(1, size + 1, dtype=np.uint64)
    bits = _mix(seeds[:, None], place[None, :])
    # 53 bits, as a float64 mantissa holds
    return (bits >> np.uint64(11)).astype(np.float64) * (1.0 / 9007199254740992.0)


def generator(*path: int | str) -> np.random.Generator:
    """Return a generator for a path of names, e.g. (seed, "propose", 3)."""
    return np.random.default_rng(derive(*path))


def _mix(state: Seeds, place: Seeds) -> Seeds:
    """Mix two 64-bit numbers (the finaliser of SplitMix64: Steele, Lea, Flood, 2014)."""
    x = state + (place + np.uint64(1)) * _GOLDEN
    x = (x ^ (x >> np.uint64(30))) * _FIRST
    x = (x ^ (x >> np.uint64(27))) * _SECOND
    return x ^ (x >> np.uint64(31))


class ObservedNumber(NamedTuple):
    """One number a policy sees, and the range that matters, for scaling."""

    name: str
    centre: float
    half_range: float


class SearchTask(Record):
    """A task and everything about it that holds for every method."""

    id: str
    story: str
    """what happens, in words for a person or a model"""
    rewards: str
    """how it is rewarded and when it ends, in words"""
    observations: tuple[ObservedNumber, ...] = ()
    """what a policy sees; empty where it sees one of `states`"""
    states: int | None = None
    """number of states, where a policy is a table"""
    actions: tuple[str, ...]
    """choices, or components of a continuous action"""
    first_action: int = 0
    """number of the first choice"""
    action_low: float | None = None
    """lower end of each component; None where actions are choices"""
    action_high: float | None = None
    time_limit: int
    """steps after which an episode ends"""
    cap: int | None = None
    """steps after which search cuts an episode, where its own limit is needlessly long"""
    target: float
    """return told to a model as the goal"""
    good: float
    """return from which a policy is left alone or nearly so (the threshold of the gate)"""
    solved: float
    """return from which one episode counts as a success"""
    step_size: float = 1.0
    """largest change of a number that a revision should make"""
    warmup: int = 20
    """random policies tried, one episode each, before a model is asked"""
    rollouts: int = 5
    """episodes per candidate that suffice for a numeric proposer"""
    is_deterministic: bool = False
    """whether every episode of a policy is the same"""
    excerpts: int = 5
    """entries of the history that carried an excerpt in the published runs, where any did"""
    edit_levels: tuple[float, float, float] = Field(default=(0.05, 0.4, 0.9))
    """shares of the way from the worst to the target: near zero, partial, high; for analysis"""
    worst: float = 0.0
    """return of a policy that achieves nothing"""

    @property
    def is_continuous(self) -> bool:
        """Whether actions are numbers rather than choices."""
        return self.action_low is not None

    @property
    def is_table(self) -> bool:
        """Whether a policy is one action per state."""
        return self.states is not None

    @property
    def choices(self) -> tuple[int, ...]:
        """The numbers of the choices."""
        return tuple(range(self.first_action, self.first_action + len(self.actions)))


class StepResult(NamedTuple):
    """What one step of N episodes gave."""

    obs: NDArray[Any]  # (N, quantities) float32, or (N,) int64 states
    reward: Floats  # (N,)
    terminated: Flags  # (N,)


class World(Protocol):
    """N episodes of a task, stepped together; no autoreset, and rows that ended can be left out."""

    most_rows: int
    """episodes that one world should hold at most"""

    def start(self, seeds: Seeds) -> NDArray[Any]:
        """Begin one episode per seed and return what is seen first."""
        ...

    def step(self, action: NDArray[Any]) -> StepResult:
        """Make one step everywhere: actions (N,) int64, or (N, components) float64."""
        ...

    def keep(self, rows: NDArray[np.int64]) -> None:
        """Go on with these rows only."""
        ...
