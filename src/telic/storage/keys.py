"""The user's Ed25519 key, and signatures that include the public key for verification.

A signature has the form `ed25519:<public key>:<signature>`, in hex. The private key is stored in
the user's configuration folder, outside of all signed folders, and only the user can read it.
"""

from __future__ import annotations

import contextlib
import getpass
import hashlib
import json
import os
import re
import secrets
import stat
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from telic.core.text import is_dict
from telic.errors import BadFile, Refused, TelicError
from telic.storage.files import JsonLines, disk_errors, read_fields, read_json_lines, write_json
from telic.storage.reading import parse_json, read_bytes

_KEY_BYTES, _PERMITTED = 32, "permitted.jsonl"
_SIGNATURE = re.compile(r"ed25519:([0-9a-f]{64}):([0-9a-f]{128})")


class SigningKey:
    """Private key, identified by its public key."""

    def __init__(self, secret: bytes) -> None:
        self._private = Ed25519PrivateKey.from_private_bytes(secret)
        self.public = self._private.public_key().public_bytes_raw().hex()
        """public key in hex"""

    def __repr__(self) -> str:
        return f"SigningKey({self.public[:12]})"

    def derive(self, purpose: str) -> str:
        """Derive a secret in hex for one purpose."""
        return hashlib.sha256(self._private.private_bytes_raw() + purpose.encode()).hexdigest()

    def sign(self, content: bytes) -> str:
        """Sign bytes. The signature includes the public key."""
        return f"ed25519:{self.public}:{self._private.sign(content).hex()}"


def signer_of(content: bytes, signature: str | None) -> str | None:
    """Return the public key of a signature of these bytes, or None if it is invalid."""
    found = _SIGNATURE.fullmatch(signature or "")
    if found is None:
        return None
    try:
        public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(found[1]))
        public.verify(bytes.fromhex(found[2]), content)
    except (InvalidSignature, ValueError):
        return None
    return found[1]


def signed_list(path: Path) -> tuple[dict[str, Any], str | None]:
    """Return a list of files, and the public key that signed it if the signature is valid."""
    listed = read_fields(path, files=dict[str, Any])
    signature = str(listed.pop("signature", ""))
    return listed, signer_of(json.dumps(listed, sort_keys=True).encode(), signature)


def is_own_list(path: Path) -> bool:
    """Return whether this user signed a list of files."""
    key = usable_key()
    return key is not None and signed_list(path)[1] == key.public


def user_name() -> str:
    """Return the name of the current user."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user in a container may have no name
        return f"user {os.getuid()}"


def sign_text(text: str, **claims: Any) -> str:
    """Append claims and the user's signature to a text, as a comment.

    HTML and Markdown do not display comments. Without a key, the text is unchanged.
    """
    key = usable_key()
    if key is None:
        return text
    held = json.dumps(claims, sort_keys=True).replace("<", "\\u003c").replace(">", "\\u003e")
    body = f"{text.rstrip()}\n<!-- telic {held} -->\n"
    return f"{body}<!-- {key.sign(body.encode())} -->\n"


def signed_text(text: str) -> tuple[dict[str, Any], str | None]:
    """Return the claims in a signed text, and the public key if the signature is valid."""
    body, mark, signature = text.rpartition("<!-- ed25519:")
    claims = body.rpartition("<!-- telic ")[2].removesuffix(" -->\n")
    signer = signer_of(body.encode(), f"ed25519:{signature.removesuffix(' -->' + chr(10))}")
    held = parse_json(claims, "The signed text") if mark and signer else None
    return (held, signer) if is_dict(held) and is_dict(held.get("files", {})) else ({}, None)


def config_folder() -> Path:
    """Return telic's configuration folder: TELIC_CONFIG_DIR, or the platform's default."""
    if folder := os.environ.get("TELIC_CONFIG_DIR"):
        return Path(folder)
    return Path(os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")) / "telic"


def key_file() -> Path:
    """Return the path of the user's private key."""
    return config_folder() / "signing.key"


