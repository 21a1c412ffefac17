"""Any Gymnasium environment, or a user's own class, behind the contract of `VecEnv`.

One process, one environment object per row, stepped in a plain loop: slower than batched simulation
but general. The loop keeps each transition's info as it was before the autoreset, which
`gymnasium.vector` mixes with that of the next episode.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

import gymnasium
import numpy as np
import torch
from torch import Tensor

from telic.core.seeds import derive, uniform
from telic.core.tensors import from_numpy, integers
from telic.envs.foreign import Probe, builder, examine
from telic.envs.spaces import capture, restore, stack
from telic.envs.vector import BatchedEnv, Info, Step, seed_rows
from telic.errors import ConfigError, UsageError

_STAGGER = 101  # the same stream of random numbers as the batched environments use


def make_gymnasium(
    env_id: str,
    *,
    num_envs: int,
    device: str | torch.device = "cpu",
    seed: int | Sequence[int] = 0,
    max_episode_steps: int | Literal["registered"] | None = "registered",
    num_threads: int | None = None,
    **arguments: Any,
) -> GymnasiumEnv:
    """Return N environments of any Gymnasium id, or of a class or factory "module:Class".

    Args:
        env_id: "CartPole-v1", "package.module:Class" or "path/to/file.py:Class".
        num_envs: environments in the batch.
        device: where tensors live; the environments themselves run on the CPU.
        seed: one seed, or one per member of a population.
        max_episode_steps: time limit; None: unlimited; by default the registered one.
        num_threads: taken for uniformity; Python environments run in one thread.
        **arguments: passed to the environment's constructor.
    """
    if num_envs < 1:
        raise ConfigError(f"num_envs={num_envs} is not a number of environments.")
    if device != "cpu":
        raise ConfigError(
            f"{env_id} is a Python environment and runs on the CPU only.",
            hint='Use device="cpu"; MuJoCo tasks and model files also run on a GPU.',
        )
    build = builder(env_id, arguments)
    probe = examine(env_id, build, max_episode_steps, arguments)
    envs = [build() for _ in range(num_envs)]
    return GymnasiumEnv(envs, probe, seed=seed, device=torch.device(device))


class GymnasiumEnv(BatchedEnv):
    """N Python environments. Implements `telic.envs.vector.VecEnv`.

    `resumable` says whether `state_dict` was shown to hold everything; otherwise a resumed run goes
    on with new episodes. `exact_obs` and `exact_final_obs` are the latest observations in float64.
    """

    def __init__(
        self,
        envs: Sequence[gymnasium.Env],
        probe: Probe,
        *,
        seed: int | Sequence[int],
        device: torch.device,
    ) -> None:
        super().__init__(probe.spec, len(envs), device)
        self.resumable = probe.resumable
        self._probe = probe
        self._envs = envs
        self._advance = [env.step for env in envs]
        self._cores = [env.unwrapped for env in envs]
        self._seed = seed_rows(seed, self.num_envs, torch.device("cpu"))
        self._seeded = False  # whether the environments' own generators follow from `_seed`
        self._episode = torch.full_like(self._seed, -1)
        self._clock = np.zeros(self.num_envs, dtype=np.int64)
        self._fresh = np.ones(self.num_envs, dtype=bool)
        self._serial = 0  # grows with every step and reset; tells an info whether it is of the past
        self.exact_obs = self.exact_final_obs = torch.empty(0)

    def reset(self, seed: int | Sequence[int] | None = None) -> Tensor:
        """Start new episodes everywhere; see `VecEnv.reset`."""
        if seed is not None:
            self._seed = seed_rows(seed, self.num_envs, torch.device("cpu"))
            self._episode.fill_(-1)
            self._seeded = False
        seeds = [None] * self.num_envs if self._seeded else integers(self._seed)
        return self._restart(seeds)

    def step(self, action: Tensor) -> Step:
        """Make one step everywhere; see `VecEnv.step`."""
        self._check(action, self._seeded)
        self._serial += 1
        count, flatten = self.num_envs, self._probe.flatten
        obs = np.empty((count, self.obs_dim))
        reward = np.empty(count)
        terminated = np.empty(count, dtype=bool)
        truncated = np.empty(count, dtype=bool)
        infos: list[dict[str, Any]] = [{}] * count
        steps = zip(self._advance, self._probe.native(action), strict=True)
        for i, (advance, native) in enumerate(steps):
            row, reward[i], terminated[i], truncated[i], infos[i] = advance(native)
            obs[i] = flatten(row)
        self._clock += 1
        if self.max_episode_steps is not None:
            truncated |= self._clock >= self.max_episode_steps
        self._held: dict[int, dict[str, Any]] = {}  # rows whose environment has moved on
        now = (self._serial, self._clock.copy(), self._fresh, action, reward, infos)
        info = Info(partial(self._value, *now), self._schema)
        final = obs
        done = terminated | truncated
        if done.any():
            obs = obs.copy()
            for i in np.flatnonzero(done).tolist():
                self._held[i] = {name: self._read(name, i) for name in self._probe.readers}
                obs[i] = flatten(self._envs[i].reset()[0])
            self._clock[done] = 0
            self._episode += from_numpy(done)
        self._fresh = done
        return self._give(obs, final, reward, terminated, truncated, info)

    def present(self) -> Info:
        """Refuse: an environment behind Gymnasium's interface shows its state only in a step."""
        raise UsageError(
            f"{self.spec.id} cannot show its present state.",
            hint="Leave critic_sees empty; it works for the built-in tasks and for MJCF files.",
        )

    def stagger(self) -> None:
        """Set each episode clock to a random age; see `VecEnv.stagger`."""
        if self.max_episode_steps is not None:
            age = uniform(self._seed, self._episode, 1, stream=_STAGGER)[:, 0]
            self._clock = (age * self.max_episode_steps).long().numpy()

    def state_dict(self) -> dict[str, Any]:
        """Return what is needed to go on: bit for bit where `resumable`."""
        return {
            "id": self.spec.id,
            "envs": [capture(env) for env in self._envs] if self.resumable else None,
            "seed": self._seed.clone(),
            "seeded": self._seeded,
            "episode": self._episode.clone(),
            "clock": from_numpy(self._clock.copy()),
            "fresh": from_numpy(self._fresh.copy()),
            "obs": self.exact_obs.clone(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up a state; `exact_obs` is then the observation to act on next."""
        self._check_state(state)
        self._serial += 1
        self._seed = state["seed"].clone()
        self._episode = state["episode"].clone()
        if state["envs"] is None:
            numbers = zip(self._seed.tolist(), self._episode.tolist(), strict=True)
            self._restart([derive(seed, "resume", episode) for seed, episode in numbers])
            return
        for env, saved in zip(self._envs, state["envs"], strict=True):
            env.reset()  # makes whatever a first reset makes, to be filled
            restore(env, saved)
        self._seeded = state["seeded"]
        self._clock = state["clock"].clone().numpy()
        self._fresh = state["fresh"].clone().numpy()
        self.exact_obs = self.exact_final_obs = state["obs"].to(self.device)

    def close(self) -> None:
        """Close every environment."""
        self._serial += 1
        for env in self._envs:
            env.close()

    def _restart(self, seeds: Sequence[int | None]) -> Tensor:
        """Reset every environment, with a seed of its own where there is one."""
        self._serial += 1
        self._seeded = True
        self._episode += 1
        self._clock = np.zeros_like(self._clock)
        self._fresh = np.ones_like(self._fresh)
        rows = [env.reset(seed=seed)[0] for env, seed in zip(self._envs, seeds, strict=True)]
        obs = np.array([self._probe.flatten(row) for row in rows], dtype=np.float64)
        self.exact_obs = self.exact_final_obs = from_numpy(obs).to(self.device)
        return self.exact_obs.float()

    def _give(
        self,
        obs: np.ndarray,
        final: np.ndarray,
        reward: np.ndarray,
        terminated: np.ndarray,
        truncated: np.ndarray,
        info: Info,
    ) -> Step:
        def tensor(array: np.ndarray) -> Tensor:
            return from_numpy(array).to(self.device)

        self.exact_final_obs = tensor(final)
        self.exact_obs = self.exact_final_obs if obs is final else tensor(obs)
        single = self.exact_final_obs.float()
        after = single if obs is final else self.exact_obs.float()
        reward_single = tensor(reward).float()
        return Step(after, reward_single, tensor(terminated), tensor(truncated), info, single)

    # ---- info

    def _value(
        self,
        serial: int,
        clock: np.ndarray,
        fresh: np.ndarray,
        action: Tensor,
        reward: np.ndarray,
        infos: list[dict[str, Any]],
        name: str,
    ) -> Tensor:
        """Compute an info value of the latest transition."""
        if name == "action":
            return action.detach().clone()
        if name == "env_reward":
            return from_numpy(reward.copy()).to(self.device)
        if name == "episode_start":
            return from_numpy(fresh.copy()).to(self.device)
        if name == "dt":
            return from_numpy(np.full(self.num_envs, self.dt)).to(self.device)
        if name == "time" and name not in self._probe.readers:
            return from_numpy(clock * np.float64(self.dt or 0.0)).to(self.device)
        shape = self._probe.own_keys.get(name)
        if shape is not None:
            missing = np.full(shape, np.nan)  # not given this time
            return stack([given.get(name, missing) for given in infos], self.device)
        if serial != self._serial:
            raise UsageError(
                f'info["{name}"] was first asked for after the environment had moved on.',
                hint="Ask before the next step; what was asked once can be kept.",
            )
        held = self._held
        rows = [held[i][name] if i in held else self._read(name, i) for i in range(self.num_envs)]
        return stack(rows, self.device)

    def _read(self, name: str, row: int) -> np.ndarray:
        return np.array(self._probe.readers[name](self._cores[row]))
