"""Work orders: answer what a session or a search asks a model, by hand or as a coding agent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from telic.core.verb import RunsRequest, argument, option, verb
from telic.errors import UsageError

if TYPE_CHECKING:
    from telic.llm.work_orders import WorkOrder, WorkOrderLine


class OrdersRequest(RunsRequest):
    """The orders of one session or search."""

    session: Path | str | None = option(
        "Session folder; the latest with open orders if left out.", "--session", default=None
    )

    @property
    def folder(self) -> Path:
        """The folder of orders that is meant."""
        from telic.llm.work_orders import ORDERS

        if self.session is not None:
            session = Path(self.session)
            folder = session if session.name == ORDERS else session / ORDERS
            if not folder.is_dir():
                raise UsageError(f"{session} has no work orders.", hint="See: telic run --help")
            return folder
        folders = Path(self.runs_dir).glob(f"*/{ORDERS}")
        known = sorted(folders, key=lambda folder: folder.stat().st_mtime)
        if not known:
            raise UsageError(
                f"No session in {self.runs_dir} has work orders.", hint="Name one with --session."
            )
        return known[-1]


class OrderList(NamedTuple):
    """Work orders, those that wait first."""

    orders: list[WorkOrderLine]

    def as_data(self) -> list[WorkOrderLine]:
        """Return the orders alone."""
        return self.orders


@verb(OrdersRequest)
def list_orders(request: OrdersRequest) -> OrderList:
    """List work orders, those that wait first."""
    from telic.llm import list_orders as lines

    return OrderList(lines(request.folder))


class OrderRequest(OrdersRequest):
    """One order."""

    key: str = argument("Order: its key, or the start of it.")


@verb(OrderRequest)
def show(request: OrderRequest) -> WorkOrder:
    """Print a work order: instructions, request and the schema of the answer."""
    from telic.llm import read_order

    return read_order(request.folder, request.key)


class AnswerRequest(OrderRequest):
    """One order and its answer."""

    file: str = argument("JSON file with the answer; - reads it from input.")


class AnswerTaken(NamedTuple):
    """Where an answer was put."""

    answer: str


@verb(AnswerRequest)
def answer(request: AnswerRequest) -> AnswerTaken:
    """Check an answer against its schema and hand it in."""
    import sys

    from telic.llm import answer_order

    file = request.file
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read: {error}.") from None
    return AnswerTaken(str(answer_order(request.folder, request.key, text)))
