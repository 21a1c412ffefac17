"""Tools that put runs in order; none of them starts one."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from telic.core.config import Record
from telic.mcp.adding import ADDS, RECORDS, Server, add_tool
from telic.mcp.workplace import Because, Call, CandidateName, Study, Task, caller, ledger_of
from telic.studies import queueing
from telic.studies.batches import plan_batch
from telic.studies.documents.runs import Batch, Job
from telic.studies.queueing import Advanced


class Jobs(Record):
    """Jobs that are in the queue now."""

    jobs: tuple[Job, ...]


class Advances(Record):
    """Completed candidates: where each goes, and why."""

    candidates: tuple[Advanced, ...]


def register(server: Server) -> None:
    """Add the tools."""
    for tool in (plan_queue, advance_queue, check_incumbent, plan_parallel):
        add_tool(server, tool, RECORDS)
    add_tool(server, more_seeds, ADDS)


def plan_queue(
    call: Call,
    candidate: CandidateName,
    priority: Annotated[int, Field(description="Higher goes first under that policy.")] = 0,
    task: Task = None,
    study: Study = None,
) -> Jobs:
    """Queue every phase and seed of a validated candidate; twice is once."""
    ledger = ledger_of(call, task, study)
    made = queueing.plan_candidate(ledger, candidate, caller(call), priority=priority)
    return Jobs(jobs=tuple(made))


def advance_queue(call: Call, task: Task = None, study: Study = None) -> Advances:
    """Send completed candidates to their next phase where its rule allows; says why others stay."""
    return Advances(candidates=tuple(queueing.advance(ledger_of(call, task, study))))


def more_seeds(
    call: Call, candidate: CandidateName, because: Because, task: Task = None, study: Study = None
) -> Jobs:
    """Give an open question another block of five fresh seeds, in both arms."""
    ledger = ledger_of(call, task, study)
    return Jobs(jobs=tuple(queueing.more_seeds(ledger, candidate, caller(call), because)))


def check_incumbent(call: Call, task: Task = None, study: Study = None) -> Jobs:
    """Queue held-out seeds for the incumbent and the one before it, side by side."""
    ledger = ledger_of(call, task, study)
    return Jobs(jobs=tuple(queueing.plan_incumbent_check(ledger, caller(call))))


def plan_parallel(
    call: Call,
    batch: Annotated[str, Field(description="Name of the batch, e.g. weights.")],
    candidates: list[str],
    goal: Annotated[str, Field(description="What the batch is to find out.")] = "",
    task: Task = None,
    study: Study = None,
) -> Batch:
    """Plan candidates side by side, each with its GPU and worktree; in experiments.yaml."""
    ledger = ledger_of(call, task, study)
    return plan_batch(ledger, batch, goal, candidates, caller(call))