def user_key(root: Path | None = None) -> SigningKey:
    """Return the user's key, creating it on first use.

    Raises BadFile if the key lies in `root` (the folder to sign), if others can read or replace the
    key, or if it cannot be created.
    """
    path = key_file()
    if root is not None and path.resolve().is_relative_to(root.resolve()):
        raise BadFile(
            f"The signing key {path} is inside the folder to be signed, {root}.",
            hint="Move it outside: set TELIC_CONFIG_DIR to another folder.",
        )
    if not os.path.lexists(path):
        _make(path)
    found = path.lstat()
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise BadFile(
            f"The signing key {path} is not private: it must be owned by you, with mode 600.",
            hint=f"Run: chmod 600 {path}",
        )
    secret = read_bytes(path, _KEY_BYTES)
    if len(secret) != _KEY_BYTES:
        raise BadFile(f"{path} is not a signing key: it has {len(secret)} bytes.")
    return SigningKey(secret)


def usable_key(root: Path | None = None) -> SigningKey | None:
    """Return the user's key, or None if it cannot be used."""
    if not os.path.lexists(key_file()):
        return None
    with contextlib.suppress(BadFile):
        return user_key(root)
    return None


def _make(path: Path) -> None:
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fresh = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(secrets.token_bytes(_KEY_BYTES))
            os.fsync(handle)
        # Two processes may create the key concurrently; linking makes exactly one succeed.
        with contextlib.suppress(FileExistsError):
            os.link(fresh, path)
        fresh.unlink()


# # ---- folders created by this user: the only ones trusted without confirmation

BEGUN = "begun.json"
"""file in a work folder that records who created it"""


def sign_folder(folder: Path) -> None:
    """Record that this user created a work folder. Copies of the folder are not covered."""
    with contextlib.suppress(TelicError, OSError):  # without a key the folder has no owner
        key = user_key(folder.parent)
        write_json(folder / BEGUN, {"schema_version": 1, "sig": key.sign(_identity(folder))})


def is_own_folder(folder: Path) -> bool:
    """Return whether this user created the work in a folder, even if the folder was moved."""
    key = usable_key(folder.parent)
    with contextlib.suppress(TelicError, OSError):
        signature = read_fields(folder / BEGUN, sig=str)["sig"]
        return key is not None and signer_of(_identity(folder), signature) == key.public
    return False


def _identity(folder: Path) -> bytes:
    return f"began {folder.resolve().name} {folder.stat().st_ino}".encode()


# # ---- code named by this user: environment classes, interpreters, unchecked rewards, commands
#
# Many fields in a folder can name code, and a folder may come from anyone. Such code is used only
# if this user named the same code before, on the command line or in Python. Permissions are signed
# lines in the user's folder; no other folder can add one.

_granted: set[str] = set()
"""permissions of this process, including permissions that cannot be stored"""


def permit(*code: str) -> None:
    """Permit folders of runs to refer to this code, because the user requested it explicitly."""
    fresh = [each for each in code if not _is_permitted(each)]
    if not fresh:
        return
    _granted.update(fresh)
    with contextlib.suppress(TelicError, OSError):  # without a key, this process only
        key = user_key()
        with JsonLines(config_folder() / _PERMITTED) as lines:
            for each in fresh:
                lines.append({"permit": each, "sig": key.sign(f"permit {each}".encode())})


def permit_all() -> None:
    """Disable permission checks in this process, which is confined or checked by its parent."""
    _granted.add("*")


def checks_code() -> bool:
    """Return whether this process requires permission for code to which folders refer."""
    return "*" not in _granted


def require_permitted(*code: str) -> None:
    """Raise Refused if the user has not permitted this code."""
    for each in code:
        if not _is_permitted(each):
            raise Refused(
                f"A folder refers to code or a server that you have not approved: {each[:300]}.",
                hint="It was not used. If you trust it, pass it once on the command line: telic "
                "envs FILE.py:Class, telic train with --python or --trust, or --model.",
            )


def _is_permitted(code: str) -> bool:
    if code in _granted or not checks_code():
        return True
    key = usable_key()
    with contextlib.suppress(BadFile):
        for row in () if key is None else read_json_lines(config_folder() / _PERMITTED):
            if row.get("permit") == code and key is not None:
                content = f"permit {code}".encode()
                return signer_of(content, str(row.get("sig"))) == key.public
    return False
