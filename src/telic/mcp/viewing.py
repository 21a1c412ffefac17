"""Tools that look: the state of a study, its candidates, its runs, its report."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from telic.core.config import Record
from telic.mcp.adding import READS, Server, add_tool
from telic.mcp.workplace import Call, CandidateName, Study, Task, study_of
from telic.studies.candidates import read_candidate
from telic.studies.chain import LedgerHead
from telic.studies.documents.candidate import Candidate
from telic.studies.next import NextAction, next_step
from telic.studies.report.markdown import kept_notes, render_markdown
from telic.studies.report.story import gather
from telic.studies.state import BudgetState, CandidateState, FiredStop, Incumbent, RunState

Limit = Annotated[int, Field(ge=1, le=1000, description="At most so many, the newest.")]


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


class CandidateLine(Record):
    """A candidate in a list."""

    id: str
    candidate: CandidateState


class Candidates(Record):
    """Candidates of a study, the oldest first."""

    candidates: tuple[CandidateLine, ...]
    left_out: int


class RunLine(Record):
    """A run in a list."""

    id: str
    run: RunState


class Runs(Record):
    """Runs of a study, the oldest first."""

    runs: tuple[RunLine, ...]
    left_out: int


class Report(Record):
    """A report as Markdown."""

    markdown: str
    ledger_head: LedgerHead


def register(server: Server) -> None:
    """Add the tools."""
    for tool in (get_state, list_candidates, get_candidate, get_report, query_runs):
        add_tool(server, tool, READS)


def get_state(call: Call, task: Task = None, study: Study = None) -> StudyView:
    """Say where the study stands and what to do next, from the ledger alone."""
    opened = study_of(call, task, study)
    state = opened.state
    return StudyView(
        study=opened.folder.name,
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
        next=next_step(opened),
    )


def list_candidates(
    call: Call,
    status: Annotated[str | None, Field(description="Only those with this status.")] = None,
    limit: Limit = 100,
    task: Task = None,
    study: Study = None,
) -> Candidates:
    """List candidates with their status, phase, kind and parents."""
    state = study_of(call, task, study).state
    found = [
        CandidateLine(id=name, candidate=each)
        for name, each in state.candidates.items()
        if status in (None, each.status)
    ]
    return Candidates(candidates=tuple(found[-limit:]), left_out=max(0, len(found) - limit))


def get_candidate(
    call: Call, candidate: CandidateName, task: Task = None, study: Study = None
) -> Candidate:
    """Show one candidate: its hypothesis, change, plan, and how its checks went."""
    return read_candidate(study_of(call, task, study).folder, candidate)


def get_report(call: Call, task: Task = None, study: Study = None) -> Report:
    """Render the report of the study as Markdown; writes nothing (see write_report)."""
    opened = study_of(call, task, study)
    path = opened.folder.report
    notes = kept_notes(path.read_text("utf-8") if path.is_file() else "")
    text = render_markdown(gather(opened, next_step(opened)), notes)
    return Report(markdown=text, ledger_head=opened.ledger.head)


def query_runs(
    call: Call,
    candidate: Annotated[str | None, Field(description="Only runs of this candidate.")] = None,
    phase: Annotated[str | None, Field(description="Only runs of this phase.")] = None,
    status: Annotated[str | None, Field(description="Only runs with this status.")] = None,
    limit: Limit = 100,
    task: Task = None,
    study: Study = None,
) -> Runs:
    """List runs; telic://TASK/STUDY/runs/RUN/metrics has the numbers of one."""
    state = study_of(call, task, study).state
    found = [
        RunLine(id=name, run=each)
        for name, each in state.runs.items()
        if candidate in (None, each.candidate)
        and phase in (None, each.phase)
        and status in (None, each.status)
    ]
    return Runs(runs=tuple(found[-limit:]), left_out=max(0, len(found) - limit))
