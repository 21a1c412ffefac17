"""Run training jobs in sandboxed worker processes.

Members that share a process (`job.processes`) form a group that one worker trains. The host creates
the folders to which a worker can write, and writes the request and the results itself.
"""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

from telic import training
from telic.core.events import Event, Listener, LogMessage, TrainProgress, ignore
from telic.envs.access import env_access
from telic.envs.simulators.names import named_code
from telic.errors import Refused, SimulatorError, TelicError, TrainingFailed, UsageError, WorkerDied
from telic.report.charts import ChartLine, LineChart, Point, picture
from telic.report.html import data_uri
from telic.sandbox import fork_server, host
from telic.sandbox.limits import Limits
from telic.sandbox.worker import HostChannel
from telic.storage.files import (
    JsonLines,
    read_json,
    read_json_lines,
    read_record,
    remove_unfinished,
    write_json,
)
from telic.storage.keys import require_permitted
from telic.storage.layout import RunFolder
from telic.storage.scalars import read_columns
from telic.training.folder import create_run, find_unfinished, new_run, set_status, working_on
from telic.training.job import MemberGroup, TrainJob, member_groups
from telic.training.machine import device_files
from telic.training.results import RunSummary, RunWriter, member_folders

_ENTRY = "telic.training._worker"
_OF_A_GROUP = (UsageError, Refused, SimulatorError, WorkerDied, TrainingFailed)
"""errors caused by a reward or its process, after which the other groups continue"""
_MEMORY_SHARE = 0.75
_ARENA_BYTES = 64 << 20
"""upper bound on the MuJoCo arena of common robots, most of which remains untouched"""


class Run(NamedTuple):
    """Finished or stopped run."""

    path: Path
    summary: dict[str, Any]
    videos: tuple[Path, ...] = ()

    def as_data(self) -> dict[str, Any]:
        """Return the run as JSON-compatible data."""
        videos = [str(video) for video in self.videos]
        return {**self.summary, "path": str(self.path), "videos": videos}

    @property
    def status(self) -> str:
        """Status of the run: completed, stopped or failed."""
        return self.summary["status"]

    @property
    def best_return(self) -> float | None:
        """Mean return of the best member's best evaluation."""
        return self.summary["best_return"]

    def policy(self) -> Any:
        """Load the best policy."""
        return training.policy.load_policy(self.path)

    def _repr_html_(self) -> str:
        """Show the learning curves and the video of the median episode in a notebook."""
        lines = []
        for member in RunFolder(self.path).members():
            columns = read_columns(member.scalars, ["global_step", "episodic_return"]).values()
            points = [Point(x or 0.0, y, y, y) for x, y in zip(*columns, strict=True) if y]
            lines.append(ChartLine(member.name, points))
        chart = LineChart("return", tuple(lines), "environment steps", "training return")
        shown = sorted(self.videos, key=lambda video: "median" not in video.name)[:1]
        videos = [f'<video controls src="{data_uri(video, 1 << 23)}"></video>' for video in shown]
        return "".join((picture(chart, self.path.name), *videos))


class _Order(NamedTuple):
    """Execution options of a job."""

    folder: RunFolder
    should_stop: Callable[[], bool]
    should_wait: Callable[[], bool] | None
    confined: bool


def execute(
    job: TrainJob,
    runs_dir: Path,
    *,
    name: str | None = None,
    found: Path | None = None,
    fresh: bool = False,
    confined: bool = True,
    on_event: Listener = ignore,
    should_stop: Callable[[], bool] = lambda: False,
    should_wait: Callable[[], bool] | None = None,
    command: str | None = None,
    videos: str | None = None,
) -> Run:
    """Run a job, or resume it if an identical job was interrupted.

    Args:
        job: training job to run.
        runs_dir: parent directory of run folders.
        name: name of the run folder. Defaults to a timestamp and a random suffix.
        found: run to resume, which may be of another user.
        fresh: whether to start from scratch instead of resuming.
        confined: whether to train in sandboxed workers instead of this process.
        on_event: function called with every event.
        should_stop: function called between updates, which stops training by returning True.
        should_wait: function that suspends a sandboxed worker while it returns True.
        command: command line to record in the manifest.
        videos: videos to render afterward, recorded in the status until they are done.
    """
    trusted = [reward.code for reward in job.rewards if reward.trusted]
    require_permitted(*named_code(job.env, job.env_args), *trusted)
    resumed = find_unfinished(job, runs_dir, name, found) if not fresh else None
    folder = resumed or new_run(runs_dir, name)
    with working_on(folder, is_new=resumed is None):
        if resumed is None:
            create_run(job, folder, command, confined=confined)
        remove_unfinished(folder.path)
        folder.stop.unlink(missing_ok=True)
        order = _Order(folder, should_stop, should_wait, confined)
        groups = member_groups(job, folder)
        if len(groups) == 1:
            with RunWriter(job, folder, on_event) as keeper:
                _train_group(groups[0], order, keeper)
                summary = keeper.summary()
        else:  # workers fork from a process with preloaded imports
            with fork_server.prewarmed((_ENTRY,)) if confined else nullcontext():
                summary = _train_groups(job, groups, order, on_event)
        set_status(folder, summary.status, videos=videos)
    return Run(folder.path, summary.model_dump())


