"""List of the jobs in a folder of runs, with their states and available actions."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from telic.core.config import Record
from telic.errors import Refused, UnknownName
from telic.jobs.process import ProcessId
from telic.jobs.spec import JOBS, JobFolder, JobHeartbeat, JobRecord, JobSpec
from telic.storage.files import read_record, write_json, write_text
from telic.storage.locks import taking_turns
from telic.storage.reading import log_end, read_text

INTERRUPTED = "interrupted"
"""state of a job whose driver has ended. Repeating the request resumes the job."""


class JobRow(Record):
    """One row of the job list."""

    job: str
    place: str
    state: str
    attempts: int
    node: str | None
    seconds: float
    code: int | None
    reason: str | None
    command: str
    created: float


class JobBoard:
    """Jobs of a folder of runs."""

    def __init__(self, runs_dir: Path) -> None:
        self.path = (runs_dir / JOBS).absolute()  # a scheduler may start workers in any folder

    def folder(self, name: str) -> JobFolder:
        """Return the folder of a job."""
        return JobFolder(self.path / name)

    def take(self, spec: JobSpec, place: str) -> tuple[JobSpec, JobRecord]:
        """Register a job, or resume an unfinished job with the same key.

        Raises Refused if it is already running.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        with taking_turns(self.path / "door"):
            known = self._known(spec)
            if known is not None:
                if known.is_driven and known.driver != ProcessId.own():
                    raise Refused(
                        f"{known.name} is already running in process {known.driver.pid}.",
                        hint=f"Wait for it, or stop it: telic jobs {known.name} --stop",
                    )
                spec = spec.model_copy(update={"name": known.name})
            folder = self.folder(spec.name)
            folder.path.mkdir(parents=True, exist_ok=True)
            folder.stop.unlink(missing_ok=True)
            record = JobRecord(
                name=spec.name,
                place=place,
                created=time.time() if known is None else known.created,
                driver=ProcessId.own(),
                attempts=() if known is None else known.attempts,
            )
            write_json(folder.spec, spec)
            write_json(folder.record, record)
            if spec.key:
                write_text(self._key(spec.key), spec.name)
        return spec, record

    def _known(self, spec: JobSpec) -> JobRecord | None:
        """Return the record of a job with this name, or of an unfinished job with the same key."""
        own = self.folder(spec.name).record
        if own.exists():
            return read_record(own, JobRecord)
        named = self._key(spec.key)
        if not spec.key or not named.exists():
            return None
        record = read_record(self.folder(read_text(named)).record, JobRecord)
        return None if record.state == "done" else record

    def _key(self, key: str) -> Path:
        """Return the file with the name of the latest job with a key, so that one read finds it."""
        return self.path / "keys" / key

    def lines(self) -> list[JobRow]:
        """Return all jobs, newest first."""
        folders = [JobFolder(path.parent) for path in self.path.glob("*/job.json")]
        return sorted(map(_line, folders), key=lambda line: line.created, reverse=True)

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
        """Ask a job to save and stop. A job without a driver stops immediately."""
        folder = self.find(name)
        record = read_record(folder.record, JobRecord)
        if record.is_driven:
            folder.stop.touch()
        elif not record.is_over:
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


def _line(folder: JobFolder) -> JobRow:
    record = read_record(folder.record, JobRecord)
    spec = read_record(folder.spec, JobSpec)
    last = record.attempts[-1] if record.attempts else None
    node = last.node if last else None
    if node is None and last is not None and folder.beat(last.number).exists():
        node = read_record(folder.beat(last.number), JobHeartbeat).node
    running_s = time.time() - last.started if last and last.seconds is None else 0.0
    is_lost = not record.is_over and not record.is_driven
    return JobRow(
        job=record.name,
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
