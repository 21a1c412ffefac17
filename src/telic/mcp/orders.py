"""Work orders as a host agent gets them: leased, with a few attempts, from whoever asks."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Protocol

from telic.core.config import Record
from telic.errors import UsageError
from telic.studies.clock import moment, utc_now

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
