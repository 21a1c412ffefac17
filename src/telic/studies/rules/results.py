"""What results say about candidates: phase rules, reviews, conditions, and fresh held-out seeds.

A falsifier applies to the claim (promotion), a rollback of a curriculum to every phase after smoke.
Conditions that no program can check are left to people.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from telic.storage.files import as_record
from telic.studies import lifecycle
from telic.studies.documents.base import SYSTEM, DocumentPart
from telic.studies.documents.candidate import CandidateStatus, RunStatus
from telic.studies.documents.contract import PHASES, Phase
from telic.studies.evidence.curriculum import Curriculum
from telic.studies.evidence.measurement import Measurement
from telic.studies.evidence.monitor import fatal_alerts
from telic.studies.evidence.review import is_approved_knowing, last_review
from telic.studies.evidence.statistics import difference_interval, iqm, oriented, seed_of
from telic.studies.queue import JOB_OVER
from telic.studies.state import StudyState
from telic.studies.study import Study, fact

# ---------------------------------------------------------------------------- phases


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


class PhaseStep(DocumentPart):
    """Whether a completed candidate enters its next phase; `wait` when that is not known yet."""

    candidate: str
    phase: Phase | None
    to: Phase | None = None
    """the phase it enters; None when it stays"""
    verdict: Literal["advance", "hold", "wait", "unreadable"]
    why: str


def completed(state: StudyState) -> list[str]:
    """Return the candidates whose phase is over."""
    return [n for n, each in state.candidates.items() if each.status == CandidateStatus.COMPLETED]


def next_phase(phase: Phase, planned: Sequence[Phase]) -> Phase | None:
    """Return the planned phase after this one."""
    return next((each for each in planned if PHASES.index(each) > PHASES.index(phase)), None)


@fact
def phase_step(study: Study, candidate: str) -> PhaseStep:
    """Say whether a completed candidate enters its next phase; changes nothing."""
    phase, plan = study.candidate_state(candidate).phase, study.candidate(candidate).plan
    later = next_phase(phase, plan.phases) if phase else None
    verdict, why = "wait", "no phase is left; an audit decides"
    if phase in ("smoke", "short_trial") and later is not None:
        verdict, why = judge_trial(phase, run_facts(study, candidate, phase))
    to = later if verdict == "advance" else None
    return PhaseStep(candidate=candidate, phase=phase, to=to, verdict=verdict, why=why)


def advance(study: Study) -> list[PhaseStep]:
    """Move every completed candidate to its next phase where the phase rule allows it."""
    with study.locked():
        steps = [phase_step(study, name) for name in completed(study.state)]
        for step in steps:
            if step.to is not None:
                to, facts = CandidateStatus.VALIDATED, {"phase": step.to}
                lifecycle.transition(study, step.candidate, to, SYSTEM, step.why, facts)
    return steps


TrialVerdict = Literal["advance", "hold", "wait", "unreadable"]


def judge_trial(phase: Phase, runs: Sequence[RunFact]) -> tuple[TrialVerdict, str]:
    """Judge smoke runs and short trials: did it finish without a fatal sign, and was it measured?

    How good the score is does not matter here: an audit of the promotion decides about that.
    """
    if not runs:
        return "wait", f"no run of {phase} has ended"
    for run in runs:
        if not run.is_finished:
            return "hold", f"{run.run} did not finish"
        if run.fatal and phase == "smoke":
            return "hold", f"{run.run} showed {', '.join(run.fatal)}"
        if run.unreadable:
            return "unreadable", f"the metric of {run.run} cannot be read: {run.unreadable}"
        if run.score is None:
            return "wait", f"the metric of {run.run} has not been read"
    return "advance", "it starts, logs and ends as it should"


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
    """Return what a run was measured to be; None while it is not measured."""
    sheet = study.latest("metrics", run=run)
    return None if sheet is None else as_record(sheet.payload, Measurement, sheet.id)


# ---------------------------------------------------------------------------- reviewers


def standing_exploit(study: Study, candidate: str) -> str | None:
    """Return the finding of the last review of a candidate as it is now, if it says exploit.

    Such a candidate is not launched. None once a person has approved that very candidate after the
    review, knowing it.
    """
    review = last_review(study, candidate)
    now = study.candidate_state(candidate).content_hash
    if review is None or review.payload.get("content_hash") != now:
        return None
    if not review.payload.get("exploit") or is_approved_knowing(study, review):
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
    comparison: str
    number: float


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
    """Parse a condition; None for any other words."""
    match = _FORM.fullmatch(text)
    return None if match is None else Condition(match[1], match[2], float(match[3]))


@fact
def judge_conditions(study: Study, candidate: str) -> tuple[ConditionResult, ...]:
    """Return what the conditions of a candidate come to, without those that cannot be checked.

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
    record, stated = study.candidate(candidate), list[tuple[Cause, str, str]]()
    if phase == "promotion":
        stated.append(("falsifier_met", record.hypothesis.falsifier, ""))
    if record.curriculum is not None:
        back = Curriculum.model_validate(record.curriculum).rollback
        stated.append(("rollback", back.condition, f"{back.action} from {back.checkpoint}"))
    results: list[ConditionResult] = []
    for cause, text, then in stated:
        condition = read_condition(text)
        sheets = _sheets(study, candidate, phase) if condition else {}
        value = _value(study, condition.what, sheets, phase) if condition and sheets else None
        if condition is not None and value is not None:
            results.append(
                ConditionResult(
                    candidate=candidate,
                    cause=cause,
                    condition=text.strip(),
                    value=value,
                    is_met=_COMPARE[condition.comparison](value, condition.number),
                    runs=tuple(sheet.run for sheet in sheets.values()),
                    then=then,
                )
            )
    return tuple(results)


