"""Candidates' files: every revision kept for good, and the latest one where people look.

Each revision is kept whole in `revisions/<n>/` and never changes; what lies beside it is a copy of
the latest one that the ledger knows, and is made again if a crash left an older one there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from telic.errors import UnknownName
from telic.storage.files import read_json, write_bytes, write_json
from telic.studies.documents.candidate import Candidate
from telic.studies.errors import InvalidDocument
from telic.studies.folder import StudyFolder
from telic.studies.ledger import Ledger
from telic.studies.state import CandidateState

PATCH_NAME = "patch.diff"
FILES = "files"


@dataclass(frozen=True)
class Attachments:
    """Files that come with a draft: a patch, and new content by path in the repository."""

    patch: Path | None = None
    files: Mapping[str, Path] = field(default_factory=dict[str, Path])

    def contents(self) -> dict[str, bytes]:
        """Return what to keep, by name in the candidate's folder."""
        found = {} if self.patch is None else {PATCH_NAME: _read(self.patch)}
        return found | {f"{FILES}/{name}": _read(path) for name, path in self.files.items()}


def candidate_ids(folder: StudyFolder) -> list[str]:
    """Return the ids of all candidate folders, the oldest first."""
    if not folder.candidates.is_dir():
        return []
    return sorted(each.name for each in folder.candidates.iterdir() if each.is_dir())


def read_candidate(folder: StudyFolder, candidate: str) -> Candidate:
    """Return a candidate as it is on disk; raises UnknownName, or InvalidDocument E_SCHEMA."""
    path = folder.candidate_file(candidate)
    if not path.is_file():
        raise UnknownName(
            "candidate", candidate, candidate_ids(folder), see="telic study candidate show"
        )
    return Candidate.parse(read_json(path), str(path))


def current_candidate(ledger: Ledger, candidate: str) -> Candidate:
    """Return the revision that the ledger knows; a copy that a crash left behind is renewed."""
    held = known(ledger, candidate)
    path = ledger.folder.candidate_file(candidate)
    stale = not path.is_file() or read_json(path).get("revision") < held.revision
    if stale and revision_folder(ledger.folder, candidate, held.revision).is_dir():
        with ledger.locked():
            show_revision(ledger, candidate)
    return read_candidate(ledger.folder, candidate)


def known(ledger: Ledger, candidate: str) -> CandidateState:
    """Return a candidate as the ledger knows it; raises UnknownName."""
    candidates = ledger.state().candidates
    if candidate not in candidates:
        raise UnknownName(
            "candidate", candidate, list(candidates), see="telic study candidate show"
        )
    return candidates[candidate]


def revision_folder(folder: StudyFolder, candidate: str, revision: int) -> Path:
    """Return where a revision is kept for good."""
    return folder.candidate(candidate) / "revisions" / str(revision)


def files_of(made: Candidate, folder: Path) -> dict[str, bytes]:
    """Return the content of the files that a candidate brings, from one of its folders."""
    names = [f"{FILES}/{each.path}" for each in made.change.files]
    names += [made.change.patch] if made.change.patch else []
    return {name: _read(_inside(folder, name)) for name in names}


def keep_revision(folder: StudyFolder, made: Candidate, contents: Mapping[str, bytes]) -> None:
    """Write a revision's own folder; what is there already was never entered in the ledger."""
    own = revision_folder(folder, made.id, made.revision)
    for name, content in contents.items():
        write_bytes(_inside(own, name), content)
    write_json(own / "candidate.json", made.as_data())


def show_revision(ledger: Ledger, candidate: str) -> None:
    """Copy the revision that the ledger knows to where people and programs look."""
    held, folder = known(ledger, candidate), ledger.folder
    own = revision_folder(folder, candidate, held.revision)
    made = Candidate.parse(read_json(own / "candidate.json"), str(own))
    for name, content in files_of(made, own).items():
        write_bytes(_inside(folder.candidate(candidate), name), content)
    status = {"status": held.status, "phase": held.phase}
    write_json(folder.candidate_file(candidate), {**made.as_data(), **status})


def _inside(folder: Path, name: str) -> Path:
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()):
        raise InvalidDocument("E_DRAFT", f"{name} leaves the candidate's folder.")
    return path


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidDocument("E_DRAFT", f"{path} cannot be read: {error.strerror}.") from None
