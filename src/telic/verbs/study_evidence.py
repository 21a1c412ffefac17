"""Look at a study: where it stands, what is next, what its runs and candidates show, its report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from telic.core.config import Record
from telic.core.verb import argument, option
from telic.core.words import integers
from telic.errors import UsageError
from telic.studies.documents.ledger import LedgerHead
from telic.studies.documents.runs import Evidence
from telic.studies.evidence.auditing import AuditResult
from telic.studies.evidence.checking import SampleCheck
from telic.studies.evidence.monitoring import MonitorReport
from telic.studies.evidence.probe_summary import ProbeSummary
from telic.studies.evidence.probes import ProbePlan
from telic.studies.evidence.reflecting import ReflectionResult
from telic.studies.next import NextAction
from telic.studies.state import BudgetState, FiredStop, Incumbent
from telic.verbs.study import StudyRequest, study_verb

if TYPE_CHECKING:
    from telic.studies.state import StudyState

# ---------------------------------------------------------------------------- looking


class StateRequest(StudyRequest):
    """Where a study stands."""

    rebuild: bool = option("Make state.json again from the ledger.", default=False)


class StudyView(Record):
    """Where a study stands; the resource telic://TASK/STUDY/state has all of it."""

    study: str
    status: str
    ledger_head: LedgerHead
    contract_version: int | None
    incumbent: Incumbent | None
    baseline: str | None
    noise_floor: float | None
    candidates: dict[str, int]
    """how many there are, by status"""
    active_runs: tuple[str, ...]
    pending_approvals: tuple[str, ...]
    stopped_by: tuple[FiredStop, ...]
    budget: BudgetState
    next: NextAction


class StudyStanding(NamedTuple):
    """The whole state of a study, and what to do now."""

    state: StudyState
    following: NextAction

    def as_data(self) -> dict[str, Any]:
        """Return the state with the next action in it."""
        return {**self.state.as_data(), "next_action": self.following.as_data()}

    def summary(self) -> StudyView:
        """Return what fits into one look."""
        state = self.state
        return StudyView(
            study=state.study,
            status=state.study_status,
            ledger_head=state.ledger_head,
            contract_version=state.contract_version,
            incumbent=state.incumbent,
            baseline=state.baseline,
            noise_floor=state.noise_floor,
            candidates=state.counts,
            active_runs=state.active_runs,
            pending_approvals=state.pending_approvals,
            stopped_by=state.fired_stops,
            budget=state.budget,
            next=self.following,
        )


@study_verb(StateRequest)
def state(request: StateRequest) -> StudyStanding:
    """Show where the study stands, from the ledger alone."""
    from telic.studies.looking import next_step
    from telic.studies.projections import committed_head

    study = request.open()
    found = study.state
    if request.rebuild or committed_head(study.folder) != found.ledger_head:
        found = study.ledger.rebuild()
    return StudyStanding(found, next_step(study.ledger))


@study_verb(StudyRequest)
def get_state(request: StudyRequest) -> StudyView:
    """Say where the study stands and what to do next, from the ledger alone."""
    from telic.studies.looking import next_step

    study = request.open()
    return StudyStanding(study.state, next_step(study.ledger)).summary()


@study_verb(StudyRequest)
def next_action(request: StudyRequest) -> NextAction:
    """Say the next safe action, the command for it, and why; never does it."""
    from telic.studies.looking import note_next

    return note_next(request.open().ledger)


@study_verb(StudyRequest)
def loop_step(request: StudyRequest) -> NextAction:
    """Say the next safe action, with what, and why; never does it. Call this when unsure."""
    from telic.studies.looking import next_step

    return next_step(request.open().ledger)


# ---------------------------------------------------------------------------- the report


class StudyReportFiles(Record):
    """Where a report was written."""

    markdown: str
    page: str


