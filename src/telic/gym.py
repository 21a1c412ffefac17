"""Wrappers for telic environments and rewards in Gymnasium, Stable-Baselines3 and rsl_rl.

    import gymnasium as gym
    import telic.gym                                         # registers telic/...

    env = gym.make("telic/HalfCheetah-v5", reward="reward.py")
    envs = gym.make_vec("telic/unitree-go1", num_envs=64)
    env = gym.make("telic/session", session="runs/session_x", trust=True)
    model = stable_baselines3.PPO("MlpPolicy", telic.gym.sb3_envs("unitree-go1", 16))
    runner = rsl_rl.runners.OnPolicyRunner(telic.gym.rsl_rl_envs("unitree-go1", 4096), ...)

The reward is the environment's built-in reward, a reward file, or the reward of a finished session
or training run. Reward code runs in this process, checked against the allow-list but not confined,
so use only code that you trust.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from torch import Tensor

from telic.core.tensors import from_numpy
from telic.envs.factory import make, make_named
from telic.envs.tasks import TASKS
from telic.errors import UsageError
from telic.rewards.probe import probe
from telic.rewards.reward import Reward, load_reward
from telic.robots.catalogue import robot_names
from telic.storage.files import read_fields, read_record
from telic.storage.keys import permit, require_permitted
from telic.storage.layout import RunFolder, SessionFolder
from telic.training.job import TrainJob, declared_phase

PREFIX = "telic/"
_PROBE_ENVS = 8
_SHOWN = ("x_position", "y_position", "x_velocity", "y_velocity")
"""info fields that Gymnasium's tasks report"""


class RewardedEnvs:
    """Batch of N environments with a reward, used by all wrappers in this module."""

    def __init__(
        self,
        name: str,
        num_envs: int,
        *,
        reward: str | Path | None = None,
        session: str | Path | None = None,
        trust: bool = False,
        device: str = "cpu",
        **arguments: Any,
    ) -> None:
        """Create the environments.

        Args:
            name: environment id, robot or file, with or without the prefix "telic/";
                "telic/session" loads the environment and the reward from `session`.
            num_envs: environments in the batch.
            reward: path of a reward file; defaults to the environment's built-in reward.
            session: folder of a finished session or training run.
            trust: allow the reward of `session` to run in this process. Required once per reward.
            device: "cpu" or "cuda".
            **arguments: constructor arguments of the environment.
        """
        name = name.removeprefix(PREFIX)
        self.reward: Reward | None = None
        if session is not None:
            name, known, self.reward = _of_session(Path(session), trust)
            arguments = {**known, **arguments}
        elif reward is not None:
            self.reward = load_reward(reward)
            turns = declared_phase(self.reward.source or "")
            arguments |= {} if turns is None else {"phase_hz": turns}
        build = make_named if session is None else make  # sessions may not import custom code
        self.env = build(name, num_envs=num_envs, device=device, **arguments)
        if self.reward is not None:
            if self.reward.seen_memory:
                raise UsageError(
                    f"{self.reward.name} requires a policy that observes its memory. Other "
                    "libraries do not support this.",
                    hint='Set memory_to = "critic", or declare phase_hz for a gait.',
                )
            probes = build(name, num_envs=_PROBE_ENVS, device=device, **arguments)
            probe(self.reward, probes)
            probes.close()
            self.reward.start(num_envs, self.env.device)
        self.obs = torch.empty(0)
        wide = np.full(self.env.obs_dim, np.inf, dtype=np.float32)
        self.observation_space = spaces.Box(-wide, wide)
        low, high = self.env.action_low.cpu().numpy(), self.env.action_high.cpu().numpy()
        count = self.env.num_actions
        self.action_space: spaces.Space[Any] = (
            spaces.Box(low, high) if count is None else spaces.Discrete(count)
        )

    def reset(self, seed: int | None = None) -> Tensor:
        """Reset every environment and return the observations (N, D)."""
        self.obs = self.env.reset(seed)
        if self.reward is not None:
            self.reward.reset(torch.ones(self.env.num_envs, dtype=torch.bool))
        return self.obs

    def step(self, action: Tensor) -> tuple[Any, Tensor, dict[str, Tensor]]:
        """Step all environments, and return the step, the rewards (N,) and logged values (N,)."""
        step = self.env.step(action)
        shown = {name: step.info[name] for name in _SHOWN if name in step.info}
        total = step.reward
        if self.reward is not None:
            total, terms = self.reward(self.obs, action, step.final_obs, step.info, step.reward)
            self.reward.reset(step.terminated | step.truncated)
            shown |= {f"reward_{name}": value for name, value in terms.items()}
        self.obs = step.obs
        return step, total, shown


