"""Compare velocity tracking of telic and mjlab on one GPU.

    python benchmarks/velocity.py rate go1 4096 16384          steps/s of telic
    python benchmarks/velocity.py learn go1 4096 --seeds 3 --seconds 40
    python benchmarks/velocity.py peer-rate go1 4096 16384     the same for mjlab (own packages)
    python benchmarks/velocity.py peer-learn go1 4096 --seeds 3 --seconds 80
    python benchmarks/velocity.py table                        print both and the ratios

Both train PPO with the network of mjlab's task (512, 256, 128), 24 steps per batch, 5 epochs in 4
minibatches, on commands of -1 to 1 m/s forward and sideways and -0.5 to 0.5 rad/s yaw rate. Each
has its own reward (telic: the composer's) and its own domain randomization with pushes. Errors are
means over the first 6 s of fresh episodes in 1,024 of these environments, with deterministic
actions. Times are training times, without compilation and evaluation. mjlab requires a separate
environment (mjlab 1.6.0). Rows are added to benchmarks/results/velocity.jsonl.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from published import gpu, publish

RESULTS = Path(os.environ.get("TELIC_BENCH_OUT", Path(__file__).parent / "results"))
BATCH, MEASURED, MEASURED_STEPS, EPISODE = 24, 1_024, 300, 1_000
COMMANDS = {"forward": [-1.0, 1.0], "sideways": [-1.0, 1.0], "turn": [-0.5, 0.5], "every_s": 5.0}
LOOKS, _STRIDE = 3, 25
WORDS = {"go1": "trot as commanded, up to 1 m/s", "g1": "walk as commanded, up to 1 m/s"}
PEER_TASK = {"go1": "Mjlab-Velocity-Flat-Unitree-Go1", "g1": "Mjlab-Velocity-Flat-Unitree-G1"}


def main() -> None:
    """Run the part given on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("part", choices=["rate", "learn", "peer-rate", "peer-learn", "table"])
    parser.add_argument("robot", nargs="?", default="go1", choices=["go1", "g1"])
    parser.add_argument("envs", nargs="*", type=int, default=[4_096])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=20.0, help="approximate training time")
    parser.add_argument("--keep", type=Path, help="folder for the last policy of each seed")
    parser.add_argument("--device", default="cuda")
    asked = parser.parse_args()
    if asked.part == "table":
        return table()
    side = Peer(asked) if asked.part.startswith("peer") else Ours(asked)
    for envs in asked.envs:
        for seed in range(1, 1 + asked.seeds):
            looks = LOOKS if asked.part.endswith("learn") else 0
            for row in side.train(envs, seed, looks):
                named = {"who": side.name, "robot": asked.robot, "envs": envs, "seed": seed, **row}
                print(json.dumps(named), flush=True)
                RESULTS.mkdir(exist_ok=True)
                with (RESULTS / "velocity.jsonl").open("a") as out:
                    out.write(json.dumps(named) + "\n")


class Errors:
    """Mean errors of robots relative to their commands."""

    def __init__(self) -> None:
        self._speed: list[float] = []
        self._turn: list[float] = []
        self._strayed: list[torch.Tensor] = []
        self.falls = 0

    def add(self, speeds: torch.Tensor, turn: torch.Tensor, told: torch.Tensor) -> None:
        """Add a step of all robots: forward and lateral velocity, yaw rate, and command (N, 3)."""
        self._speed.append((speeds - told[:, :2]).norm(dim=1).mean().item())
        self._turn.append((turn - told[:, 2]).abs().mean().item())
        self._strayed.append((torch.cat((speeds, turn[:, None]), 1) - told).cpu())

    def row(self, robots: int) -> dict[str, float]:
        """Return the means, and the falls per hour and robot."""
        hours = robots * len(self._speed) * 0.02 / 3_600.0
        # Hips sway with every step: what is left over half a second is where it goes.
        means = torch.stack(self._strayed).unfold(0, _STRIDE, 1).mean(-1)
        return {
            "speed_error": statistics.mean(self._speed),
            "turn_error": statistics.mean(self._turn),
            "speed_error_of_means": means[..., :2].norm(dim=-1).mean().item(),
            "turn_error_of_means": means[..., 2].abs().mean().item(),
            "falls_per_hour": self.falls / hours,
        }