@study_verb(StudyRequest)
def report(request: StudyRequest) -> StudyReportFiles:
    """Write report.md and report.html from the ledger and the evidence; keeps people's notes."""
    from telic.studies.looking import next_step
    from telic.studies.report.document import write_report

    ledger = request.open().ledger
    folder = write_report(ledger, next_step(ledger))
    return StudyReportFiles(markdown=str(folder.report), page=str(folder.report_page))


class ReportText(Record):
    """A report as Markdown."""

    markdown: str
    ledger_head: LedgerHead


@study_verb(StudyRequest)
def get_report(request: StudyRequest) -> ReportText:
    """Render the report of the study as Markdown; writes nothing (see write_report)."""
    from telic.studies.looking import next_step
    from telic.studies.report.document import report_text

    study = request.open()
    text = report_text(study.ledger, next_step(study.ledger))
    return ReportText(markdown=text, ledger_head=study.ledger.head)


_RUN = "Run, e.g. r-20260801T090000Z-k3f9qa."
_CANDIDATE = "Candidate, e.g. c-0007-more-smoothness."


class SampleRequest(StudyRequest):
    """A log to read."""

    sample: Path = argument("A log, or a folder of logs, in the repository.")


@study_verb(SampleRequest, exit_code=lambda found: 4 if found.missing else 0)
def metrics(request: SampleRequest) -> SampleCheck:
    """Check that the metric spec can read a sample log; exit code 4 when a key is missing."""
    from telic.studies.evidence.checking import check_sample

    return check_sample(request.open().folder, request.sample)


class RunRequest(StudyRequest):
    """A run."""

    run: str = argument(_RUN)


@study_verb(RunRequest)
def analyze(request: RunRequest) -> Evidence:
    """Measure a run that has ended and enter it as evidence; again is the same evidence."""
    from telic.studies.findings import ingest

    return ingest(request.open().ledger, request.run, request.who)


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
    from telic.studies.evidence.monitoring import monitor_run

    study = request.open()
    runs = [request.run] if request.run else list(study.state.active_runs)
    reports = [monitor_run(study.ledger, run, request.who) for run in runs]
    return MonitorReports(reports=tuple(reports))


class RewardReflection(ReflectionResult):
    """What the terms of a reward did."""

    def as_data(self) -> dict[str, Any]:
        """Return the reflection, with its evidence."""
        return {"evidence": self.evidence.id, **self.reflection.as_data()}


@study_verb(RunRequest)
def reflect(request: RunRequest) -> RewardReflection:
    """Say what the terms of the reward did, how likely it is being gamed, and what to change."""
    from telic.studies.evidence.reflecting import reflect_run

    found = reflect_run(request.open().ledger, request.run, request.who)
    return RewardReflection(reflection=found.reflection, evidence=found.evidence)


class ReviewRequest(StudyRequest):
    """What somebody found in a candidate."""

    candidate: str = argument(_CANDIDATE)
    finding: str = option("What was found.", "--says")
    exploit: bool = option("Is the reward being gamed?", "--exploit/--no-exploit")


@study_verb(ReviewRequest)
def review(request: ReviewRequest) -> Evidence:
    """Enter a review of a candidate by somebody else than its author."""
    from telic.studies.evidence.reviewing import review_candidate

    ledger = request.open().ledger
    return review_candidate(
        ledger, request.candidate, request.who, request.finding, is_exploit=request.exploit
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
    from telic.studies.evidence import auditing

    found = auditing.audit_result(request.open().ledger, request.candidate, request.who)
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
    from telic.studies.evidence.probing import plan_probe, read_parameters

    if not request.checkpoint.is_file():
        raise UsageError(f"There is no file {request.checkpoint}.")
    plan, sheet = plan_probe(
        request.open().ledger,
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
    from telic.studies.evidence.probing import summarise_probe

    ledger = request.open().ledger
    summary, sheet = summarise_probe(
        ledger, request.candidate, request.results, request.who, request.worst
    )
    return ProbeOutcome(summary=summary, evidence=sheet.id)
