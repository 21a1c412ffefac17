"""What earlier evidence says: audits, reflections, alerts and reviews of a study."""

from __future__ import annotations

from collections.abc import Iterable

from telic.storage.files import read_record
from telic.studies.chain import LedgerEvent
from telic.studies.evidence.claims import Audit
from telic.studies.evidence.store import read_evidence
from telic.studies.folder import StudyFolder
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
    return _level(folder, max(found)[1])


def hacking_levels(folder: StudyFolder, state: StudyState) -> tuple[str, ...]:
    """Return the hacking levels of reflections that no review settled, the oldest first."""
    found = sorted(
        (entry.seq, name, entry.candidate or "")
        for name, entry in state.evidence.items()
        if entry.kind == "reflection"
    )
    about = {each for _, _, each in found if each}
    settled = {each for each in about if is_reviewed(folder, state, each)}
    return tuple(_level(folder, name) for _, name, each in found if each not in settled)


def is_reviewed(folder: StudyFolder, state: StudyState, candidate: str) -> bool:
    """Tell whether somebody reviewed a candidate, as it is now, since its risk was called high.

    One review settles it: further runs of what was reviewed only say the same again.
    """
    is_risky, now = False, state.candidates[candidate].content_hash
    for kind, name in _about(state, candidate):
        if kind == "reflection":
            is_risky = is_risky or _level(folder, name) == "high"
        elif is_risky and read_evidence(folder, name).payload.get("content_hash") == now:
            return True
    return False


def is_unreviewed(folder: StudyFolder, state: StudyState, candidate: str) -> bool:
    """Tell whether a candidate's last reflection calls its risk high and nobody reviewed it."""
    reflections = [name for kind, name in _about(state, candidate) if kind == "reflection"]
    is_risky = bool(reflections) and _level(folder, reflections[-1]) == "high"
    return is_risky and not is_reviewed(folder, state, candidate)


def _about(state: StudyState, candidate: str) -> list[tuple[str, str]]:
    """Return kind and name of a candidate's reflections and reviews, the oldest first."""
    found = sorted(
        (entry.seq, entry.kind, name)
        for name, entry in state.evidence.items()
        if entry.candidate == candidate and entry.kind in ("reflection", "review")
    )
    return [(kind, name) for _, kind, name in found]


def _level(folder: StudyFolder, reflection: str) -> str:
    return read_evidence(folder, reflection).payload["hacking"]["level"]


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
