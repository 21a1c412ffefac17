"""The seam between a reward's code and the trainer: ways to run it on N environments."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Protocol, cast

import numpy as np
import torch
from torch import Tensor

from telic.core.text import is_dict
from telic.envs.vector import Info, InfoSchema
from telic.errors import RewardError
from telic.rewards.contract import Device, RewardFunction, RewardStep, initial_memory, reset_memory
from telic.rewards.definition import Definition
from telic.rewards.mistakes import Circumstances, explain, place, wrong_value
from telic.rewards.recording import TransitionRecording
from telic.rewards.source import Source

# Any, so that the type checker does not take their elements for unknown; asked at every step.
_ROW: Any = (tuple, list)
_DICT: Any = dict
_PREFIX = "reward_"
_ROUNDING = 1e-4


class Runner(Protocol):
    """One way to run a reward on N environments; owns what is kept between steps."""

    def start(self, num_envs: int, device: Device) -> None:
        """Begin anew with N environments, all at the start of an episode."""
        ...

    def run(self, obs: Tensor, action: Tensor, next_obs: Tensor, info: Info) -> RewardStep:
        """Reward one step. Raises RewardError with the line; changes none of its arguments."""
        ...

    def reset(self, mask: Tensor) -> None:
        """Forget the episodes that ended, (N,) bool."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Return what is kept between steps, as plain data and tensors."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put it back, after `start`."""
        ...


class Stateless:
    """The part of a runner that has nothing to do when nothing is kept."""

    def reset(self, mask: Tensor) -> None:
        """Do nothing."""

    def state_dict(self) -> dict[str, Any]:
        """Return nothing."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Do nothing."""


def unpack(result: Any, source: Source | None) -> tuple[Any, dict[str, Any]]:
    """Return total and terms; raises RewardError for anything but a pair of them."""
    if isinstance(result, _ROW) and len(result) == 2 and isinstance(result[1], _DICT):
        return result[0], result[1]
    got = type(result).__name__
    if isinstance(result, _ROW):
        got = f"{len(result)} values ({', '.join(type(each).__name__ for each in result)})"
    raise RewardError(
        f"{place(source, None)} returned {got}.",
        hint='Return the total and a dictionary of its terms, e.g. total, {"speed": speed}.',
    )


def as_column(
    value: Any, num_envs: int, device: Device, term: str, source: Source | None
) -> Tensor:
    """Return a batched value as (N,) float32; a single number serves every environment.

    `term` is its name, or "" for the total. Raises RewardError for other shapes.
    """
    if isinstance(value, Tensor) and value.shape == (num_envs,):
        return value if value.dtype is torch.float32 else value.float()
    if isinstance(value, np.ndarray | np.generic):
        value = torch.as_tensor(np.asarray(cast("Any", value)), device=device)
    if isinstance(value, bool | int | float):  # made there: nothing to send to the device
        return torch.full((num_envs,), float(value), device=device)
    if isinstance(value, Tensor) and value.ndim == 0:
        return value.to(device, torch.float32).expand(num_envs)
    if isinstance(value, Tensor) and value.shape == (num_envs,):
        return value.float()
    raise _wrong_shape(value, num_envs, term, source)


def _wrong_shape(value: Any, num_envs: int, term: str, source: Source | None) -> RewardError:
    if not isinstance(value, Tensor):
        hint = "Return one number per environment: a tensor of shape (N,)."
        return wrong_value(source, term, f"is a {type(value).__name__}, not a tensor", hint)
    shape = tuple(value.shape)
    if shape == (num_envs, 1):
        hint = "Drop keepdim=True, or take [:, 0]."
    elif len(shape) > 1 and shape[0] == num_envs:
        hint = "Reduce the last dimension, e.g. with .sum(-1)."
    else:
        hint = "Index columns with x[:, 3]: the first dimension counts environments."
    what = f"has shape {shape} for {num_envs} environments; it must be ({num_envs},)"
    return wrong_value(source, term, what, hint)


