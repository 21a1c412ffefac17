"""Peer of `tracking.py`: mjlab's tracking task with its own trainer, on the same clip."""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tracking_rule import CLIP, ENDS, ENOUGH, Judge, spread_starts

PEER_TASK = "Mjlab-Tracking-Flat-Unitree-G1"


class Peer:
    """mjlab's tracking task for the clip, with its own trainer (rsl_rl)."""

    def __init__(self, asked: argparse.Namespace, envs: int, seed: int) -> None:
        if not CLIP.is_file():
            raise SystemExit(f"{CLIP} is missing. Make it: python {sys.argv[0]} clip")
        import stand_ins.sitecustomize  # noqa: F401, I001  for what mjlab only shows things with
        import mujoco  # noqa: F401  before mjlab, which asks for EGL
        import mjlab.tasks  # noqa: F401  registers the tasks
        from dataclasses import asdict
        from mjlab.rl import MjlabOnPolicyRunner, RslRlVecEnvWrapper
        from mjlab.tasks.registry import load_env_cfg, load_rl_cfg

        self.asked, self.device = asked, "cuda:0" if asked.device == "cuda" else asked.device
        torch.manual_seed(seed)
        config, learning = load_env_cfg(PEER_TASK), load_rl_cfg(PEER_TASK)
        config.scene.num_envs, config.seed = envs, seed
        if not asked.disturbed:
            config.events = {}
        self.wrap = lambda env: RslRlVecEnvWrapper(env, clip_actions=learning.clip_actions)
        self.env = self.made(config)
        told = {**asdict(learning), "seed": seed, "logger": "tensorboard", "upload_model": False}
        self.runner = MjlabOnPolicyRunner(self.wrap(self.env), told, None, self.device)
        self.batch = envs * learning.num_steps_per_env
        self.starts: tuple[Any, Any, torch.Tensor] | None = None
        self.done, self.seconds = 0, 0.0

    def made(self, config: Any) -> Any:
        """Return an environment that tracks the clip, with parts in the robot's order."""
        from mjlab.asset_zoo.robots import get_g1_robot_cfg
        from mjlab.entity import Entity
        from mjlab.envs import ManagerBasedRlEnv

        robot, ours = Entity(get_g1_robot_cfg()), dict(np.load(CLIP))
        joints = [list(ours["joint_names"]).index(name) for name in robot.joint_names]
        bodies = [list(ours["body_names"]).index(name) for name in robot.body_names]
        theirs = {"fps": ours["fps"]}
        theirs |= {name: ours[name][:, joints] for name in ("joint_pos", "joint_vel")}
        theirs |= {name: ours[name][:, bodies] for name in ours if name.endswith("_w")}
        self.frames = len(theirs["joint_pos"])
        path = Path(tempfile.mkdtemp()) / "clip.npz"
        np.savez(path, **theirs)
        config.commands["motion"].motion_file = str(path)
        return ManagerBasedRlEnv(cfg=config, device=self.device)

    def learn(self, iterations: int) -> float:
        """Train, and return the duration in seconds."""
        began = time.perf_counter()
        with contextlib.redirect_stdout(sys.stderr):
            self.runner.learn(iterations, init_at_random_ep_len=self.done == 0)
        if self.device != "cpu":
            torch.cuda.synchronize()
        self.done += iterations
        return time.perf_counter() - began

    def prepare_starts(self) -> tuple[Any, Any, torch.Tensor]:
        """Create the nominal environment for fresh episodes, with noise only on initial states."""
        from mjlab.tasks.registry import load_env_cfg

        config, usual = load_env_cfg(PEER_TASK, play=True), load_env_cfg(PEER_TASK)
        config.scene.num_envs, config.seed, config.events = self.asked.starts, 777, {}
        motion, noisy = config.commands["motion"], usual.commands["motion"]
        motion.pose_range, motion.velocity_range = noisy.pose_range, noisy.velocity_range
        motion.sampling_mode = "uniform"
        config.terminations = {"time_out": config.terminations["time_out"]}
        env = self.made(config)
        command = env.command_manager.get_term("motion")
        begin = spread_starts(self.frames, self.asked.starts).to(self.device)

        def place(ids: torch.Tensor) -> None:
            command.time_steps[ids] = begin[ids]

        command._uniform_sampling = place
        return self.wrap(env), command, begin

    @torch.inference_mode()  # as its own training steps the environment
    def play(self) -> dict[str, Any]:
        """Return the results of the policy in fresh episodes."""
        from mjlab.utils.lab_api.math import quat_error_magnitude

        if self.starts is None:
            self.starts = self.prepare_starts()
        wrapped, command, begin = self.starts
        policy = self.runner.get_inference_policy(device=self.device)
        ends = [command.cfg.body_names.index(name) for name in ENDS]
        judge = Judge(self.frames - 1 - begin, ends, self.device)
        obs, _ = wrapped.reset()
        for _ in range(int((self.frames - 1 - begin).max())):
            # A step is scored against the reference as it was before it, as its own rewards are.
            wanted, turn = command.body_pos_w.clone(), command.body_quat_w[:, 0].clone()
            obs, _, _, _ = wrapped.step(policy(obs))
            turned = quat_error_magnitude(turn, command.robot_body_quat_w[:, 0])
            judge.see(command.robot_body_pos_w, wanted, turned)
        return judge.row()


def peer_rates(asked: argparse.Namespace) -> None:
    """Measure the steps per second of mjlab."""
    for envs in asked.envs:
        peer = Peer(asked, envs, 1)
        peer.learn(3)
        count, took = 0, 0.0
        while took < min(asked.seconds, 20.0):
            took += peer.learn(5)
            count += 5
        asked.say(envs=envs, steps_per_s=count * peer.batch / took, seconds=took)
        peer.env.close()


def peer_single(asked: argparse.Namespace) -> None:
    """Train mjlab's tracker on the clip until it is tracked, and print the curve."""
    for envs in asked.envs:
        for seed in asked.seeds:
            peer = Peer(asked, envs, seed)
            peer.learn(1)
            seconds, each = 0.0, 2
            while seconds < asked.seconds:
                took = peer.learn(each)
                seconds += took
                step = peer.done * peer.batch
                found = peer.play()
                asked.say(envs=envs, seed=seed, step=step, seconds=seconds, **found)
                if found["success"] >= ENOUGH:
                    break
                each = max(1, round(each * asked.look_every / took))
            peer.env.close()
