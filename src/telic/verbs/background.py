"""Run long operations in separate processes that outlive their parent.

The request is passed in a file, because command lines are visible to every user of the machine. The
operation then runs as it would in a terminal. Output and progress are written to files, so that a
restarted server finds them:

    runs/started/<job>.json         the operation, its values, and the equivalent command
    runs/started/<job>.state.json   the process, its artifact, and how it ended
    runs/started/<job>.log          its output
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Literal

from pydantic import AliasChoices, Field

from telic.core.config import Record
from telic.core.events import Event, SearchStart, SessionStart, TrainStart
from telic.core.request import command_words
from telic.core.verb import Verb
from telic.errors import BadFile, Refused, TelicError, UnknownName, readable_path_errors
from telic.jobs.process import (
    Process,
    ProcessId,
    end_after_grace,
    own_python,
    start_of,
)
from telic.storage.files import read_record, write_json
from telic.storage.layout import changed_at, new_name
from telic.storage.reading import file_hash, log_end
from telic.verbs import catalogue

STARTED = "started"
_MAX_LISTED = 200
_MOST_BUSY = 16
"""maximum number of jobs at a time, because programs such as agents can start them, too"""
_STARTING_S = 120.0


class JobFile(Record):
    """Request to run an operation in the background."""

    schema_version: Literal[1] = 1
    job: str
    verb: str
    """module:name, as in the catalogue of verbs"""
    values: dict[str, Any]
    """fields that the request sets"""
    command: str
    """equivalent terminal command"""


class JobProgress(Record):
    """State of a background process."""

    schema_version: Literal[1] = 1
    pid: int | None = None
    started: float = 0.0
    """start time of the process, which distinguishes it from a later one with the same pid"""
    artifact: str | None = Field(None, validation_alias=AliasChoices("artifact", "thing"))
    """session, run or search that the process works on"""
    state: Literal["starting", "running", "done", "failed", "interrupted"] = "running"
    exit_code: int | None = None
    error: str | None = None
    hint: str | None = None


class StartedJob(JobProgress):
    """A background process and its state."""

    job: str
    verb: str
    command: str
    created: float
    target: str | None = None
    """artifact it was started for, until the process reports it"""

    @property
    def is_busy(self) -> bool:
        """Return whether the process is running, or was started a short time ago."""
        is_recent = time.time() - self.created < _STARTING_S
        return self.state == "running" or (self.state == "starting" and is_recent)


def start_verb(
    words: Sequence[str],
    path: str,
    values: Mapping[str, Any],
    runs_dir: Path,
    *,
    without: Sequence[str] = (),
) -> StartedJob:
    """Run an operation, given its catalogue path, in a process that outlives the caller.

    `values` are request fields as plain data. Environment variables in `without` are removed.
    """
    verb = catalogue.load_verb(path)
    _request(verb, values, runs_dir=str(runs_dir))  # raises for an invalid request
    busy = [each for each in list_jobs(runs_dir) if each.is_busy]
    if len(busy) >= _MOST_BUSY:
        raise Refused(
            f"{len(busy)} jobs are running in {runs_dir}, which is the maximum.",
            hint="Wait until one has ended, or stop one with: telic stop NAME",
        )
    job, folder = new_name(words[-1]), runs_dir / STARTED
    command = shlex.join(["telic", *words, *command_words(verb.request, values)])
    file = JobFile(job=job, verb=path, values=dict(values), command=command)
    write_json(folder / f"{job}.json", file)
    Process.detach(
        own_python("telic.verbs.background", folder / f"{job}.json"),
        folder / f"{job}.log",
        {name: value for name, value in os.environ.items() if name not in without},
    )
    return read_job(runs_dir, job)


def _request(verb: Verb[Any, Any], values: Mapping[str, Any], **more: Any) -> Any:
    accepted = {name: more[name] for name in more if name in verb.request.model_fields}
    return verb.request(**values, **accepted)


def read_job(runs_dir: Path, job: str) -> StartedJob:
    """Return a job with its state, or raise UnknownName."""
    known = {path.stem: path for path in _requests(runs_dir)}
    if job not in known:
        raise UnknownName("job", job[:200], list(known))
    request = read_record(known[job], JobFile)
    file, progress = known[job].with_suffix(".state.json"), JobProgress(state="starting")
    if file.exists():
        progress = read_record(file, JobProgress)
        words = "telic.verbs.background", known[job].name
        is_alive = start_of(progress.pid or -1, *words) == progress.started
        if progress.state == "running" and not is_alive:
            progress = progress.model_copy(update={"state": "interrupted"})
    about = request.model_dump(include={"job", "verb", "command"})
    target = progress.artifact or request.values.get("artifact")
    created = changed_at(known[job])
    return StartedJob(**progress.model_dump(), **about, created=created, target=target)


def list_jobs(runs_dir: Path) -> list[StartedJob]:
    """Return the jobs that were started in this folder, newest first."""
    files = sorted(_requests(runs_dir), key=changed_at, reverse=True)[:_MAX_LISTED]
    return _read_jobs(runs_dir, files)


def _read_jobs(runs_dir: Path, files: Sequence[Path]) -> list[StartedJob]:
    jobs = list[StartedJob]()
    for path in files:
        with contextlib.suppress(BadFile):  # a damaged file must not hide the others
            jobs.append(read_job(runs_dir, path.stem))
    return jobs


def starting(runs_dir: Path) -> set[str]:
    """Return the sessions, runs and searches whose processes have just started."""
    recent = [x for x in _requests(runs_dir) if time.time() - changed_at(x) < _STARTING_S]
    return {x.target for x in _read_jobs(runs_dir, recent) if x.target and x.is_busy}


def stop_job(runs_dir: Path, job: str) -> StartedJob:
    """Ask a job's process to save and stop. Raises Refused if the job is not running."""
    found = read_job(runs_dir, job)
    if found.state != "running" or found.pid is None:
        raise Refused(f"{job} is {found.state}, so it cannot be stopped.")
    os.kill(found.pid, signal.SIGTERM)
    return found


