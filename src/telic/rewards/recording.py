"""Recorded transitions on which a reward is tried before training, and its replay over them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from telic.core.seeds import uniform
from telic.core.tensors import integers
from telic.envs.vector import Info, VecEnv
from telic.rewards.contract import RewardStep

_ROWS = 16
_UNRECORDED = 60
"""steps between the first part of a recording and the second, to get away from the start"""
_MEASURED_ENVS, _MEASURED_STEPS, _PASSES = 64, 8, 4


class Transition(NamedTuple):
    """One step of N environments, kept."""

    obs: Tensor
    action: Tensor
    next_obs: Tensor
    info: Info
    ended: Tensor
    """(N,) bool: the episode ends here, or the recording of it does"""
    env_reward: Tensor
    """(N,) the environment's own reward"""

    def map(self, change: Callable[[Tensor], Tensor]) -> Transition:
        """Return a transition with every tensor changed in the same way along its rows."""
        return _combined([self], lambda tensors: change(tensors[0]))


@dataclass(frozen=True, slots=True)
class TransitionRecording:
    """Consecutive transitions of the same environments."""

    transitions: list[Transition]

    @property
    def num_envs(self) -> int:
        """Number of environments."""
        return len(self.transitions[0].obs)

    @property
    def device(self) -> torch.device:
        """Where the tensors live."""
        return self.transitions[0].obs.device

    def rows(self, first: int, end: int) -> TransitionRecording:
        """Return the recording of some of the environments."""
        return TransitionRecording([each.map(lambda x: x[first:end]) for each in self.transitions])


def single_step(obs: Tensor, action: Tensor, next_obs: Tensor, info: Info) -> TransitionRecording:
    """Return a recording of a single step, of at least two different environments."""
    never = torch.zeros(len(obs), dtype=torch.bool, device=obs.device)
    step = Transition(
        obs.clone(), action.clone(), next_obs.clone(), keep(info), never, never.float()
    )
    if len(obs) == 1:
        # One environment cannot show whether rows are kept apart; a changed copy of it can.
        other = step.map(lambda x: x * 1.1 + 0.01 if x.is_floating_point() else x)
        step = concatenated([step, other])
    return TransitionRecording([step])


def keep(info: Info) -> Info:
    """Return an info with every value computed and copied, readable for ever."""
    return Info.of({name: info.exact(name).clone() for name in info}, info.schema)