class Env(gymnasium.Env[np.ndarray, Any]):
    """Single environment returned by `gymnasium.make`."""

    metadata = {"render_modes": []}  # noqa: RUF012  # typed by its base

    def __init__(self, name: str, **arguments: Any) -> None:
        self._envs, self._is_closed = RewardedEnvs(name, 1, **arguments), False
        self.observation_space = self._envs.observation_space
        self.action_space = self._envs.action_space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Reset the environment. The same seed gives the same episode."""
        super().reset(seed=seed)
        return self._envs.reset(seed)[0].cpu().numpy(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Advance the environment by one control step."""
        given = from_numpy(np.asarray(action)[None]).to(self._envs.env.device)
        step, reward, shown = self._envs.step(given)
        info = {name: float(value[0]) for name, value in shown.items()}
        ends = bool(step.terminated[0]), bool(step.truncated[0])
        return step.final_obs[0].cpu().numpy(), float(reward[0]), *ends, info

    def close(self) -> None:
        """Free threads and memory. Repeated calls have no effect."""
        if not self._is_closed:
            self._envs.env.close()
        self._is_closed = True


class Envs(VectorEnv[np.ndarray, Any, np.ndarray]):
    """Vector environment returned by `gymnasium.make_vec`, with same-step autoreset."""

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012

    def __init__(self, name: str, num_envs: int = 1, **arguments: Any) -> None:
        self._envs = RewardedEnvs(name, num_envs, **arguments)
        self.num_envs = num_envs
        self.single_observation_space = self._envs.observation_space
        self.single_action_space = self._envs.action_space
        self.observation_space = gymnasium.vector.utils.batch_space(
            self.single_observation_space, num_envs
        )
        self.action_space = gymnasium.vector.utils.batch_space(self.single_action_space, num_envs)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Reset every environment."""
        super().reset(seed=seed)
        return self._envs.reset(seed).cpu().numpy(), {}

    def step(
        self, actions: Any
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Advance by one control step. `final_obs` has the final observations of ended episodes."""
        step, reward, shown = self._envs.step(from_numpy(actions).to(self._envs.env.device))
        info: dict[str, Any] = {name: value.cpu().numpy() for name, value in shown.items()}
        ended = (step.terminated | step.truncated).cpu().numpy()
        if ended.any():
            info |= {"final_obs": step.final_obs.cpu().numpy(), "_final_obs": ended}
        numbers = (step.obs, reward, step.terminated, step.truncated)
        return *(each.cpu().numpy() for each in numbers), info  # pyrefly: ignore[bad-return]

    def close_extras(self, **kwargs: Any) -> None:
        """Free threads and memory."""
        self._envs.env.close()


