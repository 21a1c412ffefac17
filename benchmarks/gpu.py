"""Measure speed and learning on one GPU in one run.

    python benchmarks/gpu.py                 everything, about 12 minutes
    python benchmarks/gpu.py raw one         run only some parts: raw, one, many, minute, peer
    python benchmarks/gpu.py minute Ant-v5   run only some environments

raw     physics alone, 16,384 simulations
one     one HalfCheetah policy: rate, and seconds to a return of 8,000
many    48 HalfCheetah policies (16 rewards x 3 seeds): rate, and seconds to a mean of 4,700
minute  return after 60 s of training for four more environments, three seeds together
peer    rsl_rl's PPO on the same environments and network sizes (needs rsl-rl-lib)

Times are training times, without evaluations on fresh seeds. Prints tables and writes
benchmarks/results/gpu.json.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from published import gpu, publish
from rich.console import Console
from rich.table import Table

import telic
from telic.core.events import Event, LogMessage
from telic.sim._gpu import GpuSimulation
from telic.sim.simulation import load_model
from telic.storage.layout import RunFolder
from telic.storage.scalars import read_rows
from telic.training.plan import plan
from telic.training.results import EvalDone, Finding
from telic.training.run import execute

MODELS = {
    "HalfCheetah-v5": ("half_cheetah.xml", 5),
    "Ant-v5": ("ant.xml", 5),
    "Hopper-v5": ("hopper.xml", 4),
    "Walker2d-v5": ("walker2d_v5.xml", 4),
    "Humanoid-v5": ("humanoid.xml", 5),
}
WORLDS = 16_384
STEPS = 40
# Steps per member that take a little more than a minute with three members.
MINUTE = {
    "Ant-v5": 12_000_000,
    "Hopper-v5": 26_000_000,
    "Walker2d-v5": 20_000_000,
    "Humanoid-v5": 7_500_000,
}
# RL Baselines3 Zoo's published PPO scores after 1 M steps (benchmark.md, v3 environments).
PUBLISHED = {"Ant-v5": 1327, "Hopper-v5": 2410, "Walker2d-v5": 3479, "Humanoid-v5": None}
console = Console(width=140)


def main() -> None:
    """Run the parts given on the command line, or all parts."""
    parts: dict[str, Callable[[], list[dict[str, Any]]]] = {
        "raw": raw,
        "one": one,
        "many": many,
        "minute": minute,
        "peer": peer,
    }
    only = [each for each in sys.argv[1:] if each in MINUTE]
    for env in set(MINUTE) - set(only) if only else ():
        del MINUTE[env]
    wanted = [each for each in sys.argv[1:] if each not in only] or list(parts)
    unknown = set(wanted) - set(parts)
    if unknown:
        sys.exit(f"No part named {', '.join(unknown)}; known: {', '.join(parts)}")
    out = Path(__file__).parent / "results" / "gpu.json"
    out.parent.mkdir(exist_ok=True)
    results = json.loads(out.read_text()) if out.exists() else {}
    for name in wanted:
        rows = results[name] = parts[name]()
        show(f"{name}, {torch.cuda.get_device_name(0)}", rows)
        out.write_text(json.dumps(results, indent=2) + "\n")
    for name in {"minute", "peer"} & set(wanted):
        publish(f"gpu-{name}", results[name], gpu())
    if {"one", "many"} <= set(wanted):
        *alone, _wide = results["one"]
        rate = {"steps_per_second": statistics.median(row["steps_per_second"] for row in alone)}
        seconds = [row["seconds"] for row in alone]
        one_policy = {**alone[0], **rate, "policies": "one policy, three runs", "seconds": seconds}
        many_policies = {"policies": "48 policies: 16 rewards x 3 seeds", **results["many"][0]}
        publish("gpu-halfcheetah", [one_policy, many_policies], gpu())


# -------------------------------------------------------------------------------- physics


def raw() -> list[dict[str, Any]]:
    """Measure control steps per second of physics alone under random actions."""
    rows: list[dict[str, Any]] = []
    for env, (xml, skip) in MODELS.items():
        started = time.perf_counter()
        sim = GpuSimulation(load_model(xml), WORLDS)
        tumble(sim, skip)
        prepared = time.perf_counter() - started
        rates = [WORLDS * STEPS / tumble(sim, skip) for _ in range(5)]
        rows.append(
            {
                "env": env,
                "steps_per_second": statistics.median(rates),
                "buffers": f"{sim.sizes.contacts} contacts, {sim.sizes.rows} rows",
                "overflow": sum(sim.complaints().values()),
                "prepared_s": prepared,
                "gpu_gib": used_gib(),
            }
        )
        console.print(rows[-1])
        del sim
    return rows


def tumble(sim: GpuSimulation, skip: int) -> float:
    """Return the time in seconds of STEPS control steps under random actions.

    Episodes start as in training. Robots that are left alone end up on the ground, where their many
    contacts make physics slower than in any task.
    """
    qpos = torch.tensor(sim.model.qpos0, device="cuda").float().repeat(WORLDS, 1)
    qpos += 0.05 * torch.randn_like(qpos)
    everyone = torch.ones(WORLDS, dtype=torch.bool, device="cuda")
    sim.reset(everyone, qpos, torch.zeros_like(sim.field("qvel")))
    low, high = torch.from_numpy(sim.model.actuator_ctrlrange.T.copy()).cuda().float()
    ctrl = [low + (high - low) * torch.rand(WORLDS, sim.model.nu).cuda() for _ in range(8)]
    torch.cuda.synchronize()
    begun = time.perf_counter()
    for i in range(STEPS):
        sim.step(ctrl[i % 8], skip)
    torch.cuda.synchronize()
    return time.perf_counter() - begun


# -------------------------------------------------------------------------------- learning


def one(target: float = 8000.0) -> list[dict[str, Any]]:
    """Train one policy, and report the median of three seeds."""
    rows = [
        {"seed": seed, **train(target, steps=48_000_000, evaluations=24, seeds=(seed,))}
        for seed in (1, 2, 3)
    ]
    # More environments: a higher rate, and slower learning.
    wide = {"num_envs": WORLDS, "minibatch_size": 65_536}
    return [*rows, {"seed": 1, **train(None, steps=8_000_000, evaluations=1, settings=wide)}]


def many(target: float = 4700.0) -> list[dict[str, Any]]:
    """Train 48 policies (16 rewards x 3 seeds). Returns are those of the environment's reward."""
    source = (Path(__file__).parent / "speed_reward.py").read_text()
    rewards = [source.replace('"control": 0.1', f'"control": {0.05 + i / 100}') for i in range(16)]
    assert len(set(rewards)) == 16
    return [train(target, steps=2_400_000, evaluations=12, reward=rewards, seeds=(1, 2, 3))]


