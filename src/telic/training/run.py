"""Train: do a job in confined processes, in the folder of its run.

`partition` decides which members share a process; each such group is trained by one worker, or by
one on each of its devices. A worker may write to the folders made here and nowhere else: this
process writes what was asked for and what came of it.
"""

from __future__ import annotations

import json
import os
import tempfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from telic.core.events import Event, Listener, LogMessage, TrainProgress, ignore
from telic.envs.access import env_access, import_folders
from telic.errors import (
    Refused,
    SimulatorError,
    TelicError,
    TrainingFailed,
    UsageError,
    WorkerDied,
)
from telic.sandbox.limits import Limits
from telic.storage.files import remove_unfinished, write_json
from telic.storage.layout import RunFolder
from telic.training.folder import create, find_unfinished, new_run, set_status, working_on
from telic.training.job import TrainJob
from telic.training.machine import device_files, is_gpu
from telic.training.partition import MemberGroup, by_process, member_groups
from telic.training.results import RunKeeper, RunSummary, combined, member_folders

if TYPE_CHECKING:
    from telic.sandbox.host import WorkerOptions

_ENTRY = "telic.training.worker"
_OF_A_GROUP = (UsageError, Refused, SimulatorError, WorkerDied, TrainingFailed)
"""errors that a reward or its process can cause; they do not end the other groups"""
_MEMORY_SHARE = 0.75
_ARENA_BYTES = 64 << 20
"""more than MuJoCo sets aside for a simulation of any common robot; hardly any of it is used"""


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


