"""Ways to run a reward on N environments: all at once, under `torch.vmap`, or one by one."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Literal, cast

import numpy as np
import torch
from torch import Tensor

from telic.core.tensors import from_numpy, integers
from telic.core.text import is_dict
from telic.envs.vector import Info, InfoSchema
from telic.errors import RewardError
from telic.rewards._mistakes import Circumstances, explain, place, wrong_value
from telic.rewards._simulator_view import DataView, ModelView
from telic.rewards._source import Definition, Instance, Source
from telic.rewards._state import CannotCapture, capture, restore
from telic.rewards.contract import Device, RewardFunction, RewardStep, initial_memory, reset_memory

# Any, so that the type checker does not take their elements for unknown; asked at every step.
_ROW: Any = (tuple, list)
_DICT: Any = dict
_vmap: Any = torch.vmap
_PREFIX = "reward_"


class Runner:
    """One way to run a reward on N environments; owns what is kept between steps."""

    def start(self, num_envs: int, device: Device) -> None:
        """Start from scratch with N environments, all at the start of an episode."""

    def run(self, obs: Tensor, action: Tensor, next_obs: Tensor, info: Info) -> RewardStep:
        """Reward one step. Raises RewardError with the line; changes none of its arguments."""
        raise NotImplementedError

    def reset(self, mask: Tensor) -> None:
        """Forget the episodes that ended, (N,) bool."""

    def state_dict(self) -> dict[str, Any]:
        """Return what is kept between steps, as plain data and tensors."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put it back, after `start`."""

    def memory(self) -> Tensor | None:
        """Return the declared memory, (N, memory_size) float32; None: there is none."""
        return None

    def carried(self) -> dict[str, Tensor]:
        """Return the tensors kept between steps, by name, themselves and not copies."""
        return {}

    def carry(self, tensors: dict[str, Tensor]) -> None:
        """Use these tensors from now on."""


def _unpack(result: Any, source: Source | None) -> tuple[Any, dict[str, Any]]:
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


# ---- all environments at once


class PrivateInfo(Info):
    """Lends another info's values as copies, so that writes by foreign code have no effect."""

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


def private_schema(schema: InfoSchema) -> InfoSchema:
    """Return a copy of a schema that can be changed without harm."""
    return dataclasses.replace(
        schema,
        meanings=dict(schema.meanings),
        bodies=dict(schema.bodies),
        spec=schema.spec.model_copy(deep=True) if schema.spec else None,
    )


