"""Trace a reward for one environment into a program for all of them, and run that."""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy
import torch
from torch import Tensor

from telic.envs.info import Info
from telic.errors import RewardError
from telic.rewards.contract import Device, RewardStep
from telic.rewards.definition import Definition
from telic.rewards.lifting.array import NotLiftable, lift
from telic.rewards.lifting.branches import HELPERS, MATH_NAME, NUMPY_NAME, rewrite
from telic.rewards.lifting.functions import floats, single
from telic.rewards.lifting.tables import BUILTINS, MATH, NUMPY, Shim
from telic.rewards.lifting.trace import Program, record
from telic.rewards.mistakes import locate, place
from telic.rewards.runner import Stateless, unpack
from telic.rewards.simulator import SimulatorRow, model_of


class LiftedRunner(Stateless):
    """Computes a stateless per-environment reward for all environments. Implements `Runner`.

    The first step traces the code: it runs once under `torch.vmap` on arrays that record what is
    done with them. Every step then runs the recorded operations, in float64.
    """

    def __init__(
        self, definition: Definition, weights: Mapping[str, float], term_names: tuple[str, ...]
    ) -> None:
        self._definition = definition
        self._weights = weights
        self._source = definition.source
        self._term_names = term_names
        self._device: Device = "cpu"
        self._program: Program | None = None
        self._inputs: list[str] = []

    def start(self, num_envs: int, device: Device) -> None:
        """Begin anew; see `Runner.start`."""
        self._device = device
        self._program = None

    def run(self, obs: Tensor, action: Tensor, next_obs: Tensor, info: Info) -> RewardStep:
        """Reward one step; see `Runner.run`. Raises RewardError where lifting is impossible."""
        given = {"obs": obs, "action": action, "next_obs": next_obs}
        if self._program is None:
            self._trace(given, info)
            assert self._program is not None
        values = [
            _column(given.get(name), info, name) if used else None
            for name, used in zip(self._inputs, self._program.used, strict=True)
        ]
        total, *terms = self._program.run(*values)
        return RewardStep(
            total.float(), {n: t.float() for n, t in zip(self._term_names, terms, strict=True)}
        )

    def _trace(self, given: dict[str, Tensor], info: Info) -> None:
        source = self._source
        if source is None:
            raise RewardError("the source of the reward is not available")
        if source.scan.open_info:
            line = source.scan.open_info.line
            raise RewardError(f"{place(source, line)}: info is read by names not in the source")
        try:
            row = self._row_function(info)
            columns = [_column(given.get(name), info, name) for name in self._inputs]
            on_device = contextlib.nullcontext()
            if torch.device(self._device).type != "cpu":
                on_device = torch.device(self._device)
            with torch.no_grad(), on_device, warnings.catch_warnings():
                # Where vmap would loop over the environments itself, our own loop is faster.
                warnings.filterwarnings("error", message="There is a performance drop")
                self._program = record(torch.vmap(row), columns)
        except Exception as error:
            line = locate(error, source)
            reason = str(error).splitlines()[0] if str(error) else ""
            if not isinstance(error, NotLiftable):
                reason = f"{type(error).__name__}: {reason}"
            raise RewardError(f"{place(source, line)}: {reason}", line=line) from error

    def _row_function(self, info: Info) -> Callable[..., tuple[Tensor, ...]]:
        """Return the reward of one environment as a function of tensors, in the order of inputs."""
        assert self._source is not None
        scan = self._source.scan
        named = [name for name in (*info, "_episode_start") if name in info]
        fields = [name for name in named if name in scan.attributes or name == "action"]
        asked = [name for name in named if name in scan.strings]
        simulator = scan.simulator and "qpos" in info
        columns = dict.fromkeys((*asked, *(fields if simulator else ())))
        self._inputs = ["obs", "action", "next_obs", *(f"info {name}" for name in columns)]
        call = self._lifted_call()
        model = model_of(info) if simulator else None

        def row(
            obs: Tensor, action: Tensor, next_obs: Tensor, *values: Tensor
        ) -> tuple[Tensor, ...]:
            arrays = dict(zip(columns, map(lift, values), strict=True))
            known: dict[str, Any] = {name: arrays[name] for name in asked}
            if simulator:
                known |= {"mj_data": SimulatorRow(info, arrays.__getitem__), "mj_model": model}
            result = call(lift(obs), lift(action), lift(next_obs), known)
            total, terms = unpack(result, self._source)
            return _number(total), *(_number(terms.get(name, 0.0)) for name in self._term_names)

        return row

    def _lifted_call(self) -> Callable[..., Any]:
        assert self._source is not None
        numpy_shim, math_shim = Shim(numpy, "np", NUMPY), Shim(math, "math", MATH)
        names = {
            **BUILTINS,
            **HELPERS,
            NUMPY_NAME: numpy_shim,
            MATH_NAME: math_shim,
            "np": numpy_shim,
            "numpy": numpy_shim,
            "math": math_shim,
        }
        tree = rewrite(self._source.tree)
        return self._definition.create_from(tree, names, self._weights).call


def _column(given: Tensor | None, info: Info, name: str) -> Tensor:
    value = info.exact(name.removeprefix("info ")) if given is None else given
    return value if value.dtype in (torch.float64, torch.bool) else value.double()


def _number(value: Any) -> Tensor:
    """Return one number as a float64 tensor without dimensions."""
    tensor = floats(value)
    if tensor.numel() != 1:
        raise NotLiftable("a term that is not one number")
    return single(tensor)
