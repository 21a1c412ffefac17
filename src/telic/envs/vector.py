"""Interface of vectorized environments, with batched tensors.

`VecEnv` is the base class of environments, `Step` the result of a step, and `Info` the named values
of the transition that rewards use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from telic.core.seeds import derive
from telic.envs.spec import EnvSpec, Robot
from telic.errors import ConfigError, UnknownName, UsageError
from telic.storage.trajectories import Environment, Trajectory, TrajectoryFacts

STAGGER = 101
"""Stream of random numbers for initial clocks, where tasks use lower stream numbers."""
_ALIASES = {"_episode_start": "episode_start"}


class UnknownInfoError(UnknownName, KeyError):
    """Raised for an unknown info value. Subclasses KeyError, as expected from a mapping."""

    def __init__(self, name: str, known: list[str]) -> None:
        super().__init__("info value", name, known)


@dataclass(frozen=True, slots=True)
class InfoSchema:
    """Metadata that all infos of one environment share."""

    meanings: Mapping[str, str]
    """Meaning of each info value by name."""
    bodies: Mapping[str, int] = field(default_factory=dict[str, int])
    """Row of each body in per-body values such as "xpos" (N, nbody, 3)."""
    robot: Robot | None = None
    """Structure of the robot for measured quantities, or None without a robot."""
    spec: EnvSpec | None = None
    """Specification of the environment."""


class Info(Mapping[str, Tensor]):
    """Lazily computed named tensors (N, ...) of the latest transition.

    `info[name]` is float32 (bool stays bool), and `info.exact(name)` is float64. Each value is
    computed once and cached in a new tensor, so writing to it does not affect the simulator.
    Iterating yields only the names. Values describe the state before an autoreset. New values can
    be computed until the next `step`, and cached values remain available.
    """

    __slots__ = ("_compute", "_exact", "_single", "schema")
    __offered__ = "info"

    def __init__(
        self,
        compute: Callable[[str], Tensor],
        schema: InfoSchema,
        values: dict[str, Tensor] | None = None,
    ) -> None:
        """Compute values with `compute`, which returns the exact value of a name as a new tensor.

        `values` are precomputed exact values. The dict is used without copying.
        """
        self._compute = compute
        self.schema = schema
        self._exact: dict[str, Tensor] = {} if values is None else values
        self._single: dict[str, Tensor] = {}

    @classmethod
    def of(cls, values: Mapping[str, Tensor], schema: InfoSchema | None = None) -> Info:
        """Create an info from existing tensors."""
        schema = schema or InfoSchema(dict.fromkeys(values, ""))
        return cls(values.__getitem__, schema)

    def exact(self, name: str) -> Tensor:
        """Return a value in full precision: float64, or a bool or integer type."""
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
        """Structure of the robot for measured quantities, or None without a robot."""
        return self.schema.robot

    @property
    def spec(self) -> EnvSpec | None:
        """Specification of the environment, used by measured quantities."""
        return self.schema.spec

    def body(self, name: str) -> BodyInfo:
        """Return the values of one body, e.g. `info.body("torso").xpos`, (N, 3)."""
        row = self.schema.bodies.get(name)
        if row is None:
            raise UnknownName("body", name, list(self.schema.bodies))
        return BodyInfo(self, row)

    def slice(self, rows: slice) -> Info:
        """Return a view of some rows. All views share the computed values."""
        return _Rows(self, rows)


class _Rows(Info):
    """Rows of another info. Copies on first access keep writes from affecting the original."""

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
    """Per-body values of one body in all environments, such as `xpos`, (N, 3)."""

    __slots__ = ("_info", "_row")
    __offered__ = "a body"

    def __init__(self, info: Info, row: int) -> None:
        self._info = info
        self._row = row

    def __getattr__(self, name: str) -> Tensor:
        if name not in _BY_BODY:
            raise AttributeError(f"a body has no {name}, only {', '.join(_BY_BODY)}")
        return self._info[_BY_BODY[name]][:, self._row]


class Step(NamedTuple):
    """Result of one control step of N environments.

    The caller may keep the tensors but should treat them as read-only, because `obs` and
    `final_obs` may be the same tensor if no episode ended.
    """

    obs: Tensor  # (N, obs_dim) float32, after the autoreset; input to the next action
    reward: Tensor  # (N,) float32, the environment's reward
    terminated: Tensor  # (N,) bool, ended by the task: do not bootstrap
    truncated: Tensor  # (N,) bool, ended by the time limit: bootstrap from final_obs
    info: Info  # of the transition, before the autoreset
    final_obs: Tensor  # (N, obs_dim) float32, before the autoreset; equals obs where not done


class VecEnv:
    """Base class of vectorized environments with autoreset inside `step`."""

    def __init__(self, spec: EnvSpec, num_envs: int, device: torch.device) -> None:
        self.spec, self.num_envs, self.device = spec, num_envs, device
        # number of discrete actions, (N,) int64, or None for continuous (N, act_dim) float32
        self.num_actions = spec.num_actions
        self.obs_dim, self.act_dim = spec.obs_dim, spec.act_dim
        self.action_low = torch.tensor(spec.action_low, device=device)  # (act_dim,) float32
        self.action_high = torch.tensor(spec.action_high, device=device)
        self.dt, self.max_episode_steps = spec.dt_s, spec.max_episode_steps
        bodies = {name: row for row, name in enumerate(spec.body_names)}
        self._schema = InfoSchema(spec.info_keys, bodies, spec.robot, spec)

    def reset(self, seed: int | Sequence[int] | None = None) -> Tensor:
        """Start new episodes in all environments, and return their observations, (N, obs_dim).

        A seed restarts the episode count. Without a seed, counting continues.
        """
        raise NotImplementedError

    def step(self, action: Tensor) -> Step:
        """Take one control step in all environments. Actions are not clipped or rescaled."""
        raise NotImplementedError

    def present(self) -> Info:
        """Return info on the current state after any autoreset, e.g. for a privileged critic.

        The info contains simulation fields but no values of a transition.
        """
        raise NotImplementedError

    def stagger(self) -> None:
        """Randomize each episode's age to desynchronize time limits.

        Call this after `reset` in training, but not in evaluation. Requires a time limit.
        """
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """Return the state needed for a bitwise exact resume. Tensors are copies."""
        raise NotImplementedError

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state from `state_dict` of an identically configured environment."""
        raise NotImplementedError

    def foreseeing(self) -> AbstractContextManager[None]:
        """Return a context in which a GPU samples initial states once for a few dozen steps.

        After four episodes of an environment in the context, the fourth initial state repeats.
        """
        return nullcontext()

    def carried(self) -> dict[str, Tensor]:
        """Return a dictionary of the tensors that each step replaces.

        CUDA graphs of steps need these tensors, because outputs in new memory must be copied back
        to the inputs. The result is empty if steps cannot be recorded.
        """
        return {}

    def carry(self, tensors: dict[str, Tensor]) -> None:
        """Replace the carried tensors. See `carried`."""

    def compile(self, shared: Path | None = None) -> None:
        """Compile all kernels that would otherwise be compiled on demand in a sandbox.

        Processes that share the folder `shared` divide the work.
        """

    def complaints(self) -> dict[str, int]:
        """Return the number of inexact computations by kind since the last call."""
        return {}

    def close(self) -> None:
        """Free threads and memory."""

    def _check(self, action: Tensor, has_begun: bool) -> None:
        """Raise an error for an action of the wrong shape, or a step before the first reset."""
        expected = (self.num_envs,) if self.num_actions else (self.num_envs, self.act_dim)
        if action.shape != expected:
            raise ConfigError(
                f"An action of shape {tuple(action.shape)} does not match {self.num_envs} x "
                f"{self.spec.id}, which requires {expected}."
            )
        if not has_begun:
            raise UsageError("step was called before reset.", hint="Call env.reset() first.")

    def _check_state(self, state: dict[str, Any]) -> None:
        """Raise ConfigError if a state is from another environment or batch size."""
        rows = len(state["seed"])
        if state["id"] != self.spec.id or rows != self.num_envs:
            raise ConfigError(
                f"A state of {rows} x {state['id']} does not fit {self.num_envs} x {self.spec.id}.",
                hint="Create the environment with the settings used when the state was saved.",
            )


