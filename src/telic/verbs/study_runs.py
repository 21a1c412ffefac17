"""Take the next steps of a study, inspect the gates, and start and stop runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from pydantic import Field

from telic.core.config import Record
from telic.core.request import argument, inner, option
from telic.core.verb import Question, verb
from telic.studies.launch.attempt import LaunchRequest, check_words
from telic.studies.launch.launch import DryRun, LaunchResult
from telic.studies.next import NextAction
from telic.studies.study import Study
from telic.verbs.study import CANDIDATE, RUN, PersonRequest, StudyRequest, study_verb

_LOOK_EVERY_S = 0.5


class RunRequest(StudyRequest):
    """Steps to take, or one run."""

    candidate: str | None = argument(
        "Candidate to run once; left out: take every step that needs no person.", default=None
    )
    confirm: str | None = option(
        "The word RUN_CANDIDATE: start runs. Without it nothing is started.", default=None
    )
    phase: str | None = option("Phase; the present one if left out.", default=None)
    seed: int | None = option("Seed; the next one of the phase if left out.", default=None)
    expect: str | None = option(
        "First digits of the content hash that you have seen.", default=None
    )
    gpu: int | None = option("GPU to use, one of the contract's.", default=None)
    wait: bool = option("Wait for the end of the run and measure it.", "--wait", default=False)
    most: int = option("Stop after this number of steps.", default=1000, minimum=1)
    stop: str | None = option("Stop this run instead.", default=None)
    because: str = option("With --stop: why.", default="asked to stop")
    on_step: Callable[[str], None] = inner("Called with each step.", default=lambda _: None)
    processes: bool = inner("Whether programs may be started, e.g. of a scheduler.", default=True)


class StudyProgress(Record):
    """What was done: steps, a run, or a look at the gates."""

    study: str
    steps: dict[str, int] = Field(default={})
    """how often each kind of step was taken"""
    incumbent: str | None = None
    next: NextAction | None = None
    """what a person or an author has to do now"""
    gates: DryRun | None = None
    """what a run would start and which gates are open; nothing was started"""
    launched: LaunchResult | None = None
    status: str | None = None
    """of the run that was started"""
    why: str = ""
    stopped: str | None = None

    @property
    def is_refused(self) -> bool:
        """A gate is shut."""
        return self.gates is not None and not self.gates.is_open

    def as_data(self) -> dict[str, Any]:
        """Return what was done; a look at the gates says whether all are open."""
        data = self.model_dump(mode="json", exclude_none=True)
        return data if self.gates is None else {**data, "open": self.gates.is_open}


@verb(RunRequest, exit_code=lambda report: 3 if report.is_refused else 0)
def run(request: RunRequest) -> StudyProgress:
    """Take every step that needs no person, up to one clear question.

    Ended runs are settled, measured, reflected on and audited; candidates advance and are queued;
    the baseline is drafted. With --confirm RUN_CANDIDATE runs are started and awaited. With a
    CANDIDATE one run is shown with its gates, and started with --confirm. Exit codes: 2 usage, 3 a
    gate is shut, 4 validation, 5 integrity, 7 budget, 8 this machine lacks something.
    """
    from telic.studies.launch.recovery import stop_run

    check_words(request.confirm is not None, request.confirm)
    study = request.open()
    if request.stop is not None:
        stop_run(study, request.stop, "user", request.because)
        return StudyProgress(study=study.name, stopped=request.stop)
    return _steps(request, study) if request.candidate is None else _once(request, study)


def _steps(request: RunRequest, study: Study) -> StudyProgress:
    from telic.studies.drive import go

    done, said, last = dict[str, int](), None, None
    may_launch = request.confirm is not None
    for said in go(study, request.who, may_launch=may_launch, processes=request.processes):
        if said == last and said.action != "wait":  # it cannot be settled from here
            break
        last = said
        about = said.args.get("candidate") or said.args.get("run") or study.name
        request.on_step(f"{said.action} {about}: {said.why}")
        if said.action == "wait" and not may_launch:
            break
        done[said.action] = done.get(said.action, 0) + (said.action != "wait")
        if sum(done.values()) > request.most:
            break
    if said is not None and said.action in done:
        done[said.action] -= 1  # the last one was not taken
    trusted = study.incumbent
    return StudyProgress(
        study=study.name,
        steps={name: count for name, count in done.items() if count > 0},
        incumbent=None if trusted is None else trusted.candidate,
        next=said,
    )


def _once(request: RunRequest, study: Study) -> StudyProgress:
    from telic.studies.documents.candidate import RunStatus
    from telic.studies.launch.attempt import next_request
    from telic.studies.launch.launch import launch, look
    from telic.studies.launch.recovery import reconcile
    from telic.studies.rules.stops import ingest

    assert request.candidate is not None
    wanted = next_request(study, request.candidate, request.phase, request.seed)._replace(
        execute=request.confirm is not None,
        confirm=request.confirm,
        expect=request.expect,
        gpu=request.gpu,
    )
    if request.confirm is None:
        return StudyProgress(study=study.name, gates=look(study, wanted))
    launched = launch(study, wanted, request.who)
    while request.wait and study.state.runs[launched.run].is_live:
        time.sleep(_LOOK_EVERY_S)
        reconcile(study, processes=True)
    state = study.state.runs[launched.run]
    if request.wait and state.status == RunStatus.FINISHED:
        ingest(study, launched.run, request.who)
    return StudyProgress(
        study=study.name, launched=launched, status=str(state.status), why=state.why
    )


# ---------------------------------------------------------------------------- for servers


class GatesRequest(StudyRequest):
    """A run to look at."""

    candidate: str = argument(CANDIDATE)
    phase: str | None = option("Phase; the present one if left out.", default=None)
    seed: int | None = option("Seed; the next one of the phase if left out.", default=None)


class GateLook(Record):
    """What a run would start, and which gates are open."""

    open: bool
    look: DryRun

    def as_data(self) -> dict[str, Any]:
        """Return the gates and the start, with whether all are open."""
        return {**self.look.model_dump(mode="json"), "open": self.open}


@study_verb(GatesRequest)
def check_gates(request: GatesRequest) -> GateLook:
    """Evaluate the gates G01 to G24 and show what a run would start; starts nothing."""
    from telic.studies.launch.attempt import next_request
    from telic.studies.launch.launch import look

    study = request.open()
    wanted = next_request(study, request.candidate, request.phase, request.seed)
    found = look(study, wanted, processes=False)
    return GateLook(open=found.is_open, look=found)


class ContinueRequest(StudyRequest):
    """A study whose machine steps are due."""


@verb(ContinueRequest)
def continue_study(request: ContinueRequest) -> StudyProgress:
    """Take every step that needs no person and starts no run; says what to do next."""
    shared = {name: getattr(request, name) for name in ("root", "actor", "task", "study")}
    return run.do(RunRequest(processes=False, **shared))


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


class StopRequest(StudyRequest):
    """A run to stop."""

    run: str = argument(RUN)
    because: str = option("Why; kept in the ledger.", default="asked to stop")


@verb(StopRequest)
def stop_run(request: StopRequest) -> StudyProgress:
    """Stop a run; continue_study settles it."""
    from telic.studies.launch.recovery import stop_run as ask_to_stop

    study = request.open()
    ask_to_stop(study, request.run, "user", request.because)
    return StudyProgress(study=study.name, stopped=request.run)