def minute(seconds: float = 60.0) -> list[dict[str, Any]]:
    """Measure the return after a minute from scratch, with three seeds that share the GPU."""
    rows: list[dict[str, Any]] = []
    for env, steps in MINUTE.items():
        result = train(None, env=env, steps=steps, evaluations=5, seeds=(1, 2, 3))
        within = [each for each in result["points"] if each["seconds"] <= seconds]
        last = within[-1] if within else None
        rows.append(
            {
                "env": env,
                "seconds": last["seconds"] if last else None,
                "steps_each": last["step"] if last else None,
                "median_return": statistics.median(last["returns"]) if last else None,
                "returns": [round(each) for each in last["returns"]] if last else None,
                "sb3_published_1m": PUBLISHED[env],
                "steps_per_second": result["steps_per_second"],
                "gpu_gib": result["gpu_gib"],
            }
        )
        console.print(rows[-1])
    return rows


def train(target: float | None, *, env: str = "HalfCheetah-v5", **options: Any) -> dict[str, Any]:
    """Train until the mean return reaches the target, or to the end."""
    points: list[dict[str, Any]] = []
    peak = [0.0]
    evaluating = 0.0

    def listen(event: Event) -> None:
        nonlocal evaluating
        peak[0] = max(peak[0], used_gib())
        if isinstance(event, LogMessage | Finding):
            console.print(f"  {event.message}")
        if isinstance(event, EvalDone):
            returns = [finite(each.env_return) for each in event.members.values()]
            points.append(
                {
                    "step": event.step,
                    "returns": returns,
                    "mean": statistics.fmean(returns),
                    "before": evaluating,
                }
            )
            evaluating += event.seconds

    def reached() -> bool:
        return target is not None and bool(points) and points[-1]["mean"] >= target

    with tempfile.TemporaryDirectory() as folder:
        job = plan(env, device="cuda", **options)
        run = execute(job, Path(folder), confined=False, on_event=listen, should_stop=reached)
        rows = list(read_rows(RunFolder(run.path).members()[0].scalars, "train"))
    elapsed = {row["global_step"]: row["elapsed_time"] for row in rows}
    for point in points:
        point["seconds"] = elapsed[point["step"]] - point.pop("before")
    # The first batches are spent on recording, and evaluating interrupts: the rate is of between.
    last, settings = points[-1], job.settings
    undisturbed = [row for row in rows if row["global_step"] <= points[0]["step"]]
    start, end = undisturbed[min(4, len(undisturbed) - 1)], undisturbed[-1]
    spent = end["elapsed_time"] - start["elapsed_time"]
    steps = (end["global_step"] - start["global_step"]) * len(job.members)
    result = {
        "members": len(job.members),
        "envs": f"{settings.num_envs} x {settings.horizon}",
        "steps_per_second": steps / spent if spent else None,
        "target": target,
        "seconds": last["seconds"] if reached() else None,
        "mean_return": last["mean"],
        "gpu_gib": peak[0],
    }
    console.print(result)
    console.print([(round(p["seconds"], 1), round(p["mean"])) for p in points])
    return {**result, "points": points}