def sb3_envs(name: str, num_envs: int, **arguments: Any) -> Any:
    """Create a Stable-Baselines3 `VecEnv`."""
    from stable_baselines3.common.vec_env import VecEnv as Sb3VecEnv

    class Sb3Envs(Sb3VecEnv):
        """N environments, stepped together."""

        def __init__(self) -> None:
            self.envs = RewardedEnvs(name, num_envs, **arguments)
            super().__init__(num_envs, self.envs.observation_space, self.envs.action_space)
            self._action = torch.empty(0)

        def reset(self) -> Any:
            return self.envs.reset(self._seeds[0]).cpu().numpy()

        def step_async(self, actions: np.ndarray) -> None:
            self._action = from_numpy(actions).to(self.envs.env.device)

        def step_wait(self) -> Any:
            step, reward, shown = self.envs.step(self._action)
            values = {name: value.tolist() for name, value in shown.items()}
            infos = [{name: row[i] for name, row in values.items()} for i in range(num_envs)]
            done = (step.terminated | step.truncated).cpu().numpy()
            for row in np.flatnonzero(done):
                is_cut = bool(step.truncated[row] and not step.terminated[row])
                last = step.final_obs[row].cpu().numpy()
                infos[row] |= {"terminal_observation": last, "TimeLimit.truncated": is_cut}
            return step.obs.cpu().numpy(), reward.cpu().numpy(), done, infos

        def close(self) -> None:
            self.envs.env.close()

        def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
            found = None if attr_name == "render_mode" else getattr(self.envs.env, attr_name)
            return [found for _ in self._get_indices(indices)]

        def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
            raise AttributeError(f"{attr_name} is not available in a batch of environments")

        def env_method(self, method_name: str, *args: Any, **kwargs: Any) -> list[Any]:
            raise AttributeError(f"{method_name} is not available in a batch of environments")

        def env_is_wrapped(self, wrapper_class: type, indices: Any = None) -> list[bool]:
            return [False for _ in self._get_indices(indices)]

    return Sb3Envs()


def rsl_rl_envs(name: str, num_envs: int, **arguments: Any) -> Any:
    """Create an rsl_rl `VecEnv`. Actions in [-1, 1] are scaled to the action range."""
    from rsl_rl.env import VecEnv as RslRlVecEnv  # pyrefly: ignore[missing-import]
    from tensordict import TensorDict  # pyrefly: ignore[missing-import]

    class RslRlEnvs(RslRlVecEnv):
        """N environments, stepped together."""

        def __init__(self) -> None:
            self.envs = RewardedEnvs(name, num_envs, **arguments)
            env = self.envs.env
            self.num_envs, self.num_actions, self.device = num_envs, env.act_dim, env.device
            self.max_episode_length, self.cfg = env.max_episode_steps, dict(arguments)
            self.episode_length_buf = torch.zeros(num_envs, dtype=torch.long, device=env.device)
            self.envs.reset()
            env.stagger()

        def get_observations(self) -> TensorDict:
            return TensorDict({"policy": self.envs.obs}, batch_size=[num_envs])

        def step(self, actions: Tensor) -> Any:
            low, high = self.envs.env.action_low, self.envs.env.action_high
            scaled = low + (actions.clamp(-1.0, 1.0) + 1.0) * 0.5 * (high - low)
            step, reward, _ = self.envs.step(scaled)
            done = step.terminated | step.truncated
            self.episode_length_buf = (self.episode_length_buf + 1) * ~done
            return self.get_observations(), reward, done, {"time_outs": step.truncated}

    return RslRlEnvs()


def _of_session(path: Path, trust: bool) -> tuple[str, dict[str, Any], Reward]:
    """Return the environment, its arguments and the reward of a run or session (best iteration)."""
    run, member = RunFolder(path), None
    if SessionFolder(path).summary.exists() and not run.config.exists():
        best = {"best_iteration": int | None, "best_member": str | None}
        found = read_fields(SessionFolder(path).summary, **best)
        if found["best_iteration"] is None:
            raise UsageError(f"{path} has no judged policy, so its best reward is not known.")
        run, member = (
            SessionFolder(path).iteration(found["best_iteration"]).run,
            found["best_member"],
        )
    job = read_record(run.config, TrainJob)
    index = next((each.reward for each in job.members if each.name == member), 0)
    source = job.rewards[index]
    if trust:
        permit(source.code)
    if source.source is not None:
        require_permitted(source.code)
    weights = source.weights or None
    reward = load_reward(source.source, trusted=source.trusted, weights=weights)
    return job.env, job.env_args, reward


def register() -> None:
    """Register `telic/session`, all built-in tasks and all public robots with Gymnasium."""
    for name in ("session", *TASKS, *robot_names()):
        if PREFIX + name not in gymnasium.registry:
            gymnasium.register(
                PREFIX + name,
                entry_point="telic.gym:Env",
                vector_entry_point="telic.gym:Envs",
                kwargs={"name": name},
                disable_env_checker=True,
            )


register()
