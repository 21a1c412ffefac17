"""Tools that ask a person to approve: parts of the contract, a candidate, an amendment."""

from __future__ import annotations

from typing import Annotated, get_args

from mcp.server.elicitation import ElicitationResult
from mcp.server.mcpserver import Elicit, Resolve
from pydantic import Field

from telic.mcp.adding import RECORDS, Server, add_tool, guarded
from telic.mcp.asking import Asked, NoForm, Question, Typed, ask, consent_to, terminal_command
from telic.mcp.workplace import Because, Call, Study, Task, caller, study_of
from telic.studies.approvals import grant, reject, shown, void_changed
from telic.studies.contract import amend
from telic.studies.documents.contract import ApprovalKey
from telic.studies.documents.files import yaml_text

Keys = Annotated[
    list[ApprovalKey] | None, Field(description="What to approve; everything missing if left out.")
]
ForCandidate = Annotated[
    str | None, Field(description="For experiment and physical_actuation: the candidate.")
]


def register(server: Server) -> None:
    """Add the tools."""
    for tool in (request_approval, request_amendment):
        add_tool(server, tool, RECORDS)


# ---------------------------------------------------------------------------- approvals


@guarded
def _approval_question(
    call: Call, keys: Keys, candidate: ForCandidate, refuse: bool, task: Task, study: Study
) -> Question:
    opened = study_of(call, task, study)
    chosen = keys or [each.key for each in opened.missing_approvals]
    seen = {key: opened.standing(key, candidate).subject_hash for key in chosen}
    subjects = [f"── {key}\n{yaml_text(shown(opened, key, candidate))}" for key in chosen]
    verb = "Reject" if refuse else "Approve"
    text = "\n".join([*subjects, f"{verb} {', '.join(chosen)} of {opened.name}?", *seen.values()])
    words = ["approve", *chosen, *(["--candidate", candidate] if candidate else [])]
    words += ["--reject"] if refuse else []
    return Question(text, terminal_command(words, task, study), dict(seen))


@guarded
def _approval_form(
    call: Call, question: Annotated[Question, Resolve(_approval_question)]
) -> Elicit[Typed] | NoForm:
    return ask(call, question) if question.seen else NoForm()


def request_approval(
    call: Call,
    question: Annotated[Question, Resolve(_approval_question)],
    answer: Annotated[ElicitationResult[Typed], Resolve(_approval_form)],
    keys: Keys = None,
    candidate: ForCandidate = None,
    refuse: Annotated[bool, Field(description="Ask the person to say no for the record.")] = False,
    note: Annotated[str, Field(description="A word for the record.")] = "",
    task: Task = None,
    study: Study = None,
) -> Asked:
    """Ask the person to approve parts of the contract, or a candidate (key experiment).

    The person is shown the text and types a code. You cannot answer for them.
    """
    if not question.seen:
        return Asked(status="nothing_to_ask", what=())
    what = tuple(question.seen)
    consent = consent_to(call, question, answer)
    if consent is None:
        return Asked(status="ask_in_terminal", what=what, command=question.command)
    opened = study_of(call, task, study)
    known: dict[str, ApprovalKey] = {each: each for each in get_args(ApprovalKey)}
    for name, seen in question.seen.items():
        key = known[name]
        if refuse:
            reject(opened, key, consent, candidate=candidate, note=note)
        else:
            grant(opened, key, consent, candidate=candidate, note=note, seen_hash=seen)
    return Asked(status="agreed", what=what)


# ---------------------------------------------------------------------------- the contract


@guarded
def _amendment_question(call: Call, because: Because, task: Task, study: Study) -> Question:
    opened = study_of(call, task, study)
    text = opened.folder.contract.read_text("utf-8")
    return Question(
        f"{text}\nAmend the contract of {opened.folder.name}: {because}",
        terminal_command(["contract", "amend", "--reason", because], task, study),
        {"approvals": len(opened.state.approvals)},
    )


@guarded
def _amendment_form(
    call: Call, question: Annotated[Question, Resolve(_amendment_question)]
) -> Elicit[Typed] | NoForm:
    # Before anything is approved the contract is a draft, and whoever drafts it may record it.
    return ask(call, question) if question.seen["approvals"] else NoForm()


def request_amendment(
    call: Call,
    because: Because,
    question: Annotated[Question, Resolve(_amendment_question)],
    answer: Annotated[ElicitationResult[Typed], Resolve(_amendment_form)],
    task: Task = None,
    study: Study = None,
) -> Asked:
    """Record contract.yaml as it is as a new version; once parts are approved, a person agrees."""
    opened = study_of(call, task, study)
    actor = caller(call)
    if question.seen["approvals"]:
        consent = consent_to(call, question, answer)
        if consent is None:
            return Asked(status="ask_in_terminal", what=("contract",), command=question.command)
        actor = consent.actor
    event = amend(opened, actor, because)
    voided = tuple(str(each.data["key"]) for each in void_changed(opened))
    return Asked(status="agreed", what=(f"version {event.data['version']}",), voided=voided)