# -------------------------------------------------------------------------------- peer


def peer(seconds: float = 30.0) -> list[dict[str, Any]]:
    """Compare rsl_rl and telic with the same environment, batch, networks and time."""
    from rsl_rl_peer import curve

    rows: list[dict[str, Any]] = []
    for num_envs in (4096, WORLDS):
        theirs = curve("HalfCheetah-v5", num_envs, seconds)
        settings = {
            "num_envs": num_envs,
            "horizon": 16,
            "minibatch_size": num_envs * 4,
            "hidden": (256, 256),
            "epochs": 4,
        }
        steps = int(3.0e6 * seconds * num_envs / WORLDS)
        ours = train(None, steps=steps, evaluations=5, settings=settings)
        in_time = [each for each in ours["points"] if each["seconds"] <= seconds * 1.05]
        for name, rate, points in (
            ("rsl_rl", theirs["steps_per_second"], theirs["points"]),
            ("telic", ours["steps_per_second"], in_time),
        ):
            rows.append(
                {
                    "trainer": name,
                    "envs": num_envs,
                    "steps_per_second": rate,
                    "curve": ", ".join(f"{p['seconds']:.0f} s: {p['mean']:.0f}" for p in points),
                }
            )
            console.print(rows[-1])
    return rows


def finite(number: float | None) -> float:
    """Return a measured return, or end because a policy diverged."""
    if number is None:
        sys.exit("A return is not finite.")
    return number


def used_gib() -> float:
    """Return the GPU memory in use by all processes."""
    free, total = torch.cuda.mem_get_info()
    return (total - free) / 2**30


def show(title: str, rows: list[dict[str, Any]]) -> None:
    """Print rows as a table."""
    names = [name for name in rows[0] if name != "points"]
    table = Table(title=title, title_justify="left")
    for name in names:
        table.add_column(name.replace("_", " "), justify="right", no_wrap=name == "env")
    for row in rows:
        table.add_row(*(text(row.get(name)) for name in names))
    console.print(table)


def text(value: Any) -> str:
    """Format a cell, where a missing value is a dash."""
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 1000 else f"{value:.2f}"
    return "–" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


if __name__ == "__main__":
    print(f"telic {telic.__version__}, torch {torch.__version__}")
    main()
