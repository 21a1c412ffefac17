"""What a run came to, from its log; and a finished search, read back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from telic.core.seeds import derive
from telic.core.stats import bootstrap
from telic.errors import UsageError
from telic.search.plan import SearchPlan, make_plan
from telic.search.records import (
    NO_MODEL,
    Fresh,
    Outcome,
    SearchConfig,
    SearchFolder,
    SearchIteration,
    SearchRunSummary,
    SearchSummary,
    find_search,
)
from telic.search.rollouts import Player, PolicyTrial
from telic.search.task import rollout_seeds
from telic.storage.files import read_record


def fresh_evaluation(
    plan: SearchPlan, player: Player, params: tuple[float, ...], run: int
) -> Fresh:
    """Play a policy on new episodes, the same ones for every method and run of a task."""
    count = 1 if plan.task.is_deterministic else plan.config.fresh_episodes
    seeds = rollout_seeds(derive("fresh", plan.task.id, plan.config.seed, run), count)
    (rollouts,) = player.play([PolicyTrial(np.array([params]), seeds[None, :])])
    returns = rollouts.returns[0]
    interval = bootstrap(returns.tolist())
    return Fresh(
        mean=float(returns.mean()),
        low=interval.low if interval else None,
        high=interval.high if interval else None,
        episodes=count,
        success=float((returns >= plan.terms.solved).mean()),
    )


def summarise(
    plan: SearchPlan,
    player: Player,
    run: int,
    iterations: Sequence[SearchIteration],
    outcome: Outcome,
    seconds: float,
) -> SearchRunSummary:
    """Return what a run came to; its best policy is measured on fresh episodes."""
    loop = [iteration for iteration in iterations if iteration.number > 0] or list(iterations)
    best = candidate_params(iterations, iterations[-1].incumbent)
    calls = [call for iteration in iterations for call in iteration.calls]
    prices = [call.price_usd for call in calls]
    good = next((e for e in loop if e.incumbent_mean >= plan.terms.good), None)
    calls_to_good = None
    if good:
        calls_to_good = sum(len(e.calls) for e in iterations if e.number <= good.number)
    means = [candidate.mean for iteration in loop for candidate in iteration.candidates]
    selected = [iteration.candidate(iteration.selected) for iteration in loop]
    last = selected[-1].params
    fresh = fresh_evaluation(plan, player, best, run)
    final = fresh if last == best else fresh_evaluation(plan, player, last, run)
    headlines = {
        "all_candidates": float(np.mean(means)),
        "better_of_two": better_of_two(loop, has_revisions=plan.switches.second != "none"),
        "selected": float(np.mean([candidate.mean for candidate in selected])),
        "incumbent": incumbent_area(loop),
    }
    return SearchRunSummary(
        run=run,
        outcome=outcome,
        method=plan.config.method,
        proposer=plan.label,
        model=plan.config.model or NO_MODEL,
        iterations=len(loop),
        candidates=sum(len(iteration.candidates) for iteration in iterations),
        episodes=iterations[-1].episodes,
        steps=iterations[-1].steps,
        calls=len(calls),
        price_usd=None if None in prices else float(sum(p for p in prices if p is not None)),
        best=best,
        fresh=fresh,
        final=final if last else None,  # of a trained network only the best one was kept
        mean=headlines[plan.switches.report],
        mean_all=headlines["all_candidates"],
        better_of_two=headlines["better_of_two"],
        mean_selected=headlines["selected"],
        best_seen=float(max(candidate.mean for candidate in selected)),
        incumbent_area=headlines["incumbent"],
        episodes_to_good=good.episodes if good else None,
        calls_to_good=calls_to_good,
        fallbacks=sum("numeric step" in (iteration.note or "") for iteration in loop),
        seconds=round(seconds, 3),
    )


def better_of_two(iterations: Sequence[SearchIteration], *, has_revisions: bool) -> float:
    """Return the mean of the better of two candidates, as R2PO counts, whoever proposed them.

    Two that follow one another are a pair; with revisions, only two of the same iteration. One that
    is left over stands for itself.
    """
    means = [[candidate.mean for candidate in each.candidates] for each in iterations]
    groups = means if has_revisions else [[mean for group in means for mean in group]]
    pairs = [group[i : i + 2] for group in groups for i in range(0, len(group), 2)]
    return float(np.mean([max(pair) for pair in pairs]))


def incumbent_area(iterations: Sequence[SearchIteration]) -> float:
    """Return the mean over the budget of what was the best policy's mean at the time."""
    episodes = np.array([0, *(iteration.episodes for iteration in iterations)], dtype=np.float64)
    height = np.array([iteration.incumbent_mean for iteration in iterations])
    width = np.diff(episodes)
    return float((height * width).sum() / max(width.sum(), 1.0))


def candidate_params(iterations: Sequence[SearchIteration], number: int) -> tuple[float, ...]:
    """Return the numbers of the policy that a candidate's number stands for."""
    for iteration in iterations:
        for candidate in iteration.candidates:
            if candidate.number == number:
                return candidate.params
    raise AssertionError("the incumbent was tried")


class Result(NamedTuple):
    """A search and everything that was tried in it."""

    folder: SearchFolder
    plan: SearchPlan
    summary: SearchSummary
    iterations: dict[int, list[SearchIteration]]
    """by run"""


def load(runs_dir: Path, name: str) -> Result:
    """Return a search by its name; raises UsageError when it has not come to a result."""
    folder = find_search(runs_dir, name)
    if not folder.summary.exists():
        raise UsageError(
            f"{folder.name} has not come to a result yet.",
            hint="Run its command again to go on with it.",
        )
    summary = read_record(folder.summary, SearchSummary)
    if not summary.runs:
        raise UsageError(f"No run of {folder.name} came to its end.")
    plan = make_plan(read_record(folder.config, SearchConfig))
    logs = {run.run: list(folder.run(run.run).read()) for run in summary.runs}
    return Result(folder, plan, summary, logs)
