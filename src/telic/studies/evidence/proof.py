"""Is every file that a study's record names still what was recorded: all of them, by hash."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from telic.errors import TelicError
from telic.storage.files import read_json
from telic.studies.candidates import FILES, files_of
from telic.studies.canonical import content_hash, existing_key
from telic.studies.contract import contract_hash
from telic.studies.documents.base import read_document
from telic.studies.documents.candidate import Candidate
from telic.studies.documents.contract import Contract
from telic.studies.evidence.artefacts import altered_artefacts, seal_key, why_unsealed
from telic.studies.launch.process import RunProcess

if TYPE_CHECKING:
    from telic.studies.study import Study


def changed_files(study: Study) -> tuple[str, ...]:
    """Return what is not as it was recorded, one sentence each; empty when everything is."""
    found: list[str] = []
    for look in (_evidence, _revisions, _contracts, _runs):
        try:
            found += look(study)
        except TelicError as error:  # a file that cannot be read any more is changed, too
            found.append(error.message)
    return tuple(found)


def _evidence(study: Study) -> Iterator[str]:
    for name in study.altered(study.state.evidence):
        yield f"evidence/{name}.json is gone or is not what the ledger recorded"


def _revisions(study: Study) -> Iterator[str]:
    """Compare every revision with the hash that it was last entered or validated with."""
    known: dict[tuple[str, int], dict[str, Any]] = {}
    at: dict[str, int] = {}
    kinds = ("candidate.created", "candidate.revised", "candidate.validated")
    for entry in study.events_of(*kinds):
        name, data = str(entry.subject), entry.data
        at[name] = data.get("revision", at.get(name, 1))
        if data.get("content_hash"):
            known[name, at[name]] = data
    for (name, number), data in known.items():
        yield from _revision(study, name, number, data)


def _revision(study: Study, name: str, number: int, data: dict[str, Any]) -> Iterator[str]:
    path = study.folder.candidate_file(name, number)
    if not path.is_file():
        yield f"revision {number} of {name} is gone"
        return
    record = Candidate.parse(read_json(path), str(path))
    is_changed = record.compute_hash() != data["content_hash"]
    if is_changed or data.get("record_hash") not in (None, content_hash(read_json(path))):
        yield f"revision {number} of {name} is not what the ledger recorded"
    brought = {f"{FILES}/{each.path}": each.sha256 for each in record.change.files}
    if record.change.patch:
        brought[record.change.patch] = record.change.patch_sha256 or ""
    for file, content in files_of(record, path.parent).items():
        if hashlib.sha256(content).hexdigest() != brought[file]:
            yield f"{file} of revision {number} of {name} is not what came with it"


def _contracts(study: Study) -> Iterator[str]:
    for event in study.events_of("contract.amended"):
        path = study.folder.contract_version(int(event.data["version"]))
        if not path.is_file():
            yield f"{path.name} of contract.history is gone"
        elif contract_hash(read_document(path, Contract)) != event.data["hash"]:
            yield f"{path.name} of contract.history is not the version that was agreed on"


def _runs(study: Study) -> Iterator[str]:
    for name, run in study.state.runs.items():
        if run.is_live:
            continue
        yield from (f"{name}: {why}" for why in altered_artefacts(study, name))
        if run.is_sealed and run.artefacts and (why := _broken_seal(study, name)):
            yield f"{name}: {why}"


def _broken_seal(study: Study, run: str) -> str | None:
    """Return why the record of a run's end is not its supervisor's any more; None when it is."""
    key, folder = existing_key(study.root), study.folder.run(run)
    if key is None:
        return None  # another machine: the list of files is still checked
    record = RunProcess(folder).exit_record
    if record is None:
        return "exit.json is gone"
    return why_unsealed(record, folder, seal_key(key, str(study.state.runs[run].nonce)))
