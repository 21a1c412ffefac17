"""Processes that this server, or one before it, has started."""

from __future__ import annotations

from fastapi import APIRouter

from telic.core.config import Record
from telic.verbs.background import StartedJob, list_jobs, read_job, read_log
from telic.web.place import WebPlace


class JobLog(Record):
    """The end of what a job printed."""

    job: str
    log: str


def routes(place: WebPlace) -> APIRouter:
    """Return the routes of jobs."""
    router = APIRouter(tags=["work"])

    @router.get("/jobs")
    def list_started() -> list[StartedJob]:
        """List what was started from here, the latest first."""
        return list_jobs(place.runs_dir)

    @router.get("/jobs/{job}")
    def read_started(job: str) -> StartedJob:
        """Say how far a job is, and which thing it works on once that is known."""
        return read_job(place.runs_dir, job)

    @router.get("/jobs/{job}/log")
    def read_printed(job: str) -> JobLog:
        """Return the end of what a job printed."""
        return JobLog(job=job, log=read_log(place.runs_dir, job))

    return router
