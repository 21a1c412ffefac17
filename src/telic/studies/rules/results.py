"""What results say about candidates: phase rules, reviews, conditions, and fresh held-out seeds.

A falsifier applies to the claim (promotion), a rollback of a curriculum to every phase after smoke.
Conditions that no program can check are left to people.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Literal, NamedTuple

from telic.storage.files import as_record
from telic.storage.journal import JournalEntry
from telic.studies.documents.base import DocumentPart
from telic.studies.documents.candidate import CandidateStatus, Job, RunStatus
from telic.studies.documents.contract import PHASES, Phase
from telic.studies.documents.metrics import Direction
from telic.studies.evidence.claims import oriented
from telic.studies.evidence.curriculum import Curriculum
from telic.studies.evidence.measurement import Measurement, normalised
from telic.studies.evidence.review import is_approved_knowing, last_review
from telic.studies.evidence.signatures import fatal_alerts
from telic.studies.evidence.statistics import (
    Series,
    aggregate,
    difference_interval,
    iqm,
    seed_of,
)
from telic.studies.queue import JOB_OVER
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
    now = study.candidate_state(candidate).revision
    by_seed = {
        run.seed: (name, run)
        for name, run in study.state.runs_of(candidate, phase).items()
        if run.status != RunStatus.ABORTED and run.revision == now
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


def batch_of(events: Iterable[JournalEntry], candidate: str) -> tuple[str, ...]:
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


# ---------------------------------------------------------------------------- reviewers


def standing_exploit(study: Study, candidate: str) -> str | None:
    """Return the finding of the last review of a candidate as it is now, if it says exploit.

    Such a candidate is not launched, and its author's praise does not take it back. None once a
    person has approved that very candidate after the review: they knew.
    """
    review = last_review(study, candidate)
    now = study.candidate_state(candidate).content_hash
    if review is None or review.payload.get("content_hash") != now:
        return None
    if not review.payload.get("exploit"):
        return None
    if is_approved_knowing(study, review):
        return None
    return f"{review.id} calls it an exploit: {review.payload['finding']}"


# ---------------------------------------------------------------------------- conditions

GAIN = "gain"
"""what a condition calls the primary metric's lead over the incumbent on the same seeds"""
_FORM = re.compile(r"\s*(\S+)\s*(<=|>=|<|>)\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*")
_COMPARE = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
Cause = Literal["falsifier_met", "rollback"]


class Condition(NamedTuple):
    """A metric, or the gain, compared with a number: `success < 0.6` or `gain < 0.02`."""

    what: str
    """a metric, or GAIN"""
    comparison: str
    number: float

    def holds(self, value: float) -> bool:
        """Say whether a value meets it."""
        return _COMPARE[self.comparison](value, self.number)


class ConditionResult(DocumentPart):
    """One condition and what came of it."""

    candidate: str
    cause: Cause
    """what to reject it for when the condition is met"""
    condition: str
    value: float
    is_met: bool
    runs: tuple[str, ...]
    then: str = ""
    """what the author wants done"""

    @property
    def why(self) -> str:
        """The finding in one sentence."""
        name = "falsifier" if self.cause == "falsifier_met" else "rollback condition"
        after = f"; {self.then}" if self.then else ""
        said = "is met" if self.is_met else "is not met"
        return f"its {name} {said}: {self.condition}, and it is {self.value:.4g}{after}"


def read_condition(text: str) -> Condition | None:
    """Return what a text says, where it is a condition; None for any other words."""
    match = _FORM.fullmatch(text)
    return None if match is None else Condition(match[1], match[2], float(match[3]))


@fact
def judge_conditions(study: Study, candidate: str) -> tuple[ConditionResult, ...]:
    """Return what the conditions of a candidate come to; those that cannot be checked are left out.

    A phase is judged once all of its runs are measured: a completed candidate by the phase that it
    is in, an incumbent by the check on held-out seeds.
    """
    held, trusted = study.candidate_state(candidate), study.incumbent
    phase: Phase | None = None
    if held.status == CandidateStatus.COMPLETED and held.phase != "smoke":
        phase = held.phase
    elif trusted is not None and trusted.candidate == candidate:
        phase = "incumbent_validation"
    if phase is None:
        return ()
    results: list[ConditionResult] = []
    for cause, text, then in _conditions(study, candidate, phase):
        condition = read_condition(text)
        sheets = _sheets(study, candidate, phase) if condition else {}
        value = _value(study, condition, sheets, phase) if condition and sheets else None
        if condition is not None and value is not None:
            results.append(
                ConditionResult(
                    candidate=candidate,
                    cause=cause,
                    condition=text.strip(),
                    value=value,
                    is_met=condition.holds(value),
                    runs=tuple(sheet.run for sheet in sheets.values()),
                    then=then,
                )
            )
    return tuple(results)


def _conditions(study: Study, candidate: str, phase: Phase) -> list[tuple[Cause, str, str]]:
    record = study.candidate(candidate)
    conditions: list[tuple[Cause, str, str]] = []
    if phase == "promotion":
        conditions.append(("falsifier_met", record.hypothesis.falsifier, ""))
    if record.curriculum is not None:
        back = Curriculum.model_validate(record.curriculum).rollback
        conditions.append(("rollback", back.condition, f"{back.action} from {back.checkpoint}"))
    return conditions


def _sheets(study: Study, candidate: str, phase: Phase) -> dict[int, Measurement]:
    """Return the measured runs of a phase by seed; empty unless all of them are."""
    runs = run_facts(study, candidate, phase)
    sheets = {study.state.runs[run.run].seed: measured(study, run.run) for run in runs}
    return {seed: x for seed, x in sheets.items() if x} if all(sheets.values()) else {}


