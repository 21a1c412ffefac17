"""Verbs done on other machines: a verb is a job, its files come home, its result is read here.

The job's process does the verb exactly as a terminal would (`background.py`), in a working folder
that holds what the request names. What it says is in its log of events, which comes home with every
heartbeat and is told from there.
"""

from __future__ import annotations

import hashlib
import json
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import MISSING
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from telic.core.events import Listener
from telic.core.request import PlacedRequest
from telic.core.text import is_mapping, is_row
from telic.errors import Refused, TelicError, UsageError
from telic.jobs.launcher import JobPlace, read_place
from telic.jobs.pool import JobPool
from telic.jobs.spec import JOBS, PYTHON, JobRecord, JobSpec
from telic.storage.files import plain, read_record, write_json
from telic.storage.layout import SessionFolder, new_name
from telic.verbs import catalogue
from telic.verbs.background import JobFile, JobProgress, command_words
from telic.verbs.control import tell_from

if TYPE_CHECKING:
    from telic.session.loop import Session

_LISTEN_S = 0.2
_INNER = ("inner", "place")


class VerbJob(NamedTuple):
    """A verb as a job, and where what it says of itself comes home."""

    spec: JobSpec
    runs_dir: Path
    state: Path
    """the file that says which thing it works on, and how it ended"""


def do_elsewhere(request: PlacedRequest, words: Sequence[str], path: str) -> Any:
    """Run a verb at the place that its request names; return the session, run or search.

    Args:
        request: what is asked for.
        words: of its command.
        path: the verb, as in the catalogue.
    """
    assert request.on is not None
    place = read_place(request.on)
    values = _values(path, request)
    _check(place, values)
    job = verb_job(words, path, values, Path(request.runs_dir))
    with JobPool(
        place,
        Path(request.runs_dir),
        on_event=request.on_event,
        should_stop=request.should_stop,
    ) as pool:
        return _result_in(thing_of(job, pool.submit(job.spec), request.on_event))


def verb_job(words: Sequence[str], path: str, values: dict[str, Any], runs_dir: Path) -> VerbJob:
    """Write down a verb as a job; what it names by a path goes along."""
    verb = catalogue.load(path)
    command = shlex.join(["telic", *words, *command_words(verb, values)])
    cwd, folder = _working_folder(runs_dir)
    text = json.dumps([path, values, str(cwd), folder], sort_keys=True)
    key = hashlib.sha256(text.encode()).hexdigest()
    file = runs_dir / JOBS / f"{words[-1]}-{key[:12]}.json"
    write_json(file, JobFile(job=file.stem, verb=path, values=values, command=command))
    sent = f"{folder}/{JOBS}/{file.name}"
    spec = JobSpec(
        name=new_name(words[-1]),
        argv=(PYTHON, "-m", "telic.verbs.background", sent),
        cwd=str(cwd),
        folder=folder,
        sends=(sent, *_named_files(values, cwd)),
        key=key,
        command=command,
    )
    return VerbJob(spec, runs_dir, file.with_suffix(".state.json"))


def thing_of(job: VerbJob, future: Future[JobRecord], on_event: Listener) -> Path:
    """Wait for a job, telling what it tells; returns the folder of what it made.

    Raises the error that it ended with, or Refused when it was stopped or could not be done.
    """
    position = 0
    while not future.done():
        time.sleep(_LISTEN_S)
        position = _tell(job, position, on_event)
    record = future.result()
    _tell(job, position, on_event)
    progress = read_record(job.state, JobProgress) if job.state.exists() else None
    if progress is not None and progress.state == "failed":
        error = TelicError(progress.error or "It failed elsewhere.", hint=progress.hint)
        error.exit_code = progress.exit_code or 1
        raise error
    if progress is None or progress.thing is None or record.state == "failed":
        raise Refused(
            f"{record.name} {record.state} on {record.place}: {record.reason or 'no result came'}.",
            hint=f"See: telic jobs {record.name} --logs",
        )
    return job.runs_dir / progress.thing


def _tell(job: VerbJob, position: int, on_event: Listener) -> int:
    if not job.state.exists():
        return position
    thing = read_record(job.state, JobProgress).thing
    if thing is None:
        return position
    return tell_from(SessionFolder(job.runs_dir / thing).events, position, on_event)


def _values(path: str, request: PlacedRequest) -> dict[str, Any]:
    """Return what was asked for as plain data; what has its default is left out."""
    fields = [field for field in catalogue.load(path).fields if field.how.scope not in _INNER]
    pairs = ((field, getattr(request, field.name)) for field in fields)
    return {
        field.name: plain(value)
        for field, value in pairs
        if field.default is MISSING or value != field.default
    }


def _working_folder(runs_dir: Path) -> tuple[Path, str]:
    """Return where the job works, and the folder of runs below that."""
    here, whole = Path.cwd(), runs_dir.absolute()
    if whole.is_relative_to(here) and whole != here:
        return here, whole.relative_to(here).as_posix()
    return whole.parent, whole.name


def _named_files(values: Any, cwd: Path) -> Iterator[str]:
    """Yield the files and folders below the working folder that a request names."""
    if is_mapping(values):
        for value in values.values():
            yield from _named_files(value, cwd)
    elif is_row(values):
        for value in values:
            yield from _named_files(value, cwd)
    elif isinstance(values, str) and 0 < len(values) < 300 and "\0" not in values:
        path = Path(values)
        if not path.is_absolute() and ".." not in path.parts and (cwd / path).exists():
            yield path.as_posix()


def _check(place: JobPlace, values: dict[str, Any]) -> None:
    """Refuse what cannot be answered from here."""
    if place.kind == "ray" and (values.get("model") == "host" or values.get("approve")):
        raise UsageError(
            "Nobody could answer it there: its folder comes home only in one direction.",
            hint="Do it here, or name a model with a key that the nodes have.",
        )


def _result_in(path: Path) -> Any:
    from telic.verbs import _resume  # loads what trains

    return _resume.result_in(path)


# ---------------------------------------------------------------------------- many sessions


class SessionsElsewhere:
    """Sessions at the place of a request, many at a time: what runs the cases of a benchmark."""

    def __init__(self, request: PlacedRequest) -> None:
        assert request.on is not None
        self._place = read_place(request.on)
        self._pool = JobPool(
            self._place,
            Path(request.runs_dir),
            on_event=request.on_event,
            should_stop=request.should_stop,
        )

    def __enter__(self) -> Self:
        self._pool.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._pool.__exit__(kind, error, trace)

    @property
    def room(self) -> int:
        """Sessions that make sense at a time."""
        return self._pool.at_once

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
        """Do one session there; as `telic.session.loop.run`."""
        fields = {field.name: field for field in catalogue.load("session:run").fields}
        values = {"intent": intent, "env": env, **options}
        changed = {
            name: plain(value)
            for name, value in values.items()
            if fields[name].default is MISSING or value != fields[name].default
        }
        _check(self._place, changed)
        job = verb_job(("run",), "session:run", changed, runs_dir)
        return _result_in(thing_of(job, self._pool.submit(job.spec), on_event))
