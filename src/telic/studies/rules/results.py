"""Rules on results: phases, reviews, the incumbent's gain, and stop rules.

Stop rules are evaluated before every launch and in every step of the loop, and recorded when they
fire. This module also checks the ledger's integrity and that files match the contract.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from telic.core.config import Record
from telic.errors import TelicError
from telic.studies.candidates import transition
from telic.studies.canonical import moment, utc_now
from telic.studies.documents.base import SYSTEM, StudyActor
from telic.studies.documents.candidate import CLOSED_STATUSES, CandidateStatus, Evidence, RunStatus
from telic.studies.documents.contract import PHASES, RESOURCES, StopName, StopRule, StudyPhase
from telic.studies.evidence._statistics import difference_interval, iqm, oriented, seed_of
from telic.studies.evidence.measurement import analyze_run
from telic.studies.evidence.review import is_approved_since, last_review, reflect_run
from telic.studies.queue import JOB_OVER
from telic.studies.state import StudyState
from telic.studies.study import Study, fact

# ---------------------------------------------------------------------------- phases


class PhaseStep(NamedTuple):
    """Transition of a completed candidate to the next phase, if any."""

    candidate: str
    phase: StudyPhase | None
    verdict: Literal["advance", "hold", "wait", "unreadable", "claim", "pointless"]
    """wait (not known yet), claim (an audit decides), pointless (the plan ends before an audit)"""
    why: str
    to: StudyPhase | None = None


def completed(state: StudyState) -> list[str]:
    """Return the candidates that have completed their phase."""
    return [n for n, each in state.candidates.items() if each.status == CandidateStatus.COMPLETED]


@fact
def phase_step(study: Study, candidate: str) -> PhaseStep:
    """Return whether a completed candidate enters the next phase, without side effects.

    Smoke runs and screening runs must finish without diverging and be measured. Their scores
    are ignored, since only the audit after promotion decides on scores.
    """
    phase, planned = study.candidate_state(candidate).phase, study.candidate(candidate).plan.phases

    def step(verdict: Any, why: str, to: StudyPhase | None = None) -> PhaseStep:
        return PhaseStep(candidate, phase, verdict, why, to)

    if phase in ("promotion", "incumbent_validation"):
        return step("claim", "all phases are done; an audit decides")
    later = [x for x in planned if phase and PHASES.index(x) > PHASES.index(phase)]
    if phase is None or not later:
        return step("pointless", "its plan ends before a claim is possible")
    runs = _last_runs(study, candidate, phase).values()
    if not runs:
        return step("wait", f"no run of {phase} has ended")
    for run in runs:
        sheet = study.measurement(run)
        if study.state.runs[run].status != RunStatus.FINISHED:
            return step("hold", f"{run} did not finish")
        if sheet is None:
            return step("wait", f"the metric of {run} was not read")
        if sheet.diverged and phase == "smoke":
            return step("hold", f"{', '.join(sheet.diverged)} of {run} is not finite")
        if sheet.primary is None:
            problem = sheet.problem or "it has no score"
            return step("unreadable", f"the metric of {run} cannot be read: {problem}")
    return step("advance", "it starts, logs and ends as required", later[0])


def advance(study: Study) -> list[PhaseStep]:
    """Advance every completed candidate to its next phase if the phase rule allows this."""
    with study.locked():
        steps = [phase_step(study, name) for name in completed(study.state)]
        for step in steps:
            if step.to is not None:
                to, facts = CandidateStatus.VALIDATED, {"phase": step.to}
                transition(study, step.candidate, to, SYSTEM, step.why, facts)
    return steps


def _last_runs(study: Study, candidate: str, phase: StudyPhase) -> dict[int, str]:
    """Return the last run of each seed in a phase, for the current revision."""
    now = study.candidate_state(candidate).revision
    return {
        run.seed: name
        for name, run in study.state.runs_of(candidate, phase).items()
        if run.status != RunStatus.ABORTED and run.revision == now
    }


def _scores(study: Study, candidate: str, phase: StudyPhase) -> dict[int, float]:
    """Return the scores of a candidate by seed, oriented so that larger is better."""
    direction = study.metric_spec.primary.direction
    return {
        seed: oriented(sheet.primary, direction)
        for seed, run in _last_runs(study, candidate, phase).items()
        if (sheet := study.measurement(run)) is not None and sheet.primary is not None
    }


# ---------------------------------------------------------------------------- objections


def unresolved_exploit(study: Study, candidate: str) -> str | None:
    """Return the finding of the current candidate's last review if it reports an exploit.

    A candidate with an exploit is not launched until a person approves it after the review.
    """
    review = last_review(study, candidate)
    now = study.candidate_state(candidate).content_hash
    if review is None or review.payload.get("content_hash") != now:
        return None
    if not review.payload.get("exploit") or is_approved_since(study, candidate, review.id):
        return None
    return f"{review.id} reports an exploit: {review.payload['finding']}"


# ---------------------------------------------------------------------------- fresh seeds


class IncumbentCheck(NamedTuple):
    """Check of the incumbent's claimed gain on fresh seeds.

    Absolute scores regress to the mean, because accepted candidates were partly lucky and seeds
    differ. The gain is measured against a control on the same seeds, so only the gain is checked.
    """

    candidate: str
    control: str | None
    outcome: Literal["holds", "lost", "cannot_tell"]
    claimed: float
    n: int
    """number of seeds measured for both arms"""
    why: str


def _is_kept(study: Study, candidate: str) -> bool:
    """Return whether a person decided to keep a candidate regardless of its gain check."""
    decisions = study.state.decisions.values()
    return any(each.candidate == candidate and each.verdict == "keep" for each in decisions)


def is_checked(study: Study) -> bool:
    """Return whether the incumbent needs no gain check: it is a baseline, checked or kept."""
    held = study.incumbent
    if held is None or study.candidate_state(held.candidate).kind == "baseline":
        return True
    return held.candidate in study.state.checks or _is_kept(study, held.candidate)


@fact
def check_incumbent(study: Study) -> IncumbentCheck | None:
    """Compare the incumbent's gain on fresh seeds with its claim, or return None.

    The gain is confirmed if its interval lies above half of the claimed gain, and lost if it lies
    below. The result is None for a baseline, without measurements, or if a person decided to keep
    the incumbent.
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
    x, y, n = [ours[seed] for seed in common], [theirs[seed] for seed in common], len(common)
    interval = difference_interval(x, y, seed_of(f"check of {name}"))
    if interval is None:
        why = f"{n} seeds were measured for it and a control; at least two are required"
        return IncumbentCheck(name, plan.control, "cannot_tell", claimed, n, why)
    outcome, words = "cannot_tell", "it is unknown whether half of the gain remains"
    if interval.low > 0.5 * claimed:
        outcome, words = "holds", "the gain is confirmed"
    elif interval.high < 0.5 * claimed:
        outcome, words = "lost", "more than half of the gain is lost"
    gain = (iqm(x) or 0.0) - (iqm(y) or 0.0)
    why = f"on {n} fresh seeds it gains {gain:.4g} [{interval.low:.4g}, {interval.high:.4g}] over "
    why += f"{plan.control}; {claimed:.4g} was claimed, so {words}"
    return IncumbentCheck(name, plan.control, outcome, claimed, n, why)


