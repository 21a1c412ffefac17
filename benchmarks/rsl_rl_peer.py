"""Train rsl_rl's PPO on telic's environments through its own interface, as a peer on a GPU."""

from __future__ import annotations

import contextlib
import io
import time
from typing import Any

import torch
from rsl_rl.env import VecEnv
from rsl_rl.runners import OnPolicyRunner
from tensordict import TensorDict

import telic

_EVALUATION_SEED = 1_000_000


class Adapter(VecEnv):
    """Environment of rsl_rl, with actions in [-1, 1] and one observation group."""

    def __init__(self, env_id: str, num_envs: int, seed: int) -> None:
        self.env: Any = telic.make(env_id, num_envs=num_envs, device="cuda", seed=seed)
        self.num_envs = num_envs
        self.num_actions = self.env.act_dim
        self.max_episode_length = self.env.max_episode_steps
        self.device = "cuda"
        self.cfg: dict[str, Any] = {}
        self.episode_length_buf = torch.zeros(num_envs, dtype=torch.long, device="cuda")
        self.obs = self.env.reset()
        self.env.stagger()

    def get_observations(self) -> TensorDict:
        """Return the next observations."""
        return TensorDict({"policy": self.obs}, batch_size=[self.num_envs])

    def step(self, actions: torch.Tensor) -> tuple[TensorDict, torch.Tensor, torch.Tensor, dict]:
        """Take one control step."""
        step = self.env.step(actions.clamp(-1.0, 1.0))
        self.obs = step.obs
        done = step.terminated | step.truncated
        return self.get_observations(), step.reward, done, {"time_outs": step.truncated}


def curve(env_id: str, num_envs: int, seconds: float, evaluations: int = 5) -> dict[str, Any]:
    """Train for some time, and return the rate and the evaluations. Evaluation time is excluded."""
    network = {
        "class_name": "MLPModel",
        "hidden_dims": [256, 256],
        "activation": "elu",
        "obs_normalization": True,
    }
    gaussian = {"class_name": "GaussianDistribution", "init_std": 0.6}
    config = {
        "algorithm": {
            "class_name": "PPO",
            "num_learning_epochs": 4,
            "num_mini_batches": 4,
            "entropy_coef": 0.0,
            "learning_rate": 1e-3,
            "desired_kl": 0.01,
        },
        "actor": {**network, "distribution_cfg": gaussian},
        "critic": network,
        "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
        "num_steps_per_env": 16,
        "save_interval": 10**9,
    }
    torch.manual_seed(1)
    env = Adapter(env_id, num_envs, seed=1)
    fresh: Any = telic.make(env_id, num_envs=10, device="cuda", seed=_EVALUATION_SEED)
    with contextlib.redirect_stdout(io.StringIO()):
        runner = OnPolicyRunner(env, config, log_dir=None, device="cuda")
        runner.learn(3)  # compiles and warms up
        trained, iterations = 0.0, 0
        points: list[dict[str, Any]] = []
        while trained < seconds:
            begun = time.perf_counter()
            runner.learn(5)
            torch.cuda.synchronize()
            trained += time.perf_counter() - begun
            iterations += 5
            if trained >= seconds * (len(points) + 1) / evaluations:
                points.append({"seconds": trained, "mean": mean_return(runner, fresh)})
    return {"steps_per_second": iterations * 16 * num_envs / trained, "points": points}


@torch.inference_mode()
def mean_return(runner: OnPolicyRunner, env: Any) -> float:
    """Return the mean return of deterministic actions in new episodes."""
    policy = runner.get_inference_policy("cuda")
    obs = env.reset(_EVALUATION_SEED)
    total, live = torch.zeros(10, device="cuda"), torch.ones(10, dtype=torch.bool, device="cuda")
    for _ in range(env.max_episode_steps):
        actions = policy(TensorDict({"policy": obs}, batch_size=[10])).clamp(-1.0, 1.0)
        step = env.step(actions)
        total += step.reward * live
        live &= ~(step.terminated | step.truncated)
        obs = step.obs
    runner.alg.train_mode()
    return float(total.mean())
