"""Step our environments and Gymnasium's side by side from the same states with the same actions."""

from __future__ import annotations

import gymnasium
import mujoco
import numpy as np
import torch

from telic.envs import make
from telic.envs.mujoco import MujocoEnv

FIELDS = ("qpos", "qvel", "xpos", "xquat", "xipos", "cvel", "subtree_com", "cfrc_ext", "time")


class Comparison:
    """Largest deviation of each compared field, and number of finished episodes."""

    def __init__(self) -> None:
        self.largest: dict[str, float] = {}
        self.episodes = 0

    def add(self, name: str, ours: torch.Tensor, theirs: object) -> None:
        """Take note of one field; NaN counts as infinitely far."""
        gap = np.abs(ours.numpy() - np.asarray(theirs, np.float64)).max(initial=0.0)
        gap = float(gap) if gap == gap else float("inf")
        self.largest[name] = max(self.largest.get(name, 0.0), gap)

    @property
    def worst(self) -> tuple[float, str]:
        """The largest deviation of all, and where it is."""
        return max((gap, name) for name, gap in self.largest.items())


def compare(
    name: str, steps: int, *, num_envs: int = 2, scale: float = 1.0, **arguments
) -> Comparison:
    """Compare observation, reward, ends, every info value and derived fields over whole episodes.

    Actions are uniform in the action range times `scale`; arguments go to both sides.
    """
    found = Comparison()
    ours = make(name, num_envs=num_envs, seed=7, num_threads=2, **arguments)
    theirs = [gymnasium.make(name, disable_env_checker=True, **arguments) for _ in range(num_envs)]
    generator = torch.Generator().manual_seed(0)
    ours.reset()
    for row, single in enumerate(theirs):
        found.add("reset obs", ours.exact_obs[row], _place(single, ours, row))
    low, high = ours.action_low * scale, ours.action_high * scale
    for _ in range(steps):
        action = low + (high - low) * torch.rand(num_envs, ours.act_dim, generator=generator)
        step = ours.step(action)
        rows = [single.step(each.numpy()) for single, each in zip(theirs, action, strict=True)]
        obs, reward, terminated, truncated, infos = zip(*rows, strict=True)
        found.add("obs", ours.exact_final_obs, obs)
        found.add("reward", ours.exact_reward, reward)
        found.add("terminated", step.terminated.double(), terminated)
        found.add("truncated", step.truncated.double(), truncated)
        for key in infos[0]:
            found.add(f"info {key}", step.info.exact(key), [info[key] for info in infos])
        for key in FIELDS:
            values = [getattr(single.unwrapped.data, key) for single in theirs]
            found.add(f"field {key}", step.info.exact(key), values)
        for row in (step.terminated | step.truncated).nonzero()[:, 0].tolist():
            found.episodes += 1
            found.add("reset obs", ours.exact_obs[row], _place(theirs[row], ours, row))
    for single in theirs:
        single.close()
    return found


def _place(single: gymnasium.Env, ours: MujocoEnv, row: int) -> np.ndarray:
    """Start an episode of Gymnasium's in the state of one of ours and return its observation."""
    single.reset()
    inner = single.unwrapped
    mujoco.mj_resetData(inner.model, inner.data)
    inner.set_state(*(ours.sim.field(name)[row].numpy().copy() for name in ("qpos", "qvel")))
    return inner._get_obs()
