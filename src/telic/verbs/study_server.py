"""Verbs of servers besides the commands: lists, gates, launches, notes, pauses."""

from __future__ import annotations

from typing import Any

from telic.core.config import Record
from telic.core.request import argument, option
from telic.core.verb import Question, verb
from telic.storage.journal import JournalHead
from telic.studies.budget import BudgetState
from telic.studies.launch.attempt import LaunchRequest, check_words, next_request
from telic.studies.launch.launch import DryRun, LaunchResult, launch, look
from telic.studies.next import NextAction, next_step
from telic.studies.report import report_text
from telic.studies.state import CandidateState, FiredStop, Incumbent, RunState
from telic.studies.study import Study
from telic.verbs.study import CANDIDATE, RUN, PersonRequest, StudyRequest, study_verb
from telic.verbs.study_runs import RunRequest, StudyProgress, resume_question, run

# ---------------------------------------------------------------------------- reading


class StudyView(Record):
    """A summary of a study; the resource telic://TASK/STUDY/state has all of it."""

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
    """The newest candidates of a study, the oldest of them first."""

    candidates: tuple[CandidateLine, ...]
    left_out: int


class RunLine(Record):
    """A run in a list."""

    id: str
    run: RunState


class RunList(Record):
    """The newest runs of a study, the oldest of them first."""

    runs: tuple[RunLine, ...]
    left_out: int


class ListRequest(StudyRequest):
    """A list to show."""

    limit: int = option("Number of entries.", default=100, minimum=1, maximum=1000)


@study_verb(ListRequest)
def list_candidates(request: ListRequest) -> CandidateList:
    """List candidates with their status, phase, kind and parents."""
    found = list(request.open().state.candidates.items())
    lines = [CandidateLine(id=name, candidate=each) for name, each in found[-request.limit :]]
    return CandidateList(candidates=tuple(lines), left_out=len(found) - len(lines))


@study_verb(ListRequest)
def list_runs(request: ListRequest) -> RunList:
    """List runs; telic://TASK/STUDY/runs/RUN/metrics has the numbers of one."""
    found = list(request.open().state.runs.items())
    lines = [RunLine(id=name, run=each) for name, each in found[-request.limit :]]
    return RunList(runs=tuple(lines), left_out=len(found) - len(lines))


@study_verb(StudyRequest)
def loop_step(request: StudyRequest) -> NextAction:
    """Return the next safe step and the reason; never takes it. Call this when unsure."""
    return next_step(request.open())


class ReportText(Record):
    """A report as Markdown."""

    markdown: str


@study_verb(StudyRequest)
def get_report(request: StudyRequest) -> ReportText:
    """Render the report of the study as Markdown; writes nothing."""
    study = request.open()
    return ReportText(markdown=report_text(study, next_step(study)))


# ---------------------------------------------------------------------------- running


class GatesRequest(StudyRequest):
    """A run to look at."""

    candidate: str = argument(CANDIDATE)
    phase: str | None = option("Phase; the present one if left out.", default=None)
    seed: int | None = option("Seed; the next one of the phase if left out.", default=None)


class GateLook(Record):
    """The command of a run, and its gates."""

    open: bool
    look: DryRun

    def as_data(self) -> dict[str, Any]:
        """Return the gates and the start, with whether all are open."""
        return {**self.look.model_dump(mode="json"), "open": self.open}


@study_verb(GatesRequest)
def check_gates(request: GatesRequest) -> GateLook:
    """Evaluate the gates G01 to G24 and show what a run would start; starts nothing."""
    study = request.open()
    wanted = next_request(study, request.candidate, request.phase, request.seed)
    found = look(study, wanted, processes=False)
    return GateLook(open=found.is_open, look=found)


@verb(StudyRequest)
def continue_study(request: StudyRequest) -> StudyProgress:
    """Take every step that needs no person and starts no run; says what to do next."""
    return _run(request, processes=False)


