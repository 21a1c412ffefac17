"""The evidence of a session: its journal while it runs, a signed manifest at its end.

The journal is what a resumed session believes. Every record of it is also written as a readable
JSON file; a file that was changed or deleted is restored from the journal, and a change is a doubt:
what rests on it is not proven.

At the end `seal.json`, a manifest signed with the user's key, holds the hash of every record,
program, policy and judged episode that the outcome rests on. Readers of an outcome call
`broken_seal`. Without the key, a folder from elsewhere can only be checked for complete files.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel

from telic.core.config import Record
from telic.errors import BadFile, Refused, TelicError
from telic.storage.files import json_text, read_record, read_table, write_json, write_text
from telic.storage.journal import Journal, JournalBroken
from telic.storage.keys import SigningKey, key_file, user_key
from telic.storage.layout import MemberFolder, SessionFolder
from telic.storage.reading import file_hash

SEALED_ELSEWHERE = "signed by another user or machine"
NO_SEAL = "it has no signed manifest: an earlier version wrote it, or the manifest was removed"
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
_STEPS = ("asked.json", "author.json", "trial.json")
_STEPS_OF_ITERATION = (
    "candidate.json",
    "selection.json",
    "judge_revision.json",
    "proof.json",
    "judgment.json",
)
_BEGIN, _STEP = "begin", "step"
_FILES = {"candidate": "candidate.json", "verdict": "judgment.json"}
_Kind = TypeVar("_Kind", bound=BaseModel)


class RequestHashes(Record):
    """The first entry of a session's journal: what was asked for."""

    request: str
    """SHA-256 of intent, environment and the files that the environment is made of"""
    terms: str
    """SHA-256 of the other settings that a verdict rests on: threshold, seeds, episodes"""


class SessionJournal:
    """The journal of a session, with every record as a readable file beside it."""

    def __init__(self, folder: SessionFolder, intent: str, env: str, terms: str) -> None:
        self._folder = folder
        self._asked = (intent, env)
        self._terms = _hash(terms)
        self._request = self._request_now()
        name = f"session: {intent} ({env})"
        self._journal = Journal(folder.journal, name, _signing_key(folder))
        self._changed: dict[str, None] = {}

    def begin(self) -> None:
        """Resume the journal: restore files that are missing or were changed.

        Raises:
            Refused: an earlier version began the session, or its journal is damaged.
        """
        if not self._journal.path.exists() and any(self.paths()):
            raise Refused(
                f"{self._folder.name} was begun by an earlier version and cannot be resumed.",
                hint="Start it again with --fresh; its finished results stay readable.",
            )
        try:
            self._journal.entries()
        except JournalBroken as error:
            raise Refused(error.message, hint="Start it again with --fresh.") from None
        for name in {entry.subject: None for entry in self._journal.entries() if entry.subject}:
            path = self._folder.path / name
            known = self._texts(name)
            if path.is_file() and file_hash(path) not in map(_hash, known):
                self._changed[name] = None
            if not path.is_file() or file_hash(path) != _hash(known[-1]):
                write_text(path, known[-1])

    def write(self, path: Path, record: BaseModel) -> None:
        """Record a step and write its file; the first one begins the journal."""
        if self._journal.find(_BEGIN) is None:
            begun = RequestHashes(request=self._request, terms=self._terms)
            self._journal.append(_BEGIN, begun)
        self._journal.append(_STEP, record, subject=self._name(path))
        write_json(path, record)

    def step(self, path: Path, kind: type[_Kind], make: Callable[[], _Kind]) -> _Kind:
        """Return the record of a step that was finished before, or take the step and record it."""
        known = self._journal.recorded(_STEP, kind, self._name(path))
        if known is not None:
            return known
        self.write(path, make())
        return read_record(path, kind)

    def recorded(self, kind: str, record: type[_Kind], subject: str | None = None) -> _Kind | None:
        """Return the candidate or verdict of an iteration; see `telic.loop`."""
        return self._journal.recorded(_STEP, record, f"iter_{subject}/{_FILES[kind]}")

    def once(
        self, kind: str, record: type[_Kind], make: Callable[[], _Kind], subject: str | None = None
    ) -> _Kind:
        """Record the candidate or verdict of an iteration; see `telic.loop`."""
        path = self._folder.path / f"iter_{subject}" / _FILES[kind]
        return self.step(path, record, make)

    def adopt(self, path: Path) -> None:
        """Record the content of a file that was copied from another session."""
        self._journal.append(_STEP, read_table(path), subject=self._name(path))

    def is_own(self, path: Path) -> bool:
        """Say whether a file holds a record of this journal."""
        try:
            known = self._texts(self._name(path))
        except JournalBroken:
            return False
        return path.is_file() and file_hash(path) in map(_hash, known)

    def paths(self) -> list[Path]:
        """Return the files that later steps believe."""
        paths = [self._folder.path / name for name in _STEPS]
        for number in self._folder.iterations():
            files = self._folder.iteration(number)
            paths += [files.path / name for name in _STEPS_OF_ITERATION]
        return [path for path in paths if path.exists()]

    def doubts(self) -> Iterator[str]:
        """Yield a sentence on everything that was written or changed from outside."""
        if self._request_now() != self._request:
            yield "the files of its environment were changed while the session ran"
        check = self._journal.verify()
        if not check.ok:
            yield f"line {check.bad_seq} of {self._journal.path.name} was changed: {check.why}"
            return
        if check.unsigned and _signing_key(self._folder) is not None:
            yield f"{self._journal.path.name} is not signed with the key of this user"
        begun = self._journal.recorded(_BEGIN, RequestHashes)
        if begun is not None and begun.request != self._request:
            yield "the files of its environment were changed since the session began"
        if begun is not None and begun.terms != self._terms:
            yield f"{self._folder.config.name} no longer asks for what this session was begun with"
        now = [self._name(path) for path in self.paths() if not self.is_own(path)]
        for name in dict.fromkeys((*self._changed, *now)):
            yield f"{name} is not what this session wrote there"

    def _texts(self, name: str) -> list[str]:
        """Return what the session wrote into a file, oldest first."""
        entries = self._journal.entries()
        return [json_text(entry.data) for entry in entries if entry.subject == name]

    def _request_now(self) -> str:
        from telic.envs.access import env_access  # imports MuJoCo, which readers do without

        intent, env = self._asked
        code = Path(env.rpartition(":")[0]).expanduser()  # of a class as file.py:Class
        files = [*env_access(env, {}).readable, *([code] if code.is_file() else [])]
        return _hash(json.dumps([intent, env, *map(file_hash, files)]))

    def _name(self, path: Path) -> str:
        return path.relative_to(self._folder.path).as_posix()


