"""Turn what went wrong inside a reward into a message with the line, the cause and the fix."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from telic.core.text import closest
from telic.errors import RewardError, TelicError
from telic.rewards._source import Source

if TYPE_CHECKING:  # they raise what is written here
    from telic.rewards._runners import Runner
    from telic.rewards.recording import TransitionRecording

_LEAVE_OUT_FLOAT = (
    "Values hold one number per environment, shape (N,): leave out float(...) and .item()."
)
_TENSOR_MISTAKES = {
    "only one element tensors can be converted": _LEAVE_OUT_FLOAT,
    "cannot be converted to Scalar": _LEAVE_OUT_FLOAT,
    "Boolean value of Tensor with more than one value": "Values hold one number per environment: "
    "write torch.where(condition, a, b) instead of if, & instead of and, torch.maximum for max.",
    "must match the size of tensor": "An (N,) value meets an (N, k) one: reduce it with .sum(-1), "
    "or add a dimension with [:, None].",
    "truth value of an array": "Compare single numbers: use np.any(...) or np.all(...).",
}
_NOT_FINITE = {
    "sqrt rsqrt": "{module}.sqrt of a negative number? Clamp its argument at 0.",
    "log log2 log10 log1p": "{module}.log of zero or less? Clamp its argument at a small positive "
    "number.",
    "div divide true_divide reciprocal remainder": "A division by zero? Add a small number to the "
    "divisor, or clamp it.",
    "acos asin arccos arcsin atanh": "{module}.{name} outside [-1, 1]? Clamp its argument.",
    "exp expm1 exp2 cosh sinh": "{module}.exp of a large number? Clamp its argument.",
    "pow power square float_power": "A power of a negative number, or an overflow? Clamp the base.",
}
"""what may be wrong, by the operations that gave a number that is not finite"""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What a reward was given when it went wrong."""

    step: int | None = None
    row: int | None = None
    """which environment; None: all at once"""
    info_names: tuple[str, ...] = ()
    obs_dim: int | None = None
    act_dim: int | None = None

    @classmethod
    def of(
        cls, step: int, row: int | None, info: Iterable[str], obs: Tensor, action: Tensor
    ) -> Circumstances:
        """Return what one call, or the call of one row, was given."""
        width = action.shape[-1] if action.ndim > 1 else 1
        return cls(step, row, tuple(info), obs.shape[-1], width)


def locate(error: BaseException, source: Source | None) -> int | None:
    """Return the deepest line of the source that an error passed through."""
    line = None
    trace: TracebackType | None = error.__traceback__
    while trace is not None and source is not None:
        if trace.tb_frame.f_code.co_filename == source.filename:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def place(source: Source | None, line: int | None) -> str:
    """Return how a message names a place, e.g. reward.py line 12."""
    label = source.label if source else "the reward"
    return label if line is None else f"{label} line {line}"


def named(term: str) -> str:
    """Return how a message names a term; nothing for the total."""
    return f', term "{term}"' if term else ""


def wrong_value(source: Source | None, term: str, what: str, hint: str) -> RewardError:
    """Return the error for a term, or for the total where `term` is "", that cannot be used."""
    line = source.term_line(term) if source and term else None
    return RewardError(
        f"{place(source, line)}{named(term) or ', the total'} {what}.",
        hint=hint,
        line=line,
        term=term or None,
    )


def explain(error: Exception, source: Source | None, when: Circumstances) -> RewardError:
    """Return the error a user should see for an exception raised inside a reward."""
    if isinstance(error, RewardError) and error.line is not None:
        return error
    line = locate(error, source)
    text = source.line(line) if source and line else ""
    what, hint = _diagnose(error, text, when)
    moment = "" if when.step is None else f" (step {when.step})"
    if when.row is not None:
        moment = f" (step {when.step}, environment {when.row})"
    shown = f" The line is: {text}" if text else ""
    return RewardError(f"{place(source, line)}: {what}{moment}.{shown}", hint=hint, line=line)


def explain_syntax(error: SyntaxError, label: str) -> RewardError:
    """Return the error for a file that is not Python."""
    text = (error.text or "").strip()
    return RewardError(
        f"{label} line {error.lineno} is not valid Python: {error.msg}."
        + (f" The line is: {text}" if text else ""),
        hint="Correct that line, or the one before it.",
        line=error.lineno,
    )


def unknown_info(name: str, known: Iterable[str]) -> tuple[str, str]:
    """Return what happened and what to do when info has no such name."""
    known = sorted(known)
    near = closest(name, known)
    nearest = f"Closest: {', '.join(near)}. " if near else ""
    return f'no info named "{name}"', f"{nearest}This environment offers: {', '.join(known)}."


def _diagnose(error: Exception, text: str, when: Circumstances) -> tuple[str, str | None]:
    if isinstance(error, KeyError):
        name = getattr(error, "name", error.args[0] if error.args else "")
        # A dictionary of the reward's own may miss a key too; only a line with info is about info.
        about_info = isinstance(error, TelicError) or "info" in text
        if about_info and when.info_names and name not in when.info_names:
            return unknown_info(str(name), when.info_names)
        return f'no key "{name}" in the dictionary', None
    if isinstance(error, TelicError):
        return error.message.rstrip("."), error.hint
    message = str(error).splitlines()[0].rstrip(".") if str(error) else "no message"
    what = f"{type(error).__name__}: {message}"
    if isinstance(error, ZeroDivisionError):
        return what, "Guard the division, e.g. x / max(y, 1e-6)."
    if isinstance(error, IndexError) and when.obs_dim:
        return what, f"obs has {when.obs_dim} entries and action {when.act_dim}."
    for part, hint in _TENSOR_MISTAKES.items():
        if part in message:
            return what, hint
    return what, None


# ---- the line that first makes a number that is not finite


class Blame(NamedTuple):
    """Where a number stopped being finite."""

    line: int | None
    advice: str


def blame(
    runner: Runner, source: Source | None, recording: TransitionRecording, step: int
) -> Blame:
    """Run a reward up to a step in which it gave a bad number, and watch that step.

    Operations of torch are watched; of numpy the runner makes them raise.
    """
    watch = _FiniteWatch(source)
    runner.start(recording.num_envs, recording.device)
    try:
        for time, moment in enumerate(recording.transitions[: step + 1]):
            with watch if time == step else nullcontext():
                runner.run(moment.obs, moment.action, moment.next_obs, moment.info)
            runner.reset(moment.ended)
    except RewardError as error:
        if not isinstance(error.__cause__, FloatingPointError):
            return Blame(None, "")
        operation = re.search(r"encountered in (?:scalar )?(\w+)", str(error.__cause__))
        return Blame(error.line, _advice(operation[1] if operation else "", "np"))
    return Blame(watch.line, _advice(watch.operation, "torch"))


def _advice(operation: str, module: str) -> str:
    texts = (text for names, text in _NOT_FINITE.items() if operation in names.split())
    return next(texts, "").format(module=module, name=operation)


class _FiniteWatch(TorchDispatchMode):
    """Remembers the first operation that makes a bad number of good ones, and its line."""

    def __init__(self, source: Source | None) -> None:
        cast("Any", super()).__init__()  # torch does not type it
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
            self.line = self._line(inspect.currentframe())
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
