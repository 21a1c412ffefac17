"""Turn what went wrong inside a reward into a message with the line, the cause and the fix."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from types import TracebackType

from telic.core.suggest import closest
from telic.errors import RewardError, TelicError
from telic.rewards.definition import Source

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


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What a reward was given when it went wrong."""

    step: int | None = None
    row: int | None = None
    """which environment; None: all at once"""
    info_names: tuple[str, ...] = ()
    obs_dim: int | None = None
    act_dim: int | None = None


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
