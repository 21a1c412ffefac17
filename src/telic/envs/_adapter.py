"""`VecEnv` adapter for any Gymnasium environment or user-defined class.

Environments are Python objects that are stepped in a loop in one process, which is slower than
batched simulation but general. The info of a transition describes the state before the autoreset,
while `gymnasium.vector` mixes the infos of both episodes.
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
from telic.core.tensors import from_numpy
from telic.envs.foreign import Probe, builder, examine_env, stack
from telic.envs.vector import STAGGER, Info, Step, VecEnv, seed_rows
from telic.errors import ConfigError, UsageError


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
    """Create N environments of any Gymnasium id, or of a class or factory "module:Class".

    The default time limit is that of the registered id. None disables the limit. Python
    environments run in one thread and ignore `num_threads`. Other arguments go to the constructor.
    """
    if num_envs < 1:
        raise ConfigError(f"num_envs={num_envs} must be a positive integer.")
    if device != "cpu":
        raise ConfigError(
            f"{env_id} is a Python environment and only runs on the CPU.",
            hint='Use device="cpu". MuJoCo tasks and model files also run on a GPU.',
        )
    build = builder(env_id, arguments)
    probe = examine_env(env_id, build, max_episode_steps, arguments)
    envs = [build() for _ in range(num_envs)]
    return GymnasiumEnv(envs, probe, seed=seed, device=torch.device(device))


class GymnasiumEnv(VecEnv):
    """Batch of N Python environments.

    A saved state holds the seeds and actions of the current episodes, and loading it replays them.
    If the last observations then differ, `resumable` becomes False and new episodes begin.
    `exact_obs` and `exact_final_obs` are the latest observations in float64.
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
        self.resumable = True
        """False after a saved state could not be replayed exactly."""
        self._probe = probe
        self._envs = envs
        self._advance = [env.step for env in envs]
        self._cores = [env.unwrapped for env in envs]
        self._seed = seed_rows(seed, self.num_envs, torch.device("cpu"))
        self._episode = torch.full_like(self._seed, -1)
        self._age = np.zeros(self.num_envs, dtype=np.int64)  # steps of the current episode
        self._actions: list[Tensor] = []  # since the start of the oldest episode
        self._clock = np.zeros(self.num_envs, dtype=np.int64)
        self._fresh = np.ones(self.num_envs, dtype=bool)
        self._serial = 0  # incremented by every step and reset to detect outdated infos
        self.exact_obs = self.exact_final_obs = torch.empty(0)

    def reset(self, seed: int | Sequence[int] | None = None) -> Tensor:
        """Start new episodes in all environments. See `VecEnv.reset`."""
        if seed is not None:
            self._seed = seed_rows(seed, self.num_envs, torch.device("cpu"))
            self._episode.fill_(-1)
        self._episode += 1
        return self._restart(self._episode_seeds())

    def step(self, action: Tensor) -> Step:
        """Take one step in all environments. See `VecEnv.step`."""
        self._check(action, len(self.exact_obs) > 0)
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
        self._age += 1
        self._actions.append(action.detach().clone())
        if self.max_episode_steps is not None:
            truncated |= self._clock >= self.max_episode_steps
        self._held: dict[int, dict[str, Any]] = {}  # values of reset environments, by row
        values = {
            "action": action.detach().clone(),
            "env_reward": self._tensor(reward.copy()),
            "episode_start": self._tensor(self._fresh),
        }
        if self.dt is not None:
            values["dt"] = self._tensor(np.full(count, self.dt))
            if "time" not in self._probe.readers:
                values["time"] = self._tensor(self._clock * np.float64(self.dt))
        info = Info(partial(self._value, self._serial, infos), self._schema, values)
        final = obs
        done = terminated | truncated
        if done.any():
            obs = obs.copy()
            self._episode += from_numpy(done)
            seeds = self._episode_seeds()
            for i in np.flatnonzero(done).tolist():
                self._held[i] = {name: self._read(name, i) for name in self._probe.readers}
                obs[i] = flatten(self._envs[i].reset(seed=seeds[i])[0])
            self._clock[done] = self._age[done] = 0
            del self._actions[: len(self._actions) - int(self._age.max())]
        self._fresh = done
        self.exact_final_obs = self._tensor(final)
        self.exact_obs = self.exact_final_obs if obs is final else self._tensor(obs)
        single = self.exact_final_obs.float()
        after = single if obs is final else self.exact_obs.float()
        ends = self._tensor(terminated), self._tensor(truncated)
        return Step(after, self._tensor(reward).float(), *ends, info, single)

    def _tensor(self, array: np.ndarray) -> Tensor:
        return from_numpy(array).to(self.device)

    def present(self) -> Info:
        """Raise UsageError, because Gymnasium's interface provides the state only during a step."""
        raise UsageError(
            f"{self.spec.id} does not provide the current state outside a step.",
            hint="Leave critic_sees empty. Only built-in tasks and MJCF files support it.",
        )

    def stagger(self) -> None:
        """Set each episode clock to a random age. See `VecEnv.stagger`."""
        if self.max_episode_steps is not None:
            age = uniform(self._seed, self._episode, 1, stream=STAGGER)[:, 0]
            self._clock = (age * self.max_episode_steps).long().numpy()

    def state_dict(self) -> dict[str, Any]:
        """Return the seeds, actions and clocks of the current episodes."""
        return {
            "id": self.spec.id,
            "seed": self._seed.clone(),
            "episode": self._episode.clone(),
            "actions": torch.stack(self._actions) if self._actions else torch.empty(0),
            "age": from_numpy(self._age.copy()),
            "clock": from_numpy(self._clock.copy()),
            "fresh": from_numpy(self._fresh.copy()),
            "obs": self.exact_obs.clone(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state. `exact_obs` is then the next observation for the policy."""
        self._check_state(state)
        self._seed = state["seed"].clone()
        self._episode = state["episode"].clone()
        self._restart(self._episode_seeds())
        self._age = state["age"].clone().numpy()
        self._actions = list(state["actions"])
        if not torch.equal(self._replayed(), state["obs"].cpu()):
            self.resumable = False
            numbers = zip(self._seed.tolist(), self._episode.tolist(), strict=True)
            self._restart([derive(seed, "resume", episode) for seed, episode in numbers])
            return
        self._clock = state["clock"].clone().numpy()
        self._fresh = state["fresh"].clone().numpy()
        self.exact_obs = self.exact_final_obs = state["obs"].to(self.device)

    def _replayed(self) -> Tensor:
        """Replay the current episodes from the start and return the last observations."""
        obs = self.exact_obs.cpu().clone()
        for number, action in enumerate(self._actions):
            native = self._probe.native(action)
            for i in np.flatnonzero(len(self._actions) - number <= self._age).tolist():
                obs[i] = torch.as_tensor(self._probe.flatten(self._advance[i](native[i])[0]))
        return obs

    def _episode_seeds(self) -> list[int]:
        """Return the seed of each current episode. Episode 0 has the environment's seed."""
        numbers = zip(self._seed.tolist(), self._episode.tolist(), strict=True)
        return [derive(seed, "episode", n) if n else seed for seed, n in numbers]

    def close(self) -> None:
        """Close every environment."""
        self._serial += 1
        for env in self._envs:
            env.close()

    def _restart(self, seeds: Sequence[int]) -> Tensor:
        """Reset each environment with its seed from `seeds`."""
        self._serial += 1
        self._actions = []
        self._age, self._clock = np.zeros_like(self._clock), np.zeros_like(self._clock)
        self._fresh = np.ones_like(self._fresh)
        rows = [env.reset(seed=seed)[0] for env, seed in zip(self._envs, seeds, strict=True)]
        obs = np.array([self._probe.flatten(row) for row in rows], dtype=np.float64)
        self.exact_obs = self.exact_final_obs = from_numpy(obs).to(self.device)
        return self.exact_obs.float()

    def _value(self, serial: int, infos: list[dict[str, Any]], name: str) -> Tensor:
        """Compute an info value of the latest transition."""
        shape = self._probe.own_keys.get(name)
        if shape is not None:
            missing = np.full(shape, np.nan)  # absent in this step
            return stack([given.get(name, missing) for given in infos], self.device)
        if serial != self._serial:
            raise UsageError(
                f'info["{name}"] was first accessed after the environment had advanced.',
                hint="Access it before the next step. Accessed values remain available.",
            )
        held = self._held
        rows = [held[i][name] if i in held else self._read(name, i) for i in range(self.num_envs)]
        return stack(rows, self.device)

    def _read(self, name: str, row: int) -> np.ndarray:
        return np.array(self._probe.readers[name](self._cores[row]))
