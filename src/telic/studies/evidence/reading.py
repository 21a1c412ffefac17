"""What earlier evidence says: audits, reflections, alerts and reviews of a study."""

from __future__ import annotations

from collections.abc import Iterable

from telic.storage.files import read_record
from telic.studies.evidence.claims import Audit
from telic.studies.evidence.store import read_evidence
from telic.studies.folder import StudyFolder
from telic.studies.records import LedgerEvent
from telic.studies.state import StudyState


def audits_of(folder: StudyFolder, state: StudyState, candidate: str) -> list[Audit]:
    """Return the audits of a candidate, the oldest first."""
    entries = sorted(
        (entry.seq, name)
        for name, entry in state.evidence.items()
        if entry.kind == "audit" and entry.candidate == candidate
    )
    names = [str(read_evidence(folder, name).payload["audit"]) for _, name in entries]
    return [read_record(folder.audit_file(name), Audit) for name in names]


def newest_level(folder: StudyFolder, state: StudyState, runs: Iterable[str]) -> str | None:
    """Return the hacking level of the newest reflection on one of the runs; None without one."""
    wanted = set(runs)
    found = [
        (entry.seq, name)
        for name, entry in state.evidence.items()
        if entry.kind == "reflection" and entry.run in wanted
    ]
    if not found:
        return None
    return read_evidence(folder, max(found)[1]).payload["hacking"]["level"]


def hacking_levels(folder: StudyFolder, state: StudyState) -> tuple[str, ...]:
    """Return the hacking levels of all reflections, the oldest first."""
    found = sorted(
        (entry.seq, name) for name, entry in state.evidence.items() if entry.kind == "reflection"
    )
    return tuple(read_evidence(folder, name).payload["hacking"]["level"] for _, name in found)


def is_reviewed(state: StudyState, candidate: str) -> bool:
    """Tell whether somebody reviewed a candidate after its last reflection."""
    last = {"reflection": 0, "review": 0}
    for entry in state.evidence.values():
        if entry.kind in last and entry.candidate == candidate:
            last[entry.kind] = max(last[entry.kind], entry.seq)
    return last["review"] > last["reflection"]


def fatal_alerts(events: Iterable[LedgerEvent], runs: Iterable[str]) -> tuple[str, ...]:
    """Return the fatal signatures of runs that no later look has cleared."""
    wanted, open_alerts = set(runs), dict[tuple[str, str], bool]()
    for event in events:
        run = str(event.data.get("run") or event.subject)
        if event.type == "monitor.alert" and run in wanted:
            for signature in event.data.get("cleared", ()):
                open_alerts.pop((run, signature), None)
            if event.data.get("severity") == "fatal":
                open_alerts[(run, str(event.data["signature"]))] = True
    return tuple(f"{signature} in {run}" for run, signature in open_alerts)
