"""Work orders as a host agent gets them: leased, with a few attempts, from whoever asks."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Protocol

from pydantic import Field

from telic.core.config import Record
from telic.errors import TelicError, UnknownName, UsageError
from telic.llm.work_orders import (
    ORDERS,
    WorkOrderLine,
    answer_order,
    check_answer,
    list_orders,
    read_order,
)
from telic.mcp.workplace import (
    ADDS,
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
from telic.storage.files import read_record, write_json
from telic.studies.canonical import content_hash, moment, utc_now
from telic.studies.errors import StudyError

ATTEMPTS = 5
LEASE = timedelta(minutes=30)


class OrderLease(Record):
    """Who works on an order, and until when nobody else gets it."""

    by: str
    until: str

    @property
    def has_ended(self) -> bool:
        """Others may have the order again."""
        return moment(utc_now()) >= moment(self.until)


class OrderLimits(Record):
    """How often an answer may be refused."""

    attempts: int = ATTEMPTS
    attempts_left: int = ATTEMPTS


class HostOrder(Record):
    """A request to a model, for a host agent to answer."""

    id: str
    role: str
    instructions: str
    request: str
    inputs: tuple[str, ...]
    """resources to read first, pictures among them"""
    output_schema: dict[str, Any]
    """the answer is one JSON object of this schema"""
    limits: OrderLimits
    context_hash: str
    """changes when what the order rests on changes"""
    issued_at: str
    lease: OrderLease
    complaint: str | None = None
    """why the last answer was not accepted"""


class Handed(Record):
    """An answer that was taken."""

    order: str
    result: str
    """where the answer went: a file, or the candidate that was made of it"""


class OrderSource(Protocol):
    """Where orders come from: a session, a search, or a study."""

    def next(self, worker: str) -> HostOrder | None:
        """Lease the first order that waits to this worker; None when none waits."""
        ...

    def submit(self, order: str, answer: dict[str, Any], worker: str) -> Handed:
        """Check an answer and hand it in; raises TelicError with every complaint."""
        ...

    def decline(self, order: str, reason: str, worker: str) -> None:
        """Give an order back; this server does not offer it again."""
        ...


def new_lease(worker: str) -> OrderLease:
    """Return a lease that begins now."""
    until = (moment(utc_now()) + LEASE).strftime("%Y-%m-%dT%H:%M:%SZ")
    return OrderLease(by=worker, until=until)


def refuse(complaint: str, left: int) -> UsageError:
    """Return the error for an answer that is not taken."""
    hint = f"{left} attempts are left." if left else "No attempt is left; the order is given back."
    return UsageError(f"The answer was not accepted: {complaint}", hint=hint)


_CODE = "source"
"""field of an answer that holds a whole Python file"""


class _Progress(Record):
    """KEY.lease.json: who works on an order, and how it went."""

    lease: OrderLease
    issued_at: str
    attempts: int = 0
    complaint: str | None = None
    declined: str | None = None
    """why nobody is offered it any more"""


class SessionOrders:
    """The orders of every session and search in a folder of runs."""

    def __init__(self, runs_dir: Path) -> None:
        self._runs_dir = runs_dir

    def next(self, worker: str) -> HostOrder | None:
        """Lease the first order that waits to this worker."""
        for folder, line in self._open():
            held = _progress(folder, line.key)
            if held is not None and (held.declined is not None or _is_taken(held, worker)):
                continue
            issued = utc_now() if held is None else held.issued_at
            attempts, complaint = (held.attempts, held.complaint) if held else (0, None)
            made = _Progress(
                lease=new_lease(worker), issued_at=issued, attempts=attempts, complaint=complaint
            )
            _save(folder, line.key, made)
            return _as_work_order(folder, line, made)
        return None

    def submit(self, order: str, answer: dict[str, Any], worker: str) -> Handed:
        """Check an answer and hand it in; the session checks more before it trusts it."""
        folder, key = self._find(order)
        text = json.dumps(answer)
        held = _progress(folder, key) or _Progress(lease=new_lease(worker), issued_at=utc_now())
        try:
            check_answer(read_order(folder, key), text)
            _check_code(answer)
            path = answer_order(folder, key, text)
        except TelicError as error:
            attempts = held.attempts + 1
            left = max(0, ATTEMPTS - attempts)
            declined = None if left else f"{ATTEMPTS} answers were refused"
            news = {"attempts": attempts, "complaint": error.message, "declined": declined}
            _save(folder, key, held.model_copy(update=news))
            raise refuse(error.message, left) from None
        return Handed(order=order, result=str(path.relative_to(self._runs_dir)))

    def decline(self, order: str, reason: str, worker: str) -> None:
        """Give an order back; a person may still answer it with `telic orders`."""
        folder, key = self._find(order)
        held = _progress(folder, key) or _Progress(lease=new_lease(worker), issued_at=utc_now())
        _save(folder, key, held.model_copy(update={"declined": reason}))

    def _open(self) -> Iterator[tuple[Path, WorkOrderLine]]:
        for folder in sorted(self._runs_dir.glob(f"*/{ORDERS}")):
            for line in list_orders(folder):
                if line.state != "answered":
                    yield folder, line

    def _find(self, order: str) -> tuple[Path, str]:
        run, _, key = order.partition("/")
        folders = {each.parent.name: each for each in self._runs_dir.glob(f"*/{ORDERS}")}
        if run not in folders:
            raise UnknownName("session or search", run, list(folders))
        return folders[run], read_order(folders[run], key).key


def picture(runs_dir: Path, run: str, name: str) -> Path:
    """Return a picture of an order; raises UnknownName when no order there has one of that name."""
    folders = {each.parent.name: each for each in runs_dir.glob(f"*/{ORDERS}")}
    if run not in folders:
        raise UnknownName("session or search", run, list(folders))
    folder = folders[run]
    orders = [read_order(folder, each.key) for each in list_orders(folder)]
    names = [each for order in orders for each in order.images]
    if name not in names:
        raise UnknownName("picture", name, names)
    return folder / name


def _as_work_order(folder: Path, line: WorkOrderLine, held: _Progress) -> HostOrder:
    order = read_order(folder, line.key)
    run = folder.parent.name
    left = max(0, ATTEMPTS - held.attempts)
    return HostOrder(
        id=f"{run}/{order.key}",
        role=order.role,
        instructions=order.system,
        request=order.prompt,
        inputs=tuple(f"telic://orders/{run}/{name}" for name in order.images),
        output_schema=order.answer_schema,
        limits=OrderLimits(attempts_left=left),
        context_hash=content_hash(order.model_dump(mode="json")),
        issued_at=held.issued_at,
        lease=held.lease,
        complaint=held.complaint or line.reason,
    )


def _check_code(answer: dict[str, Any]) -> None:
    """Refuse code that cannot be parsed; the allow-list and a trial call are the session's."""
    source = answer.get(_CODE)
    if not isinstance(source, str):
        return
    try:
        ast.parse(source)
    except SyntaxError as error:
        raise TelicError(f"line {error.lineno} of the code: {error.msg}") from None