class BatchedRunner(Runner):
    """Calls the reward once per step."""

    def __init__(
        self,
        definition: Definition,
        weights: Mapping[str, float],
        term_names: tuple[str, ...] | None,
    ) -> None:
        """Make the instance. `term_names`: the terms to return; None: those of each step."""
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
        try:
            result = self.instance.call(
                obs.clone(), action.clone(), next_obs.clone(), self.lend(info)
            )
        except Exception as error:
            when = Circumstances.of(self._steps, None, info, obs, action)
            raise explain(error, self._source, when) from error
        total, terms = _unpack(result, self._source)
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

    def memory(self) -> Tensor | None:
        if not self._initial:
            return None
        memory = self.instance.owner.memory
        return torch.cat(
            [memory[name].reshape(self._num_envs, -1).float() for name in self._initial], dim=1
        )

    def carried(self) -> dict[str, Tensor]:
        return dict(self.instance.owner.memory) if self._initial else {}

    def carry(self, tensors: dict[str, Tensor]) -> None:
        if self._initial:
            self.instance.owner.memory = dict(tensors)

    def state_dict(self) -> dict[str, Any]:
        if not self._initial:
            return {}
        return {"memory": {k: v.detach().clone() for k, v in self.instance.owner.memory.items()}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if self._initial:
            self.instance.owner.memory = {
                name: value.to(self._device, copy=True) for name, value in state["memory"].items()
            }
            self._check_memory()

    def _column(self, value: Any, term: str) -> Tensor:
        """Return a value as (N,) float32; a single number serves every environment."""
        shape = (self._num_envs,)
        if isinstance(value, Tensor) and value.shape == shape:
            return value if value.dtype is torch.float32 else value.float()
        if isinstance(value, bool | int | float):  # made there: nothing to send to the device
            return torch.full(shape, float(value), device=self._device)
        if isinstance(value, np.ndarray | np.generic):
            value = torch.as_tensor(np.asarray(cast("Any", value)), device=self._device)
        if isinstance(value, Tensor) and (value.ndim == 0 or value.shape == shape):
            return value.to(self._device, torch.float32).expand(shape)
        raise _wrong_shape(value, self._num_envs, term, self._source)

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


# ---- one environment at a time


class VmapRunner(Runner):
    """Maps a stateless per-environment reward over all environments, in float64 as the loop."""

    def __init__(
        self, definition: Definition, weights: Mapping[str, float], term_names: tuple[str, ...]
    ) -> None:
        self._call = definition.create(weights).call
        self._source = definition.source
        self._term_names = term_names

    def run(self, obs: Tensor, action: Tensor, next_obs: Tensor, info: Info) -> RewardStep:
        strings = self._source.strings
        values = {name: info.exact(name).clone() for name in info if name in strings}
        rows = [each.double() if each.is_floating_point() else each for each in (obs, action)]
        try:
            total, terms = _vmap(self._one)(
                rows[0].clone(), rows[1].clone(), next_obs.double(), values
            )
        except Exception as error:
            when = Circumstances.of(0, None, info, obs, action)
            raise explain(error, self._source, when) from error
        nothing = torch.zeros(len(obs), device=obs.device)
        return RewardStep(
            total.float(),
            {name: terms[name].float() if name in terms else nothing for name in self._term_names},
        )

    def _one(self, *transition: Any) -> tuple[Tensor, dict[str, Tensor]]:
        total, terms = _unpack(self._call(*transition), self._source)
        return torch.as_tensor(total), {k: torch.as_tensor(v) for k, v in terms.items()}


class LoopedRunner(Runner):
    """Calls the reward N times per step, on numpy rows and Python numbers.

    A reward that keeps state gets one instance per environment, renewed with every episode, as if
    each environment ran in a process of its own.
    """

    def __init__(
        self,
        definition: Definition,
        weights: Mapping[str, float],
        term_names: tuple[str, ...] | None,
        *,
        is_stateful: bool,
        raises: bool = False,
    ) -> None:
        """Prepare; nothing is executed before `start`.

        Args:
            definition: makes the instances.
            weights: values that replace the reward's own.
            term_names: the terms to return; None: those of each step.
            is_stateful: whether environments need instances of their own.
            raises: make numpy raise where a number stops being finite, to find the line.
        """
        self._definition = definition
        self._weights = weights
        self._source = definition.source
        self._term_names = term_names
        self._is_stateful = is_stateful
        self._model: ModelView | None = None
        self._on_bad_number: Literal["raise", "ignore"] = "raise" if raises else "ignore"
        self.instances: list[Instance] = []
        self._device: Device = "cpu"
        self._steps = 0

    def start(self, num_envs: int, device: Device) -> None:
        self._device, self._steps = device, 0
        if self._is_stateful:
            self.instances = [self._create() for _ in range(num_envs)]
        else:
            self.instances = [self._create()] * num_envs

    def run(self, obs: Tensor, action: Tensor, next_obs: Tensor, info: Info) -> RewardStep:
        actions: Iterable[Any] = _rows(action) if action.is_floating_point() else integers(action)
        calls = zip(
            self.instances,
            _rows(obs),
            actions,
            _rows(next_obs),
            row_infos(info, len(obs), self._simulator_model(info)),
            strict=True,
        )
        results: list[Any] = []
        try:
            # A division by zero shows as inf and is reported as such, not as a warning per step.
            with np.errstate(all=self._on_bad_number, under="ignore"):
                for instance, *row in calls:
                    results.append(instance.call(*row))
        except Exception as error:
            when = Circumstances.of(self._steps, len(results), info, obs, action)
            raise explain(error, self._source, when) from error
        self._steps += 1
        pairs = [_unpack(each, self._source) for each in results]
        names = self._term_names
        if names is None:
            names = tuple(dict.fromkeys(name for _, terms in pairs for name in terms))
        return RewardStep(
            self._column([total for total, _ in pairs], ""),
            {
                name: self._column([terms.get(name, 0.0) for _, terms in pairs], name)
                for name in names
            },
        )

    def reset(self, mask: Tensor) -> None:
        if self._is_stateful:
            for row in integers(mask.nonzero()[:, 0]):
                self.instances[row] = self._create()

    def state_dict(self) -> dict[str, Any]:
        if not self._is_stateful:
            return {}
        try:
            return {"instances": [capture(each) for each in self.instances]}
        except CannotCapture:
            return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for instance, data in zip(self.instances, state.get("instances", ()), strict=False):
            restore(instance, data)

    def _simulator_model(self, info: Info) -> ModelView | None:
        if self._model is None and info.spec is not None and "qpos" in info:
            self._model = ModelView(info, info.spec)
        return self._model

    def _create(self) -> Instance:
        return self._definition.create(self._weights)

    def _column(self, values: list[Any], term: str) -> Tensor:
        try:
            array = np.array(values, dtype=np.float64)
            # numpy reads None as NaN
            if array.size != len(values) or (np.isnan(array).any() and None in values):
                raise ValueError(f"shape {array.shape[1:]}")
        except (TypeError, ValueError) as error:
            example = next((x for x in values if np.size(x) != 1 or not np.isscalar(x)), values[0])
            shape = np.shape(example)
            kind = f"an array of shape {shape}" if shape else f"a {type(example).__name__}"
            hint = "Reduce it, e.g. with np.sum(...), or return 0.0 where there is nothing."
            what = f"is {kind}; it must be one number"
            raise wrong_value(self._source, term, what, hint) from error
        return from_numpy(array.reshape(-1)).to(self._device, torch.float32)


def _rows(batch: Tensor) -> np.ndarray:
    """Return a float64 copy of a batch, (N, ...), which foreign code may change."""
    return batch.detach().to("cpu", torch.float64, copy=True).numpy()


class _Columns:
    """The info of one step, cut into rows on demand; everything is a copy."""

    def __init__(self, info: Info, model: ModelView | None) -> None:
        self.info = info
        self._model = model
        self._cut: dict[str, Any] = {}

    def value(self, name: str, row: int) -> Any:
        """Return a value of one environment: a number, or an array."""
        if name == "mj_model" and self._model is not None:
            return self._model
        if name == "mj_data" and "qpos" in self.info:
            return DataView(self.info, lambda of: self._rows(of)[row])
        if name not in self.info:
            raise KeyError(name)
        return self._rows(name)[row]

    def _rows(self, name: str) -> Any:
        if name not in self._cut:
            values = self.info.exact(name).detach().cpu().numpy().copy()
            self._cut[name] = values.tolist() if values.ndim == 1 else values
        return self._cut[name]


class _RowInfo(Mapping[str, Any]):
    """The info of one environment as a per-environment reward sees it."""

    __offered__: ClassVar[str] = "info"
    __slots__ = ("_columns", "_row")

    def __init__(self, columns: _Columns, row: int) -> None:
        self._columns, self._row = columns, row

    def __getitem__(self, name: str) -> Any:
        return self._columns.value(name, self._row)

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns.info)

    def __len__(self) -> int:
        return len(self._columns.info)


