"""What the phases' rules look at, from the ledger and the evidence of a study."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

from telic.studies.documents.candidate import CandidateStatus
from telic.studies.documents.contract import Phase
from telic.studies.documents.ledger import LedgerEvent
from telic.studies.documents.runs import RunStatus
from telic.studies.evidence.measuring import Measurement, normalised
from telic.studies.evidence.reading import fatal_alerts
from telic.studies.evidence.rows import aggregate
from telic.studies.evidence.series import Series
from telic.studies.evidence.store import latest
from telic.studies.ledger import Ledger
from telic.studies.phases import (
    Advance,
    RunFact,
    after_short_trial,
    after_smoke,
    median_score,
)
from telic.studies.queue import run_revisions
from telic.studies.state import StudyState

_NOT_IN_A_BATCH = (CandidateStatus.DRAFT, CandidateStatus.DEBUG, CandidateStatus.REJECTED)


def judge_phase(ledger: Ledger, candidate: str, eta: int) -> Advance:
    """Say whether a completed candidate goes on to its next phase."""
    state, events = ledger.state(), ledger.events()
    phase = state.candidates[candidate].phase
    runs = run_facts(ledger, state, events, candidate, phase)
    if phase == "smoke":
        return after_smoke(runs)
    if phase == "short_trial":
        direction = ledger.folder.read_metric_spec().primary.direction
        scores = {candidate: median_score(runs)} | {
            name: median_score(run_facts(ledger, state, events, name, phase))
            for name in batch_of(events, candidate)
            if name != candidate and _takes_part(state, name)
        }
        known = incumbent_median(ledger, state, _steps(ledger, state, runs))
        return after_short_trial(candidate, scores, known, direction, eta)
    return Advance(verdict="wait", why=f"an audit decides about {phase}")


def run_facts(
    ledger: Ledger,
    state: StudyState,
    events: Sequence[LedgerEvent],
    candidate: str,
    phase: Phase | None,
) -> list[RunFact]:
    """Return the last try of each seed of a phase, for the present revision."""
    revisions, now = run_revisions(events), state.candidates[candidate].revision
    by_seed = {
        run.seed: (name, run)
        for name, run in state.runs_of(candidate, phase).items()
        if run.status != RunStatus.ABORTED and revisions.get(name, now) == now
    }
    facts = list[RunFact]()
    for name, run in by_seed.values():
        found = measured(ledger, state, name)
        fatal = fatal_alerts(events, [name])
        score = None if found is None else found.primary
        facts.append(RunFact(name, run.status == RunStatus.FINISHED, score, fatal))
    return facts


def measured(ledger: Ledger, state: StudyState, run: str) -> Measurement | None:
    """Return what a run was measured to be; None while nobody has."""
    sheet = latest(ledger.folder, state, "metrics", run=run)
    return None if sheet is None else Measurement.model_validate(sheet.payload)


def batch_of(events: Iterable[LedgerEvent], candidate: str) -> tuple[str, ...]:
    """Return the candidates that were queued in one batch with this one, itself included."""
    batches = dict[str, str]()
    for event in events:
        if event.type == "queue.planned" and event.subject:
            # planned again later, it stays in its first batch
            batches.setdefault(event.subject, event.data.get("batch") or event.subject)
    own = batches.get(candidate, candidate)
    return tuple(name for name, batch in batches.items() if batch == own) or (candidate,)


def incumbent_median(ledger: Ledger, state: StudyState, step: float | None) -> float | None:
    """Return the median of what the incumbent's runs had come to at a step; None if not logged.

    Their curves are cut at that step and summed up as a score is, so that like is compared.
    """
    if state.incumbent is None or step is None:
        return None
    spec = ledger.folder.read_metric_spec()
    key = spec.primary.key
    values = list[float]()
    for name, run in state.runs_of(state.incumbent.candidate).items():
        found = measured(ledger, state, name) if run.status == RunStatus.FINISHED else None
        curve = found.curves.get(key, ()) if found else ()
        if not curve or curve[-1][0] < step:
            continue
        before = [point for point in curve if point[0] <= step]
        series = Series(tuple(at for at, _ in before), tuple(value for _, value in before))
        score = aggregate(series, spec.primary.aggregate)
        if score is not None:
            values.append(normalised(score, spec))
    return median(values) if values else None


def _takes_part(state: StudyState, candidate: str) -> bool:
    held = state.candidates.get(candidate)
    return held is not None and held.status not in _NOT_IN_A_BATCH


def _steps(ledger: Ledger, state: StudyState, runs: Sequence[RunFact]) -> float | None:
    found = [measured(ledger, state, each.run) for each in runs]
    steps = [each.steps for each in found if each is not None and each.steps is not None]
    return min(steps) if steps else None
