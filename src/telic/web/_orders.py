"""Work orders of a session or search, answered on its page as with `telic orders`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Body

from telic.core.config import Record
from telic.errors import TelicError, UnknownName, UsageError
from telic.llm import work_orders
from telic.llm.work_orders import ORDERS, WorkOrder, WorkOrderLine
from telic.storage.files import json_text
from telic.web._place import WebPlace


class AnswerGiven(Record):
    """An accepted answer."""

    order: str


def routes(place: WebPlace) -> APIRouter:
    """Return the routes of work orders."""
    router = APIRouter(tags=["orders"])

    def folder_of(thing: str) -> Path:
        return place.thing(thing, "session", "search").path / ORDERS

    def listed(folder: Path) -> list[WorkOrderLine]:
        lines = work_orders.list_orders(folder) if folder.is_dir() else []
        return [line for line in lines if line.state != "closed"]

    def require(folder: Path, key: str) -> None:
        known = [line.key for line in listed(folder)]
        if key not in known:
            raise UnknownName("work order", key[:200], known)

    @router.get("/artifacts/{thing}/orders")
    def list_orders(thing: str) -> list[WorkOrderLine]:
        """List the work orders of a session or search, open ones first."""
        return listed(folder_of(thing))

    @router.get("/artifacts/{thing}/orders/{key}")
    def read_order(thing: str, key: str) -> WorkOrder:
        """Return a work order: instructions, request, and the schema of the answer."""
        folder = folder_of(thing)
        require(folder, key)
        return work_orders.read_order(folder, key)

    @router.post("/artifacts/{thing}/orders/{key}/answer")
    def answer(thing: str, key: str, answer: Annotated[dict[str, Any], Body()]) -> AnswerGiven:
        """Validate an answer against its schema and submit it."""
        folder = folder_of(thing)
        require(folder, key)
        try:
            work_orders.answer_order(folder, key, json_text(answer))
        except TelicError as error:
            raise UsageError(error.message, hint=error.hint) from None
        return AnswerGiven(order=key)

    return router
