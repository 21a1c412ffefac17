"""What any source of experiments has to tell, in the words of a study.

A source (a session, a search) is read into an `ImportedStudy`, which is then written as a study. It
holds only what the source recorded: what is unknown is None, what has not happened is left out.
What it concluded about a candidate becomes an audit, which a decision cites.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from telic.judges.verdict import Judgement, Source
from telic.studies.canonical import content_hash, moment, utc_now, written
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
from telic.studies.evidence import statistics
from telic.studies.evidence.audit import difference_stats
from telic.studies.evidence.claims import ArmSummary, Audit, AuditStats, AuditVerdict
from telic.studies.folder import StudyKind

RunKind = Literal["train", "eval", "search", "probe"]
Curve = tuple[tuple[float, float], ...]
_STAMP = re.compile(r"_(\d{8}_\d{6})(?:_|$)")
_SOURCES: tuple[Source, ...] = ("code", "vision", "human")
_FEWEST_TO_COMPARE = 2


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


def began_at(name: str, request: Path) -> str:
    """Return when work began: from its id, or for a renamed folder from its request's file."""
    stamp = _STAMP.search(name)
    if stamp is None:
        return written(datetime.fromtimestamp(request.stat().st_mtime, UTC))
    return written(datetime.strptime(stamp[1], "%Y%m%d_%H%M%S").replace(tzinfo=UTC))


def budget_of(**limits: float | None) -> StudyBudget:
    """Return a budget of the limits that are set."""
    limits = {name: limit for name, limit in limits.items() if limit is not None}
    return StudyBudget.model_validate(limits)


def judgement_sheets(judgement: Judgement) -> tuple[EvidenceSheet, ...]:
    """Return a sheet per judge, and one of the fused score where there were several."""
    fused = [verdict for verdict in judgement.verdicts if verdict.source == "fused"]
    if not fused:
        source = judgement.verdicts[0].source if judgement.verdicts else "code"
        return (_whole_judgement(judgement, source),)
    sheets: list[EvidenceSheet] = []
    means: dict[Source, float] = {}
    for source in _SOURCES:
        by_episode = [verdict.by_judge.get(source) for verdict in fused]
        scores = [score for score in by_episode if score is not None]
        if scores:
            mean = means[source] = fmean(scores)
            facts = {"source": source, "score": mean, "episodes": len(fused)}
            facts |= {"unknown": len(fused) - len(scores), "by_episode": by_episode}
            sheets.append(_judgement(source, facts, f"{mean:.3g}"))
    whole = _whole_judgement(judgement, "fused")
    # Reflection looks here for how far the judges are apart.
    names: dict[str, Source] = {"code": "code", "visual": "vision"}
    by_judge = {name: means[source] for name, source in names.items() if source in means}
    return (*sheets, replace(whole, payload={**whole.payload, **by_judge}))


def _whole_judgement(judgement: Judgement, source: Source) -> EvidenceSheet:
    facts = {
        "source": source,
        "score": judgement.score,
        "low": judgement.low,
        "episodes": judgement.episodes,
        "unknown": judgement.unknown,
        "by_episode": [verdict.score for verdict in judgement.verdicts],
        "lacking": list(judgement.tags),
        "criteria": {
            title: {"credit": credit, "measured": value}
            for title, (credit, value) in judgement.leaves.items()
        },
        "disagreements": sum(len(verdict.disagreements) for verdict in judgement.verdicts),
    }
    score = judgement.score
    return _judgement(source, facts, "could not tell" if score is None else f"{score:.3g}")


def _judgement(source: Source, facts: dict[str, Any], score: str) -> EvidenceSheet:
    return EvidenceSheet("judgment", facts, f"telic.judge.{source}", f"{source}: {score}")


def source_audit(
    work: ImportedStudy, candidate: ImportedCandidate, claim: Claim, protocol_hash: str
) -> Audit:
    """Return a source's own conclusion about a candidate as an audit."""
    arms = {"x": _arm(work, candidate, claim)}
    other = next((each for each in work.candidates if each.name == claim.against), None)
    if other is not None and other.claim is not None:
        arms["y"] = _arm(work, other, other.claim)
    identity = content_hash(
        {
            "candidate": candidate.name,
            "verdict": claim.verdict,
            "arms": {name: arm.as_data() for name, arm in arms.items()},
            "checks": [check.as_data() for check in claim.checks],
        }
    )
    seed = statistics.seed_of(identity)
    return Audit(
        id=f"a-{identity[:12]}",
        at=utc_now(),
        candidate=candidate.name,
        incumbent=other.name if "y" in arms and other else None,
        protocol_hash=protocol_hash,
        arms=arms,
        checks=claim.checks,
        stats=_stats(arms, seed),
        verdict=claim.verdict,
        reasons=claim.reasons,
        label="target_claim",
        prng_seed=str(seed),
    )


def _arm(work: ImportedStudy, candidate: ImportedCandidate, claim: Claim) -> ArmSummary:
    runs = [run for run in candidate.runs if run.key in claim.keys]
    names = tuple(run.name_in(work) for run in runs)
    if claim.measured is not None:
        return claim.measured.model_copy(update={"runs": names})
    scored = [(run.primary, run.seed) for run in runs if run.primary is not None]
    scores = [score for score, _ in scored]
    seed = statistics.seed_of(candidate.name)
    return ArmSummary(
        n=len(scores),
        seeds=tuple(seed for _, seed in scored),
        runs=names,
        scores=tuple(scores),
        iqm=statistics.iqm(scores) if scores else None,
        ci=statistics.iqm_interval(scores, seed) if scores else None,
    )


def _stats(arms: dict[str, ArmSummary], seed: int) -> AuditStats:
    """Return the numbers of the comparison; empty where there is nothing to compare with."""
    if "y" not in arms or min(len(arm.scores) for arm in arms.values()) < _FEWEST_TO_COMPARE:
        return AuditStats()
    ours, theirs = ({"": list(arm.scores)} for arm in arms.values())
    is_common = arms["x"].seeds == arms["y"].seeds
    return difference_stats(statistics.difference(ours, theirs, seed, common_units=is_common))
