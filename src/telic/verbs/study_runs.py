"""Put runs in order, look at the gates, and start, settle and end runs: the one way to do that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from telic.core.config import Record
from telic.core.request import argument, option
from telic.core.verb import Question, Wrapped, verb
from telic.studies.budget import BudgetState
from telic.studies.documents.candidate import Job, KilledBy, QueueBatch
from telic.studies.documents.contract import Amounts
from telic.studies.launch.attempt import LaunchRequest, check_words, reservation_of
from telic.studies.launch.launch import DryRun, LaunchResult
from telic.studies.launch.recovery import RecoveredRun
from telic.studies.queue import QueueStep
from telic.studies.rules.results import PhaseStep
from telic.studies.state import RunState, StudyState
from telic.studies.study import Study
from telic.verbs.study import CANDIDATE, RUN, PersonRequest, StudyRequest, study_verb

# ---------------------------------------------------------------------------- the queue


class JobList(Wrapped, Record):
    """Jobs that are in the queue now."""

    jobs: tuple[Job, ...]


class PlanRequest(StudyRequest):
    """A candidate to queue."""

    candidate: str = argument(CANDIDATE)
    priority: int = option("Higher goes first under that policy.", default=0)


@study_verb(PlanRequest)
def plan(request: PlanRequest) -> JobList:
    """Queue every phase and seed of a validated candidate; twice is once."""
    from telic.studies.queue import plan_candidate

    study = request.open()
    jobs = plan_candidate(study, request.candidate, request.who, priority=request.priority)
    return JobList(jobs=tuple(jobs))


@study_verb(StudyRequest)
def step(request: StudyRequest) -> QueueStep:
    """Show which jobs may start now and why the others wait; changes nothing."""
    from telic.studies.queue import queue_step

    return queue_step(request.open())


class Advances(Wrapped, Record):
    """Completed candidates: where each goes, and why."""

    candidates: tuple[PhaseStep, ...]


@study_verb(StudyRequest)
def advance(request: StudyRequest) -> Advances:
    """Send completed candidates to their next phase where its rule allows; says why others stay."""
    from telic.studies.queue import advance as send_on

    return Advances(candidates=tuple(send_on(request.open())))


class MoreSeedsRequest(StudyRequest):
    """An open question."""

    candidate: str = argument(CANDIDATE)
    because: str = option("Why.", "--because", default="")


@study_verb(MoreSeedsRequest)
def more_seeds(request: MoreSeedsRequest) -> JobList:
    """Give an open question another block of five fresh seeds, in both arms."""
    from telic.studies.queue import more_seeds as ask_for_seeds

    study = request.open()
    jobs = ask_for_seeds(study, request.candidate, request.who, request.because)
    return JobList(jobs=tuple(jobs))


@study_verb(StudyRequest)
def check_incumbent(request: StudyRequest) -> JobList:
    """Queue held-out seeds for the incumbent and the one before it, side by side."""
    from telic.studies.queue import plan_incumbent_check

    return JobList(jobs=tuple(plan_incumbent_check(request.open(), request.who)))


class BatchRequest(StudyRequest):
    """Candidates to plan together."""

    batch: str = argument("Name of the batch, e.g. weights.")
    candidates: Sequence[str] = argument("Validated candidates.", many=True)
    goal: str = option("What the batch is to find out.", default="")


@study_verb(BatchRequest)
def batch(request: BatchRequest) -> QueueBatch:
    """Plan candidates side by side, each with its GPU and worktree; written to experiments.yaml."""
    from telic.studies.queue import plan_batch

    study = request.open()
    return plan_batch(study, request.batch, request.goal, list(request.candidates), request.who)


def _priorities(words: Sequence[str], flag: str) -> dict[str, int]:
    from telic.core.text import integers, texts

    return {name: integers(text, flag)[0] for name, text in texts(words, flag).items()}


class ReorderRequest(StudyRequest):
    """How jobs are put in order."""

    order: Literal["fifo", "priority", "successive_halving"] | None = option(
        "fifo, priority or successive_halving.", default=None
    )
    eta: int | None = option("One in so many goes on.", default=None, minimum=2)
    priorities: Mapping[str, int] | None = option(
        "candidate=number; higher goes first.",
        "--priority",
        default=None,
        many=True,
        read=_priorities,
    )


@dataclass(frozen=True)
class QueueOrder(Wrapped):
    """The order that jobs become ready in."""

    queue: Any


@study_verb(ReorderRequest)
def reorder(request: ReorderRequest) -> QueueOrder:
    """Change the order in which jobs become ready."""
    from telic.studies.queue import reorder as put_in_order

    return QueueOrder(
        put_in_order(
            request.open(),
            request.who,
            order=request.order,
            eta=request.eta,
            priorities=dict(request.priorities or {}),
        )
    )


# ---------------------------------------------------------------------------- looking


class RunLine(Record):
    """A run in a list."""

    id: str
    run: RunState


class RunList(Record):
    """Runs of a study, the oldest first."""

    runs: tuple[RunLine, ...]
    left_out: int


class QueryRequest(StudyRequest):
    """Which runs to list."""

    candidate: str | None = option("Only runs of this candidate.", default=None)
    phase: str | None = option("Only runs of this phase.", default=None)
    status: str | None = option("Only runs with this status.", default=None)
    limit: int = option("At most so many, the newest.", default=100, minimum=1, maximum=1000)


@study_verb(QueryRequest)
def query_runs(request: QueryRequest) -> RunList:
    """List runs; telic://TASK/STUDY/runs/RUN/metrics has the numbers of one."""
    lines = [
        RunLine(id=name, run=run)
        for name, run in request.open().state.runs.items()
        if request.candidate in (None, run.candidate)
        and request.phase in (None, run.phase)
        and request.status in (None, run.status)
    ]
    left_out = max(0, len(lines) - request.limit)
    return RunList(runs=tuple(lines[-request.limit :]), left_out=left_out)


