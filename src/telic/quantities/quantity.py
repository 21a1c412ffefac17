"""Measured quantities: named, documented functions of an environment's info.

An *instantaneous* quantity is a pure function of the current step and supports any leading
dimensions: (N, ...) for the info of a step, (T, ...) or (T, N, ...) for a recording. An
*accumulated* quantity is defined as an update of a memory. A reward evaluates it step by step with
`start` and `update`, and `over` evaluates it on a whole recording.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Literal, get_args

import torch
from torch import Tensor

from telic.envs.spec import EnvSpec, Robot
from telic.errors import UnknownName, UsageError

Fields = Mapping[str, Tensor]
Width = int | Callable[[EnvSpec], int]
Update = tuple[Tensor, Tensor]
"""function that returns the memory and the value after the next step"""

_registry: dict[str, Quantity] = {}
QUANTITIES: Mapping[str, Quantity] = MappingProxyType(_registry)
"""all quantities by name (registered when the package is imported)"""


def current_names(text: str) -> str:
    """Return a name or an expression of earlier versions with the current names of quantities."""
    text = text.replace("centre_of_mass", "center_of_mass")  # language: quoted
    return text.replace("distance_travelled", "distance_traveled")  # language: quoted


@dataclass(frozen=True, slots=True)
class Need:
    """Precondition that an environment must satisfy to provide a quantity."""

    words: str
    test: Callable[[EnvSpec], bool]

    def __and__(self, other: Need) -> Need:
        return Need(
            f"{self.words} and {other.words}", lambda spec: self.test(spec) and other.test(spec)
        )


class NotRecorded(UnknownName, KeyError):
    """Raised if a recording lacks a field that a quantity needs. Subclasses KeyError."""

    def __init__(self, name: str, known: list[str]) -> None:
        super().__init__("recorded column", name, known)


class Recording(Fields):
    """Recorded fields with a leading time axis, (T, ...) or (T, N, ...), and their environment."""

    __offered__: ClassVar[str] = "a recording"

    def __init__(self, fields: Fields, spec: EnvSpec) -> None:
        self._fields = fields
        self.spec = spec

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._fields:
            raise NotRecorded(name, list(self._fields))
        return self._fields[name]

    def __contains__(self, name: object) -> bool:
        return name in self._fields  # does not read the field, unlike the mapping's default

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)


class _Moment(Recording):
    """One time step of a recording. `columns` are split into time steps once for all steps."""

    def __init__(
        self, fields: Fields, spec: EnvSpec, time: int, columns: dict[str, tuple[Tensor, ...]]
    ) -> None:
        super().__init__(fields, spec)
        self._time, self._columns = time, columns

    def __getitem__(self, name: str) -> Tensor:
        column = self._columns.get(name)
        if column is None:
            column = self._columns[name] = self._fields[name].unbind(0)
        return column[self._time]


@dataclass(frozen=True, slots=True)
class Quantity:
    """Measured quantity, called with the info of a step or a recording.

    The memory of an accumulated quantity is a float tensor (N, width) that is zero when an episode
    starts. A reward declares it as `memory = {"turned": pitch_turns.memory()}` and updates it:

        self.turned, turns = pitch_turns.update(self.turned, info)

    `update` resets the rows whose `info["episode_start"]` is true.
    """

    __offered__: ClassVar[str] = "a quantity"
    name: str
    unit: str
    formula: str
    """description (the docstring of the function)"""
    latex: str
    need: Need
    function: Callable[..., Any]
    per: str | None = None
    """meaning of the last axis of the value, e.g. "foot", or None for one number per environment"""
    width: Width | None = None
    """size of the memory per environment, or None for an instantaneous quantity"""

    def __repr__(self) -> str:
        return f"quantities.{self.name}"

    @property
    def kind(self) -> Literal["instant", "accumulated"]:
        """Return "instantaneous" or "accumulated"."""
        return "instant" if self.width is None else "accumulated"

    @property
    def arguments(self) -> tuple[str, ...]:
        """Return the arguments besides the info, e.g. ("body",)."""
        skip = 1 if self.width is None else 2
        return tuple(inspect.signature(self.function).parameters)[skip:]

    def available(self, spec: EnvSpec) -> bool:
        """Return whether an environment provides this quantity."""
        return self.need.test(spec)

    def require(self, info: Fields) -> EnvSpec:
        """Return the environment of an info. Raises UsageError if this quantity is unavailable."""
        spec = getattr(info, "spec", None)
        if spec is None:
            raise UsageError(
                f'Cannot measure "{self.name}": the values do not name their environment.',
                hint="Pass the info of a step, or Recording(fields, env.spec).",
            )
        if not self.need.test(spec):
            names = [each.name for each in QUANTITIES.values() if each.available(spec)]
            raise UsageError(
                f'{spec.id} has no quantity "{self.name}": it requires {self.need.words}.',
                hint=f"Available quantities: {', '.join(names) or 'none'}.",
            )
        return spec

    def __call__(self, info: Fields, *args: Any, **kwargs: Any) -> Tensor:
        """Return the value, (N,) for the info of a step or with the leading axes of a recording."""
        if self.width is not None:
            raise UsageError(
                f'"{self.name}" accumulates over the episode, not over a single step.',
                hint=f"In a reward: self.m, value = {self.name}.update(self.m, info). "
                f"On a recording: {self.name}.over(recording).",
            )
        self.require(info)
        return self.function(info, *args, **kwargs)

    def memory(self, spec: EnvSpec | None = None) -> tuple[float, ...]:
        """Return the memory of one environment at the start of an episode.

        `spec` is required only if the memory's size depends on the robot.
        """
        width = self.width
        if callable(width):
            if spec is None:
                raise UsageError(
                    f'The memory size of "{self.name}" depends on the robot (one value per '
                    f"{self.per or 'action or joint'}).",
                    hint=f"Pass spec=env.spec to {self.name}.start or {self.name}.memory.",
                )
            width = width(spec)
        return (0.0,) * (width or 0)

    def start(
        self, num_envs: int, device: torch.device | str = "cpu", spec: EnvSpec | None = None
    ) -> Tensor:
        """Return the initial memory of N environments, (N, width)."""
        return torch.zeros(num_envs, len(self.memory(spec)), device=device)

    def update(self, state: Tensor, info: Fields) -> Update:
        """Return the memory and the value after the next step."""
        self.require(info)
        if "episode_start" in info:
            state = state.masked_fill(info["episode_start"].unsqueeze(-1), 0.0)
        return self.function(state, info)

    def over(self, recording: Fields) -> Tensor:
        """Return the value at every step of a recording, (T, ...), by calling `update` for each."""
        spec = self.require(recording)
        any_field = recording["qpos" if "qpos" in recording else "action"]
        state = any_field.new_zeros((*any_field.shape[1:-1], len(self.memory(spec))))
        values: list[Tensor] = []
        columns: dict[str, tuple[Tensor, ...]] = {}
        for time in range(any_field.shape[0]):
            state, value = self.update(state, _Moment(recording, spec, time, columns))
            values.append(value)
        return torch.stack(values)


def quantity(
    *, unit: str, latex: str, need: Need, per: str | None = None, width: Width | None = None
) -> Callable[[Callable[..., Any]], Quantity]:
    """Register a function as a quantity, with its docstring as the description.

    A function without `width` is instantaneous, info -> value. With `width`, it updates a memory of
    that size, (memory, info) -> (memory, value).
    """

    def register(function: Callable[..., Any]) -> Quantity:
        name, words = function.__name__, " ".join((inspect.getdoc(function) or "").split())
        made = _registry[name] = Quantity(name, unit, words, latex, need, function, per, width)
        return made

    return register


def spec_in(info: Fields) -> EnvSpec:
    """Return the environment of an info that must have one."""
    return info.spec  # type: ignore[attr-defined]


def robot_in(info: Fields) -> Robot:
    """Return the robot of an info that must have one."""
    return info.spec.robot  # type: ignore[attr-defined]


def time_step(info: Fields) -> float:
    """Return the simulated seconds per step of an info that must have a time step."""
    return info.spec.dt_s  # type: ignore[attr-defined]


def num_feet(spec: EnvSpec) -> int:
    """Return the number of feet of the robot."""
    return len(spec.robot.feet) if spec.robot else 0


def robot_need(words: str, test: Callable[[Robot], object]) -> Need:
    """Return the precondition that the robot satisfies a test."""
    return Need(words, lambda spec: spec.robot is not None and bool(test(spec.robot)))


def moves_along(*axes: str) -> Need:
    """Return the precondition that the torso can move along the given world axes."""
    words = f"a robot that moves along {' and '.join(axes)}"
    return robot_need(words, lambda robot: set(axes) <= set(robot.root.moves))


def turns_about(axis: str) -> Need:
    """Return the precondition that the torso can rotate about the given axis."""
    return robot_need(f"a robot that turns about {axis}", lambda robot: axis in robot.root.turns)


ROBOT = robot_need("a MuJoCo model", lambda robot: True)
TRAVELS = robot_need("a robot that can travel", lambda robot: robot.root.moves)
FEET = robot_need("feet", lambda robot: robot.feet)
CONTINUOUS = Need("continuous actions", lambda spec: spec.num_actions is None)


ObservedKind = Literal["column", "angle", "distance", "size", "car energy", "tip height"]


def observed_value(obs: Tensor, kind: str, columns: Sequence[int]) -> Tensor:
    """Return a value of the given kind computed from observations (..., n).

    Args:
        obs: batch of observations.
        kind: "column", "angle" (from a cosine and a sine), "distance" (between the points in the
            first and the second half of the columns), "size" (of a vector), "car energy" (of
            MountainCar's position and velocity) or "tip height" (from Acrobot's cosines and sines).
        columns: observation columns to use.
    """
    of = [obs[..., column] for column in columns]
    match kind:
        case "column":
            return of[0]
        case "angle":
            return torch.atan2(of[1], of[0])
        case "distance":
            one, other = obs[..., list(columns)].chunk(2, dim=-1)
            return (one - other).norm(dim=-1)
        case "size":
            return obs[..., list(columns)].norm(dim=-1)
        case "car energy":
            # Gravity accelerates the car by -0.0025 cos(3 x) a step: v^2 / 2 + 0.0025 sin(3 x) / 3.
            return 0.5 * of[1] ** 2 + torch.sin(3.0 * of[0]) * 0.0025 / 3.0
        case "tip height":
            return -of[0] - (of[0] * of[2] - of[1] * of[3])
        case _:
            raise UnknownName("kind of observed value", kind, list(get_args(ObservedKind)))
