"""What is to be run and what came of it: jobs and batches, runs, evidence, decisions."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

from pydantic import Field

from telic.studies.documents.base import Actor, Document, Envelope, Part, Sha
from telic.studies.documents.contract import Amounts, Phase


class RunStatus(StrEnum):
    """Where a run is in its life."""

    PLANNED = "planned"
    STARTING = "starting"
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    KILLED = "killed"
    LOST = "lost"
    ABORTED = "aborted"


LIVE_RUNS = frozenset({RunStatus.STARTING, RunStatus.RUNNING})
KilledBy = Literal["user", "stop_rule", "monitor", "budget", "preempted"]
Verdict = Literal["accept", "reject", "inconclusive", "debug", "revert", "keep"]
EvidenceKind = Literal[
    "metrics",
    "eval",
    "judgment",
    "reflection",
    "monitor",
    "dr_probe",
    "trajectory",
    "review",
    "audit",
    "preflight",
    "condition",
]


class Times(Part):
    """When a run was planned, started and ended."""

    planned_at: str
    started_at: str | None = None
    ended_at: str | None = None


class Run(Envelope):
    """run.json: one process or job for one candidate, phase and seed."""

    schema_id: str = Field(default="telic.run/1", alias="schema")
    candidate: str
    phase: Phase
    seed: int
    kind: Literal["train", "eval", "search", "probe"] = "train"
    cmd_hash: Sha
    nonce: str | None = None
    launcher: str = "local"
    status: RunStatus = RunStatus.PLANNED
    killed_by: KilledBy | None = None
    why: str = ""
    times: Times
    resources: Amounts = Amounts()
    """what was reserved"""
    cost: Amounts | None = None
    """what it took; None until it ended"""
    artefacts: dict[str, str] = Field(default={})
    retry_of: str | None = None


class Producer(Part):
    """What made a piece of evidence."""

    name: str
    version: str


class Evidence(Envelope):
    """evidence/<id>.json: an immutable, hashed fact sheet."""

    schema_id: str = Field(default="telic.evidence/1", alias="schema")
    kind: EvidenceKind
    subject: tuple[str, ...] = Field(min_length=1, max_length=2)
    """a run, a candidate, or the two of a comparison"""
    protocol_hash: Sha | None = None
    payload: dict[str, Any]
    payload_hash: Sha
    producer: Producer
    summary: str = ""


class Decision(Envelope):
    """decisions/<id>.json."""

    schema_id: str = Field(default="telic.decision/1", alias="schema")
    candidate: str
    verdict: Verdict
    evidence: tuple[str, ...] = Field(min_length=1)
    audit: str | None = None
    actor: Actor
    rationale: str
    incumbent_before: str | None = None
    incumbent_after: str | None = None
    at: str


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
