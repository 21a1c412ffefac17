"""Start a new session from an iteration of another session.

The branch copies the source iteration, with its candidate, policies and judgment, as its iteration
0. The branch is therefore independent of the source session. Its first revision is based on that
judgment and on notes.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any, Literal

from telic.authors.candidate import RewardCandidate, SessionIteration
from telic.authors.request import SessionConfig
from telic.core.config import Record
from telic.errors import BadFile, Refused, UsageError
from telic.session.control import add_note, time_stamp
from telic.session.evidence import SessionJournal
from telic.storage.files import TEMPORARY_MARK, read_record, require_free, write_json, write_text
from telic.storage.keys import sign_folder
from telic.storage.layout import SessionFolder, new_name
from telic.storage.reading import read_text

START = 0
"""number of the copied source iteration in a branch"""
_FOREIGN = "the scores are unknown because another user or an earlier version ran the session"
_LEFT_OUT = shutil.ignore_patterns(
    "state", "state.pt", "lock", "stop", "worker.log", "notes.json", "videos", f"{TEMPORARY_MARK}*"
)


class BranchOrigin(Record):
    """Session and iteration from which a branch was created."""

    schema_version: Literal[1] = 1
    session: str
    iteration: int
    time: str


def branch_session(
    origin: SessionFolder,
    iteration: int,
    *,
    runs_dir: Path | None = None,
    note: str | None = None,
    **changes: Any,
) -> SessionFolder:
    """Create a session that continues from a judged iteration of `origin`, without starting it.

    `note` is feedback for the first revision, and `changes` override fields of SessionConfig.
    """
    source = origin.iteration(iteration)
    if not source.judgment.exists():
        numbers = [each for each in origin.iterations() if origin.iteration(each).judgment.exists()]
        there = ", ".join(map(str, numbers)) or "none yet"
        raise UsageError(f"{origin.name} has no judged iteration {iteration}. Available: {there}.")
    config = read_record(origin.config, SessionConfig)
    if SessionJournal(origin, config.intent, config.env, config.terms).is_other_request:
        raise Refused(f"{origin.config} is not the request that started {origin.name}.")
    config = config.replace(**changes)
    folder = SessionFolder((runs_dir or origin.path.parent) / new_name("session"))
    size = sum(path.stat().st_size for path in source.path.rglob("*") if path.is_file())
    require_free(folder.path.parent, size, "A branch")
    # Built in a temporary folder and renamed when complete, so that an interrupted copy cannot be
    # mistaken for a session.
    building = SessionFolder(folder.path.with_name(f"{TEMPORARY_MARK}{os.getpid()}-{folder.name}"))
    try:
        _fill(building, origin, iteration, config)
        if note:
            add_note(building, note)
        os.replace(building.path, folder.path)
        sign_folder(folder.path)
    finally:
        shutil.rmtree(building.path, ignore_errors=True)
    write_json(folder.config, config)
    return folder


def inherited(folder: SessionFolder) -> list[SessionIteration]:
    """Return the initial history (empty unless the session is a branch)."""
    start = folder.iteration(START).judgment
    return [read_record(start, SessionIteration)] if start.exists() else []


def origin_of(folder: SessionFolder) -> BranchOrigin | None:
    """Return the origin of a branch, or None if the session is not a branch."""
    return read_record(folder.origin, BranchOrigin) if folder.origin.exists() else None


def _fill(folder: SessionFolder, origin: SessionFolder, number: int, config: SessionConfig) -> None:
    source, start = origin.iteration(number), folder.iteration(START)
    try:
        shutil.copytree(source.path, start.path, ignore=_LEFT_OUT)
    except shutil.Error as error:  # pipes, devices, files that cannot be read
        raise BadFile(f"{source.path} cannot be copied: {error.args[0][0][2]}.") from None
    for record in (origin.asked, origin.author, origin.trial):
        if record.exists():
            shutil.copy2(record, folder.path / record.name)
    write_text(folder.judge, read_text(origin.judge))
    asked = config.intent, config.env, config.terms
    theirs, own = (SessionJournal(each, *asked) for each in (origin, folder))
    changed: dict[str, Any] = {
        "parent": None,
        "change": f"from iteration {number} of {origin.name}",
    }
    candidate = read_record(source.candidate, RewardCandidate)
    write_json(start.candidate, candidate.model_copy(update=changed))
    judged = read_record(source.judgment, SessionIteration)
    if not theirs.is_own(source.judgment):
        changed |= dict.fromkeys(("members", "trials"), ()) | {"score": None, "scores": {}}
        changed |= {"passed": False, "best": None, "failure": _FOREIGN}
    write_json(start.judgment, judged.model_copy(update={**changed, "number": START}))
    own.open()
    for copy in own.paths():
        original = (source if copy.parent == start.path else origin).path / copy.name
        # Copying does not turn a foreign record of the origin into one of the branch.
        if theirs.is_own(original):
            own.adopt(copy)
    came_from = BranchOrigin(session=origin.name, iteration=number, time=time_stamp())
    write_json(folder.origin, came_from)
