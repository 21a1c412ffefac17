"""Rules about results: phases, reviews, conditions, and the incumbent's gain on fresh seeds."""

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
from telic.studies.evidence.measurement import Measurement
from telic.studies.evidence.monitor import fatal_alerts
from telic.studies.evidence.review import is_approved_knowing, last_review
from telic.studies.evidence.statistics import difference_interval, iqm, oriented, seed_of
from telic.studies.queue import JOB_OVER
from telic.studies.state import StudyState
from telic.studies.study import Study, fact

# ---------------------------------------------------------------------------- phases


class PhaseStep(NamedTuple):
    """The step of a completed candidate into its next phase, if it takes one."""

    candidate: str
    phase: Phase | None
    verdict: Literal["advance", "hold", "wait", "unreadable"]
    """wait: not known yet, or an audit decides"""
    why: str
    to: Phase | None = None


def completed(state: StudyState) -> list[str]:
    """Return the candidates whose phase is over."""
    return [n for n, each in state.candidates.items() if each.status == CandidateStatus.COMPLETED]


def next_phase(phase: Phase, planned: Sequence[Phase]) -> Phase | None:
    """Return the planned phase after this one."""
    return next((each for each in planned if PHASES.index(each) > PHASES.index(phase)), None)


@fact
def phase_step(study: Study, candidate: str) -> PhaseStep:
    """Return whether a completed candidate enters its next phase; changes nothing.

    Smoke runs and short trials must finish without a fatal sign and be measured; their score does
    not matter: an audit of the promotion decides about that.
    """
    phase, plan = study.candidate_state(candidate).phase, study.candidate(candidate).plan
    later = next_phase(phase, plan.phases) if phase else None
    if later is None or phase not in ("smoke", "short_trial"):
        return PhaseStep(candidate, phase, "wait", "no phase is left; an audit decides")
    runs = _last_runs(study, candidate, phase)
    if not runs:
        return PhaseStep(candidate, phase, "wait", f"no run of {phase} has ended")
    for run in runs.values():
        sheet = measured(study, run)
        if study.state.runs[run].status != RunStatus.FINISHED:
            return PhaseStep(candidate, phase, "hold", f"{run} did not finish")
        fatal = fatal_alerts(study.events_of("monitor.alert", about=(run,)), [run])
        if fatal and phase == "smoke":
            return PhaseStep(candidate, phase, "hold", f"{run} showed {', '.join(fatal)}")
        if sheet is None:
            return PhaseStep(candidate, phase, "wait", f"the metric of {run} has not been read")
        if sheet.primary is None:
            why = f"the metric of {run} cannot be read: {sheet.problem or 'it has no score'}"
            return PhaseStep(candidate, phase, "unreadable", why)
    return PhaseStep(candidate, phase, "advance", "it starts, logs and ends as it should", later)


def advance(study: Study) -> list[PhaseStep]:
    """Move every completed candidate to its next phase where the phase rule allows it."""
    with study.locked():
        steps = [phase_step(study, name) for name in completed(study.state)]
        for step in steps:
            if step.to is not None:
                to, facts = CandidateStatus.VALIDATED, {"phase": step.to}
                lifecycle.transition(study, step.candidate, to, SYSTEM, step.why, facts)
    return steps


def _last_runs(study: Study, candidate: str, phase: Phase) -> dict[int, str]:
    """Return the last run of each seed of a phase, for the present revision."""
    now = study.candidate_state(candidate).revision
    return {
        run.seed: name
        for name, run in study.state.runs_of(candidate, phase).items()
        if run.status != RunStatus.ABORTED and run.revision == now
    }


@fact
def measured(study: Study, run: str) -> Measurement | None:
    """Return the measurement of a run; None while it is not measured."""
    sheet = study.latest("metrics", run=run)
    return None if sheet is None else as_record(sheet.payload, Measurement, sheet.id)


# ---------------------------------------------------------------------------- reviews


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
"""name in a condition of the primary metric's lead over the incumbent on the same seeds"""
_FORM = re.compile(r"\s*(\S+)\s*(<=|>=|<|>)\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*")
_COMPARE = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


class Condition(NamedTuple):
    """A metric, or the gain, compared with a number: `success < 0.6` or `gain < 0.02`."""

    what: str
    comparison: str
    number: float


class ConditionResult(DocumentPart):
    """The result of checking one condition."""

    candidate: str
    cause: Literal["falsifier_met"] = "falsifier_met"
    """ground to reject the candidate on when the condition is met"""
    condition: str
    value: float
    is_met: bool
    runs: tuple[str, ...]

    @property
    def why(self) -> str:
        """The finding in one sentence."""
        met = "is met" if self.is_met else "is not met"
        return f"its falsifier {met}: {self.condition}, and it is {self.value:.4g}"


def read_condition(text: str) -> Condition | None:
    """Parse a condition; None for any other words, which are left to people."""
    match = _FORM.fullmatch(text)
    return None if match is None else Condition(match[1], match[2], float(match[3]))


