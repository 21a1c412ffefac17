"""Signed journal of a session with its records and the hashes of all relevant files.

A resumed session trusts its journal. Every record is also written as a readable JSON file. Changed
or deleted files are restored from the journal, and results that depend on a changed file are not
proven. The last entry, `end`, contains the folder's name and the hashes of all files behind the
outcome, including the robot's files outside the session. `records.verified` reads the outcome.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, Field

from telic.core.config import Record
from telic.errors import BadFile, Refused, TelicError
from telic.storage.files import (
    as_record,
    json_text,
    read_fields,
    read_record,
    write_json,
    write_text,
)
from telic.storage.journal import Journal, JournalBroken
from telic.storage.keys import (
    SigningKey,
    is_own_folder,
    key_file,
    signed_text,
    usable_key,
    user_key,
)
from telic.storage.layout import MemberFolder, SessionFolder
from telic.storage.reading import check_file, file_hash, read_text
from telic.storage.workspace import is_unbegun

NOT_SIGNED_OFF = "its journal has no end because it was truncated or written by an earlier version"
# Records that later steps trust, and further files that an outcome depends on.
_STEPS = ("asked.json", "approval.json", "author.json", "trial.json")
_FILES = ("session.json", "judge_fn.py", "certificate.json", "robustness.json")
_ITERATION_STEPS = tuple(f"{name}.json" for name in ("candidate", "selection", "proof", "judgment"))
_ITERATION_FILES = ("reward_fn.py", "certificate.json")
_LOOP_FILES = {"candidate": "candidate.json", "verdict": "judgment.json"}
_Kind = TypeVar("_Kind", bound=BaseModel)


class RequestHashes(Record):
    """First entry of a session's journal that contains the request."""

    request: str
    """SHA-256 of the intent, the environment and the environment's files"""
    terms: str
    """SHA-256 of other settings that affect the verdict, such as threshold, seeds and episodes"""


class SessionEnd(Record):
    """Last entry of a session's journal, with hashes of the files on which the outcome depends."""

    session: str | None = None
    """name of the session's folder, or None if written by an earlier version"""
    files: dict[str, str]
    """SHA-256 by path relative to the session's folder"""
    model: dict[str, str] = Field(default={})
    """SHA-256 by path of the robot's file and its assets, or of the environment's code"""


class SessionJournal:
    """Journal of a session that mirrors every record to a readable file."""

    def __init__(self, folder: SessionFolder, intent: str, env: str, terms: str) -> None:
        self._folder = folder
        self._asked = (intent, env)
        self._terms = _hash(terms)
        self._request = self._request_now()
        self._journal = _open(folder, _signing_key(folder), self._asked)
        self._changed: dict[str, None] = {}

    def begin(self) -> None:
        """Resume the journal and restore files that are missing or were changed.

        Raises Refused if the journal is damaged, or was not written by this user and version.
        """
        check, why = self._journal.verify(), ""
        is_ours = is_own_folder(self._folder.path) or is_unbegun(self._folder.path)
        if not check.ok and not check.torn:
            why = check.why
        elif not self.is_begun and (any(self.paths()) or not is_ours):
            why = "it was started by an earlier version or another user"
        elif check.head.seq and _signing_key(self._folder) is None:
            why = "your signing key cannot be used (see telic doctor)"
        if why:
            raise Refused(
                f"{self._folder.name} cannot be resumed: {why}.",
                hint="Start it from scratch with --fresh, or continue from one of its iterations "
                f"with: telic branch {self._folder.name} --iteration N",
            )
        self.open()
        entries = self._journal.entries()
        for name in {entry.subject: None for entry in entries if entry.subject}:
            path, known = self._folder.path / name, self._texts(name)
            if path.is_file() and file_hash(path) not in map(_hash, known):
                self._changed[name] = None
            if not path.is_file() or file_hash(path) != _hash(known[-1]):
                write_text(path, known[-1])

    @property
    def is_begun(self) -> bool:
        """Return whether the journal contains the request."""
        return self._journal.find("begin") is not None

    @property
    def is_other_request(self) -> bool:
        """Return whether the journal contains other terms than the configuration."""
        begun = self._journal.recorded("begin", RequestHashes)
        return begun is not None and begun.terms != self._terms

    def open(self) -> None:
        """Write the first entry if the journal is empty."""
        if not self.is_begun:
            self._journal.append("begin", RequestHashes(request=self._request, terms=self._terms))

    def write(self, path: Path, record: BaseModel) -> None:
        """Record a step and write the corresponding file."""
        self._journal.append("step", record, subject=self._name(path))
        write_json(path, record)

    def step(self, path: Path, kind: type[_Kind], make: Callable[[], _Kind]) -> _Kind:
        """Return the record of a finished step, or run the step and record it."""
        if (known := self.known(path, kind)) is None:
            self.write(path, make())
        return known or read_record(path, kind)

    def known(self, path: Path, kind: type[_Kind]) -> _Kind | None:
        """Return the record of a step, or None if it is not finished."""
        return self._journal.recorded("step", kind, self._name(path))

    def has(self, path: Path) -> bool:
        """Return whether a step is finished."""
        return self._journal.find("step", self._name(path)) is not None

    def recorded(self, kind: str, record: type[_Kind], subject: str | None = None) -> _Kind | None:
        """Return the recorded candidate or verdict of an iteration."""
        return self._journal.recorded("step", record, f"iter_{subject}/{_LOOP_FILES[kind]}")

    def once(
        self, kind: str, record: type[_Kind], make: Callable[[], _Kind], subject: str | None = None
    ) -> _Kind:
        """Record the candidate or verdict of an iteration. See `telic.loop`."""
        return self.step(self._folder.path / f"iter_{subject}" / _LOOP_FILES[kind], record, make)

    def adopt(self, path: Path) -> None:
        """Record the content of a file copied from another session."""
        self._journal.append("step", read_fields(path), subject=self._name(path))

    def is_own(self, path: Path) -> bool:
        """Return whether this user owns the journal, and a file matches a record in it."""
        if not self._journal.verify().ok:
            return False
        with suppress(JournalBroken):
            return path.is_file() and file_hash(path) in map(_hash, self._texts(self._name(path)))
        return False

    def paths(self) -> list[Path]:
        """Return the existing files on which later steps depend."""
        return [path for path in _paths(self._folder, _STEPS, _ITERATION_STEPS) if path.exists()]

    def doubts(self) -> Iterator[str]:
        """Yield a message for every file that was changed outside of the session."""
        if self._request_now() != self._request:
            yield "the environment's files were modified while the session was running"
        check = self._journal.verify()
        if not check.ok:
            yield f"line {check.bad_seq} of {self._journal.path.name} was modified: {check.why}"
            return
        if check.unsigned and _signing_key(self._folder) is not None:
            yield f"{self._journal.path.name} is not signed with this user's key"
        begun = self._journal.recorded("begin", RequestHashes)
        if begun is not None and begun.request != self._request:
            yield "the environment's files were modified after the session started"
        if self.is_other_request:
            yield f"{self._folder.config.name} is not the request that started this session"
        now = [self._name(path) for path in self.paths() if not self.is_own(path)]
        for name in dict.fromkeys((*self._changed, *now)):
            yield f"{name} was not written by this session"

    def _texts(self, name: str) -> list[str]:
        entries = self._journal.entries()
        return [json_text(entry.data) for entry in entries if entry.subject == name]

    def _request_now(self) -> str:
        intent, env = self._asked
        return _hash(json.dumps([intent, env, *map(file_hash, _environment_files(env))]))

    def _name(self, path: Path) -> str:
        return path.relative_to(self._folder.path).as_posix()


