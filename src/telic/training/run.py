"""Train: do a job in confined workers, in the folder of its run.

Who may share a worker is said by `cells`, and how one is started by `workers`. What says what was
asked for, and what came of it, is written by this process.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from telic.core.events import Event, Listener, LogMessage, TrainEnd, from_facts, ignore
from telic.errors import (
    Refused,
    SimulatorError,
    TelicError,
    TrainingFailed,
    UsageError,
    WorkerDied,
)
from telic.storage.files import remove_unfinished, write_json
from telic.storage.layout import RunFolder
from telic.training.cells import Cell, JointProgress, Share, cells_of
from telic.training.folder import create, find_unfinished, new_run, set_status, working_on
from telic.training.job import TrainJob
from telic.training.results import RunKeeper, RunSummary, combined
from telic.training.workers import Order, importing_once, work_on

_OF_A_CELL = (UsageError, Refused, SimulatorError, WorkerDied, TrainingFailed)
"""what a reward or its process can be the cause of"""


class Run(NamedTuple):
    """A finished or stopped run."""

    path: Path
    summary: dict[str, Any]
    videos: tuple[Path, ...] = ()

    def as_data(self) -> dict[str, Any]:
        """Return the result as plain data."""
        videos = [str(video) for video in self.videos]
        return {**self.summary, "path": str(self.path), "videos": videos}

    @property
    def status(self) -> str:
        """completed, stopped or failed."""
        return self.summary["status"]

    @property
    def best_return(self) -> float | None:
        """Mean return of the best member's best evaluation."""
        return self.summary["best_return"]

    def policy(self) -> Any:
        """Return the best policy."""
        from telic.training.policy import load_policy

        return load_policy(self.path)


def execute(
    job: TrainJob,
    runs_dir: Path,
    *,
    name: str | None = None,
    fresh: bool = False,
    confined: bool = True,
    on_event: Listener = ignore,
    should_stop: Callable[[], bool] = lambda: False,
    should_wait: Callable[[], bool] | None = None,
    command: str | None = None,
    videos: str | None = None,
) -> Run:
    """Do a job, or go on with the same job where it was interrupted.

    Args:
        job: what to train.
        runs_dir: where run folders are.
        name: name of the run folder; None: made from the time.
        fresh: start anew even if this very job was interrupted before.
        confined: work in the confined worker; False: in this process.
        on_event: called with every event.
        should_stop: polled between updates.
        should_wait: polled; as long as it is True, a confined worker stands still.
        command: the command line that asked for this, kept in the manifest.
        videos: those that are drawn afterwards; until they are, the run's status says so.
    """
    found = find_unfinished(job, runs_dir, name) if not fresh else None
    folder = found or new_run(runs_dir, name)
    with working_on(folder, is_new=found is None):
        if found is None:
            create(job, folder, command, confined=confined)
        remove_unfinished(folder.path)
        folder.stop.unlink(missing_ok=True)
        entry = "telic.training.worker"
        summary = work(entry, job, folder, on_event, should_stop, should_wait, confined=confined)
        set_status(folder, summary["status"], videos=videos)
    return Run(folder.path, summary)


def work(
    entry: str,
    job: TrainJob,
    folder: RunFolder,
    on_event: Listener,
    should_stop: Callable[[], bool],
    should_wait: Callable[[], bool] | None = None,
    *,
    confined: bool,
    **more: Any,
) -> dict[str, Any]:
    """Do a job in workers whose module is `entry`; return the run's summary."""
    order = Order(entry, folder, should_stop, should_wait, confined, more)
    cells = cells_of(job, folder)
    if len(cells) == 1:
        with RunKeeper(job, folder, on_event) as keeper:
            work_on(cells[0], order, keeper)
            return keeper.summary().model_dump()
    with importing_once(order):
        if job.devices and confined:
            return _work_at_once(job, cells, order, on_event).model_dump()
        return _work_apart(job, cells, order, on_event).model_dump()


def _work_apart(job: TrainJob, cells: list[Cell], order: Order, on_event: Listener) -> RunSummary:
    """Train one cell after the other; one that fails costs the others nothing.

    Raises the first failure once the others are trained.
    """
    folder = order.folder
    parts: list[RunSummary] = []
    failures: list[TelicError] = []
    before = 0
    for cell in cells:
        members = len(cell.job.members)
        share = Share(before, members, len(job.members), sum(p.training_time_s for p in parts))
        result = _cell_result(cell, order, on_event, share.retell)
        if isinstance(result, TelicError):
            failures.append(result)
        else:
            parts.append(result)
            if result.status == "stopped":
                break
        before += members
    return _whole(job, cells, folder, parts, failures, on_event)


def _work_at_once(job: TrainJob, cells: list[Cell], order: Order, on_event: Listener) -> RunSummary:
    """Train on all devices at once, the cells of one device one after the other.

    Raises the first failure once the others are trained.
    """
    joint = JointProgress([len(cell.job.members) for cell in cells])
    one_at_a_time = threading.Lock()

    def listen(event: Event) -> None:
        with one_at_a_time:
            on_event(event)

    def train_on(place: int) -> list[RunSummary | TelicError]:
        results: list[RunSummary | TelicError] = []
        for number in range(place, len(cells), len(job.devices)):
            retell = partial(joint.retell, number)
            results.append(_cell_result(cells[number], order, listen, retell))
            if isinstance(results[-1], RunSummary) and results[-1].status == "stopped":
                break
        return results

    with ThreadPoolExecutor(len(job.devices), thread_name_prefix="device") as pool:
        by_device = list(pool.map(train_on, range(len(job.devices))))
    results = [result for device in by_device for result in device]
    parts = [result for result in results if isinstance(result, RunSummary)]
    failures = [result for result in results if isinstance(result, TelicError)]
    times = [
        sum(result.training_time_s for result in device if isinstance(result, RunSummary))
        for device in by_device
    ]
    return _whole(job, cells, order.folder, parts, failures, on_event, max(times))


def _cell_result(
    cell: Cell, order: Order, on_event: Listener, retell: Callable[[Event], Event | None]
) -> RunSummary | TelicError:
    """Train a cell unless that is done; return its result, or why there is none."""
    summary = cell.finished()
    if summary is not None:
        return summary
    with RunKeeper(cell.job, order.folder, on_event, result=cell.result, retell=retell) as keeper:
        try:
            work_on(cell, order, keeper)
            return keeper.summary()
        except _OF_A_CELL as error:
            names = ", ".join(reward.name for reward in cell.job.rewards)
            keeper.tell(LogMessage(message=f"{names} cannot be trained: {error}"))
            return error


def _whole(
    job: TrainJob,
    cells: list[Cell],
    folder: RunFolder,
    parts: list[RunSummary],
    failures: list[TelicError],
    on_event: Listener,
    seconds: float | None = None,
) -> RunSummary:
    """Write the summary of all cells; raise the first failure."""
    is_whole = len(parts) == len(cells) and all(part.status == "completed" for part in parts)
    status = "failed" if failures else "completed" if is_whole else "stopped"
    whole = combined(job, folder, parts, status, seconds)
    with RunKeeper(job, folder, on_event) as keeper:
        if parts:
            write_json(folder.summary, whole)
            keeper.tell(from_facts(TrainEnd, whole.model_dump()))
    if failures:
        raise failures[0]
    return whole
