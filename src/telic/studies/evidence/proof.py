"""Is every file that a study's record names still what was recorded: all of them, by hash."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from telic.errors import TelicError
from telic.storage.files import read_json, read_record
from telic.studies.candidates import FILES, files_of, revision_folder
from telic.studies.canonical import content_hash, existing_key
from telic.studies.chain import LedgerEvent
from telic.studies.contract import contract_hash
from telic.studies.documents.base import read_document
from telic.studies.documents.candidate import Candidate, CandidateStatus, Decision
from telic.studies.documents.contract import Contract
from telic.studies.evidence.artefacts import altered_artefacts, seal_key, why_unsealed
from telic.studies.evidence.claims import Audit
from telic.studies.launch.machine import read_exit
from telic.studies.state import StudyState
from telic.studies.state_file import committed_head

if TYPE_CHECKING:
    from telic.studies.study import Study


_KEPT_BY_TELIC = frozenset(
    {"status", "phase", "validation", "contract_hash", "protocol_hash", "adapter_hash"}
)


def changed_files(study: Study) -> tuple[str, ...]:
    """Return what is not as it was recorded, one sentence each; empty when everything is."""
    found: list[str] = []
    for look in (_state, _evidence, _decisions, _revisions, _contracts, _runs):
        try:
            found += look(study)
        except TelicError as error:  # a file that cannot be read any more is changed, too
            found.append(error.message)
    return tuple(found)


def _state(study: Study) -> Iterator[str]:
    if committed_head(study.folder) != study.ledger.head:
        yield "state.json is not what the ledger comes to; telic study state --rebuild makes it"
        return
    # As a record: one that an earlier version wrote lacks what was added since.
    written = read_record(study.folder.state, StudyState).as_data()
    kept = {name: value for name, value in written.items() if name != "next_action"}
    now = {k: v for k, v in study.state.told().as_data().items() if k != "next_action"}
    if kept != now:
        yield "state.json is not what the ledger comes to; telic study state --rebuild makes it"


def _evidence(study: Study) -> Iterator[str]:
    for name in study.altered(study.state.evidence):
        yield f"evidence/{name}.json is gone or is not what the ledger recorded"
    intact = set(study.state.evidence) - set(study.altered(study.state.evidence))
    for name in intact & set(study.evidence_names("audit")):
        payload = study.sheet(name).payload
        path = study.folder.audit_file(str(payload["audit"]))
        if not path.is_file() or read_record(path, Audit).compute_hash() != payload["audit_hash"]:
            yield f"audits/{path.name} is gone or is not what its evidence recorded"


def _decisions(study: Study) -> Iterator[str]:
    for event in study.events_of("decision.recorded", "candidate.debug"):
        name, recorded = event.data.get("decision"), event.data.get("decision_hash")
        if not name or not recorded:
            continue
        path = study.folder.decision_file(str(name))
        if not path.is_file():
            yield f"decisions/{path.name} is gone"
            continue
        decision = read_record(path, Decision)
        if not decision.compute_hash() == decision.content_hash == recorded:
            yield f"decisions/{path.name} is not what the ledger recorded"


def _revisions(study: Study) -> Iterator[str]:
    for event in study.events_of("candidate.created", "candidate.revised"):
        if event.data.get("content_hash"):
            yield from _revision(study, event)
    for name, held in study.state.candidates.items():
        if (
            held.status in (CandidateStatus.DRAFT, CandidateStatus.REJECTED)
            or not held.content_hash
        ):
            continue
        kept = read_json(revision_folder(study.folder, name, held.revision) / "candidate.json")
        shown = read_json(study.folder.candidate_file(name))
        if any(shown.get(key) != kept.get(key) for key in kept if key not in _KEPT_BY_TELIC):
            yield f"candidates/{name}/candidate.json is not what the ledger recorded"
        if [shown.get("status"), shown.get("phase")] != [held.status, held.phase]:
            yield f"candidates/{name}/candidate.json has another status than the ledger"


def _revision(study: Study, event: LedgerEvent) -> Iterator[str]:
    name, number = str(event.subject), int(event.data.get("revision", 1))
    own = revision_folder(study.folder, name, number)
    path = own / "candidate.json"
    if not path.is_file():
        yield f"revision {number} of {name} is gone"
        return
    record = Candidate.parse(read_json(path), str(path))
    if record.compute_hash() != event.data["content_hash"]:
        yield f"revision {number} of {name} is not what the ledger recorded"
    whole = event.data.get("record_hash")
    if whole is not None and content_hash(read_json(path)) != whole:
        yield f"revision {number} of {name} is not what the ledger recorded"
    brought = {f"{FILES}/{each.path}": each.sha256 for each in record.change.files}
    if record.change.patch:
        brought[record.change.patch] = record.change.patch_sha256 or ""
    for file, content in files_of(record, own).items():
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
    record = read_exit(folder)
    if record is None:
        return "exit.json is gone"
    return why_unsealed(record, folder, seal_key(key, str(study.state.runs[run].nonce)))