# ----------------------------------------------------------------------------- end of a session


def record_end(
    folder: SessionFolder, summary: BaseModel, best: tuple[int, str, int | None] | None = None
) -> None:
    """Record the files that support an outcome, and end the session by writing its summary.

    `best` is the iteration, name and step of the delivered policy.
    """
    paths = [*_paths(folder, (*_STEPS, *_FILES), (*_ITERATION_STEPS, *_ITERATION_FILES))]
    if best is not None:
        number, name, step = best
        files = folder.iteration(number)
        member = MemberFolder(files.run.path / name)
        paths += [files.run.config, member.config, member.reward_code, member.reward_spec]
        paths += [] if step is None else [member.checkpoint(step)]
        paths += sorted((files.judged_dir / name).glob("episode_*.npz"))
    hashes = {
        path.relative_to(folder.path).as_posix(): file_hash(path)
        for path in paths
        if path.is_file()
    }
    env = read_fields(folder.config, env=str)["env"]
    model = {str(path): file_hash(path) for path in _environment_files(env)}
    _end(folder, SessionEnd(session=folder.name, files=hashes, model=model), summary)


def record_veto(folder: SessionFolder, summary: BaseModel) -> None:
    """Record vetoes and the summary that they changed. All other hashes remain unchanged."""
    journal = _open(folder, _signing_key(folder))
    end = journal.recorded("end", SessionEnd) or SessionEnd(session=folder.name, files={})
    hashes = {**end.files, folder.vetoes.name: file_hash(folder.vetoes)}
    # A journal signed with another key accepts no entry of ours; the veto file alone counts.
    with suppress(JournalBroken):
        _end(folder, end.model_copy(update={"files": hashes}), summary)


def countersign(folder: SessionFolder) -> None:
    """Sign the end of a session that ran on another machine as a job of this user."""
    key = _signing_key(folder)
    if key is not None and folder.journal.exists():
        journal = _open(folder, key)
        last = journal.entries()[-1]
        if last.kind == "end" and journal.verify().signer not in (None, key.public):
            journal.adopt()
            journal.append("end", last.data)


def _end(folder: SessionFolder, end: SessionEnd, summary: BaseModel) -> None:
    text = json_text(summary)
    files = {**end.files, folder.summary.name: _hash(text)}
    _open(folder, _signing_key(folder)).append("end", end.model_copy(update={"files": files}))
    write_text(folder.summary, text)


