"""Tools that measure: settle and analyse runs, watch, reflect, probe, audit, report."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from telic.core.config import Record
from telic.mcp.adding import ADDS, RECORDS, Server, add_tool
from telic.mcp.workplace import (
    Call,
    CandidateName,
    RunName,
    Study,
    Task,
    caller,
    study_of,
    workplace,
)
from telic.studies.canonical import file_hash
from telic.studies.documents.runs import Evidence
from telic.studies.evidence import audit as auditing
from telic.studies.evidence.audit import AuditResult
from telic.studies.evidence.hacking import review_candidate as enter_review
from telic.studies.evidence.monitor import MonitorReport
from telic.studies.evidence.monitor import monitor_run as watch
from telic.studies.evidence.probes import (
    ProbePlan,
    ProbeSummary,
    plan_probe,
    read_parameters,
    summarise_probe,
)
from telic.studies.evidence.reflection import ReflectionResult, reflect_run
from telic.studies.launch.recovery import RecoveredRun, reconcile
from telic.studies.next import next_step
from telic.studies.report.write import write_report as render
from telic.studies.rules.stops import ingest


class Settled(Record):
    """What became of the runs that were active."""

    runs: tuple[RecoveredRun, ...]


class Watched(Record):
    """A look at live runs."""

    reports: tuple[MonitorReport, ...]


class Planned(Record):
    """A probe that was planned."""

    plan: ProbePlan
    evaluations: int
    evidence: str


class Summarised(Record):
    """What a probe showed."""

    summary: ProbeSummary
    evidence: str


class ReportFiles(Record):
    """Where a report was written."""

    markdown: str
    page: str


def register(server: Server) -> None:
    """Add the tools."""
    add_tool(server, settle_runs, RECORDS)
    add_tool(server, analyze_run, RECORDS)
    add_tool(server, monitor_run, ADDS)
    for tool in (reflect_rewards, audit_result, dr_plan, dr_summarize):
        add_tool(server, tool, RECORDS)
    add_tool(server, review_candidate, RECORDS)
    add_tool(server, write_report, RECORDS)


def settle_runs(call: Call, task: Task = None, study: Study = None) -> Settled:
    """Bring the ledger in line with runs that ended or vanished; starts and stops nothing.

    Jobs of a scheduler are asked after by `telic study run --reconcile` in a terminal.
    """
    return Settled(runs=tuple(reconcile(study_of(call, task, study))))


def analyze_run(call: Call, run: RunName, task: Task = None, study: Study = None) -> Evidence:
    """Measure a run that has ended and enter it as evidence; again is the same evidence."""
    return ingest(study_of(call, task, study), run, caller(call))


def monitor_run(
    call: Call,
    run: Annotated[str | None, Field(description="Run; all live ones if left out.")] = None,
    task: Task = None,
    study: Study = None,
) -> Watched:
    """Look at live runs: are they alive, are they learning. Stops nothing."""
    opened = study_of(call, task, study)
    runs = [run] if run else list(opened.state.active_runs)
    return Watched(reports=tuple(watch(opened, each, caller(call)) for each in runs))


def reflect_rewards(
    call: Call, run: RunName, task: Task = None, study: Study = None
) -> ReflectionResult:
    """Say what the terms of the reward did, how likely it is being gamed, and what to change."""
    return reflect_run(study_of(call, task, study), run, caller(call))


def audit_result(
    call: Call, candidate: CandidateName, task: Task = None, study: Study = None
) -> AuditResult:
    """Test a candidate's claim against the incumbent: twelve checks, intervals, a verdict."""
    return auditing.audit_result(study_of(call, task, study), candidate, caller(call))


def dr_plan(
    call: Call,
    candidate: CandidateName,
    checkpoint: Annotated[str, Field(description="File in the repository; it is only hashed.")],
    parameters: Annotated[
        list[str], Field(description="path=nominal:low..high, with :log for a logarithmic grid.")
    ],
    seeds: Annotated[list[int], Field(min_length=3)],
    episodes: Annotated[int, Field(ge=10, description="Per setting and seed.")] = 10,
    task: Task = None,
    study: Study = None,
) -> Planned:
    """Plan how far one parameter of the world at a time is moved; measures nothing."""
    path = workplace(call).inside(checkpoint)
    plan, sheet = plan_probe(
        study_of(call, task, study),
        candidate,
        file_hash(path),
        read_parameters(parameters),
        tuple(seeds),
        caller(call),
        episodes,
    )
    return Planned(plan=plan, evaluations=plan.evaluations, evidence=sheet.id)


def dr_summarize(
    call: Call,
    candidate: CandidateName,
    results: Annotated[str, Field(description="JSON or YAML in the repository: the scores.")],
    worst: Annotated[float, Field(description="Score of the worst policy, e.g. random.")] = 0.0,
    task: Task = None,
    study: Study = None,
) -> Summarised:
    """Say how far each parameter can be moved before the policy fails."""
    path = workplace(call).inside(results)
    opened = study_of(call, task, study)
    found, sheet = summarise_probe(opened, candidate, path, caller(call), worst)
    return Summarised(summary=found, evidence=sheet.id)


def review_candidate(
    call: Call,
    candidate: CandidateName,
    finding: Annotated[str, Field(description="What was found.")],
    exploit: Annotated[bool, Field(description="Is the reward being gamed?")],
    task: Task = None,
    study: Study = None,
) -> Evidence:
    """Enter a review of a candidate by somebody else than its author."""
    opened = study_of(call, task, study)
    return enter_review(opened, candidate, caller(call), finding, is_exploit=exploit)


def write_report(call: Call, task: Task = None, study: Study = None) -> ReportFiles:
    """Write report.md and report.html from the ledger and the evidence; keeps people's notes."""
    opened = study_of(call, task, study)
    folder = render(opened, next_step(opened))
    return ReportFiles(
        markdown=str(folder.report.relative_to(folder.root)),
        page=str(folder.report_page.relative_to(folder.root)),
    )