def _value(
    study: Study, condition: Condition, sheets: dict[int, Measurement], phase: Phase
) -> float | None:
    primary = study.metric_spec.primary
    if condition.what != GAIN:
        is_primary = condition.what == primary.key
        values = [
            sheet.primary if is_primary else sheet.guardrails.get(condition.what)
            for sheet in sheets.values()
        ]
        return iqm([each for each in values if each is not None]) if None not in values else None
    held = study.incumbent
    own = next(iter(sheets.values())).candidate
    theirs = _sheets(study, held.candidate, phase) if held else {}
    both = [(sheets[seed].primary, theirs[seed].primary) for seed in sheets if seed in theirs]
    pairs = [(x, y) for x, y in both if x is not None and y is not None]
    if held is None or held.candidate == own or len(pairs) < len(sheets):
        return None
    x, y = (iqm([oriented(pair[side], primary.direction) for pair in pairs]) for side in (0, 1))
    return None if x is None or y is None else x - y


# ---------------------------------------------------------------------------- fresh seeds

GainOutcome = Literal["holds", "lost", "cannot_tell"]
MOST_LOST_GAIN = 0.5
"""share of a claimed gain that a check of the incumbent may lose"""
_SAID: dict[GainOutcome, str] = {
    "holds": "it holds",
    "lost": "more than half of it is lost",
    "cannot_tell": "that does not tell whether half of it is left",
}


class IncumbentCheck(DocumentPart):
    """What fresh seeds say about the gain that the incumbent was accepted for.

    A level shrinks by luck alone (whatever is accepted was a little lucky, and seeds differ); a
    gain is measured against a control that has the same seeds, so only the gain is checked.
    """

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
        return (
            f"on {self.n} fresh seeds it gains {self.gain:.4g} [{low:.4g}, {high:.4g}] over "
            f"{self.control}; {self.claimed:.4g} was claimed, and {_SAID[self.outcome]}"
        )


def is_checked(study: Study) -> bool:
    """Return whether the incumbent needs no check.

    A baseline does not, nor one whose check is planned or that a person keeps as it is.
    """
    held = study.incumbent
    if held is None or study.candidate_state(held.candidate).kind == "baseline":
        return True
    if is_kept(study.state, held.candidate):
        return True
    return any(job.candidate == held.candidate for job in _check_jobs(study))


@fact
def check_incumbent(study: Study) -> IncumbentCheck | None:
    """Say what became of the incumbent's gain on fresh seeds; None while that is not known.

    None, too, for a baseline, and once a person has decided to keep it.
    """
    held = study.incumbent
    if held is None or study.candidate_state(held.candidate).status != CandidateStatus.ACCEPTED:
        return None
    claimed, jobs = _claimed_gain(study, held.candidate), _check_jobs(study)
    seeds = {job.seed for job in jobs if job.candidate == held.candidate}
    if claimed is None or not seeds or is_kept(study.state, held.candidate):
        return None
    beside = [job for job in jobs if job.seed in seeds]
    if any(job.status not in JOB_OVER for job in beside):
        return None
    controls = dict.fromkeys(x.candidate for x in beside if x.candidate != held.candidate)
    control = next(iter(controls), None)
    ours = _scores(study, held.candidate)
    theirs = {} if control is None else _scores(study, control)
    common = sorted(seeds & ours.keys() & theirs.keys())
    x, y = [ours[seed] for seed in common], [theirs[seed] for seed in common]
    interval = difference_interval({"": x}, {"": y}, seed_of(f"check of {held.candidate}"))
    check = IncumbentCheck(
        candidate=held.candidate,
        control=control,
        outcome="cannot_tell",
        claimed=claimed,
        n=len(common),
    )
    if interval is None:
        return check
    return check.model_copy(
        update={
            "outcome": gain_outcome(claimed, interval.low, interval.high),
            "gain": (iqm(x) or 0.0) - (iqm(y) or 0.0),
            "ci": (interval.low, interval.high),
        }
    )


def gain_outcome(claimed: float, low: float, high: float) -> GainOutcome:
    """Say what fresh seeds make of a claimed gain: all of their interval has to speak one way.

    Args:
        claimed: the gain that was accepted; above 0, larger is better.
        low: lower end of the interval of the gain that the fresh seeds give.
        high: its upper end.
    """
    least = (1 - MOST_LOST_GAIN) * claimed
    if low > least:
        return "holds"
    return "lost" if high < least else "cannot_tell"


def is_kept(state: StudyState, candidate: str) -> bool:
    """Return whether a person decided to go on trusting a candidate whatever its check says."""
    return any(
        each.candidate == candidate and each.verdict == "keep" for each in state.decisions.values()
    )


def _check_jobs(study: Study) -> list[Job]:
    return list(study.queue.where(phase="incumbent_validation"))


def _scores(study: Study, candidate: str) -> dict[int, float]:
    """Return what a candidate came to on held-out seeds, by seed; larger is better."""
    direction = study.metric_spec.primary.direction
    return {
        study.state.runs[run.run].seed: oriented(run.score, direction)
        for run in run_facts(study, candidate, "incumbent_validation")
        if run.score is not None
    }


def _claimed_gain(study: Study, candidate: str) -> float | None:
    """Return by how much the audit that made it incumbent says it is better."""
    accepted = [
        each.audit
        for each in study.state.decisions.values()
        if each.candidate == candidate and each.to == CandidateStatus.ACCEPTED
    ]
    audits = {audit.id: audit for audit in study.audits(candidate)}
    audit = audits.get(accepted[-1] or "") if accepted else None
    return None if audit is None else audit.stats.delta
