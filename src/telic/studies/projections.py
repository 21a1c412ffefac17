"""Files that follow from the ledger: state.json and the status kept in each candidate's file."""

from __future__ import annotations

import json
from typing import Any

from telic.storage.files import write_json
from telic.studies.documents.ledger import LedgerHead
from telic.studies.folder import StudyFolder
from telic.studies.state import CandidateState, StudyState

_KEPT = ("status", "phase")


def committed_head(folder: StudyFolder) -> LedgerHead | None:
    """Return the last event that state.json has seen; None when it has none to tell."""
    try:
        return LedgerHead.model_validate(json.loads(folder.state.read_bytes())["ledger_head"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def save(folder: StudyFolder, state: StudyState) -> None:
    """Write state.json, and into candidates' files the status that the ledger gives them."""
    write_json(folder.state, state.as_data())
    for name, candidate in state.candidates.items():
        _save_status(folder, name, candidate)


def save_next(folder: StudyFolder, state: StudyState, action: dict[str, Any]) -> None:
    """Write what to do next into state.json, if nothing happened since; the next event clears it.

    Whoever calls holds the study's lock.
    """
    if committed_head(folder) == state.ledger_head:
        write_json(folder.state, state.model_copy(update={"next_action": action}).as_data())


def _save_status(folder: StudyFolder, name: str, candidate: CandidateState) -> None:
    path = folder.candidate_file(name)
    if not path.is_file():
        return
    data = json.loads(path.read_bytes())
    now = {key: candidate.as_data()[key] for key in _KEPT}
    if any(data.get(key) != value for key, value in now.items()):
        write_json(path, {**data, **now})
