"""How names and moments are written: slugs, ids that are never given again, UTC times."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable
from datetime import UTC, datetime

from telic.studies.errors import StudyError

SLUG = r"^[a-z0-9][a-z0-9-]{1,62}$"
_LETTERS = "abcdefghijkmnpqrstuvwxyz23456789"
_NUMBERED = re.compile(r"^[cd]-(\d{4,})")


def check_slug(kind: str, name: str) -> str:
    """Return `name` when it is a slug; raises StudyError E_SLUG."""
    if not re.fullmatch(SLUG.strip("^$"), name):
        raise StudyError(
            "E_SLUG",
            f'"{name}" cannot be the name of a {kind}.',
            hint="Use 2 to 63 of a-z, 0-9 and -, e.g. walk-faster.",
        )
    return name


def slug_of(text: str, longest: int = 40) -> str:
    """Return a slug that resembles `text`."""
    slug = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:longest].strip("-")
    return slug if len(slug) > 1 else f"x-{slug}".rstrip("-")


def candidate_id(number: int, title: str) -> str:
    """Return e.g. c-0007-more-smoothness."""
    return f"c-{number:04d}-{slug_of(title, 32)}"


def decision_id(number: int) -> str:
    """Return e.g. d-0012."""
    return f"d-{number:04d}"


def evidence_id(content_hash: str) -> str:
    """Return e.g. e-0123456789ab, from the hash of what it holds."""
    return f"e-{content_hash[:12]}"


def run_id(at: datetime) -> str:
    """Return e.g. r-20260722T101500Z-k3f9qa: the second, and luck against two in one second."""
    return f"r-{at:%Y%m%dT%H%M%SZ}-{''.join(secrets.choice(_LETTERS) for _ in range(6))}"


def next_number(used: Iterable[str]) -> int:
    """Return the number after the highest of numbered ids (candidates or decisions)."""
    return max((int(found[1]) for each in used if (found := _NUMBERED.match(each))), default=0) + 1


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
