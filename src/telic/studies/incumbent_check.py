"""Check an accepted gain on fresh held-out seeds, beside the candidate that it was won against.

A level shrinks by luck alone (whatever is accepted was a little lucky, and seeds differ); a gain is
measured against a control that has the same seeds, so only the gain is checked.
"""

from __future__ import annotations

from telic.studies.documents.base import Part
from telic.studies.documents.candidate import CandidateStatus
from telic.studies.documents.runs import Job
from telic.studies.evidence.claims import oriented
from telic.studies.evidence.reading import audits_of
from telic.studies.evidence.statistics import difference_interval, iqm, seed_of
from telic.studies.ledger import Ledger
from telic.studies.phase_facts import run_facts
from telic.studies.phases import GainOutcome, gain_outcome
from telic.studies.queue import manifest_of
from telic.studies.state import StudyState

_OVER = ("done", "failed", "cancelled")


class IncumbentCheck(Part):
    """What fresh seeds say about the gain that the incumbent was accepted for."""

    candidate: str
    control: str | None
    outcome: GainOutcome
    claimed: float
    gain: float | None = None
    ci: tuple[float, float] | None = None
    n: int
    """seeds that both have been measured on"""

    @property
    def why(self) -> str:
        """The numbers in one sentence."""
        if self.gain is None or self.ci is None:
            return f"{self.n} seeds were measured for both it and a control; two are the least"
        low, high = self.ci
        said = {
            "holds": "it holds",
            "lost": "more than half of it is lost",
            "cannot_tell": "that does not tell whether half of it is left",
        }
        return (
            f"on {self.n} fresh seeds it gains {self.gain:.4g} [{low:.4g}, {high:.4g}] over "
            f"{self.control}; {self.claimed:.4g} was claimed, and {said[self.outcome]}"
        )


def is_checked(ledger: Ledger) -> bool:
    """Return whether the incumbent needs no check: a baseline, or one whose check is planned."""
    state = ledger.state()
    held = state.incumbent
    if held is None or state.candidates[held.candidate].kind == "baseline":
        return True
    return any(job.candidate == held.candidate for job in _jobs(ledger, state))


def check_incumbent(ledger: Ledger) -> IncumbentCheck | None:
    """Say what became of the incumbent's gain on fresh seeds; None while that is not known.

    None, too, for a baseline, and once a person has decided to keep it.
    """
    state = ledger.state()
    held = state.incumbent
    if held is None or state.candidates[held.candidate].status != CandidateStatus.ACCEPTED:
        return None
    claimed = _claimed_gain(ledger, state, held.candidate)
    jobs = _jobs(ledger, state)
    seeds = {each.seed for each in jobs if each.candidate == held.candidate}
    if claimed is None or not seeds or is_kept(state, held.candidate):
        return None
    beside = [each for each in jobs if each.seed in seeds]
    if any(each.status not in _OVER for each in beside):
        return None
    controls = dict.fromkeys(x.candidate for x in beside if x.candidate != held.candidate)
    control = next(iter(controls), None)
    ours = _scores(ledger, state, held.candidate)
    theirs = {} if control is None else _scores(ledger, state, control)
    common = sorted(seeds & ours.keys() & theirs.keys())
    x, y = [ours[each] for each in common], [theirs[each] for each in common]
    found = difference_interval({"": x}, {"": y}, seed_of(f"check of {held.candidate}"))
    if found is None:
        return IncumbentCheck(
            candidate=held.candidate,
            control=control,
            outcome="cannot_tell",
            claimed=claimed,
            n=len(common),
        )
    return IncumbentCheck(
        candidate=held.candidate,
        control=control,
        outcome=gain_outcome(claimed, found.low, found.high),
        claimed=claimed,
        gain=(iqm(x) or 0.0) - (iqm(y) or 0.0),
        ci=(found.low, found.high),
        n=len(common),
    )


def is_kept(state: StudyState, candidate: str) -> bool:
    """Return whether a person decided to go on trusting a candidate whatever its check says."""
    return any(
        each.candidate == candidate and each.verdict == "keep" for each in state.decisions.values()
    )


def _jobs(ledger: Ledger, state: StudyState) -> list[Job]:
    jobs = manifest_of(ledger.events(), state).jobs
    return [job for job in jobs if job.phase == "incumbent_validation"]


def _scores(ledger: Ledger, state: StudyState, candidate: str) -> dict[int, float]:
    """Return what a candidate came to on held-out seeds, by seed; larger is better."""
    direction = ledger.folder.read_metric_spec().primary.direction
    runs = run_facts(ledger, state, ledger.events(), candidate, "incumbent_validation")
    return {
        state.runs[each.run].seed: oriented(each.score, direction)
        for each in runs
        if each.score is not None
    }


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
