"""Run operations as jobs on other machines and copy their files back.

The job runs the operation as it would run in a terminal (`background.py`), in a working folder that
contains the request's files. Its event log is copied back with every heartbeat, and the events are
emitted from the copy.
"""

from __future__ import annotations

import hashlib
import json
import shlex
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import MISSING
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from telic.authors.request import SessionConfig
from telic.core.events import Event, Listener
from telic.core.request import PlacedRequest, command_words
from telic.core.text import is_mapping, is_row
from telic.envs.simulators.names import named_code
from telic.errors import Refused, TelicError, UsageError
from telic.jobs.launcher import read_place
from telic.jobs.pool import JobPool
from telic.jobs.spec import JOBS, PYTHON, JobRecord, JobSpec
from telic.session.evidence import countersign
from telic.storage.files import plain, read_json, read_record, write_json
from telic.storage.keys import is_own_folder, require_permitted
from telic.storage.layout import SessionFolder, check_name, new_name
from telic.storage.reading import file_hash
from telic.verbs import catalogue
from telic.verbs.background import JobFile, JobProgress
from telic.verbs.control import emit_from

if TYPE_CHECKING:
    from telic.session.loop import Session

_LISTEN_S = 0.2


class _VerbJob(NamedTuple):
    """Job that runs an operation, with its progress file."""

    spec: JobSpec
    runs_dir: Path
    state: Path


def do_elsewhere(request: PlacedRequest, words: Sequence[str], path: str) -> Any:
    """Run an operation on the machine or cluster named in its request and return the result."""
    fields = catalogue.load_verb(path).fields
    given = {field.name: getattr(request, field.name) for field in fields}
    _require_no_answers(str(request.on), given)  # before the place is opened
    with remote_verbs(request) as remote:
        return remote.do(words, path, given, request.on_event)


def do_parts(
    request: PlacedRequest,
    words: Sequence[str],
    path: str,
    parts: Sequence[Mapping[str, Any]],
    translate: Callable[[int, Event], Event | None] = lambda part, event: event,
) -> list[Any]:
    """Run an operation as several jobs that differ in some fields and return their results.

    A repeated request runs only the parts that did not finish. `translate` maps the events of a
    part to the event to emit.
    """
    given = {each.name: getattr(request, each.name) for each in catalogue.load_verb(path).fields}
    _require_no_answers(str(request.on), given)
    one_at_a_time = threading.Lock()

    def do(part: int) -> Any:
        def emit(event: Event) -> None:
            with one_at_a_time:
                if (translated := translate(part, event)) is not None:
                    request.on_event(translated)

        return remote.do(words, path, {**given, **parts[part]}, emit, is_part=True)

    with remote_verbs(request) as remote, ThreadPoolExecutor(len(parts)) as threads:
        return list(threads.map(do, range(len(parts))))


def require_completed(outcomes: Sequence[str]) -> None:
    """Raise Refused if parts of an operation were stopped."""
    if left := sum(outcome != "completed" for outcome in outcomes):
        raise Refused(
            f"{left} of {len(outcomes)} jobs were stopped.",
            hint="Run the same command again to resume them.",
        )


def _require_no_answers(on: str, given: Mapping[str, Any]) -> None:
    """Raise UsageError for work on Ray that would have to wait for answers of the user."""
    waits = given.get("model") == "host" or given.get("approve")
    if waits and read_place(on).kind == "ray":
        raise UsageError(
            "Work orders cannot be answered on Ray, because files cannot be sent to a running job.",
            hint="Run it locally, or use a model with an API key that is set on the nodes.",
        )


@contextmanager
def remote_verbs(request: PlacedRequest) -> Generator[RemoteVerbs]:
    """Connect to the machine or cluster named in a request to run several operations on it."""
    assert request.on is not None
    place, runs_dir = read_place(request.on), Path(request.runs_dir)
    listening = {"on_event": request.on_event, "should_stop": request.should_stop}
    with JobPool(place, runs_dir, **listening) as pool:
        yield RemoteVerbs(pool, request.on, runs_dir)


