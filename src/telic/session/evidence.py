"""The journal of a session: its records as they were made, and what its outcome rests on.

A resumed session believes its journal. Every record is also written as a readable JSON file; a file
that was changed or deleted is restored from the journal, and a change is a doubt: what rests on it
is not proven.

The last entry, `end`, lists the hash of every record, program, policy and judged episode that the
outcome rests on. Entries are chained and signed with the user's key. `verify_end` is called by
everything that reads an outcome. Without the key, a folder from elsewhere can only be checked for
complete files. Sessions of earlier versions have a signed manifest, `seal.json`, instead.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar

from pydantic import BaseModel

from telic.core.config import Record
from telic.errors import BadFile, Refused, TelicError
from telic.storage.files import (
    json_text,
    read_fields,
    read_record,
    read_table,
    write_json,
    write_text,
)
from telic.storage.journal import Journal, JournalBroken
from telic.storage.keys import SigningKey, key_file, user_key
from telic.storage.layout import MemberFolder, SessionFolder
from telic.storage.reading import file_hash

SIGNED_ELSEWHERE = "signed by another user or machine"
NOT_SIGNED_OFF = "its journal does not record its end: an earlier version wrote it, or it was cut"
# Records that later steps believe, and further files that an outcome rests on.
_STEPS = ("asked.json", "author.json", "trial.json")
_FILES = ("session.json", "approval.json", "judge_fn.py", "certificate.json", "robustness.json")
_ITERATION_STEPS = (
    "candidate.json",
    "selection.json",
    "judge_revision.json",
    "proof.json",
    "judgment.json",
)
_ITERATION_FILES = ("reward_fn.py", "certificate.json")
_LARGE = (".npz", ".pt")
_LOOP_FILES = {"candidate": "candidate.json", "verdict": "judgment.json"}
_Kind = TypeVar("_Kind", bound=BaseModel)


class RequestHashes(Record):
    """The first entry of a session's journal: the request."""

    request: str
    """SHA-256 of intent, environment and the files that the environment is made of"""
    terms: str
    """SHA-256 of the other settings that a verdict rests on: threshold, seeds, episodes"""


class SessionEnd(Record):
    """The last entry of a session's journal: what the outcome rests on."""

    files: dict[str, str]
    """SHA-256 by the file's path in the session's folder"""


class _Seal(SessionEnd):
    """The signed manifest of an earlier version."""

    schema_version: Literal[1] = 1
    signature: str | None = None
    unsigned_because: str | None = None


class SessionJournal:
    """The journal of a session, with every record as a readable file next to it."""

    def __init__(self, folder: SessionFolder, intent: str, env: str, terms: str) -> None:
        self._folder = folder
        self._asked = (intent, env)
        self._terms = _hash(terms)
        self._request = self._request_now()
        self._journal = _open(folder, _signing_key(folder), self._asked)
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
            entries = self._journal.entries()
        except JournalBroken as error:
            raise Refused(error.message, hint="Start it again with --fresh.") from None
        for name in {entry.subject: None for entry in entries if entry.subject}:
            path, known = self._folder.path / name, self._texts(name)
            if path.is_file() and file_hash(path) not in map(_hash, known):
                self._changed[name] = None
            if not path.is_file() or file_hash(path) != _hash(known[-1]):
                write_text(path, known[-1])

    def write(self, path: Path, record: BaseModel) -> None:
        """Record a step and write its file; the first one begins the journal."""
        if self._journal.find("begin") is None:
            self._journal.append("begin", RequestHashes(request=self._request, terms=self._terms))
        self._journal.append("step", record, subject=self._name(path))
        write_json(path, record)

    def step(self, path: Path, kind: type[_Kind], make: Callable[[], _Kind]) -> _Kind:
        """Return the record of a step that was finished before, or take the step and record it."""
        known = self._journal.recorded("step", kind, self._name(path))
        if known is not None:
            return known
        self.write(path, make())
        return read_record(path, kind)

    def recorded(self, kind: str, record: type[_Kind], subject: str | None = None) -> _Kind | None:
        """Return the candidate or verdict of an iteration; see `telic.loop`."""
        return self._journal.recorded("step", record, f"iter_{subject}/{_LOOP_FILES[kind]}")

    def once(
        self, kind: str, record: type[_Kind], make: Callable[[], _Kind], subject: str | None = None
    ) -> _Kind:
        """Record the candidate or verdict of an iteration; see `telic.loop`."""
        path = self._folder.path / f"iter_{subject}" / _LOOP_FILES[kind]
        return self.step(path, record, make)

    def adopt(self, path: Path) -> None:
        """Record the content of a file that was copied from another session."""
        self._journal.append("step", read_table(path), subject=self._name(path))

    def is_own(self, path: Path) -> bool:
        """Return whether a file holds a record of this journal."""
        try:
            known = self._texts(self._name(path))
        except JournalBroken:
            return False
        return path.is_file() and file_hash(path) in map(_hash, known)

    def paths(self) -> list[Path]:
        """Return the files that later steps believe."""
        return [path for path in _paths(self._folder, _STEPS, _ITERATION_STEPS) if path.exists()]

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
        begun = self._journal.recorded("begin", RequestHashes)
        if begun is not None and begun.request != self._request:
            yield "the files of its environment were changed since the session began"
        if begun is not None and begun.terms != self._terms:
            yield f"{self._folder.config.name} is not the request that this session was begun with"
        now = [self._name(path) for path in self.paths() if not self.is_own(path)]
        for name in dict.fromkeys((*self._changed, *now)):
            yield f"{name} was not written by this session"

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


