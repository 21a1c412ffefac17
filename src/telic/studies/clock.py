"""The time of day as records write it: RFC 3339, UTC. Order comes from the ledger, not from it."""

from __future__ import annotations

from datetime import UTC, datetime


def utc_now() -> str:
    """Return the present moment, e.g. 2026-08-01T09:00:00.123Z."""
    return written(datetime.now(UTC))


def written(moment: datetime) -> str:
    """Write a moment as records do."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def moment(text: str) -> datetime:
    """Read a written moment; one without a zone is UTC."""
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)
