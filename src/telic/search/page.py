"""A map of tried policies for people: one HTML file with score, explanation and animation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from telic.errors import UsageError
from telic.search.analysis.load import Result
from telic.search.draws import Floats, rollout_seeds
from telic.search.history import Params
from telic.search.plan import BASELINE
from telic.search.records import Candidate
from telic.search.rollouts import Trace, Trial
from telic.storage.files import plain, write_text

_TEMPLATE = Path(__file__).parent / "page.html"
_ANIMATED = 40
_FRAMES = 250


def write_page(result: Result, path: Path | None = None) -> Path:
    """Write the map of a search and return where it is; it needs no server and no network."""
    if result.summary.method.startswith(BASELINE):
        raise UsageError(
            f"{result.folder.name} trained networks; a map needs policies with numbers.",
            hint="Name a search of another method.",
        )
    path = path or result.folder.page
    # "</" inside a script would end it.
    data = json.dumps(plain(page_data(result)), separators=(",", ":")).replace("</", "<\\/")
    template = _TEMPLATE.read_text(encoding="utf-8")
    write_text(path, template.replace("/*DATA*/null", data))
    return path


def page_data(result: Result) -> dict[str, Any]:
    """Return everything the page shows."""
    task, summary = result.plan.task, result.summary
    candidates = [
        (run, iteration.number, candidate)
        for run, log in result.iterations.items()
        for iteration in log
        for candidate in iteration.candidates
    ]
    places = project(np.array([c.params for _, _, c in candidates]))
    movies = _movies(result, [c for _, _, c in candidates])
    best = {run.run: run.best for run in summary.runs}
    rows = [
        {
            "run": run, "iteration": number, "origin": c.origin, "x": x, "y": y, "mean": c.mean,
            "error": c.error, "n": len(c.tried.returns), "params": list(c.params),
            "why": c.explanation, "warnings": list(c.warnings), "best": c.params == best[run],
            "movie": movies.get(c.params, {}).get("index"),
        }
        for (run, number, c), (x, y) in zip(candidates, places.tolist(), strict=True)
    ]  # fmt: skip
    return {
        "env": task.id,
        "label": summary.label,
        "model": summary.model,
        "story": task.story,
        "names": result.plan.policy.space.names,
        "formula": result.plan.policy.space.formula,
        "target": task.target,
        "worst": task.worst,
        "candidates": rows,
        "movies": [each["frames"] for each in movies.values()],
        "runs": [{"run": r.run, "fresh": r.fresh.mean, "low": r.fresh.low, "high": r.fresh.high}
                 for r in summary.runs],
    }  # fmt: skip


def project(points: Floats) -> Floats:
    """Return points on a plane, (n, 2): their two main directions, each scaled to [-1, 1]."""
    centred = points - points.mean(0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    flat = centred @ axes[:2].T
    if flat.shape[1] < 2:
        flat = np.concatenate((flat, np.zeros((len(flat), 2 - flat.shape[1]))), axis=1)
    return flat / np.maximum(np.abs(flat).max(0), 1e-9)


def _movies(result: Result, candidates: list[Candidate]) -> dict[Params, dict[str, Any]]:
    """Play an episode of the best, and of some others from all over the scale, once more."""
    ranked = sorted({c.params: c for c in candidates}.values(), key=lambda each: -each.mean)
    spread = np.unique(np.linspace(0, len(ranked) - 1, _ANIMATED // 2).astype(int))
    chosen = {c.params: c for c in (*ranked[: _ANIMATED // 2], *(ranked[i] for i in spread))}
    chosen |= {r.best: c for r in result.summary.runs for c in ranked if c.params == r.best}
    seeds = np.stack([rollout_seeds(c.tried.seed, 1) for c in chosen.values()])
    trial = Trial(np.array(list(chosen)), seeds, is_recorded=True)
    (rollouts,) = result.plan.player().play([trial])
    return {
        params: {"index": row, "frames": _frames(rollouts.trace(row, 0))}
        for row, params in enumerate(chosen)
    }


def _frames(trace: Trace) -> dict[str, Any]:
    """Return an episode as frames: what was seen, and what was done."""
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
