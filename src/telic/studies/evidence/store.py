"""Store evidence on disk and verify a study's files against recorded hashes.

Evidence is immutable, content-addressed, and recorded in the ledger. When a run ends, its
supervisor lists the hashes of all files and signs the exit record with a per-run key derived from
the user's key. The ledger stores the hash of the list.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from telic.errors import TelicError
from telic.storage.files import plain, read_json, write_json
from telic.storage.reading import file_hash, read_bytes
from telic.studies.candidates import FILES, files_of
from telic.studies.canonical import content_hash, existing_key, utc_now
from telic.studies.documents.base import StudyActor
from telic.studies.documents.candidate import Candidate, Evidence, EvidenceKind
from telic.studies.errors import BrokenIntegrity
from telic.studies.folder import artifacts_hash, in_run
from telic.studies.launch.process import RunProcess
from telic.studies.launch.supervisor import MANIFEST_FILE, seal_of

if TYPE_CHECKING:
    from telic.studies.study import Study


def add_evidence(
    study: Study,
    kind: EvidenceKind,
    payload: Mapping[str, Any],
    actor: StudyActor,
    *,
    summary: str = "",
    run: str | None = None,
    candidate: str | None = None,
) -> Evidence:
    """Write an evidence record and commit it to the ledger. Equal facts result in the same record.

    The file is written before the ledger entry, so that a crash never leaves an entry without its
    file. A record about a run is also linked to its candidate.
    """
    if run in study.state.runs:
        candidate = study.state.runs[run].candidate
    subject, facts = tuple(name for name in (run, candidate) if name), plain(payload)
    identity = {"kind": kind, "subject": subject, "payload": facts}
    if kind == "review":
        identity["by"] = actor.label
    name = f"e-{content_hash(identity)[:12]}"
    sheet = Evidence(
        id=name,
        created_at=utc_now(),
        created_by=actor,
        kind=kind,
        subject=subject,
        protocol_hash=facts.get("protocol_hash"),
        payload=facts,
        summary=summary,
    )
    sheet = sheet.model_copy(update={"content_hash": sheet.compute_hash()})
    entry = {"id": name, "kind": kind, "hash": sheet.content_hash, "run": run}
    with study.ledger.locked():
        if name in study.ledger.state().evidence:  # re-read: others may have added it
            return study.sheet(name)
        write_json(study.folder.evidence_file(name), sheet.as_data())
        study.append("evidence.added", name, {**entry, "candidate": candidate}, actor)
    return sheet


# ---------------------------------------------------------------------------- integrity


def why_unsealed(record: dict[str, Any], folder: Path, key: str) -> str | None:
    """Return the reason why an exit record fails verification, or None if it is valid."""
    if not hmac.compare_digest(seal_of(record, key).encode(), str(record.get("seal")).encode()):
        return "exit.json was not written by the supervisor of the run"
    listed, recorded = in_run(folder, MANIFEST_FILE), artifacts_hash(record)
    if recorded and not listed.is_file():
        return f"{MANIFEST_FILE}, the list of files of the run, is missing"
    if recorded and file_hash(listed) != recorded:
        return f"{MANIFEST_FILE} was not written by the supervisor of the run"
    return None


def altered_artifacts(study: Study, run: str, below: Path | None = None) -> list[str]:
    """Return the files of an ended run, optionally below a path, that changed after it ended.

    Runs of earlier versions have no list of files and are not checked.
    """
    state, folder = study.state.runs[run], study.folder.run(run)
    if state.artifacts is None:
        return []
    listed = in_run(folder, MANIFEST_FILE)
    if not listed.is_file() or file_hash(listed) != state.artifacts:
        return [f"{MANIFEST_FILE} of {run} is missing or differs from the ledger"]
    recorded: dict[str, str] = json.loads(read_bytes(listed))
    present = [path for path in study.folder.artifacts(run).rglob("*") if path.is_file()]
    names = {*recorded, *(path.relative_to(folder).as_posix() for path in present)}
    altered: list[str] = []
    for name in sorted(names):
        path = folder / name
        if below is not None and not path.resolve().is_relative_to(below.resolve()):
            continue
        if name not in recorded:
            altered.append(f"{name} did not exist when the run ended")
        elif not path.is_file():
            altered.append(f"{name} was removed after the run ended")
        elif file_hash(path) != recorded[name]:
            altered.append(f"{name} was modified after the run ended")
    return altered


def require_unaltered(study: Study, run: str, below: Path) -> None:
    """Raise BrokenIntegrity E_ARTIFACTS if a file or folder changed after the run ended."""
    if altered := altered_artifacts(study, run, below):
        raise BrokenIntegrity(
            "E_ARTIFACTS",
            f"{run} cannot be measured: {altered[0]}.",
            hint="Restore the file. If it is lost, record that: telic study audit RUN --unusable",
        )


def changed_files(study: Study) -> tuple[str, ...]:
    """Return one sentence per file that differs from the recorded hashes."""
    found: list[str] = []
    for check in (_evidence, _revisions, _runs):
        try:
            found += check(study)
        except TelicError as error:  # an unreadable file counts as changed
            found.append(error.message)
    return tuple(found)


def _evidence(study: Study) -> Iterator[str]:
    for name in study.altered(study.state.evidence):
        yield f"evidence/{name}.json is missing or differs from the ledger"


def _revisions(study: Study) -> Iterator[str]:
    """Compare every revision with its last recorded or validated hash."""
    known: dict[tuple[str, int], dict[str, Any]] = {}
    at: dict[str, int] = {}
    kinds = ("candidate.created", "candidate.revised", "candidate.validated")
    for entry in study.events_of(*kinds):
        name, data = str(entry.subject), entry.data
        at[name] = data.get("revision", at.get(name, 1))
        if data.get("content_hash"):
            known[name, at[name]] = data
    for (name, number), data in known.items():
        path = study.folder.candidate_file(name, number)
        if not path.is_file():
            yield f"revision {number} of {name} is missing"
            continue
        record = Candidate.parse(read_json(path), str(path))
        is_changed = record.compute_hash() != data["content_hash"]
        if is_changed or data.get("record_hash") not in (None, content_hash(read_json(path))):
            yield f"revision {number} of {name} differs from the ledger"
        attached = {f"{FILES}/{each.path}": each.sha256 for each in record.change.files}
        if record.change.patch:
            attached[record.change.patch] = record.change.patch_sha256 or ""
        for file, content in files_of(record, path.parent).items():
            if hashlib.sha256(content).hexdigest() != attached[file]:
                yield f"{file} of revision {number} of {name} was modified"


def _runs(study: Study) -> Iterator[str]:
    key = existing_key(study.root)
    for name, run in study.state.runs.items():
        if run.is_live:
            continue
        yield from (f"{name}: {why}" for why in altered_artifacts(study, name))
        if key is None or not run.is_sealed or not run.artifacts:
            continue  # without the key, on another machine, the list of files is still checked
        record, folder = RunProcess(study.folder.run(name)).exit_record, study.folder.run(name)
        why = "exit.json is missing"
        if record is not None:
            why = why_unsealed(record, folder, key.derive(f"telic run {run.nonce}"))
        if why:
            yield f"{name}: {why}"
