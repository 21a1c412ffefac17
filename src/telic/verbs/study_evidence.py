"""Measure and watch runs, reflect on rewards, probe policies, and test what candidates claim."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from telic.core.config import Record
from telic.core.text import integers
from telic.core.verb import argument, option
from telic.errors import UsageError
from telic.studies.documents.candidate import Evidence
from telic.studies.evidence.audit import AuditResult
from telic.studies.evidence.measurement import SampleCheck
from telic.studies.evidence.monitor import MonitorReport
from telic.studies.evidence.probes import ProbePlan, ProbeSummary
from telic.studies.evidence.reflection import ReflectionResult
from telic.verbs.study import StudyRequest, study_verb

_RUN = "Run, e.g. r-20260801T090000Z-k3f9qa."
_CANDIDATE = "Candidate, e.g. c-0007-more-smoothness."


class SampleRequest(StudyRequest):
    """A log to read."""

    sample: Path = argument("A log, or a folder of logs, in the repository.")


@study_verb(SampleRequest, exit_code=lambda found: 4 if found.missing else 0)
def metrics(request: SampleRequest) -> SampleCheck:
    """Check that the metric spec can read a sample log; exit code 4 when a key is missing."""
    from telic.studies.evidence.measurement import check_sample

    return check_sample(request.open().folder, request.sample)


class RunRequest(StudyRequest):
    """A run."""

    run: str = argument(_RUN)


@study_verb(RunRequest)
def analyze(request: RunRequest) -> Evidence:
    """Measure a run that has ended and enter it as evidence; again is the same evidence."""
    from telic.studies.rules.stops import ingest

    return ingest(request.open(), request.run, request.who)


class MonitorRequest(StudyRequest):
    """Which runs to look at."""

    run: str | None = argument("Run; all live ones if left out.", default=None)


class MonitorReports(Record):
    """A look at live runs."""

    reports: tuple[MonitorReport, ...]

    def as_data(self) -> list[Any]:
        """Return the list alone."""
        return [report.as_data() for report in self.reports]


@study_verb(MonitorRequest)
def monitor(request: MonitorRequest) -> MonitorReports:
    """Look at live runs: are they alive, are they learning. Stops nothing."""
    from telic.studies.evidence.monitor import monitor_run

    study = request.open()
    runs = [request.run] if request.run else list(study.state.active_runs)
    reports = [monitor_run(study, run, request.who) for run in runs]
    return MonitorReports(reports=tuple(reports))


class RewardReflection(ReflectionResult):
    """What the terms of a reward did."""

    def as_data(self) -> dict[str, Any]:
        """Return the reflection, with its evidence."""
        return {"evidence": self.evidence.id, **self.reflection.as_data()}


@study_verb(RunRequest)
def reflect(request: RunRequest) -> RewardReflection:
    """Say what the terms of the reward did, how likely it is being gamed, and what to change."""
    from telic.studies.evidence.reflection import reflect_run

    found = reflect_run(request.open(), request.run, request.who)
    return RewardReflection(reflection=found.reflection, evidence=found.evidence)


class ReviewRequest(StudyRequest):
    """What somebody found in a candidate."""

    candidate: str = argument(_CANDIDATE)
    finding: str = option("What was found.", "--says")
    exploit: bool = option("Is the reward being gamed?", "--exploit/--no-exploit")


@study_verb(ReviewRequest)
def review(request: ReviewRequest) -> Evidence:
    """Enter a review of a candidate by somebody else than its author."""
    from telic.studies.evidence.hacking import review_candidate

    study = request.open()
    return review_candidate(
        study, request.candidate, request.who, request.finding, is_exploit=request.exploit
    )


class AuditResultRequest(StudyRequest):
    """A claim to test."""

    candidate: str = argument(_CANDIDATE)


class ClaimAudit(AuditResult):
    """How a candidate's claim came out."""

    def as_data(self) -> dict[str, Any]:
        """Return the audit, with its evidence."""
        return {"evidence": self.evidence.id, **self.audit.as_data()}


@study_verb(AuditResultRequest)
def audit_result(request: AuditResultRequest) -> ClaimAudit:
    """Test a candidate's claim against the incumbent: twelve checks, intervals, a verdict."""
    from telic.studies.evidence import audit as auditing

    found = auditing.audit_result(request.open(), request.candidate, request.who)
    return ClaimAudit(audit=found.audit, evidence=found.evidence)


# ---------------------------------------------------------------------------- probes


class ProbeRequest(StudyRequest):
    """How far to move the world."""

    candidate: str = argument(_CANDIDATE)
    checkpoint: Path = option("The policy's checkpoint; only hashed.")
    parameters: Sequence[str] = option(
        "path=nominal:low..high, with :log for a logarithmic grid.", "--parameter", many=True
    )
    seeds: Sequence[int] = option("At least three, e.g. 901-903.", read=integers)
    episodes: int = option("Per setting and seed.", default=10, minimum=10)


class PlannedProbe(Record):
    """A probe that was planned."""

    plan: ProbePlan
    evaluations: int
    evidence: str

    def as_data(self) -> dict[str, Any]:
        """Return the plan, with its evidence."""
        return {
            "evidence": self.evidence,
            "evaluations": self.evaluations,
            **self.plan.as_data(),
        }


@study_verb(ProbeRequest)
def dr_plan(request: ProbeRequest) -> PlannedProbe:
    """Plan how far one parameter of the world at a time is moved; measures nothing."""
    from telic.studies.canonical import file_hash
    from telic.studies.evidence.probes import plan_probe, read_parameters

    if not request.checkpoint.is_file():
        raise UsageError(f"There is no file {request.checkpoint}.")
    plan, sheet = plan_probe(
        request.open(),
        request.candidate,
        file_hash(request.checkpoint),
        read_parameters(list(request.parameters)),
        tuple(request.seeds),
        request.who,
        request.episodes,
    )
    return PlannedProbe(plan=plan, evaluations=plan.evaluations, evidence=sheet.id)


class ProbeResultsRequest(StudyRequest):
    """What a probe measured."""

    candidate: str = argument(_CANDIDATE)
    results: Path = argument("JSON or YAML with the scores per setting.")
    worst: float = option("Score of the worst policy, e.g. random.", default=0.0)


class ProbeOutcome(Record):
    """What a probe showed."""

    summary: ProbeSummary
    evidence: str

    def as_data(self) -> dict[str, Any]:
        """Return the summary, with its evidence."""
        return {"evidence": self.evidence, **self.summary.as_data()}


@study_verb(ProbeResultsRequest)
def dr_summary(request: ProbeResultsRequest) -> ProbeOutcome:
    """Say how far each parameter can be moved before the policy fails."""
    from telic.studies.evidence.probes import summarise_probe

    study = request.open()
    summary, sheet = summarise_probe(
        study, request.candidate, request.results, request.who, request.worst
    )
    return ProbeOutcome(summary=summary, evidence=sheet.id)