class Ours:
    """Trainer of telic."""

    name = "telic"

    def __init__(self, asked: argparse.Namespace) -> None:
        self.robot, self.words = f"unitree-{asked.robot}", WORDS[asked.robot]
        self.seconds, self.device, self.keep = asked.seconds, asked.device, asked.keep
        self.folder = Path(tempfile.mkdtemp())
        self._worlds: Any = None
        self.arguments = {
            "commands": COMMANDS,
            "variation": "full",
            "sees_velocity": True,
            "terminate_when_unhealthy": True,
            "max_episode_steps": EPISODE,
        }

    def train(self, envs: int, seed: int, looks: int) -> list[dict[str, Any]]:
        """Train for a number of seconds, and return the rate and the errors at checkpoints."""
        from telic.composer.compose import compose
        from telic.core.events import Event, TrainProgress
        from telic.envs import make
        from telic.storage.layout import RunFolder
        from telic.training.plan import plan
        from telic.training.results import EvalDone
        from telic.training.run import execute

        settings = {
            "num_envs": envs,
            "horizon": BATCH,
            "minibatch_size": envs * BATCH // 4,
            "epochs": 5,
            "learning_rate": 1e-3,
            "schedule": "adaptive",
            "target_kl": 0.01,
            "entropy_coef": 0.005,
            "value_coef": 1.0,
            "max_grad_norm": 1.0,
            "hidden": (512, 256, 128),
            "activation": "elu",
            "log_std": -1.0,
        }
        reward = compose(self.words, make(self.robot, num_envs=1).spec).reward
        batch = envs * BATCH
        guess = 3e5 if envs < 8_192 else 6e5
        steps = max(LOOKS, round(self.seconds * guess / batch)) * batch
        job = plan(
            self.robot,
            reward=reward,
            seeds=(seed,),
            steps=steps,
            env_args=self.arguments,
            device=self.device,
            settings=settings,
            evaluations=max(1, looks),
            eval_episodes=4,
        )
        heard: list[tuple[int, float]] = []
        evaluating = 0.0

        def hear(event: Event) -> None:
            nonlocal evaluating
            if isinstance(event, TrainProgress):
                heard.append((event.step, event.seconds - evaluating))
            elif isinstance(event, EvalDone):
                evaluating += event.seconds

        run = execute(job, self.folder, on_event=hear)
        steps_heard, seconds_heard = zip(*heard, strict=True)
        late = [each for each in heard if each[0] >= heard[-1][0] / 3]
        rate = (late[-1][0] - late[0][0]) / (late[-1][1] - late[0][1])
        rows = [{"steps_per_s": rate, "steps": late[-1][0], "seconds": late[-1][1]}]
        if not looks:
            return rows
        member = RunFolder(run.path).members()[0]
        for checkpoint in member.checkpoints():
            seconds = float(np.interp(checkpoint.step, steps_heard, seconds_heard))
            row = {"step": checkpoint.step, "seconds": seconds}
            rows.append({**row, **self.errors(checkpoint.path)})
        if self.keep:
            self.keep.mkdir(parents=True, exist_ok=True)
            shutil.copy(member.checkpoints()[-1].path, self.keep / f"{self.robot}-{seed}.pt")
            (self.keep / f"{self.robot}.py").write_text(reward)
        return rows

    @torch.no_grad()
    def errors(self, path: Path) -> dict[str, float]:
        """Return the errors of the policy in fresh environments."""
        from telic.core.rotations import conjugate, rotate
        from telic.envs import make
        from telic.training.policy import load_policy

        policy = load_policy(path)
        if self._worlds is None:
            options = {"num_envs": MEASURED, "device": self.device, "seed": 777}
            self._worlds = make(self.robot, **options, **policy.facts["env_args"])
        env = self._worlds
        errors, obs = Errors(), env.reset()
        for _ in range(MEASURED_STEPS):
            step = env.step(policy(obs.cpu()).to(self.device))
            info = step.info
            told = torch.stack(
                [info[f"command_{way}"] for way in ("forward", "sideways", "turn")], 1
            )
            speeds = rotate(conjugate(info["qpos"][:, 3:7]), info["qvel"][:, :3])[:, :2]
            errors.add(speeds, info["qvel"][:, 5], told)
            errors.falls += int(step.terminated.sum())
            obs = step.obs
        return errors.row(MEASURED)


