"""One policy trained by one process and by several that share its environments: rate and learning.

python benchmarks/devices.py                                  two cores: HalfCheetah and Humanoid
python benchmarks/devices.py --env Ant-v5 --device cuda:0     one GPU, once and twice

Every arrangement trains the same policy for the same steps; what it takes is counted without the
start of processes. Returns are those of fresh episodes at the end.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

STEPS = {"HalfCheetah-v5": 200_000, "Humanoid-v5": 60_000}


class Arrangement(NamedTuple):
    """What trains a policy."""

    name: str
    devices: tuple[str, ...]
    threads: int | None


def arrangements(device: str, most: int) -> list[Arrangement]:
    """Return what is compared."""
    if device == "cpu":
        return [
            Arrangement("one process, 1 physics thread", ("cpu",), 1),
            Arrangement("one process, 2 physics threads", ("cpu",), 2),
            *(
                Arrangement(f"{count} processes, 1 physics thread each", ("cpu",) * count, 1)
                for count in range(2, most + 1)
            ),
        ]
    return [
        Arrangement(f"{device} {count} x", (device,) * count, None) for count in range(1, most + 1)
    ]


def measure(
    env: str, arrangement: Arrangement, steps: int, seeds: Sequence[int], settings: Sequence[str]
) -> tuple[float, list[float]]:
    """Return steps per second and the return at the end, by seed."""
    from telic.training.plan import plan
    from telic.training.run import execute

    rates: list[float] = []
    returns: list[float] = []
    for seed in seeds:
        job = plan(
            env,
            steps=steps,
            seeds=(seed,),
            evaluations=1,
            devices=arrangement.devices,
            threads=arrangement.threads,
            settings=list(settings),
        )
        with tempfile.TemporaryDirectory() as folder:
            run = execute(job, Path(folder))
        rates.append(run.summary["steps_per_second"])
        returns.append(run.summary["best_return"])
    return fmean(rates), returns


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env", action="append", help="environment; repeatable")
    parser.add_argument("--device", default="cpu", help="cpu, or a GPU that all processes use")
    parser.add_argument("--most", type=int, default=2, help="processes at most")
    parser.add_argument("--steps", type=int, help="of a policy")
    parser.add_argument("--seeds", type=int, default=1, help="how many")
    parser.add_argument("--set", action="append", default=[], help="a setting, name=value")
    asked = parser.parse_args()
    print("| environment | what trains | steps/s | returns | load before |\n|---|---|--:|---|--:|")
    for env in asked.env or list(STEPS):
        for arrangement in arrangements(asked.device, asked.most):
            load = os.getloadavg()[0]
            steps = asked.steps or STEPS.get(env, 100_000)
            seeds = range(1, asked.seeds + 1)
            rate, returns = measure(env, arrangement, steps, seeds, asked.set)
            shown = ", ".join(f"{value:,.0f}" for value in returns)
            print(
                f"| {env} | {arrangement.name} | {rate:,.0f} | {shown} | {load:.1f} |", flush=True
            )


if __name__ == "__main__":
    main()
