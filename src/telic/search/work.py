"""Do runs of a search together: take up their logs, drive them, write what they come to."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from telic.core.events import Listener, SearchIterationEnd, SearchRunEnd, from_facts, ignore
from telic.llm import Cancelled, Models
from telic.search.drive import drive
from telic.search.folder import SearchFolder
from telic.search.loop import search
from telic.search.plan import Plan, make_plan
from telic.search.records import Iteration, Outcome, RunSummary, SearchConfig
from telic.search.run import Run
from telic.search.summarise import summarise
from telic.storage.files import JsonLines, write_json


def do_runs(
    config: SearchConfig,
    path: Path,
    numbers: Sequence[int],
    *,
    models: Models | None = None,
    tell: Listener = ignore,
    should_stop: Callable[[], bool] | None = None,
) -> list[RunSummary]:
    """Do runs of a search, or go on with them, and return what those came to that ended.

    Without `should_stop` only the folder's stop file ends them: so it is in a process of its own.
    """
    folder, plan = SearchFolder(path), make_plan(config)
    stop = should_stop or folder.stop.exists
    companies = [numbers] if plan.is_shared else [[number] for number in numbers]
    summaries: list[RunSummary] = []
    for company in companies:
        work = _Work(plan.of_run(company[0]), folder, company, tell)
        summaries += work.do(models, stop)
    return summaries


class _Work:
    """The open logs of runs that are played together."""

    def __init__(
        self, plan: Plan, folder: SearchFolder, numbers: Sequence[int], tell: Listener
    ) -> None:
        self.folder, self.plan, self._tell = folder, plan, tell
        self.player = self.plan.player()
        self._started = time.monotonic()
        self._logs = {number: JsonLines(folder.run(number).iterations) for number in numbers}
        self.done: dict[int, list[Iteration]] = {n: list(folder.run(n).read()) for n in numbers}
        self.summaries: list[RunSummary] = []

    def do(self, models: Models | None, stop: Callable[[], bool]) -> list[RunSummary]:
        """Drive the runs as far as they get."""
        runs = {
            n: search(Run(self.plan, n, models), list(done), partial(self.record, n), stop)
            for n, done in self.done.items()
        }
        try:
            drive(runs, self.player, self.end)
        except Cancelled:
            pass  # somebody asked to stop while a model was waited for; the logs have the rest
        finally:
            self.close()
        return self.summaries

    def record(self, number: int, iteration: Iteration) -> None:
        """Write down a finished iteration."""
        self._logs[number].append(iteration.model_dump(mode="json"))
        self.done[number].append(iteration)
        self._tell(
            SearchIterationEnd(
                run=number,
                number=iteration.number,
                episodes=iteration.episodes,
                budget=self.plan.budget,
                selected=iteration.candidate(iteration.selected).mean,
                incumbent=iteration.incumbent_mean,
                winner=iteration.winner,
                note=iteration.note,
            )
        )

    def end(self, number: int, outcome: Outcome) -> None:
        """Measure the best policy of a run that came to its end."""
        if outcome != "completed" or not self.done[number]:
            return
        seconds = time.monotonic() - self._started
        summary = summarise(self.plan, self.player, number, self.done[number], outcome, seconds)
        write_json(self.folder.run(number).summary, summary)
        self.summaries.append(summary)
        self._tell(from_facts(SearchRunEnd, summary.model_dump(mode="json")))

    def close(self) -> None:
        """Close the logs."""
        for log in self._logs.values():
            log.close()
