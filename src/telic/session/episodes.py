"""Fresh episodes for the judge: starts that training and its own evaluations never used."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from telic.core.seeds import derive
from telic.envs import make
from telic.storage.trajectories import Trajectory, TrajectoryFacts, write_trajectory
from telic.training.policy import Policy

_RECORDED = ("qpos", "qvel", "xpos", "xquat", "cvel", "cfrc_ext")
_UNLIMITED = 1000


def record(
    policy: Policy, env_id: str, env_args: dict[str, Any], paths: Sequence[Path]
) -> list[Path]:
    """Play one episode per path with the most likely actions, and write them."""
    seed = derive("judge", env_id)
    env = make(env_id, num_envs=len(paths), seed=seed, **env_args)
    spec = env.spec
    fields = [name for name in _RECORDED if name in spec.info_keys]
    obs = env.reset()
    live = torch.ones(len(paths), dtype=torch.bool)
    lengths = torch.zeros(len(paths), dtype=torch.long)
    tape: dict[str, list[torch.Tensor]] = {}
    for _ in range(env.max_episode_steps or _UNLIMITED):
        action = torch.as_tensor(policy(obs))
        step = env.step(action)
        row = {
            "obs": obs, "action": action, "next_obs": step.final_obs, "reward": step.reward,
            "terminated": step.terminated, "truncated": step.truncated,
            **{name: step.info[name] for name in fields},
        }  # fmt: skip
        for name, value in row.items():
            tape.setdefault(name, []).append(value)
        lengths += live
        live = live & ~(step.terminated | step.truncated)
        obs = step.obs
        if not live.any():
            break
    env.close()
    columns = {name: torch.stack(values).numpy() for name, values in tape.items()}
    for index, path in enumerate(paths):
        length = int(lengths[index])
        facts = TrajectoryFacts(
            env_id=env_id, env_kwargs=env_args, dt_s=spec.dt_s, seed=seed, label=f"judge{index}",
            obs_names=spec.obs_names, action_names=spec.action_names, body_names=spec.body_names,
            joint_names=spec.joint_names,
        )  # fmt: skip
        path.parent.mkdir(parents=True, exist_ok=True)
        cut = {name: np.ascontiguousarray(value[:length, index]) for name, value in columns.items()}
        write_trajectory(path, Trajectory(cut, facts))
    return list(paths)
