"""Which claims wait for an audit or a decision, and what speaks against a candidate."""

from __future__ import annotations

from telic.errors import TelicError
from telic.studies.budget import shortfalls
from telic.studies.citing import audits_since
from telic.studies.disproving import judge_conditions
from telic.studies.documents.candidate import CandidateStatus
from telic.studies.documents.contract import Amounts, Phase
from telic.studies.evidence.claims import Audit
from telic.studies.evidence.reading import audits_of
from telic.studies.exploits import standing_exploit
from telic.studies.incumbent_check import check_incumbent
from telic.studies.ledger import Ledger
from telic.studies.outlook import Doubted, Judged, Objection
from telic.studies.queueing import Advanced, fresh_seeds, queue_of
from telic.studies.state import StudyState

MOST_SEEDS = 10
"""runs of an arm after which an open question stays open"""
_MAY_BE_GIVEN_UP = (
    CandidateStatus.DRAFT,
    CandidateStatus.VALIDATED,
    CandidateStatus.COMPLETED,
)


def _claims(state: StudyState, looked: dict[str, Advanced]) -> list[str]:
    """Return completed candidates that have no phase left: an audit decides about them."""
    last = ("promotion", "incumbent_validation")
    return [n for n, each in looked.items() if each.verdict == "wait" and each.phase in last]


def unaudited_claims(
    ledger: Ledger, state: StudyState, looked: dict[str, Advanced]
) -> tuple[str, ...]:
    """Return claims without audit whose control arm, where one is queued, has come to its end."""
    open_arms = {
        job.seed
        for job in queue_of(ledger).jobs
        if state.incumbent is not None
        and (job.candidate, job.phase) == (state.incumbent.candidate, "promotion")
        and job.status not in ("done", "failed", "cancelled")
    }
    return tuple(
        name
        for name in _claims(state, looked)
        if not audits_since(state, name, state.candidates[name].since_seq)
        and not open_arms & {run.seed for run in state.runs_of(name, "promotion").values()}
    )


def judged_claims(
    ledger: Ledger, state: StudyState, looked: dict[str, Advanced]
) -> tuple[Judged, ...]:
    """Return claims with their newest audit."""
    found = list[Judged]()
    for name in _claims(state, looked):
        names = audits_since(state, name, state.candidates[name].since_seq)
        if names:
            audit = audits_of(ledger.folder, state, name)[-1]
            asks = state.automation.decide != "auto"
            more = _can_have_seeds(ledger, state, name, audit)
            found.append(Judged(name, audit.id, audit.verdict, asks, more))
    return tuple(found)


def _can_have_seeds(ledger: Ledger, state: StudyState, name: str, audit: Audit) -> bool:
    n, phase = audit.arms["x"].n, state.candidates[name].phase
    return phase is not None and n < MOST_SEEDS and _seeds_fit(ledger, state, [name], phase, n)


def _seeds_fit(ledger: Ledger, state: StudyState, arms: list[str], phase: Phase, n: int) -> bool:
    """Return whether pool and budget have what an arm of n runs lacks of the most it may have."""
    try:
        seeds = fresh_seeds(state, ledger.folder.read_contract(), phase, arms, MOST_SEEDS - n)
    except TelicError:
        return False
    return not shortfalls(state, Amounts(launches=len(arms) * len(seeds)), arms[0], phase)


def doubted_incumbent(ledger: Ledger, state: StudyState) -> Doubted | None:
    """Return the incumbent when fresh seeds did not confirm its gain."""
    said = check_incumbent(ledger)
    if said is None or said.outcome == "holds":
        return None
    arms = [said.candidate, *([said.control] if said.control else [])]
    more = said.n < MOST_SEEDS and _seeds_fit(ledger, state, arms, "incumbent_validation", said.n)
    return Doubted(said.candidate, said.outcome == "lost", said.why, more)


def exploits(ledger: Ledger, state: StudyState) -> tuple[Objection, ...]:
    """Return open candidates, and the incumbent, where a reviewer calls them an exploit."""
    trusted = state.incumbent.candidate if state.incumbent else None
    return tuple(
        Objection(name, each.status, "exploit", finding)
        for name, each in state.candidates.items()
        if (each.status in _MAY_BE_GIVEN_UP or name == trusted)
        and (finding := standing_exploit(ledger, name))
    )


def disproved(ledger: Ledger, state: StudyState) -> tuple[Objection, ...]:
    """Return candidates whose falsifier or rollback condition is met."""
    return tuple(
        Objection(name, each.status, said.cause, said.why)
        for name, each in state.candidates.items()
        for said in judge_conditions(ledger, name)
        if said.is_met
    )
