"""The contract of every environment: N of them, stepped together, in batched tensors.

`VecEnv` is what an environment must do, `Step` what a step of it gives, and `Info` the named values
of the transition that rewards read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from telic.core.seeds import derive
from telic.envs.spec import EnvSpec, Robot
from telic.errors import ConfigError, UnknownName, UsageError

STAGGER = 101
"""stream of random numbers for the initial clocks; tasks use the low numbers"""
_ALIASES = {"_episode_start": "episode_start"}


class UnknownInfoError(UnknownName, KeyError):
    """No info value of this name; a KeyError too, as a mapping promises."""

    def __init__(self, name: str, known: list[str]) -> None:
        super().__init__("info value", name, known)


@dataclass(frozen=True, slots=True)
class InfoSchema:
    """The common part of the infos of one environment; built once, shared by every step."""

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
    __offered__ = "info"

    def __init__(
        self,
        compute: Callable[[str], Tensor],
        schema: InfoSchema,
        values: dict[str, Tensor] | None = None,
    ) -> None:
        """Read values through `compute`, which gives the exact value of a name in fresh memory.

        `values` are exact values known already; they are taken over.
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
    """Some rows of another info, copied at first ask: writing to them affects nothing else."""

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


_BY_BODY = {
    **{name: name for name in ("xpos", "xquat", "cvel", "subtree_com", "cfrc_ext")},
    "contact": "contacts",
}


class BodyInfo:
    """The by-body values of one body in every environment, such as `xpos`, (N, 3)."""

    __slots__ = ("_info", "_row")
    __offered__ = "a body"

    def __init__(self, info: Info, row: int) -> None:
        self._info = info
        self._row = row

    def __getattr__(self, name: str) -> Tensor:
        if name not in _BY_BODY:
            raise AttributeError(f"a body has no {name}; it has {', '.join(_BY_BODY)}")
        return self._info[_BY_BODY[name]][:, self._row]


class Step(NamedTuple):
    """The result of one control step of N environments.

    All tensors are the caller's to keep; treat them as read-only, for `obs` and `final_obs` are one
    tensor whenever no episode ended.
    """

    obs: Tensor  # (N, obs_dim) float32, after the autoreset: what to act on next
    reward: Tensor  # (N,) float32, the environment's own
    terminated: Tensor  # (N,) bool, the task ended: no value follows
    truncated: Tensor  # (N,) bool, the time limit ended it: bootstrap from final_obs
    info: Info  # of the transition, before the autoreset
    final_obs: Tensor  # (N, obs_dim) float32, before the autoreset; equals obs where not done


class VecEnv:
    """N environments in lock-step; an episode that ends is followed by a new one inside `step`."""

    def __init__(self, spec: EnvSpec, num_envs: int, device: torch.device) -> None:
        self.spec, self.num_envs, self.device = spec, num_envs, device
        # None: actions are (N, act_dim) float32; else (N,) int64 below it
        self.num_actions = spec.num_actions
        self.obs_dim, self.act_dim = spec.obs_dim, spec.act_dim
        self.action_low = torch.tensor(spec.action_low, device=device)  # (act_dim,) float32
        self.action_high = torch.tensor(spec.action_high, device=device)
        self.dt, self.max_episode_steps = spec.dt_s, spec.max_episode_steps
        bodies = {name: row for row, name in enumerate(spec.body_names)}
        self._schema = InfoSchema(spec.info_keys, bodies, spec.robot, spec)

    def reset(self, seed: int | Sequence[int] | None = None) -> Tensor:
        """Start new episodes everywhere and return their observations, (N, obs_dim) float32.

        With a seed, episodes are counted from the start again; without, counting continues.
        """
        raise NotImplementedError

    def step(self, action: Tensor) -> Step:
        """Make one control step in every environment; actions are used as given."""
        raise NotImplementedError

    def present(self) -> Info:
        """Return an info of the present state, after any autoreset: what a critic may see more of.

        It offers the fields of the simulation, not what belongs to a transition.
        """
        raise NotImplementedError

    def stagger(self) -> None:
        """Set each episode clock to a random age, so that time limits do not come in lock-step.

        For training, after `reset`; never in evaluation. No effect without a time limit.
        """
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """Return everything needed to resume bit for bit; the tensors are copies."""
        raise NotImplementedError

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up a state that `state_dict` of an equal environment gave."""
        raise NotImplementedError

    def foreseeing(self) -> AbstractContextManager[None]:
        """Return a context for a few dozen steps in a row, in which a GPU draws starts only once.

        An environment that starts more than four episodes within repeats the fourth start.
        """
        return nullcontext()

    def carried(self) -> dict[str, Tensor]:
        """Return the tensors that live from step to step and are replaced at each, by name.

        For recordings of steps on a GPU: what a recording leaves in new memory must be copied to
        where it began. Empty where steps cannot be recorded.
        """
        return {}

    def carry(self, tensors: dict[str, Tensor]) -> None:
        """Continue with these tensors instead."""

    def compile(self, shared: Path | None = None) -> None:
        """Compile what is compiled on demand, before a process confines itself.

        Processes that share a folder divide it between them.
        """

    def complaints(self) -> dict[str, int]:
        """Return how often something could not be computed exactly since the last call, by kind."""
        return {}

    def close(self) -> None:
        """Free threads and memory."""

    def _check(self, action: Tensor, has_begun: bool) -> None:
        """Raise for an action of another shape, and for a step before the first reset."""
        expected = (self.num_envs,) if self.num_actions else (self.num_envs, self.act_dim)
        if action.shape != expected:
            raise ConfigError(
                f"An action of shape {tuple(action.shape)} does not fit {self.num_envs} x "
                f"{self.spec.id}: expected {expected}."
            )
        if not has_begun:
            raise UsageError("step was called before reset.", hint="Call env.reset() once first.")

    def _check_state(self, state: dict[str, Any]) -> None:
        """Raise ConfigError for a state of another environment or batch size."""
        rows = len(state["seed"])
        if state["id"] != self.spec.id or rows != self.num_envs:
            raise ConfigError(
                f"A state of {rows} x {state['id']} does not fit {self.num_envs} x {self.spec.id}.",
                hint="Make the environment as it was when the state was saved.",
            )


def seed_rows(seed: int | Sequence[int], num_envs: int, device: torch.device) -> Tensor:
    """Return one seed per environment, (N,) int64.

    A sequence gives each member of a population an equal slice of the batch. Environment i of a
    slice is seeded by (its member's seed, i) alone, so neighbours do not matter.
    """
    seeds = [seed] if isinstance(seed, int) else list(seed)
    if not seeds or num_envs % len(seeds):
        raise ConfigError(
            f"num_envs={num_envs} cannot be cut into {len(seeds)} equal slices, one per seed.",
            hint="Give a multiple of the number of seeds.",
        )
    share = num_envs // len(seeds)
    rows = [derive(one, "env", i) for one in seeds for i in range(share)]
    return torch.tensor(rows, dtype=torch.int64, device=device)