# ---------------------------------------------------------------------------- integrity


@fact
def ledger_problems(study: Study) -> tuple[str, ...]:
    """Return the problems of the ledger's hash chain, which invalidate all other facts."""
    check = study.ledger.verify()
    return () if check.ok else (f"ledger line {check.bad_seq}: {check.why}",)


@fact
def agreement_problems(study: Study) -> tuple[str, ...]:
    """Return the differences of files and approvals from the agreed versions."""
    try:
        agreed = {
            "contract.yaml differs from the agreed version": study.is_contract_agreed,
            "metric_spec.yaml differs from the agreed version": study.is_metric_spec_agreed,
            "eval_protocol.yaml differs from the agreed version": study.is_protocol_agreed,
        }
    except TelicError as error:
        return (error.message,)
    void = [each for each in study.missing_approvals if each.status == "void"]
    return (
        *(problem for problem, holds in agreed.items() if not holds),
        *(f"the approval {each.key} is void: {each.why}" for each in void),
    )


# ---------------------------------------------------------------------------- stop rules

_Effect = Literal["close", "stop", "pause", "ask"]
_ENDED = (
    *(CandidateStatus.ACCEPTED, CandidateStatus.REJECTED),
    *(CandidateStatus.INCONCLUSIVE, CandidateStatus.DEBUG),
)
_LIFTS_ITSELF = "human_stop"
"""rule that is lifted by resuming or by removing the STOP file"""