def row_infos(info: Info, num_envs: int, model: ModelView | None) -> list[Mapping[str, Any]]:
    """Return the info of each environment."""
    columns = _Columns(info, model)
    return [_RowInfo(columns, row) for row in range(num_envs)]


# ---- the environment's own reward


def reward_parts(info: Info) -> tuple[str, ...]:
    """Return the names of the environment's reward parts, without their common prefix."""
    return tuple(name.removeprefix(_PREFIX) for name in info if name.startswith(_PREFIX))


def sum_of_parts(info: Info) -> Tensor:
    """Return the sum of the environment's reward parts, (N,)."""
    return torch.stack([info[_PREFIX + name] for name in reward_parts(info)]).sum(0)


class EnvironmentRunner(Runner):
    """Passes the environment's own reward on.

    The total is what the caller gives, else info["reward"], else the sum of the parts where they
    are known to be all of it.
    """

    def __init__(self, term_names: tuple[str, ...], *, parts_are_all: bool) -> None:
        self._term_names = term_names
        self._parts_are_all = parts_are_all

    def run(self, obs: Tensor, action: Tensor, next_obs: Tensor, info: Info) -> RewardStep:
        if "reward" in info:
            return self.split(info["reward"], info)
        if self._parts_are_all:
            return self.split(sum_of_parts(info), info)
        raise RewardError(
            "The environment's own reward is not in its infos, nor do its parts sum to it.",
            hint="Give it to the call: reward(obs, action, next_obs, info, step.reward).",
        )

    def split(self, total: Tensor, info: Info) -> RewardStep:
        """Return a known total with its parts as terms."""
        return RewardStep(total.float(), {name: info[_PREFIX + name] for name in self._term_names})
