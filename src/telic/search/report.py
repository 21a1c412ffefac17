"""Report of a search: an animated map of tried policies, and returns over episodes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from telic.core.text import number
from telic.report import document as doc
from telic.report.charts import ChartLine, LineChart, Point
from telic.report.html import render_page
from telic.search.records import Params, PolicyCandidate, SearchIteration
from telic.search.runner import Result
from telic.search.task import Floats, PolicyTrial, Trace, rollout_seeds
from telic.search.worlds import DOORS, MAZE
from telic.storage.files import plain, write_text

_MAP = {"markup": "map.html", "style": "map.css", "program": "map.js"}
_ANIMATED_AT_LEAST, _STEPS = 40, 60_000  # policies, and their total number of steps
_FRAMES = 250
_POINTS = 100
_MAKERS = {
    "ars": "Made by augmented random search: a step along a random direction, or against it.",
    "climb": "Made by hill climbing: some numbers of the best policy so far, changed.",
    "cma": "Drawn by CMA-ES from the population it had come to.",
    "random": "Drawn at random.",
    "tabular": "The best table in the model learned from every step taken before.",
    "warm-up": "Drawn at random, for the model to see.",
    "fallback:climb": "The model gave no valid answer; a step of hill climbing took its place.",
}
"""explanations for proposers that give none"""
_Key = tuple[int, Params]  # run and parameters, since random parts may differ between runs


def write_page(result: Result, path: Path | None = None) -> Path:
    """Write the report of a search as a self-contained page and return its path."""
    path = path or result.folder.page
    write_text(path, render_page(_search_report(result), path.parent))
    return path


def _search_report(result: Result) -> doc.Report:
    """Build the report: a map of all tried policies, a table of runs, and their progress."""
    task, summary = result.plan.task, result.summary
    data = json.dumps(plain(page_data(result)), separators=(",", ":"))
    here = files("telic.search")
    parts = {name: here.joinpath(file).read_text() for name, file in _MAP.items()}
    rows = [
        (
            str(run.run),
            number(run.fresh.mean),
            f"{number(run.fresh.low)} to {number(run.fresh.high)}",
            str(run.fresh.episodes),
            number(run.best_seen),
            str(run.candidates),
        )
        for run in summary.runs
    ]
    heads = ("run", "return", "95 % interval", "fresh episodes", "best seen", "policies tried")
    about = "What each run chose, on new episodes that no policy was chosen by."
    header = (doc.Text(f"{summary.env} · policy search", "where"), doc.Text(summary.label))
    progress = doc.Figure(_progress_chart(list(result.iterations.values())))
    return doc.Report(
        f"{task.id}: tried policies",
        (
            doc.Section("Tried policies", (doc.Widget(**parts, data=data),)),
            doc.Section("Runs", (doc.Table(heads, rows), doc.Text(about, "note"))),
            doc.Section("Best policy so far", (progress,)),
        ),
        doc.Section("", (*header, doc.Text(task.story, "note"))),
        footer=("Made by telic from the records of ", doc.Mono(result.folder.name)),
    )


def page_data(result: Result) -> dict[str, Any]:
    """Return the data for the page's script."""
    task, summary = result.plan.task, result.summary
    candidates = [
        (run, iteration.number, candidate)
        for run, log in result.iterations.items()
        for iteration in log
        for candidate in iteration.candidates
    ]
    places = _project(np.array([c.params for _, _, c in candidates]))
    movies = _movies(result, [(run, c) for run, _, c in candidates])
    order = {key: index for index, key in enumerate(movies)}
    best = {run.run: run.best for run in summary.runs}
    rows = [
        {
            "run": run,
            "iteration": number,
            "origin": c.origin,
            "x": x,
            "y": y,
            "mean": c.mean,
            "error": c.error,
            "n": len(c.tried.returns),
            "params": list(c.params),
            "why": c.explanation,
            "warnings": list(c.warnings),
            "best": c.params == best[run],
            "movie": order.get((run, c.params)),
        }
        for (run, number, c), (x, y) in zip(candidates, places.tolist(), strict=True)
    ]
    return {
        "env": task.id,
        "label": summary.label,
        "model": summary.model,
        "story": task.story,
        "names": result.plan.policy.space.names,
        "choices": dict(zip(task.choices, task.actions, strict=True)) if task.is_table else None,
        "doors": DOORS if task.id == MAZE else None,
        "makers": _MAKERS,
        "candidates": rows,
        "movies": list(movies.values()),
        "runs": [
            {"run": r.run, "fresh": r.fresh.mean, **r.fresh.model_dump(exclude={"mean", "success"})}
            for r in summary.runs
        ],
    }