class Stop(Record):
    """Stop rule whose condition is currently met."""

    rule: str
    effect: _Effect
    why: str
    kill_running: bool = False


def _target_reached(study: Study, rule: StopRule) -> str | None:
    primary, held = study.metric_spec.primary, study.incumbent
    target = primary.target if rule.value is None else rule.value
    if target is None or held is None or held.ci is None:
        return None
    is_max = primary.direction == "max"
    worst = held.ci[0] if is_max else held.ci[1]
    is_reached = worst >= target if is_max else worst <= target
    return f"{held.candidate} holds {worst:g}, the target is {target:g}" if is_reached else None


def _budget_exhausted(study: Study, rule: StopRule) -> str | None:
    left = study.state.budget.left
    gone = [name for name in RESOURCES if getattr(left, name) == 0]
    return f"no budget is left for {', '.join(gone)}" if gone else None


def _max_candidates(study: Study, rule: StopRule) -> str | None:
    ours, most = study.state.candidates.values(), rule.value
    tried = sum(each.kind != "baseline" and each.status in CLOSED_STATUSES for each in ours)
    return f"all {tried} planned candidates are decided" if most and tried >= most else None


def _no_progress(study: Study, rule: StopRule) -> str | None:
    most = rule.k or 5
    ended = [each for each in study.state.decisions.values() if each.to in _ENDED]
    recent = [x for x in ended if x.phase == "promotion"][-most:]
    if len(recent) == most and all(x.to != CandidateStatus.ACCEPTED for x in recent):
        return f"the last {most} promotions were not accepted"
    return None


def _wallclock_deadline(study: Study, rule: StopRule) -> str | None:
    is_over = rule.at is not None and moment(utc_now()) >= moment(rule.at)
    return f"the deadline {rule.at} has passed" if is_over else None


def _failure_streak(study: Study, rule: StopRule) -> str | None:
    most, state = rule.k or 3, study.state
    held = [x for x in state.candidates.values() if x.since_seq >= state.opened_seq]
    ended = [each for each in held if each.status in _ENDED]
    latest = sorted(ended, key=lambda each: each.since_seq)[-most:]
    if len(latest) == most and all(each.status == CandidateStatus.DEBUG for each in latest):
        return f"the last {most} candidates all ended in debug"
    return None


def _guardrail_breach(study: Study, rule: StopRule) -> str | None:
    """Return why this stop rule fires, if each of the last audits failed a blocking guardrail."""
    entries, since = study.state.evidence, study.state.opened_seq
    names = [name for name in study.evidence_names("audit") if entries[name].seq > since]
    broken: list[str] = []
    for sheet in (study.sheet(name).payload for name in names[-(rule.k or 1) :]):
        rails = [x for x in sheet["guardrails"] if not x["passed"] and x["severity"] == "block"]
        broken += (
            [f"{sheet['candidate']} broke {', '.join(x['key'] for x in rails)}"] if rails else []
        )
    return "; ".join(broken) if broken and len(broken) == (rule.k or 1) else None