def _is_taken(held: _Progress, worker: str) -> bool:
    return held.lease.by != worker and not held.lease.has_ended


def _progress(folder: Path, key: str) -> _Progress | None:
    path = _progress_file(folder, key)
    return read_record(path, _Progress) if path.is_file() else None


def _save(folder: Path, key: str, progress: _Progress) -> None:
    write_json(_progress_file(folder, key), progress.model_dump(mode="json"))


def _progress_file(folder: Path, key: str) -> Path:
    return folder / f"{key}.lease.json"


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
    from telic.mcp.study_orders import StudyOrders  # which builds on the orders here

    place = workplace(call)
    found = SessionOrders(place.runs_dir).next(_worker(call))
    if found is None:
        try:
            opened = place.open_study(task, study)
        except StudyError as error:  # a repository may have sessions and no study
            return NextOrder(order=None, why=error.message)
        found = StudyOrders(opened, caller(call)).next(_worker(call))
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
    from telic.mcp.study_orders import StudyOrders, is_study_order, study_of

    place = workplace(call)
    if is_study_order(order):
        return StudyOrders(place.open_study(*study_of(order)), caller(call))
    return SessionOrders(place.runs_dir)


def _worker(call: Call) -> str:
    """Return a name that two sessions of the same client do not share."""
    return f"{caller(call).label}@{workplace(call).name}"
