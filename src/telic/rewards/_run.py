"""Run a reward on N environments with a batched call, `torch.vmap`, or a loop.

The execution mode is chosen on recorded transitions. A single batched call is used if its results
equal those of separate calls per environment. Otherwise the reward is assumed to be written for a
single environment: it runs under `torch.vmap` if the results are equal, or else in a loop with one
instance per environment, which is recreated at the start of every episode.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from telic.core.tensors import from_numpy, integers
from telic.core.text import is_dict
from telic.envs.spec import RewardFinding
from telic.envs.vector import Info, InfoSchema
from telic.errors import RewardError
from telic.rewards.contract import (
    Device,
    RewardFunction,
    RewardStep,
    initial_memory,
    reset_memory,
)
from telic.rewards.load import Instance, RewardCode
from telic.rewards.recording import TransitionRecording

Mode = Literal["batched", "vmap", "looped", "environment"]
_ROUNDING = 1e-4
"""tolerance for sums of float32 values in a different order"""
_EQUAL = 1e-5
_MEASURED_ENVS, _MEASURED_STEPS, _PASSES = 64, 8, 4
# Typed as Any so that their elements are not of unknown type; used at every step.
_ROW: Any = (tuple, list)
_DICT: Any = dict
_vmap: Any = torch.vmap


# ---- three execution modes


def _unpack(result: Any, code: RewardCode) -> tuple[Any, dict[str, Any]]:
    """Split a result into the total and the terms, or raise RewardError if it is malformed."""
    if isinstance(result, _ROW) and len(result) == 2 and isinstance(result[1], _DICT):
        return result[0], result[1]
    got = type(result).__name__
    if isinstance(result, _ROW):
        got = f"{len(result)} values ({', '.join(type(each).__name__ for each in result)})"
    raise RewardError(
        f"{code.label} returned {got}.",
        hint='Return the total and a dictionary of terms, e.g. total, {"speed": speed}.',
    )


def _sizes(obs: Tensor, action: Tensor) -> str:
    width = action.shape[-1] if action.ndim > 1 else 1
    return f"obs has {obs.shape[-1]} columns and action has {width}."


def private_schema(schema: InfoSchema) -> InfoSchema:
    """Return a copy of a schema that untrusted code can safely modify."""
    return dataclasses.replace(
        schema,
        meanings=dict(schema.meanings),
        bodies=dict(schema.bodies),
        spec=schema.spec.model_copy(deep=True) if schema.spec else None,
    )


def lend(info: Info, schema: InfoSchema) -> Info:
    """Return an info with copied values, so that changes by untrusted code have no effect."""
    lent = info.slice(slice(None))
    lent.schema = schema
    return lent


class BatchedRunner:
    """Call the reward once per step on all environments and keep its memory."""

    def __init__(
        self, code: RewardCode, weights: Mapping[str, float], num_envs: int, device: Device
    ) -> None:
        self._code, self._num_envs, self._device = code, num_envs, device
        self._call, self._owner = code.create(weights)
        self._steps = 0
        self._schemas: tuple[InfoSchema, InfoSchema] | None = None
        declared = getattr(self._owner, "memory", None)
        rows = initial_memory(declared) if is_dict(declared) else {}
        self._initial = {name: row.to(device) for name, row in rows.items()}
        if self._initial:
            self._owner._initial_memory = self._initial
            self.memory = {
                name: row.repeat(num_envs, *(1,) * (row.ndim - 1))
                for name, row in self._initial.items()
            }

    @property
    def memory(self) -> dict[str, Tensor]:
        """Dictionary of the declared memory. The tensors are in use and not copies."""
        return self._owner.memory if self._initial else {}

    @memory.setter
    def memory(self, tensors: dict[str, Tensor]) -> None:
        if self._initial:
            self._owner.memory = tensors

    def run(self, obs: Tensor, action: Tensor, next_obs: Tensor, info: Info) -> RewardStep:
        if self._schemas is None or self._schemas[0] is not info.schema:
            self._schemas = info.schema, private_schema(info.schema)
        lent = lend(info, self._schemas[1])
        try:
            result = self._call(obs.clone(), action.clone(), next_obs.clone(), lent)
        except Exception as error:
            when = f" (step {self._steps})"
            raise self._code.explain(error, when, info, _sizes(obs, action)) from error
        total, terms = _unpack(result, self._code)
        self._check_memory()
        self._steps += 1
        columns = {name: self._column(value, name) for name, value in terms.items()}
        return RewardStep(self._column(total, ""), columns)

    def reset(self, mask: Tensor) -> None:
        if not self._initial:
            return
        if not isinstance(self._owner, RewardFunction):
            reset_memory(self._owner.memory, self._initial, mask)
            return
        try:
            self._owner.reset(mask)
        except Exception as error:
            raise self._code.explain(error) from error
        self._check_memory()

    def _column(self, value: Any, term: str) -> Tensor:
        """Return a value as (N,) float32. Scalars are broadcast to all environments."""
        shape = (self._num_envs,)
        if isinstance(value, Tensor) and value.shape == shape:
            return value if value.dtype is torch.float32 else value.float()
        if isinstance(value, bool | int | float):  # created on the device, which avoids a transfer
            return torch.full(shape, float(value), device=self._device)
        if isinstance(value, np.ndarray | np.generic):
            value = torch.as_tensor(np.asarray(cast("Any", value)), device=self._device)
        if isinstance(value, Tensor) and (value.ndim == 0 or value.shape == shape):
            return value.to(self._device, torch.float32).expand(shape)
        if not isinstance(value, Tensor):
            hint = "Return one value per environment: a tensor of shape (N,)."
            what = f"is a {type(value).__name__}, not a tensor."
            raise self._code.wrong_term(term, what, hint)
        got = tuple(value.shape)
        hint = "Index columns with x[:, 3]: the first dimension is the environment."
        if got == (self._num_envs, 1):
            hint = "Omit keepdim=True, or take [:, 0]."
        elif len(got) > 1 and got[0] == self._num_envs:
            hint = "Reduce the last dimension, e.g. with .sum(-1)."
        what = f"has shape {got}, expected {shape} for {self._num_envs} environments."
        raise self._code.wrong_term(term, what, hint)

    def _check_memory(self) -> None:
        memory = self.memory
        for name, row in self._initial.items():
            value, expected = memory.get(name), (self._num_envs, *row.shape[1:])
            if not isinstance(value, Tensor) or value.shape != expected:
                got = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
                raise RewardError(
                    f'{self._code.label}: the memory "{name}" became {got}, but was declared '
                    f"with shape {expected}.",
                    hint="Keep one row per environment, and reduce only over the last dimension.",
                )
        if len(memory) != len(self._initial):
            extra = ", ".join(sorted(set(memory) - set(self._initial)))
            raise RewardError(
                f"{self._code.label}: the memory {extra} was not declared.",
                hint=f"Add it to the class attribute memory, which has {', '.join(self._initial)}.",
            )


class VmapRunner:
    """Map a stateless reward over all environments, in float64 like the loop."""

    def __init__(self, code: RewardCode, weights: Mapping[str, float], *_: object) -> None:
        self._code, self._call = code, code.create(weights).call

    def run(self, obs: Tensor, action: Tensor, next_obs: Tensor, info: Info) -> RewardStep:
        values = {name: info.exact(name).clone() for name in info if name in self._code.strings}
        rows = [each.double() if each.is_floating_point() else each for each in (obs, action)]
        try:
            total, terms = _vmap(self._one)(
                rows[0].clone(), rows[1].clone(), next_obs.double(), values
            )
        except Exception as error:
            raise self._code.explain(error, "", info, _sizes(obs, action)) from error
        return RewardStep(total.float(), {name: value.float() for name, value in terms.items()})

    def _one(self, *transition: Any) -> tuple[Tensor, dict[str, Tensor]]:
        total, terms = _unpack(self._call(*transition), self._code)
        return torch.as_tensor(total), {k: torch.as_tensor(v) for k, v in terms.items()}

    def reset(self, mask: Tensor) -> None:
        """Do nothing, because only stateless rewards are mapped."""


class LoopedRunner:
    """Call one instance per environment with NumPy rows and Python numbers.

    Instances are recreated in every episode, as if each environment ran in a separate process.
    """

    def __init__(
        self, code: RewardCode, weights: Mapping[str, float], num_envs: int, device: Device
    ) -> None:
        self._code, self._weights, self._device = code, weights, device
        self._instances = [self._create() for _ in range(num_envs)]
        self._steps = 0

    def _create(self) -> Instance:
        return self._code.create(self._weights)

    def run(self, obs: Tensor, action: Tensor, next_obs: Tensor, info: Info) -> RewardStep:
        actions: Iterable[Any] = _rows(action) if action.is_floating_point() else integers(action)
        columns: dict[str, Any] = {}
        rows = (RowInfo(info, columns, row) for row in range(len(obs)))
        calls = zip(self._instances, _rows(obs), actions, _rows(next_obs), rows, strict=True)
        results: list[tuple[Any, dict[str, Any]]] = []
        try:
            # A division by zero yields inf and is reported once, instead of as a warning per step.
            with np.errstate(all="ignore"):
                for instance, *row in calls:
                    results.append(_unpack(instance.call(*row), self._code))
        except Exception as error:
            when = f" (step {self._steps}, environment {len(results)})"
            raise self._code.explain(error, when, info, _sizes(obs, action)) from error
        self._steps += 1
        names = dict.fromkeys(name for _, terms in results for name in terms)
        return RewardStep(
            self._column([total for total, _ in results], ""),
            {
                name: self._column([terms.get(name, 0.0) for _, terms in results], name)
                for name in names
            },
        )

    def reset(self, mask: Tensor) -> None:
        for row in integers(mask.nonzero()[:, 0]):
            self._instances[row] = self._create()

    def _column(self, values: list[Any], term: str) -> Tensor:
        try:
            array = np.array(values, dtype=np.float64)
            # numpy converts None to NaN
            if array.size != len(values) or (np.isnan(array).any() and None in values):
                raise ValueError(f"shape {array.shape[1:]}")
        except (TypeError, ValueError) as error:
            example = next((x for x in values if np.size(x) != 1 or not np.isscalar(x)), values[0])
            shape = np.shape(example)
            kind = f"an array of shape {shape}" if shape else f"a {type(example).__name__}"
            hint = "Reduce it, e.g. with np.sum(...), or return 0.0 where it is empty."
            what = f"is {kind}, expected a number."
            raise self._code.wrong_term(term, what, hint) from error
        return from_numpy(array.reshape(-1)).to(self._device, torch.float32)


def _rows(batch: Tensor) -> np.ndarray:
    """Return a float64 copy of a batch, (N, ...), that untrusted code may modify."""
    return batch.detach().to("cpu", torch.float64, copy=True).numpy()


class RowInfo(Mapping[str, Any]):
    """Info of a single environment, with copied numbers and arrays."""

    __offered__: ClassVar[str] = "info"
    __slots__ = ("_columns", "_info", "_row")

    def __init__(self, info: Info, columns: dict[str, Any], row: int) -> None:
        """Create a view of one row. `columns` are converted on first use and shared by all rows."""
        self._info, self._columns, self._row = info, columns, row

    def __getitem__(self, name: str) -> Any:
        if name not in self._columns:
            if name not in self._info:
                raise KeyError(name)
            values = self._info.exact(name).detach().cpu().numpy().copy()
            self._columns[name] = values.tolist() if values.ndim == 1 else values
        return self._columns[name][self._row]

    def __iter__(self) -> Iterator[str]:
        return iter(self._info)

    def __len__(self) -> int:
        return len(self._info)


# ---- replay on recorded transitions


Runner = BatchedRunner | VmapRunner | LoopedRunner
RUNNERS: Mapping[str, Callable[[RewardCode, Mapping[str, float], int, Device], Runner]] = {
    "batched": BatchedRunner,
    "vmap": VmapRunner,
    "looped": LoopedRunner,
}


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """Rewards of a recording of T steps in N environments."""

    total: Tensor  # (T, N) float32
    terms: dict[str, Tensor]  # each (T, N) float32, zero in steps that did not return the term
    returned: dict[str, int]  # number of steps in which each term was returned

    def term(self, name: str) -> Tensor:
        """Return the values of a term, or the total if `name` is empty."""
        return self.terms.get(name, torch.zeros_like(self.total)) if name else self.total


def replay(runner: Runner, recording: TransitionRecording) -> ReplayResult:
    """Compute the reward of every transition of a recording."""
    steps: list[RewardStep] = []
    for moment in recording.transitions:
        steps.append(runner.run(moment.obs, moment.action, moment.next_obs, moment.info))
        runner.reset(moment.ended)
    return stacked(steps)


def stacked(steps: list[RewardStep]) -> ReplayResult:
    """Stack the rewards of consecutive steps into one result."""
    names = dict.fromkeys(name for step in steps for name in step.terms)
    nothing = torch.zeros_like(steps[0].total)
    return ReplayResult(
        torch.stack([step.total for step in steps]),
        {name: torch.stack([step.terms.get(name, nothing) for step in steps]) for name in names},
        {name: sum(name in step.terms for step in steps) for name in names},
    )


def side_by_side(parts: list[ReplayResult]) -> ReplayResult:
    """Concatenate the results of single environments into one result."""
    names = dict.fromkeys(name for part in parts for name in part.terms)
    return ReplayResult(
        torch.cat([part.total for part in parts], dim=1),
        {name: torch.cat([part.term(name) for part in parts], dim=1) for name in names},
        {name: max(part.returned.get(name, 0) for part in parts) for name in names},
    )


class Mismatch(NamedTuple):
    """First position at which two reward results differ."""

    term: str  # "" for the total
    first: float
    second: float


def difference(first: ReplayResult, second: ReplayResult, tolerance: float) -> Mismatch | None:
    """Return the first difference between two results beyond rounding, or None if equal."""
    for name in (*first.terms, *(second.terms.keys() - first.terms.keys()), ""):
        one, other = first.term(name), second.term(name)
        scale = one[one.isfinite()].abs().max().item() if one.isfinite().any() else 0.0
        close = torch.isclose(
            one, other, rtol=tolerance, atol=0.1 * tolerance * scale + 1e-9, equal_nan=True
        )
        if not close.all():
            step, row = integers((~close).nonzero()[0])
            return Mismatch(name, one[step, row].item(), other[step, row].item())
    return None


def microseconds(create: Callable[[int], Runner], recording: TransitionRecording) -> float:
    """Measure the cost per environment step in microseconds, with 64 environments."""
    index = torch.arange(_MEASURED_ENVS, device=recording.device) % recording.num_envs
    wide = [each.map(lambda x: x[index]) for each in recording.transitions[:_MEASURED_STEPS]]
    runner, best = create(_MEASURED_ENVS), float("inf")
    for _ in range(_PASSES):
        begin = time.perf_counter()
        for moment in wide:
            runner.run(moment.obs, moment.action, moment.next_obs, moment.info)
        if recording.device.type == "cuda":
            torch.cuda.synchronize(recording.device)
        best = min(best, time.perf_counter() - begin)
    return best / len(wide) / _MEASURED_ENVS * 1e6


# ---- choosing the execution mode


@dataclass(frozen=True, slots=True)
class RunnerChoice:
    """Execution mode of a reward, with the measurements on which the choice is based."""

    mode: Mode
    term_names: tuple[str, ...]
    is_stateful: bool = False
    """whether the reward keeps state outside its memory, which checkpoints do not include"""
    findings: tuple[RewardFinding, ...] = ()
    microseconds: float | None = None
    """cost per environment step with 64 environments, or None for the environment's reward"""
    result: ReplayResult | None = None


