"""Find the line of a reward that first makes a number that is not finite."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from types import FrameType
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from telic.errors import RewardError
from telic.rewards.batched import BatchedRunner
from telic.rewards.definition import Definition, Source
from telic.rewards.loop import LoopedRunner
from telic.rewards.recording import Recording
from telic.rewards.runner import Runner

_ADVICE = {
    "sqrt": "{module}.sqrt of a negative number? Clamp its argument at 0.",
    "log": "{module}.log of zero or less? Clamp its argument at a small positive number.",
    "div": "A division by zero? Add a small number to the divisor, or clamp it.",
    "acos": "{module}.{name} outside [-1, 1]? Clamp its argument.",
    "exp": "{module}.exp of a large number? Clamp its argument.",
    "pow": "A power of a negative number, or an overflow? Clamp the base.",
}
_KINDS = {
    "sqrt": "sqrt",
    "rsqrt": "sqrt",
    "log": "log",
    "log2": "log",
    "log10": "log",
    "log1p": "log",
    "div": "div",
    "divide": "div",
    "true_divide": "div",
    "reciprocal": "div",
    "remainder": "div",
    "acos": "acos",
    "asin": "acos",
    "arccos": "acos",
    "arcsin": "acos",
    "atanh": "acos",
    "exp": "exp",
    "expm1": "exp",
    "exp2": "exp",
    "cosh": "exp",
    "sinh": "exp",
    "pow": "pow",
    "power": "pow",
    "square": "pow",
    "float_power": "pow",
}


class Blame(NamedTuple):
    """Where a number stopped being finite."""

    line: int | None
    advice: str


def find_blame(
    definition: Definition,
    weights: Mapping[str, float],
    recording: Recording,
    step: int,
    *,
    is_batched: bool,
    is_stateful: bool,
) -> Blame:
    """Run a reward up to a step in which it gave a bad number, and watch that step."""
    source = definition.source
    if is_batched:
        runner: Runner = BatchedRunner(definition, weights, None)
        watch = _Watch(source)
        _run_to(runner, recording, step, watch)
        return Blame(watch.line, _advice(watch.operation, "torch"))
    runner = LoopedRunner(
        definition, weights, None, is_stateful=is_stateful, whole_info=True, raises=True
    )
    try:
        _run_to(runner, recording, step, None)
    except RewardError as error:
        cause = error.__cause__
        if isinstance(cause, FloatingPointError):
            found = re.search(r"encountered in (?:scalar )?(\w+)", str(cause))
            return Blame(error.line, _advice(found[1] if found else "", "np"))
    return Blame(None, "")


def _run_to(runner: Runner, recording: Recording, step: int, watch: _Watch | None) -> None:
    runner.start(recording.num_envs, recording.device)
    for time, moment in enumerate(recording.transitions[: step + 1]):
        if time == step and watch is not None:
            with watch:
                runner.run(moment.obs, moment.action, moment.next_obs, moment.info)
        else:
            runner.run(moment.obs, moment.action, moment.next_obs, moment.info)
            runner.reset(moment.ended)


def _advice(operation: str, module: str) -> str:
    text = _ADVICE.get(_KINDS.get(operation, ""), "")
    return text.format(module=module, name=operation)


class _Watch(TorchDispatchMode):
    """Remembers the first operation that makes a bad number of good ones, and its line."""

    def __init__(self, source: Source | None) -> None:
        super().__init__()
        self._source = source
        self.line: int | None = None
        self.operation = ""

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if not self.operation and not _is_finite(result) and _is_finite((args, kwargs)):
            self.operation = func._schema.name.split("::")[1]
            self.line = self._line(sys._getframe())
        return result

    def _line(self, frame: FrameType | None) -> int | None:
        while frame is not None and self._source is not None:
            if frame.f_code.co_filename == self._source.filename:
                return frame.f_lineno
            frame = frame.f_back
        return None


def _is_finite(values: Any) -> bool:
    return all(
        bool(torch.isfinite(each).all())
        for each in tree_leaves(values)
        if isinstance(each, Tensor) and each.is_floating_point()
    )
