"""Policy search without a language model: speed beside Gymnasium, and results beside R2PO's.

python benchmarks/search.py speed
python benchmarks/search.py table                                  ten tasks, 10 seeds each
python benchmarks/search.py table --env Swimmer-v5 --seeds 3 --episodes 1000

The table keeps its searches in a folder: run it again to go on where it was interrupted, or to
print what is done.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import gymnasium
import numpy as np
from published import BEST_REWARD, MEAN_REWARD

from telic.search.compare import ResultTable, markdown
from telic.search.policies import make_policy
from telic.search.records import SearchConfig, SearchSummary, list_searches
from telic.search.results import candidate_params, fresh_evaluation, load
from telic.search.worlds import TASKS, find_task
from telic.storage.files import read_record, write_text
from telic.verbs.search import search

SLOW = ("InvertedPendulum-v5", "InvertedDoublePendulum-v5", "Swimmer-v5")


def speed(folder, runs=10, episodes=4000):
    """Print how long ten CartPole runs take, and a Gymnasium loop over the same policies."""
    wall = time.perf_counter()
    found = search("CartPole-v1", method="cma", runs=runs, episodes=episodes, runs_dir=folder)
    wall = time.perf_counter() - wall
    steps = sum(run.steps for run in found.summary.runs)
    print(f"{runs} CartPole runs of {episodes} episodes: {wall:.1f} s, {steps:,} steps")
    cpu = time.process_time()
    search(
        "CartPole-v1",
        method="cma",
        runs=runs,
        episodes=episodes,
        runs_dir=folder,
        jobs=1,
        fresh=True,
    )
    cpu = time.process_time() - cpu
    looped, looped_cpu = gymnasium_loop(load(folder, found.path.name), share=20)
    ours, theirs = steps / cpu, looped / looped_cpu
    print(f"one core, whole search, proposer and files included: {ours:,.0f} steps per CPU second")
    print(f"one core, Gymnasium loop over every 20th of the same candidates: {theirs:,.0f}")
    print(f"ratio: {ours / theirs:.1f}")


def gymnasium_loop(result, share):
    """Play some of a search's candidates one episode after the other; return steps and seconds."""
    policy = make_policy(None, find_task("CartPole-v1"), is_scaled=True, seed=0, decimals=2)
    env = gymnasium.make("CartPole-v1")
    candidates = [c for i in result.iterations[1] for c in i.candidates][::share]
    steps, started = 0, time.process_time()
    for candidate in candidates:
        weights = policy.weights(np.array([candidate.params]))
        for seed in range(len(candidate.tried.returns)):
            obs, _ = env.reset(seed=seed)
            done = False
            while not done:
                action = int(policy.act(weights, obs[None])[0])
                obs, _, terminated, truncated, _ = env.step(action)
                done = terminated or truncated
                steps += 1
    return steps, time.process_time() - started


class Expected(NamedTuple):
    """What the fresh results of a task should come to."""

    least: float
    share: float | None = None
    """share of seeds that reach it; None: their mean does"""
    within: int | None = None
    """episodes after which the policy that was best by then should; None: at the end"""

    def met(self, fresh: Sequence[float]) -> bool:
        """Whether the results of the seeds come to it."""
        values = np.array(fresh)
        if self.share is None:
            return bool(values.mean() >= self.least)
        return bool((values >= self.least).mean() >= self.share)

    def __str__(self) -> str:
        who = "mean" if self.share is None else f"{self.share:.0%} of seeds"
        return f"{who} ≥ {self.least:g}" + (f" by {self.within} episodes" if self.within else "")


EXPECTED = {
    "CartPole-v1": [Expected(490, share=0.9)],
    "MountainCar-v0": [Expected(-118)],
    "MountainCarContinuous-v0": [Expected(93)],
    "InvertedPendulum-v5": [Expected(1000, share=0.8)],
    "InvertedDoublePendulum-v5": [Expected(200)],
    "Swimmer-v5": [Expected(310, within=400), Expected(340, within=1000)],
    "FrozenLake-v1": [Expected(0.70)],
    "Maze-v0": [Expected(0.966)],
    "Nim-v0": [Expected(1.0)],
    "Pong-v0": [Expected(2.8)],
}


