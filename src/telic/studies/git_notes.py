"""Anchor a ledger in a git note: whoever has a copy of the note can tell a rewritten ledger."""

from __future__ import annotations

import json

from telic.studies import git_read
from telic.studies.canonical import canonical
from telic.studies.chain import anchored
from telic.studies.documents.ledger import LedgerHead
from telic.studies.errors import BrokenIntegrity, StudyError
from telic.studies.ledger import Ledger


def note_head(ledger: Ledger) -> str:
    """Add the head of the ledger to the note of the checked-out commit; returns the commit.

    Only the note is written (refs/notes/telic); pushing it is left to people.
    """
    root = ledger.folder.root
    ledger.require_intact()
    commit = git_read.head_commit(root) if git_read.is_repository(root) else None
    if commit is None:
        raise StudyError(
            "E_NO_COMMIT", f"{root} has no commit that a note could hang on.", hint="Commit first."
        )
    text = canonical(anchored(ledger.folder.name, ledger.head)).decode()
    git_read.add_note(root, commit, text)
    return commit


def require_noted(ledger: Ledger) -> int:
    """Return how many heads of this ledger git notes name; raises when one is not in it."""
    hashes = {event.seq: event.hash for event in ledger.events()}
    found = noted_heads(ledger)
    for head in found:
        if hashes.get(head.seq) != head.hash:
            raise BrokenIntegrity(
                "E_LEDGER_BROKEN",
                f"A git note knows another line {head.seq} of the ledger: it was rewritten.",
                hint="Compare with: git log --notes=telic",
            )
    return len(found)


def noted_heads(ledger: Ledger) -> list[LedgerHead]:
    """Return the heads of this ledger that git notes name; none outside of git."""
    root = ledger.folder.root
    if not git_read.is_repository(root):
        return []
    lines = [line for text in git_read.notes(root) for line in text.splitlines() if line.strip()]
    return [
        LedgerHead(seq=found["seq"], hash=found["hash"])
        for line in lines
        if (found := json.loads(line)).get("study") == ledger.folder.name
    ]
