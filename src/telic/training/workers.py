"""The processes that train a cell: start them confined, hear them, and end them together.

A worker may write to the folders made here and nowhere else. Where a cell has several devices, each
has a worker that simulates its share of every member's environments (`group`).
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from telic.envs.access import env_access, import_folders
from telic.errors import WorkerDied
from telic.sandbox.limits import Limits
from telic.storage.layout import RunFolder
from telic.training.cells import Cell, by_process
from telic.training.job import TrainJob
from telic.training.machine import device_files, is_gpu
from telic.training.results import RunKeeper, member_folders

if TYPE_CHECKING:
    from telic.sandbox.host import WorkerOptions

_MEMORY_SHARE = 0.75
_ARENA_BYTES = 64 << 20
"""more than MuJoCo sets aside for a simulation of any common robot; hardly any of it is used"""


class Order(NamedTuple):
    """How a job shall be done."""

    entry: str
    """module of the worker"""
    folder: RunFolder
    should_stop: Callable[[], bool]
    should_wait: Callable[[], bool] | None
    confined: bool
    more: dict[str, Any]
    """what else the worker is told"""


def importing_once(order: Order) -> AbstractContextManager[None]:
    """Let workers be forks of a process that has imported already, instead of importing each."""
    from telic.sandbox.nursery import prewarmed

    return prewarmed((order.entry,)) if order.confined else nullcontext()


def work_on(cell: Cell, order: Order, keeper: RunKeeper) -> None:
    """Let one process train the members of a cell, or one on each of its devices."""
    folders = prepare_folders(cell, order.folder)
    if not order.confined:
        payload = _payload(cell, cell.job, order)
        module = import_module(order.entry)
        channel = LocalChannel(keeper.hear, order.should_stop)
        module.run(module.prepare(payload, channel), payload, channel)
    elif len(cell.job.devices) > 1:
        with importing_once(order):
            _work_together(cell, order, keeper, folders)
    else:
        from telic.sandbox.host import run_worker

        run_worker(
            order.entry,
            _payload(cell, cell.job, order),
            writable=folders,
            on_message=keeper.hear,
            should_stop=order.should_stop,
            should_wait=order.should_wait,
            **_worker_options(cell.job, order),
        )


def _payload(cell: Cell, job: TrainJob, order: Order) -> dict[str, Any]:
    """Return what a worker is told."""
    return {
        "job": job.model_dump(mode="json"),
        "run": str(order.folder.path.absolute()),
        "state": str(cell.state.absolute()),
        **order.more,
    }


def _worker_options(job: TrainJob, order: Order) -> WorkerOptions:
    """Return what a worker may use."""
    return {
        "log": order.folder.worker_log,
        "readable": readable_paths(job),
        "devices": device_files() if is_gpu(job) else (),
        "python_path": import_folders(job.env),
        "limits": worker_limits(job),
    }


def _work_together(cell: Cell, order: Order, keeper: RunKeeper, folders: list[Path]) -> None:
    """Let one process on each device train the same members, each with some environments of theirs.

    What one of them tells is the first one's; where one ends too soon, the others are ended, too.
    """
    from telic.sandbox.host import Worker
    from telic.sandbox.host import ignore as ignore_message
    from telic.training.group import SharedMemory

    jobs = by_process(cell.job)
    with tempfile.TemporaryDirectory() as meeting:
        SharedMemory.make(Path(meeting), len(jobs))
        workers = [
            Worker(
                order.entry,
                {
                    **_payload(cell, job, order),
                    "share": {"rank": rank, "size": len(jobs), "folder": meeting},
                },
                writable=folders,
                **_worker_options(job, order),
            )
            for rank, job in enumerate(jobs)
        ]
        failures: list[BaseException] = []

        def train(rank: int) -> None:
            def should_stop() -> bool:
                if failures:  # one that ended leaves the others waiting
                    raise failures[0]
                return rank == 0 and order.should_stop()

            try:
                hear = keeper.hear if rank == 0 else ignore_message
                workers[rank].run(hear, should_stop, order.should_wait)
            except BaseException as error:
                if not failures:
                    failures.append(_of_process(error, rank, len(jobs)))
                raise failures[0] from None

        with ThreadPoolExecutor(len(jobs), thread_name_prefix="process") as pool:
            others = [pool.submit(train, rank) for rank in range(1, len(jobs))]
            train(0)  # in this thread, where an interruption arrives
            for other in others:
                other.result()


def _of_process(error: BaseException, rank: int, size: int) -> BaseException:
    """Say of an error that it ended one of several processes."""
    if not isinstance(error, WorkerDied):
        return error
    return WorkerDied(
        f"Process {rank + 1} of {size} that train together ended, and the others with it: "
        f"{error.message}",
        hint=f"Run the same command again: it goes on from the last save. {error.hint or ''}",
    )


def prepare_folders(cell: Cell, run: RunFolder) -> list[Path]:
    """Make the folders that a worker fills, and return them; the first is its working folder."""
    members = member_folders(cell.job, run)
    folders = [cell.state.parent, *(folder for member in members for folder in member.filled())]
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
    if run.earlier_state.exists():
        os.replace(run.earlier_state, run.state)
    return [folder.absolute() for folder in folders]


def worker_limits(job: TrainJob) -> Limits:
    """Return what training may use: most of the memory, and room for every simulation's arena."""
    installed = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    simulations = (job.settings.num_envs + job.eval_episodes) * len(job.members)
    return Limits(
        memory_bytes=max(Limits().memory_bytes, int(_MEMORY_SHARE * installed)),
        reserved_bytes=simulations * _ARENA_BYTES,
    )


class LocalChannel:
    """Stands in for the worker's connection when training happens in this process."""

    def __init__(
        self, hear: Callable[[dict[str, Any]], None], should_stop: Callable[[], bool]
    ) -> None:
        self._hear = hear
        self._should_stop = should_stop

    def send(self, message: dict[str, Any]) -> None:
        """Pass a message on as a pipe does: what JSON makes of it."""
        self._hear(json.loads(json.dumps(message)))

    def should_stop(self) -> bool:
        """Ask the caller."""
        return self._should_stop()

    def heartbeat(self, seconds: float, doing: str = "") -> None:
        """Nobody watches a process from inside."""


def readable_paths(job: TrainJob) -> list[Path]:
    """Return folders that the worker must read: that of a model file, of policies to go on from."""
    folders = {Path(member.start).absolute().parent for member in job.members if member.start}
    return sorted(folders.union(env_access(job.env, job.env_args).readable))
