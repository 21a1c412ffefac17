"""Compare the motion trackers of telic and mjlab for the Unitree G1 on one GPU.

    python benchmarks/tracking.py clip                          the motion, for both sides
    python benchmarks/tracking.py rate --envs 4096,16384        steps/s of telic
    python benchmarks/tracking.py single --envs 4096 --seconds 300
    python benchmarks/tracking.py multi --clips 192 --steps 300000000 --runs DIR
    python benchmarks/tracking.py play --tracker FILE           play a tracker that was kept
    PYTHONPATH=MJLAB python benchmarks/tracking.py peer-rate --envs 4096,16384
    PYTHONPATH=MJLAB python benchmarks/tracking.py peer-single --envs 4096 --seconds 600
    python benchmarks/tracking.py table                         print the results and the ratios

Every result is a line of JSON, on the terminal and in results/tracking.jsonl (TELIC_BENCH_OUT names
another folder). MJLAB is a folder with mjlab 1.6.0 and its dependencies, which reads the clip that
`clip` has written. To test everything on a CPU: --device cpu --envs 8 --starts 8 --seconds 20.

The motion is 6 s of walking at 0.8 m/s while the right hand waves, generated for the robot. Both
train PPO with layers of 512, 256, 128 on batches of 24 steps, 5 epochs in 4 minibatches, from
initial states anywhere in the clip with the same noise, each with its own reward and terminations.
Neither has pushes or domain randomization. --disturbed enables those of mjlab, and for telic the
level "light" with pushes every 2 s.

Success (`single`): 1,024 fresh episodes start evenly spread over the first half of the clip, with
the noise of training, and are played to its end with deterministic actions on the nominal robot,
without sensor noise. An episode fails if the pelvis is ever 0.25 m too high or low or turned by 1
rad, an ankle or a wrist is 0.25 m too high or low, or the 14 tracked bodies are 0.5 m from their
targets on average, so standing still fails. `seconds` is the time of training alone, from the end
of the first batch (without compilation and measurement), and of this call alone if it resumes a run
(--runs). `wall_s` is the time since the program started. `multi` reports the tracking of all
held-out clips by each encoder, from their first frames, and the agreement of the encoders' codes.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from published import gpu, publish
from tracking_peer import peer_rates, peer_single
from tracking_rule import CLIP, ENDS, ENOUGH, LIBRARY, RESULTS, Judge, Teller, spread_starts

ROBOT, FAMILY, BATCH = "unitree-g1", "walk_wave", 24
PARAMETERS = {"seconds": 6.0, "speed": 0.8, "hertz": 1.0, "wide": 0.15, "left": 0.0}


def main() -> None:
    """Run the part given on the command line."""
    parts = {
        "clip": lambda asked: make_library(),
        "rate": our_rates,
        "single": our_single,
        "multi": our_multi,
        "play": play_kept,
        "peer-rate": peer_rates,
        "peer-single": peer_single,
        "table": lambda asked: table(),
    }
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("part", choices=list(parts))
    parser.add_argument("--envs", default="4096", help="number of environments, e.g. 4096,16384")
    parser.add_argument(
        "--seeds", default="1", help="seeds to train one after the other, e.g. 1,2,3"
    )
    parser.add_argument("--seconds", type=float, default=300.0, help="maximum training time")
    parser.add_argument(
        "--look-every", type=float, default=10.0, help="approximate seconds between evaluations"
    )
    parser.add_argument(
        "--guess",
        type=float,
        default=250_000.0,
        help="estimated steps/s for scheduling evaluations",
    )
    parser.add_argument("--starts", type=int, default=1_024, help="number of fresh episodes")
    parser.add_argument("--clips", type=int, default=64, help="number of clips of `multi`")
    parser.add_argument("--preset", help="preset to use instead of the default")
    parser.add_argument("--set", action="append", default=[], help="override a setting, a.b=value")
    parser.add_argument("--keep", type=Path, help="folder for the latest tracker")
    parser.add_argument("--tracker", type=Path, help="tracker for `play`, written by --keep")
    parser.add_argument(
        "--steps", type=int, help="planned steps, by default what the seconds allow"
    )
    parser.add_argument("--runs", type=Path, help="folder of runs, which the same command resumes")
    parser.add_argument("--disturbed", action="store_true", help="enable pushes and randomization")
    parser.add_argument("--device", default="cuda")
    asked = parser.parse_args()
    asked.envs = [int(count) for count in asked.envs.split(",")]
    asked.seeds = [int(seed) for seed in asked.seeds.split(",")]
    asked.say = Teller(asked).say
    parts[asked.part](asked)


def as_mjlab(robot: Any, clip: Any) -> dict[str, Any]:
    """Return a clip in the format of mjlab and BeyondMimic: joints and all bodies at 50 fps."""
    import torch

    from telic.motions.library import MotionLibrary

    frames = MotionLibrary.open(LIBRARY).frames(0, torch.arange(clip.frames) / clip.fps)
    bodies = robot.kinematics.states(*frames)
    return {
        "fps": np.array([50]),
        "joint_pos": frames.joint_pos.numpy(),
        "joint_vel": frames.joint_vel.numpy(),
        "body_pos_w": bodies.pos.numpy(),
        "body_quat_w": bodies.quat.numpy(),
        "body_lin_vel_w": bodies.lin_vel.numpy(),
        "body_ang_vel_w": bodies.ang_vel.numpy(),
        "joint_names": np.array(robot.joint_names),
        "body_names": np.array(robot.body_names),
    }


def make_library() -> Path:
    """Write the motion as a library for telic and as a file for mjlab, and return the library."""
    if CLIP.is_file():
        return LIBRARY
    from telic.motions.generate import make_clip
    from telic.motions.library import LibraryWriter, head_for
    from telic.motions.robot import motion_robot

    robot = motion_robot(ROBOT)
    clip = make_clip(robot, FAMILY, PARAMETERS)
    RESULTS.mkdir(parents=True, exist_ok=True)
    with LibraryWriter(LIBRARY, head_for(robot, [clip])) as writer:
        writer.add(clip)
    np.savez(CLIP, **as_mjlab(robot, clip))
    print(json.dumps({"clip": str(CLIP), "frames": clip.frames, "fps": clip.fps}), flush=True)
    return LIBRARY


def settings(asked: argparse.Namespace, envs: int, *own: str) -> Any:
    """Return the configuration. Without --steps, it has as many as the seconds allow."""
    from telic.tracking.config import preset

    batch = envs * BATCH
    wanted = asked.steps or asked.seconds * asked.guess
    steps = max(4, math.ceil(wanted / batch)) * batch
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
    """Training of telic that is evaluated periodically, with the time of training alone."""

    def __init__(self, look: Callable[[int, float], bool], limit_s: float) -> None:
        """Call `look` with step and seconds. It returns whether training may stop."""
        self.look, self.limit_s = look, limit_s
        self.heard: list[tuple[int, float]] = []
        self.is_enough = False
        self._first: float | None = None
        self._looking = 0.0

    def hear(self, event: Any) -> None:
        """Process an event of the training."""
        from telic.core.events import TrainProgress
        from telic.training.results import EvalDone

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
        """Return the steps per second of the last two thirds, or None if it was too short."""
        late = [each for each in self.heard if each[0] >= self.heard[-1][0] / 3]
        seconds = late[-1][1] - late[0][1]
        return (late[-1][0] - late[0][0]) / seconds if seconds > 0 else None


def train(asked: argparse.Namespace, config: Any, seed: int, runs: Path, watch: Watch) -> None:
    """Train one tracker of telic."""
    from telic.tracking.train import TrackingOptions, train_tracker

    planned_s = asked.steps / asked.guess if asked.steps else asked.seconds
    options = TrackingOptions(
        seeds=(seed,),
        fresh=asked.runs is None,
        device=asked.device,
        evaluations=max(1, round(planned_s / asked.look_every)),
        on_event=watch.hear,
        should_stop=lambda: watch.is_enough,
        save_every_s=1e9 if asked.runs is None else 240.0,
    )
    train_tracker(config, runs, options)


def our_rates(asked: argparse.Namespace) -> None:
    """Measure the steps per second of telic."""
    library = make_library()
    for envs in asked.envs:
        config = settings(asked, envs, f"motions.library={library}")
        watch = Watch(lambda step, seconds: False, min(asked.seconds, 20.0))
        train(asked, config, 1, Path(tempfile.mkdtemp()), watch)
        step, seconds = watch.heard[-1]
        asked.say(envs=envs, steps_per_s=watch.rate(), steps=step, seconds=seconds)


class OurStarts:
    """Fresh episodes of telic's environment."""

    def __init__(
        self, config: Any, library: Any, count: int, device: str, begins_off: bool = True
    ) -> None:
        from telic.tracking.task import ClipChoice, make_tracking, tracking_task

        self.env = make_tracking(config, library, [0], num_envs=count, device=device, playing=True)
        self.task = task = tracking_task(self.env)
        task.begins_off = begins_off
        self.frames = int(task.table.frames[0])
        starts = spread_starts(self.frames, count).to(self.env.device)
        zero = torch.zeros_like(starts)
        task.assignment = ClipChoice(zero, starts, zero)
        self.steps = self.frames - 1 - starts
        self.ends = [task.parts.body_names.index(name) for name in ENDS]

    @torch.no_grad()
    def play(self, path: Path) -> dict[str, Any]:
        """Return the results of a tracker."""
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
    """Train on one clip until it is tracked, and print the curve."""
    from telic.motions.library import MotionLibrary

    library = make_library()
    for envs in asked.envs:
        config = settings(asked, envs, f"motions.library={library}")
        starts = OurStarts(config, MotionLibrary.open(library), asked.starts, asked.device)
        for seed in asked.seeds:
            told = {"envs": envs, "seed": seed}
            follow(asked, config, told, lambda path, starts=starts: starts.play(path))


