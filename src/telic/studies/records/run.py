"""What came of a candidate: runs, evidence and decisions."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

from pydantic import Field

from telic.studies.records.adapter import LauncherKind
from telic.studies.records.base import Actor, Envelope, Part, Sha
from telic.studies.records.contract import Amounts, Phase


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
    launcher: LauncherKind = "local"
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
