"""List jobs, print their logs, and stop or retry them."""

from __future__ import annotations

from pathlib import Path

from telic.core.config import Record
from telic.core.request import RunsRequest, WatchedRequest, argument, option
from telic.core.verb import VerbResult, verb
from telic.errors import Refused, UsageError
from telic.jobs.board import JobBoard, JobRow, chosen_job
from telic.jobs.launcher import read_place
from telic.jobs.pool import JobPool
from telic.jobs.spec import JobRecord, JobSpec
from telic.storage.files import read_record
from telic.storage.keys import require_permitted

_EXAMPLES = """
telic bench intents --on ray://head:10001       run every case as a job on a Ray cluster
telic jobs                                      place, attempts and failures of each job
telic jobs run_2026... --logs                   end of its output
telic jobs run_2026... --retry                  resume it from the files that were copied back
"""


class _JobsRequest(RunsRequest, WatchedRequest):
    """Request for all jobs or a single job."""

    name: str | None = argument("Job: a name or its prefix, or 'latest'.", default=None)
    logs: bool = option("Print the last lines of the latest attempt's output.", default=False)
    stop: bool = option("Ask the job to save its state and stop.", default=False)
    retry: bool = option("Retry a failed, stopped or interrupted job.", default=False)
    on: str | None = option("Place: local, ray://HOST:PORT or slurm.", "--on", default=None)
    limit: int = option("Maximum number of jobs, newest first.", default=20, minimum=0)

    @property
    def board(self) -> JobBoard:
        """Table of the jobs on other machines."""
        return JobBoard(Path(self.runs_dir))


class PrintedLog(Record):
    """Last lines of a job's output."""

    job: str
    log: str


def _exit_code(result: object) -> int:
    if not isinstance(result, JobRecord):
        return 0
    return 1 if result.code is None else result.code


@verb(_JobsRequest, examples=_EXAMPLES, exit_code=_exit_code)
def jobs(request: _JobsRequest) -> VerbResult[list[JobRow]] | PrintedLog | JobRow | JobRecord:
    """List jobs with their place, attempts and state, print the log of a job, or stop or retry it.

    Jobs started from the dashboard are listed on the Machine page of the dashboard.
    """
    if request.logs + request.stop + request.retry > 1:
        raise UsageError("--logs, --stop and --retry cannot be combined.")
    lines = request.board.lines()
    name = request.name or "latest"
    if request.logs:
        name = chosen_job(name, lines)
        return PrintedLog(job=name, log=request.board.log(name))
    if request.stop:
        return request.board.stop(name)
    if request.retry:
        return _retry(request, name)
    if request.name is not None:
        name = chosen_job(name, lines)
        return next(line for line in lines if line.job == name)
    return VerbResult(lines[: request.limit])


def _retry(request: _JobsRequest, name: str) -> JobRecord:
    folder = request.board.find(name)
    record = request.board.read_own(folder)
    if record.is_driven:
        raise Refused(f"{record.name} is running.", hint=f"See: telic jobs {record.name} --logs")
    if record.state == "done" and record.code == 0:
        raise Refused(
            f"{record.name} is done, and a retry would overwrite its results.",
            hint="Rerun its command to start a new job.",
        )
    spec = read_record(folder.spec, JobSpec)
    require_permitted(spec.code, *([] if request.on else [f"jobs on {record.place}"]))
    with JobPool(
        read_place(request.on or record.place),
        Path(request.runs_dir),
        on_event=request.on_event,
        should_stop=request.should_stop,
    ) as pool:
        return pool.submit(spec).result()