def read_log(runs_dir: Path, job: str) -> str:
    """Return the last lines of a job's output."""
    read_job(runs_dir, job)
    return log_end(runs_dir / STARTED / f"{job}.log")


def _requests(runs_dir: Path) -> list[Path]:
    files = (x for x in (runs_dir / STARTED).glob("*.json") if x.name.isprintable())
    return [path for path in files if not path.name.endswith(".state.json")]


def run_job_file(file: str, digest: str | None = None) -> int:
    """Run the operation described in a job file and return its exit code.

    `digest` is the hash that the file had when the user made the request.
    """
    path = Path(file)
    request, state, own = (
        read_record(path, JobFile),
        path.with_suffix(".state.json"),
        ProcessId.own(),
    )
    progress = JobProgress(pid=own.pid, started=own.started)
    write_json(state, progress)
    stopping = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        end_after_grace(128 + number)
        stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)

    def record(event: Event) -> None:
        nonlocal progress
        match event:
            case SessionStart(session=name) | SearchStart(search=name) | TrainStart(run=name):
                if progress.artifact is None:
                    progress = progress.model_copy(update={"artifact": name})
                    write_json(state, progress)
            case _:
                pass

    verb = catalogue.load_verb(request.verb)
    inner = {"on_event": record, "should_stop": stopping.is_set, "command": request.command}
    try:
        if digest is not None and file_hash(path) != digest:
            raise Refused(f"{path} was modified.", hint="Rerun the command to start a new job.")
        with readable_path_errors():
            asked = _request(verb, request.values, runs_dir=path.parent.parent, **inner)
            code = verb.exit_code(verb.do(asked))
        ended: dict[str, Any] = {"state": "done", "exit_code": code}
    except TelicError as error:
        code = error.exit_code
        ended = {"state": "failed", "exit_code": code, "error": error.message, "hint": error.hint}
        sys.stderr.write(f"✗ {error}\n")
    write_json(state, progress.model_copy(update=ended))
    return code


if __name__ == "__main__":
    sys.exit(run_job_file(*sys.argv[1:]))