class BudgetView(Record):
    """What was spent, is held and is left."""

    budget: BudgetState
    exhausted: tuple[str, ...]
    reservation: Amounts | None = None
    """what one run of the named candidate would hold"""
    shortfalls: tuple[str, ...] = ()
    """why that would not fit"""


class BudgetRequest(StudyRequest):
    """What may still be spent."""

    candidate: str | None = option("Would one run of it fit?", default=None)


@study_verb(BudgetRequest)
def budget_check(request: BudgetRequest) -> BudgetView:
    """Say what was spent, is held and is left, and whether a run of a candidate would fit."""
    from telic.studies.budget import exhausted, shortfalls
    from telic.studies.launch.attempt import next_request

    study = request.open()
    state: StudyState = study.state
    view = BudgetView(budget=state.budget, exhausted=tuple(exhausted(state)))
    if request.candidate is None:
        return view
    launch_next = next_request(study, request.candidate)
    needed = reservation_of(study.candidate(request.candidate).plan, launch_next.phase)
    missing = shortfalls(state, needed, request.candidate, launch_next.phase)
    return view.model_copy(update={"reservation": needed, "shortfalls": tuple(missing)})


class GatesRequest(StudyRequest):
    """A launch to look at."""

    candidate: str = argument(CANDIDATE)
    phase: str | None = option("Phase; the one the candidate is in if left out.", default=None)
    seed: int | None = option("Seed; the next one of the phase if left out.", default=None)


class GateLook(Record):
    """What a launch would start, and which gates are open."""

    open: bool
    look: DryRun

    def as_data(self) -> dict[str, Any]:
        """Return the gates and the start, with whether all are open."""
        return {**self.look.model_dump(mode="json"), "open": self.open}


@study_verb(GatesRequest)
def check_gates(request: GatesRequest) -> GateLook:
    """Evaluate the gates G01 to G24 and show what a launch would start; starts nothing."""
    from telic.studies.launch.attempt import next_request
    from telic.studies.launch.launch import look

    study = request.open()
    launch_next = next_request(study, request.candidate, request.phase, request.seed)
    found = look(study, launch_next, processes=False)
    return GateLook(open=found.is_open, look=found)


# ---------------------------------------------------------------------------- starting and ending


class StartRequest(PersonRequest):
    """A run to start."""

    candidate: str = argument(CANDIDATE)
    confirm: str = option("The word RUN_CANDIDATE.")
    phase: str | None = option("Phase; the one the candidate is in if left out.", default=None)
    seed: int | None = option("Seed; the next one of the phase if left out.", default=None)


def _launch_question(request: StartRequest) -> Question | None:
    from telic.studies.launch.attempt import next_request

    check_words(True, request.confirm)
    study = request.open()
    run = next_request(study, request.candidate, request.phase, request.seed)
    content = study.candidate(request.candidate).compute_hash()
    seen = {"phase": run.phase, "seed": run.seed, "content_hash": content}
    words = ("run", request.candidate, "--phase", run.phase, "--seed", str(run.seed))
    return Question(
        f"Start {request.candidate} of {study.name} in phase {run.phase} with seed {run.seed}? "
        f"Content {content[:12]}.",
        request.terminal_command(*words, "--execute", "--confirm", request.confirm),
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

    It goes on by itself: look at it with monitor_run, and end with settle_runs and analyze_run.
    """
    from telic.studies.launch.launch import launch

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


class SettledRuns(Wrapped, Record):
    """What became of the runs that were active."""

    runs: tuple[RecoveredRun, ...]


@study_verb(StudyRequest)
def settle_runs(request: StudyRequest) -> SettledRuns:
    """Bring the ledger in line with runs that ended or vanished; starts and stops nothing.

    Jobs of a scheduler are asked after by `telic study run --reconcile` in a terminal.
    """
    from telic.studies.launch.recovery import reconcile

    return SettledRuns(runs=tuple(reconcile(request.open())))


class StopRequest(StudyRequest):
    """A run to end."""

    run: str = argument(RUN)
    because: str = option("Why; kept in the ledger.", default="asked to stop")
    by: KilledBy = option("Who ends it.", default="user", what="reason to stop")


class StoppedRun(Record):
    """A run that was asked to end."""

    run: str
    next: str = "settle_runs"

    def as_data(self) -> dict[str, Any]:
        """Return the run."""
        return {"run": self.run, "asked_to_stop": True}


@verb(StopRequest)
def stop_run(request: StopRequest) -> StoppedRun:
    """Ask a run to end."""
    from telic.studies.launch.recovery import stop_run as ask_to_stop

    ask_to_stop(request.open(), request.run, request.by, request.because)
    return StoppedRun(run=request.run)
