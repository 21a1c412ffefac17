"""Run a reward over a recording, compare two such runs, and measure what a step costs."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from telic.rewards.recording import Recording
from telic.rewards.runner import Runner

MEASURED_ENVS = 64
_MEASURED_STEPS = 8
_PASSES = 4


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a reward gave for a recording of T steps of N environments."""

    total: Tensor  # (T, N) float32
    terms: dict[str, Tensor]  # each (T, N) float32, zero in steps that did not return it
    returned: dict[str, int]  # in how many steps each term was returned


class Difference(NamedTuple):
    """Where two outcomes differ."""

    term: str  # "" for the total
    step: int
    row: int
    first: float
    second: float


def replay(runner: Runner, recording: Recording) -> Outcome:
    """Start anew and reward every transition of a recording."""
    runner.start(recording.num_envs, recording.device)
    steps = []
    for moment in recording.transitions:
        steps.append(runner.run(moment.obs, moment.action, moment.next_obs, moment.info))
        runner.reset(moment.ended)
    names = dict.fromkeys(name for step in steps for name in step.terms)
    nothing = torch.zeros_like(steps[0].total)
    return Outcome(
        torch.stack([step.total for step in steps]),
        {name: torch.stack([step.terms.get(name, nothing) for step in steps]) for name in names},
        {name: sum(name in step.terms for step in steps) for name in names},
    )


def side_by_side(parts: list[Outcome]) -> Outcome:
    """Return outcomes of single environments as one outcome of all."""
    names = dict.fromkeys(name for part in parts for name in part.terms)
    return Outcome(
        torch.cat([part.total for part in parts], dim=1),
        {
            name: torch.cat(
                [part.terms.get(name, torch.zeros_like(part.total)) for part in parts], dim=1
            )
            for name in names
        },
        {name: max(part.returned.get(name, 0) for part in parts) for name in names},
    )


def difference(first: Outcome, second: Outcome, tolerance: float) -> Difference | None:
    """Return the first place where two outcomes differ by more than rounding; None: equal."""
    for name in ("", *first.terms, *(second.terms.keys() - first.terms.keys())):
        nothing = torch.zeros_like(first.total)
        one = first.total if name == "" else first.terms.get(name, nothing)
        other = second.total if name == "" else second.terms.get(name, nothing)
        scale = one[one.isfinite()].abs().max().item() if one.isfinite().any() else 0.0
        close = torch.isclose(
            one, other, rtol=tolerance, atol=0.1 * tolerance * scale + 1e-9, equal_nan=True
        )
        if not close.all():
            step, row = (~close).nonzero()[0].tolist()
            return Difference(name, step, row, one[step, row].item(), other[step, row].item())
    return None


def microseconds(runner: Runner, recording: Recording) -> float:
    """Measure what one step of one environment costs when 64 environments run together."""
    wide = recording.widened(MEASURED_ENVS, _MEASURED_STEPS)
    runner.start(MEASURED_ENVS, recording.device)
    best = float("inf")
    for _ in range(_PASSES):
        begin = time.perf_counter()
        for moment in wide.transitions:
            runner.run(moment.obs, moment.action, moment.next_obs, moment.info)
        _finish(recording.device)
        best = min(best, time.perf_counter() - begin)
    return best / len(wide.transitions) / MEASURED_ENVS * 1e6


def _finish(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
