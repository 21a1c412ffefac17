"""Tools that put runs in order; none of them starts one."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from telic.core.config import Record
from telic.mcp.adding import ADDS, RECORDS, Server, add_tool
from telic.mcp.workplace import Because, Call, CandidateName, Study, Task, caller, study_of
from telic.studies import schedule
from telic.studies.documents.runs import Batch, Job
from telic.studies.rules.phases import PhaseStep
from telic.studies.schedule import plan_batch


class Jobs(Record):
    """Jobs that are in the queue now."""

    jobs: tuple[Job, ...]


class Advances(Record):
    """Completed candidates: where each goes, and why."""

    candidates: tuple[PhaseStep, ...]


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
    opened = study_of(call, task, study)
    made = schedule.plan_candidate(opened, candidate, caller(call), priority=priority)
    return Jobs(jobs=tuple(made))


def advance_queue(call: Call, task: Task = None, study: Study = None) -> Advances:
    """Send completed candidates to their next phase where its rule allows; says why others stay."""
    return Advances(candidates=tuple(schedule.advance(study_of(call, task, study))))


def more_seeds(
    call: Call, candidate: CandidateName, because: Because, task: Task = None, study: Study = None
) -> Jobs:
    """Give an open question another block of five fresh seeds, in both arms."""
    opened = study_of(call, task, study)
    return Jobs(jobs=tuple(schedule.more_seeds(opened, candidate, caller(call), because)))


def check_incumbent(call: Call, task: Task = None, study: Study = None) -> Jobs:
    """Queue held-out seeds for the incumbent and the one before it, side by side."""
    opened = study_of(call, task, study)
    return Jobs(jobs=tuple(schedule.plan_incumbent_check(opened, caller(call))))


def plan_parallel(
    call: Call,
    batch: Annotated[str, Field(description="Name of the batch, e.g. weights.")],
    candidates: list[str],
    goal: Annotated[str, Field(description="What the batch is to find out.")] = "",
    task: Task = None,
    study: Study = None,
) -> Batch:
    """Plan candidates side by side, each with its GPU and worktree; in experiments.yaml."""
    opened = study_of(call, task, study)
    return plan_batch(opened, batch, goal, candidates, caller(call))
