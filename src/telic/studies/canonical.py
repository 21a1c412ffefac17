"""One spelling for any JSON value, and the hash of it: what approvals and ledgers are bound to."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import rfc8785

from telic.storage.files import plain

NO_HASH = "0" * 64
"""what the first ledger line names as its predecessor"""
_BLOCK = 1 << 20
_LARGEST_EXACT = 2**53 - 1
_SPELLED_OTHERWISE = re.compile(rb"[:,[]-?\d+(\.0[,}\]]|(\.\d+)?e)|^-?\d+\.|^-?\d+e|[\xf0-\xf4]")
"""what Python's writer, many times faster, spells or sorts otherwise: 1.0, 1e-05, rare letters"""


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
    return rfc8785.dumps(value) if _SPELLED_OTHERWISE.search(text) else text


def content_hash(data: Any) -> str:
    """Return the SHA-256 of the canonical JSON of `data`, as 64 lower-case hex digits."""
    return hashlib.sha256(canonical(data)).hexdigest()


def file_hash(path: Path) -> str:
    """Return the SHA-256 of a file's bytes."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def _exact(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _exact(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_exact(each) for each in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > _LARGEST_EXACT:
        return str(value)
    return value
