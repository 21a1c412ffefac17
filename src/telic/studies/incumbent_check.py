"""Check an accepted claim on fresh held-out seeds, beside the incumbent before it."""

from __future__ import annotations

from telic.studies.evidence.reading import audits_of
from telic.studies.evidence.statistics import iqm_interval, seed_of
from telic.studies.ledger import Ledger
from telic.studies.phase_facts import run_facts
from telic.studies.phases import Advance, claim_holds
from telic.studies.queue import manifest_of
from telic.studies.records import CandidateStatus
from telic.studies.state import StudyState

_OVER = ("done", "failed", "cancelled")


def is_checked(ledger: Ledger) -> bool:
    """Return whether the incumbent needs no check: a baseline, or one whose check is planned."""
    state = ledger.state()
    held = state.incumbent
    if held is None or state.candidates[held.candidate].kind == "baseline":
        return True
    jobs = manifest_of(ledger.events(), state).jobs
    return any(
        (job.candidate, job.phase) == (held.candidate, "incumbent_validation") for job in jobs
    )


def check_incumbent(ledger: Ledger) -> Advance | None:
    """Say whether the incumbent's claim holds on fresh seeds; None while that is not known."""
    state, events = ledger.state(), ledger.events()
    held = state.incumbent
    if held is None or held.iqm is None or state.candidates[held.candidate].kind == "baseline":
        return None
    if state.candidates[held.candidate].status != CandidateStatus.ACCEPTED:
        return None
    gain = _claimed_gain(ledger, state, held.candidate)
    runs = run_facts(ledger, state, events, held.candidate, "incumbent_validation")
    scores = [each.score for each in runs if each.score is not None]
    jobs = [
        each for each in manifest_of(events, state).jobs if each.phase == "incumbent_validation"
    ]
    seeds = {each.seed for each in jobs if each.candidate == held.candidate}
    # The arm of the incumbent before runs the same seeds; who decides should see both.
    is_open = any(each.seed in seeds and each.status not in _OVER for each in jobs)
    if gain is None or is_open or not seeds or len(scores) < len(seeds):
        return None
    found = iqm_interval(scores, seed_of(f"check of {held.candidate}"))
    if found is None:
        return None
    direction = ledger.folder.read_metric_spec().primary.direction
    return claim_holds(held.iqm, gain, found.low, found.high, direction)


def _claimed_gain(ledger: Ledger, state: StudyState, candidate: str) -> float | None:
    """Return by how much the audit that made it incumbent says it is better."""
    accepted = [
        each.audit
        for each in state.decisions.values()
        if each.candidate == candidate and each.to == CandidateStatus.ACCEPTED
    ]
    audits = {each.id: each for each in audits_of(ledger.folder, state, candidate)}
    found = audits.get(accepted[-1] or "") if accepted else None
    return None if found is None else found.stats.delta
