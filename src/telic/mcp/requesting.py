"""Tools that ask a person to decide, to confirm a field of the adapter, or to go on."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from mcp.server.elicitation import ElicitationResult
from mcp.server.mcpserver import Elicit, Resolve
from pydantic import Field

from telic.core.config import Record
from telic.mcp.adding import RECORDS, Server, add_tool, guarded
from telic.mcp.asking import Asked, NoForm, Question, Typed, ask, consent_to, terminal_command
from telic.mcp.workplace import Because, Call, CandidateName, Study, Task, study_of
from telic.studies.administration import resume_study, why_stopped
from telic.studies.decide import DecisionOutcome, decide, revert
from telic.studies.documents.adapter import confirm_field
from telic.studies.documents.files import rewrite_yaml, value_at, yaml_text


class AskedDecision(Record):
    """What became of a decision that a person makes."""

    status: Literal["agreed", "ask_in_terminal"]
    decision: DecisionOutcome | None = None
    command: str | None = None


def register(server: Server) -> None:
    """Add the tools."""
    for tool in (request_decision, request_confirmation, request_resume):
        add_tool(server, tool, RECORDS)


# ---------------------------------------------------------------------------- decisions


@guarded
def _decision_question(
    call: Call,
    candidate: CandidateName,
    verdict: str,
    because: Because,
    audit: str | None,
    to: str | None,
    task: Task,
    study: Study,
) -> Question:
    folder = study_of(call, task, study).folder
    words = [verdict, candidate] if verdict == "revert" else ["decide", candidate, verdict]
    words += ["--because", because]
    words += ["--audit", audit] if audit else []
    words += ["--to", to] if to else []
    text = f"{verdict.capitalize()} {candidate} in {folder.name}? Because: {because}"
    return Question(text, terminal_command(words, task, study))


@guarded
def _decision_form(
    call: Call, question: Annotated[Question, Resolve(_decision_question)]
) -> Elicit[Typed] | NoForm:
    return ask(call, question)


def request_decision(
    call: Call,
    candidate: CandidateName,
    verdict: Literal["accept", "keep", "revert"],
    because: Because,
    question: Annotated[Question, Resolve(_decision_question)],
    answer: Annotated[ElicitationResult[Typed], Resolve(_decision_form)],
    audit: Annotated[str | None, Field(description="The newest if left out.")] = None,
    to: Annotated[str | None, Field(description="With revert: whom to trust again.")] = None,
    task: Task = None,
    study: Study = None,
) -> AskedDecision:
    """Ask the person to accept a candidate as the incumbent, to keep it, or to take it back."""
    consent = consent_to(call, question, answer)
    if consent is None:
        return AskedDecision(status="ask_in_terminal", command=question.command)
    opened = study_of(call, task, study)
    if verdict == "revert":
        made = revert(opened, candidate, consent.actor, because, to=to)
    else:
        made = decide(opened, candidate, verdict, consent.actor, because, audit=audit)
    return AskedDecision(status="agreed", decision=made)


# ---------------------------------------------------------------------------- the adapter


@guarded
def _field_question(call: Call, field: str, value: Any, task: Task, study: Study) -> Question:
    folder = study_of(call, task, study).folder
    held = value_at(confirm_field(folder.read_adapter(), field, value).as_data(), field)
    words = ["confirm", field, *([] if value is None else [str(value)])]
    text = f"{field} is\n{yaml_text(held)}\nIs that right for {folder.task_id}?"
    return Question(text, terminal_command(words, task, study))


@guarded
def _field_form(
    call: Call, question: Annotated[Question, Resolve(_field_question)]
) -> Elicit[Typed] | NoForm:
    return ask(call, question)


def request_confirmation(
    call: Call,
    field: Annotated[str, Field(description="E.g. commands.train, seeds, metrics.map.return.")],
    question: Annotated[Question, Resolve(_field_question)],
    answer: Annotated[ElicitationResult[Typed], Resolve(_field_form)],
    value: Annotated[
        Any, Field(description="What it is; left out: what the adapter says is right.")
    ] = None,
    task: Task = None,
    study: Study = None,
) -> Asked:
    """Ask the person to confirm or correct a field of adapter.yaml; launches need some of them."""
    consent = consent_to(call, question, answer)
    if consent is None:
        return Asked(status="ask_in_terminal", what=(field,), command=question.command)
    folder = study_of(call, task, study).folder
    rewrite_yaml(folder.adapter, confirm_field(folder.read_adapter(), field, value))
    return Asked(status="agreed", what=(field,))


# ---------------------------------------------------------------------------- resuming


@guarded
def _resume_question(call: Call, because: Because, task: Task, study: Study) -> Question:
    opened = study_of(call, task, study)
    text = f"Resume {opened.name}? It stopped because: {why_stopped(opened)}"
    return Question(text, terminal_command(["resume", "--reason", because], task, study))


@guarded
def _resume_form(
    call: Call, question: Annotated[Question, Resolve(_resume_question)]
) -> Elicit[Typed] | NoForm:
    return ask(call, question)


def request_resume(
    call: Call,
    because: Because,
    question: Annotated[Question, Resolve(_resume_question)],
    answer: Annotated[ElicitationResult[Typed], Resolve(_resume_form)],
    task: Task = None,
    study: Study = None,
) -> Asked:
    """Ask the person to open a paused study again."""
    consent = consent_to(call, question, answer)
    if consent is None:
        return Asked(status="ask_in_terminal", what=("resume",), command=question.command)
    resume_study(study_of(call, task, study), consent, because)
    return Asked(status="agreed", what=("resume",))
