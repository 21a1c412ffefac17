"""Sessions and searches: list them, and answer their work orders and those of studies."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from telic.core.config import Record
from telic.mcp.orders import (
    Handed,
    HostOrder,
    OrderSource,
    SessionOrders,
    StudyOrders,
    is_study_order,
    study_of_order,
)
from telic.mcp.workplace import (
    ADDS,
    READS,
    RECORDS,
    Because,
    Call,
    Server,
    Study,
    Task,
    add_tool,
    caller,
    workplace,
)
from telic.studies.errors import StudyError
from telic.verbs.lines import ThingLine
from telic.verbs.things import list_things

Limit = Annotated[int, Field(ge=1, le=1000, description="Maximum number, newest first.")]


class WorkList(Record):
    """Sessions and searches, the most recently active first."""

    work: tuple[ThingLine, ...]


def register(server: Server) -> None:
    """Add the tool."""
    add_tool(server, list_work, READS)


def list_work(call: Call, limit: Limit = 20) -> WorkList:
    """List sessions, runs and searches: what was asked, state, score, open work orders."""
    found = list_things(runs_dir=workplace(call).runs_dir, root=workplace(call).root, limit=limit)
    return WorkList(work=tuple(line for line in found.things if line.kind != "study"))


# ---------------------------------------------------------------------------- what it asks for

OrderName = Annotated[str, Field(description="The order's id, as next_work_order gave it.")]


class NextOrder(Record):
    """An order to answer, or none."""

    order: HostOrder | None
    why: str


class Declined(Record):
    """An order that was given back."""

    order: str


def register_orders(server: Server) -> None:
    """Add the tools that answer what work asks for."""
    add_tool(server, next_work_order, ADDS)
    add_tool(server, submit_work_order, RECORDS)
    add_tool(server, decline_work_order, RECORDS)


def next_work_order(call: Call, task: Task = None, study: Study = None) -> NextOrder:
    """Take the next request for a model: of a session or a search first, then of the study.

    Answer it with one JSON object of its output_schema through submit_work_order. It is yours for
    half an hour. When there is none, ask again later; nothing waits for you here.
    """
    place = workplace(call)
    order = SessionOrders(place.runs_dir).next(_worker(call))
    if order is None:
        try:
            opened = place.open_study(task, study)
        except StudyError as error:  # a repository may have sessions and no study
            return NextOrder(order=None, why=error.message)
        order = StudyOrders(opened, caller(call)).next(_worker(call))
    return NextOrder(order=order, why="" if order else "Nothing waits for an answer.")


def submit_work_order(
    call: Call,
    order: OrderName,
    answer: Annotated[dict[str, Any], Field(description="One object of the order's schema.")],
) -> Handed:
    """Hand in an answer; a refusal says everything that is wrong with it. Five attempts."""
    return _source(call, order).submit(order, answer, _worker(call))


def decline_work_order(call: Call, order: OrderName, because: Because) -> Declined:
    """Give an order back that you cannot or should not answer."""
    _source(call, order).decline(order, because, _worker(call))
    return Declined(order=order)


def _source(call: Call, order: str) -> OrderSource:
    place = workplace(call)
    if is_study_order(order):
        return StudyOrders(place.open_study(*study_of_order(order)), caller(call))
    return SessionOrders(place.runs_dir)


def _worker(call: Call) -> str:
    """Return a name that two sessions of the same client do not share."""
    return f"{caller(call).label}@{workplace(call).name}"