def _run_request(request: StudyRequest, **more: Any) -> RunRequest:
    shared = {name: getattr(request, name) for name in ("root", "actor", "task", "study")}
    return RunRequest(**shared, **more)


def _run(request: StudyRequest, **more: Any) -> StudyProgress:
    return run.do(_run_request(request, **more))


class StartRequest(PersonRequest):
    """A run to start."""

    candidate: str = argument(CANDIDATE)
    confirm: str = option("The word RUN_CANDIDATE.")
    phase: str | None = option("Phase; the one the candidate is in if left out.", default=None)
    seed: int | None = option("Seed; the next one of the phase if left out.", default=None)


def _launch_question(request: StartRequest) -> Question | None:
    check_words(True, request.confirm)
    study = request.open()
    run = next_request(study, request.candidate, request.phase, request.seed)
    content = study.candidate(request.candidate).compute_hash()
    seen = {"phase": run.phase, "seed": run.seed, "content_hash": content}
    words = ("run", request.candidate, "--phase", run.phase, "--seed", str(run.seed))
    return Question(
        f"Start {request.candidate} of {study.name} in phase {run.phase} with seed {run.seed}? "
        f"Content {content[:12]}.",
        request.terminal_command(*words, "--confirm", request.confirm),
        {**seen, "needs_nobody": _is_pre_approved(study, run)},
    )


def _is_pre_approved(study: Study, run: LaunchRequest) -> bool:
    """Say whether the contract lets a run of this class start without a question."""
    if study.contract.automation.launch != "pre_approved":
        return False
    return study.experiment_standing(run.candidate, run.phase).status == "approved"


@verb(StartRequest, question=_launch_question)
def launch_candidate(request: StartRequest) -> LaunchResult:
    """Start one run, if every gate is open; the person is asked unless it is pre-approved.

    It runs by itself: watch it with audit, and settle it with continue_study.
    """
    seen = dict(request.seen or {})
    actor = request.who if seen.get("needs_nobody") else request.person.actor
    run = LaunchRequest(
        request.candidate,
        seen["phase"],
        seen["seed"],
        execute=True,
        confirm=request.confirm,
        expect=seen["content_hash"],
    )
    return launch(request.open(), run, actor)


class StopRequest(StudyRequest):
    """A run to stop."""

    run: str = argument(RUN)
    because: str = option("Why; kept in the ledger.", default="asked to stop")


@verb(StopRequest)
def stop_run(request: StopRequest) -> StudyProgress:
    """Stop a run; continue_study settles it."""
    return _run(request, stop=request.run, because=request.because)


class PauseRequest(StudyRequest):
    """A study to pause."""

    because: str = option("Why.", default="no reason given")


@study_verb(PauseRequest)
def pause(request: PauseRequest) -> StudyProgress:
    """Stop launches until a person resumes the study; live runs continue."""
    return _run(request, pause=True, because=request.because)


class ResumeRequest(PersonRequest):
    """A study to resume."""

    because: str = option("Why.", default="no reason given")


def _resume_question(request: ResumeRequest) -> Question | None:
    return resume_question(_run_request(request, resume=True, because=request.because))


@study_verb(ResumeRequest, question=_resume_question)
def resume(request: ResumeRequest) -> StudyProgress:
    """Resume a paused study; a person has to agree."""
    return _run(request, resume=True, because=request.because, consent=request.consent)


class NoteRequest(StudyRequest):
    """A note for the ledger."""

    text: str = argument("What to remember.")
    about: str | None = option("Candidate or run it is about.", default=None)


class StudyNote(Record):
    """A note in the ledger."""

    seq: int


@study_verb(NoteRequest)
def add_note(request: NoteRequest) -> StudyNote:
    """Add a note to the ledger of the study."""
    study = request.open()
    with study.locked():
        event = study.append("note.added", request.about, {"text": request.text}, request.who)
    return StudyNote(seq=event.seq)
