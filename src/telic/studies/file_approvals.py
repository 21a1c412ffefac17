"""Approvals given elsewhere: written to a file there, and taken over here by a person's command."""

from __future__ import annotations

from pathlib import Path

from telic.storage.files import read_json, write_json
from telic.studies.approvals import grant, is_signed, standing
from telic.studies.documents.contract import Approval
from telic.studies.documents.ledger import LedgerEvent
from telic.studies.errors import BrokenIntegrity, GateRefused
from telic.studies.folder import StudyFolder
from telic.studies.human import Consent
from telic.studies.keys import signing_key
from telic.studies.ledger import Ledger


def export_approvals(folder: StudyFolder, path: Path) -> list[str]:
    """Write the approvals that hold now to a file; returns their names."""
    state = Ledger(folder).state()
    held = {
        name: each
        for name, each in state.approvals.items()
        if standing(folder, state, each.key, each.candidate).status == "approved"
    }
    write_json(
        path,
        {"study": folder.name, "approvals": [each.as_data() for each in held.values()]},
    )
    return list(held)


def import_approvals(
    folder: StudyFolder, path: Path, key_path: Path, consent: Consent
) -> list[LedgerEvent]:
    """Take over approvals from a file, each proven by the key that signed it there.

    Both the key and a person at this terminal are needed. An approval whose subject reads
    differently here is refused, and then none is taken over.
    """
    key = signing_key(folder.root, _existing(key_path))
    approvals = [Approval.model_validate(each) for each in read_json(path)["approvals"]]
    state = Ledger(folder).state()
    for each in approvals:
        if not is_signed(folder, each, key):
            raise BrokenIntegrity(
                "E_SIGNATURE", f"{path}: the signature of {each.key} was not made with that key."
            )
        now = standing(folder, state, each.key, each.candidate).subject_hash
        if each.subject_hash != now:
            raise GateRefused("E_CHANGED", f"{path}: {each.key} was given to another text.")
    by_file = Consent(by=consent.by, method="file_import", at=consent.at)
    return [
        grant(
            folder,
            each.key,
            by_file,
            candidate=each.candidate,
            note=f"given by {each.by} at {each.at}",
            seen_hash=each.subject_hash,
        )
        for each in approvals
    ]


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise BrokenIntegrity("E_KEY", f"There is no key {path}.")
    return path
