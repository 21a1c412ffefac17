"""Tools that start and end runs of a study; only there with --allow-launch."""

from __future__ import annotations

from typing import Annotated, Literal

from mcp.server.elicitation import ElicitationResult
from mcp.server.mcpserver import Elicit, Resolve
from pydantic import Field

from telic.core.config import Record
from telic.mcp.adding import STARTS, Server, add_tool, guarded
from telic.mcp.asking import NoForm, Question, Typed, ask, consent_to, terminal_command
from telic.mcp.workplace import (
    Because,
    Call,
    CandidateName,
    RunName,
    Study,
    Task,
    caller,
    study_of,
)
from telic.studies.launch.launch import LaunchResult, launch
from telic.studies.launch.recovery import stop_run as ask_to_stop
from telic.studies.launch.request import LaunchRequest, check_words, next_request
from telic.studies.study import Study as OpenStudy

Phase = Annotated[str | None, Field(description="The one the candidate is in if left out.")]
Seed = Annotated[int | None, Field(description="The next one of the phase if left out.")]
Confirm = Annotated[str, Field(description="The word RUN_CANDIDATE.")]


class LaunchAnswer(Record):
    """A run that was started, or the command for the person."""

    status: Literal["started", "ask_in_terminal"]
    launched: LaunchResult | None = None
    command: str | None = None


class StopAnswer(Record):
    """A run that was asked to end."""

    run: str
    next: str = "settle_runs"


def register(server: Server) -> None:
    """Add the tools."""
    for tool in (launch_candidate, stop_run):
        add_tool(server, tool, STARTS)


@guarded
def _launch_question(
    call: Call,
    candidate: CandidateName,
    phase: Phase,
    seed: Seed,
    confirm: Confirm,
    task: Task,
    study: Study,
) -> Question:
    check_words(True, confirm)
    opened = study_of(call, task, study)
    request = next_request(opened, candidate, phase, seed)
    made = opened.candidate(candidate)
    words = ["run", candidate, "--phase", request.phase, "--seed", str(request.seed)]
    words += ["--execute", "--confirm", confirm]
    text = (
        f"Start {candidate} of {opened.folder.name} in phase {request.phase} with seed "
        f"{request.seed}? Content {made.compute_hash()[:12]}."
    )
    seen = {"phase": request.phase, "seed": request.seed, "content_hash": made.compute_hash()}
    if _is_pre_approved(opened, request):
        seen["pre_approved"] = True
    return Question(text, terminal_command(words, task, study), seen)


@guarded
def _launch_form(
    call: Call, question: Annotated[Question, Resolve(_launch_question)]
) -> Elicit[Typed] | NoForm:
    return NoForm() if question.seen.get("pre_approved") else ask(call, question)


def launch_candidate(
    call: Call,
    candidate: CandidateName,
    confirm: Confirm,
    question: Annotated[Question, Resolve(_launch_question)],
    answer: Annotated[ElicitationResult[Typed], Resolve(_launch_form)],
    phase: Phase = None,
    seed: Seed = None,
    task: Task = None,
    study: Study = None,
) -> LaunchAnswer:
    """Start one run, if every gate is open; the person is asked unless it is pre-approved.

    It goes on by itself: look at it with monitor_run, and end with settle_runs and analyze_run.
    """
    actor = caller(call)
    if not question.seen.get("pre_approved"):
        consent = consent_to(call, question, answer)
        if consent is None:
            return LaunchAnswer(status="ask_in_terminal", command=question.command)
        actor = consent.actor
    opened = study_of(call, task, study)
    request = LaunchRequest(
        candidate,
        question.seen["phase"],
        question.seen["seed"],
        execute=True,
        confirm=confirm,
        expect=question.seen["content_hash"],
    )
    return LaunchAnswer(status="started", launched=launch(opened, request, actor))


def stop_run(
    call: Call, run: RunName, because: Because, task: Task = None, study: Study = None
) -> StopAnswer:
    """Ask a run to end."""
    ask_to_stop(study_of(call, task, study), run, "user", because)
    return StopAnswer(run=run)


def _is_pre_approved(opened: OpenStudy, request: LaunchRequest) -> bool:
    """Say whether the contract lets a run of this class start without a question."""
    if opened.contract.automation.launch != "pre_approved":
        return False
    found = opened.experiment_standing(request.candidate, request.phase)
    return found.status == "approved"
