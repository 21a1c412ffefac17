"""Unitree G1 follows motions on one GPU: telic's trackers and mjlab's, side by side.

    python benchmarks/tracking.py clip                          the motion, for both sides
    python benchmarks/tracking.py rate --envs 4096,16384        steps/s of telic
    python benchmarks/tracking.py single --envs 4096 --seconds 300
    python benchmarks/tracking.py multi --clips 64 --seconds 480
    PYTHONPATH=MJLAB python benchmarks/tracking.py peer-rate --envs 4096,16384
    PYTHONPATH=MJLAB python benchmarks/tracking.py peer-single --envs 4096 --seconds 600
    python benchmarks/tracking.py table                         what was measured, and the ratios

Every result is a line of JSON, on the terminal and in results/tracking.jsonl (TELIC_BENCH_OUT names
another folder). MJLAB is a folder with mjlab 1.6.0 and what it needs; it reads the clip that `clip`
has written. Try everything on a processor: --device cpu --envs 8 --starts 8 --seconds 20.

The motion: 6 s of walking at 0.8 m/s while the right hand waves, generated for the robot. Both
train PPO with layers of 512, 256, 128 on batches of 24 steps, 5 passes in 4 minibatches, from
starts anywhere in the clip that are off by the same noise, each with its own reward and failures.
Neither is pushed nor varied; --disturbed gives mjlab its own pushes and variation, ours "light"
variation and pushes every 2 s.

Success (`single`): 1,024 fresh starts, evenly spread over the first half of the clip and off by the
noise of training, are played to its end with the most likely actions on the nominal robot, without
noise of sensors. One has failed when the pelvis is ever 0.25 m too high or low or turned by 1 rad,
an ankle or a wrist is 0.25 m too high or low, or the 14 tracked bodies are 0.5 m from where they
belong, on average: who stands still does not pass. `seconds` are of training alone, counted from
the end of the first batch (compiling and measuring left out); `wall_s` is everything since the
program began. `multi` tells how all held-out clips are followed by each encoder, from their first
frames, and how often encoders give equal codes.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.machinery
import json
import math
import os
import statistics
import sys
import tempfile
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import MagicMock

import numpy as np
import torch

BEGAN = time.perf_counter()
RESULTS = Path(os.environ.get("TELIC_BENCH_OUT", Path(__file__).parent / "results"))
LIBRARY, CLIP = RESULTS / "tracking-motions", RESULTS / "tracking-clip.npz"
ROBOT, FAMILY, BATCH, ENOUGH = "unitree-g1", "walk_wave", 24, 0.99
PARAMETERS = {"seconds": 6.0, "speed": 0.8, "hertz": 1.0, "wide": 0.15, "left": 0.0}
HEIGHT_M, TURN_RAD, PLACE_M = 0.25, 1.0, 0.5
ENDS = [f"{side}_{part}_link" for part in ("ankle_roll", "wrist_yaw") for side in ("left", "right")]
PEER_TASK = "Mjlab-Tracking-Flat-Unitree-G1"
ONLY_FOR_LOOKING = ("wandb", "viser", "mjviser", "mediapy", "torchrunx")


def main() -> None:
    """Do what the command line says."""
    parts = {
        "clip": lambda asked: make_library(),
        "rate": our_rates,
        "single": our_single,
        "multi": our_multi,
        "peer-rate": peer_rates,
        "peer-single": peer_single,
        "table": lambda asked: table(),
    }
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("part", choices=list(parts))
    parser.add_argument("--envs", default="4096", help="environments; several: 4096,16384")
    parser.add_argument("--seeds", default="1", help="one after the other: 1,2,3")
    parser.add_argument("--seconds", type=float, default=300.0, help="of training, at most")
    parser.add_argument("--look-every", type=float, default=10.0, help="seconds, about")
    parser.add_argument("--guess", type=float, default=250_000.0, help="steps/s; sets when to look")
    parser.add_argument("--starts", type=int, default=1_024, help="fresh starts that are played")
    parser.add_argument("--clips", type=int, default=64, help="of `multi`")
    parser.add_argument("--preset", help="another preset than that of the part")
    parser.add_argument("--set", action="append", default=[], help="another setting: a.b=value")
    parser.add_argument("--disturbed", action="store_true", help="with pushes and variation")
    parser.add_argument("--device", default="cuda")
    asked = parser.parse_args()
    asked.envs = [int(count) for count in asked.envs.split(",")]
    asked.seeds = [int(seed) for seed in asked.seeds.split(",")]
    asked.say = Teller(asked).say
    parts[asked.part](asked)


class Teller:
    """Prints results and keeps them."""

    def __init__(self, asked: argparse.Namespace) -> None:
        who = "mjlab" if asked.part.startswith("peer") else "telic"
        self.about = {"who": who, "part": asked.part.removeprefix("peer-")}
        cuda = asked.device.startswith("cuda") and torch.cuda.is_available()
        self.about["device"] = torch.cuda.get_device_name() if cuda else "cpu"
        self.about["disturbed"] = asked.disturbed
        self.cuda = cuda

    def say(self, **row: Any) -> None:
        """Add a result."""
        if self.cuda:
            row["memory_gib"] = torch.cuda.max_memory_reserved() / 2**30
        line = json.dumps({**self.about, **row, "wall_s": time.perf_counter() - BEGAN})
        print(line, flush=True)
        RESULTS.mkdir(parents=True, exist_ok=True)
        with (RESULTS / "tracking.jsonl").open("a") as out:
            out.write(line + "\n")


class Judge:
    """Says of played starts which have failed by the rule at the top of this file."""

    def __init__(self, frames: torch.Tensor, ends: list[int], device: Any) -> None:
        """`frames` (N,) are how many steps each start plays."""
        self.left, self.ends = frames.to(device), ends
        self.failed = torch.zeros_like(self.left, dtype=torch.bool)
        self.off_m = torch.zeros(len(frames), device=device)
        self.played = torch.zeros_like(self.off_m)

    def see(self, robot: torch.Tensor, target: torch.Tensor, turned: torch.Tensor) -> None:
        """Take in a step: bodies (N, B, 3) with the pelvis first, and how far that is turned."""
        live = (self.left > 0) & ~self.failed
        high = (robot - target)[..., 2].abs()
        apart = (robot - target).norm(dim=-1).mean(-1)
        # The error of the motion itself: bodies as seen from the pelvis.
        local = (robot - robot[:, :1] - target + target[:, :1]).norm(dim=-1).mean(-1)
        bad = (high[:, 0] > HEIGHT_M) | (high[:, self.ends].amax(1) > HEIGHT_M)
        bad |= (turned > TURN_RAD) | (apart > PLACE_M)
        self.off_m += torch.where(live & ~bad, local, 0.0)
        self.played += (live & ~bad).float()
        self.failed |= live & bad
        self.left -= 1

    def row(self) -> dict[str, float]:
        """Return the share of successes, and the mean error of bodies while followed."""
        off = (self.off_m.sum() / self.played.sum().clamp_min(1.0)).item()
        return {"success": 1.0 - self.failed.float().mean().item(), "mpjpe_l_mm": 1_000.0 * off}


def spread_starts(frames: int, count: int) -> torch.Tensor:
    """Return the frames that fresh starts begin at."""
    return torch.linspace(0, frames // 2, count).long()


# ---- telic


def make_library() -> Path:
    """Write the motion, as a library for us and as a file for mjlab; return the library."""
    if CLIP.is_file():
        return LIBRARY
    from telic.motions.beyondmimic import beyondmimic_arrays
    from telic.motions.generate import make_clip
    from telic.motions.robot import motion_robot
    from telic.motions.shelf import LibraryWriter, head_for

    robot = motion_robot(ROBOT)
    clip = make_clip(robot, FAMILY, PARAMETERS).clip
    RESULTS.mkdir(parents=True, exist_ok=True)
    with LibraryWriter(LIBRARY, head_for(robot, [clip])) as writer:
        writer.add(clip)
    np.savez(CLIP, **beyondmimic_arrays(robot, clip))
    print(json.dumps({"clip": str(CLIP), "frames": clip.frames, "fps": clip.fps}), flush=True)
    return LIBRARY


def settings(asked: argparse.Namespace, envs: int, *own: str) -> Any:
    """Return the configuration: so many steps as fit into the seconds at the guessed rate."""
    from telic.tracking.presets import preset

    batch = envs * BATCH
    steps = max(4, math.ceil(asked.seconds * asked.guess / batch)) * batch
    changes = [
        f"trainer.steps={steps}",
        f"trainer.ppo.num_envs={envs}",
        f"trainer.ppo.horizon={BATCH}",
        f"trainer.ppo.minibatch_size={max(1, batch // 4)}",
        *own,
    ]
    if asked.disturbed:
        changes += ['events.variation="light"', "events.push_velocity=[0.5,0.2]"]
        changes += ["events.push_every_s=2"]
    else:
        changes += ['events.variation="none"', "events.push_velocity=[0,0]"]
    name = asked.preset or ("quarter" if asked.part == "multi" else "single")
    return preset(name, [*changes, *asked.set])


class Watch:
    """A training of ours that is looked at from time to time; counts seconds of training alone."""

    def __init__(self, look: Callable[[int, float], bool], limit_s: float) -> None:
        """`look` is given step and seconds, and says whether it is enough."""
        self.look, self.limit_s = look, limit_s
        self.heard: list[tuple[int, float]] = []
        self.is_enough = False
        self._first: float | None = None
        self._looking = 0.0

    def hear(self, event: Any) -> None:
        """Take in an event of the training."""
        from telic.core.events import EvalDone, TrainProgress

        now = time.perf_counter()
        if isinstance(event, TrainProgress):
            self._first = self._first or now
            self.heard.append((event.step, now - self._first - self._looking))
            self.is_enough |= self.heard[-1][1] > self.limit_s
        elif isinstance(event, EvalDone):
            self._looking += event.seconds
            spent = now - (self._first or now) - self._looking
            self.is_enough |= self.look(event.step, max(0.0, spent))
            self._looking += time.perf_counter() - now

    def rate(self) -> float | None:
        """Return the steps per second of the last two thirds; None: it was too short."""
        late = [each for each in self.heard if each[0] >= self.heard[-1][0] / 3]
        seconds = late[-1][1] - late[0][1]
        return (late[-1][0] - late[0][0]) / seconds if seconds > 0 else None


def train(asked: argparse.Namespace, config: Any, seed: int, runs: Path, watch: Watch) -> None:
    """Train one tracker of ours."""
    from telic.tracking.train import TrackingOptions, train_tracker

    options = TrackingOptions(
        seeds=(seed,),
        fresh=True,
        device=asked.device,
        evaluations=max(1, round(asked.seconds / asked.look_every)),
        on_event=watch.hear,
        should_stop=lambda: watch.is_enough,
        save_every_s=1e9,
    )
    train_tracker(config, runs, options)


def our_rates(asked: argparse.Namespace) -> None:
    """Measure steps per second of ours."""
    library = make_library()
    for envs in asked.envs:
        config = settings(asked, envs, f"motions.library={library}")
        watch = Watch(lambda step, seconds: False, min(asked.seconds, 20.0))
        train(asked, config, 1, Path(tempfile.mkdtemp()), watch)
        step, seconds = watch.heard[-1]
        asked.say(envs=envs, steps_per_s=watch.rate(), steps=step, seconds=seconds)


class OurStarts:
    """Fresh starts of our environment."""

    def __init__(self, config: Any, library: Any, count: int, device: str) -> None:
        from telic.tracking.environment import make_tracking, tracking_task
        from telic.tracking.task import ClipChoice

        self.env = make_tracking(config, library, [0], num_envs=count, device=device, playing=True)
        self.task = task = tracking_task(self.env)
        task.begins_off = True
        self.frames = int(task.table.frames[0])
        starts = spread_starts(self.frames, count).to(self.env.device)
        zero = torch.zeros_like(starts)
        task.assignment = ClipChoice(zero, starts, zero)
        self.steps = self.frames - 1 - starts
        self.ends = [task.parts.body_names.index(name) for name in ENDS]

    @torch.no_grad()
    def play(self, path: Path) -> dict[str, float]:
        """Return how a tracker does."""
        from telic.tracking.tracker import load_tracker

        tracker = load_tracker(path).to(self.env.device)
        judge = Judge(self.steps.clone(), self.ends, self.env.device)
        rows = self.env.reset(777)
        for _ in range(int(self.steps.max())):
            step = self.env.step(tracker.act(rows))
            info, rows = step.info, step.obs
            judge.see(info["robot_places"], info["target_places"], info["turn_error"])
        return judge.row()


def our_single(asked: argparse.Namespace) -> None:
    """Train on one clip until it is followed; tell the curve."""
    from telic.motions.library import MotionLibrary

    library = make_library()
    for envs in asked.envs:
        config = settings(asked, envs, f"motions.library={library}")
        starts = OurStarts(config, MotionLibrary.open(library), asked.starts, asked.device)
        for seed in asked.seeds:
            told = {"envs": envs, "seed": seed}
            follow(asked, config, told, lambda path, starts=starts: starts.play(path))


def our_multi(asked: argparse.Namespace) -> None:
    """Train on many clips with tokens; tell the curve of each encoder, and how tokens agree."""
    for envs in asked.envs:
        config = settings(asked, envs, f"motions.generated={asked.clips}", "motions.held_share=0.2")
        for seed in asked.seeds:
            follow(asked, config, {"envs": envs, "seed": seed}, reported)


def follow(
    asked: argparse.Namespace,
    config: Any,
    told: dict[str, int],
    measure: Callable[[Path], dict[str, Any]],
) -> None:
    """Train one tracker, and tell what `measure` says of it from time to time."""
    runs = Path(tempfile.mkdtemp())

    def look(step: int, seconds: float) -> bool:
        (path,) = runs.rglob(f"tracker_{step}.pt")
        found = measure(path)
        asked.say(**told, step=step, seconds=seconds, **found)
        return asked.part == "single" and found["success"] >= ENOUGH

    watch = Watch(look, asked.seconds)
    train(asked, config, told["seed"], runs, watch)
    asked.say(**told, steps_per_s=watch.rate(), ended=True)


def reported(path: Path) -> dict[str, Any]:
    """Return what was measured of a tracker during training."""
    from telic.tracking.reports import TrackingReport

    step = path.stem.partition("_")[2]
    file = path.parent.parent / "evaluations" / f"report_{step}.json"
    report = TrackingReport.model_validate_json(file.read_bytes())
    return {
        "success": report.success_rate,
        "split": report.split,
        "encoders": {
            each.encoder: {
                "success": each.success_rate,
                "in_place": each.global_success_rate,
                "mpjpe_l_mm": each.mpjpe_l_mm,
            }
            for each in report.encoders
        },
        "agreement": {
            f"{each.one}-{each.other}": {"equal": each.equal_share, "chance": each.chance}
            for each in report.agreement
        },
    }


# ---- mjlab


class StandIn(types.ModuleType):
    """A package that is only for looking, and is not there."""

    __path__: ClassVar[list[str]] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {}) if name[0].isupper() else MagicMock()


class StandIns:
    """Finds stand-ins for packages that only show things."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Return a stand-in, or None."""
        if name.split(".")[0] in ONLY_FOR_LOOKING:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: Any) -> Any:
        """Return the module."""
        return StandIn(spec.name)

    def exec_module(self, module: Any) -> None:
        """Nothing is in it."""


