"""Pause a study, open it again, and close it for good."""

from __future__ import annotations

from telic.studies.documents.base import Actor
from telic.studies.documents.ledger import LedgerEvent
from telic.studies.errors import GateRefused, StudyError
from telic.studies.folder import StudyFolder
from telic.studies.human import Consent
from telic.studies.ledger import Ledger
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


def close_study(folder: StudyFolder, consent: Consent, reason: str) -> LedgerEvent:
    """End a study: nothing more is launched or proposed in it, and it cannot be opened again.

    Raises GateRefused E_RUN_LIVE while runs are under way.
    """
    ledger = Ledger(folder)
    with ledger.locked():
        _require_not_closed(ledger)
        if live := ledger.state().active_runs:
            raise GateRefused(
                "E_RUN_LIVE",
                f"{', '.join(live)} still runs in {folder.name}.",
                hint="Wait for it, or stop it: telic study run --stop RUN",
            )
        facts = {"status": "closed", "reason": reason}
        event = ledger.append("study.status", None, facts, consent.actor)
        ledger.anchor()
    set_status(folder, "closed")
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