def seed_rows(seed: int | Sequence[int], num_envs: int, device: torch.device) -> Tensor:
    """Return one seed per environment, (N,) int64.

    With a sequence, each member of a population gets an equal slice of the batch. Environment i of
    a slice is seeded only by (its member's seed, i), independently of other slices.
    """
    seeds = [seed] if isinstance(seed, int) else list(seed)
    if not seeds or num_envs % len(seeds):
        raise ConfigError(
            f"num_envs={num_envs} is not divisible by the number of seeds, {len(seeds)}.",
            hint="num_envs must be a multiple of the number of seeds.",
        )
    share = num_envs // len(seeds)
    rows = [derive(one, "env", i) for one in seeds for i in range(share)]
    return torch.tensor(rows, dtype=torch.int64, device=device)


def cut_episode(
    columns: Mapping[str, np.ndarray],
    row: int,
    length: int,
    spec: EnvSpec,
    environment: Environment,
    **more: Any,
) -> Trajectory:
    """Return one environment's rows of columns (T, N, ...) as an episode of its length.

    `more` holds additional fields of the episode.
    """
    own = {name: np.ascontiguousarray(column[:length, row]) for name, column in columns.items()}
    facts: dict[str, Any] = {
        "env_id": environment[0],
        "env_kwargs": environment[1],
        "dt_s": spec.dt_s,
        "obs_names": spec.obs_names,
        "action_names": spec.action_names,
        "body_names": spec.body_names,
        "joint_names": spec.joint_names,
        **more,
    }
    return Trajectory(own, TrajectoryFacts(**facts))