class PrivateInfo(Info):
    """Lends another info's values as copies, so that what foreign code writes reaches nobody."""

    __slots__ = ("_lender",)

    def __init__(self, lender: Info, schema: InfoSchema) -> None:
        """Lend from an info, described by a schema of the borrower's own."""
        super().__init__(lambda name: lender.exact(name).clone(), schema)
        self._lender = lender

    def __getitem__(self, name: str) -> Tensor:
        value = self._single.get(name)
        if value is None:
            value = self._single[name] = self._lender[name].clone()
        return value

    @property
    def lent(self) -> tuple[str, ...]:
        """The names that were asked for."""
        return tuple(self._single)


def private_schema(schema: InfoSchema) -> InfoSchema:
    """Return a copy of a schema that can be changed without harm."""
    return dataclasses.replace(
        schema,
        meanings=dict(schema.meanings),
        bodies=dict(schema.bodies),
        spec=schema.spec.model_copy(deep=True) if schema.spec else None,
    )


class BatchedRunner:
    """Calls the reward once per step. Implements `Runner`."""

    def __init__(
        self,
        definition: Definition,
        weights: Mapping[str, float],
        term_names: tuple[str, ...] | None,
    ) -> None:
        """Make an instance; without term names, whatever terms are returned are passed on."""
        self.instance = definition.create(weights)
        self._source = definition.source
        self._term_names = term_names
        declared = getattr(self.instance.owner, "memory", None)
        self._initial_cpu = initial_memory(declared, "cpu") if is_dict(declared) else {}
        self._initial: dict[str, Tensor] = {}
        self._num_envs = 0
        self._device: Device = "cpu"
        self._steps = 0
        self._schema: InfoSchema | None = None
        self._lent_from: InfoSchema | None = None

    @property
    def memory_widths(self) -> dict[str, int]:
        """Numbers of memory per environment, by name."""
        return {name: row.numel() for name, row in self._initial_cpu.items()}

    def start(self, num_envs: int, device: Device) -> None:
        """Begin anew; see `Runner.start`."""
        self._num_envs, self._device, self._steps = num_envs, device, 0
        self._initial = {name: row.to(device) for name, row in self._initial_cpu.items()}
        if self._initial:
            owner = self.instance.owner
            owner._initial_memory = self._initial
            owner.memory = {
                name: row.repeat(num_envs, *(1,) * (row.ndim - 1))
                for name, row in self._initial.items()
            }

    def run(self, obs: Tensor, action: Tensor, next_obs: Tensor, info: Info) -> RewardStep:
        """Reward one step; see `Runner.run`."""
        try:
            result = self.instance.call(
                obs.clone(), action.clone(), next_obs.clone(), self.lend(info)
            )
        except Exception as error:
            when = Circumstances.of(self._steps, None, info, obs, action)
            raise explain(error, self._source, when) from error
        total, terms = unpack(result, self._source)
        if self._initial:
            self._check_memory()
        self._steps += 1
        names = terms if self._term_names is None else self._term_names
        return RewardStep(
            self._column(total, ""),
            {name: self._column(terms.get(name, 0.0), name) for name in names},
        )

    def lend(self, info: Info) -> PrivateInfo:
        """Return an info for foreign code."""
        if self._schema is None or self._lent_from is not info.schema:
            self._lent_from, self._schema = info.schema, private_schema(info.schema)
        return PrivateInfo(info, self._schema)

    def reset(self, mask: Tensor) -> None:
        """Put the memory of ended episodes back; see `Runner.reset`."""
        if not self._initial:
            return
        owner = self.instance.owner
        if not isinstance(owner, RewardFunction):
            reset_memory(owner.memory, self._initial, mask)
            return
        try:
            owner.reset(mask)
        except Exception as error:
            raise explain(error, self._source, Circumstances(self._steps)) from error
        self._check_memory()

    def memory(self) -> Tensor:
        """Return the memory as (N, memory_size) float32, in the order of its declaration."""
        if not self._initial:
            return torch.zeros(self._num_envs, 0, device=self._device)
        memory = self.instance.owner.memory
        return torch.cat(
            [memory[name].reshape(self._num_envs, -1).float() for name in self._initial], dim=1
        )

    def carried(self) -> dict[str, Tensor]:
        """Return the memory itself."""
        return dict(self.instance.owner.memory) if self._initial else {}

    def carry(self, tensors: dict[str, Tensor]) -> None:
        """Go on with these tensors as memory."""
        if self._initial:
            self.instance.owner.memory = dict(tensors)

    def state_dict(self) -> dict[str, Any]:
        """Return the memory."""
        if not self._initial:
            return {}
        return {"memory": {k: v.detach().clone() for k, v in self.instance.owner.memory.items()}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put the memory back."""
        if self._initial:
            self.instance.owner.memory = {
                name: value.to(self._device, copy=True) for name, value in state["memory"].items()
            }
            self._check_memory()

    def _column(self, value: Any, term: str) -> Tensor:
        return as_column(value, self._num_envs, self._device, term, self._source)

    def _check_memory(self) -> None:
        memory = self.instance.owner.memory
        for name, row in self._initial.items():
            value = memory.get(name)
            expected = (self._num_envs, *row.shape[1:])
            if not isinstance(value, Tensor) or value.shape != expected:
                got = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
                raise RewardError(
                    f'{place(self._source, None)}: the memory "{name}" became {got}; '
                    f"it was declared with shape {expected}.",
                    hint="Keep one row per environment; reduce only over the last dimension.",
                )
        if len(memory) != len(self._initial):
            extra = ", ".join(sorted(set(memory) - set(self._initial)))
            raise RewardError(
                f"{place(self._source, None)}: the memory {extra} was never declared.",
                hint=f"Add it to the class attribute memory, which has {', '.join(self._initial)}.",
            )


def parts(info: Info) -> tuple[str, ...]:
    """Return the names of the environment's reward parts, without their common prefix."""
    return tuple(name.removeprefix(_PREFIX) for name in info if name.startswith(_PREFIX))


def parts_are_all(recording: TransitionRecording) -> bool:
    """Say whether the parts in the infos sum to the environment's reward."""
    return all(
        torch.allclose(_sum(moment.info), moment.env_reward, rtol=_ROUNDING, atol=_ROUNDING)
        for moment in recording.transitions
        if parts(moment.info)
    ) and bool(parts(recording.transitions[0].info))


class EnvironmentRunner(Stateless):
    """Passes the environment's own reward on. Implements `Runner`.

    The total is what the caller gives, else info["reward"], else the sum of the parts where they
    are known to be all of it.
    """

    def __init__(self, term_names: tuple[str, ...], *, parts_are_all: bool) -> None:
        self._term_names = term_names
        self._parts_are_all = parts_are_all

    def start(self, num_envs: int, device: Device) -> None:
        """Do nothing."""

    def run(self, obs: Tensor, action: Tensor, next_obs: Tensor, info: Info) -> RewardStep:
        """Reward one step; see `Runner.run`."""
        if "reward" in info:
            return self.split(info["reward"], info)
        if self._parts_are_all:
            return self.split(_sum(info), info)
        raise RewardError(
            "The environment's own reward is not in its infos, nor do its parts sum to it.",
            hint="Give it to the call: reward(obs, action, next_obs, info, step.reward).",
        )

    def split(self, total: Tensor, info: Info) -> RewardStep:
        """Return a known total with its parts as terms."""
        return RewardStep(total.float(), {name: info[_PREFIX + name] for name in self._term_names})


def _sum(info: Info) -> Tensor:
    return torch.stack([info[_PREFIX + name] for name in parts(info)]).sum(0)
