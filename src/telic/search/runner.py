"""Run a search: schedule and summarize its runs, and load results."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from telic.core.events import (
    Event,
    Listener,
    SearchForecast,
    SearchIterationEnd,
    SearchStart,
    encode_event,
    ignore,
)
from telic.core.seeds import derive
from telic.core.stats import mean_interval
from telic.errors import Refused, UsageError, WorkerDied
from telic.jobs.process import spawn_pool
from telic.llm import Budget, Cancelled, Models, connect
from telic.loop import Loop
from telic.search.loop import SearchRun
from telic.search.plan import SearchPlan, make_plan, versions
from telic.search.records import (
    NO_MODEL,
    HeldOutReturn,
    SearchConfig,
    SearchFolder,
    SearchIteration,
    SearchOutcome,
    SearchRunSummary,
    SearchSummary,
)
from telic.search.task import Player, PolicyTrial, Rollouts, rollout_seeds
from telic.storage.files import JsonLines, read_record, write_json
from telic.storage.journal import Journal
from telic.storage.keys import sign_folder
from telic.storage.layout import new_name
from telic.storage.locks import RunLock
from telic.storage.resources import usable_cores
from telic.storage.workspace import Workspace

_POLL_S, _TIMEOUT_S = 0.1, 10.0
_RUNS_PER_BATCH = 16  # runs per batch in one process


class Search(NamedTuple):
    """Finished or stopped search."""

    path: Path
    summary: SearchSummary

    def as_data(self) -> dict[str, Any]:
        """Return the result as plain data."""
        return {"path": str(self.path), **self.summary.model_dump(mode="json")}

    @property
    def best(self) -> SearchRunSummary:
        """Run with the policy that has the highest mean return on fresh episodes."""
        return max(self.summary.runs, key=lambda run: run.fresh.mean)


def run_search(
    config: SearchConfig,
    runs_dir: Path,
    *,
    jobs: int | None = None,
    found: Path | None = None,
    fresh: bool = False,
    on_event: Listener = ignore,
    should_stop: Callable[[], bool] = lambda: False,
    parts: Sequence[Search] = (),
) -> Search:
    """Search for a policy, or resume an interrupted search of the same request.

    Args:
        config: request to run.
        runs_dir: directory for the search folder.
        jobs: number of processes for runs without a model, by default one per CPU.
        found: search to resume, which may be of another user.
        fresh: whether to start from scratch even if an interrupted search exists.
        on_event: function called with every event.
        should_stop: function that saves and stops the search by returning True.
        parts: searches of single runs, which become the runs of this search.

    Raises:
        TelicError: with the problem, its cause and a hint.
    """
    plan, started = make_plan(config), time.monotonic()
    if config.model is None or plan.switches.proposer == "hybrid":
        SearchRun(plan, 1, None).require_room()  # a population may need more room

    def is_same(path: Path) -> bool:  # changed limits resume the search
        made = read_record(SearchFolder(path).config, SearchConfig)
        unlimited = {"max_calls": None, "max_usd": None}
        return made.replace(**unlimited) == config.replace(**unlimited)

    found = found or (None if fresh else Workspace(runs_dir).unfinished("search", is_same))
    folder = SearchFolder(found or runs_dir / new_name("search"))
    # Acquire the lock before writing the first file, so that no other process resumes it.
    with RunLock(folder.lock, folder.name), JsonLines(folder.events) as log:
        if found is None:
            terms = {
                "label": plan.label,
                "model": config.model or NO_MODEL,
                "protocol": plan.protocol,
                "protocol_key": plan.protocol.key,
                "switches": plan.switches,
                "versions": versions(),
            }
            write_json(folder.manifest, terms)
            sign_folder(folder.path)
            write_json(folder.config, config)
        folder.stop.unlink(missing_ok=True)

        def emit(event: Event) -> None:
            log.append(encode_event(event))
            on_event(event)

        def stop() -> bool:
            return should_stop() or folder.stop.exists()

        for part in parts:
            for taken in (*part.path.glob("run_*"), part.path / "replies", part.path / "orders"):
                if taken.exists():
                    shutil.copytree(taken, folder.path / taken.name, dirs_exist_ok=True)
        every = range(config.first_run, config.first_run + config.runs)
        numbers = [number for number in every if not folder.run(number).summary.exists()]
        about = {"search": folder.name, "env": config.env, "label": plan.label}
        emit(SearchStart(**about, runs=config.runs, left=len(numbers)))
        if config.model is not None and numbers:
            budget = Budget(usd=config.max_usd, calls=config.max_calls)
            models = connect(
                config.model, folder.path, budget=budget, on_event=emit, should_stop=stop
            )
            emit(SearchForecast(calls=config.runs * SearchRun(plan, 1, models).expected_calls))
            # Each run has a thread, since runs mostly wait for the model.
            do = partial(do_runs, config, folder.path, models=models, emit=emit, should_stop=stop)
            with ThreadPoolExecutor(max(1, len(numbers))) as pool:
                for job in [pool.submit(do, [number]) for number in numbers]:
                    job.result()
        else:
            _in_processes(config, folder, numbers, jobs or len(usable_cores()), emit, stop)
        done = [folder.run(number).summary for number in every]
        runs = tuple(read_record(path, SearchRunSummary) for path in done if path.exists())
        is_whole = len(runs) == config.runs and all(run.outcome == "completed" for run in runs)
        summary = SearchSummary(
            **about,
            method=config.method,
            model=config.model or NO_MODEL,
            outcome="completed" if is_whole else "stopped",
            protocol=plan.protocol,
            switches=plan.switches.model_dump(),
            runs=runs,
            versions=versions(),
            seconds=round(time.monotonic() - started, 3),
        )
        write_json(folder.summary, summary)
    for part in parts:
        shutil.rmtree(part.path)
    return Search(folder.path, summary)


def _in_processes(
    config: SearchConfig,
    folder: SearchFolder,
    numbers: Sequence[int],
    jobs: int,
    emit: Listener,
    should_stop: Callable[[], bool],
) -> None:
    """Distribute the runs over processes. Each process batches the episodes of its runs."""
    jobs = min(jobs, len(numbers))
    if jobs <= 1:
        for start in range(0, len(numbers), _RUNS_PER_BATCH):
            part = numbers[start : start + _RUNS_PER_BATCH]
            do_runs(config, folder.path, part, emit=emit, should_stop=should_stop)
        return
    with spawn_pool(jobs) as pool:
        parts = [list(numbers[job::jobs]) for job in range(jobs)]
        waiting = {pool.submit(do_runs, config, folder.path, part) for part in parts}
        try:
            while waiting:
                done, waiting = wait(waiting, _POLL_S, FIRST_COMPLETED)
                if should_stop():
                    folder.stop.touch()  # polled by the other processes
                for job in done:
                    for summary in job.result():
                        emit(summary)
        except BrokenProcessPool:
            raise WorkerDied(
                f"A process of {folder.name} was killed, possibly because memory ran out.",
                hint="Rerun the same command to resume, with fewer --jobs if it happens again.",
            ) from None
        except BaseException:
            folder.stop.touch()  # leaving the pool waits for its processes
            raise


def do_runs(
    config: SearchConfig,
    path: Path,
    numbers: Sequence[int],
    *,
    models: Models | None = None,
    emit: Listener = ignore,
    should_stop: Callable[[], bool] | None = None,
) -> list[SearchRunSummary]:
    """Run or resume runs of a search and return the summaries of the finished runs.

    Without `should_stop`, as in worker processes, only the stop file in the folder stops the runs.
    """
    folder, plan = SearchFolder(path), make_plan(config)
    for files in map(folder.run, numbers):
        if files.earlier.exists() and not files.journal.exists():
            raise Refused(
                f"{folder.name} was started by an earlier version of telic and cannot be resumed.",
                hint="Start from scratch with --fresh. The previous results remain readable.",
            )
    stop = should_stop or folder.stop.exists
    groups = [numbers] if plan.is_shared else [[number] for number in numbers]
    summaries: list[SearchRunSummary] = []
    for group in groups:
        with ExitStack() as stack:
            # The search's lock is held, so holders of these locks are orphans about to exit.
            for number in group:
                name, lock = f"Run {number} of {folder.name}", folder.run(number).lock
                stack.enter_context(RunLock(lock, name, patience_s=_TIMEOUT_S))
            summaries += _play_together(plan.of_run(group[0]), folder, group, models, emit, stop)
    return summaries


def _play_together(
    plan: SearchPlan,
    folder: SearchFolder,
    numbers: Sequence[int],
    models: Models | None,
    emit: Listener,
    stop: Callable[[], bool],
) -> list[SearchRunSummary]:
    """Advance runs with batched episodes and return the results of the finished runs.

    The results of a run do not depend on the other runs in the batch.
    """
    player, started = plan.player(), time.monotonic()
    summaries: list[SearchRunSummary] = []

    def report(run: int, iteration: SearchIteration) -> None:
        selected = iteration.candidate(iteration.selected).mean
        known = iteration.model_dump(include={"number", "episodes", "winner", "note"})
        more = {"selected": selected, "incumbent": iteration.incumbent_mean}
        emit(SearchIterationEnd(run=run, budget=plan.budget, **known, **more))

    runs = {
        number: SearchRun(plan, number, models, stop, partial(report, number)) for number in numbers
    }
    key = f"{plan.protocol.key}-{plan.config.seed}"
    loops = {
        number: Loop(Journal(folder.run(number).journal, f"{key}-{number}"), run).steps()
        for number, run in runs.items()
    }
    waiting: dict[int, PolicyTrial] = {}

    def send(number: int, rollouts: Rollouts | None) -> None:
        try:
            # A generator that has not started must be sent None.
            waiting[number] = loops[number].send(rollouts)
        except StopIteration:
            waiting.pop(number, None)
            if runs[number].is_over and runs[number].done:
                seconds = time.monotonic() - started
                summary = summarize_search_run(
                    plan, player, number, runs[number].done, "completed", seconds
                )
                write_json(folder.run(number).summary, summary)
                summaries.append(summary)
                emit(summary)

    try:
        for number in loops:
            send(number, None)
        while waiting:
            playing = list(waiting)
            played = player.play(list(waiting.values()))
            for number, rollouts in zip(playing, played, strict=True):
                send(number, rollouts)
    except Cancelled:
        pass  # stopped while waiting for a model; the journals contain the rest
    return summaries


def _fresh_evaluation(
    plan: SearchPlan, player: Player, params: tuple[float, ...], run: int
) -> HeldOutReturn:
    """Evaluate a policy on fresh episodes, which all methods share for each task and run."""
    count = 1 if plan.task.is_deterministic else plan.config.fresh_episodes
    seeds = rollout_seeds(derive("fresh", plan.task.id, plan.config.seed, run), count)
    (rollouts,) = player.play([PolicyTrial(np.array([params]), seeds[None, :])])
    returns = rollouts.returns[0]
    interval = mean_interval(returns, plan.task.worst, plan.task.target)
    return HeldOutReturn(
        mean=float(returns.mean()),
        low=interval.low if interval else None,
        high=interval.high if interval else None,
        episodes=count,
        success=float((returns >= plan.task.solved).mean()),
    )


def summarize_search_run(
    plan: SearchPlan,
    player: Player,
    run: int,
    iterations: Sequence[SearchIteration],
    outcome: SearchOutcome,
    seconds: float,
) -> SearchRunSummary:
    """Summarize a run and evaluate its best policy on fresh episodes."""
    loop = [iteration for iteration in iterations if iteration.number > 0] or list(iterations)
    tried = [candidate for iteration in iterations for candidate in iteration.candidates]
    best = next(each.params for each in tried if each.number == iterations[-1].incumbent)
    calls = [call for iteration in iterations for call in iteration.calls]
    prices = [call.price_usd for call in calls]
    good = next((e for e in loop if e.incumbent_mean >= plan.task.good), None)
    calls_to_good = None
    if good:
        calls_to_good = sum(len(e.calls) for e in iterations if e.number <= good.number)
    means = [candidate.mean for iteration in loop for candidate in iteration.candidates]
    selected = [iteration.candidate(iteration.selected) for iteration in loop]
    last = selected[-1].params
    fresh = _fresh_evaluation(plan, player, best, run)
    final = fresh if last == best else _fresh_evaluation(plan, player, last, run)
    headlines = {
        "all_candidates": float(np.mean(means)),
        "better_of_two": better_of_two(loop, has_revisions=plan.switches.second != "none"),
        "selected": float(np.mean([candidate.mean for candidate in selected])),
        "incumbent": _incumbent_area(loop),
    }
    return SearchRunSummary(
        run=run,
        outcome=outcome,
        method=plan.config.method,
        proposer=plan.label,
        model=plan.config.model or NO_MODEL,
        iterations=len(loop),
        candidates=len(tried),
        episodes=iterations[-1].episodes,
        steps=iterations[-1].steps,
        calls=len(calls),
        price_usd=None if None in prices else float(sum(p for p in prices if p is not None)),
        best=best,
        fresh=fresh,
        final=final if last else None,  # only the best trained network was kept
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
    """Return the mean of the better of two consecutive candidates, as in R2PO.

    Consecutive candidates form pairs. With revisions, pairs are formed only within an iteration. An
    unpaired candidate counts alone.
    """
    means = [[candidate.mean for candidate in each.candidates] for each in iterations]
    groups = means if has_revisions else [[mean for group in means for mean in group]]
    pairs = [group[i : i + 2] for group in groups for i in range(0, len(group), 2)]
    return float(np.mean([max(pair) for pair in pairs]))


def _incumbent_area(iterations: Sequence[SearchIteration]) -> float:
    """Return the incumbent's mean return, averaged over the episode budget."""
    episodes = np.array([0, *(iteration.episodes for iteration in iterations)], dtype=np.float64)
    height = np.array([iteration.incumbent_mean for iteration in iterations])
    width = np.diff(episodes)
    return float((height * width).sum() / max(width.sum(), 1.0))


class Result(NamedTuple):
    """Search with all its iterations."""

    folder: SearchFolder
    plan: SearchPlan
    summary: SearchSummary
    iterations: dict[int, list[SearchIteration]]
    """iterations of each run"""


def load_search(runs_dir: Path, name: str) -> Result:
    """Load a search by name, or raise UsageError if it has no result."""
    folder = SearchFolder(Workspace(runs_dir).find(name, "search").path)
    if not folder.summary.exists():
        raise UsageError(
            f"{folder.name} has no result yet.",
            hint="Rerun its command to resume it.",
        )
    summary = read_record(folder.summary, SearchSummary)
    if not summary.runs:
        raise UsageError(f"No run of {folder.name} finished.")
    plan = make_plan(read_record(folder.config, SearchConfig))
    logs = {run.run: list(folder.run(run.run).read()) for run in summary.runs}
    return Result(folder, plan, summary, logs)
