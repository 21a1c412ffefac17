"""Compare speed and learning on a CPU with Stable-Baselines3 in one run.

    python benchmarks/cpu.py                 everything, in at most 12 minutes
    python benchmarks/cpu.py rates return    run only some parts: rates, return, population, memory
    python benchmarks/cpu.py --long          run for half an hour, with more seeds

The most important table comes first. Parts that take longer follow, and are omitted if the time is
over. Compared values are measured in turn within minutes on the same machine, so ratios are valid
even if absolute values vary. Only --long searches for the best number of processes for
Stable-Baselines3. Prints tables and writes benchmarks/results/cpu.json.
"""

from __future__ import annotations

import json
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from published import publish
from rich.console import Console
from rich.table import Table

import telic
from telic.core.events import Event, TrainProgress
from telic.sim.cpu import CpuSimulation
from telic.sim.simulation import load_model
from telic.storage.layout import RunFolder
from telic.storage.scalars import read_rows
from telic.training.plan import plan
from telic.training.results import EvalDone
from telic.training.run import execute

MODELS = {"HalfCheetah-v5": "half_cheetah.xml", "Ant-v5": "ant.xml", "Humanoid-v5": "humanoid.xml"}
LONG = "--long"
SAME, DEFAULTS = "SB3 PPO, same settings", "SB3 PPO, default settings"


class Patience(NamedTuple):
    """Duration of measurements in seconds. The defaults of Stable-Baselines3 need the longest."""

    rounds: int
    """seconds for physics and environments, measured in turn"""
    training: float
    parallel: float
    processes: int | None
    """number of processes for Stable-Baselines3, or None to search for the best"""
    ours: float
    defaults: float
    seeds: int
    seeds_of_defaults: int
    steps_of_population: int
    rounds_of_population: int
    last_start: float
    """number of seconds after which no further part begins"""


SHORT_PATIENCE = Patience(
    rounds=3,
    training=6,
    parallel=3,
    processes=2 * (os.cpu_count() or 2),
    ours=60,
    defaults=45,
    seeds=1,
    seeds_of_defaults=1,
    steps_of_population=131_072,
    rounds_of_population=1,
    last_start=540,
)
LONG_PATIENCE = Patience(
    rounds=5,
    training=15,
    parallel=8,
    processes=None,
    ours=200,
    defaults=400,
    seeds=3,
    seeds_of_defaults=3,
    steps_of_population=524_288,
    rounds_of_population=3,
    last_start=math.inf,
)
patience = LONG_PATIENCE if LONG in sys.argv else SHORT_PATIENCE
console = Console(width=140)


def main() -> None:
    """Run the parts given on the command line, or all parts."""
    parts: dict[str, Callable[[], Any]] = {
        "rates": rates,
        "return": time_to_return,
        "population": population,
        "memory": memory,
    }
    wanted = [word for word in sys.argv[1:] if word != LONG] or list(parts)
    unknown = set(wanted) - set(parts)
    if unknown:
        sys.exit(f"No part named {', '.join(unknown)}; known: {', '.join(parts)}")
    began, results = time.monotonic(), dict[str, Any]()
    for name in wanted:
        if time.monotonic() - began > patience.last_start:
            console.print(f"{name}: left out, the time is over; python benchmarks/cpu.py {name}")
            continue
        results[name] = parts[name]()
    out = Path(__file__).parent / "results" / "cpu.json"
    out.parent.mkdir(exist_ok=True)
    known = json.loads(out.read_text()) if out.exists() else {}
    out.write_text(json.dumps({**known, **results}, indent=2) + "\n")


# -------------------------------------------------------------------------------- rates


def rates() -> list[dict[str, Any]]:
    """Measure physics, environments, training, and SB3's training in steps per second."""
    rows: list[dict[str, Any]] = []
    for env_id, xml in MODELS.items():
        console.print(f"rates: {env_id} ...")
        raw, env = physics_and_env(env_id, xml)
        ours = training_rate(env_id, patience.training)
        seconds = patience.training
        defaults = peer("rate", env_id, seconds=seconds)["steps_per_second"]
        same = peer("rate", env_id, "--ours", seconds=seconds)["steps_per_second"]
        count = () if patience.processes is None else ("--num-envs", str(patience.processes))
        parallel = peer("best-parallel-rate", env_id, *count, seconds=patience.parallel)
        best = parallel["steps_per_second"]
        rows.append(
            {
                "env": env_id,
                "physics": raw,
                "env_rate": env,
                "env_share": env / raw,
                "train": ours["rate"],
                "train_share": ours["rate"] / raw,
                "busy": ours["busy"],
                "sb3_defaults": defaults,
                "sb3_parallel": best,
                "sb3_ours": same,
                "x_defaults": ours["rate"] / defaults,
                "x_parallel": ours["rate"] / best,
                "x_same_settings": ours["rate"] / same,
            }
        )
    show("env steps per second; x: our training by theirs", rows, [*rows[0]][1:])
    publish("cpu-rates", rows)
    return rows


