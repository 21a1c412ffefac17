"""What a ledger comes to, written down: state.json, and the statuses in candidates' files.

state.json begins with how far it has come, so that a long one is not read for that.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from pydantic_core import from_json

from telic.errors import BadFile
from telic.storage.files import plain, read_table, write_json, write_text
from telic.storage.reading import check_file
from telic.studies.chain import LedgerHead
from telic.studies.folder import StudyFolder
from telic.studies.state import StudyState

_KEPT = ("status", "phase")
"""of a candidate: what its file repeats"""
_BEGINNING = 65_536
"""bytes of state.json in which everything stands that says how far it has come"""


class _Seen(BaseModel):
    """What of state.json says how far it has come; the rest, which may be long, is left."""

    ledger_head: LedgerHead
    next_action: dict[str, Any] | None = None


def committed_head(folder: StudyFolder) -> LedgerHead | None:
    """Return the last event that state.json has seen; None when it has none to tell."""
    seen = _seen(folder)
    return None if seen is None else seen.ledger_head


def _seen(folder: StudyFolder) -> _Seen | None:
    """Return how far state.json has come: what says so stands first, the rest may be long."""
    try:
        check_file(folder.state)  # no pipe, which would wait for a writer
        with folder.state.open("rb") as file:
            begin = file.read(_BEGINNING)
        is_whole = len(begin) < _BEGINNING
        return _Seen.model_validate(from_json(begin, allow_partial=not is_whole))
    except (BadFile, OSError, ValueError):
        return None


def save(folder: StudyFolder, state: StudyState, since: StudyState | None = None) -> None:
    """Write into candidates' files the status that the ledger gives them, and then state.json.

    That comes last, so what state.json has seen is in the other files, too: of what was saved whole
    before, as `since`, only candidates that changed are looked at.
    """
    known = {} if since is None else since.candidates
    for name, candidate in state.candidates.items():
        if known.get(name) is candidate:
            continue
        path = folder.candidate_file(name)
        data = read_table(path) if path.is_file() else None
        now = {key: candidate.as_data()[key] for key in _KEPT}
        if data is not None and any(data.get(key) != value for key, value in now.items()):
            write_json(path, {**data, **now})
    _save_state(folder, state)


def save_next(folder: StudyFolder, state: StudyState, action: dict[str, Any]) -> None:
    """Write what to do next into state.json, if nothing happened since; the next event clears it.

    Whoever calls holds the study's lock.
    """
    seen = _seen(folder)
    is_new = seen is not None and seen.next_action != plain(action)
    if seen is not None and seen.ledger_head == state.ledger_head and is_new:
        _save_state(folder, state.model_copy(update={"next_action": action}))


def _save_state(folder: StudyFolder, state: StudyState) -> None:
    write_text(folder.state, state.told().model_dump_json(indent=2) + "\n")
