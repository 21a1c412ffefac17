"""Batched MuJoCo environments with time limits, autoreset, seeding and lazy info."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from telic.core.seeds import uniform
from telic.core.tensors import split
from telic.envs.anatomy import action_names, robot_fields, robot_of
from telic.envs.models import is_position
from telic.envs.spec import EnvSpec
from telic.envs.task import PHASE, AnyTask, LatestTransition, offered
from telic.envs.tokens import TokenDriver
from telic.envs.vector import STAGGER, Info, Step, VecEnv, seed_rows
from telic.errors import TelicError
from telic.sim.base import Simulation

_AHEAD = 16  # episodes per environment sampled in one block
_FORESEEN = 4  # initial states per environment sampled for a series of steps on a GPU
_NEVER = 2**62  # steps, without a time limit
_CARRIED = ("_seed", "_episode", "_left", "_fresh", "_tracked", "exact_obs")

State = tuple[Tensor, ...]
"""Initial qpos and qvel, and any other values sampled for an episode."""
Draw = Callable[[Tensor, Tensor], State]
"""Function (seed, episode) -> initial state."""


class MujocoEnv(VecEnv):
    """Batch of N environments of one task.

    `exact_obs`, `exact_final_obs` and `exact_reward` are the latest `obs`, `final_obs` and `reward`
    in the simulation's precision (float64 on a CPU).

    If the engine fails in a simulation (out of memory, singular model), the transition is marked
    as truncated and a new episode starts. On a CPU, a failure in the first step of an episode
    raises an error. If a simulation diverges (NaN or huge numbers), MuJoCo resets it to its default
    pose, as in Gymnasium, and the episode continues. See `info["diverged"]`.
    """

    def __init__(
        self,
        sim: Simulation,
        task: AnyTask,
        *,
        seed: int | Sequence[int] = 0,
        driver: TokenDriver | None = None,
    ) -> None:
        self.sim = sim
        self.task = task
        self.driver = driver
        if driver is not None:
            task.memory |= driver.memory(sim.num_sims)
        self.model = sim.model
        self.robot = robot_of(
            sim.model, task.qpos0.cpu().numpy(), task.id.rpartition("-v")[0] or task.id
        )
        super().__init__(self._describe(), sim.num_sims, sim.device)
        self.action_rest = torch.tensor(self._resting_action(), device=self.device)
        self._transition = LatestTransition(sim, task.arguments.frame_skip, task.readers, task.dt)
        self._applied = sim.field("ctrl")
        self._time = sim.field("time") if task.arguments.phase_hz else None
        self._plant(seed_rows(seed, self.num_envs, self.device))
        self._episode = torch.full_like(self._seed, -1)  # index of the current episode
        self._left = torch.zeros_like(self._seed)  # steps until the time limit
        self._fresh = torch.ones_like(self._seed, dtype=torch.bool)  # begins at the next step
        self._tracked = torch.empty(0)  # tracked positions after the last step
        self.exact_obs = self.exact_final_obs = self.exact_reward = torch.empty(0)

    def reset(self, seed: int | Sequence[int] | None = None) -> Tensor:
        """Start new episodes in all environments. See `VecEnv.reset`."""
        if seed is not None:
            self._plant(seed_rows(seed, self.num_envs, self.device))
            self._episode = torch.full_like(self._seed, -1)
        everyone = torch.ones_like(self._fresh)
        self._transition.forget()
        self._start(everyone)
        return self._begin(everyone)

    def place(self, qpos: Tensor, qvel: Tensor) -> Tensor:
        """Start episodes from qpos (N, nq) and qvel (N, nv), and return the observations."""
        everyone = torch.ones_like(self._fresh)
        self._transition.forget()
        self._start(everyone)
        self.sim.reset(everyone, qpos.to(self.task.qpos), qvel.to(self.task.qvel))
        return self._begin(everyone)

    def _begin(self, everyone: Tensor) -> Tensor:
        self._fresh = everyone
        self._tracked = self.task.track()
        self.exact_obs = self.exact_final_obs = self._observe()
        return self.exact_obs.float()

    def step(self, action: Tensor) -> Step:
        """Take one control step in all environments. See `VecEnv.step`."""
        self._check(action, len(self.exact_obs) > 0)
        action = action.detach() if action.requires_grad else action
        asked = action
        if self.driver is not None:
            asked = self.driver.control(action, self._fresh, self.task.memory)
        self._transition.make(action, self.task.control(asked), self._fresh)
        tracked = self.task.track()
        judged = self.task.outcome(self._applied, tracked - self._tracked)
        reward, terminated, values, cut = judged
        exact = self.exact_final_obs = self._observe()
        terminated, truncated, done = self._ending(terminated, cut)
        info = self._transition.info(self._schema, values)
        final_obs = obs = exact.float()
        # On a CPU, checking for ended episodes is free; on a GPU it would force a synchronization.
        if self.device.type != "cpu" or done.any():
            self._transition.hold()
            self._start(done)
            rows = done[:, None]
            exact = torch.where(rows, self._observe(), exact)
            tracked = torch.where(rows, self.task.track(), tracked)
            obs = exact.float()
        self._fresh = done
        self._tracked = tracked
        self.exact_obs = exact
        self.exact_reward = reward
        return Step(obs, reward.float(), terminated, truncated, info, final_obs)

    def _observe(self) -> Tensor:
        """Return the current observation, including the phase variable if there is one."""
        obs = self.task.observe()
        if self._time is None:
            return obs
        angle = (2.0 * math.pi * self.task.arguments.phase_hz) * self._time.to(obs.dtype)
        return torch.cat((obs, torch.stack((angle.sin(), angle.cos()), 1)), 1)

    def present(self) -> Info:
        """Return info on the current state. See `VecEnv.present`."""
        return self._transition.present(self._schema)

    def stagger(self) -> None:
        """Set each episode clock to a random age. See `VecEnv.stagger`."""
        if self.max_episode_steps is not None:
            left = 1.0 - uniform(self._seed, self._episode, 1, stream=STAGGER)[:, 0]
            self._left = (left * self.max_episode_steps).ceil().long()

    def state_dict(self) -> dict[str, Any]:
        """Return the state for a bitwise exact resume, as copies of the tensors."""
        return {
            "id": self.spec.id,
            "simulation": self.sim.snapshot(),
            "seed": self._seed.clone(),
            "carried": {name: value.clone() for name, value in self.carried().items()},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state. `exact_obs` is then the next observation for the policy."""
        self._check_state(state)
        self.sim.restore(state["simulation"])
        self._plant(state["seed"].clone())
        self.carry({name: value.clone() for name, value in state["carried"].items()})
        self.exact_final_obs = self.exact_obs

    @contextlib.contextmanager
    def foreseeing(self) -> Generator[None]:
        """Sample the next initial states once for the enclosed steps. See `VecEnv.foreseeing`."""
        if self.device.type != "cpu":  # on a CPU, initial states are always sampled in blocks
            starts = _InitialStates(self.task.start, self._seed, self._episode + 1, _FORESEEN)
            self._foreseen = starts.within
        try:
            yield
        finally:
            self._foreseen = None

    def carried(self) -> dict[str, Tensor]:
        """Return the state kept between steps outside the simulation. See `VecEnv.carried`."""
        own = {name: getattr(self, name) for name in _CARRIED}
        return own | {f"task {name}": value for name, value in self.task.memory.items()}

    def carry(self, tensors: dict[str, Tensor]) -> None:
        """Continue from the given tensors. See `VecEnv.carried`."""
        self._transition.forget()
        for name in _CARRIED:
            setattr(self, name, tensors[name])
        self.task.memory = {name: tensors[f"task {name}"] for name in self.task.memory}

    def compile(self, shared: Path | None = None) -> None:
        """Compile the simulation's kernels. See `VecEnv.compile`."""
        self.sim.compile(shared)

    def complaints(self) -> dict[str, int]:
        """Return counts of inexact computations in the simulation. See `VecEnv.complaints`."""
        return self.sim.complaints()

    def close(self) -> None:
        """Free threads and memory, unless a field of the simulation is still in use."""
        self._transition.forget()
        self._blocks = self._foreseen = None
        del self.sim, self.task, self._transition, self._time

    # ---- episodes

    def _plant(self, seed: Tensor) -> None:
        self._seed = seed
        self._blocks: _InitialStates | None = None
        self._foreseen: Callable[[Tensor], State] | None = None

    def _start(self, mask: Tensor) -> None:
        """Begin the next episode where `mask` is true."""
        self._episode = self._episode + mask
        qpos, qvel, *drawn = self._initial(self._episode)
        for numbers in drawn:
            qpos, qvel = self.task.begin(mask, qpos, qvel, numbers)
        self.sim.reset(mask, qpos, qvel)
        limit = _NEVER if self.max_episode_steps is None else self.max_episode_steps
        self._left = self._left.masked_fill(mask, limit)

    def _initial(self, episode: Tensor) -> State:
        """Return the initial states of the given episodes."""
        if self._foreseen is not None:
            return self._foreseen(episode)
        if self.device.type != "cpu":  # indexing a block would force a synchronization
            return self.task.start(self._seed, episode)
        if self._blocks is None:
            self._blocks = _InitialStates(self.task.start, self._seed, episode, _AHEAD)
        return self._blocks.at(episode)

    def _ending(
        self, terminated: Tensor | None, cut: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return `terminated`, `truncated` and `done` from task, time limit and engine failures."""
        self._left = self._left - 1
        truncated = self._left <= 0
        if cut is not None:
            truncated = truncated | cut
        if terminated is None:
            terminated, done = torch.zeros_like(truncated), truncated
        else:
            done = terminated | truncated
        failed = self.sim.failed
        if failed is not None:
            # On a GPU, this check would synchronize; failing episodes remain in their first step.
            if failed.device.type == "cpu" and bool((failed & self._fresh).any()):
                raise TelicError(
                    f"MuJoCo fails in {int(failed.sum())} of {self.num_envs} simulations of "
                    f"{self.spec.id}, sometimes in the first step of an episode.",
                    hint="Open the model in MuJoCo's viewer to check it.",
                )
            terminated, truncated, done = terminated & ~failed, truncated | failed, done | failed
        return terminated, truncated, done

    def _resting_action(self) -> list[float]:
        """Return the neutral action (zero force or the resting position)."""
        limits = zip(self.spec.action_low, self.spec.action_high, strict=True)
        return [
            (low + high) / 2.0
            if self.driver is not None or is_position(self.model, i)
            else min(max(0.0, low), high)
            for i, (low, high) in enumerate(limits)
        ]

    def _describe(self) -> EnvSpec:
        task, model = self.task, self.model
        # An actuator without limits accepts any number; ±1 is a reasonable default for learning.
        limited = model.actuator_ctrllimited[:, None].astype(bool)
        limits = np.where(limited, model.actuator_ctrlrange, (-1.0, 1.0))
        limits = limits if task.action_limits is None else task.action_limits
        actions = action_names(model)
        if self.driver is not None:
            limits, actions = self.driver.limits, self.driver.names
        low, high = limits.astype(np.float32).T.tolist()
        return EnvSpec(
            id=task.id,
            description=task.description,
            obs_names=task.obs_names + (PHASE if task.arguments.phase_hz else ()),
            action_names=actions,
            action_low=tuple(low),
            action_high=tuple(high),
            dt_s=task.dt,
            max_episode_steps=task.arguments.max_episode_steps,
            info_keys={**task.info_meanings, **offered(model)},
            notes=(*task.notes, *self.sim.notes),
            arguments=task.arguments.model_dump(mode="json"),
            **robot_fields(model, self.robot),
        )


class _InitialStates:
    """Cache of initial states, sampled in blocks of future episodes.

    Sampling takes about a hundred small operations, which is expensive if a few episodes end at
    every step. Samples are pure functions of (seed, episode), so many are drawn together.
    """

    def __init__(self, draw: Draw, seed: Tensor, episode: Tensor, ahead: int) -> None:
        """Sample `ahead` episodes per environment, starting with number `episode` (N,)."""
        self._draw, self._seed, self._ahead = draw, seed, ahead
        self._rows = torch.arange(len(seed), device=seed.device) * ahead
        self._fill(episode)

    def _fill(self, first: Tensor) -> None:
        self._first = first
        episodes = first[:, None] + torch.arange(self._ahead, device=first.device)
        state = self._draw(self._seed.repeat_interleave(self._ahead), episodes.flatten())
        self._sizes = [part.shape[1] for part in state]
        self._block = torch.cat(state, dim=1)

    def within(self, episode: Tensor) -> State:
        """Return the episodes' initial states, clamping to the last sampled one."""
        which = (episode - self._first).clamp_(0, self._ahead - 1)
        state = self._block.index_select(0, self._rows + which)
        return tuple(split(state, self._sizes, dim=1))

    def at(self, episode: Tensor) -> State:
        """Return the episodes' initial states. Episodes must be requested in increasing order."""
        if bool((episode - self._first >= self._ahead).any()):
            self._fill(episode)
        return self.within(episode)
