"""Change the order of the queue: the policy, or how urgent a candidate is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from telic.errors import UnknownName
from telic.studies.documents.base import Actor
from telic.studies.documents.runs import QueueManifest, QueuePolicy
from telic.studies.ledger import Ledger
from telic.studies.queueing import queue_of, save_queue


def reorder(
    ledger: Ledger,
    actor: Actor,
    *,
    order: str | None = None,
    eta: int | None = None,
    priorities: Mapping[str, int] | None = None,
) -> QueueManifest:
    """Set the policy's order and eta, and the priority of candidates' jobs; returns the queue."""
    with ledger.locked():
        held = queue_of(ledger)
        known = {job.candidate for job in held.jobs}
        for name in priorities or {}:
            if name not in known:
                raise UnknownName("candidate in the queue", name, sorted(known))
        given: dict[str, Any] = {"order": order, "eta": eta}
        said = {key: value for key, value in given.items() if value is not None}
        policy = QueuePolicy.model_validate({**held.policy.as_data(), **said})
        changes = {
            job.job_id: {"priority": priorities[job.candidate]}
            for job in held.jobs
            if priorities and job.candidate in priorities
        }
        ledger.append(
            "queue.reordered", None, {"policy": policy.as_data(), "changes": changes}, actor
        )
        save_queue(ledger)
    return queue_of(ledger)
