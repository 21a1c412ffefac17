"""Evidence on disk: written once, named by its content, and known to the ledger."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from telic import __version__
from telic.storage.files import plain, read_record
from telic.studies.canonical import content_hash, utc_now
from telic.studies.documents.base import StudyActor, write_once
from telic.studies.documents.candidate import Evidence, EvidenceKind, Producer
from telic.studies.errors import StudyError
from telic.studies.folder import StudyFolder
from telic.studies.state import StudyState

if TYPE_CHECKING:
    from telic.studies.study import Study


def add_evidence(
    study: Study,
    kind: EvidenceKind,
    payload: Mapping[str, Any],
    actor: StudyActor,
    *,
    candidate: str | None = None,
    run: str | None = None,
    protocol_hash: str | None = None,
    producer: str = "telic",
    summary: str = "",
) -> Evidence:
    """Write a fact sheet and commit it; the same facts again are the same evidence.

    The file comes first and the ledger second: a crash between them leaves an orphan, never an
    entry without its file.
    """
    subject = tuple(name for name in (run, candidate) if name)
    facts = plain(payload)
    identity = {
        "kind": kind,
        "subject": subject,
        "protocol_hash": protocol_hash,
        "payload": facts,
        "producer": producer,
    }
    name = f"e-{content_hash(identity)[:12]}"
    if name in study.ledger.state().evidence:  # as it is now: others may have added it
        return study.sheet(name)
    path = study.folder.evidence_file(name)
    if path.is_file():  # written before a crash, and not committed
        sheet = study.sheet(name)
    else:
        sheet = Evidence(
            id=name,
            created_at=utc_now(),
            created_by=actor,
            kind=kind,
            subject=subject,
            protocol_hash=protocol_hash,
            payload=facts,
            payload_hash=content_hash(facts),
            producer=Producer(name=producer, version=__version__),
            summary=summary,
        )
        sheet = sheet.model_copy(update={"content_hash": sheet.compute_hash()})
        write_once(path, sheet.as_data())
    study.append(
        "evidence.added",
        name,
        {"id": name, "kind": kind, "hash": sheet.content_hash, "run": run, "candidate": candidate},
        actor,
    )
    return sheet


def read_evidence(folder: StudyFolder, name: str) -> Evidence:
    """Return a fact sheet; raises StudyError E_NO_EVIDENCE when there is none."""
    path = folder.evidence_file(name)
    if not path.is_file():
        raise StudyError("E_NO_EVIDENCE", f"Unknown evidence {name}.")
    return read_record(path, Evidence)


def altered(folder: StudyFolder, state: StudyState, names: Iterable[str]) -> list[str]:
    """Return the evidence whose file is gone or is not what the ledger recorded."""
    return [name for name in names if not _is_intact(folder, state, name)]


def _is_intact(folder: StudyFolder, state: StudyState, name: str) -> bool:
    entry = state.evidence.get(name)
    if entry is None or not folder.evidence_file(name).is_file():
        return False
    sheet = read_evidence(folder, name)
    return (
        sheet.compute_hash() == sheet.content_hash == entry.hash
        and content_hash(sheet.payload) == sheet.payload_hash
    )
