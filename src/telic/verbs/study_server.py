"""Operations for servers: summaries, lists, gates, and runs that require confirmation."""

from __future__ import annotations

from typing import Any

from telic.core.config import Record
from telic.core.request import argument, option
from telic.core.verb import Question, verb
from telic.storage.journal import JournalHead
from telic.studies.approvals import change_diff
from telic.studies.launch.attempt import check_token, next_request
from telic.studies.launch.launch import DryRun, look
from telic.studies.next import NextAction, next_step
from telic.studies.report import report_text
from telic.studies.state import BudgetState, CandidateState, FiredStop, Incumbent, RunState
from telic.verbs.study import CANDIDATE, StudyRequest, study_verb
from telic.verbs.study_runs import RunRequest, StudyProgress, resume_question, run_steps

# ---------------------------------------------------------------------------- reading


class StudyView(Record):
    """Summary of a study. The resource telic://TASK/STUDY/state contains the complete state."""

    study: str
    status: str
    ledger_head: JournalHead
    contract_version: int | None
    incumbent: Incumbent | None
    baseline: str | None
    noise_floor: float | None
    candidates: dict[str, int]
    """number of candidates by status"""
    active_runs: tuple[str, ...]
    pending_approvals: tuple[str, ...]
    stopped_by: tuple[FiredStop, ...]
    budget: BudgetState
    next: NextAction


@study_verb(StudyRequest)
def get_state(request: StudyRequest) -> StudyView:
    """Summarize the study and its next step."""
    study = request.open()
    state = study.state
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
        next=next_step(study),
    )


class CandidateLine(Record):
    """A candidate in a list."""

    id: str
    candidate: CandidateState


class CandidateList(Record):
    """The newest candidates of a study, oldest first."""

    candidates: tuple[CandidateLine, ...]
    left_out: int


class RunLine(Record):
    """A run in a list."""

    id: str
    run: RunState


class RunList(Record):
    """The newest runs of a study, oldest first."""

    runs: tuple[RunLine, ...]
    left_out: int


class ListRequest(StudyRequest):
    """A list to show."""

    limit: int = option("Maximum number of entries.", default=100, minimum=1, maximum=1000)


@study_verb(ListRequest)
def list_candidates(request: ListRequest) -> CandidateList:
    """List candidates with their status, phase, kind and parents."""
    found = list(request.open().state.candidates.items())
    lines = [CandidateLine(id=name, candidate=each) for name, each in found[-request.limit :]]
    return CandidateList(candidates=tuple(lines), left_out=len(found) - len(lines))


@study_verb(ListRequest)
def list_study_runs(request: ListRequest) -> RunList:
    """List runs. The resource telic://TASK/STUDY/runs/RUN/metrics contains the metrics of a run."""
    found = list(request.open().state.runs.items())
    lines = [RunLine(id=name, run=each) for name, each in found[-request.limit :]]
    return RunList(runs=tuple(lines), left_out=len(found) - len(lines))


class ReportText(Record):
    """A report as Markdown."""

    markdown: str


@study_verb(StudyRequest)
def get_report(request: StudyRequest) -> ReportText:
    """Return the report of the study as Markdown without writing files."""
    study = request.open()
    return ReportText(markdown=report_text(study, next_step(study)))


# ---------------------------------------------------------------------------- running


class GatesRequest(StudyRequest):
    """Request to evaluate the gates of a run."""

    candidate: str = argument(CANDIDATE)
    phase: str | None = option("Phase; default: the current one.", default=None)
    seed: int | None = option("Seed; default: the next one of the phase.", default=None)


class GateLook(Record):
    """Command and gates of a run."""

    open: bool
    look: DryRun

    def as_data(self) -> dict[str, Any]:
        """Return the gates and the command, and whether all gates are open."""
        return {**self.look.model_dump(mode="json"), "open": self.open}


@study_verb(GatesRequest)
def check_gates(request: GatesRequest) -> GateLook:
    """Evaluate the gates G01 to G24 and show the command of a run without starting it."""
    study = request.open()
    wanted = next_request(study, request.candidate, request.phase, request.seed)
    found = look(study, wanted, processes=False)
    return GateLook(open=found.is_open, look=found)


def _start_question(request: RunRequest) -> Question | None:
    """Return the confirmation needed to start or resume runs, or None if autonomy is approved."""
    if request.confirm is None:
        return resume_question(request)
    check_token(request.confirm)
    study = request.open()
    is_free = study.contract.automation.launch == "pre_approved"
    if is_free and study.approval("autonomy").status == "approved":
        return None
    step = next_step(study)
    name = request.candidate or step.args.get("candidate")
    diff = change_diff(study, name) if name in study.state.candidates else "nothing yet"
    about = (request.candidate,) if request.candidate else ()
    return Question(
        f"Next: {step.action}, {step.why}\nIt changes:\n{diff}\n"
        f"Start runs of {study.name} up to the next question?",
        request.terminal_command("run", *about, "--confirm", request.confirm),
    )


@verb(RunRequest, question=_start_question)
def run_asking(request: RunRequest) -> StudyProgress:
    """Execute all steps that need no person. With confirm, also start runs and wait for them.

    Asks the person before runs are started, unless autonomy is approved. With a candidate, one run
    is shown with its gates, or started. Returns at a question or after some minutes. Then call it
    again.
    """
    return run_steps.do(request)
