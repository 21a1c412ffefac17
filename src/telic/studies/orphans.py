"""Files that a crash left between their writing and their line in the ledger.

They stand for nothing, since the append is the commit point. After a week nobody is about to
commit them any more; then they are put aside, not deleted.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from telic.storage.disk import disk_errors
from telic.storage.files import TEMPORARY_MARK
from telic.studies.candidate_files import candidate_ids
from telic.studies.documents.base import SYSTEM
from telic.studies.evidence.store import read_evidence
from telic.studies.ledger import Ledger

DAYS = 7
FOLDER = "orphans"


def collect_orphans(ledger: Ledger, days: float = DAYS) -> tuple[str, ...]:
    """Move orphans older than some days into the study's orphans/; returns where they were."""
    home = ledger.folder.path
    with ledger.locked():
        ledger.require_intact()
        found = tuple(str(each.relative_to(home)) for each in find_orphans(ledger, days))
        if found:
            # First the line, then the deed: a rerun finds and moves what a crash left in place.
            text = f"put aside what a crash left behind: {', '.join(found)}"
            ledger.append("note.added", None, {"text": text, "orphans": list(found)}, SYSTEM)
        for name in found:
            aside = home / FOLDER / name
            with disk_errors(aside):
                aside.parent.mkdir(parents=True, exist_ok=True)
                (home / name).rename(aside)
    return found


def find_orphans(ledger: Ledger, days: float = DAYS) -> list[Path]:
    """Return what the ledger does not know and nobody has touched for some days."""
    before = time.time() - days * 86_400
    home = ledger.folder.path / FOLDER
    return sorted(
        each
        for each in _unknown(ledger)
        if each.stat().st_mtime < before and not each.is_relative_to(home)
    )


def _unknown(ledger: Ledger) -> Iterator[Path]:
    folder, state = ledger.folder, ledger.state()
    audits = {
        str(read_evidence(folder, name).payload["audit"])
        for name, each in state.evidence.items()
        if each.kind == "audit" and folder.evidence_file(name).is_file()
    }
    for place, names in (
        (folder.evidence, state.evidence.keys()),
        (folder.audits, audits),
        (folder.decisions, state.decisions.keys()),
    ):
        yield from (each for each in place.glob("*.json") if each.stem not in names)
    for name in candidate_ids(folder):
        held = state.candidates.get(name)
        if held is None:
            yield folder.candidate(name)
            continue
        revisions = folder.candidate(name) / "revisions"
        yield from (
            each
            for each in revisions.glob("*")
            if each.name.isdigit() and int(each.name) > held.revision
        )
    yield from folder.path.rglob(f"{TEMPORARY_MARK}*")