class _Order(NamedTuple):
    """How a job is to be done."""

    folder: RunFolder
    should_stop: Callable[[], bool]
    should_wait: Callable[[], bool] | None
    confined: bool


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
    """Do a job, or resume the same job where it was interrupted.

    Args:
        job: what to train.
        runs_dir: where run folders are.
        name: name of the run folder; None: made from the time.
        fresh: start from scratch even if this very job was interrupted before.
        confined: work in confined workers; False: in this process.
        on_event: called with every event.
        should_stop: polled between updates.
        should_wait: polled; as long as it is True, a confined worker is suspended.
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
        order = _Order(folder, should_stop, should_wait, confined)
        summary = _train(job, order, on_event)
        set_status(folder, summary.status, videos=videos)
    return Run(folder.path, summary.model_dump())


def _train(job: TrainJob, order: _Order, on_event: Listener) -> RunSummary:
    groups = member_groups(job, order.folder)
    if len(groups) > 1:
        with _importing_once(order):
            return _train_groups(job, groups, order, on_event)
    with RunKeeper(job, order.folder, on_event) as keeper:
        _train_group(groups[0], order, keeper)
        return keeper.summary()


def _train_groups(
    job: TrainJob, groups: list[MemberGroup], order: _Order, on_event: Listener
) -> RunSummary:
    """Train the groups of each device one after another, those of different devices at once.

    A group that fails does not end the others: the first failure is raised at the end.
    """
    places = len(job.devices) if job.devices and order.confined else 1
    joint = JointProgress([len(group.job.members) for group in groups], places)
    one_at_a_time = threading.Lock()

    def listen(event: Event) -> None:
        with one_at_a_time:
            on_event(event)

    def train_on(place: int) -> list[RunSummary | TelicError]:
        results: list[RunSummary | TelicError] = []
        for number in range(place, len(groups), places):
            result = _group_result(groups[number], order, listen, partial(joint.retell, number))
            results.append(result)
            is_summary = isinstance(result, RunSummary)
            if is_summary and result.status == "stopped":
                break
            joint.finish(number, result.training_time_s if is_summary else 0.0)
        return results

    if places == 1:
        by_place = [train_on(0)]  # in this thread, where an interruption arrives
    else:
        with ThreadPoolExecutor(places, thread_name_prefix="device") as pool:
            by_place = list(pool.map(train_on, range(places)))
    parts = [[one for one in results if isinstance(one, RunSummary)] for results in by_place]
    failures = [one for results in by_place for one in results if isinstance(one, TelicError)]
    done = [one for part in parts for one in part]
    is_whole = len(done) == len(groups) and all(part.status == "completed" for part in done)
    status = "failed" if failures else "completed" if is_whole else "stopped"
    seconds = max(sum(one.training_time_s for one in part) for part in parts)
    whole = combined(job, order.folder, done, status, seconds)
    with RunKeeper(job, order.folder, on_event) as keeper:
        if done:
            write_json(order.folder.summary, whole)
            keeper.tell(whole)
    if failures:
        raise failures[0]
    return whole


def _group_result(
    group: MemberGroup, order: _Order, on_event: Listener, retell: Callable[[Event], Event | None]
) -> RunSummary | TelicError:
    """Train a group unless that is done; return its summary, or why there is none."""
    summary = group.finished()
    if summary is not None:
        return summary
    with RunKeeper(group.job, order.folder, on_event, result=group.result, retell=retell) as keeper:
        try:
            _train_group(group, order, keeper)
            return keeper.summary()
        except _OF_A_GROUP as error:
            names = ", ".join(reward.name for reward in group.job.rewards)
            keeper.tell(LogMessage(message=f"{names} cannot be trained: {error}"))
            return error


class JointProgress:
    """Turns the progress of groups into that of their run."""

    def __init__(self, members: Sequence[int], places: int) -> None:
        """Start with nothing trained.

        Args:
            members: how many each group has.
            places: devices; group i is trained on device i modulo their number.
        """
        self._members, self._places = members, places
        self._latest: dict[int, TrainProgress] = {}
        self._finished: dict[int, float] = {}
        self._lock = threading.Lock()

    def finish(self, group: int, seconds: float) -> None:
        """Count a group as trained, in so many seconds."""
        with self._lock:
            self._finished[group] = seconds

    def retell(self, group: int, event: Event) -> Event | None:
        """Return what an event of a group means for the run; None: nothing yet."""
        if isinstance(event, RunSummary):
            return None
        if not isinstance(event, TrainProgress):
            return event
        with self._lock:
            self._latest[group] = event
            places = [self._place(place, event.total_steps) for place in range(self._places)]
            returns = {k: v for one in self._latest.values() for k, v in one.returns.items()}
        left = [place.seconds_left for place in places]
        return event.model_copy(
            update={
                "step": sum(place.trained for place in places) // sum(self._members),
                "steps_per_second": sum(place.rate for place in places) or None,
                "seconds": max(place.seconds for place in places),
                "seconds_left": None if None in left else max(filter(None, left), default=0.0),
                "returns": returns,
            }
        )

    def _place(self, place: int, total: int) -> _PlaceProgress:
        """Add up the groups of a device, of which one runs at a time."""
        trained, steps, rate, seconds = 0, 0, 0.0, 0.0
        for group in range(place, len(self._members), self._places):
            members, latest = self._members[group], self._latest.get(group)
            steps += members * total
            if group in self._finished:
                trained += members * total
                seconds += self._finished[group]
            elif latest is not None:
                trained += members * latest.step
                seconds += latest.seconds
                rate = latest.steps_per_second or 0.0
        left = 0.0 if trained == steps else (steps - trained) / rate if rate else None
        return _PlaceProgress(trained, rate, seconds, left)


class _PlaceProgress(NamedTuple):
    """How far the groups of one device are."""

    trained: int
    """steps of all members"""
    rate: float
    seconds: float
    seconds_left: float | None


# ---- the processes of a group


def _importing_once(order: _Order) -> AbstractContextManager[None]:
    """Let workers be forks of a process that has imported already."""
    from telic.sandbox.nursery import prewarmed

    return prewarmed((_ENTRY,)) if order.confined else nullcontext()


def _train_group(group: MemberGroup, order: _Order, keeper: RunKeeper) -> None:
    """Let one process train the members of a group, or one on each of its devices."""
    folders = prepare_folders(group, order.folder)
    if not order.confined:
        from telic.training import worker

        payload = _payload(group, group.job, order)
        channel = LocalChannel(keeper.hear, order.should_stop)
        worker.run(worker.prepare(payload, channel), payload, channel)
    elif len(group.job.devices) > 1:
        with _importing_once(order):
            _train_together(group, order, keeper, folders)
    else:
        from telic.sandbox.host import run_worker

        run_worker(
            _ENTRY,
            _payload(group, group.job, order),
            writable=folders,
            on_message=keeper.hear,
            should_stop=order.should_stop,
            should_wait=order.should_wait,
            **_worker_options(group.job, order),
        )


def _payload(group: MemberGroup, job: TrainJob, order: _Order) -> dict[str, Any]:
    return {
        "job": job.model_dump(mode="json"),
        "run": str(order.folder.path.absolute()),
        "state": str(group.state.absolute()),
    }


def _worker_options(job: TrainJob, order: _Order) -> WorkerOptions:
    """Return what a worker may use."""
    started_from = {Path(one.start).absolute().parent for one in job.members if one.start}
    installed = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    simulations = (job.settings.num_envs + job.eval_episodes) * len(job.members)
    return {
        "log": order.folder.worker_log,
        "readable": sorted(started_from.union(env_access(job.env, job.env_args).readable)),
        "devices": device_files() if is_gpu(job) else (),
        "python_path": import_folders(job.env),
        "limits": Limits(
            memory_bytes=max(Limits().memory_bytes, int(_MEMORY_SHARE * installed)),
            reserved_bytes=simulations * _ARENA_BYTES,
        ),
    }


def _train_together(
    group: MemberGroup, order: _Order, keeper: RunKeeper, folders: list[Path]
) -> None:
    """Let one process on each device train the same members, each with some of the environments.

    The first one reports; where one ends too soon, the others are ended, too.
    """
    from telic.sandbox.host import Worker
    from telic.sandbox.host import ignore as ignore_message
    from telic.training.group import SharedMemory

    jobs = by_process(group.job)
    with tempfile.TemporaryDirectory() as meeting:
        SharedMemory.make(Path(meeting), len(jobs))
        workers = [
            Worker(
                _ENTRY,
                {
                    **_payload(group, job, order),
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
                if failures:  # the others wait for the one that ended
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
    """Add to an error which of several processes it ended."""
    if not isinstance(error, WorkerDied):
        return error
    return WorkerDied(
        f"Process {rank + 1} of {size} that train together ended, and the others with it: "
        f"{error.message}",
        hint=f"Run the same command again: it resumes from the last save. {error.hint or ''}",
    )


def prepare_folders(group: MemberGroup, run: RunFolder) -> list[Path]:
    """Make the folders that a worker fills, and return them; the first is its working folder."""
    members = member_folders(group.job, run)
    folders = [group.state.parent, *(folder for member in members for folder in member.filled())]
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
    if run.earlier_state.exists():
        os.replace(run.earlier_state, run.state)
    return [folder.absolute() for folder in folders]


class LocalChannel:
    """Stands in for the worker's connection when training happens in this process."""

    def __init__(
        self, hear: Callable[[dict[str, Any]], None], should_stop: Callable[[], bool]
    ) -> None:
        self._hear = hear
        self.should_stop = should_stop

    def send(self, message: dict[str, Any]) -> None:
        """Pass a message on as a pipe does: what JSON makes of it."""
        self._hear(json.loads(json.dumps(message)))

    def heartbeat(self, seconds: float, doing: str = "") -> None:
        """Ignore it: no other process is watching."""
