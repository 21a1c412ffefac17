"""Fresh episodes for the judge: starts that training and its own evaluations never used.

A policy that sees its reward's memory needs the reward beside it. That is foreign code, so such
episodes are played in a confined worker, which does not judge them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from telic.core.seeds import derive
from telic.envs import make
from telic.rewards.load import load_reward
from telic.rewards.recording import collect
from telic.rewards.reward import Reward
from telic.storage.trajectories import Trajectory, TrajectoryFacts, write_trajectory
from telic.training.policy import Policy, load_policy

_RECORDED = ("qpos", "qvel", "xpos", "xquat", "cvel", "cfrc_ext", "subtree_com")
JUDGE, TRIAL = "judge", "trial"
"""what episodes are for: to decide whether a policy passes, or which variant is trained on"""
_UNLIMITED = 1000
_PLAYING_S = 300.0


def play(
    checkpoint: Path,
    reward: str,
    env_id: str,
    env_args: dict[str, Any],
    paths: Sequence[Path],
    purpose: str = JUDGE,
) -> list[Path]:
    """Play one fresh episode per path with a policy, and write them.

    Args:
        checkpoint: the policy's file.
        reward: text of the reward it was trained with, run only if the policy sees its memory.
        env_id: environment to play in.
        env_args: its arguments.
        paths: where the episodes go, all in one folder.
        purpose: what they are for; each purpose has starts of its own.
    """
    policy = load_policy(checkpoint)
    if not policy.memory_size:
        return record(policy, env_id, env_args, paths, purpose=purpose)
    from telic.sandbox.host import run_worker

    folder = paths[0].absolute().parent
    folder.mkdir(parents=True, exist_ok=True)
    payload = {
        "policy": str(checkpoint.absolute()),
        "reward": reward,
        "env": env_id,
        "env_args": env_args,
        "paths": [str(each.absolute()) for each in paths],
        "purpose": purpose,
    }
    run_worker(
        "telic.session.episodes",
        payload,
        writable=[folder],
        readable=[checkpoint.absolute().parent],
    )
    return list(paths)


def prepare(payload: dict[str, Any], channel: Any) -> None:
    """Nothing to open before the worker confines itself."""


def run(state: None, payload: dict[str, Any], channel: Any) -> dict[str, Any]:
    """Play in the confined worker."""
    channel.heartbeat(_PLAYING_S, "playing episodes")
    reward = load_reward(payload["reward"], label="reward_fn.py")
    tried = make(payload["env"], num_envs=8, seed=0, **payload["env_args"])
    reward.decide(collect(tried, 64))
    tried.close()
    paths = [Path(each) for each in payload["paths"]]
    policy = load_policy(Path(payload["policy"]))
    record(policy, payload["env"], payload["env_args"], paths, reward, payload["purpose"])
    return {}


def record(
    policy: Policy,
    env_id: str,
    env_args: dict[str, Any],
    paths: Sequence[Path],
    reward: Reward | None = None,
    purpose: str = JUDGE,
) -> list[Path]:
    """Play one episode per path with the most likely actions, and write them."""
    seed = derive(purpose, env_id)
    env = make(env_id, num_envs=len(paths), seed=seed, **env_args)
    spec = env.spec
    fields = [name for name in _RECORDED if name in spec.info_keys]
    obs = env.reset()
    live = torch.ones(len(paths), dtype=torch.bool)
    lengths = torch.zeros(len(paths), dtype=torch.long)
    tape: dict[str, list[torch.Tensor]] = {}
    if reward is not None:
        reward.start(len(paths), "cpu")
    for _ in range(env.max_episode_steps or _UNLIMITED):
        seen = (obs,) if reward is None else (obs, reward.memory())
        action = torch.as_tensor(policy(*seen))
        step = env.step(action)
        if reward is not None:
            reward(obs, action, step.final_obs, step.info, step.reward)
            reward.reset(step.terminated | step.truncated)
        row = {
            "obs": obs,
            "action": action,
            "next_obs": step.final_obs,
            "env_reward": step.reward,
            "terminated": step.terminated,
            "truncated": step.truncated,
            **{name: step.info[name] for name in fields},
        }
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
            env_id=env_id,
            env_kwargs=env_args,
            dt_s=spec.dt_s,
            seed=seed,
            label=f"judge{index}",
            obs_names=spec.obs_names,
            action_names=spec.action_names,
            body_names=spec.body_names,
            joint_names=spec.joint_names,
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        cut = {name: np.ascontiguousarray(value[:length, index]) for name, value in columns.items()}
        write_trajectory(path, Trajectory(cut, facts))
    return list(paths)