def physics_and_env(env_id: str, xml: str, num_envs: int = 64) -> tuple[float, float]:
    """Return medians of steps/s of bare physics and of the environment, measured in turn."""
    torch.set_num_threads(1)
    env: Any = telic.make(env_id, num_envs=num_envs, seed=0)
    env.reset()
    bare = CpuSimulation(load_model(xml), num_envs)
    generator = torch.Generator().manual_seed(0)
    low, high = env.action_low, env.action_high
    actions = [
        low + (high - low) * torch.rand(num_envs, env.act_dim, generator=generator)
        for _ in range(16)
    ]
    doubles = [each.double() for each in actions]
    # The same work for both: states as the task meets them. Left alone, robots that fell would lie
    # on the ground with many contacts, which costs physics more than the task ever pays.
    states = [env.sim.state() for i in range(256) if env.step(actions[i % 16])]

    def physics(i: int) -> None:
        bare.load_state(states[i % 256])
        bare.step(doubles[i % 16], env.task.arguments.frame_skip)

    def step(i: int) -> None:
        result = env.step(actions[i % 16])
        result.reward.sum()

    pairs = [(measure(physics, num_envs), measure(step, num_envs)) for _ in range(patience.rounds)]
    return statistics.median(a for a, _ in pairs), statistics.median(b for _, b in pairs)


def peer(what: str, env_id: str, *options: str, seconds: float) -> Any:
    """Measure Stable-Baselines3 in a separate process with torch's default settings."""
    script = Path(__file__).parent / "peers.py"
    command = [sys.executable, "-W", "ignore", str(script), what, env_id, "--seconds", str(seconds)]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def measure(function: Callable[[int], None], per_call: int, seconds: float = 1.5) -> float:
    """Return the calls per second times `per_call`."""
    start, count = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        function(count)
        count += 1
    return count * per_call / (time.perf_counter() - start)


def training_rate(env_id: str, seconds: float = 15.0, **settings: Any) -> dict[str, float]:
    """Train for a while as `telic train` does, and return steps/s and the CPU utilization."""
    with tempfile.TemporaryDirectory() as folder:
        marks: list[tuple[float, float, int]] = []

        def listen(event: Event) -> None:
            if isinstance(event, TrainProgress):
                marks.append((time.perf_counter(), busy_seconds(), event.step))

        def stop() -> bool:
            return bool(marks) and time.perf_counter() - marks[0][0] > seconds

        job = plan(env_id, steps=100_000_000, evaluations=1, settings=settings)
        execute(job, Path(folder), on_event=listen, should_stop=stop)
    (t0, b0, s0), (t1, b1, s1) = marks[0], marks[-1]
    cores = os.cpu_count() or 1
    return {"rate": (s1 - s0) / (t1 - t0), "busy": (b1 - b0) / (t1 - t0) / cores}


def busy_seconds() -> float:
    """Return the CPU seconds used on this machine by all cores."""
    fields = [int(x) for x in Path("/proc/stat").read_text().split("\n")[0].split()[1:]]
    idle = fields[3] + fields[4]
    return (sum(fields[:8]) - idle) / os.sysconf("SC_CLK_TCK")


# -------------------------------------------------------------------------------- learning


def time_to_return(target: float = 4000.0, env_id: str = "HalfCheetah-v5") -> list[dict[str, Any]]:
    """Measure the training time until evaluation reaches the target, as the median over seeds."""
    rows: list[dict[str, Any]] = []
    for seed in range(1, 1 + patience.seeds):
        rows.append({"trainer": "telic", "seed": seed, **our_time(env_id, seed, target)})
        console.print(rows[-1])
        for name, options, limit in (
            (SAME, ("--ours",), patience.ours),
            (DEFAULTS, (), patience.defaults),
        ):
            if not options and seed > patience.seeds_of_defaults:
                continue
            options = (*options, "--seed", str(seed), "--target", str(target))
            points = peer("curve", env_id, *options, seconds=limit)
            reached = [each["seconds"] for each in points if each["mean_return"] >= target]
            best = max(each["mean_return"] for each in points)
            rows.append(
                {
                    "trainer": name,
                    "seed": seed,
                    "seconds": reached[0] if reached else None,
                    "best": best,
                    "limit": limit,
                }
            )
            console.print(rows[-1])
    show(
        f"{env_id}: seconds to a return of {target:g}", rows, ["trainer", "seed", "seconds", "best"]
    )
    ours = median_time(rows, "telic")
    for name in (SAME, DEFAULTS):
        limit = next(row["limit"] for row in rows if row["trainer"] == name)
        theirs = median_time(rows, name)
        if ours is None:
            continue
        if theirs is None:
            console.print(
                f"{name}: not in {limit:g} s, more than {limit / ours:.0f} x telic's {ours:.1f} s"
            )
        else:
            console.print(f"{name}: {theirs:.1f} s, {theirs / ours:.1f} x telic's {ours:.1f} s")
    reached = {name: _reached(rows, name) for name in ("telic", SAME, DEFAULTS)}
    publish("cpu-return", [{"trainer": name, "seconds": each} for name, each in reached.items()])
    return rows


