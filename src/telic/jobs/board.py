"""List of the jobs in a runs folder, with their states and available actions."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from telic.core.config import Record
from telic.errors import BadFile, Refused, TelicError, UnknownName
from telic.jobs.launcher import ScheduledJob, slurm_queue
from telic.jobs.process import ProcessId
from telic.jobs.spec import JOBS, JobFolder, JobHeartbeat, JobRecord, JobSpec
from telic.storage.files import read_record, write_json, write_text
from telic.storage.keys import is_own_folder, sign_folder
from telic.storage.layout import DAMAGED, changed_at, check_name
from telic.storage.locks import taking_turns
from telic.storage.reading import log_end, read_text

INTERRUPTED = "interrupted"
"""state of a job whose driver has ended. Repeating the request resumes the job."""


class JobRow(Record):
    """One row of the job list."""

    job: str
    place: str = ""
    state: str
    attempts: int = 0
    node: str | None = None
    seconds: float = 0.0
    code: int | None = None
    reason: str | None
    command: str = ""
    created: float


class JobBoard:
    """Jobs of a runs folder."""

    def __init__(self, runs_dir: Path) -> None:
        self.path = (runs_dir / JOBS).absolute()  # a scheduler may start workers in any folder

    def folder(self, name: str) -> JobFolder:
        """Return the folder of a job. Raises UsageError for a name that could lead elsewhere."""
        return JobFolder(self.path / check_name(name, "Job"))

    def take(self, spec: JobSpec, place: str) -> tuple[JobSpec, JobRecord]:
        """Register a job, or resume this user's unfinished job with the same key.

        Raises Refused if the job is already running, or if another user started it.
        """
        with taking_turns(self.path / "door"):
            folder = self._folder_of(spec)
            name = folder.path.name
            record = JobRecord(name=name, place=place, created=time.time(), driver=ProcessId.own())
            if folder.path.exists():
                known = self.read_own(folder)
                if known.is_driven and known.driver != record.driver:
                    raise Refused(
                        f"{name} is already running in process {known.driver.pid}.",
                        hint=f"Wait for it, or stop it: telic jobs {name} --stop",
                    )
                kept = {"created": known.created, "attempts": known.attempts}
                record = record.model_copy(update=kept)
            else:
                folder.path.mkdir()
                sign_folder(folder.path)
            folder.stop.unlink(missing_ok=True)
            spec = spec.model_copy(update={"name": name})
            write_json(folder.spec, spec)
            write_json(folder.record, record)
            if spec.key:
                write_text(self._key(spec.key), name)
        return spec, record

    def read_own(self, folder: JobFolder) -> JobRecord:
        """Return the record of a job. Raises Refused if this user did not start the job."""
        if not is_own_folder(folder.path):
            raise Refused(
                f"The job {folder.path.name} was started by another user or an earlier version.",
                hint="Rerun its command to start a new job.",
            )
        return read_record(folder.record, JobRecord)

    def _folder_of(self, spec: JobSpec) -> JobFolder:
        """Return the folder of this user's unfinished job with the same key, or of a new job."""
        folder = self.folder(spec.name)
        if spec.key and not folder.path.exists() and self._key(spec.key).exists():
            with contextlib.suppress(TelicError):  # not this user's, or damaged
                latest = self.folder(read_text(self._key(spec.key)))
                return folder if self.read_own(latest).state == "done" else latest
        return folder

    def may_run(self, spec: JobSpec) -> bool:
        """Return whether an attempt at this user's same work may have outlived its driver."""
        folder = self._folder_of(spec)
        attempts = self.read_own(folder).attempts if folder.path.exists() else ()
        return any(attempt.ended is None for attempt in attempts)

    def _key(self, key: str) -> Path:
        """Return the path of the file that contains the name of the latest job with a key."""
        return self.path / "keys" / check_name(key, "Job key")

    def lines(self) -> list[JobRow]:
        """Return all jobs, newest first."""
        folders = [JobFolder(path.parent) for path in self.path.glob("*/job.json")]
        lines = sorted(map(_line, folders), key=lambda line: line.created, reverse=True)
        if any(map(_is_scheduled, lines)):
            with contextlib.suppress(TelicError, OSError):  # no answer, or no Slurm here
                queue = slurm_queue()
                return [_seen_in(queue, line) if _is_scheduled(line) else line for line in lines]
        return lines

    def find(self, name: str) -> JobFolder:
        """Find a job by name, prefix, or `latest`. Raises UnknownName."""
        return self.folder(chosen_job(name, self.lines()))

    def log(self, name: str) -> str:
        """Return the last lines of the output of a job's latest attempt."""
        folder = self.find(name)
        attempts = read_record(folder.record, JobRecord).attempts
        path = folder.log(attempts[-1].number) if attempts else folder.log(1)
        return log_end(path) if path.exists() else ""

    def stop(self, name: str) -> JobRow:
        """Ask a job to save and stop. A job without a driver counts as stopped immediately."""
        folder = self.find(name)
        record = self.read_own(folder)
        folder.stop.touch()
        if not record.is_driven and not record.is_over:
            stopped = {"state": "stopped", "reason": "asked to stop"}
            write_json(folder.record, record.model_copy(update=stopped))
        return _line(folder)


def chosen_job(name: str, lines: Sequence[JobRow]) -> str:
    """Return the full name of a job from its name, a prefix, or `latest`. Raises UnknownName."""
    names = [line.job for line in lines]
    chosen = names[:1] if name == "latest" else [each for each in names if each == name]
    chosen = chosen or [each for each in names if each.startswith(name)]
    if len(chosen) != 1:
        raise UnknownName("job", name, names)
    return chosen[0]


def _is_scheduled(line: JobRow) -> bool:
    """Return whether Slurm may still run the job, although its driver ended."""
    return line.state == INTERRUPTED and line.place.partition("?")[0] == "slurm"


def _seen_in(queue: Mapping[str, ScheduledJob], line: JobRow) -> JobRow:
    job = queue.get(f"{line.job}.{line.attempts}")
    if job is None:
        return line
    state = "waiting" if job.waits else "running" if job.runs else INTERRUPTED
    return line.model_copy(update={"state": state, "reason": f"Slurm job {job.number} {job.words}"})


def _line(folder: JobFolder) -> JobRow:
    try:
        return _read_line(folder)
    except BadFile as error:
        name, created = folder.path.name, changed_at(folder.record)
        return JobRow(job=name, state=DAMAGED, reason=error.message, created=created)


def _read_line(folder: JobFolder) -> JobRow:
    record = read_record(folder.record, JobRecord)
    spec = read_record(folder.spec, JobSpec)
    last = record.attempts[-1] if record.attempts else None
    node = last.node if last else None
    if node is None and last is not None and folder.beat(last.number).exists():
        node = read_record(folder.beat(last.number), JobHeartbeat).node
    running_s = time.time() - last.started if last and last.seconds is None else 0.0
    is_lost = not record.is_over and not record.is_driven
    return JobRow(
        job=folder.path.name,
        place=record.place,
        state=INTERRUPTED if is_lost else record.state,
        attempts=len(record.attempts),
        node=node,
        seconds=round(record.seconds + (0.0 if is_lost or record.is_over else running_s), 3),
        code=record.code,
        reason=record.reason or (last.ended if last and record.state != "done" else None),
        command=spec.command or " ".join(spec.argv),
        created=record.created,
    )
