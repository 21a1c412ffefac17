"""Compare the speed of a policy search without a model with a plain NumPy loop over Gymnasium.

python benchmarks/search/speed.py [--rounds 3]

`suite.py` compares the results.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import gymnasium
import numpy as np

from telic.search.runner import load_search
from telic.verbs.search import search

SHARE = 20  # the loop plays every 20th candidate of the first run


def search_once(folder, runs, episodes):
    """Search CartPole in one process, and return the search, its steps, CPU and wall seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    found = search(
        "CartPole-v1",
        method="cma",
        runs=runs,
        episodes=episodes,
        runs_dir=folder,
        jobs=1,
        fresh=True,
    )
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return found, sum(run.steps for run in found.summary.runs), cpu, wall


def loop_once(result):
    """Play candidates of a search one episode at a time, and return steps and CPU seconds.

    This is the shortest loop that one would write: observations scaled by two arrays, one matrix
    product, and the larger of two numbers.
    """
    task = result.plan.task
    center = np.array([each.center for each in task.observations])
    scale = 1.0 / np.array([each.half_range for each in task.observations])
    env = gymnasium.make("CartPole-v1")
    candidates = [c for i in result.iterations[1] for c in i.candidates][::SHARE]
    steps, began = 0, time.process_time()
    for candidate in candidates:
        params = np.array(candidate.params)
        weights, bias = params[:8].reshape(4, 2), params[8:]
        for seed in range(len(candidate.tried.returns)):
            obs, _ = env.reset(seed=seed)
            done = False
            while not done:
                outputs = ((obs - center) * scale) @ weights + bias
                obs, _, terminated, truncated, _ = env.step(int(outputs[1] > outputs[0]))
                done = terminated or truncated
                steps += 1
    return steps, time.process_time() - began


def main():
    """Alternate the measurements, so that other load on the machine affects both programs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3, help="number of measurements of both (3)")
    parser.add_argument("--runs", type=int, default=10, help="number of runs of a search (10)")
    parser.add_argument("--episodes", type=int, default=4000, help="budget of a run (4000)")
    options = parser.parse_args()
    ratios = []
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            found, steps, cpu, wall = search_once(folder, options.runs, options.episodes)
            looped, loop_cpu = loop_once(load_search(folder, found.path.name))
        ours, theirs = steps / cpu, looped / loop_cpu
        ratios.append(ours / theirs)
        print(
            f"search, proposer and files included: {steps:,} steps, {wall:.1f} s, "
            f"{ours:,.0f} steps per CPU second; plain loop: {looped:,} steps, "
            f"{theirs:,.0f} per CPU second; ratio {ratios[-1]:.1f}",
            flush=True,
        )
    print(f"median ratio {np.median(ratios):.1f} of {len(ratios)}")


if __name__ == "__main__":
    main()