class BrokenRule(RewardError):
    """Raised if a batched reward breaks a rule of batching, which other modes would hide."""


def choose_runner(
    code: RewardCode, weights: Mapping[str, float], recording: TransitionRecording
) -> RunnerChoice:
    """Return the execution mode of a reward, or raise RewardError if the reward cannot run."""
    try:
        return _try_batched(code, weights, recording)
    except RewardError as error:
        if code.is_batched and isinstance(error, BrokenRule):
            raise
        failure = error
    try:
        return _try_single(code, weights, recording)
    except RewardError:
        if code.is_batched:
            raise failure from None
        raise


def _try_batched(
    code: RewardCode, weights: Mapping[str, float], recording: TransitionRecording
) -> RunnerChoice:
    """Try a single call per step. Raises BrokenRule if it mixes environments or hides state."""
    count, device = recording.num_envs, recording.device

    def batched(num_envs: int = count) -> BatchedRunner:
        return BatchedRunner(code, weights, num_envs, device)

    runner = batched()
    result = replay(runner, recording)
    _refuse_chance(code, recording, result, replay(batched(), recording))
    alone = [replay(batched(1), recording.rows(row, row + 1)) for row in range(count)]
    seen = difference(side_by_side(alone), result, _ROUNDING)
    if seen:
        what = (
            f"depends on other environments ({seen.first:.4g} alone, {seen.second:.4g} among "
            f"{count}): it is probably reduced over environments."
        )
        hint = "Reduce over the last dimension only, e.g. x.mean(-1)."
        raise code.wrong_term(seen.term, what, hint, BrokenRule)
    runner.reset(torch.ones(count, dtype=torch.bool, device=device))
    kept = next(iter(code.kept_names), "value")
    seen = difference(result, replay(runner, recording), _repeated(recording))
    if seen:
        line = code.kept_names.get(kept)
        raise BrokenRule(
            f"{code.place(line)}: {kept} keeps a value between steps outside memory. It is not "
            "reset with the episode, not saved, and not separate for each environment.",
            hint=f'Declare memory = {{"{kept}": 0.0}} in the class and use self.memory["{kept}"].',
            line=line,
            term=seen.term or None,
        )
    findings: list[RewardFinding] = []
    if code.kept_names:
        message = (
            f"{code.name} keeps {', '.join(code.kept_names)} between steps. This had no effect so "
            "far, but the value is neither reset with the episode nor saved. Use memory for "
            "persistent values."
        )
        findings.append(RewardFinding(name="kept_attribute", message=message))
    cost = microseconds(batched, recording)
    names = tuple(result.terms)
    return RunnerChoice(
        "batched", names, findings=tuple(findings), microseconds=cost, result=result
    )