def _sheets(study: Study, candidate: str, phase: Phase) -> dict[int, Measurement]:
    """Return the measured runs of a phase by seed; empty unless all of them are."""
    runs = run_facts(study, candidate, phase)
    sheets = {study.state.runs[run.run].seed: measured(study, run.run) for run in runs}
    return {seed: x for seed, x in sheets.items() if x} if all(sheets.values()) else {}


def _value(study: Study, what: str, sheets: dict[int, Measurement], phase: Phase) -> float | None:
    """Return the number that a condition is about; None while it is not known."""
    primary, held = study.metric_spec.primary, study.incumbent
    if what != GAIN:
        values = [
            sheet.primary if what == primary.key else sheet.guardrails.get(what)
            for sheet in sheets.values()
        ]
        return iqm([each for each in values if each is not None]) if None not in values else None
    if held is None or held.candidate == next(iter(sheets.values())).candidate:
        return None
    theirs = _sheets(study, held.candidate, phase)
    both = [(sheets[seed].primary, theirs[seed].primary) for seed in sheets if seed in theirs]
    pairs = [(x, y) for x, y in both if x is not None and y is not None]
    if len(pairs) < len(sheets):
        return None
    x, y = (iqm([oriented(pair[side], primary.direction) for pair in pairs]) for side in (0, 1))
    return None if x is None or y is None else x - y


# ---------------------------------------------------------------------------- fresh seeds

GainOutcome = Literal["holds", "lost", "cannot_tell"]
_MOST_LOST_GAIN = 0.5
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
    """Return whether the incumbent needs no check: a baseline, checked already, or kept."""
    held = study.incumbent
    if held is None or study.candidate_state(held.candidate).kind == "baseline":
        return True
    return held.candidate in study.state.checks or _is_kept(study.state, held.candidate)


@fact
def check_incumbent(study: Study) -> IncumbentCheck | None:
    """Say what became of the incumbent's gain on fresh seeds; None while that is not known.

    None, too, for a baseline, and once a person has decided to keep it.
    """
    held = study.incumbent
    if held is None or study.candidate_state(held.candidate).status != CandidateStatus.ACCEPTED:
        return None
    name, claimed = held.candidate, _claimed_gain(study, held.candidate)
    plan = study.state.checks.get(name)
    if claimed is None or plan is None or _is_kept(study.state, name):
        return None
    jobs = [job for job in study.jobs if job.phase == "incumbent_validation"]
    if any(job.seed in plan.seeds and job.status not in JOB_OVER for job in jobs):
        return None
    ours = _scores(study, name)
    theirs = {} if plan.control is None else _scores(study, plan.control)
    common = sorted(set(plan.seeds) & ours.keys() & theirs.keys())
    x, y = [ours[seed] for seed in common], [theirs[seed] for seed in common]
    interval = difference_interval({"": x}, {"": y}, seed_of(f"check of {name}"))
    check = IncumbentCheck(
        candidate=name,
        control=plan.control,
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
    """Compare the interval of a gain on fresh seeds with half of the gain that was claimed."""
    least = (1 - _MOST_LOST_GAIN) * claimed
    if low > least:
        return "holds"
    return "lost" if high < least else "cannot_tell"


def _is_kept(state: StudyState, candidate: str) -> bool:
    """Return whether a person decided to trust a candidate whatever its check says."""
    return any(
        each.candidate == candidate and each.verdict == "keep" for each in state.decisions.values()
    )


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