# ----------------------------------------------------------------------------- the manifest


class Seal(Record):
    """The signed manifest: the hashes of what an outcome rests on."""

    schema_version: Literal[1] = 1
    files: dict[str, str]
    """SHA-256 by the file's path in the session's folder"""
    signature: str | None = None
    """by the user's key; None: there was none that could be used"""
    unsigned_because: str | None = None


def seal(
    folder: SessionFolder, summary: str, best: tuple[int, str, int | None] | None = None
) -> None:
    """Write the manifest of a session, just before its summary is written.

    Args:
        folder: the session.
        summary: the coming content of its summary.json.
        best: iteration, name and step of the policy that is handed over.
    """
    paths = [folder.path / name for name in (*_RECORDS, folder.journal.name)]
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
    """Sign a summary that a person changed by a command; the other hashes stay as they were."""
    if folder.seal.exists():
        files = read_record(folder.seal, Seal).files
        _write(folder, {**files, folder.summary.name: _hash(summary)})


def broken_seal(folder: SessionFolder, *, needs: tuple[Path, ...], thorough: bool) -> str | None:
    """Return why the evidence of an ended session is not what it was at its end; None: it is.

    Args:
        folder: the session.
        needs: files that the manifest must list.
        thorough: read the policy and the judged episodes, too, not only the records.
    """
    if not folder.seal.exists():
        return NO_SEAL
    try:
        manifest = read_record(folder.seal, Seal)
        return next(_faults(folder, manifest, needs, thorough=thorough), None)
    except BadFile as error:
        return f"its manifest cannot be checked: {error.message}"


def is_sealed_elsewhere(folder: SessionFolder) -> bool:
    """Say whether another user's key made the signature, so that it proves little here."""
    try:
        signature = read_record(folder.seal, Seal).signature
    except BadFile:
        return False
    return signature is not None and not _is_ours(signature, _existing_key(folder))


def _faults(
    folder: SessionFolder, manifest: Seal, needs: tuple[Path, ...], *, thorough: bool
) -> Iterator[str]:
    for path in needs:
        if path.relative_to(folder.path).as_posix() not in manifest.files:
            yield f"its manifest does not list {path.relative_to(folder.path)}"
    key, signature = _existing_key(folder), manifest.signature
    if signature is None and key is not None:
        yield "its manifest is not signed"
    is_ours = signature is not None and _is_ours(signature, key)
    if key and is_ours and not key.has_signed(_signed(manifest.files), signature or ""):
        yield "its manifest was rewritten: the signature is wrong"
    for name, digest in manifest.files.items():
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


def _signing_key(folder: SessionFolder) -> SigningKey | None:
    """Return the user's key, made at the first need; None where it cannot be used."""
    try:
        return user_key(folder.path.parent)
    except (TelicError, OSError):
        return None


def _existing_key(folder: SessionFolder) -> SigningKey | None:
    return _signing_key(folder) if key_file().exists() else None


def _is_ours(signature: str, key: SigningKey | None) -> bool:
    return key is not None and signature.startswith(f"{key.id}:")


def _signed(files: dict[str, Any]) -> bytes:
    return json.dumps(files, sort_keys=True).encode()


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
