"""A finished search, read back."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from telic.errors import UsageError
from telic.search.folder import SearchFolder, find_search
from telic.search.plan import Plan, make_plan
from telic.search.records import Iteration, SearchConfig, SearchSummary
from telic.storage.files import read_record


class Result(NamedTuple):
    """A search and everything that was tried in it."""

    folder: SearchFolder
    plan: Plan
    summary: SearchSummary
    iterations: dict[int, list[Iteration]]
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
