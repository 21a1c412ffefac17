"""Policy search without a language model: speed beside Gymnasium, and results beside R2PO's.

python benchmarks/search.py speed
python benchmarks/search.py table --runs 10 --episodes 4000
python benchmarks/search.py table --envs Swimmer-v5 --runs 3 --episodes 1000
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import gymnasium
import numpy as np

from telic.search.analysis.load import load
from telic.search.analysis.published import BEST_REWARD, MEAN_REWARD
from telic.search.analysis.tables import Table, markdown
from telic.search.api import search
from telic.search.environments.catalogue import TASKS, find_task
from telic.search.policies import make_policy

SLOW = ("InvertedPendulum-v5", "InvertedDoublePendulum-v5", "Swimmer-v5")


def speed(folder, runs=10, episodes=4000):
    """Print how long ten CartPole runs take, and a Gymnasium loop over the same policies."""
    wall = time.perf_counter()
    found = search("CartPole-v1", method="cma", runs=runs, episodes=episodes, runs_dir=folder)
    wall = time.perf_counter() - wall
    steps = sum(run.steps for run in found.summary.runs)
    print(f"{runs} CartPole runs of {episodes} episodes: {wall:.1f} s, {steps:,} steps")
    cpu = time.process_time()
    search("CartPole-v1", method="cma", runs=runs, episodes=episodes, runs_dir=folder, jobs=1,
           fresh=True)  # fmt: skip
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


def table(folder, envs, runs, episodes):
    """Print fresh results of the numeric proposers beside what R2PO published."""
    rows = []
    for env in envs:
        task = find_task(env)
        fresh = 20 if env in SLOW else 400
        found = search(env, method="tabular" if task.is_table else "cma", runs=runs,
                       episodes=episodes, runs_dir=folder, fresh_episodes=fresh)  # fmt: skip
        best = np.array([run.fresh.mean for run in found.summary.runs])
        mean = np.mean([run.mean_all for run in found.summary.runs])
        pair = np.mean([run.mean_selected for run in found.summary.runs])
        seen = np.mean([run.best_seen for run in found.summary.runs])
        spread = f"{best.mean():.4g} ± {best.std(ddof=1) if runs > 1 else 0:.2g}"
        published = BEST_REWARD[env]["r2po"].mean, MEAN_REWARD[env]["r2po"].mean
        numbers = [f"{each:.4g}" for each in (best.min(), seen, mean, pair, *published)]
        rows.append((env, found.summary.label, spread, *numbers, f"{found.summary.seconds:.0f}"))
        print(rows[-1], flush=True)
    columns = [
        *("env", "proposer", "fresh best", "worst run", "best seen", "mean, all"),
        *("mean, selected", "R2PO best (published)", "R2PO mean (published)", "seconds"),
    ]
    print(markdown(Table(f"{runs} runs of {episodes} episodes", columns, rows)))


def main():
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("speed", "table"))
    parser.add_argument("--envs", nargs="*", default=list(TASKS))
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--episodes", type=int, default=4000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.what == "speed":
            speed(Path(folder))
        else:
            table(Path(folder), options.envs, options.runs, options.episodes)


if __name__ == "__main__":
    main()
