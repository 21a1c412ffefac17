"""Tools by which an agent writes: a study, its contract, its metrics, notes, proposals."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from telic.core.config import Record
from telic.mcp.adding import RECORDS, Server, add_tool
from telic.mcp.checking import ContractView
from telic.mcp.checking import check_contract as contract_view
from telic.mcp.workplace import (
    Because,
    Call,
    CandidateName,
    RequestKey,
    Study,
    Task,
    caller,
    study_of,
    workplace,
)
from telic.studies import contract as contracts
from telic.studies.administration import create_study
from telic.studies.administration import pause_study as pause
from telic.studies.chain import LedgerEvent
from telic.studies.contract import hash_evaluator
from telic.studies.decide import DecisionOutcome, decide
from telic.studies.documents.files import write_yaml
from telic.studies.documents.metrics import MetricSpec, Protocol
from telic.studies.documents.runs import Verdict
from telic.studies.registry import StudyKind
from telic.studies.study import Study as OpenStudy


class Created(Record):
    """A study that was begun."""

    study: str
    folder: str
    next: str


class Entered(Record):
    """An event of the ledger."""

    seq: int
    type: str


class Written(Record):
    """Files that were written."""

    files: tuple[str, ...]


def register(server: Server) -> None:
    """Add the tools."""
    for tool in (init_study, draft_contract, draft_metrics, propose_decision, add_note):
        add_tool(server, tool, RECORDS)
    add_tool(server, pause_study, RECORDS)


def init_study(
    call: Call,
    task: Annotated[str, Field(description="Name of the task, e.g. g1-walk.")],
    study: Annotated[str, Field(description="Name of the study, e.g. speed.")],
    says: Annotated[str, Field(description="What the robot must do.")] = "",
    kind: StudyKind = "external",
) -> Created:
    """Begin a study: folders, a contract to fill in, a ledger. Twice is once."""
    place = workplace(call)
    folder = create_study(place.root, task, study, caller(call), statement=says, kind=kind).folder
    return Created(
        study=folder.name,
        folder=str(folder.path.relative_to(folder.root)),
        next="audit_repo with write, then draft_contract and draft_metrics",
    )


def draft_contract(
    call: Call,
    answers: Annotated[
        dict[str, Any], Field(description="Dotted place to value, e.g. budget.gpu_h: 96.")
    ],
    task: Task = None,
    study: Study = None,
) -> ContractView:
    """Write answers into contract.yaml and say what is still to be asked. Approves nothing."""
    contracts.draft_contract(study_of(call, task, study), answers)
    return contract_view(call, task, study)


def draft_metrics(
    call: Call,
    metric_spec: Annotated[
        dict[str, Any] | None, Field(description="The whole metric_spec.yaml, as JSON.")
    ] = None,
    protocol: Annotated[
        dict[str, Any] | None, Field(description="The whole eval_protocol.yaml, as JSON.")
    ] = None,
    evaluator: Annotated[
        list[str] | None,
        Field(description="Files that measure a result; their hashes go into the protocol."),
    ] = None,
    task: Task = None,
    study: Study = None,
) -> Written:
    """Write what is measured and how; the contract has to be amended after that."""
    opened = study_of(call, task, study)
    folder = opened.folder
    made = {
        folder.metric_spec: metric_spec and MetricSpec.parse(metric_spec, "metric_spec"),
        folder.protocol: protocol and Protocol.parse(protocol, "protocol"),
    }
    given = {path: document for path, document in made.items() if document}
    for path, document in given.items():
        write_yaml(path, document)
    if evaluator:
        hash_evaluator(opened, evaluator)
        given[folder.protocol] = opened.protocol
    return Written(files=tuple(str(path.relative_to(folder.root)) for path in given))


def propose_decision(
    call: Call,
    candidate: CandidateName,
    verdict: Verdict,
    because: Because,
    audit: Annotated[str | None, Field(description="The newest if left out.")] = None,
    cause: Annotated[
        str | None,
        Field(
            description="Reject without an audit: guardrail_breach, falsifier_met, rollback, "
            "exploit or phase_rule."
        ),
    ] = None,
    evidence: Annotated[list[str] | None, Field(description="What it rests on.")] = None,
    task: Task = None,
    study: Study = None,
) -> DecisionOutcome:
    """Record a decision that cites evidence; an accept stays a proposal until a person agrees.

    To have a person accept, keep or revert, call request_decision.
    """
    opened = study_of(call, task, study)
    if _is_proposed(opened, candidate, verdict, because):
        said = "It is proposed already."
        return DecisionOutcome(candidate=candidate, verdict=verdict, recorded=False, why=said)
    return decide(
        opened,
        candidate,
        verdict,
        caller(call),
        because,
        evidence=evidence or (),
        audit=audit,
        cause=cause,
    )


def add_note(
    call: Call,
    text: Annotated[str, Field(min_length=1, max_length=4000)],
    about: Annotated[str | None, Field(description="Candidate or run it is about.")] = None,
    key: RequestKey = None,
    task: Task = None,
    study: Study = None,
) -> Entered:
    """Add a note to the ledger, for people and for the next session."""
    opened = study_of(call, task, study)
    with opened.locked():
        made = _same_request(opened, key)
        if made is None:
            facts = {"text": text, "request_key": key}
            made = opened.append("note.added", about, facts, caller(call))
    return Entered(seq=made.seq, type=made.type)


def pause_study(call: Call, because: Because, task: Task = None, study: Study = None) -> Entered:
    """Stop launches until a person resumes the study; running jobs go on."""
    opened = study_of(call, task, study)
    made = pause(opened, caller(call), because)
    return Entered(seq=made.seq, type=made.type)


def _is_proposed(opened: OpenStudy, candidate: str, verdict: str, because: str) -> bool:
    """Say whether the last word about a candidate is this very proposal."""
    about = [each for each in opened.events if each.subject == candidate]
    if not about or about[-1].type != "decision.proposed":
        return False
    data = about[-1].data
    return (data.get("verdict"), data.get("reason")) == (verdict, because)


def _same_request(opened: OpenStudy, key: str | None) -> LedgerEvent | None:
    if key is None:
        return None
    made = (each for each in opened.events if each.type == "note.added")
    return next((each for each in made if each.data.get("request_key") == key), None)