def collect(env: VecEnv, transitions: int = 256, seed: int = 0) -> TransitionRecording:
    """Record transitions: random actions from the start and from later on, then no action at all.

    Give an environment of its own, with few copies (8 are plenty): it is reset and stepped, and
    every info value is read, which a simulation has to keep up to date from then on.
    """
    rows = min(env.num_envs, _ROWS)
    steps = max(4, -(-transitions // rows))
    late, still = steps // 2, steps - steps // 4
    kept: list[Transition] = []
    obs = env.reset(seed)
    for t in range(steps):
        if t == late:
            for extra in range(_UNRECORDED):
                obs = env.step(_action(env, seed, steps + extra)).obs
        if t == still:
            obs = env.reset()
        action = _action(env, seed, t)
        action = torch.zeros_like(action) if t >= still else action
        step = env.step(action)
        info = keep(step.info.slice(slice(0, rows)))
        ended = step.terminated | step.truncated
        if t + 1 in (late, still, steps):
            ended = torch.ones_like(ended)
        if t == late and "episode_start" in info:  # its memory will be fresh
            info.exact("episode_start").fill_(True)
        kept.append(
            Transition(
                *(obs[:rows], action[:rows], step.final_obs[:rows], info),
                *(ended[:rows], step.reward[:rows]),
            )
        )
        obs = step.obs
    if rows == 1:  # the later parts serve as a second environment
        kept = [concatenated([*pair]) for pair in zip(kept, kept[late:] + kept[:late], strict=True)]
    return TransitionRecording(kept)


def _action(env: VecEnv, seed: int, counter: int) -> Tensor:
    """Return actions drawn evenly from the action range, (N, act_dim) or (N,)."""
    place = torch.arange(env.num_envs, device=env.device)
    draw = uniform(place + seed * 7919, torch.full_like(place, counter), env.act_dim).float()
    if env.num_actions is not None:
        return (draw[:, 0] * env.num_actions).long()
    return env.action_low + (env.action_high - env.action_low) * draw


def _combined(moments: list[Transition], combine: Callable[[list[Tensor]], Tensor]) -> Transition:
    """Return one transition whose tensors are made of those of several."""

    def part(name: str) -> Tensor:
        return combine([getattr(moment, name) for moment in moments])

    info = moments[0].info
    values = {name: combine([each.info.exact(name) for each in moments]) for name in info}
    return Transition(
        *(part("obs"), part("action"), part("next_obs")),
        *(Info.of(values, info.schema), part("ended"), part("env_reward")),
    )


def concatenated(moments: list[Transition]) -> Transition:
    """Return the rows of several transitions one after the other."""
    return _combined(moments, torch.cat)


# ---- replay


class Runner(Protocol):
    """One way to run a reward on N environments."""

    def run(self, obs: Tensor, action: Tensor, next_obs: Tensor, info: Info) -> RewardStep:
        """Reward one step. Raises RewardError with the line; changes none of its arguments."""
        ...

    def reset(self, mask: Tensor) -> None:
        """Forget the episodes that ended, (N,) bool."""
        ...


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """Rewards of a recording of T steps of N environments."""

    total: Tensor  # (T, N) float32
    terms: dict[str, Tensor]  # each (T, N) float32, zero in steps that did not return it
    returned: dict[str, int]  # in how many steps each term was returned

    def term(self, name: str) -> Tensor:
        """Return the values of a term, or of the total for ""."""
        return self.terms.get(name, torch.zeros_like(self.total)) if name else self.total


def replay(runner: Runner, recording: TransitionRecording) -> ReplayResult:
    """Reward every transition of a recording."""
    steps: list[RewardStep] = []
    for moment in recording.transitions:
        steps.append(runner.run(moment.obs, moment.action, moment.next_obs, moment.info))
        runner.reset(moment.ended)
    return stacked(steps)


def stacked(steps: list[RewardStep]) -> ReplayResult:
    """Return the rewards of consecutive steps as one result."""
    names = dict.fromkeys(name for step in steps for name in step.terms)
    nothing = torch.zeros_like(steps[0].total)
    return ReplayResult(
        torch.stack([step.total for step in steps]),
        {name: torch.stack([step.terms.get(name, nothing) for step in steps]) for name in names},
        {name: sum(name in step.terms for step in steps) for name in names},
    )


def side_by_side(parts: list[ReplayResult]) -> ReplayResult:
    """Return results of single environments as one result of all."""
    names = dict.fromkeys(name for part in parts for name in part.terms)
    return ReplayResult(
        torch.cat([part.total for part in parts], dim=1),
        {name: torch.cat([part.term(name) for part in parts], dim=1) for name in names},
        {name: max(part.returned.get(name, 0) for part in parts) for name in names},
    )


class Difference(NamedTuple):
    """A place where two results differ."""

    term: str  # "" for the total
    first: float
    second: float


def difference(first: ReplayResult, second: ReplayResult, tolerance: float) -> Difference | None:
    """Return the first place where two results differ by more than rounding; None: equal."""
    for name in (*first.terms, *(second.terms.keys() - first.terms.keys()), ""):
        one, other = first.term(name), second.term(name)
        scale = one[one.isfinite()].abs().max().item() if one.isfinite().any() else 0.0
        close = torch.isclose(
            one, other, rtol=tolerance, atol=0.1 * tolerance * scale + 1e-9, equal_nan=True
        )
        if not close.all():
            step, row = integers((~close).nonzero()[0])
            return Difference(name, one[step, row].item(), other[step, row].item())
    return None


def microseconds(create: Callable[[int], Runner], recording: TransitionRecording) -> float:
    """Measure the cost of one step of one environment when 64 environments run together."""
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