def our_multi(asked: argparse.Namespace) -> None:
    """Train on many clips with tokens, and print the curve of each encoder and the agreement."""
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
    """Train one tracker, and print the results of `measure` periodically."""
    runs = asked.runs or Path(tempfile.mkdtemp())

    def look(step: int, seconds: float) -> bool:
        (path,) = runs.rglob(f"tracker_{step}.pt")
        found = measure(path)
        asked.say(**told, step=step, seconds=seconds, **found)
        if asked.keep:
            asked.keep.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, asked.keep / f"{asked.part}-{told['envs']}-{told['seed']}.pt")
        return asked.part == "single" and found["success"] >= ENOUGH

    watch = Watch(look, asked.seconds)
    train(asked, config, told["seed"], runs, watch)
    asked.say(**told, steps_per_s=watch.rate(), ended=True)


def reported(path: Path) -> dict[str, Any]:
    """Return the results of a tracker measured during training."""
    from telic.tracking.reports import TrackingReport

    step = path.stem.partition("_")[2]
    file = path.parent.parent / "evaluations" / f"report_{step}.json"
    return summary(TrackingReport.model_validate_json(file.read_bytes()))


def summary(report: Any) -> dict[str, Any]:
    """Return the values of a report by encoder."""
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


def play_kept(asked: argparse.Namespace) -> None:
    """Play a tracker that was kept, on episodes of the single clip or on held-out clips."""
    from telic.motions.library import MotionLibrary
    from telic.tracking.evaluate import ClipPlayer
    from telic.tracking.task import open_motions
    from telic.tracking.tracker import load_tracker

    tracker = load_tracker(asked.tracker)
    told = {"step": tracker.facts.step, "seed": tracker.facts.seed}
    if tracker.config.motions.library is not None:
        library = MotionLibrary.open(make_library())
        for begins_off in (True, False):
            starts = OurStarts(tracker.config, library, asked.starts, asked.device, begins_off)
            asked.say(**told, noise=begins_off, **starts.play(asked.tracker))
        return
    library = open_motions(tracker.config)
    for split in ("train", "validation", "test"):
        if clips := library.chosen(split):
            report, _ = ClipPlayer(tracker.config, library, clips, device=asked.device).measure(
                tracker, split
            )
            lost = sorted({each.clip for each in report.clips if not each.success})
            asked.say(**told, clips=len(clips), lost=lost, **summary(report))


_PER_ENCODER = ("success", "in_place", "mpjpe_l_mm")


def table() -> None:
    """Print the results and the ratios."""
    rows = [json.loads(line) for line in (RESULTS / "tracking.jsonl").read_text().splitlines()]
    compared: list[dict[str, Any]] = []
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
        compared.append({"envs": envs, "ratio": None if math.isnan(ratio) else ratio, **rates})
    for row in rows:
        if "success" in row:
            print(
                f"{row['who']:<6} {row['part']:<6} {row['envs']:,} environments, seed "
                f"{row['seed']}, after {row['seconds']:6.1f} s, {row['step'] / 1e6:6.1f} M steps: "
                f"{100 * row['success']:.1f} %"
            )
    publish("tracking-rate", compared, gpu())
    measured = [row for row in rows if "success" in row]
    publish("tracking-single", [row for row in measured if row["part"] == "single"], gpu())
    multi = [
        {**row, **{key: [each[key] for each in row["encoders"].values()] for key in _PER_ENCODER}}
        for row in measured
        if row["part"] == "multi"
    ]
    publish("tracking-multi", multi, gpu())


if __name__ == "__main__":
    main()
