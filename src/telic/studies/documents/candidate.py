"""Schemas of candidates, and of their runs, evidence and decisions."""

from enum import StrEnum
from typing import Any, ClassVar, Literal

from pydantic import Field

from telic.studies.canonical import SLUG
from telic.studies.documents.base import DocumentPart, Envelope, Sha
from telic.studies.documents.contract import COMMIT, CandidateKind, Direction, Resources, StudyPhase


class CandidateStatus(StrEnum):
    """Status of a candidate."""

    DRAFT = "draft"
    VALIDATED = "validated"
    LAUNCHED = "launched"
    COMPLETED = "completed"
    ACCEPTED = "accepted"
    REJECTED = "rejected"
    INCONCLUSIVE = "inconclusive"
    DEBUG = "debug"
    REVERTED = "reverted"


CLOSED_STATUSES = (
    *(CandidateStatus.ACCEPTED, CandidateStatus.REJECTED),
    *(CandidateStatus.INCONCLUSIVE, CandidateStatus.REVERTED),
)


class Expected(DocumentPart):
    """Expected effect if the hypothesis is correct."""

    metric: str
    direction: Direction
    magnitude: float | None = None


class Hypothesis(DocumentPart):
    """Reason why a change should help, with a condition that would falsify it."""

    statement: str
    mechanism: str = ""
    expected: Expected | None = None
    falsifier: str = ""


class Override(DocumentPart):
    """Parameter value before and after the change."""

    from_value: Any = Field(default=None, alias="from")
    to: Any


class ChangedFile(DocumentPart):
    """File attached to a candidate."""

    path: str
    sha256: Sha


class Change(DocumentPart):
    """Differences from the parent."""

    overrides: dict[str, Override] = Field(default={})
    patch: str | None = None
    """file in the folder of candidate.json; applies to base_commit"""
    patch_sha256: Sha | None = None
    """hash of the patch file, so that the content hash includes the patch"""
    files: tuple[ChangedFile, ...] = ()


class Plan(DocumentPart):
    """Phases, seeds and estimated cost."""

    phases: tuple[StudyPhase, ...] = ("smoke", "short_trial", "promotion")
    seeds: dict[StudyPhase, tuple[int, ...]] = Field(default={})
    steps: int | None = Field(default=None, ge=1)
    est: Resources = Resources()


class Isolation(DocumentPart):
    """Working tree in which the change is applied."""

    mode: Literal["in_place", "worktree"] = "in_place"
    gpu: int | None = None


class Origin(DocumentPart):
    """Origin of the idea."""

    engine: str
    model: str | None = None


class CheckResult(DocumentPart):
    """Result of one check or gate."""

    id: str
    title: str = ""
    passed: bool
    value: Any = None
    why: str = ""


class Candidate(Envelope):
    """Candidate (candidate.json). The status and phase come from the ledger, not from the file."""

    unhashed: ClassVar[frozenset[str]] = Envelope.unhashed | {"created_at", "created_by", "phase"}

    schema_id: str = Field(default="telic.candidate/1", alias="schema")
    revision: int = Field(default=1, ge=1)
    base_revision: int | None = None
    """revision on which this draft is based"""
    task_id: str = Field(pattern=SLUG)
    study_id: str = Field(pattern=SLUG)
    kind: CandidateKind
    parents: tuple[str, ...] = ()
    hypothesis: Hypothesis
    change: Change = Change()
    base_commit: str | None = Field(default=None, pattern=COMMIT)
    evidence_refs: tuple[str, ...] = ()
    reflection_ref: str | None = None
    dr_probe_ref: str | None = None
    replicate_of: str | None = None
    plan: Plan = Plan()
    isolation: Isolation = Isolation()
    origin: Origin
    curriculum: dict[str, Any] | None = None
    """extra fields of curriculum and environment_generation"""
    status: CandidateStatus = CandidateStatus.DRAFT
    phase: StudyPhase | None = None

    def file_data(self) -> dict[str, Any]:
        """Return the content of candidate.json."""
        return self.model_dump(mode="json", exclude={"status", "phase"})


class RunStatus(StrEnum):
    """Status of a run."""

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
StudyVerdict = Literal["accept", "reject", "inconclusive", "debug", "revert", "keep"]
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
    "ending",
]


class Evidence(Envelope):
    """Immutable, hashed evidence record (evidence/<id>.json)."""

    schema_id: str = Field(default="telic.evidence/1", alias="schema")
    kind: EvidenceKind
    subject: tuple[str, ...] = Field(min_length=1, max_length=2)
    """a run, a candidate, or the two sides of a comparison"""
    protocol_hash: Sha | None = None
    payload: dict[str, Any]
    summary: str = ""
