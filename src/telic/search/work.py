"""Do runs of a search together: take up their logs, drive them, write what they come to."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from telic.core.events import Listener, ignore
from telic.llm import Cancelled, Models
from telic.search.drive import drive
from telic.search.folder import SearchFolder
from telic.search.loop import search
from telic.search.plan import make_plan
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
    work = _Work(config, SearchFolder(path), numbers, tell)
    stop = should_stop or work.folder.stop.exists
    runs = {
        n: search(Run(work.plan, n, models), list(work.done[n]), partial(work.record, n), stop)
        for n in numbers
    }
    try:
        drive(runs, work.player, work.end)
    except Cancelled:
        pass  # somebody asked to stop while a model was being waited for; the logs have the rest
    finally:
        work.close()
    return work.summaries


class _Work:
    """The open logs of some runs."""

    def __init__(
        self, config: SearchConfig, folder: SearchFolder, numbers: Sequence[int], tell: Listener
    ) -> None:
        self.folder, self.plan, self._tell = folder, make_plan(config), tell
        self.player = self.plan.player()
        self._started = time.monotonic()
        self._logs = {number: JsonLines(folder.run(number).iterations) for number in numbers}
        self.done: dict[int, list[Iteration]] = {n: list(folder.run(n).read()) for n in numbers}
        self.summaries: list[RunSummary] = []

    def record(self, number: int, iteration: Iteration) -> None:
        """Write down a finished iteration."""
        self._logs[number].append(iteration.model_dump(mode="json"))
        self.done[number].append(iteration)
        self._tell({
            "event": "search.iteration", "run": number, "number": iteration.number,
            "episodes": iteration.episodes, "budget": self.plan.budget,
            "selected": iteration.candidate(iteration.selected).mean,
            "incumbent": iteration.incumbent_mean, "winner": iteration.winner,
            "note": iteration.note,
        })  # fmt: skip

    def end(self, number: int, outcome: Outcome) -> None:
        """Measure the best policy of a run that came to its end."""
        if outcome != "completed" or not self.done[number]:
            return
        seconds = time.monotonic() - self._started
        summary = summarise(self.plan, self.player, number, self.done[number], outcome, seconds)
        write_json(self.folder.run(number).summary, summary)
        self.summaries.append(summary)
        self._tell({"event": "search.run", **summary.model_dump(mode="json")})

    def close(self) -> None:
        """Close the logs."""
        for log in self._logs.values():
            log.close()
