"""Jobs: what was started on other machines, what it prints, how it ends, and once more."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from telic.core.request import RunsRequest, WatchedRequest, argument, option
from telic.core.verb import Wrapped, verb

if TYPE_CHECKING:
    from telic.jobs.board import JobBoard, JobLine
    from telic.jobs.spec import JobRecord

EXAMPLES = """
telic bench intents --on ray://head:10001       every case is a job of a Ray cluster

telic jobs                                      what runs where, and why it was tried again

telic jobs logs run_2026...                     what it prints

telic jobs retry run_2026...                    once more, from what came home
"""


class BoardRequest(RunsRequest):
    """The jobs of a folder of runs."""

    @property
    def board(self) -> JobBoard:
        """Their table."""
        from telic.jobs.board import JobBoard

        return JobBoard(Path(self.runs_dir))


class JobsRequest(BoardRequest):
    """All jobs."""

    limit: int = option("Show this many, newest first.", default=20, minimum=0)


@dataclass(frozen=True)
class JobTable(Wrapped):
    """Jobs, the newest first."""

    jobs: list[JobLine]


@verb(JobsRequest, examples=EXAMPLES)
def jobs(request: JobsRequest) -> JobTable:
    """List jobs: where they run, how often they were tried and why, how they ended.

    Work that was started from the dashboard is listed, too.
    """
    return JobTable(_all_lines(request)[: request.limit])


def _all_lines(request: BoardRequest) -> list[JobLine]:
    """Return all jobs, the newest first: of other machines, and what a server started on this."""
    from telic.verbs.background import job_lines

    lines = [*request.board.lines(), *job_lines(Path(request.runs_dir))]
    return sorted(lines, key=lambda line: line.created, reverse=True)


class NamedJobRequest(BoardRequest):
    """One job."""

    name: str = argument("Job: its name, the start of it, or 'latest'.", default="latest")


def _refuse_own(request: NamedJobRequest, verb: str) -> None:
    """Refuse what a server started on this machine, and say what does it instead."""
    from telic.errors import Refused
    from telic.verbs.background import list_jobs

    for job in list_jobs(Path(request.runs_dir)):
        if job.job == request.name:
            told = f"telic {verb} {job.thing}" if job.thing else "telic list"
            raise Refused(
                f"{job.job} was started from the dashboard, on this machine.",
                hint=f"What it works on has a name of its own: {told}",
            )


class PrintedLog(NamedTuple):
    """What the latest attempt at a job printed."""

    job: str
    log: str


@verb(NamedJobRequest)
def logs(request: NamedJobRequest) -> PrintedLog:
    """Print the end of what the latest attempt at a job printed."""
    from telic.jobs.board import chosen_job
    from telic.verbs.background import HERE, read_log

    lines = _all_lines(request)
    name = chosen_job(request.name, lines)
    if any(line.job == name and line.place == HERE for line in lines):
        return PrintedLog(name, read_log(Path(request.runs_dir), name))
    return PrintedLog(name, request.board.log(name))


@verb(NamedJobRequest)
def stop(request: NamedJobRequest) -> JobLine:
    """Ask a job to save and end; the same command, or retry, goes on with it.

    What runs on this machine is ended by its own name: telic stop THING.
    """
    _refuse_own(request, "stop")
    return request.board.stop(request.name)


class RetryRequest(NamedJobRequest, WatchedRequest):
    """One job, once more."""

    on: str | None = option("There instead: local, ray://HOST:PORT, slurm.", "--on", default=None)


def _code(record: JobRecord) -> int:
    return 1 if record.code is None else record.code


@verb(RetryRequest, exit_code=_code)
def retry(request: RetryRequest) -> JobRecord:
    """Do a job that failed, was stopped or interrupted once more, from what came home of it."""
    from telic.errors import Refused
    from telic.jobs.board import is_driven
    from telic.jobs.launcher import read_place
    from telic.jobs.pool import JobPool
    from telic.jobs.spec import JobRecord, JobSpec
    from telic.storage.files import read_record

    _refuse_own(request, "resume")
    folder = request.board.find(request.name)
    record = read_record(folder.record, JobRecord)
    if is_driven(record):
        raise Refused(f"{record.name} is being done.", hint=f"See: telic jobs logs {record.name}")
    if record.state == "done" and record.code == 0:
        raise Refused(
            f"{record.name} is done; doing it again would overwrite what came of it.",
            hint="For another one, run its command again.",
        )
    place = read_place(request.on or record.place)
    with JobPool(
        place,
        Path(request.runs_dir),
        on_event=request.on_event,
        should_stop=request.should_stop,
    ) as pool:
        return pool.submit(read_record(folder.spec, JobSpec)).result()