def _project(points: Floats) -> Floats:
    """Project points to their first two principal components, (n, 2), scaled to [-1, 1]."""
    centred = points - points.mean(0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    flat = centred @ axes[:2].T
    if flat.shape[1] < 2:
        flat = np.concatenate((flat, np.zeros((len(flat), 2 - flat.shape[1]))), axis=1)
    low, high = flat.min(0), flat.max(0)
    return (2 * flat - low - high) / np.maximum(high - low, 1e-9)


def _movies(
    result: Result, candidates: list[tuple[int, PolicyCandidate]]
) -> dict[_Key, dict[str, Any]]:
    """Replay an episode of the best policies and of others over the whole range of returns."""
    tried = {(run, c.params): c for run, c in candidates}
    ranked = sorted(tried, key=lambda key: -tried[key].mean)
    half = max(_ANIMATED_AT_LEAST, _STEPS // result.plan.protocol.limit) // 2
    spread: list[int] = np.unique(np.linspace(0, len(ranked) - 1, half).astype(int)).tolist()
    chosen = [(run.run, run.best) for run in result.summary.runs]
    keys = list(dict.fromkeys((*chosen, *ranked[:half], *(ranked[i] for i in spread))))
    out: dict[_Key, dict[str, Any]] = {}
    # One player serves all runs, unless each run has a separate policy family.
    apart = [[key for key in keys if key[0] == run] for run in result.iterations]
    for group in [keys] if result.plan.is_shared else apart:
        seeds = np.stack([rollout_seeds(tried[key].tried.seed, 1) for key in group])
        trial = PolicyTrial(np.array([params for _, params in group]), seeds, is_recorded=True)
        (rollouts,) = result.plan.of_run(group[0][0]).player().play([trial])
        for row, key in enumerate(group):
            out[key] = _frames(rollouts.trace(row, 0))
    return out


def _frames(trace: Trace) -> dict[str, Any]:
    """Downsample an episode to frames of observations and actions."""
    every = max(1, -(-len(trace.obs) // _FRAMES))
    obs = np.concatenate((trace.obs[::every], trace.next_obs[-1:])).astype(np.float64)
    action = trace.action[::every].astype(np.float64)
    return {
        "obs": obs.reshape(len(obs), -1).round(3).tolist(),
        "action": action.reshape(len(action), -1).round(2).tolist(),
        "return": float(trace.reward.sum()),
        "steps": len(trace.obs),
        "every": every,
    }


def _progress_chart(runs: Sequence[Sequence[SearchIteration]]) -> LineChart:
    """Chart the return of the best policy so far: mean over runs ± one standard deviation."""
    grid = np.linspace(0, min(run[-1].episodes for run in runs), _POINTS + 1)[1:]
    rows: list[Floats] = []
    for run in runs:
        value = np.array([iteration.incumbent_mean for iteration in run])
        # The value after n episodes is that of the latest finished iteration.
        at = np.array([iteration.episodes for iteration in run])
        place = np.searchsorted(at, grid, side="right") - 1
        rows.append(np.where(place >= 0, value[np.maximum(place, 0)], np.nan))
    table = np.array(rows)
    known = ~np.isnan(table).any(0)
    points = [
        Point(x, mean, mean - spread, mean + spread)
        for x, mean, spread in zip(
            grid[known].tolist(),
            table[:, known].mean(0).tolist(),
            table[:, known].std(0, ddof=int(len(rows) > 1)).tolist(),
            strict=True,
        )
    ]
    line = ChartLine("mean over runs ± one standard deviation", points)
    title = "Best policy so far, by episodes"
    return LineChart(title, (line,) if points else (), "episodes", "return", from_zero=True)
