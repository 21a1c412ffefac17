"""The lazy mapping of named batched tensors that describes one transition."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from telic.envs.spec import EnvSpec, Robot
from telic.errors import UnknownName

_ALIASES = {"_episode_start": "episode_start"}


class UnknownInfoError(UnknownName, KeyError):
    """No info value of this name; a KeyError too, as a mapping promises."""

    def __init__(self, name: str, known: list[str]) -> None:
        super().__init__("info value", name, known)


@dataclass(frozen=True, slots=True)
class InfoSchema:
    """What the infos of one environment have in common; built once, shared by every step."""

    meanings: Mapping[str, str]
    """every name with its meaning"""
    bodies: Mapping[str, int] = field(default_factory=dict[str, int])
    """row of each body in the by-body values, such as "xpos" (N, nbody, 3)"""
    robot: Robot | None = None
    """facts about the robot, for measured quantities; None: not a robot"""
    spec: EnvSpec | None = None
    """the environment all this comes from"""


class Info(Mapping[str, Tensor]):
    """Named tensors (N, ...) of the transition just made, computed at first ask.

    `info[name]` is float32 (bool stays bool), `info.exact(name)` float64. Each value is computed
    once and is memory of its own: a write to it cannot reach the simulator. Iterating lists the
    names and computes nothing. Values describe the state before an autoreset. An `Info` can
    compute until the next `step`; what was asked before then stays readable.
    """

    __slots__ = ("_compute", "_exact", "_single", "schema")

    def __init__(
        self,
        compute: Callable[[str], Tensor],
        schema: InfoSchema,
        values: dict[str, Tensor] | None = None,
    ) -> None:
        """Read values through `compute`.

        Args:
            compute: gives the exact value of a name, (N, ...), in memory nobody else writes.
            schema: the names, and what they mean.
            values: exact values known already; taken over.
        """
        self._compute = compute
        self.schema = schema
        self._exact: dict[str, Tensor] = {} if values is None else values
        self._single: dict[str, Tensor] = {}

    @classmethod
    def of(cls, values: Mapping[str, Tensor], schema: InfoSchema | None = None) -> Info:
        """Return an info over tensors that exist already."""
        schema = schema or InfoSchema(dict.fromkeys(values, ""))
        return cls(values.__getitem__, schema)

    def exact(self, name: str) -> Tensor:
        """Return a value in full precision: float64, or bool or integer as it is."""
        name = _ALIASES.get(name, name)
        value = self._exact.get(name)
        if value is None:
            if name not in self.schema.meanings:
                raise UnknownInfoError(name, list(self.schema.meanings))
            value = self._exact[name] = self._compute(name)
        return value

    def __getitem__(self, name: str) -> Tensor:
        value = self._single.get(name)
        if value is None:
            value = self.exact(name)
            if value.is_floating_point():
                value = value.to(torch.float32)
            self._single[name] = value
        return value

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and _ALIASES.get(name, name) in self.schema.meanings

    def __iter__(self) -> Iterator[str]:
        return iter(self.schema.meanings)

    def __len__(self) -> int:
        return len(self.schema.meanings)

    def __repr__(self) -> str:
        return f"Info({', '.join(self.schema.meanings)})"

    @property
    def robot(self) -> Robot | None:
        """Facts about the robot, for measured quantities; None: not a robot."""
        return self.schema.robot

    @property
    def spec(self) -> EnvSpec | None:
        """The environment this comes from; measured quantities read it."""
        return self.schema.spec

    def body(self, name: str) -> BodyInfo:
        """Return the values of one body, e.g. `info.body("torso").xpos`, (N, 3)."""
        row = self.schema.bodies.get(name)
        if row is None:
            raise UnknownName("body", name, list(self.schema.bodies))
        return BodyInfo(self, row)

    def slice(self, rows: slice) -> Info:
        """Return the same info restricted to some rows; slices share each computation."""
        return _Rows(self, rows)


class _Rows(Info):
    """Some rows of another info, copied at first ask: a write to them reaches nobody else."""

    __slots__ = ("_parent", "_rows")

    def __init__(self, parent: Info, rows: slice) -> None:
        super().__init__(lambda name: parent.exact(name)[rows].clone(), parent.schema)
        self._parent = parent
        self._rows = rows

    def __getitem__(self, name: str) -> Tensor:
        value = self._single.get(name)
        if value is None:
            value = self._single[name] = self._parent[name][self._rows].clone()
        return value


class BodyInfo:
    """The values of one body in every environment."""

    __slots__ = ("_info", "_row")

    def __init__(self, info: Info, row: int) -> None:
        self._info = info
        self._row = row

    def _of(self, name: str) -> Tensor:
        return self._info[name][:, self._row]

    @property
    def xpos(self) -> Tensor:
        """Position of the body frame in the world, (N, 3), metres."""
        return self._of("xpos")

    @property
    def xquat(self) -> Tensor:
        """Orientation of the body frame in the world, (N, 4), w first."""
        return self._of("xquat")

    @property
    def cvel(self) -> Tensor:
        """Velocity about the centre of mass of its tree, (N, 6): rotation, then translation."""
        return self._of("cvel")

    @property
    def subtree_com(self) -> Tensor:
        """Centre of mass of the body and all that hangs on it, (N, 3), metres."""
        return self._of("subtree_com")

    @property
    def cfrc_ext(self) -> Tensor:
        """External force on the body, (N, 6): torque, then force, world axes."""
        return self._of("cfrc_ext")

    @property
    def contact(self) -> Tensor:
        """Size of the net external (contact) force on the body, (N,), newtons."""
        return self._of("contacts")
