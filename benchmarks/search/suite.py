"""Compare tasks, methods and conditions in one table with the published results.

    python benchmarks/search/suite.py runs/suite [--env Nim-v0 …] [--method cma …] [--runs 10]

Every method is evaluated in four ways: the mean of all candidates, of the better of two, the
largest mean, and the selected policy on fresh episodes. The conditions are own (scaled
observations), raw, and published (as in the paper). Finished rows in the folder are not run
again. Rows are tested only against results with the same number of runs and episodes.
"""

from __future__ import annotations

import argparse
import tomllib
from pathlib import Path

import numpy as np

from telic.core.stats import holm, welch
from telic.errors import ConfigError
from telic.report import document as doc
from telic.report.markdown import render_section
from telic.search.plan import make_plan
from telic.search.records import SearchConfig, SearchFolder, SearchSummary
from telic.search.worlds import TASKS
from telic.storage.files import read_record
from telic.verbs.search import search

COUNTED = {"all": "mean_all", "better_of_two": "better_of_two", "best_seen": "best_seen"}
ACCOUNTINGS = (*COUNTED, "fresh")
METHODS = ("cma", "tabular", "climb", "random")
TERMS = {"own": {}, "raw": {"raw": True}, "published": {"faithful": True}}
RUNS, EPISODES = 10, 4000  # behind every published number


def published(env: str) -> dict[str, dict[str, tuple[float, float]]]:
    """Return published means and standard deviations of a task, by method and accounting."""
    text = (Path(__file__).parent / "published.toml").read_text(encoding="utf-8")
    return tomllib.loads(text).get(env, {})


def runs_like(mean: float, std: float) -> np.ndarray:
    """Return ten runs with this mean and standard deviation, which determine a t-test."""
    half = np.resize([1.0, -1.0], RUNS)
    return mean + std * half / half.std(ddof=1)


def summary_of(config: SearchConfig, folder: Path, on: str | None = None) -> SearchSummary:
    """Return the result of a row, and run or resume it if it is not finished."""
    for found in (SearchFolder(path.parent) for path in folder.glob("*/search.json")):
        if found.summary.exists() and read_record(found.config, SearchConfig) == config:
            summary = read_record(found.summary, SearchSummary)
            if summary.outcome == "completed":
                return summary
    return search(**config.model_dump(exclude={"schema_version"}), runs_dir=folder, on=on).summary


def counted(summary: SearchSummary, accounting: str) -> np.ndarray:
    """Return the compared value of each run."""
    if accounting == "fresh":
        return np.array([run.fresh.mean for run in summary.runs])
    return np.array([getattr(run, COUNTED[accounting]) for run in summary.runs], dtype=float)


def main():
    """Run the missing rows, and print all rows with the tests against the published results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--env", action="append", choices=TASKS)
    parser.add_argument("--method", action="append")
    parser.add_argument("--terms", action="append", choices=TERMS)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--episodes", type=int, default=EPISODES)
    parser.add_argument("--on", help="where to run: local, ray, ray://HOST:PORT or slurm")
    options = parser.parse_args()
    is_comparable = (options.runs, options.episodes) == (RUNS, EPISODES)
    rows, claims = [], []
    for env in options.env or TASKS:
        for terms in options.terms or TERMS:
            is_first = True
            for method in options.method or METHODS:
                request = {"env": env, "method": method, "runs": options.runs, **TERMS[terms]}
                config = SearchConfig.parse({**request, "episodes": options.episodes})
                try:
                    make_plan(config)
                except ConfigError:
                    continue  # the method does not apply to this task
                summary = summary_of(config, options.folder, options.on)
                values = {each: counted(summary, each) for each in ACCOUNTINGS}
                cells = [f"{v.mean():.4g} ± {v.std(ddof=1):.2g}" for v in values.values()]
                rows.append([env, method, terms, *cells])
                if is_first and is_comparable:
                    claims += _claims(env, terms, values)
                is_first = False
        for method, row in published(env).items():
            cells = ["{:g} ± {:g}".format(*row[a]) if a in row else "" for a in ACCOUNTINGS]
            rows.append([env, method, "the paper's", *cells])
    table = doc.Table(["env", "method", "terms", *ACCOUNTINGS], rows)
    print(render_section(doc.Section("", (table,))))
    if not is_comparable:
        print(f"Not tested: published results are from {RUNS} runs of {EPISODES:,} episodes.")
        return
    adjusted = holm([claim[-1] for claim in claims])
    lines = [
        [*names, f"{difference:+.4g}", "" if p is None else f"{p:.3g}"]
        for (*names, difference, _), p in zip(claims, adjusted, strict=True)
    ]
    heads = ["env", "terms", "published", "counted by", "ours minus theirs", "Holm p"]
    print(render_section(doc.Section("", (doc.Table(heads, lines),))))


def _claims(env: str, terms: str, values: dict[str, np.ndarray]) -> list[tuple]:
    return [
        (
            env,
            terms,
            method,
            how,
            values[how].mean() - mean,
            welch(values[how], runs_like(mean, std)),
        )
        for method, row in published(env).items()
        for how, (mean, std) in row.items()
    ]


if __name__ == "__main__":
    main()
