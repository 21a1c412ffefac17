"""Tools by which a host agent plays the model: take an order, answer it, or give it back."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from telic.core.config import Record
from telic.mcp.adding import ADDS, RECORDS, Server, add_tool
from telic.mcp.orders import Handed, HostOrder, OrderSource
from telic.mcp.session_orders import SessionOrders
from telic.mcp.study_orders import StudyOrders, is_study_order, study_of
from telic.mcp.workplace import Because, Call, Study, Task, caller, workplace
from telic.studies.errors import StudyError

OrderName = Annotated[str, Field(description="The order's id, as next_work_order gave it.")]


class NextOrder(Record):
    """An order to answer, or none."""

    order: HostOrder | None
    why: str


class Declined(Record):
    """An order that was given back."""

    order: str


def register(server: Server) -> None:
    """Add the tools."""
    add_tool(server, next_work_order, ADDS)
    add_tool(server, submit_work_order, RECORDS)
    add_tool(server, decline_work_order, RECORDS)


def next_work_order(call: Call, task: Task = None, study: Study = None) -> NextOrder:
    """Take the next request for a model: of a session or a search first, then of the study.

    Answer it with one JSON object of its output_schema through submit_work_order. It is yours for
    half an hour. When there is none, ask again later; nothing waits for you here.
    """
    place = workplace(call)
    found = SessionOrders(place.runs_dir).next(_worker(call))
    if found is None:
        try:
            ledger = place.ledger(task, study)
        except StudyError as error:  # a repository may have sessions and no study
            return NextOrder(order=None, why=error.message)
        found = StudyOrders(ledger, caller(call)).next(_worker(call))
    return NextOrder(order=found, why="" if found else "Nothing waits for an answer.")


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
        return StudyOrders(place.ledger(*study_of(order)), caller(call))
    return SessionOrders(place.runs_dir)


def _worker(call: Call) -> str:
    """Return a name that two sessions of the same client do not share."""
    return f"{caller(call).label}@{workplace(call).name}"