def _try_single(
    code: RewardCode, weights: Mapping[str, float], recording: TransitionRecording
) -> RunnerChoice:
    """Choose between `torch.vmap`, if its results are equal, and one call per environment."""
    count, device = recording.num_envs, recording.device
    result = replay(LoopedRunner(code, weights, count, device), recording)
    again = replay(LoopedRunner(code, weights, count, device), recording)
    _refuse_chance(code, recording, result, again)
    names = tuple(result.terms)
    mapped = VmapRunner(code, weights)
    why = "torch.vmap over all environments gives different results"
    try:  # twice: state kept from one replay would change the next
        replays = [replay(mapped, recording) for _ in range(2)]
        if all(difference(result, each, _EQUAL) is None for each in replays):
            cost = microseconds(lambda _: mapped, recording)
            return RunnerChoice("vmap", names, microseconds=cost, result=result)
    except RewardError as error:
        why = f"torch.vmap cannot map it ({error.message})"
    looped = LoopedRunner(code, weights, count, device)
    never = TransitionRecording(
        [each._replace(ended=torch.zeros_like(each.ended)) for each in recording.transitions]
    )
    first, second = replay(looped, never), replay(looped, never)
    is_stateful = bool(code.kept_names) or difference(first, second, _EQUAL) is not None
    cost = microseconds(lambda num_envs: LoopedRunner(code, weights, num_envs, device), recording)
    # Cost in microseconds equals percent of one core at 10,000 steps per second.
    message = (
        f"{code.name} is called once per environment: {cost:.2g} µs per environment step, i.e. "
        f"{cost:.2g} % of one core at 10,000 steps per second, because {why}. Operations on "
        "tensors of shape (N,) are many times faster."
    )
    findings = [RewardFinding(name="looped", message=message, values={"looped": cost})]
    if is_stateful:
        message = (
            f"{code.name} keeps state for each environment that checkpoints do not contain: a "
            "resumed run starts without it. Declare memory to save it."
        )
        findings.append(RewardFinding(name="not_resumable", message=message))
    return RunnerChoice("looped", names, is_stateful, tuple(findings), cost, result)


def _repeated(recording: TransitionRecording) -> float:
    """Return the tolerance for repeated computations (zero except on a GPU)."""
    return 0.0 if recording.device.type == "cpu" else 1e-6


def _refuse_chance(
    code: RewardCode, recording: TransitionRecording, result: ReplayResult, again: ReplayResult
) -> None:
    seen = difference(result, again, _repeated(recording))
    if seen is not None:
        what = (
            f"was {seen.first:.6g} and then {seen.second:.6g} for the same transition. A reward "
            "must not depend on random numbers, the clock or global state."
        )
        hint = "Compute it from obs, action, next_obs and info only."
        raise code.wrong_term(seen.term, what, hint, BrokenRule)
