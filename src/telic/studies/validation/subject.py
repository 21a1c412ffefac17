"""What the checks look at: a candidate and everything around it, read once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from telic.studies.documents.adapter import Adapter
from telic.studies.documents.candidate import Candidate, CandidateStatus
from telic.studies.documents.contract import Amounts, Contract, Phase
from telic.studies.documents.metrics import MetricSpec, Protocol
from telic.studies.documents.runs import Evidence
from telic.studies.patch import Patch


class Finding(NamedTuple):
    """What a check found; without problems it passed."""

    problems: tuple[str, ...] = ()
    value: Any = None


class Tried(NamedTuple):
    """Another candidate of the study."""

    candidate: Candidate
    status: CandidateStatus
    had_runs: bool

    @property
    def counts(self) -> bool:
        """Whether it was tried or is about to be; a draft or a withdrawn idea was not."""
        return self.status not in (CandidateStatus.DRAFT, CandidateStatus.REJECTED) or self.had_runs


class UsedSeed(NamedTuple):
    """A seed of a finished run of this candidate."""

    phase: Phase
    seed: int
    revision: int
    """of the candidate at that time"""


@dataclass(frozen=True)
class Subject:
    """A candidate, the agreement it must fit, and what was tried before."""

    candidate: Candidate
    candidate_id: str
    """as the folder and the ledger call it"""
    study: tuple[str, str]
    """task and study as the folder calls them"""
    status: CandidateStatus
    """as the ledger has it"""
    may_be: frozenset[CandidateStatus]
    """statuses from which this request makes sense"""
    is_open: bool
    revision: int
    """as the ledger has it"""
    root: Path
    is_git: bool
    folder: Path
    """of the candidate"""
    patch: Patch | None
    contract: Contract
    adapter: Adapter
    metric_spec: MetricSpec
    protocol: Protocol
    spec_hash: str | None
    """of the metric spec as it is on disk"""
    protocol_hash: str | None
    """of the protocol as it is on disk"""
    evidence: dict[str, Evidence]
    """what it refers to and the study has unaltered, by id"""
    others: tuple[Tried, ...]
    used_seeds: tuple[UsedSeed, ...]
    left: Amounts
    """budget that others have neither spent nor reserved"""
    now: str

    @property
    def patch_file(self) -> Path | None:
        """The patch, when the candidate names one."""
        name = self.candidate.change.patch
        return None if name is None else self.folder / name

    @property
    def touched(self) -> tuple[str, ...]:
        """Every file of the repository that the change writes."""
        brought = [each.path for each in self.candidate.change.files]
        return tuple(dict.fromkeys([*(self.patch.files if self.patch else ()), *brought]))

    def other(self, candidate_id: str) -> Tried | None:
        """Return another candidate by id."""
        return next((each for each in self.others if each.candidate.id == candidate_id), None)
