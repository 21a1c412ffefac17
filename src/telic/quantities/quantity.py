"""What a measured quantity is: a named, documented function of an environment's info.

An *instant* quantity is a pure function of one moment and works on any leading dimensions: a step's
info (N, ...), or a recording (T, ...) or (T, N, ...). One that *accumulates* remembers the episode
so far; it is defined once, as an update of its memory, and serves a reward step by step (`start`,
`update`) and a whole recording (`over`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from telic.envs.spec import EnvSpec, Robot
from telic.errors import UnknownName, UsageError

Fields = Mapping[str, Tensor]
Width = int | Callable[[EnvSpec], int]

_registry: dict[str, Quantity] = {}
QUANTITIES: Mapping[str, Quantity] = MappingProxyType(_registry)
"""every quantity by name; filled while the package is imported, read-only for everyone else"""


@dataclass(frozen=True, slots=True)
class Need:
    """What an environment must have for a quantity to exist."""

    words: str
    test: Callable[[EnvSpec], bool]

    def __and__(self, other: Need) -> Need:
        return Need(
            f"{self.words} and {other.words}", lambda spec: self.test(spec) and other.test(spec)
        )


class NotRecorded(UnknownName, KeyError):
    """A recording lacks a field that a quantity needs; a KeyError too, as a mapping promises."""

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
        return name in self._fields  # without reading it, as a mapping would

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)


class _Moment(Recording):
    """One time of a recording; `columns` are cut into times once for all moments."""

    def __init__(
        self, fields: Fields, spec: EnvSpec, time: int, columns: dict[str, tuple[Tensor, ...]]
    ) -> None:
        super().__init__(fields, spec)
        self._time = time
        self._columns = columns

    def __getitem__(self, name: str) -> Tensor:
        column = self._columns.get(name)
        if column is None:
            column = self._columns[name] = self._fields[name].unbind(0)
        return column[self._time]


@dataclass(frozen=True, slots=True)
class Quantity:
    """A measured quantity; call it on an info or a recording."""

    __offered__: ClassVar[str] = "a quantity"
    name: str
    unit: str
    formula: str
    """in words: the function's docstring"""
    latex: str
    need: Need
    function: Callable[..., Any]
    per: str | None = None
    """what the last axis of the value counts ("foot"), None for one number per environment"""

    kind: Literal["instant", "accumulated"] = "instant"

    def __repr__(self) -> str:
        return f"quantities.{self.name}"

    def available(self, spec: EnvSpec) -> bool:
        """Say whether an environment has this quantity."""
        return self.need.test(spec)

    def require(self, info: Fields) -> EnvSpec:
        """Return the environment of an info, or raise UsageError when it lacks this quantity."""
        spec = getattr(info, "spec", None)
        if spec is None:
            raise UsageError(
                f'Cannot measure "{self.name}": the values do not say whose they are.',
                hint="Give a step's info, or Recording(fields, env.spec).",
            )
        if not self.need.test(spec):
            names = [each.name for each in QUANTITIES.values() if each.available(spec)]
            raise UsageError(
                f'{spec.id} has no quantity "{self.name}": it needs {self.need.words}.',
                hint=f"Available here: {', '.join(names) or 'none'}.",
            )
        return spec

    def __call__(self, info: Fields, *args: Any, **kwargs: Any) -> Tensor:
        """Return the value: (N,) for a step's info, with the leading axes of a recording."""
        self.require(info)
        return self.function(info, *args, **kwargs)

    @property
    def arguments(self) -> tuple[str, ...]:
        """Return what to give besides the info, e.g. ("body",)."""
        skip = 1 if self.kind == "instant" else 2
        return tuple(inspect.signature(self.function).parameters)[skip:]


