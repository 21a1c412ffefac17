"""Ids, timestamps, canonical JSON, content hashes, and signing keys of studies."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import rfc8785

from telic.errors import BadFile
from telic.storage.files import plain
from telic.storage.keys import SigningKey, key_file, user_key
from telic.studies.errors import BrokenIntegrity, StudyError

SLUG = r"^[a-z0-9][a-z0-9-]{1,62}$"
_LETTERS = "abcdefghijkmnpqrstuvwxyz23456789"
_NUMBERED = re.compile(r"^[cd]-(\d{4,})")
_MAX_EXACT = 2**53 - 1

# ---------------------------------------------------------------------------- ids and timestamps


def check_slug(kind: str, name: str) -> str:
    """Return `name` if it is a slug, or raise StudyError E_SLUG."""
    if not re.fullmatch(SLUG.strip("^$"), name):
        raise StudyError(
            "E_SLUG",
            f'"{name}" is not a valid name for a {kind}.',
            hint="Use 2 to 63 of a-z, 0-9 and -, e.g. walk-faster.",
        )
    return name


def candidate_id(number: int, title: str) -> str:
    """Return a candidate id, e.g. c-0007-more-smoothness."""
    slug = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:32].strip("-")
    return f"c-{number:04d}-{slug if len(slug) > 1 else f'x-{slug}'.rstrip('-')}"


def run_id() -> str:
    """Return a run id, e.g. r-20260722T101500Z-k3f9qa: UTC time and random characters."""
    letters = "".join(secrets.choice(_LETTERS) for _ in range(6))
    return f"r-{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{letters}"


def next_number(used: Iterable[str]) -> int:
    """Return the next free number for candidate or decision ids."""
    return max((int(match[1]) for name in used if (match := _NUMBERED.match(name))), default=0) + 1


def utc_now() -> str:
    """Return the current UTC time, e.g. 2026-08-01T09:00:00.123Z."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def moment(text: str) -> datetime:
    """Parse a timestamp. Timestamps without a time zone are in UTC."""
    at = datetime.fromisoformat(text)
    return at if at.tzinfo else at.replace(tzinfo=UTC)


# ---------------------------------------------------------------------------- JSON and hashes


def canonical(data: Any) -> bytes:
    """Return `data` (plain values or a record) as RFC 8785 canonical JSON.

    Integers that do not fit in a double are written as text, because RFC 8785 allows only doubles.
    """
    return rfc8785.dumps(_exact(plain(data)))


def content_hash(data: Any) -> str:
    """Return the SHA-256 of the canonical JSON of `data`, as 64 lower-case hex digits."""
    return hashlib.sha256(canonical(data)).hexdigest()


def _exact(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _exact(part) for key, part in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_exact(part) for part in cast("list[Any]", value)]
    if type(value) is int and abs(value) > _MAX_EXACT:
        return str(value)
    return value


# ---------------------------------------------------------------------------- keys


def existing_key(root: Path) -> SigningKey | None:
    """Return the user's signing key, or None if no key exists."""
    return signing_key(root) if key_file().exists() else None


def signing_key(root: Path) -> SigningKey:
    """Return the user's signing key for studies of a repository, creating it on first use.

    Raises BrokenIntegrity E_KEY if the key lies in the repository or other users can read it.
    """
    try:
        return user_key(root)
    except BadFile as error:
        raise BrokenIntegrity("E_KEY", error.message, hint=error.hint) from error
