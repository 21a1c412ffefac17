"""Trace a reward for one environment into a program for all of them, and run that."""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

import numpy
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from telic.core.text import is_row
from telic.envs.vector import Info
from telic.errors import RewardError
from telic.rewards.contract import Device, RewardStep
from telic.rewards.definition import Definition
from telic.rewards.loop import SimulatorRow, model_of
from telic.rewards.mistakes import locate, place
from telic.rewards.runners import Stateless, unpack
from telic.rewards.vectorise.array import NotVectorisable, as_array
from telic.rewards.vectorise.branches import HELPERS, MATH_NAME, NUMPY_NAME, rewrite
from telic.rewards.vectorise.functions import floats, single
from telic.rewards.vectorise.tables import BUILTINS, MATH, NUMPY, Shim

_FAST_NAMES = """
abs acos add amax amin asin atan atan2 cat clamp clamp_max clamp_min cos div eq exp ge gt le log
logical_and logical_not logical_or lt maximum mean minimum mul ne neg pow remainder select sign
sin sqrt stack sub sum tan tanh unsqueeze where
"""
_FAST = {name: getattr(torch, name) for name in _FAST_NAMES.split()}
"""operations whose torch function takes the same arguments, at a third of the overhead"""


class VectorisedRunner(Stateless):
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
        """Reward one step; see `Runner.run`. Raises RewardError where vectorising is impossible."""
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
            if not isinstance(error, NotVectorisable):
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
        call = self._vectorised_call()
        model = model_of(info) if simulator else None

        def row(
            obs: Tensor, action: Tensor, next_obs: Tensor, *values: Tensor
        ) -> tuple[Tensor, ...]:
            arrays = dict(zip(columns, map(as_array, values), strict=True))
            known: dict[str, Any] = {name: arrays[name] for name in asked}
            if simulator:
                known |= {"mj_data": SimulatorRow(info, arrays.__getitem__), "mj_model": model}
            result = call(as_array(obs), as_array(action), as_array(next_obs), known)
            total, terms = unpack(result, self._source)
            return _number(total), *(_number(terms.get(name, 0.0)) for name in self._term_names)

        return row

    def _vectorised_call(self) -> Callable[..., Any]:
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
        raise NotVectorisable("a term that is not one number")
    return single(tensor)


# ---- what a function does to tensors, recorded and replayed without the function


class Program(NamedTuple):
    """Recorded operations as one function."""

    run: Callable[..., tuple[Tensor, ...]]
    used: list[bool]
    """which of the inputs it reads; None will do for the others"""


class _Step(NamedTuple):
    operation: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    results: list[int]
    """ids of the tensors it made"""
    is_single: bool


def record(function: Callable[..., tuple[Tensor, ...]], inputs: list[Tensor]) -> Program:
    """Run a function once and return its operations as a program.

    Whatever does not depend on the inputs is computed now and kept. Raises NotVectorisable where
    the program would not give the same numbers.
    """
    recorder = _Recorder(inputs)
    with recorder:
        expected = function(*inputs)
    program = _program(recorder, inputs, expected)
    for one, other in zip(program.run(*inputs), expected, strict=True):
        if not torch.equal(one.nan_to_num(), other.nan_to_num()):
            raise NotVectorisable("the recorded operations do not give the same numbers")
    return program


class _Recorder(TorchDispatchMode):
    """Notes every operation on a tensor that depends on the inputs."""

    def __init__(self, inputs: list[Tensor]) -> None:
        cast("Any", super()).__init__()  # torch does not type it
        self.varying = {id(each) for each in inputs}
        self.steps: list[_Step] = []
        self._alive: list[Any] = []  # an id is only good while its tensor lives

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if any(id(each) in self.varying for each in tree_leaves((args, kwargs))):
            if func._schema.is_mutable:
                raise NotVectorisable("a value that is changed in place")
            tensors = [each for each in tree_leaves(result) if isinstance(each, Tensor)]
            self.varying.update(map(id, tensors))
            self.steps.append(
                _Step(func, args, kwargs, list(map(id, tensors)), isinstance(result, Tensor))
            )
            self._alive.append((args, kwargs, tensors))
        return result


def _program(recorder: _Recorder, inputs: list[Tensor], outputs: tuple[Tensor, ...]) -> Program:
    """Write the steps that the outputs need as Python, and compile it."""
    needed = {id(each) for each in outputs}
    steps: list[_Step] = []
    for step in reversed(recorder.steps):
        if needed & set(step.results):
            steps.append(step)
            needed.update(map(id, tree_leaves((step.args, step.kwargs))))
    names = {id(each): f"input_{i}" for i, each in enumerate(inputs)}
    scope: dict[str, Any] = {}
    lines = [f"def run({', '.join(names.values())}):"]
    for number, step in enumerate(reversed(steps)):
        operation = _FAST.get(step.operation._schema.name.split("::")[1], step.operation)
        scope[f"do_{number}"] = operation
        arguments = [_written(each, names, scope) for each in step.args]
        arguments += [f"{k}={_written(v, names, scope)}" for k, v in step.kwargs.items()]
        variables = [f"value_{number}_{i}" for i in range(len(step.results))]
        names.update(zip(step.results, variables, strict=True))
        target = variables[0] if step.is_single else f"{', '.join(variables)},"
        lines.append(f"    {target} = do_{number}({', '.join(arguments)})")
    results = "".join(f"{_written(each, names, scope)}, " for each in outputs)
    lines.append(f"    return ({results})")
    exec("\n".join(lines), scope)
    return Program(scope["run"], [id(each) in needed for each in inputs])


def _written(value: Any, names: dict[int, str], scope: dict[str, Any]) -> str:
    """Return how an argument is written; what cannot be written is put into the scope."""
    if isinstance(value, Tensor) and id(value) in names:
        return names[id(value)]
    if is_row(value):
        inner = "".join(f"{_written(each, names, scope)}, " for each in value)
        return f"[{inner}]" if isinstance(value, list) else f"({inner})"
    is_exact = type(value) is float and math.isfinite(value)
    if value is None or isinstance(value, bool | int) or is_exact:
        return repr(value)
    name = f"constant_{len(scope)}"
    scope[name] = value
    return name
