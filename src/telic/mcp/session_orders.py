"""Work orders of sessions and searches: the files that `telic orders` serves too."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from telic.core.config import Record
from telic.errors import TelicError, UnknownName
from telic.llm.work_orders import (
    ORDERS,
    WorkOrderLine,
    answer_order,
    check_answer,
    list_orders,
    read_order,
)
from telic.mcp.orders import ATTEMPTS, Handed, HostOrder, OrderLease, OrderLimits, new_lease, refuse
from telic.storage.files import read_record, write_json
from telic.studies.canonical import content_hash
from telic.studies.clock import utc_now

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
