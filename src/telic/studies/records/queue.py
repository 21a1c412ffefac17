"""The order of work: queue.json, and the plan for people: experiments.yaml."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from telic.studies.records.base import Document, Part
from telic.studies.records.contract import Phase

JobStatus = Literal["waiting", "ready", "leased", "running", "done", "failed", "cancelled"]


class QueuePolicy(Part):
    """How jobs are ordered."""

    max_parallel: int = Field(default=1, ge=1)
    order: Literal["fifo", "priority", "successive_halving"] = "fifo"
    eta: int = Field(default=3, ge=2)
    gpus: tuple[int, ...] = ()


class Lease(Part):
    """Who took a job, until when."""

    by: str
    until: str


class Slot(Part):
    """Where a job runs."""

    gpu: int | None = None
    worktree: str | None = None


class Job(Part):
    """One run to be: a candidate, a phase and a seed."""

    job_id: str
    candidate: str
    phase: Phase
    seed: int
    depends_on: tuple[str, ...] = ()
    status: JobStatus = "waiting"
    lease: Lease | None = None
    priority: int = 0
    slot: Slot = Slot()
    run_id: str | None = None
    attempts: int = Field(default=0, ge=0)
    reason: str | None = None


class QueueManifest(Document):
    """queue.json."""

    schema_id: str = Field(default="telic.queue/1", alias="schema")
    study: str
    policy: QueuePolicy = QueuePolicy()
    jobs: tuple[Job, ...] = ()


class BatchCandidate(Part):
    """A candidate in a batch."""

    id: str
    seeds: tuple[int, ...] = ()
    phase: Phase
    worktree: str | None = None
    gpu: int | None = None
    expected_output: str | None = None
    promotion_criteria: str | None = None


class Batch(Part):
    """Candidates that are tried side by side."""

    batch_id: str
    goal: str
    created_at: str
    candidates: tuple[BatchCandidate, ...] = ()


class Idea(Part):
    """Something to try later."""

    idea: str
    kind: str
    why: str = ""
    est: dict[str, Any] | None = None


class Experiments(Document):
    """experiments.yaml: a plan for people; it changes nothing until a candidate exists."""

    schema_id: str = Field(default="telic.experiments/1", alias="schema")
    batches: tuple[Batch, ...] = ()
    backlog: tuple[Idea, ...] = ()