# ----------------------------------------------------------------------------- the end


class EndCheck(NamedTuple):
    """The check of an ended session's evidence."""

    fault: str | None
    is_elsewhere: bool = False
    """whether another user's key made the signature, so that it proves little here"""


def record_end(
    folder: SessionFolder, summary: BaseModel, best: tuple[int, str, int | None] | None = None
) -> None:
    """Record what an outcome rests on and write the summary: a session with one has ended.

    Args:
        folder: the session.
        summary: content of its summary.json.
        best: iteration, name and step of the policy that it delivers.
    """
    paths = [*_paths(folder, (*_STEPS, *_FILES), (*_ITERATION_STEPS, *_ITERATION_FILES))]
    if best is not None:
        number, name, step = best
        files = folder.iteration(number)
        member = MemberFolder(files.run.path / name)
        paths += [member.config, member.reward_code, member.reward_spec]
        paths += [] if step is None else [member.checkpoint(step)]
        paths += sorted((files.judged_dir / name).glob("episode_*.npz"))
    hashes = {
        path.relative_to(folder.path).as_posix(): file_hash(path)
        for path in paths
        if path.is_file()
    }
    _end(folder, hashes, summary)


def change_summary(folder: SessionFolder, summary: BaseModel) -> None:
    """Write a summary that a person changed by a command; the other hashes stay as they were."""
    files = dict(_read_end(folder, thorough=True)[0])
    files.pop(folder.journal.name, None)  # listed by earlier versions, and about to grow
    _end(folder, files, summary)


def _end(folder: SessionFolder, files: dict[str, str], summary: BaseModel) -> None:
    text = json_text(summary)
    end = SessionEnd(files={**files, folder.summary.name: _hash(text)})
    _open(folder, _signing_key(folder)).append("end", end)
    write_text(folder.summary, text)


def verify_end(folder: SessionFolder, *, needs: tuple[Path, ...], thorough: bool) -> EndCheck:
    """Check the evidence of an ended session against its journal.

    Args:
        folder: the session.
        needs: files that the end must list.
        thorough: read the policy, the judged episodes and the whole journal, too.
    """
    key = _signing_key(folder) if key_file().exists() else None
    try:
        files, signature = _read_end(folder, thorough=thorough)
        if not files:
            return EndCheck(NOT_SIGNED_OFF)
        fault = next(_faults(folder, files, needs, thorough=thorough), None)
    except (BadFile, JournalBroken) as error:
        return EndCheck(f"its journal cannot be checked: {error.message}")
    if fault is None and key is not None and signature is None:
        fault = "the end of its journal is not signed"
    is_ours = key is not None and (signature or "").startswith(f"{key.id}:")
    return EndCheck(fault, is_elsewhere=signature is not None and not is_ours)


def _read_end(folder: SessionFolder, *, thorough: bool) -> tuple[dict[str, str], str | None]:
    """Return the files of a session's end and its signature, verified if it is ours."""
    key = _signing_key(folder) if key_file().exists() else None
    journal = _open(folder, key)
    last = journal.last() if folder.journal.exists() else None
    if thorough:
        journal.entries()  # raises JournalBroken at the first bad line
    if last is not None and last.kind == "end":
        return SessionEnd.model_validate(last.data).files, last.sig
    if not folder.seal.exists():
        return {}, None
    seal = read_record(folder.seal, _Seal)
    content, signature = json.dumps(seal.files, sort_keys=True).encode(), seal.signature or ""
    if key and signature.startswith(f"{key.id}:") and not key.has_signed(content, signature):
        raise BadFile("the signature of seal.json is wrong.")
    return seal.files, seal.signature


def _faults(
    folder: SessionFolder, files: dict[str, str], needs: tuple[Path, ...], *, thorough: bool
) -> Iterator[str]:
    for path in needs:
        if path.relative_to(folder.path).as_posix() not in files:
            yield f"its journal does not list {path.relative_to(folder.path)}"
    for name, digest in files.items():
        path = folder.path / name
        if not path.is_file():
            yield f"{name} was removed after the session ended"
        elif (thorough or path.suffix not in _LARGE) and file_hash(path) != digest:
            yield f"{name} was changed after the session ended"


def _paths(
    folder: SessionFolder, names: tuple[str, ...], of_iteration: tuple[str, ...]
) -> Iterator[Path]:
    yield from (folder.path / name for name in names)
    for number in folder.iterations():
        yield from (folder.iteration(number).path / name for name in of_iteration)


def _open(
    folder: SessionFolder, key: SigningKey | None, asked: tuple[str, str] | None = None
) -> Journal:
    """Open the journal; its name is the request: intent and environment."""
    if asked is None:
        config = read_fields(folder.config, intent=str, env=str)
        asked = config["intent"], config["env"]
    return Journal(folder.journal, f"session: {asked[0]} ({asked[1]})", key)


def _signing_key(folder: SessionFolder) -> SigningKey | None:
    """Return the user's key, made if missing; None where it cannot be used."""
    try:
        return user_key(folder.path.parent)
    except (TelicError, OSError):
        return None


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