class Peer:
    """mjlab's tracking of the clip with its own trainer (rsl_rl)."""

    def __init__(self, asked: argparse.Namespace, envs: int, seed: int) -> None:
        if not CLIP.is_file():
            raise SystemExit(f"{CLIP} is missing. Make it: python {sys.argv[0]} clip")
        sys.meta_path.append(StandIns())
        import mujoco  # noqa: F401, I001  before mjlab, which asks for EGL
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
        self.starts: Any = None
        self.done, self.seconds = 0, 0.0

    def made(self, config: Any) -> Any:
        """Return an environment that follows the clip, in the robot's own order of parts."""
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
        """Train; return the seconds it took."""
        began = time.perf_counter()
        with contextlib.redirect_stdout(sys.stderr):
            self.runner.learn(iterations, init_at_random_ep_len=self.done == 0)
        if self.device != "cpu":
            torch.cuda.synchronize()
        self.done += iterations
        return time.perf_counter() - began

    def prepare_starts(self) -> None:
        """Make the environment of fresh starts: nominal, no noise but that of starts."""
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
        self.starts = (self.wrap(env), command, begin)

    @torch.inference_mode()  # as its own training steps the environment
    def play(self) -> dict[str, float]:
        """Return how the policy does from fresh starts."""
        from mjlab.utils.lab_api.math import quat_error_magnitude

        if self.starts is None:
            self.prepare_starts()
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
    """Measure steps per second of mjlab."""
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
    """Train mjlab's tracker on the clip until it is followed; tell the curve."""
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


# ---- both


def table() -> None:
    """Print what was measured, and the ratios."""
    rows = [json.loads(line) for line in (RESULTS / "tracking.jsonl").read_text().splitlines()]
    for envs in sorted({row["envs"] for row in rows if row["part"] == "rate"}):
        rates = {
            who: statistics.median(found)
            for who in ("telic", "mjlab")
            if (
                found := [
                    row["steps_per_s"]
                    for row in rows
                    if (row["who"], row["part"], row["envs"]) == (who, "rate", envs)
                ]
            )
        }
        ratio = rates["telic"] / rates["mjlab"] if len(rates) == 2 else math.nan
        said = ", ".join(f"{who} {rate:,.0f} steps/s" for who, rate in rates.items())
        print(f"{envs:,} environments: {said}; {ratio:.2f} times")
    for row in rows:
        if "success" in row:
            print(
                f"{row['who']:<6} {row['part']:<6} {row['envs']:,} environments, seed "
                f"{row['seed']}, after {row['seconds']:6.1f} s, {row['step'] / 1e6:6.1f} M steps: "
                f"{100 * row['success']:.1f} %"
            )


if __name__ == "__main__":
    main()
