"""What any source of experiments has to tell, in the words of a study.

A source (a session, a search) is read into an `ImportedStudy`, which is then written as a study. It
holds only what the source recorded: what is unknown is None, what has not happened is left out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from telic.studies.canonical import moment, written
from telic.studies.documents.candidate import (
    CheckResult,
    EvidenceKind,
    Hypothesis,
    Origin,
    Override,
    Plan,
    Verdict,
)
from telic.studies.documents.contract import Amounts, CandidateKind, Phase, StudyBudget
from telic.studies.documents.metrics import MetricSpec, Protocol
from telic.studies.evidence.claims import ArmSummary, Audit, AuditVerdict
from telic.studies.folder import StudyKind

RunKind = Literal["train", "eval", "search", "probe"]
Curve = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class EvidenceSheet:
    """Facts that become a piece of evidence."""

    kind: EvidenceKind
    payload: dict[str, Any]
    producer: str
    summary: str = ""


@dataclass(frozen=True)
class ImportedRun:
    """One run that has ended, and what it came to."""

    key: str
    """names the run within its source; never changes"""
    began_at: str
    phase: Phase
    seed: int
    kind: RunKind
    primary: float | None
    cost: Amounts
    status: Literal["finished", "failed"] = "finished"
    why: str = ""
    argv: tuple[str, ...] = ()
    """what a person would type to have it made; empty where nobody can"""
    steps: float | None = None
    hardware: str | None = None
    rows: tuple[dict[str, Any], ...] = ()
    """the run's log: a row per step"""
    curves: dict[str, Curve] = field(default_factory=dict[str, Curve])
    sheets: tuple[EvidenceSheet, ...] = ()
    origin: Path | None = None
    """the folder that it was read from"""

    def name_in(self, work: ImportedStudy) -> str:
        """Return the run's id: the same one whenever the source is told."""
        mark = sha256(f"{work.name}/{self.key}".encode()).hexdigest()[:6]
        return f"r-{moment(self.began_at):%Y%m%dT%H%M%SZ}-{mark}"


@dataclass(frozen=True)
class Claim:
    """What the source itself concluded about a candidate, with the runs that it rests on."""

    verdict: AuditVerdict
    keys: tuple[str, ...]
    """of the runs"""
    against: str | None
    """candidate that it is shown beside; only for comparison, the verdict does not rest on it"""
    checks: tuple[CheckResult, ...]
    reasons: tuple[str, ...]
    measured: ArmSummary | None = None
    """what the source measured over; None: the interval of the runs' scores"""


@dataclass(frozen=True)
class Ruling:
    """What the source decided about a candidate."""

    verdict: Verdict
    because: str


@dataclass(frozen=True)
class ImportedCandidate:
    """One thing that was tried."""

    name: str
    """the candidate's id; never changes"""
    kind: CandidateKind
    parents: tuple[str, ...]
    hypothesis: Hypothesis
    origin: Origin
    plan: Plan
    files: dict[str, bytes] = field(default_factory=dict[str, bytes])
    overrides: dict[str, Override] = field(default_factory=dict[str, Override])
    params: tuple[float, ...] | None = None
    checks: tuple[CheckResult, ...] = ()
    """what had to hold before it was tried"""
    sheets: tuple[EvidenceSheet, ...] = ()
    runs: tuple[ImportedRun, ...] = ()
    is_over: bool = False
    """every run that it was to have is among `runs`"""
    failure: str | None = None
    """why it could not be tried"""
    claim: Claim | None = None
    ruling: Ruling | None = None
    trials: tuple[dict[str, Any], ...] = ()
    """of a search candidate: a line each, appended to as the search goes on"""


@dataclass(frozen=True)
class ModelCall:
    """One question to a model."""

    key: str
    role: str
    model: str
    usd: float | None
    tokens: float | None


@dataclass(frozen=True)
class ImportedStudy:
    """A whole study as its source tells it."""

    source: str
    """what kind of work it was: session, search"""
    name: str
    """the source's id"""
    path: Path
    task_id: str
    study_id: str
    kind: StudyKind
    statement: str
    success: str
    env_ids: tuple[str, ...]
    spec: MetricSpec
    protocol: Protocol
    kinds: tuple[CandidateKind, ...]
    budget: StudyBudget
    seeds: tuple[int, ...]
    continues_with: str
    """what is typed to have its next runs made"""
    settings: dict[str, Any]
    """the request as the source keeps it; goes into the contract"""
    candidates: tuple[ImportedCandidate, ...]
    calls: tuple[ModelCall, ...] = ()
    trials_at_most: int = 0
    ended: str | None = None
    """how it ended; None while it has not"""


@dataclass(frozen=True)
class WrittenAudit:
    """A claim as it was written down."""

    audit: Audit
    evidence: str


_STAMP = re.compile(r"_(\d{8}_\d{6})(?:_|$)")


def began_at(name: str, request: Path) -> str:
    """Return when work began: from its id, or for a renamed folder from its request's file."""
    stamp = _STAMP.search(name)
    if stamp is None:
        return written(datetime.fromtimestamp(request.stat().st_mtime, UTC))
    return written(datetime.strptime(stamp[1], "%Y%m%d_%H%M%S").replace(tzinfo=UTC))