def _human_stop(study: Study, rule: StopRule) -> str | None:
    if study.state.study_status == "paused":
        return "the study is paused"
    return "a file named STOP exists" if study.folder.stop_file.exists() else None


_RULES: dict[StopName, tuple[Callable[[Study, StopRule], str | None], _Effect]] = {
    "target_reached": (_target_reached, "close"),
    "max_candidates": (_max_candidates, "stop"),
    "no_progress": (_no_progress, "stop"),
    "wallclock_deadline": (_wallclock_deadline, "stop"),
    "guardrail_breach": (_guardrail_breach, "pause"),
    "budget_exhausted": (_budget_exhausted, "stop"),
    "failure_streak": (_failure_streak, "pause"),
    "human_stop": (_human_stop, "pause"),
}
_DEFAULT: tuple[StopName, ...] = ("budget_exhausted", "failure_streak", "human_stop")
"""rules that apply to every study"""


def check_stops(study: Study) -> list[Stop]:
    """Return the stop rules, including default rules, whose conditions are currently met."""
    rules: dict[StopName, StopRule] = {name: StopRule(rule=name) for name in _DEFAULT}
    rules |= {rule.rule: rule for rule in study.state.stop_rules if rule.rule in _RULES}
    stops: list[Stop] = []
    for name, rule in rules.items():
        why_of, effect = _RULES[name]
        if why := why_of(study, rule):
            kills = rule.kill_running
            stops.append(Stop(rule=name, effect=rule.action or effect, why=why, kill_running=kills))
    return stops


@fact
def active_stops(study: Study) -> tuple[Stop, ...]:
    """Return the stop rules that fire now, or that fired earlier and were not lifted."""
    # A person who reopens a study acknowledges the rules that had fired.
    waived = {
        (event.data["rule"], event.data.get("why", ""))
        for event in study.events_of("stop.fired")
        if event.seq <= study.state.opened_seq and event.data["rule"] != _LIFTS_ITSELF
    }
    stops = {
        each.rule: each
        for each in check_stops(study)
        if (each.rule, each.why) not in waived or each.effect not in ("pause", "ask")
    }
    for fired in study.state.fired_stops:
        stop = Stop.model_validate({"rule": fired.rule, "effect": "pause", "why": fired.why})
        stops.setdefault(stop.rule, stop)
    return tuple(stops.values())


# ---------------------------------------------------------------------------- records


def ingest(study: Study, run: str, actor: StudyActor, *, is_unusable: bool = False) -> Evidence:
    """Measure an ended run, reflect on its reward, and record the findings."""
    sheet = analyze_run(study, run, actor, is_unusable=is_unusable)
    state, terms = study.state.runs[run], {each.key for each in study.metric_spec.components}
    is_reward = study.candidate_state(state.candidate).kind.startswith("reward_")
    has_terms = sheet.payload["primary"] is not None and terms & sheet.payload["curves"].keys()
    if is_reward and state.phase != "smoke" and has_terms:
        reflect_run(study, run, actor)
    record_findings(study)
    return sheet


def record_findings(study: Study) -> bool:
    """Record newly met conditions and stop rules and return whether there are any."""
    before, state = study.ledger.head, study.state
    is_agreed = state.contract_version is not None and study.folder.metric_spec.is_file()
    if not is_agreed or state.study_status != "open":
        return False
    with study.locked():
        for stop in active_stops(study):
            fired = [x for x in study.events_of("stop.fired") if x.data["rule"] == stop.rule][-1:]
            is_new = [x for x in fired if x.seq > study.state.opened_seq]
            if not is_new or is_new[0].data.get("why") != stop.why:
                facts = {"rule": stop.rule, "why": stop.why, "effect": stop.effect}
                stands = stop.effect in ("pause", "ask") and stop.rule != _LIFTS_ITSELF
                study.append("stop.fired", None, {**facts, "stands": stands}, SYSTEM)
    return study.ledger.head != before
