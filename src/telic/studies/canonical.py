"""The one way of writing: ids and moments, canonical JSON, its hash, and its signature by a key."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import re
import secrets
import stat
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import rfc8785

from telic.storage.files import disk_errors, plain
from telic.storage.reading import check_file, read_bytes
from telic.studies.errors import BrokenIntegrity, StudyError

SLUG = r"^[a-z0-9][a-z0-9-]{1,62}$"
_LETTERS = "abcdefghijkmnpqrstuvwxyz23456789"
_NUMBERED = re.compile(r"^[cd]-(\d{4,})")
NO_HASH = "0" * 64
"""what the first ledger line names as its predecessor"""
LARGEST_EXACT = 2**53 - 1
_SPELLED_OTHERWISE = re.compile(rb"[:,[]-?\d+(\.0[,}\]]|(\.\d+)?e)|^-?\d+\.|^-?\d+e|[\xf0-\xf4]")
"""what Python's writer, many times faster, spells or sorts otherwise: 1.0, 1e-05, rare letters"""
_KEY_BYTES = 32
_OWNER_ONLY = 0o600

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
    return rfc8785.dumps(value) if _SPELLED_OTHERWISE.search(text) else text


def content_hash(data: Any) -> str:
    """Return the SHA-256 of the canonical JSON of `data`, as 64 lower-case hex digits."""
    return hashlib.sha256(canonical(data)).hexdigest()


def file_hash(path: Path) -> str:
    """Return the SHA-256 of a file's bytes."""
    check_file(path, limit=sys.maxsize)
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _exact(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _exact(part) for key, part in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_exact(part) for part in cast("list[Any]", value)]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > LARGEST_EXACT:
        return str(value)
    return value


# ---------------------------------------------------------------------------- keys


@dataclass(frozen=True)
class SigningKey:
    """A secret and its public name."""

    secret: bytes

    def __repr__(self) -> str:
        return f"SigningKey({self.id})"

    @property
    def id(self) -> str:
        """A name that tells keys apart and gives nothing away."""
        return hashlib.sha256(b"telic key " + self.secret).hexdigest()[:12]

    def sign(self, data: Any) -> str:
        """Return the signature of plain values: key name and HMAC."""
        digest = hmac.new(self.secret, canonical(data), hashlib.sha256).hexdigest()
        return f"{self.id}:{digest}"

    def has_signed(self, data: Any, signature: str) -> bool:
        """Say whether this key made the signature of these values."""
        return hmac.compare_digest(self.sign(data), signature)


def config_folder() -> Path:
    """Return the user's folder of telic: TELIC_CONFIG_DIR, or the usual place."""
    if folder := os.environ.get("TELIC_CONFIG_DIR"):
        return Path(folder)
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "telic"


def key_file() -> Path:
    """Return where the user's key is."""
    return config_folder() / "study.key"


def existing_key(root: Path) -> SigningKey | None:
    """Return the user's key when there is one already."""
    return signing_key(root) if key_file().exists() else None


def signing_key(root: Path, path: Path | None = None) -> SigningKey:
    """Return the user's key, made at the first need.

    Raises BrokenIntegrity E_KEY when the file lies inside the repository `root` or others may
    read it: a key that the signed files' author can reach proves nothing.
    """
    path = path or key_file()
    if path.resolve().is_relative_to(root.resolve()):
        raise BrokenIntegrity(
            "E_KEY",
            f"The signing key {path} lies inside the repository.",
            hint="Keep it outside: set TELIC_CONFIG_DIR to another folder.",
        )
    if not path.exists():
        _make(path)
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise BrokenIntegrity(
            "E_KEY", f"Others may read the signing key {path}.", hint=f"Run: chmod 600 {path}"
        )
    return SigningKey(read_bytes(path))


def _make(path: Path) -> None:
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fresh = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ONLY)
        with os.fdopen(handle, "wb") as file:
            file.write(secrets.token_bytes(_KEY_BYTES))
            os.fsync(handle)
        # Two processes may be first at the same moment; the link lets one of them win.
        with contextlib.suppress(FileExistsError):
            os.link(fresh, path)
        fresh.unlink()
