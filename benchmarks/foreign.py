"""Compare telic and rsl_rl on a task of an external simulator (mjlab's Go1).

    python benchmarks/foreign.py --python MJLAB_ENV/bin/python --device cuda
    python benchmarks/foreign.py --site FOLDER_OF_ITS_PACKAGES --device cuda

Both have the same task, environments, steps per batch, network sizes, epochs, minibatches and
learning rates. mjlab's own trainer runs in mjlab's process. telic's trainer runs here and accesses
mjlab in a separate process through shared memory. Both are started at once, so that they compile in
parallel, and then train one after the other. The rate is that of whole training iterations after
three warm-up iterations. The reward is the mean per step of the last iterations, with exploration
noise, under the task's own reward. The last line is the result as JSON.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from published import gpu, publish

TASK = "Mjlab-Velocity-Flat-Unitree-Go1"
WARM, RAW_STEPS = 3, 40
HERE = Path(__file__).parent
BEGAN = time.perf_counter()


def main() -> None:
    """Measure both trainers, and print the result."""
    asked = arguments()
    python = asked.python or wrapper(asked.site)
    options = [f"--{name}={getattr(asked, name)}" for name in SHARED]
    peer = subprocess.Popen(
        [python, str(HERE / "foreign_peer.py"), *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    )
    try:
        ours = Ours(asked, python)
        say(f"ours is ready: {ours.copied}")
        heard(peer, "ready")
        say("mjlab's own trainer is ready; it trains")
        assert peer.stdin is not None
        peer.stdin.write("go\n")
        theirs = heard(peer, "result")
        peer.wait()  # ours is alone from here on
        say(f"mjlab with rsl_rl: {theirs['steps_per_s']:,.0f} steps/s")
        mine = ours.train()
        say(f"mjlab with telic: {mine['steps_per_s']:,.0f} steps/s")
    finally:
        peer.kill()
    result = {
        "task": asked.task,
        "envs": asked.envs,
        "batch": asked.batch,
        "device": device_name(asked.device),
        "telic": mine,
        "rsl_rl": theirs,
        "ratio": mine["steps_per_s"] / theirs["steps_per_s"],
        "total_s": time.perf_counter() - BEGAN,
    }
    print(json.dumps(result), flush=True)
    rows = [
        {
            "measure": words,
            "telic": mine[key],
            "rsl_rl": theirs[key],
            "ratio": mine[key] / theirs[key],
        }
        for words, key in (
            ("training steps/s", "steps_per_s"),
            ("environment steps/s", "raw_steps_per_s"),
        )
    ]
    publish("foreign", rows, gpu() if asked.device.startswith("cuda") else None)


SHARED = ("task", "envs", "batch", "seconds", "device", "seed")


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--python", help="the Python of mjlab's own environment")
    where.add_argument("--site", help="folder with mjlab's unpacked packages")
    parser.add_argument("--task", default=TASK)
    parser.add_argument("--envs", type=int, default=4_096)
    parser.add_argument("--batch", type=int, default=24, help="number of steps per environment")
    parser.add_argument("--seconds", type=float, default=25.0, help="training time of each trainer")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--set", action="append", default=[], help="setting of telic's trainer, name=value"
    )
    return parser.parse_args()


def wrapper(site: str) -> str:
    """Return a program that runs this Python with the packages of a folder first."""
    path = Path(tempfile.mkdtemp(), "python")
    folders = os.pathsep.join((str((HERE / "stand_ins").resolve()), str(Path(site).resolve())))
    path.write_text(f'#!/bin/sh\nPYTHONPATH={folders} exec {sys.executable} "$@"\n')
    path.chmod(0o755)
    return str(path)


def say(words: str) -> None:
    """Print a line of progress."""
    print(f"{time.perf_counter() - BEGAN:6.1f} s  {words}", flush=True)


def heard(peer: subprocess.Popen[str], wanted: str) -> dict[str, Any]:
    """Return the peer's next message of a kind, and print all other output."""
    assert peer.stdout is not None
    for line in peer.stdout:
        if line.startswith(f"PEER {wanted} "):
            return json.loads(line.removeprefix(f"PEER {wanted} "))
    raise SystemExit("mjlab's trainer ended without a result (see above).")


def device_name(device: str) -> str:
    """Return the name of the GPU, or of the device."""
    import torch

    return torch.cuda.get_device_name(0) if device.startswith("cuda") else device


