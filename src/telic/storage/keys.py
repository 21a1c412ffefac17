"""The user's secret key, outside every folder that it signs, and signatures by it."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
import stat
from dataclasses import dataclass
from pathlib import Path

from telic.errors import BadFile
from telic.storage.files import disk_errors
from telic.storage.reading import read_bytes

_KEY_BYTES = 32
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

    def sign(self, content: bytes) -> str:
        """Return the signature of some bytes: key name and HMAC."""
        return f"{self.id}:{hmac.new(self.secret, content, hashlib.sha256).hexdigest()}"

    def has_signed(self, content: bytes, signature: str) -> bool:
        """Say whether this key made the signature of these bytes."""
        return hmac.compare_digest(self.sign(content).encode(), signature.encode())


def config_folder() -> Path:
    """Return the user's folder of telic: TELIC_CONFIG_DIR, or the usual place."""
    if folder := os.environ.get("TELIC_CONFIG_DIR"):
        return Path(folder)
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "telic"


def key_file() -> Path:
    """Return where the user's key is."""
    return config_folder() / "study.key"


def user_key(root: Path, path: Path | None = None) -> SigningKey:
    """Return the user's key, made at the first need.

    Raises BadFile when the file lies inside `root`, the folder whose files it signs, or when others
    may read it: a key that the author of signed files can reach proves nothing.
    """
    path = path or key_file()
    if path.resolve().is_relative_to(root.resolve()):
        raise BadFile(
            f"The signing key {path} lies inside the folder that it is to sign, {root}.",
            hint="Keep it outside: set TELIC_CONFIG_DIR to another folder.",
        )
    if not path.exists():
        _make(path)
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise BadFile(f"Others may read the signing key {path}.", hint=f"Run: chmod 600 {path}")
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
