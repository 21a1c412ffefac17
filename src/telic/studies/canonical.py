"""The one way of writing: ids and moments, canonical JSON, its hash, and the key that signs it."""

from __future__ import annotations

import hashlib
import json
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
NO_HASH = "0" * 64
"""what the first ledger line names as its predecessor"""
LARGEST_EXACT = 2**53 - 1
_EXACT = {type(None), bool, float, str}
"""types whose values a double, or a text, holds whatever they are"""
_SORTED_OTHERWISE = re.compile(rb"[\xf0-\xf4]")
"""letters by which canonical JSON sorts keys otherwise than Python, whose writer is far faster"""
_SPELLED_OTHERWISE = re.compile(rb"[:,[]-?\d+(\.0[,}\]]|(\.\d+)?e)|^-?\d+\.|^-?\d+e")
"""where a number may stand that Python spells otherwise: 1.0, 1e-05"""
_TEXT_OR_NUMBER = re.compile(rb'"(?:[^"\\]|\\.)*"|-?\d+(?:\.0(?![0-9e])|(?:\.\d+)?e[-+]?\d+)')

# ---------------------------------------------------------------------------- ids and moments


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
    return max((int(match[1]) for name in used if (match := _NUMBERED.match(name))), default=0) + 1


def utc_now() -> str:
    """Return the present moment, e.g. 2026-08-01T09:00:00.123Z."""
    return written(datetime.now(UTC))


def written(moment: datetime) -> str:
    """Write a moment as records do."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def moment(text: str) -> datetime:
    """Read a written moment; one without a zone is UTC."""
    at = datetime.fromisoformat(text)
    return at if at.tzinfo else at.replace(tzinfo=UTC)


# ---------------------------------------------------------------------------- JSON and hashes


def canonical(data: Any) -> bytes:
    """Return `data` (plain values or a record) as RFC 8785 canonical JSON.

    Whole numbers too large for a double are spelled as text: canonical JSON has only doubles.
    """
    return spelled(_exact(plain(data)))


def spelled(value: Any) -> bytes:
    """Return what was read from JSON, and so is plain and exact already, as canonical JSON."""
    try:
        text = json.dumps(
            value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
        ).encode()
    except ValueError:
        return rfc8785.dumps(value)  # which says what cannot be spelled
    if _SORTED_OTHERWISE.search(text):
        return rfc8785.dumps(value)
    return _TEXT_OR_NUMBER.sub(_respelled, text) if _SPELLED_OTHERWISE.search(text) else text


def _respelled(found: re.Match[bytes]) -> bytes:
    """Return a number as canonical JSON has it; texts stay as they are."""
    text = found[0]
    if text.endswith(b".0"):
        return b"0" if text == b"-0.0" else text[:-2]
    return text if text.startswith(b'"') else rfc8785.dumps(float(text))


def content_hash(data: Any) -> str:
    """Return the SHA-256 of the canonical JSON of `data`, as 64 lower-case hex digits."""
    return hashlib.sha256(canonical(data)).hexdigest()


def _exact(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _exact(part) for key, part in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        parts = cast("list[Any]", value)
        return parts if set(map(type, parts)) <= _EXACT else [_exact(part) for part in parts]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > LARGEST_EXACT:
        return str(value)
    return value


# ---------------------------------------------------------------------------- keys


def existing_key(root: Path) -> SigningKey | None:
    """Return the user's key when there is one already."""
    return signing_key(root) if key_file().exists() else None


def signing_key(root: Path, path: Path | None = None) -> SigningKey:
    """Return the user's key, made at the first need, for the studies of a repository.

    Raises BrokenIntegrity E_KEY for one that lies in the repository or that others may read.
    """
    try:
        return user_key(root, path)
    except BadFile as error:
        raise BrokenIntegrity("E_KEY", error.message, hint=error.hint) from error
