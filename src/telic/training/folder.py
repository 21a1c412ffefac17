"""Run folders: creation, lookup, locking and status."""

from __future__ import annotations

import hashlib
import os
import platform
import secrets
import shutil
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from telic.errors import Refused, TelicError, UsageError
from telic.storage.files import TEMPORARY_MARK, read_fields, require_free, write_json, write_text
from telic.storage.keys import sign_folder
from telic.storage.layout import MemberFolder, RunFolder, check_name, new_name
from telic.storage.locks import RunLock, lock_holder
from telic.storage.workspace import Workspace
from telic.training.job import TrainJob, is_shared, processes
from telic.training.machine import package_versions, source_commit

if TYPE_CHECKING:
    from telic.storage.trajectories import Environment  # imports numpy

_RESULTS: dict[str, Any] = {
    "total_timesteps": int | None,
    "training_time_s": float | None,
    "best_member": str | None,
    "best_return": float | None,
}


@contextmanager
def working_on(folder: RunFolder, *, is_new: bool) -> Generator[None]:
    """Hold the lock of a run and set every status except the final status of a successful run.

    The lock is acquired before the first file is written, so one of two concurrent jobs with the
    same name is rejected.
    """
    with RunLock(folder.lock, folder.name):
        if is_new and folder.config.exists():  # no configuration: the run never started
            raise TelicError(
                f"A run named {folder.name} already exists, but it is finished, has different "
                "settings, or was created by an earlier version.",
                hint="Choose another --name, or omit it.",
            )
        set_status(folder, "running")
        try:
            yield
        except TelicError as error:
            set_status(folder, "failed", error=str(error))
            if is_new and isinstance(error, UsageError | Refused) and not folder.events.exists():
                # Remove the folder of a rejected request. Renaming it first is atomic and avoids
                # deleting files of a new run with the same name.
                mark = f"{TEMPORARY_MARK}{os.getpid()}-{secrets.token_hex(4)}"
                shutil.rmtree(folder.path.rename(folder.path.with_name(mark)), ignore_errors=True)
            raise
        except BaseException:
            set_status(folder, "interrupted")
            raise


def new_run(runs_dir: Path, name: str | None = None) -> RunFolder:
    """Return the folder of a new run without creating it."""
    require_free(runs_dir, 200_000_000, "A run")
    chosen = new_name("run", 4) if name is None else check_name(name, "--name")
    return RunFolder(runs_dir / chosen)


def create_run(
    job: TrainJob, folder: RunFolder, command: str | None = None, *, confined: bool = True
) -> None:
    """Write the manifest, member files and configuration of a run. Requires the run's lock."""
    together = processes(job, confined=confined)
    how = {"processes": together, "shared_process": is_shared(job, together)}
    write_json(folder.manifest, {**manifest(job), **how, "command": command})
    write_member_files(job, folder)
    sign_folder(folder.path)
    # Written last, because its existence marks the folder as a valid run.
    write_json(folder.config, job)


def manifest(job: TrainJob) -> dict[str, Any]:
    """Return the information needed to reproduce a run."""
    return {
        "schema_version": 1,
        "key": job.key,
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": package_versions(),
        "commit": source_commit(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processors": os.cpu_count(),  # language: quoted
        "rewards": {
            reward.name: None
            if reward.source is None
            else hashlib.sha256(reward.source.encode()).hexdigest()
            for reward in job.rewards
        },
        "seeds": sorted({member.seed for member in job.members}),
    }


def write_member_files(job: TrainJob, run: RunFolder) -> None:
    """Write the configuration and reward of each member."""
    for member in job.members:
        folder = run.member(member.config, member.seed)
        reward = job.rewards[member.reward]
        write_json(
            folder.config,
            {
                "env": job.env,
                "env_args": job.env_args,
                "steps": job.steps,
                "seed": member.seed,
                "reward": reward.name,
                "weights": reward.weights,
                "settings": member.settings,
            },
        )
        source = reward.source or "# The environment's built-in reward.\n"
        write_text(folder.reward_code, source)


def find_unfinished(
    job: TrainJob, runs_dir: Path, name: str | None, found: Path | None = None
) -> RunFolder | None:
    """Return `found`, or the latest interrupted run, if it has the same job key, or None."""

    def is_same(path: Path) -> bool:
        is_named = name in (None, path.name)
        return is_named and read_fields(RunFolder(path).manifest, key=str | None)["key"] == job.key

    path = found or Workspace(runs_dir).unfinished("run", is_same)
    return RunFolder(path) if path is not None and is_same(path) else None


_Status = Literal["running", "completed", "stopped", "failed", "interrupted"]


def set_status(
    folder: RunFolder, status: str, error: str | None = None, videos: str | None = None
) -> None:
    """Write status.json. `videos` are the pending videos of a completed run."""
    write_json(
        folder.status,
        {
            "status": status,
            "updated_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "error": error,
            "videos": videos if status == "completed" else None,
            "pid": os.getpid(),
        },
    )


def status_of(folder: RunFolder) -> str:
    """Return the status of a run. A running status without a lock means "interrupted"."""
    return _status(folder)["status"]


def _status(folder: RunFolder) -> dict[str, Any]:
    known: dict[str, Any] = {"status": "interrupted", "error": None}
    if folder.status.exists():
        known = read_fields(folder.status, status=_Status, error=str | None)
    is_dead = known["status"] == "running" and lock_holder(folder.lock) is None
    return {**known, "status": "interrupted"} if is_dead else known


def read_result(folder: RunFolder) -> dict[str, Any]:
    """Return the summary of a finished run."""
    return read_fields(
        folder.summary,
        status=str,
        total_timesteps=int,
        training_time_s=float,
        steps_per_second=float | None,
        best_member=str | None,
        best_return=float | None,
    )


def is_resumable(folder: RunFolder) -> bool:
    """Return True if telic trained the run. Runs of other trainers cannot be resumed."""
    return read_fields(folder.manifest, trainer=str | None)["trainer"] is None


def run_facts(folder: RunFolder) -> dict[str, Any]:
    """Return the summary of a run for display. Unknown values are None."""
    summary: Mapping[str, Any] = {}
    if folder.summary.exists():
        summary = read_fields(folder.summary, **_RESULTS)
    return {
        "run": folder.name,
        "path": str(folder.path),
        "env": read_fields(folder.config, env=str)["env"],
        **_status(folder),
        **{name: summary.get(name) for name in _RESULTS},
    }


def environment_of(run: RunFolder) -> Environment:
    """Return the environment of a run from its configuration, not from worker output."""
    config = read_fields(run.config, env=str, env_args=dict[str, Any] | None)
    return config["env"], config["env_args"] or {}


def best_member(run: RunFolder) -> MemberFolder | None:
    """Return the member with the best evaluation, or the first if none was evaluated."""
    members = run.members()
    best = None
    if run.summary.exists():
        best = read_fields(run.summary, best_member=str | None)["best_member"]
    return next(
        (member for member in members if member.name == best), members[0] if members else None
    )


def best_step(member: MemberFolder) -> int | None:
    """Return the step of a member's best evaluation, or None."""
    if not member.summary.exists():
        return None
    return read_fields(member.summary, best_step=int | None)["best_step"]