def check_end(folder: SessionFolder, needs: Iterable[Path]) -> tuple[str | None, str | None]:
    """Verify all files that support the outcome of a session against its signed journal.

    Returns why nothing is proven, and why a pass is only a claim on this machine (no signature, or
    another key). The signed end must list all files in `needs`.
    """
    key = usable_key(folder.path.parent)
    try:
        journal = _open(folder, key)
        check = journal.verify()
        if not check.ok and not check.foreign:
            return f"its journal cannot be checked: line {check.bad_seq}: {check.why}", None
        last = (journal.entries() or [None])[-1]
    except (BadFile, JournalBroken) as error:
        return f"its journal cannot be checked: {error.message}", None
    if last is None or last.kind != "end":
        return NOT_SIGNED_OFF, None
    end = as_record(last.data, SessionEnd, str(folder.journal))
    if fault := next(_faults(folder, end, needs), None):
        return fault, None
    if key is not None and check.signer == key.public:
        why = f"its journal differs from the one written here: {check.why}"
        return why if check.foreign else None, None
    if key is None and key_file().exists():
        return None, "your signing key cannot be used (see telic doctor)"
    if check.signer is not None:
        return None, f"signed with the key {check.signer[:12]}…, not your own"
    earlier = "signed by an earlier version, whose signatures can no longer be verified"
    return None, earlier if last.sig else "not signed"


def end_signer(folder: SessionFolder) -> str | None:
    """Return the public key that signed the end of a session."""
    return _open(folder, None).verify().signer


def drawings(folder: SessionFolder, report: Path | None = None) -> dict[str, str]:
    """Return the SHA-256 of pictures and videos by name, or "" if a file cannot be read.

    With a report, return only the files that it does not list, or that differ from its list.
    """
    found = {path.name: path for path in sorted(folder.report_dir.glob("*")) if path.is_file()}
    now = {name: _hash_now(path) for name, path in found.items()}
    if report is None:
        return now
    claims, signer = signed_text(read_text(report)) if report.exists() else ({}, None)
    listed = claims.get("files", {})
    if not folder.journal.exists():  # sent without its session, maybe next to other files
        return {name: digest for name, digest in now.items() if listed.get(name, digest) != digest}
    is_own = any(f":{signer}:" in (entry.sig or "") for entry in _open(folder, None).entries())
    listed = listed if is_own and claims.get("session") == folder.path.resolve().name else {}
    return {name: digest for name, digest in now.items() if listed.get(name) != digest}


def _faults(folder: SessionFolder, end: SessionEnd, needs: Iterable[Path]) -> Iterator[str]:
    if end.session not in (None, folder.path.resolve().name):
        yield f"its journal belongs to another session, {end.session}"
    for path in needs:
        if path.relative_to(folder.path).as_posix() not in end.files:
            yield f"its journal does not list {path.relative_to(folder.path)}"
    if folder.vetoes.exists() and folder.vetoes.name not in end.files:
        yield "a person vetoed it"
    for name, digest in (*end.files.items(), *end.model.items()):
        path = folder.path / name  # model paths are absolute
        if not path.is_file():
            yield f"{name} was removed after the session ended"
            continue
        if _hash_now(path) != digest:
            yield f"{name} was modified after the session ended"


def _hash_now(path: Path) -> str:
    now = path.stat()
    return _hash_of(path, (now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns))


@lru_cache(maxsize=1 << 14)
def _hash_of(path: Path, stamp: tuple[int, ...]) -> str:
    """Return the hash of a file, cached by the file's stat values because servers poll often.

    Unreadable and very large files have no hash, because another signer may have listed them to
    block readers of the journal.
    """
    try:
        check_file(path)
        return file_hash(path)
    except (BadFile, OSError):
        return ""


def _environment_files(env: str) -> list[Path]:
    """Return the files outside the session that define its robot or environment."""
    from telic.envs.access import env_files  # imports MuJoCo, which readers do not need

    code = Path(env.rpartition(":")[0]).expanduser()  # path in file.py:Class
    files = [*env_files(env, {}), *([code] if code.is_file() else [])]
    return [path.absolute() for path in files]


def _paths(
    folder: SessionFolder, names: tuple[str, ...], of_iteration: tuple[str, ...]
) -> Iterator[Path]:
    yield from (folder.path / name for name in names)
    for number in folder.iterations():
        yield from (folder.iteration(number).path / name for name in of_iteration)


def _open(
    folder: SessionFolder, key: SigningKey | None, asked: tuple[str, str] | None = None
) -> Journal:
    """Open the journal, which is named after the intent and environment of the request."""
    if asked is None:
        config = read_fields(folder.config, intent=str, env=str)
        asked = config["intent"], config["env"]
    name = f"session: {asked[0]} ({asked[1]})"
    return Journal(folder.journal, name, key, guard=None if key is None else "copies")


def _signing_key(folder: SessionFolder) -> SigningKey | None:
    try:
        return user_key(folder.path.parent)
    except (TelicError, OSError):
        return None


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
