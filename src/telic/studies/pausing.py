"""Pause a study and open it again."""

from __future__ import annotations

from telic.studies.errors import StudyError
from telic.studies.folder import StudyFolder
from telic.studies.human import Consent
from telic.studies.ledger import Ledger
from telic.studies.records.base import Actor
from telic.studies.records.ledger import LedgerEvent
from telic.studies.registry import set_status


def pause_study(folder: StudyFolder, actor: Actor, reason: str) -> LedgerEvent:
    """Stop launches until a person resumes; anyone may do this."""
    ledger = Ledger(folder)
    with ledger.locked():
        _require_not_closed(ledger)
        facts = {"status": "paused", "reason": reason}
        event = ledger.append("study.status", None, facts, actor)
    set_status(folder, "paused")
    return event


def resume_study(folder: StudyFolder, consent: Consent, reason: str) -> LedgerEvent:
    """Open a paused study: fired stop rules are lifted, and a STOP file is removed."""
    ledger = Ledger(folder)
    with ledger.locked():
        _require_not_closed(ledger)
        folder.stop_file.unlink(missing_ok=True)
        facts = {"status": "open", "reason": reason}
        event = ledger.append("study.status", None, facts, consent.actor)
    set_status(folder, "open")
    return event


def fired(folder: StudyFolder) -> str:
    """Say why a study stands still."""
    state = Ledger(folder).state()
    reasons = [f"{each.rule} ({each.why})" for each in state.fired_stops]
    if folder.stop_file.exists():
        reasons.append("a file named STOP")
    return "; ".join(reasons) or f"it is {state.study_status}"


def _require_not_closed(ledger: Ledger) -> None:
    if ledger.state().study_status == "closed":
        raise StudyError("E_CLOSED", f"{ledger.folder.name} is closed.", hint="Begin a new study.")