def _reached(rows: list[dict[str, Any]], trainer: str) -> list[float] | None:
    times = [row["seconds"] for row in rows if row["trainer"] == trainer]
    return None if None in times else times


def median_time(rows: list[dict[str, Any]], trainer: str) -> float | None:
    """Return the median over seeds, or None if half of them never reached the target."""
    times = [row["seconds"] for row in rows if row["trainer"] == trainer]
    middle = sorted(float("inf") if each is None else each for each in times)[len(times) // 2]
    return None if middle == float("inf") else middle


def our_time(env_id: str, seed: int, target: float) -> dict[str, Any]:
    """Train as `telic train` does, with frequent evaluations whose time is not counted."""
    with tempfile.TemporaryDirectory() as folder:
        found: list[dict[str, Any]] = []

        def listen(event: Event) -> None:
            if isinstance(event, EvalDone):
                (record,) = event.members.values()
                found.append(
                    {
                        "step": event.step,
                        "return": record.mean_return,
                        "evaluating": event.seconds,
                    }
                )

        def stop() -> bool:
            return bool(found) and found[-1]["return"] >= target

        job = plan(env_id, seeds=(seed,), steps=1_000_000, evaluations=25)
        run = execute(job, Path(folder), on_event=listen, should_stop=stop)
        member = RunFolder(run.path).members()[0]
        times = {
            row["global_step"]: row["elapsed_time"] for row in read_rows(member.scalars, "train")
        }
    reached = next((each for each in found if each["return"] >= target), None)
    spent = sum(each["evaluating"] for each in found if reached and each["step"] < reached["step"])
    return {
        "seconds": times[reached["step"]] - spent if reached else None,
        "steps": reached["step"] if reached else None,
        "best": max(each["return"] for each in found),
    }


# -------------------------------------------------------------------------------- population


def population() -> dict[str, Any]:
    """Compare eight members (4 rewards x 2 seeds) with one member with as many environments."""
    source = (Path(__file__).parent / "speed_reward.py").read_text()
    together, alone = [], []
    for _ in range(patience.rounds_of_population):
        alone.append(timed(reward=[source], settings={"num_envs": 512, "minibatch_size": 2048}))
        rewards = [source.replace("1.0", f"{1.0 + i / 10}") for i in range(4)]
        together.append(timed(reward=rewards, seeds=(1, 2)))
    ratio = statistics.median(together) / statistics.median(alone)
    result = {"one_member_s": alone, "eight_members_s": together, "ratio": ratio}
    console.print(result)
    return result


def timed(**options: Any) -> float:
    """Return the training time in seconds for the same total number of environment steps."""
    members = len(options.get("reward", [None])) * len(options.get("seeds", (1,)))
    with tempfile.TemporaryDirectory() as folder:
        job = plan(
            "HalfCheetah-v5",
            steps=patience.steps_of_population // members,
            evaluations=1,
            **options,
        )
        return execute(job, Path(folder)).summary["training_time_s"]


def memory() -> dict[str, Any]:
    """Measure the peak memory of training Humanoid with 256 environments per member and P = 4."""
    code = (
        "import sys; from pathlib import Path; from telic.training.plan import plan;"
        "from telic.training.run import execute;"
        "job = plan('Humanoid-v5', steps=16384, seeds=(1, 2, 3, 4), evaluations=1,"
        " settings={'num_envs': 256, 'horizon': 32});"
        "execute(job, Path(sys.argv[1]))"
    )
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-c", code, folder], check=True)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
    console.print(f"Humanoid, 4 members x 256 environments: {peak:.2f} GiB resident at most")
    return {"peak_gib": peak}


def show(title: str, rows: list[dict[str, Any]], columns: list[str]) -> None:
    """Print rows as a table."""
    first = "env" if "env" in rows[0] else None
    table = Table(title=title, title_justify="left")
    for name in [first, *columns] if first else columns:
        table.add_column(name.replace("_", " "), justify="right", no_wrap=name == "env")
    for row in rows:
        cells = [row[first]] if first else []
        table.add_row(*cells, *(text(row.get(name)) for name in columns))
    console.print(table)


def text(value: Any) -> str:
    """Format a cell. A missing value is a dash."""
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"
    return "–" if value is None else str(value)


if __name__ == "__main__":
    main()