@dataclass(frozen=True, slots=True)
class Accumulated(Quantity):
    """A quantity of the episode so far.

    Its memory is one float tensor (N, width), all zeros at the start of an episode, so a reward can
    declare it as `memory = {"turned": pitch_turns.memory()}` and carry it:

        self.turned, turns = pitch_turns.update(self.turned, info)

    `update` itself forgets the rows whose `info["episode_start"]` is true.
    """

    width: Width = 1
    kind: Literal["instant", "accumulated"] = "accumulated"

    __repr__ = Quantity.__repr__  # a dataclass would otherwise write its own

    def memory(self, spec: EnvSpec | None = None) -> tuple[float, ...]:
        """Return the memory of one environment at the start of an episode."""
        return (0.0,) * self._width(spec)

    def start(
        self,
        num_envs: int,
        device: torch.device | str = "cpu",
        spec: EnvSpec | None = None,
    ) -> Tensor:
        """Return the memory at the start of an episode, (N, width).

        Args:
            num_envs: number of rows.
            device: where the infos live.
            spec: the environment; needed only where the memory's size depends on the robot.
        """
        return torch.zeros(num_envs, self._width(spec), device=device)

    def update(self, state: Tensor, info: Fields) -> tuple[Tensor, Tensor]:
        """Return the memory and the value after one more step."""
        self.require(info)
        if "episode_start" in info:
            state = state.masked_fill(info["episode_start"].unsqueeze(-1), 0.0)
        return self.function(state, info)

    def over(self, recording: Fields) -> Tensor:
        """Return the value at every time of a recording, (T, ...), by folding `update` over it."""
        spec = self.require(recording)
        any_field = recording["qpos" if "qpos" in recording else "action"]
        state = any_field.new_zeros((*any_field.shape[1:-1], self._width(spec)))
        values: list[Tensor] = []
        columns: dict[str, tuple[Tensor, ...]] = {}
        for time in range(any_field.shape[0]):
            state, value = self.update(state, _Moment(recording, spec, time, columns))
            values.append(value)
        return torch.stack(values)

    def __call__(self, info: Fields, *args: Any, **kwargs: Any) -> Tensor:
        """Refuse: one moment does not say what happened before."""
        raise UsageError(
            f'"{self.name}" remembers the episode, so it cannot be read off a single step.',
            hint=f"In a reward: self.m, value = {self.name}.update(self.m, info). "
            f"On a recording: {self.name}.over(recording).",
        )

    def _width(self, spec: EnvSpec | None) -> int:
        if isinstance(self.width, int):
            return self.width
        if spec is None:
            raise UsageError(
                f'The memory of "{self.name}" has one place per {self.per or "action or joint"}, '
                "which depends on the robot.",
                hint=f"Give spec=env.spec to {self.name}.start or {self.name}.memory.",
            )
        return self.width(spec)


def _words(function: Callable[..., Any]) -> str:
    return " ".join((inspect.getdoc(function) or "").split())


def instant(
    *, unit: str, latex: str, need: Need, per: str | None = None
) -> Callable[[Callable[..., Tensor]], Quantity]:
    """Register a function of one moment as a quantity; its docstring is the meaning."""

    def register(function: Callable[..., Tensor]) -> Quantity:
        name = function.__name__
        quantity = Quantity(name, unit, _words(function), latex, need, function, per)
        _registry[name] = quantity
        return quantity

    return register


def accumulated(
    *, unit: str, latex: str, need: Need, width: Width, per: str | None = None
) -> Callable[[Callable[[Tensor, Fields], tuple[Tensor, Tensor]]], Accumulated]:
    """Register an update (memory, info) -> (memory, value) as a quantity of the episode so far."""

    def register(function: Callable[[Tensor, Fields], tuple[Tensor, Tensor]]) -> Accumulated:
        name = function.__name__
        quantity = Accumulated(
            name, unit, _words(function), latex, need, function, per, width=width
        )
        _registry[name] = quantity
        return quantity

    return register


def spec_in(info: Fields) -> EnvSpec:
    """Return the environment of an info that was checked to say whose it is."""
    return info.spec  # type: ignore[attr-defined]


def robot_in(info: Fields) -> Robot:
    """Return the robot of an info that was checked to have one."""
    return info.spec.robot  # type: ignore[attr-defined]


def time_step(info: Fields) -> float:
    """Return the simulated seconds per step of an info that was checked to have a clock."""
    return info.spec.dt_s  # type: ignore[attr-defined]


def moves_along(*axes: str) -> Need:
    """Need a robot whose torso can move along these world axes."""
    words = " and ".join(axes)
    return Need(
        f"a robot that moves along {words}",
        lambda spec: spec.robot is not None and set(axes) <= set(spec.robot.root.moves),
    )


def turns_about(axis: str) -> Need:
    """Need a robot whose torso can turn about this axis."""
    return Need(
        f"a robot that turns about {axis}",
        lambda spec: spec.robot is not None and axis in spec.robot.root.turns,
    )


ROBOT = Need("a MuJoCo model", lambda spec: spec.robot is not None)
TRAVELS = Need(
    "a robot that can travel", lambda spec: spec.robot is not None and bool(spec.robot.root.moves)
)
FEET = Need("feet", lambda spec: spec.robot is not None and bool(spec.robot.feet))
SIDES = Need("feet on two sides", lambda spec: spec.robot is not None and bool(spec.robot.sides))
CONTINUOUS = Need("continuous actions", lambda spec: spec.num_actions is None)
