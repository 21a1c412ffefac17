"""Record what a function does to tensors, and replay it without the function."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from telic.rewards.lifting.array import NotLiftable

_FAST_NAMES = """
abs acos add amax amin asin atan atan2 cat clamp clamp_max clamp_min cos div eq exp ge gt le log
logical_and logical_not logical_or lt maximum mean minimum mul ne neg pow remainder select sign
sin sqrt stack sub sum tan tanh unsqueeze where
"""
_FAST = {name: getattr(torch, name) for name in _FAST_NAMES.split()}
"""operations whose torch function takes the same arguments, at a third of the overhead"""


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

    Whatever does not depend on the inputs is computed now and kept. Raises NotLiftable where
    the program would not give the same numbers.
    """
    recorder = _Recorder(inputs)
    with recorder:
        expected = function(*inputs)
    program = _program(recorder, inputs, expected)
    for one, other in zip(program.run(*inputs), expected, strict=True):
        if not torch.equal(one.nan_to_num(), other.nan_to_num()):
            raise NotLiftable("the recorded operations do not give the same numbers")
    return program


class _Recorder(TorchDispatchMode):
    """Notes every operation on a tensor that depends on the inputs."""

    def __init__(self, inputs: list[Tensor]) -> None:
        super().__init__()
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
                raise NotLiftable("a value that is changed in place")
            made = [each for each in tree_leaves(result) if isinstance(each, Tensor)]
            self.varying.update(map(id, made))
            self.steps.append(
                _Step(func, args, kwargs, list(map(id, made)), isinstance(result, Tensor))
            )
            self._alive.append((args, kwargs, made))
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
        made = [f"value_{number}_{i}" for i in range(len(step.results))]
        names.update(zip(step.results, made, strict=True))
        target = made[0] if step.is_single else f"{', '.join(made)},"
        lines.append(f"    {target} = do_{number}({', '.join(arguments)})")
    results = "".join(f"{_written(each, names, scope)}, " for each in outputs)
    lines.append(f"    return ({results})")
    exec("\n".join(lines), scope)
    return Program(scope["run"], [id(each) in needed for each in inputs])


def _written(value: Any, names: dict[int, str], scope: dict[str, Any]) -> str:
    """Return how an argument is written; what cannot be written is put into the scope."""
    if isinstance(value, Tensor) and id(value) in names:
        return names[id(value)]
    if isinstance(value, list | tuple):
        inner = "".join(f"{_written(each, names, scope)}, " for each in value)
        return f"[{inner}]" if isinstance(value, list) else f"({inner})"
    if value is None or isinstance(value, bool | int) or _is_written_exactly(value):
        return repr(value)
    name = f"constant_{len(scope)}"
    scope[name] = value
    return name


def _is_written_exactly(value: Any) -> bool:
    return type(value) is float and math.isfinite(value)
