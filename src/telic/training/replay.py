"""Play a saved policy once more from a chosen seed, under the environment's own reward."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from telic.envs import make
from telic.errors import UsageError
from telic.storage.layout import MemberFolder
from telic.storage.trajectories import Trajectory, TrajectoryFacts, write_trajectory
from telic.training.evaluate import RECORDED
from telic.training.policy import Policy, find_policy, load_policy

_UNLIMITED = 1000


def record_episode(folder: MemberFolder, step: int | None, seed: int) -> Path:
    """Play one episode and keep it beside the recorded ones; returns its file."""
    file = find_policy(folder.path, step)
    policy = load_policy(file)
    if policy.memory_size:
        raise UsageError(
            "This policy sees its reward's memory, so it plays only in the run's own evaluations.",
            hint="Leave out --seed to see a recorded episode.",
        )
    trajectory = play_episode(policy, seed)
    path = folder.trajectory(policy.facts["step"], f"seed{seed}")
    write_trajectory(path, trajectory)
    return path


@torch.no_grad()
def play_episode(policy: Policy, seed: int) -> Trajectory:
    """Return one episode with the policy's most likely actions."""
    facts: dict[str, Any] = policy.facts
    env = make(facts["env"], num_envs=1, seed=seed, **facts["env_args"])
    try:
        fields = [name for name in RECORDED if name in env.spec.info_keys]
        columns: dict[str, list[torch.Tensor]] = {}
        obs = env.reset()
        for _ in range(env.max_episode_steps or _UNLIMITED):
            action = policy(obs)
            result = env.step(action)
            row = {
                "obs": obs,
                "action": action,
                "next_obs": result.final_obs,
                "reward": result.reward,
                "terminated": result.terminated,
                "truncated": result.truncated,
                **{name: result.info[name] for name in fields},
            }
            for name, value in row.items():
                columns.setdefault(name, []).append(value[0])
            if bool(result.terminated | result.truncated):
                break
            obs = result.obs
        stacked = {name: torch.stack(values).numpy() for name, values in columns.items()}
        return Trajectory(
            stacked,
            TrajectoryFacts(
                env_id=facts["env"],
                env_kwargs=facts["env_args"],
                dt_s=env.spec.dt_s or 1.0,
                seed=seed,
                label=f"seed{seed}",
                global_step=facts["step"],
                total_return=float(stacked["reward"].sum()),
                obs_names=env.spec.obs_names,
                action_names=env.spec.action_names,
                body_names=env.spec.body_names,
                joint_names=env.spec.joint_names,
            ),
        )
    finally:
        env.close()
