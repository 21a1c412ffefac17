"""Tools that check: the repository, the contract, candidates, gates, the queue, the ledger."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from telic.core.config import Record
from telic.mcp.adding import READS, RECORDS, Server, add_tool
from telic.mcp.workplace import (
    Call,
    CandidateName,
    Study,
    Task,
    study_of,
    workplace,
)
from telic.studies import contract as contracts
from telic.studies.approvals import Standing, void_changed
from telic.studies.audit_files import write_audit
from telic.studies.budget import exhausted, shortfalls
from telic.studies.chain import Check
from telic.studies.contract import ContractCheck
from telic.studies.documents.contract import Amounts
from telic.studies.evidence.measurement import SampleCheck, check_sample
from telic.studies.launch.launch import DryRun, look
from telic.studies.launch.request import next_request, reservation_of
from telic.studies.next import NextAction, next_step
from telic.studies.queue import QueueStep
from telic.studies.rules.novelty import SimilarCandidate
from telic.studies.rules.novelty import similar_candidates as resembling
from telic.studies.scan import audit_repository
from telic.studies.scan.records import RepositoryAudit
from telic.studies.schedule import queue_step as jobs_now
from telic.studies.state import BudgetState
from telic.studies.validation import ValidationOutcome
from telic.studies.validation import validate_candidate as validate


class ContractView(Record):
    """What stands between the contract and a launch."""

    check: ContractCheck
    ok: bool
    approvals: tuple[Standing, ...]


class Resembling(Record):
    """Earlier candidates, the most alike first."""

    similar: tuple[SimilarCandidate, ...]


class Validated(Record):
    """How the checks V01 to V16 went."""

    ok: bool
    outcome: ValidationOutcome


class Gates(Record):
    """What a launch would start, and which gates are open."""

    open: bool
    look: DryRun


class BudgetView(Record):
    """What was spent, is held and is left."""

    budget: BudgetState
    exhausted: tuple[str, ...]
    reservation: Amounts | None = None
    """what one run of the named candidate would hold"""
    shortfalls: tuple[str, ...] = ()
    """why that would not fit"""


def register(server: Server) -> None:
    """Add the tools."""
    add_tool(server, audit_repo, RECORDS)
    add_tool(server, check_contract, RECORDS)
    add_tool(server, check_metrics, READS)
    add_tool(server, validate_candidate, RECORDS)
    for tool in (similar_candidates, check_gates, loop_step, queue_step, budget_check):
        add_tool(server, tool, READS)
    add_tool(server, ledger_verify, READS)


def audit_repo(
    call: Call,
    write: Annotated[
        bool, Field(description="Fill adapter.yaml and the task card of the study's task.")
    ] = False,
    task: Task = None,
    study: Study = None,
) -> RepositoryAudit:
    """Read the repository: how it trains, evaluates, logs, rewards, and what is risky about it.

    Nothing of the repository is run or imported.
    """
    place = workplace(call)
    folder = place.open_study(task, study).folder if write else None
    found = audit_repository(place.root)
    if folder is not None:
        write_audit(folder, found)
    return found


def check_contract(call: Call, task: Task = None, study: Study = None) -> ContractView:
    """Say what is wrong with the contract, what is to be asked, and which approvals hold.

    Approvals whose text has changed are recorded as void.
    """
    opened = study_of(call, task, study)
    void_changed(opened)
    found = contracts.check_contract(opened)
    held = opened.standings
    return ContractView(check=found, ok=found.ok, approvals=tuple(held))


def check_metrics(
    call: Call,
    sample: Annotated[str, Field(description="A log, or a folder of logs, in the repository.")],
    task: Task = None,
    study: Study = None,
) -> SampleCheck:
    """Check that the metric spec can read a sample log."""
    place = workplace(call)
    return check_sample(place.open_study(task, study).folder, place.inside(sample))


def validate_candidate(
    call: Call, candidate: CandidateName, task: Task = None, study: Study = None
) -> Validated:
    """Run the checks V01 to V16, and freeze the candidate when all pass."""
    outcome = validate(study_of(call, task, study), candidate)
    return Validated(ok=outcome.ok, outcome=outcome)


def similar_candidates(
    call: Call, candidate: CandidateName, task: Task = None, study: Study = None
) -> Resembling:
    """Show earlier candidates that resemble this one, and what became of them."""
    return Resembling(similar=tuple(resembling(study_of(call, task, study), candidate)))


def check_gates(
    call: Call,
    candidate: CandidateName,
    phase: Annotated[str | None, Field(description="The one it is in if left out.")] = None,
    seed: Annotated[int | None, Field(description="The next of the phase if left out.")] = None,
    task: Task = None,
    study: Study = None,
) -> Gates:
    """Evaluate the gates G01 to G24 and show what a launch would start; starts nothing."""
    opened = study_of(call, task, study)
    found = look(opened, next_request(opened, candidate, phase, seed), processes=False)
    return Gates(open=found.is_open, look=found)


def loop_step(call: Call, task: Task = None, study: Study = None) -> NextAction:
    """Say the next safe action, with what, and why; never does it. Call this when unsure."""
    return next_step(study_of(call, task, study))


def queue_step(call: Call, task: Task = None, study: Study = None) -> QueueStep:
    """Say which jobs may start now, and why the others wait; changes nothing."""
    return jobs_now(study_of(call, task, study))


def budget_check(
    call: Call,
    candidate: Annotated[str | None, Field(description="Would one run of it fit?")] = None,
    task: Task = None,
    study: Study = None,
) -> BudgetView:
    """Say what was spent, is held and is left, and whether a run of a candidate would fit."""
    opened = study_of(call, task, study)
    state = opened.state
    view = BudgetView(budget=state.budget, exhausted=tuple(exhausted(state)))
    if candidate is None:
        return view
    request = next_request(opened, candidate)
    needed = reservation_of(opened.candidate(candidate).plan, request.phase)
    missing = shortfalls(state, needed, candidate, request.phase)
    return view.model_copy(update={"reservation": needed, "shortfalls": tuple(missing)})


def ledger_verify(call: Call, task: Task = None, study: Study = None) -> Check:
    """Recompute the chain of the ledger, byte by byte; names the first bad line."""
    return study_of(call, task, study).verify()