def _train_groups(
    job: TrainJob, groups: list[MemberGroup], order: _Order, on_event: Listener
) -> RunSummary:
    """Train the groups of each device sequentially, and all devices in parallel.

    If a group fails, the other groups continue training, and the first error is raised at the end.
    """
    devices = len(job.devices) if job.devices and order.confined else 1
    joint = JointProgress([len(group.job.members) for group in groups], devices)
    one_at_a_time = threading.Lock()

    def listen(event: Event) -> None:
        with one_at_a_time:
            on_event(event)

    def train(number: int) -> RunSummary | TelicError:
        """Train a group unless it is complete and return its summary or the error."""
        group = groups[number]
        if group.result.exists():
            summary = read_record(group.result, RunSummary)
            if summary.status == "completed":
                return summary
        with RunWriter(
            group.job,
            order.folder,
            listen,
            result=group.result,
            translate=lambda event: joint.translate(number, event),
        ) as keeper:
            try:
                _train_group(group, order, keeper)
                return keeper.summary()
            except _OF_A_GROUP as error:
                names = ", ".join(reward.name for reward in group.job.rewards)
                keeper.emit(LogMessage(message=f"{names} cannot be trained: {error}"))
                return error

    def train_on(device: int) -> list[RunSummary | TelicError]:
        results: list[RunSummary | TelicError] = []
        for number in range(device, len(groups), devices):
            results.append(train(number))
            if isinstance(last := results[-1], RunSummary) and last.status == "stopped":
                break
            joint.finish(number)
        return results

    if devices == 1:
        by_device = [train_on(0)]  # main thread, which receives KeyboardInterrupt
    else:
        with ThreadPoolExecutor(devices, thread_name_prefix="device") as pool:
            by_device = list(pool.map(train_on, range(devices)))
    parts = [[one for one in results if isinstance(one, RunSummary)] for results in by_device]
    failures = [one for results in by_device for one in results if isinstance(one, TelicError)]
    done = [one for part in parts for one in part]
    is_whole = len(done) == len(groups) and all(part.status == "completed" for part in done)
    whole = RunSummary.of(
        (order.folder.name, job.env),
        "failed" if failures else "completed" if is_whole else "stopped",
        sum(one.total_timesteps for one in done),
        max(sum(one.training_time_s for one in part) for part in parts),
        {one.best_member: one.best_return or 0.0 for one in done if one.best_member is not None},
        [name for one in done for name in one.members],
    )
    if done:
        with RunWriter(job, order.folder, on_event) as keeper:
            write_json(order.folder.summary, whole)
            keeper.emit(whole)
    if failures:
        raise failures[0]
    return whole


def join(
    job: TrainJob,
    runs: Sequence[Run],
    runs_dir: Path,
    name: str | None,
    command: str | None,
    on_event: Listener,
) -> Run:
    """Move completed runs of parts of a job's members into one run."""
    folder, groups = new_run(runs_dir, name), list[list[str]]()
    with working_on(folder, is_new=True):
        for number, run in enumerate(runs):
            part = RunFolder(run.path)
            trained = read_record(part.config, TrainJob)
            groups.append([member.name for member in trained.members])
            for member in member_folders(trained, part):
                target = folder.path / member.path.name
                shutil.copytree(member.path, target, dirs_exist_ok=True)
            write_json(folder.cell_result(number + 1), {**run.summary, "run": folder.name})
            rows = [row for row in read_json_lines(part.events) if row["event"] != RunSummary.NAME]
            with JsonLines(folder.events) as log:
                for row in rows:
                    log.append({**row, "run": folder.name} if "run" in row else row)
        create_run(job, folder, command)
        write_json(folder.manifest, read_json(folder.manifest) | {"processes": groups})
    joined = execute(job, runs_dir, name=folder.name, on_event=on_event)
    for run in runs:
        shutil.rmtree(run.path)
    return joined


