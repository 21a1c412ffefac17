"""Long work in a process of its own, which outlives whoever asked for it.

What is asked for goes into a file, never onto a command line that every user of the machine can
read; a verb is then done exactly as from a terminal. Beside it lie what it prints and how far it
is, so that a server that is started anew finds the work of the one before:

    runs/started/<job>.json         the verb, its values, and the command that does the same
    runs/started/<job>.state.json   the process, the thing it makes, how it ended
    runs/started/<job>.log          what it printed
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from telic.core.config import Record
from telic.core.events import Event, SearchStart, SessionStart, TrainStart
from telic.core.request import RequestField
from telic.core.text import is_mapping, is_row
from telic.core.verb import Verb
from telic.errors import TelicError, UnknownName, telling_places
from telic.jobs.board import JobLine
from telic.jobs.process import Process, ProcessId, is_same_process
from telic.storage.files import read_record, write_json
from telic.storage.layout import changed_at, new_name
from telic.verbs import catalogue

STARTED = "started"
HERE = "this machine"
_MOST_LISTED = 200
_LOG_TAIL = 1 << 14
JobState = Literal["starting", "running", "done", "failed", "interrupted"]


class JobFile(Record):
    """What a process is started for."""

    schema_version: Literal[1] = 1
    job: str
    verb: str
    """module:name, as in the catalogue of verbs"""
    values: dict[str, Any]
    """the fields of its request that were given"""
    command: str
    """what does the same in a terminal"""


class JobProgress(Record):
    """How far a process is."""

    schema_version: Literal[1] = 1
    pid: int
    started: float
    """when the process began, which tells it from a later one of the same number"""
    thing: str | None = None
    """the session, run or search that it works on"""
    state: Literal["running", "done", "failed"] = "running"
    exit_code: int | None = None
    error: str | None = None
    hint: str | None = None


class StartedJob(Record):
    """A process that goes on by itself."""

    job: str
    verb: str
    command: str
    state: JobState
    thing: str | None
    exit_code: int | None
    error: str | None
    hint: str | None
    pid: int | None
    created: float


# ---------------------------------------------------------------------------- starting


def start_verb(
    words: Sequence[str],
    path: str,
    values: Mapping[str, Any],
    runs_dir: Path,
    *,
    without: Sequence[str] = (),
) -> StartedJob:
    """Start a verb in a process that outlives this one.

    Args:
        words: of its command: ("run",) or ("bench", "intents").
        path: the verb, as in the catalogue.
        values: fields of its request as plain data; the others have their defaults.
        runs_dir: where it works, and where what is known of the process is kept.
        without: variables of the environment that it must not see.
    """
    verb = catalogue.load(path)
    make_request(verb, values, runs_dir=str(runs_dir))  # refused here, where somebody hears it
    job = new_name(words[-1])
    folder = runs_dir / STARTED
    command = shlex.join(["telic", *words, *command_words(verb, values)])
    request = JobFile(job=job, verb=path, values=dict(values), command=command)
    write_json(folder / f"{job}.json", request)
    Process.detach(
        [sys.executable, "-m", "telic.verbs.background", folder / f"{job}.json"],
        folder / f"{job}.log",
        {name: value for name, value in os.environ.items() if name not in without},
    )
    return read_job(runs_dir, job)


def make_request(verb: Verb[Any, Any], values: Mapping[str, Any], **more: Any) -> Any:
    """Return the request of a verb from plain data, as JSON holds it."""
    accepted = {name: more[name] for name in more if name in verb.request.model_fields}
    return verb.request(**values, **accepted)


def command_words(verb: Verb[Any, Any], values: Mapping[str, Any]) -> list[str]:
    """Return the words of a command that asks for the same; what has its default is left out."""
    words, arguments = list[str](), list[str]()
    for field in verb.fields:
        value = values.get(field.name)
        if value is None or value == field.default:
            continue
        if field.how.scope == "argument" or (field.how.flags == () and field.is_required):
            arguments.append(str(value))
        elif isinstance(value, bool):
            words.append(_switch(field, value))
        else:
            words += [word for text in _texts(field, value) for word in (field.flag, text)]
    return [*words, *(["--", *arguments] if any(a[:1] == "-" for a in arguments) else arguments)]


def _switch(field: RequestField, value: bool) -> str:
    """Return the word that turns something on or off."""
    on, _, off = field.flag.partition("/")
    return on if value else off or f"--no-{on[2:]}"


def _texts(field: RequestField, value: Any) -> list[str]:
    """Return a value as the command line has it: several words where an option is repeated."""
    if is_mapping(value):
        return [f"{name}={item}" for name, item in value.items()]
    if is_row(value):
        if any(is_mapping(item) for item in value):
            return ["FILE.json"]
        texts = [str(item) for item in value]
        return texts if field.how.many else [",".join(texts)]
    return [str(value)]


# ---------------------------------------------------------------------------- looking


def read_job(runs_dir: Path, job: str) -> StartedJob:
    """Return what became of a job; raises UnknownName."""
    known = {path.stem: path for path in _requests(runs_dir)}
    if job not in known:
        raise UnknownName("job", job[:200], list(known))
    request = read_record(known[job], JobFile)
    file = known[job].with_suffix(".state.json")
    progress = read_record(file, JobProgress) if file.exists() else None
    state: JobState = "starting" if progress is None else progress.state
    if (
        progress is not None
        and progress.state == "running"
        and not is_same_process(progress.pid, progress.started)
    ):
        state = "interrupted"
    return StartedJob(
        job=job,
        verb=request.verb,
        command=request.command,
        state=state,
        thing=None if progress is None else progress.thing,
        exit_code=None if progress is None else progress.exit_code,
        error=None if progress is None else progress.error,
        hint=None if progress is None else progress.hint,
        pid=None if progress is None else progress.pid,
        created=changed_at(known[job]),
    )


def list_jobs(runs_dir: Path) -> list[StartedJob]:
    """Return the jobs that were started here, the latest first."""
    files = sorted(_requests(runs_dir), key=changed_at, reverse=True)[:_MOST_LISTED]
    return [read_job(runs_dir, path.stem) for path in files]


def job_lines(runs_dir: Path) -> list[JobLine]:
    """Return the jobs that were started here as the table of all jobs has them."""
    lines: list[JobLine] = []
    for job in list_jobs(runs_dir):
        file = runs_dir / STARTED / f"{job.job}.state.json"
        is_over = job.state not in ("starting", "running")
        until = changed_at(file) if is_over else time.time()
        lines.append(
            JobLine(
                job=job.job,
                place=HERE,
                state=job.state,
                attempts=1,
                node=None,
                seconds=round(max(0.0, until - job.created), 3),
                code=job.exit_code,
                reason=job.error,
                command=job.command,
                created=job.created,
            )
        )
    return lines


def read_log(runs_dir: Path, job: str) -> str:
    """Return the end of what a job printed."""
    read_job(runs_dir, job)
    file = runs_dir / STARTED / f"{job}.log"
    with file.open("rb") as log:
        log.seek(max(0, file.stat().st_size - _LOG_TAIL))
        return log.read(_LOG_TAIL).decode(errors="replace")


def _requests(runs_dir: Path) -> list[Path]:
    files = (runs_dir / STARTED).glob("*.json")
    return [path for path in files if not path.name.endswith(".state.json")]


# ---------------------------------------------------------------------------- in the process


def main(file: str) -> int:
    """Do what a file asks for; returns the exit code."""
    path = Path(file)
    request = read_record(path, JobFile)
    state = path.with_suffix(".state.json")
    own = ProcessId.own()
    progress = JobProgress(pid=own.pid, started=own.started)
    write_json(state, progress)
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, frame: stopping.set())

    def hear(event: Event) -> None:
        nonlocal progress
        thing = _thing_of(event)
        if thing is not None and progress.thing is None:
            progress = progress.model_copy(update={"thing": thing})
            write_json(state, progress)

    verb = catalogue.load(request.verb)
    inner = {"on_event": hear, "should_stop": stopping.is_set, "command": request.command}
    try:
        with telling_places():
            asked = make_request(verb, request.values, runs_dir=path.parent.parent, **inner)
            code = verb.exit_code(verb.do(asked))
        ended: dict[str, Any] = {"state": "done", "exit_code": code}
    except TelicError as error:
        code = error.exit_code
        told = {"error": error.message, "hint": error.hint}
        ended = {"state": "failed", "exit_code": code, **told}
        sys.stderr.write(f"✗ {error}\n")
    write_json(state, progress.model_copy(update=ended))
    return code


def _thing_of(event: Event) -> str | None:
    """Return the name of the thing whose beginning an event tells."""
    if isinstance(event, SessionStart):
        return event.session
    if isinstance(event, SearchStart):
        return event.search
    return event.run if isinstance(event, TrainStart) else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
