"""A seal on the evidence of a session that has ended: what is changed afterwards proves nothing.

`seal.json` holds the hash of every record, program, policy and judged episode that the outcome
rests on, signed by the user's key, which lies outside. Who reads an outcome asks `broken_seal`.
Without the key a folder that came from elsewhere can be checked for whole files only, and that is
said. A session of an earlier version has no seal, and neither has one whose seal was removed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from telic.core.config import Record
from telic.errors import BadFile, TelicError
from telic.storage.files import read_record, write_json
from telic.storage.keys import SigningKey, key_file, user_key
from telic.storage.layout import MemberFolder, SessionFolder
from telic.storage.reading import file_hash

SEALED_ELSEWHERE = "sealed by another user or machine"
NO_SEAL = "nothing seals its files: an earlier version made it, or the seal was removed"
_RECORDS = (
    "session.json",
    "asked.json",
    "approval.json",
    "author.json",
    "trial.json",
    "judge_fn.py",
    "certificate.json",
    "robustness.json",
)
_OF_ITERATION = (
    "candidate.json",
    "reward_fn.py",
    "selection.json",
    "judge_revision.json",
    "proof.json",
    "certificate.json",
    "judgment.json",
)
_LARGE = (".npz", ".pt")


class Seal(Record):
    """The hashes of what an outcome rests on, and who vouches for them."""

    schema_version: Literal[1] = 1
    files: dict[str, str]
    """SHA-256 by the file's path in the session's folder"""
    signature: str | None = None
    """by the user's key; None: there was none that could be used"""
    unsigned_because: str | None = None


def seal(
    folder: SessionFolder, summary: str, best: tuple[int, str, int | None] | None = None
) -> None:
    """Seal the evidence of a session, just before its summary is written.

    Args:
        folder: the session.
        summary: what its summary.json is going to hold.
        best: iteration, name and step of the policy that is handed over.
    """
    paths = [folder.path / name for name in _RECORDS]
    for number in folder.iterations():
        paths += [folder.iteration(number).path / name for name in _OF_ITERATION]
    paths += [] if best is None else _of_policy(folder, *best)
    hashes = {
        path.relative_to(folder.path).as_posix(): file_hash(path)
        for path in paths
        if path.is_file()
    }
    _write(folder, {**hashes, folder.summary.name: _hash(summary)})


def reseal(folder: SessionFolder, summary: str) -> None:
    """Seal a summary that a person changed by a verb; what else was sealed stays as it was."""
    if folder.seal.exists():
        files = read_record(folder.seal, Seal).files
        _write(folder, {**files, folder.summary.name: _hash(summary)})


def broken_seal(folder: SessionFolder, *, needs: tuple[Path, ...], thorough: bool) -> str | None:
    """Return why the evidence of an ended session is not what it was at its end; None: it is.

    Args:
        folder: the session.
        needs: files that must be under the seal.
        thorough: read the policy and the judged episodes, too, not only the records.
    """
    if not folder.seal.exists():
        return NO_SEAL
    try:
        mark = read_record(folder.seal, Seal)
        return next(_faults(folder, mark, needs, thorough=thorough), None)
    except BadFile as error:
        return f"its seal cannot be checked: {error.message}"


def is_sealed_elsewhere(folder: SessionFolder) -> bool:
    """Say whether a key that is not this user's made the signature, so that it proves little."""
    try:
        signature = read_record(folder.seal, Seal).signature
        return signature is not None and not _is_ours(signature, _own_key(folder))
    except BadFile:
        return False


def _faults(
    folder: SessionFolder, mark: Seal, needs: tuple[Path, ...], *, thorough: bool
) -> Iterator[str]:
    for path in needs:
        if path.relative_to(folder.path).as_posix() not in mark.files:
            yield f"its seal says nothing of {path.relative_to(folder.path)}"
    key = _own_key(folder)
    if mark.signature is None and key is not None:
        yield "its seal is not signed"
    elif mark.signature is not None and _is_ours(mark.signature, key):
        assert key is not None
        if not key.has_signed(_signed(mark.files), mark.signature):
            yield "its seal was rewritten: the signature is wrong"
    for name, digest in mark.files.items():
        path = folder.path / name
        if not path.is_file():
            yield f"{name} is gone since the session ended"
        elif (thorough or path.suffix not in _LARGE) and file_hash(path) != digest:
            yield f"{name} was changed after the session ended"


def _of_policy(
    folder: SessionFolder, iteration: int, member: str, step: int | None
) -> Iterator[Path]:
    """Yield the files of the policy that is handed over, and its judged episodes."""
    files = folder.iteration(iteration)
    own = MemberFolder(files.run.path / member)
    yield from (own.config, own.reward_code, own.reward_spec)
    if step is not None:
        yield own.checkpoint(step)
    yield from sorted((files.judged_dir / member).glob("episode_*.npz"))


def _write(folder: SessionFolder, files: dict[str, str]) -> None:
    try:
        signature, why = user_key(folder.path.parent).sign(_signed(files)), None
    except (TelicError, OSError) as error:
        signature, why = None, str(error)
    write_json(folder.seal, Seal(files=files, signature=signature, unsigned_because=why))


def _own_key(folder: SessionFolder) -> SigningKey | None:
    try:
        return user_key(folder.path.parent) if key_file().exists() else None
    except (TelicError, OSError):
        return None  # it cannot be used, and could not when the session was sealed


def _is_ours(signature: str, key: SigningKey | None) -> bool:
    return key is not None and signature.startswith(f"{key.id}:")


def _signed(files: dict[str, str]) -> bytes:
    return json.dumps(files, sort_keys=True).encode()


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
