"""Evidence that nobody but the session wrote: what others change proves nothing.

While a session goes on, every record that a later step believes is written by `StepRecords`, which
notes its hash in `marks.json` first. A session that was stopped goes on from its records; one that
is not as marked was changed in between, and what rests on it is not proven.

At the end `seal.json` holds the hash of every record, program, policy and judged episode that the
outcome rests on. Who reads an outcome asks `broken_seal`.

Both are signed by the user's key, which lies outside. Without the key a folder that came from
elsewhere can be checked for whole files only, and that is said. A session of an earlier version has
neither, and so has one from which they were removed.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import Field

from telic.core.config import Record
from telic.errors import BadFile, TelicError
from telic.storage.files import json_text, once, read_record, write_json
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
_STEPS = ("asked.json", "author.json", "trial.json")
_STEPS_OF_ITERATION = (
    "candidate.json",
    "selection.json",
    "judge_revision.json",
    "proof.json",
    "judgment.json",
)
_Step = TypeVar("_Step", bound=Record)


# ------------------------------------------------------------------------------ while it goes on


class Marks(Record):
    """The hashes of what a session wrote itself, and who vouches for them."""

    schema_version: Literal[1] = 1
    request: str
    """SHA-256 of intent, environment and the files that it is made of: the records of another
    request, or of a robot that was changed since, prove nothing here"""
    terms: str | None = None
    """SHA-256 of what was asked for besides, as the first step found it: threshold, seeds,
    episodes; None: a version that did not look at them made it"""
    files: dict[str, tuple[str, ...]] = Field(default={})
    """by the file's path in the session's folder, the hashes of what was written there last and
    the time before: who is killed in between has the older one"""
    signature: str | None = None

    def signed(self) -> bytes:
        """Return what the signature is of."""
        terms = {} if self.terms is None else {"terms": self.terms}
        return _signed({"request": self.request, **terms, **self.files})


class StepRecords:
    """The records that the steps of a session leave for later ones, marked as its own."""

    def __init__(self, folder: SessionFolder, intent: str, env: str, terms: str) -> None:
        self._folder = folder
        self._asked = (intent, env)
        self._terms = _hash(terms)
        self._request = self._request_now()
        self._lock = threading.Lock()  # policies are judged by a thread while others are trained
        self._strange: dict[str, None] = {}

    def write(self, path: Path, record: Any) -> None:
        """Write a record as one of the session's own."""
        self._mark(path, _hash(json_text(record)))
        write_json(path, record)

    def once(self, path: Path, kind: type[_Step], make: Callable[[], _Step]) -> _Step:
        """Return the record of a step that was finished before, or take the step and record it."""

        def marked() -> _Step:
            record = make()
            self._mark(path, _hash(json_text(record)))
            return record

        if path.exists() and not self.is_own(path):
            self._strange[self._name(path)] = None
        return once(path, kind, marked)

    def adopt(self, path: Path) -> None:
        """Mark a record that is there as one of the session's own."""
        self._mark(path, file_hash(path))

    def is_own(self, path: Path) -> bool:
        """Say whether a record is what the session wrote there."""
        return path.is_file() and file_hash(path) in self._known().files.get(self._name(path), ())

    def paths(self) -> list[Path]:
        """Return where there are records that later steps believe."""
        paths = [self._folder.path / name for name in _STEPS]
        for number in self._folder.iterations():
            files = self._folder.iteration(number)
            paths += [files.path / name for name in _STEPS_OF_ITERATION]
            paths += sorted(files.path.glob("rung_*.json"))
        return [path for path in paths if path.exists()]

    def doubts(self) -> Iterator[str]:
        """Yield a sentence on every record that somebody else wrote or changed."""
        if self._request_now() != self._request:
            yield "the files of its environment were changed while the session ran"
        if self._known().terms not in (None, self._terms):
            yield f"{self._folder.config.name} no longer asks for what this session was begun with"
        now = [self._name(path) for path in self.paths() if not self.is_own(path)]
        for name in dict.fromkeys((*self._strange, *now)):
            yield f"{name} is not what this session wrote there"

    def _request_now(self) -> str:
        from telic.envs.access import (
            env_access,
        )  # with MuJoCo, which who reads a seal can do without

        intent, env = self._asked
        code = Path(env.rpartition(":")[0]).expanduser()  # of a class as file.py:Class
        files = [*env_access(env, {}).readable, *([code] if code.is_file() else [])]
        return _hash(json.dumps([intent, env, *map(file_hash, files)]))

    def _mark(self, path: Path, digest: str) -> None:
        with self._lock:
            known = self._known()
            files = known.files
            name = self._name(path)
            marks = Marks(
                request=self._request,
                terms=known.terms or self._terms,
                files={**files, name: (*files.get(name, ())[-1:], digest)},
            )
            signature, _ = _signature(self._folder, marks.signed())
            write_json(self._folder.marks, marks.model_copy(update={"signature": signature}))

    def _known(self) -> Marks:
        """Return the marks; none where they are not this session's or not this user's."""
        nothing = Marks(request=self._request)
        try:
            marks = read_record(self._folder.marks, Marks) if self._folder.marks.exists() else None
        except BadFile:
            return nothing
        if marks is None or marks.request != self._request:
            return nothing
        key = _own_key(self._folder)
        if key is None:  # none that can be used: there was no signature then either
            return marks if marks.signature is None else nothing
        is_signed = marks.signature is not None and key.has_signed(marks.signed(), marks.signature)
        return marks if is_signed else nothing

    def _name(self, path: Path) -> str:
        return path.relative_to(self._folder.path).as_posix()


# ------------------------------------------------------------------------------------ at its end


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
    signature, why = _signature(folder, _signed(files))
    write_json(folder.seal, Seal(files=files, signature=signature, unsigned_because=why))


# -------------------------------------------------------------------------------------- the key


def _signature(folder: SessionFolder, content: bytes) -> tuple[str | None, str | None]:
    """Return the user's signature, or why there is none."""
    try:
        return user_key(folder.path.parent).sign(content), None
    except (TelicError, OSError) as error:
        return None, str(error)


def _own_key(folder: SessionFolder) -> SigningKey | None:
    try:
        return user_key(folder.path.parent) if key_file().exists() else None
    except (TelicError, OSError):
        return None  # it cannot be used, and could not when the session was sealed


def _is_ours(signature: str, key: SigningKey | None) -> bool:
    return key is not None and signature.startswith(f"{key.id}:")


def _signed(files: Mapping[str, str | tuple[str, ...]]) -> bytes:
    return json.dumps(files, sort_keys=True).encode()


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