def table(folder, envs, seeds, episodes):
    """Print fresh results of the numeric proposers beside what R2PO published."""
    rows = []
    for env in envs:
        rows.append(row(folder, find_task(env), seeds, episodes))
        print(" | ".join(rows[-1]), flush=True)
    columns = [
        *("env", "proposer", "fresh best", "worst seed", "mean, all", "mean, selected"),
        *("R2PO best", "R2PO mean", "expected", "met", "minutes"),
    ]
    title = f"{seeds} seeds of {episodes} episodes, fresh best ± standard deviation over seeds"
    text = markdown(ResultTable(title, columns, rows))
    write_text(folder / "table.md", text)
    print(f"\n{text}")


def row(folder, task, seeds, episodes):
    """Return one line of the table, searching as far as that is not done yet."""
    request = {
        "env": task.id,
        "method": "tabular" if task.is_table else "cma",
        "runs": seeds,
        "episodes": episodes,
        "fresh_episodes": 20 if task.id in SLOW else 400,
    }
    name, summary = finished(folder, request)
    if summary is None:
        found = search(runs_dir=folder, **request)
        name, summary = found.path.name, found.summary
    fresh = np.array([run.fresh.mean for run in summary.runs])
    means = [
        np.mean([getattr(run, kind) for run in summary.runs])
        for kind in ("mean_all", "mean_selected")
    ]
    spread = f" ± {fresh.std(ddof=1):.2g}" if seeds > 1 else ""
    expected = [each for each in EXPECTED[task.id] if (each.within or 0) <= episodes]
    met = [
        each.met(fresh_after(folder, name, each.within) if each.within else fresh)
        for each in expected
    ]
    numbers = (
        fresh.min(),
        *means,
        BEST_REWARD[task.id]["r2po"].mean,
        MEAN_REWARD[task.id]["r2po"].mean,
    )
    return (
        task.id,
        summary.label,
        f"{fresh.mean():.4g}{spread}",
        *(f"{x:.4g}" for x in numbers),
        "; ".join(map(str, expected)) or "–",
        "; ".join("yes" if each else "NO" for each in met) or "–",
        f"{max(run.seconds for run in summary.runs) / 60:.1f}",
    )


def finished(folder, request):
    """Return the name and summary of a search of exactly this request that came to its end."""
    config = SearchConfig.parse(request)
    for each in list_searches(folder):
        if read_record(each.config, SearchConfig) == config and each.summary.exists():
            summary = read_record(each.summary, SearchSummary)
            if summary.outcome == "completed":
                return each.name, summary
    return None, None


def fresh_after(folder, name, episodes):
    """Return how the policies that were best after so many episodes do on fresh ones, per seed."""
    result = load(folder, name)
    player = result.plan.player()
    out = []
    for run, log in result.iterations.items():
        last = [each for each in log if each.episodes <= episodes][-1]
        params = candidate_params(log, last.incumbent)
        out.append(fresh_evaluation(result.plan, player, params, run).mean)
    return out


def main():
    """Run what was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("speed", "table"))
    parser.add_argument("--env", nargs="*", default=list(TASKS), choices=TASKS, metavar="ENV")
    parser.add_argument("--seeds", type=int, default=10, help="runs per task (10)")
    parser.add_argument("--episodes", type=int, default=4000, help="budget of a run (4000)")
    parser.add_argument(
        "--folder",
        type=Path,
        default=Path("runs/search-table"),
        help="where the table keeps its searches (runs/search-table)",
    )
    options = parser.parse_args()
    if options.what == "table":
        table(options.folder, options.env, options.seeds, options.episodes)
        return
    with tempfile.TemporaryDirectory() as folder:
        speed(Path(folder))


if __name__ == "__main__":
    main()
