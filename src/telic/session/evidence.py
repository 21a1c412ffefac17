"""The journal of a session: its records as they were made, and what its outcome rests on.

A resumed session believes its journal. Every record is also written as a readable JSON file; a file
that was changed or deleted is restored from the journal, and a change is a doubt: what rests on it
is not proven.

The last entry, `end`, lists the hash of every record, program, policy and judged episode that the
outcome rests on, the robot's files outside the folder included, and the folder's own name. Entries
are chained and signed with the user's key, and the last one is noted in the user's folder.
`records.verified` is the only reader of outcomes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, TypeVar

from pydantic import BaseModel, Field

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
from telic.storage.keys import SigningKey, usable_key, user_key
from telic.storage.layout import MemberFolder, SessionFolder
from telic.storage.reading import file_hash

NOT_SIGNED_OFF = "its journal does not record its end: an earlier version wrote it, or it was cut"
_EARLIER_SIGNATURE = "signed by an earlier version, whose signatures cannot be checked any more"
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

    session: str | None = None
    """name of the session's folder; None: of an earlier version"""
    files: dict[str, str]
    """SHA-256 by the file's path in the session's folder"""
    model: dict[str, str] = Field(default={})
    """SHA-256 by path of the robot's file, its assets, or the environment's code"""


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
        check = self._journal.verify()
        if not check.ok and not check.torn:
            raise Refused(
                f"The journal of {self._folder.name} cannot be resumed: {check.why}.",
                hint="Start it again with --fresh, or continue from one of its iterations with: "
                f"telic branch {self._folder.name} --iteration N",
            )
        entries = self._journal.entries()
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
        intent, env = self._asked
        return _hash(json.dumps([intent, env, *map(file_hash, _environment_files(env))]))

    def _name(self, path: Path) -> str:
        return path.relative_to(self._folder.path).as_posix()


# ----------------------------------------------------------------------------- the end


class EndCheck(NamedTuple):
    """The result of checking an ended session against its signed journal."""

    fault: str | None = None
    """why nothing is proven; None: every file is as it was when the session ended"""
    not_ours: str | None = None
    """why it is only a claim here: the signature is missing, or another key made it"""


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
    """Record a summary that a veto changed, and the vetoes; the other hashes stay as they were."""
    journal = _open(folder, _signing_key(folder))
    end = journal.recorded("end", SessionEnd) or SessionEnd(session=folder.name, files={})
    hashes = {**end.files, folder.vetoes.name: file_hash(folder.vetoes)}
    # A journal that another key signed takes no entry of ours; the file alone counts as a veto.
    with suppress(JournalBroken):
        _end(folder, end.model_copy(update={"files": hashes}), summary)


def countersign(folder: SessionFolder) -> None:
    """Sign the end of a session that a job of this user ran on another machine."""
    key = _signing_key(folder)
    journal = _open(folder, key)
    check = journal.verify()
    if key is None or check.signer in (None, key.public) or journal.entries()[-1].kind != "end":
        return
    journal.adopt()
    journal.append("end", journal.entries()[-1].data)


def _end(folder: SessionFolder, end: SessionEnd, summary: BaseModel) -> None:
    text = json_text(summary)
    files = {**end.files, folder.summary.name: _hash(text)}
    journal = _open(folder, _signing_key(folder))
    journal.append("end", end.model_copy(update={"files": files}))
    write_text(folder.summary, text)


def check_end(folder: SessionFolder, needs: Iterable[Path]) -> EndCheck:
    """Check every file behind the outcome of an ended session against its signed journal.

    Args:
        folder: the session.
        needs: files that the signed end must list.
    """
    key = usable_key(folder.path.parent)
    try:
        journal = _open(folder, key)
        check = journal.verify()
        end = journal.recorded("end", SessionEnd) if check.ok or check.foreign else None
        is_last = bool(end) and journal.entries()[-1].kind == "end"
    except (BadFile, JournalBroken) as error:
        return EndCheck(f"its journal cannot be checked: {error.message}")
    if not check.ok and not check.foreign:
        return EndCheck(f"its journal cannot be checked: line {check.bad_seq}: {check.why}")
    if end is None or not is_last:
        return EndCheck(NOT_SIGNED_OFF)
    if fault := next(_faults(folder, end, needs), None):
        return EndCheck(fault)
    if key is not None and check.signer == key.public:
        why = f"its journal is not the one that was written here: {check.why}"
        return EndCheck(why if check.foreign else None)
    if check.signer is not None:
        return EndCheck(not_ours=f"signed with the key {check.signer[:12]}…, which is not yours")
    signature = journal.entries()[-1].sig
    return EndCheck(not_ours=_EARLIER_SIGNATURE if signature else "not signed")


def _faults(folder: SessionFolder, end: SessionEnd, needs: Iterable[Path]) -> Iterator[str]:
    if end.session not in (None, folder.path.resolve().name):
        yield f"its journal is that of another session, {end.session}"
    for path in needs:
        if path.relative_to(folder.path).as_posix() not in end.files:
            yield f"its journal does not list {path.relative_to(folder.path)}"
    if folder.vetoes.exists() and folder.vetoes.name not in end.files:
        yield "a person vetoed it"
    for name, digest in (*end.files.items(), *end.model.items()):
        path = folder.path / name  # those of the model are absolute
        if not path.is_file():
            yield f"{name} was removed after the session ended"
        elif _hash_now(path) != digest:
            yield f"{name} was changed after the session ended"


def _hash_now(path: Path) -> str:
    """Return the hash of a file; servers ask again and again, so it is kept while nothing moves."""
    now = path.stat()
    return _hash_of(path, (now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns))


@lru_cache(maxsize=1 << 14)
def _hash_of(path: Path, stamp: tuple[int, ...]) -> str:
    return file_hash(path)


def _environment_files(env: str) -> list[Path]:
    """Return the files outside the session that its robot or environment is made of."""
    from telic.envs.access import env_access  # imports MuJoCo, which readers do without

    code = Path(env.rpartition(":")[0]).expanduser()  # of a class as file.py:Class
    files = [*env_access(env, {}).readable, *([code] if code.is_file() else [])]
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
    """Open the journal; its name is the request: intent and environment."""
    if asked is None:
        config = read_fields(folder.config, intent=str, env=str)
        asked = config["intent"], config["env"]
    name = f"session: {asked[0]} ({asked[1]})"
    return Journal(folder.journal, name, key, guard=None if key is None else "copies")


def _signing_key(folder: SessionFolder) -> SigningKey | None:
    """Return the user's key, made if missing; None where it cannot be used."""
    try:
        return user_key(folder.path.parent)
    except (TelicError, OSError):
        return None


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