class RemoteVerbs(NamedTuple):
    """Connection to a machine or cluster that runs operations as jobs."""

    pool: JobPool
    on: str
    runs_dir: Path

    def do(
        self,
        words: Sequence[str],
        path: str,
        given: Mapping[str, Any],
        on_event: Listener,
        *,
        is_part: bool = False,
    ) -> Any:
        """Run an operation and return the resulting session, run or search.

        A finished part of an interrupted request is not run again.
        """
        from telic.verbs import _resume  # imports torch

        values = {
            field.name: plain(given[field.name])
            for field in catalogue.load_verb(path).fields
            if field.how.scope not in ("inner", "place") and field.name in given
            if field.default is MISSING or given[field.name] != field.default
        }
        job = verb_job(words, path, values, self.runs_dir)
        if is_part and (done := _finished(job)) is not None:
            return _resume.result_in(done)
        if not self.pool.board.may_run(job.spec):
            job.state.unlink(missing_ok=True)  # of an earlier job, or another user's
        future = self.pool.submit(job.spec)
        folder = artifact_of(job, future, on_event)
        # With a shared file system, jobs sign with this user's key, and others may write there.
        if self.pool.place.kind == "ray":
            returned = self.pool.board.folder(future.result().name).returned
            names = read_json(returned) if returned.exists() else []
            place = Path(job.spec.folder or "", folder.name)
            if not any(Path(name).is_relative_to(place) for name in names):
                raise Refused(f"{folder.name} is not a result of this job.")
            if path == "session:run" and _is_answer(SessionFolder(folder), given):
                countersign(SessionFolder(folder))
        return _resume.result_in(folder)

    def run_session(
        self,
        intent: str,
        *,
        env: str,
        runs_dir: Path,
        on_event: Listener,
        should_stop: Callable[[], bool],
        **options: Any,
    ) -> Session:
        """Run one session remotely. Equivalent to `telic.session.loop.run_session`."""
        given = {"intent": intent, "env": env, **options}
        _require_no_answers(self.on, given)
        require_permitted(*named_code(env))  # a suite may come from anyone
        return self.do(("run",), "session:run", given, on_event)


def _is_answer(folder: SessionFolder, asked: Mapping[str, Any]) -> bool:
    """Return whether a job of this user created a session for exactly this request."""
    found, fields = read_record(folder.config, SessionConfig), SessionConfig.model_fields
    wanted = SessionConfig.parse({name: asked[name] for name in fields if name in asked})
    is_same = Path(found.env).name == Path(wanted.env).name  # in another folder there
    is_same = is_same and found.replace(env=wanted.env).terms == wanted.terms
    return is_own_folder(folder.path) and is_same


def verb_job(words: Sequence[str], path: str, values: dict[str, Any], runs_dir: Path) -> _VerbJob:
    """Create the job for an operation. Files with relative paths are copied to its machine."""
    command = shlex.join(
        ["telic", *words, *command_words(catalogue.load_verb(path).request, values)]
    )
    cwd, whole = Path.cwd(), runs_dir.absolute()
    if not whole.is_relative_to(cwd) or whole == cwd:
        cwd = whole.parent
    folder = whole.relative_to(cwd).as_posix()
    text = json.dumps([path, values, str(cwd), folder], sort_keys=True)
    key = hashlib.sha256(text.encode()).hexdigest()
    file = runs_dir / JOBS / f"{words[-1]}-{key[:12]}.json"
    write_json(file, JobFile(job=file.stem, verb=path, values=values, command=command))
    sent, state = f"{folder}/{JOBS}/{file.name}", file.with_suffix(".state.json")
    spec = JobSpec(
        name=new_name(words[-1]),
        argv=(PYTHON, "-P", "-m", "telic.verbs.background", sent, file_hash(file)),
        cwd=str(cwd),
        folder=folder,
        sends=(sent, *_named_files(values, cwd)),
        key=key,
        command=command,
    )
    return _VerbJob(spec, runs_dir, state)


def _finished(job: _VerbJob) -> Path | None:
    """Return this user's result of a finished job, or None."""
    progress = read_record(job.state, JobProgress) if job.state.exists() else JobProgress()
    if progress.state != "done" or progress.exit_code != 0 or progress.artifact is None:
        return None
    folder = job.runs_dir / check_name(progress.artifact, "Result")
    return folder if is_own_folder(folder) else None


def _named_files(values: Any, cwd: Path) -> Iterator[str]:
    """Yield the files and folders in the working folder that a request uses."""
    if is_mapping(values):
        values = list(values.values())
    if is_row(values):
        for value in values:
            yield from _named_files(value, cwd)
    elif isinstance(values, str) and 0 < len(values) < 300 and "\0" not in values:
        path = Path(values)
        if not path.is_absolute() and ".." not in path.parts and (cwd / path).exists():
            yield path.as_posix()


def artifact_of(job: _VerbJob, future: Future[JobRecord], on_event: Listener) -> Path:
    """Wait for a job while emitting its events and return the folder of its results.

    Raises the job's error, or Refused if the job was stopped or could not run.
    """
    position, is_over = 0, False
    progress = folder = None
    while not is_over:
        is_over = future.done()  # checked first, so that events written until then are also emitted
        if job.state.exists():
            progress = read_record(job.state, JobProgress)
            if progress.artifact is not None:
                folder = job.runs_dir / check_name(progress.artifact, "Result")
                position = emit_from(SessionFolder(folder).events, position, on_event)
        if not is_over:
            time.sleep(_LISTEN_S)
    record = future.result()
    if progress is not None and progress.state == "failed":
        error = TelicError(progress.error or "The remote job failed.", hint=progress.hint)
        error.exit_code = progress.exit_code or 1
        raise error
    if progress is None or folder is None or record.state == "failed":
        raise Refused(
            f"{record.name} {record.state} on {record.place}: {record.reason or 'no result'}.",
            hint=f"See: telic jobs {record.name} --logs",
        )
    return folder