class Ours:
    """Trainer of telic on mjlab's environments."""

    def __init__(self, asked: argparse.Namespace, python: str) -> None:
        """Start the simulators and wait until they are ready."""
        from telic.core.text import pairs
        from telic.training import _worker as worker
        from telic.training.folder import create_run, new_run
        from telic.training.job import member_groups
        from telic.training.plan import plan
        from telic.training.run import LocalChannel, prepare_folders

        self.asked = asked
        job = plan(
            env=f"mjlab:{asked.task}",
            python=python,
            steps=10**10,
            seeds=(asked.seed,),
            device=asked.device,
            evaluations=1,
            eval_episodes=2,
            save_every_s=1e9,
            settings={
                "num_envs": asked.envs,
                "horizon": asked.batch,
                "minibatch_size": asked.envs * asked.batch // 4,
                "epochs": 5,
                "learning_rate": 1e-3,
                "schedule": "adaptive",
                "target_kl": 0.01,
                "entropy_coef": 0.01,
                "value_coef": 1.0,
                "max_grad_norm": 1.0,
                "gamma": 0.99,
                "gae_lambda": 0.95,
                "hidden": (512, 256, 128),
                "activation": "elu",
                "log_std": math.log(1.0 / 3.0),  # of [-3, 3]: theirs begins with 1 as well
                "critic_sees": ("critic",),
                "overlap": False,
                **pairs(asked.set, "--set"),
            },
        )
        folder = new_run(Path(tempfile.mkdtemp()), None)
        create_run(job, folder, confined=False)
        cell = member_groups(job, folder)[0]
        prepare_folders(cell, folder)
        self.marks: list[tuple[float, float, float]] = []
        """time, total reward and seconds in the simulator after every iteration"""
        self.channel = LocalChannel(lambda message: None, self.should_stop)
        self.payload = {
            "job": job.model_dump(mode="json"),
            "run": str(folder.path.absolute()),
            "state": str(cell.state.absolute()),
            "imports": [],
        }
        self.worker = worker
        self.prepared = worker.prepare(self.payload, self.channel)
        assert self.prepared.envs is not None
        self.env: Any = self.prepared.envs.training
        self.copied = self.env.spec.notes[0]
        self.raw = self._raw()
        self._rewards: Any = 0.0
        self._stepping = 0.0
        self._step = self.env.step
        self.env.step = self.step

    def _raw(self) -> float:
        """Return the steps/s of the environments alone, without actions."""
        import torch

        self.env.reset()
        action = torch.zeros(self.env.num_envs, self.env.act_dim, device=self.env.device)
        began = time.perf_counter()
        for _ in range(RAW_STEPS):
            self.env.step(action)
        synchronize(self.asked.device)
        return RAW_STEPS * self.env.num_envs / (time.perf_counter() - began)

    def step(self, action: Any) -> Any:
        """Step the environments, and accumulate rewards and time."""
        began = time.perf_counter()
        step = self._step(action)
        self._stepping += time.perf_counter() - began
        self._rewards = self._rewards + step.reward.mean()
        return step

    def should_stop(self) -> bool:
        """Record the progress after an iteration, and return whether it is sufficient."""
        synchronize(self.asked.device)
        self.marks.append((time.perf_counter(), float(self._rewards), self._stepping))
        return len(self.marks) > WARM and self._trained() >= self.asked.seconds

    def _trained(self) -> float:
        return self.marks[-1][0] - self.marks[WARM - 1][0]

    def train(self) -> dict[str, Any]:
        """Train for a number of seconds."""
        began = time.perf_counter()
        self.worker.run(self.prepared, self.payload, self.channel)
        say(f"trained, saved and closed after {time.perf_counter() - began:.0f} s")
        iterations, seconds = len(self.marks) - WARM, self._trained()
        return {
            "steps_per_s": iterations * self.asked.batch * self.asked.envs / seconds,
            "raw_steps_per_s": self.raw,
            "in_simulator": (self.marks[-1][2] - self.marks[WARM - 1][2]) / seconds,
            "tensors": self.copied,
            "curve": curve(self.marks, self.asked.batch),
        }


def synchronize(device: str) -> None:
    """Wait for the GPU."""
    import torch

    if device.startswith("cuda"):
        torch.cuda.synchronize()


def curve(
    marks: Sequence[tuple[float, ...]], batch: int, points: int = 10
) -> list[dict[str, float]]:
    """Return the mean reward per step over several intervals of training."""
    rows: list[dict[str, float]] = []
    last = marks[WARM - 1]
    for part in range(1, points + 1):
        place = WARM - 1 + round((len(marks) - WARM) * part / points)
        now = marks[place]
        steps = (place - marks.index(last)) * batch
        if steps:
            seconds = now[0] - marks[WARM - 1][0]
            rows.append({"seconds": seconds, "reward": (now[1] - last[1]) / steps})
        last = now
    return rows


if __name__ == "__main__":
    main()
