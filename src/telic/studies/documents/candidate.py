"""Candidates, and the kinds of runs, evidence and decisions about them."""

from enum import StrEnum
from typing import Any, ClassVar, Literal

from pydantic import Field

from telic.studies.canonical import SLUG
from telic.studies.documents.base import DocumentPart, Envelope, Sha
from telic.studies.documents.contract import Amounts, CandidateKind, Direction, Phase


class CandidateStatus(StrEnum):
    """The status of a candidate."""

    DRAFT = "draft"
    VALIDATED = "validated"
    LAUNCHED = "launched"
    COMPLETED = "completed"
    ACCEPTED = "accepted"
    REJECTED = "rejected"
    INCONCLUSIVE = "inconclusive"
    DEBUG = "debug"
    REVERTED = "reverted"


class Expected(DocumentPart):
    """The effect expected if the hypothesis is right."""

    metric: str
    direction: Direction
    magnitude: float | None = None


class Hypothesis(DocumentPart):
    """The reason why a change should help, and what would refute it."""

    statement: str
    mechanism: str = ""
    expected: Expected | None = None
    falsifier: str = ""


class Override(DocumentPart):
    """A parameter before and after."""

    from_value: Any = Field(default=None, alias="from")
    to: Any


class ChangedFile(DocumentPart):
    """A file that the candidate brings along."""

    path: str
    sha256: Sha


class Change(DocumentPart):
    """The differences from the parent."""

    overrides: dict[str, Override] = Field(default={})
    patch: str | None = None
    """file in the folder of candidate.json; applies to base_commit"""
    patch_sha256: Sha | None = None
    """of the patch file, so that the content hash covers what the patch does"""
    files: tuple[ChangedFile, ...] = ()
    params: tuple[float, ...] | None = None
    """only in candidates of earlier versions"""


class Plan(DocumentPart):
    """Phases, seeds and what they are thought to cost."""

    phases: tuple[Phase, ...] = ("smoke", "short_trial", "promotion")
    seeds: dict[Phase, tuple[int, ...]] = Field(default={})
    steps: int | None = Field(default=None, ge=1)
    est: Amounts = Amounts()
    promotion_rule: str = ""


class Isolation(DocumentPart):
    """The tree in which the change is made."""

    mode: Literal["in_place", "worktree"] = "in_place"
    worktree: str | None = None
    gpu: int | None = None


class Origin(DocumentPart):
    """The origin of the idea."""

    engine: str
    work_order: str | None = None
    model: str | None = None
    prompt_hash: Sha | None = None
    cost: Any = None


class CheckResult(DocumentPart):
    """One check or gate by its code."""

    id: str
    passed: bool
    value: Any = None
    why: str = ""


class Candidate(Envelope):
    """candidate.json; status and phase are those of the ledger and not in the file."""

    unhashed: ClassVar[frozenset[str]] = Envelope.unhashed | {"created_at", "created_by", "phase"}

    schema_id: str = Field(default="telic.candidate/1", alias="schema")
    revision: int = Field(default=1, ge=1)
    base_revision: int | None = None
    """the revision this draft was made from"""
    task_id: str = Field(pattern=SLUG)
    study_id: str = Field(pattern=SLUG)
    kind: CandidateKind
    parents: tuple[str, ...] = ()
    hypothesis: Hypothesis
    change: Change = Change()
    base_commit: str | None = None
    evidence_refs: tuple[str, ...] = ()
    reflection_ref: str | None = None
    dr_probe_ref: str | None = None
    replicate_of: str | None = None
    invariants: tuple[Any, ...] = ()
    """only in candidates of earlier versions"""
    plan: Plan = Plan()
    isolation: Isolation = Isolation()
    origin: Origin
    curriculum: dict[str, Any] | None = None
    """extra fields of curriculum and environment_generation"""
    status: CandidateStatus = CandidateStatus.DRAFT
    phase: Phase | None = None

    def file_data(self) -> dict[str, Any]:
        """Return what candidate.json holds."""
        return self.model_dump(mode="json", exclude={"status", "phase"})


class RunStatus(StrEnum):
    """The status of a run."""

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
    "ending",
]


class Producer(DocumentPart):
    """The program that made an evidence record."""

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
