"""When a phase was good enough for the next one: rules over plain numbers, and where those are."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Literal, NamedTuple

from telic.storage.files import as_record
from telic.studies.chain import LedgerEvent
from telic.studies.documents.base import DocumentPart
from telic.studies.documents.candidate import CandidateStatus, RunStatus
from telic.studies.documents.contract import PHASES, Phase
from telic.studies.documents.metrics import Direction
from telic.studies.evidence.measurement import Measurement, normalised
from telic.studies.evidence.signatures import fatal_alerts
from telic.studies.evidence.statistics import Series, aggregate
from telic.studies.state import StudyState
from telic.studies.study import Study, fact

_NOT_IN_A_BATCH = (CandidateStatus.DRAFT, CandidateStatus.DEBUG, CandidateStatus.REJECTED)
_IS_OVER = (CandidateStatus.ACCEPTED, CandidateStatus.INCONCLUSIVE, CandidateStatus.REVERTED)


class RunFact(NamedTuple):
    """What is known of a planned run of a phase."""

    run: str
    is_finished: bool
    score: float | None
    """the primary metric; None when it could not be read"""
    fatal: tuple[str, ...] = ()
    """fatal signatures of the monitor"""
    unreadable: str = ""
    """why it was looked at and could not be measured"""


class PhaseVerdict(DocumentPart):
    """Whether a candidate goes on; `wait` when that cannot be said yet."""

    verdict: Literal["advance", "hold", "wait", "unreadable"]
    why: str


class PhaseStep(DocumentPart):
    """What the look at a completed candidate came to."""

    candidate: str
    phase: Phase | None
    to: Phase | None = None
    """the phase it goes on with; None when it stays"""
    verdict: str
    why: str


# ---------------------------------------------------------------------------- the rules


def next_phase(phase: Phase, planned: Sequence[Phase]) -> Phase | None:
    """Return the planned phase after this one."""
    return next((each for each in planned if PHASES.index(each) > PHASES.index(phase)), None)


def after_smoke(runs: Sequence[RunFact]) -> PhaseVerdict:
    """It started, logged, and ended as it should; how good it is does not matter."""
    if not runs:
        return PhaseVerdict(verdict="wait", why="no run of smoke has ended")
    for run in runs:
        if not run.is_finished:
            return PhaseVerdict(verdict="hold", why=f"{run.run} did not finish")
        if run.fatal:
            return PhaseVerdict(verdict="hold", why=f"{run.run} showed {', '.join(run.fatal)}")
    if said := _unmeasured(runs):
        return said
    return PhaseVerdict(verdict="advance", why="it starts, logs and ends as it should")


def after_short_trial(
    own: str,
    scores: Mapping[str, float | None],
    incumbent: float | None,
    direction: Direction,
    eta: int,
) -> PhaseVerdict:
    """Better than the incumbent's median, or among the best 1/eta of its batch.

    Args:
        own: the candidate.
        scores: median score of each candidate of the batch, itself too; None while unknown.
        incumbent: the incumbent's median at the same step, where it was measured.
        direction: of the metric.
        eta: one in so many goes on.
    """
    mine = scores[own]
    if mine is None:
        return PhaseVerdict(verdict="wait", why="its metric has not been read")
    sign = 1.0 if direction == "max" else -1.0
    if incumbent is not None and sign * (mine - incumbent) > 0:
        return PhaseVerdict(verdict="advance", why=f"{mine:g} beats the incumbent's {incumbent:g}")
    if missing := [name for name, score in scores.items() if score is None]:
        why = f"{', '.join(missing)} of its batch are not measured"
        return PhaseVerdict(verdict="wait", why=why)
    ranked = [score for score in scores.values() if score is not None]
    rank = 1 + sum(sign * (score - mine) > 0 for score in ranked)
    places = math.ceil(len(ranked) / eta)
    place = f"number {rank} of {len(ranked)} in its batch"
    if rank <= places:
        return PhaseVerdict(verdict="advance", why=place)
    return PhaseVerdict(verdict="hold", why=f"{place}, of which {places} go on")


def _unmeasured(runs: Sequence[RunFact]) -> PhaseVerdict | None:
    """Return what is said of a phase of which a run has no score; None when all have."""
    for run in runs:
        if run.unreadable:
            why = f"the metric of {run.run} cannot be read: {run.unreadable}"
            return PhaseVerdict(verdict="unreadable", why=why)
        if run.score is None:
            return PhaseVerdict(verdict="wait", why=f"the metric of {run.run} has not been read")
    return None


def median_score(runs: Sequence[RunFact]) -> float | None:
    """Return the median of the scores; None unless every run has one."""
    scores = [run.score for run in runs if run.score is not None]
    return median(scores) if scores and len(scores) == len(runs) else None


# ---------------------------------------------------------------------------- what they look at


def completed(state: StudyState) -> list[str]:
    """Return the candidates whose phase is over."""
    return [n for n, each in state.candidates.items() if each.status == CandidateStatus.COMPLETED]


@fact
def phase_step(study: Study, candidate: str) -> PhaseStep:
    """Say whether a completed candidate would go on; changes nothing."""
    phase, plan = study.candidate_state(candidate).phase, study.candidate(candidate).plan
    later = next_phase(phase, plan.phases) if phase else None
    if phase is None or later is None:
        said = PhaseVerdict(verdict="wait", why="no phase is left; an audit decides")
    else:
        said = _judge(study, candidate, phase)
    to = later if said.verdict == "advance" else None
    return PhaseStep(candidate=candidate, phase=phase, to=to, verdict=said.verdict, why=said.why)


def _judge(study: Study, candidate: str, phase: Phase) -> PhaseVerdict:
    runs = run_facts(study, candidate, phase)
    if phase == "smoke":
        return after_smoke(runs)
    if phase != "short_trial":
        return PhaseVerdict(verdict="wait", why=f"an audit decides about {phase}")
    if said := _unmeasured(runs):
        return said
    others = {
        name: median_score(run_facts(study, name, phase))
        for name in batch_of(study.events_of("queue.planned"), candidate)
        if name != candidate and _takes_part(study.state, name)
    }
    # Nobody waits for the score of one whose story is over.
    waits = {name for name in others if study.state.candidates[name].status not in _IS_OVER}
    scores = {candidate: median_score(runs)} | {
        name: score for name, score in others.items() if score is not None or name in waits
    }
    incumbent = incumbent_median(study, _steps(study, runs))
    direction, eta = study.metric_spec.primary.direction, study.queue.policy.eta
    return after_short_trial(candidate, scores, incumbent, direction, eta)


@fact
def run_facts(study: Study, candidate: str, phase: Phase) -> tuple[RunFact, ...]:
    """Return the last try of each seed of a phase, for the present revision."""
    revisions, now = study.run_revisions, study.candidate_state(candidate).revision
    by_seed = {
        run.seed: (name, run)
        for name, run in study.state.runs_of(candidate, phase).items()
        if run.status != RunStatus.ABORTED and revisions.get(name, now) == now
    }
    facts = list[RunFact]()
    for name, run in by_seed.values():
        sheet = measured(study, name)
        fatal = fatal_alerts(study.events_of("monitor.alert", about=(name,)), [name])
        score = None if sheet is None else sheet.primary
        unreadable = sheet.problem or "it has no score" if sheet and score is None else ""
        is_finished = run.status == RunStatus.FINISHED
        facts.append(RunFact(name, is_finished, score, fatal, unreadable))
    return tuple(facts)


@fact
def measured(study: Study, run: str) -> Measurement | None:
    """Return what a run was measured to be; None while nobody has."""
    sheet = study.latest("metrics", run=run)
    return None if sheet is None else as_record(sheet.payload, Measurement, sheet.id)


def batch_of(events: Iterable[LedgerEvent], candidate: str) -> tuple[str, ...]:
    """Return the candidates that were queued in one batch with this one, itself included.

    Args:
        events: queue.planned, of the whole study.
        candidate: whose batch is meant.
    """
    batches = dict[str, str]()
    for event in events:
        if event.subject:
            # planned again later, it stays in its first batch
            batches.setdefault(event.subject, event.data.get("batch") or event.subject)
    own = batches.get(candidate, candidate)
    return tuple(name for name, batch in batches.items() if batch == own) or (candidate,)


def incumbent_median(study: Study, step: float | None) -> float | None:
    """Return the median of what the incumbent's runs had come to at a step; None if not logged.

    Their curves are cut at that step and summed up as a score is, so that like is compared.
    """
    if study.incumbent is None or step is None:
        return None
    spec, values = study.metric_spec, list[float]()
    for name, run in study.state.runs_of(study.incumbent.candidate).items():
        sheet = measured(study, name) if run.status == RunStatus.FINISHED else None
        curve = sheet.curves.get(spec.primary.key, ()) if sheet else ()
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


def _steps(study: Study, runs: Sequence[RunFact]) -> float | None:
    sheets = [measured(study, run.run) for run in runs]
    steps = [sheet.steps for sheet in sheets if sheet is not None and sheet.steps is not None]
    return min(steps) if steps else None