@fact
def judge_conditions(study: Study, candidate: str) -> tuple[ConditionResult, ...]:
    """Check the falsifier of a completed candidate once all runs of its promotion are measured."""
    held, phase = study.candidate_state(candidate), "promotion"
    if held.status != CandidateStatus.COMPLETED or held.phase != phase:
        return ()
    text = study.candidate(candidate).hypothesis.falsifier
    condition = read_condition(text)
    value = _value(study, condition.what, candidate, phase) if condition else None
    if condition is None or value is None:
        return ()
    result = ConditionResult(
        candidate=candidate,
        condition=text.strip(),
        value=value,
        is_met=_COMPARE[condition.comparison](value, condition.number),
        runs=tuple(_last_runs(study, candidate, phase).values()),
    )
    return (result,)


def _value(study: Study, what: str, candidate: str, phase: Phase) -> float | None:
    """Return the number that a condition is about; None while it is not known."""
    primary, held = study.metric_spec.primary, study.incumbent
    sheets = [measured(study, run) for run in _last_runs(study, candidate, phase).values()]
    if what != GAIN:
        numbers = [{**x.guardrails, primary.key: x.primary} if x else {} for x in sheets]
        values = [each.get(what) for each in numbers]
        return iqm([each for each in values if each is not None]) if None not in values else None
    if held is None or held.candidate == candidate or not sheets:
        return None
    ours, theirs = _scores(study, candidate, phase), _scores(study, held.candidate, phase)
    if len(ours) < len(sheets) or not ours.keys() <= theirs.keys():
        return None
    x, y = iqm(list(ours.values())), iqm([theirs[seed] for seed in ours])
    return None if x is None or y is None else x - y


def _scores(study: Study, candidate: str, phase: Phase) -> dict[int, float]:
    """Return the scores of a candidate by seed, oriented so that larger is better."""
    direction = study.metric_spec.primary.direction
    sheets = {seed: measured(study, x) for seed, x in _last_runs(study, candidate, phase).items()}
    return {
        seed: oriented(sheet.primary, direction)
        for seed, sheet in sheets.items()
        if sheet is not None and sheet.primary is not None
    }


# ---------------------------------------------------------------------------- fresh seeds

_OUTCOMES = {
    "holds": "it holds",
    "lost": "more than half of it is lost",
    "cannot_tell": "that does not tell whether half of it is left",
}


class IncumbentCheck(NamedTuple):
    """The gain that the incumbent was accepted for, measured on fresh seeds.

    A level shrinks by luck alone (an accepted candidate was a little lucky, and seeds differ); a
    gain is measured against a control that has the same seeds, so only the gain is checked.
    """

    candidate: str
    control: str | None
    outcome: str
    claimed: float
    n: int
    """seeds that both have been measured on"""
    why: str


def _is_kept(study: Study, candidate: str) -> bool:
    """Return whether a person decided to trust a candidate whatever its check says."""
    decisions = study.state.decisions.values()
    return any(each.candidate == candidate and each.verdict == "keep" for each in decisions)


def is_checked(study: Study) -> bool:
    """Return whether the incumbent needs no check: a baseline, checked already, or kept."""
    held = study.incumbent
    if held is None or study.candidate_state(held.candidate).kind == "baseline":
        return True
    return held.candidate in study.state.checks or _is_kept(study, held.candidate)


@fact
def check_incumbent(study: Study) -> IncumbentCheck | None:
    """Compare the incumbent's gain on fresh seeds with the claimed one; None while not known.

    None, too, for a baseline, and once a person has decided to keep it.
    """
    held, state, phase = study.incumbent, study.state, "incumbent_validation"
    if held is None or study.candidate_state(held.candidate).status != CandidateStatus.ACCEPTED:
        return None
    name, plan = held.candidate, state.checks.get(held.candidate)
    accepted = [
        each.audit
        for each in state.decisions.values()
        if each.candidate == name and each.to == CandidateStatus.ACCEPTED
    ]
    claims = {audit.id: audit.stats.delta for audit in study.audits(name)}
    claimed = claims.get(accepted[-1] or "") if accepted else None
    if claimed is None or plan is None or _is_kept(study, name):
        return None
    jobs = [job for job in study.jobs if job.phase == phase and job.seed in plan.seeds]
    if any(job.status not in JOB_OVER for job in jobs):
        return None
    ours = _scores(study, name, phase)
    theirs = _scores(study, plan.control, phase) if plan.control else {}
    common = sorted(set(plan.seeds) & ours.keys() & theirs.keys())
    x, y = [ours[seed] for seed in common], [theirs[seed] for seed in common]
    interval = difference_interval(x, y, seed_of(f"check of {name}"))
    outcome, n = "cannot_tell", len(common)
    why = f"{n} seeds were measured for both it and a control; two are the least"
    if interval is not None:
        gain, low, high = (iqm(x) or 0.0) - (iqm(y) or 0.0), interval.low, interval.high
        outcome = gain_outcome(claimed, low, high)
        why = (
            f"on {n} fresh seeds it gains {gain:.4g} [{low:.4g}, {high:.4g}] over "
            f"{plan.control}; {claimed:.4g} was claimed, and {_OUTCOMES[outcome]}"
        )
    return IncumbentCheck(name, plan.control, outcome, claimed, n, why)


def gain_outcome(claimed: float, low: float, high: float) -> str:
    """Compare the interval of a gain on fresh seeds with half of the gain that was claimed."""
    least = 0.5 * claimed
    if low > least:
        return "holds"
    return "lost" if high < least else "cannot_tell"