class JointProgress:
    """Combine the progress of groups into the progress of their run."""

    def __init__(self, members: Sequence[int], devices: int) -> None:
        """Initialize from the size of each group. Group i trains on device i modulo `devices`."""
        self._members, self._devices = members, devices
        self._latest: dict[int, TrainProgress] = {}
        self._finished: set[int] = set()
        self._lock = threading.Lock()

    def finish(self, group: int) -> None:
        """Mark a group as finished."""
        with self._lock:
            self._finished.add(group)

    def translate(self, group: int, event: Event) -> Event | None:
        """Convert a group's event to an event of the run, or None to drop it."""
        if isinstance(event, RunSummary):
            return None
        if not isinstance(event, TrainProgress):
            return event
        with self._lock:
            self._latest[group] = event
            running = {n: e for n, e in self._latest.items() if n not in self._finished}
            total = event.total_steps
            trained = sum(self._members[number] * total for number in self._finished)
            trained += sum(self._members[number] * one.step for number, one in running.items())
            seconds = [
                sum(e.seconds for n, e in self._latest.items() if n % self._devices == device)
                for device in range(self._devices)
            ]
            returns = {k: v for one in self._latest.values() for k, v in one.returns.items()}
        rate = sum(one.steps_per_second or 0.0 for one in running.values())
        left = sum(self._members) * total - trained
        return event.model_copy(
            update={
                "step": trained // sum(self._members),
                "steps_per_second": rate or None,
                "seconds": max(seconds),
                "seconds_left": left / rate if rate else None,
                "returns": returns,
            }
        )


def _train_group(group: MemberGroup, order: _Order, keeper: RunWriter) -> None:
    """Train the members of a group in one process."""
    job = group.job
    folders, access = prepare_folders(group, order.folder), env_access(job.env, job.env_args)
    payload = {
        "job": job.model_dump(mode="json"),
        "run": str(order.folder.path.absolute()),
        "state": str(group.state.absolute()),
        "imports": list(map(str, access.python_path)),
    }
    if not order.confined:
        from telic.training import _worker  # imports torch

        channel = LocalChannel(keeper.receive, order.should_stop)
        _worker.run(_worker.prepare(payload, channel), payload, channel)
        return
    started_from = {Path(one.start).absolute() for one in job.members if one.start}
    installed = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    simulations = (job.settings.num_envs + job.eval_episodes) * len(job.members)
    host.run_worker(
        _ENTRY,
        payload,
        writable=folders,
        on_message=keeper.receive,
        should_stop=order.should_stop,
        should_wait=order.should_wait,
        log=order.folder.worker_log,
        readable=sorted(started_from.union(access.readable)),
        devices=device_files() if job.on_gpu else (),
        searched=access.python_path,
        limits=Limits(
            memory_bytes=max(Limits().memory_bytes, int(_MEMORY_SHARE * installed)),
            reserved_bytes=simulations * _ARENA_BYTES,
        ),
    )


def prepare_folders(group: MemberGroup, run: RunFolder) -> list[Path]:
    """Create and return the folders a worker writes to, starting with its working directory."""
    members = member_folders(group.job, run)
    folders = [group.state.parent, *(folder for member in members for folder in member.filled())]
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
    return [folder.absolute() for folder in folders]


class LocalChannel(HostChannel):
    """Channel to the host for training in the same process."""

    def __init__(
        self, receive: Callable[[dict[str, Any]], None], should_stop: Callable[[], bool]
    ) -> None:
        self._receive, self._should_stop = receive, should_stop

    def should_stop(self) -> bool:
        """Return True if the caller requested a stop."""
        return self._should_stop()

    def send(self, message: dict[str, Any]) -> None:
        """Deliver a message after a JSON round trip, as a pipe would."""
        self._receive(json.loads(json.dumps(message)))

    def heartbeat(self, seconds: float, doing: str = "") -> None:
        """Do nothing, because no other process monitors in-process training."""