class Peer:
    """mjlab's environment with its own trainer (rsl_rl)."""

    name = "mjlab"

    def __init__(self, asked: argparse.Namespace) -> None:
        self.task, self.seconds = PEER_TASK[asked.robot], asked.seconds

    def train(self, envs: int, seed: int, looks: int) -> list[dict[str, Any]]:
        """Train for a number of seconds, and return the rate and the errors at checkpoints."""
        from dataclasses import asdict

        import mjlab.tasks  # noqa: F401  registers the tasks
        import mujoco  # noqa: F401  before mjlab, which asks for EGL
        from mjlab.envs import ManagerBasedRlEnv
        from mjlab.rl import MjlabOnPolicyRunner, RslRlVecEnvWrapper
        from mjlab.tasks.registry import load_env_cfg, load_rl_cfg

        config, learning = load_env_cfg(self.task), load_rl_cfg(self.task)
        config.scene.num_envs, config.seed = envs, seed
        torch.manual_seed(seed)
        env = ManagerBasedRlEnv(cfg=config, device="cuda:0")
        wrapped = RslRlVecEnvWrapper(env, clip_actions=learning.clip_actions)
        settings = {**asdict(learning), "seed": seed, "logger": "tensorboard"}
        settings["upload_model"] = False
        runner = MjlabOnPolicyRunner(wrapped, settings, None, "cuda:0")
        batch = envs * learning.num_steps_per_env
        spent, done = 0.0, 0

        def learn(count: int, **options: Any) -> float:
            torch.cuda.synchronize()
            began = time.perf_counter()
            runner.learn(count, **options)
            torch.cuda.synchronize()
            return time.perf_counter() - began

        # The first iterations warm up; they train all the same.
        spent += learn(3, init_at_random_ep_len=True)
        done += 3
        rounds = max(LOOKS, round(self.seconds / (batch / (1.1e5 if envs < 8_192 else 2.4e5))))
        rows: list[dict[str, Any]] = []
        each = rounds // max(1, looks)
        timed = 0.0
        for _ in range(max(1, looks)):
            took = learn(each)
            spent, done, timed = spent + took, done + each, timed + took
            if looks:
                rows.append(
                    {"step": done * batch, "seconds": spent, **self.errors(env, wrapped, runner)}
                )
        rate = (done - 3) * batch / timed
        rows.insert(0, {"steps_per_s": rate, "steps": done * batch, "seconds": spent})
        env.close()
        return rows

    @torch.inference_mode()  # as its own training steps the environment
    def errors(self, env: Any, wrapped: Any, runner: Any) -> dict[str, float]:
        """Return the errors of the policy in fresh episodes of the same environments."""
        policy = runner.get_inference_policy(device="cuda:0")
        robot = env.scene["robot"]
        errors = Errors()
        obs, _ = wrapped.reset()
        some = slice(0, MEASURED)
        for _ in range(MEASURED_STEPS):
            told = env.command_manager.get_command("twist")[some].clone()
            obs, _, done, extras = wrapped.step(policy(obs))
            speeds = robot.data.root_link_lin_vel_b[some, :2]
            turn = robot.data.root_link_ang_vel_b[some, 2]
            errors.add(speeds, turn, told)
            late = extras.get("time_outs", torch.zeros_like(done)).bool()
            errors.falls += int((done.bool() & ~late)[some].sum())
        return errors.row(min(MEASURED, env.num_envs))


def table() -> None:
    """Print the results and the ratios."""
    rows = [json.loads(line) for line in (RESULTS / "velocity.jsonl").read_text().splitlines()]
    keys = sorted({(row["robot"], row["envs"]) for row in rows})
    compared: list[dict[str, Any]] = []
    for robot, envs in keys:
        own = [row for row in rows if (row["robot"], row["envs"]) == (robot, envs)]
        rates = {
            who: statistics.median(found)
            for who in ("telic", "mjlab")
            if (found := [r["steps_per_s"] for r in own if r["who"] == who and "steps_per_s" in r])
        }
        ratio = rates["telic"] / rates["mjlab"] if len(rates) == 2 else math.nan
        said = ", ".join(f"{who} {rate:,.0f} steps/s" for who, rate in rates.items())
        print(f"{robot}, {envs:,} environments: {said}; {ratio:.2f} times")
        known = None if math.isnan(ratio) else ratio
        compared.append({"robot": robot, "envs": envs, "ratio": known, **rates})
        for row in own:
            if "speed_error" in row:
                print(
                    f"  {row['who']:<6} seed {row['seed']} after {row['seconds']:5.1f} s, "
                    f"{row['step'] / 1e6:5.1f} M steps: {row['speed_error']:.3f} m/s, "
                    f"{row['turn_error']:.3f} rad/s, {row['falls_per_hour']:.1f} falls an hour"
                )
    publish("velocity-rate", compared, gpu())
    publish("velocity-error", [row for row in rows if "speed_error" in row], gpu())


if __name__ == "__main__":
    main()
