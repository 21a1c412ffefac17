"""What a study finds out about itself, written down: stops that fire, conditions that speak."""

from __future__ import annotations

from telic.studies.disproving import judge_conditions
from telic.studies.documents.base import SYSTEM, Actor
from telic.studies.documents.runs import Evidence
from telic.studies.evidence.measuring import analyze_run
from telic.studies.evidence.store import add_evidence
from telic.studies.ledger import Ledger
from telic.studies.soundness import standing_stops
from telic.studies.stops import Stop

_LIFTS_ITSELF = ("hacking_high", "human_stop")
"""rules with a record of their own that ends them: a review, a resume, a file that is gone"""


def ingest(ledger: Ledger, run: str, actor: Actor) -> Evidence:
    """Measure a run that has ended, then write down what follows from it."""
    sheet = analyze_run(ledger, run, actor)
    record_findings(ledger)
    return sheet


def record_findings(ledger: Ledger) -> bool:
    """Write down what holds now and is not yet in the ledger; says whether anything was."""
    before = ledger.head
    state = ledger.state()
    is_agreed = state.contract_version is not None and ledger.folder.metric_spec.is_file()
    if not is_agreed or state.study_status != "open":
        return False
    with ledger.locked():
        for name in ledger.state().candidates:
            for each in judge_conditions(ledger, name):
                add_evidence(
                    ledger,
                    "condition",
                    each.as_data(),
                    SYSTEM,
                    candidate=name,
                    producer="telic.conditions",
                    summary=each.why,
                )
        for stop in standing_stops(ledger, ledger.state()):
            if not _is_recorded(ledger, stop):
                facts = {"rule": stop.rule, "why": stop.why, "effect": stop.effect}
                stands = stop.effect == "pause" and stop.rule not in _LIFTS_ITSELF
                ledger.append("stop.fired", None, {**facts, "stands": stands}, SYSTEM)
    return ledger.head != before


def _is_recorded(ledger: Ledger, stop: Stop) -> bool:
    """Tell whether the ledger has this stop since the study was last opened."""
    for event in reversed(ledger.events()):
        if event.type == "study.status" and event.data["status"] == "open":
            return False
        if event.type == "stop.fired" and event.data["rule"] == stop.rule:
            return event.data.get("why") == stop.why
    return False
