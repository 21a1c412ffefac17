"""Recorded transitions on which a reward is tried before training, and its replay over them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from telic.core.seeds import uniform
from telic.core.tensors import integers
from telic.envs.vector import Info, VecEnv

if TYPE_CHECKING:
    from telic.rewards._runners import Runner
    from telic.rewards.contract import RewardStep

_ROWS = 16
_UNRECORDED = 60
"""steps between the first part of a recording and the second, to get away from the start"""
MEASURED_ENVS = 64
_MEASURED_STEPS = 8
_PASSES = 4


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

    def widened(self, num_envs: int, steps: int) -> TransitionRecording:
        """Return the first steps with environments repeated up to `num_envs`, to measure speed."""
        index = torch.arange(num_envs, device=self.device) % self.num_envs
        return TransitionRecording(
            [each.map(lambda x: x[index]) for each in self.transitions[:steps]]
        )

    def folded(self, pieces: int) -> TransitionRecording:
        """Return a long recording cut into pieces, laid side by side as further environments."""
        steps = len(self.transitions) // pieces
        if pieces == 1 or steps == 0:
            return self
        rows = [concatenated(self.transitions[t::steps][:pieces]) for t in range(steps)]
        rows[0] = _beginning(rows[0])
        rows[-1] = rows[-1]._replace(ended=torch.ones_like(rows[-1].ended))
        return TransitionRecording(rows)

    @classmethod
    def of_step(
        cls, obs: Tensor, action: Tensor, next_obs: Tensor, info: Info
    ) -> TransitionRecording:
        """Return a recording of a single step, of at least two different environments."""
        never = torch.zeros(len(obs), dtype=torch.bool, device=obs.device)
        step = Transition(
            obs.clone(), action.clone(), next_obs.clone(), keep(info), never, never.float()
        )
        if len(obs) == 1:
            # One environment cannot show whether rows are kept apart; a changed copy of it can.
            other = step.map(lambda x: x * 1.1 + 0.01 if x.is_floating_point() else x)
            step = concatenated([step, other])
        return cls([step])


def keep(info: Info) -> Info:
    """Return an info with every value computed and copied, readable for ever."""
    return Info.of({name: info.exact(name).clone() for name in info}, info.schema)


def collect(env: VecEnv, transitions: int = 256, seed: int = 0) -> TransitionRecording:
    """Record transitions: random actions from the start and from later on, then no action at all.

    Give an environment of its own, with few copies (8 are plenty): it is reset and moved on, and
    every info value is asked for, which a simulation has to keep up to date from then on.
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
        moment = Transition(
            obs[:rows], action[:rows], step.final_obs[:rows], info, ended[:rows], step.reward[:rows]
        )
        kept.append(_beginning(moment) if t == late else moment)
        obs = step.obs
    return TransitionRecording(kept).folded(max(1, min(8 // rows, steps // 4)))


def _action(env: VecEnv, seed: int, counter: int) -> Tensor:
    """Return actions drawn evenly from the action range, (N, act_dim) or (N,)."""
    place = torch.arange(env.num_envs, device=env.device)
    draw = uniform(place + seed * 7919, torch.full_like(place, counter), env.act_dim).float()
    if env.num_actions is not None:
        return (draw[:, 0] * env.num_actions).long()
    return env.action_low + (env.action_high - env.action_low) * draw


def _beginning(moment: Transition) -> Transition:
    """Return a transition marked as the first of its episode, as its memory will be fresh."""
    if "episode_start" not in moment.info:
        return moment
    values = {name: moment.info.exact(name) for name in moment.info}
    values["episode_start"] = torch.ones_like(values["episode_start"])
    return moment._replace(info=Info.of(values, moment.info.schema))


def _combined(moments: list[Transition], combine: Callable[[list[Tensor]], Tensor]) -> Transition:
    """Return one transition whose tensors are made of those of several."""

    def part(name: str) -> Tensor:
        return combine([getattr(moment, name) for moment in moments])

    info = moments[0].info
    values = {name: combine([each.info.exact(name) for each in moments]) for name in info}
    return Transition(
        part("obs"),
        part("action"),
        part("next_obs"),
        Info.of(values, info.schema),
        part("ended"),
        part("env_reward"),
    )


def concatenated(moments: list[Transition]) -> Transition:
    """Return the rows of several transitions one after the other."""
    return _combined(moments, torch.cat)


@dataclass(frozen=True, slots=True)
class ReplayResult:
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


def replay(runner: Runner, recording: TransitionRecording) -> ReplayResult:
    """Start anew and reward every transition of a recording."""
    runner.start(recording.num_envs, recording.device)
    steps: list[RewardStep] = []
    for moment in recording.transitions:
        steps.append(runner.run(moment.obs, moment.action, moment.next_obs, moment.info))
        runner.reset(moment.ended)
    names = dict.fromkeys(name for step in steps for name in step.terms)
    nothing = torch.zeros_like(steps[0].total)
    return ReplayResult(
        torch.stack([step.total for step in steps]),
        {name: torch.stack([step.terms.get(name, nothing) for step in steps]) for name in names},
        {name: sum(name in step.terms for step in steps) for name in names},
    )


def side_by_side(parts: list[ReplayResult]) -> ReplayResult:
    """Return outcomes of single environments as one outcome of all."""
    names = dict.fromkeys(name for part in parts for name in part.terms)
    return ReplayResult(
        torch.cat([part.total for part in parts], dim=1),
        {
            name: torch.cat(
                [part.terms.get(name, torch.zeros_like(part.total)) for part in parts], dim=1
            )
            for name in names
        },
        {name: max(part.returned.get(name, 0) for part in parts) for name in names},
    )


def difference(first: ReplayResult, second: ReplayResult, tolerance: float) -> Difference | None:
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
            step, row = integers((~close).nonzero()[0])
            return Difference(name, step, row, one[step, row].item(), other[step, row].item())
    return None


def microseconds(runner: Runner, recording: TransitionRecording) -> float:
    """Measure what one step of one environment costs when 64 environments run together."""
    wide = recording.widened(MEASURED_ENVS, _MEASURED_STEPS)
    runner.start(MEASURED_ENVS, recording.device)
    best = float("inf")
    for _ in range(_PASSES):
        begin = time.perf_counter()
        for moment in wide.transitions:
            runner.run(moment.obs, moment.action, moment.next_obs, moment.info)
        if recording.device.type == "cuda":
            torch.cuda.synchronize(recording.device)
        best = min(best, time.perf_counter() - begin)
    return best / len(wide.transitions) / MEASURED_ENVS * 1e6
