"""The key that signs approvals and anchors: in the user's config folder, never in a repository."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from telic.storage.disk import disk_errors
from telic.studies.canonical import canonical
from telic.studies.errors import BrokenIntegrity

_BYTES = 32
_OWNER_ONLY = 0o600


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
    if given := os.environ.get("TELIC_CONFIG_DIR"):
        return Path(given)
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
    return SigningKey(path.read_bytes())


def _make(path: Path) -> None:
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fresh = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ONLY)
        with os.fdopen(handle, "wb") as file:
            file.write(secrets.token_bytes(_BYTES))
            os.fsync(handle)
        # Two processes may be first at the same moment; the link lets one of them win.
        with contextlib.suppress(FileExistsError):
            os.link(fresh, path)
        fresh.unlink()
