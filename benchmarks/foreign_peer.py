"""Peer of `foreign.py`: mjlab's task with its own trainer (rsl_rl), run by mjlab's Python."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from dataclasses import asdict
from typing import Any

import mujoco  # noqa: F401  before mjlab, which asks for EGL that a bare machine does not have
import torch

WARM, RAW_STEPS, POINTS = 3, 40, 10


def main() -> None:
    """Start, wait for the signal, train and report."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--task", required=True)
    parser.add_argument("--envs", type=int, required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--device", required=True)
    parser.add_argument("--seed", type=int, required=True)
    asked = parser.parse_args()
    with contextlib.redirect_stdout(sys.stderr):
        trainer = OwnTrainer(asked)
    tell("ready", {})
    sys.stdin.readline()
    with contextlib.redirect_stdout(sys.stderr):
        result = trainer.train()
    tell("result", result)


def tell(kind: str, message: dict[str, Any]) -> None:
    """Send a message to the parent process."""
    print(f"PEER {kind} {json.dumps(message)}", flush=True)


class OwnTrainer:
    """The task with its own trainer and settings."""

    def __init__(self, asked: argparse.Namespace) -> None:
        import mjlab.tasks  # noqa: F401  registers the tasks
        from mjlab.envs import ManagerBasedRlEnv
        from mjlab.rl import MjlabOnPolicyRunner, RslRlVecEnvWrapper
        from mjlab.tasks.registry import load_env_cfg, load_rl_cfg

        self.asked = asked
        self.device = "cuda:0" if asked.device == "cuda" else asked.device
        torch.manual_seed(asked.seed)
        config, learning = load_env_cfg(asked.task), load_rl_cfg(asked.task)
        config.scene.num_envs, config.seed = asked.envs, asked.seed
        learning.num_steps_per_env = asked.batch
        self.env: Any = ManagerBasedRlEnv(cfg=config, device=self.device)
        wrapped = RslRlVecEnvWrapper(self.env, clip_actions=learning.clip_actions)
        told = {**asdict(learning), "seed": asked.seed, "logger": "tensorboard"}
        self.runner = MjlabOnPolicyRunner(
            wrapped, {**told, "upload_model": False}, None, self.device
        )
        self.raw = self._raw()
        self._rewards: Any = 0.0
        self._step = self.env.step
        self.env.step = self.step

    def _raw(self) -> float:
        """Return the steps/s of the environments alone, without actions."""
        width = self.env.action_manager.total_action_dim
        action = torch.zeros(self.asked.envs, width, device=self.device)
        with torch.inference_mode():
            self.env.step(action)
            self.wait()
            began = time.perf_counter()
            for _ in range(RAW_STEPS):
                self.env.step(action)
            self.wait()
        return RAW_STEPS * self.asked.envs / (time.perf_counter() - began)

    def step(self, action: Any) -> Any:
        """Step the environments, and accumulate the rewards."""
        returned = self._step(action)
        self._rewards = self._rewards + returned[1].mean()
        return returned

    def wait(self) -> None:
        """Wait for the GPU."""
        if self.device != "cpu":
            torch.cuda.synchronize()

    def train(self) -> dict[str, Any]:
        """Train for a number of seconds after a few warm-up iterations."""
        self.runner.learn(WARM, init_at_random_ep_len=True)
        self.wait()
        seconds, iterations = 0.0, 0
        curve: list[dict[str, float]] = []
        while seconds < self.asked.seconds:
            before, began = float(self._rewards), time.perf_counter()
            self.runner.learn(2)
            self.wait()
            seconds += time.perf_counter() - began
            iterations += 2
            reward = (float(self._rewards) - before) / (2 * self.asked.batch)
            curve.append({"seconds": seconds, "reward": reward})
        every = max(1, len(curve) // POINTS)
        return {
            "steps_per_s": iterations * self.asked.batch * self.asked.envs / seconds,
            "raw_steps_per_s": self.raw,
            "curve": curve[every - 1 :: every],
        }


if __name__ == "__main__":
    main()
