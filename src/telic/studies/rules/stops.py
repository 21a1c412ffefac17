"""May a study go on at all: is its record intact, is its agreement kept, does a rule say stop.

Stop rules are looked at before every launch and at every step of the loop; what fires, and what
conditions come to, is written down.
"""

from __future__ import annotations

from typing import Literal

from telic.core.config import Record
from telic.errors import TelicError
from telic.studies.budget import exhausted
from telic.studies.canonical import moment, utc_now
from telic.studies.documents.base import SYSTEM, StudyActor
from telic.studies.documents.candidate import CandidateStatus, Evidence
from telic.studies.documents.contract import StopName, StopRule
from telic.studies.evidence.measurement import analyze_run
from telic.studies.evidence.review import hacking_levels
from telic.studies.evidence.store import add_evidence
from telic.studies.rules.results import judge_conditions
from telic.studies.state import DecisionState, StudyState
from telic.studies.study import Study, fact

Effect = Literal["close", "stop", "pause", "ask"]
_ALWAYS: tuple[StopName, ...] = (
    "budget_exhausted",
    "failure_streak",
    "guardrail_breach",
    "hacking_high",
    "integrity",
    "human_stop",
)
_EFFECTS: dict[StopName, Effect] = {
    "target_reached": "close",
    "failure_streak": "pause",
    "guardrail_breach": "pause",
    "hacking_high": "pause",
    "integrity": "pause",
    "human_stop": "pause",
}
_PROMOTIONS_WITHOUT_GAIN = 5
_ACCEPTS_LOOKED_AT = 3
_SMALL_GAIN = 0.01
_FAILURES = 3
_LIFTS_ITSELF = ("hacking_high", "human_stop")
"""rules with a record of their own that ends them: a review, a resume, a file that is gone"""


class StopFacts(Record):
    """What rules look at besides the ledger."""

    now: str
    stop_file: bool = False
    direction: Literal["max", "min"] = "max"
    target: float | None = None
    """of the metric, when the rule names none"""
    integrity: tuple[str, ...] = ()
    """problems of ledger, protocol or approvals"""
    guardrail_breaches: tuple[str, ...] = ()
    """block-severity guardrails that the incumbent breaks"""
    hacking_levels: tuple[str, ...] = ()
    """levels of the reflections so far, oldest first"""


class Stop(Record):
    """A rule that holds now."""

    rule: StopName
    effect: Effect
    why: str
    kill_running: bool = False


# ---------------------------------------------------------------------------- the record


@fact
def ledger_problems(study: Study) -> tuple[str, ...]:
    """Return what is wrong with the chain itself; then nothing else can be trusted."""
    check = study.ledger.verify()
    return () if check.ok else (f"ledger line {check.bad_seq}: {check.why}",)


@fact
def agreement_problems(study: Study) -> tuple[str, ...]:
    """Return where files and approvals are no longer what was agreed on."""
    try:
        contract = study.contract
    except TelicError as error:
        return (error.message,)
    problems = list[str]()
    if study.contract_hash != study.state.contract_hash:
        problems.append("contract.yaml was edited and is not the agreed version")
    if contract.metrics.spec_hash != study.metric_spec_hash:
        problems.append("metric_spec.yaml is not the agreed one")
    if contract.evaluation.protocol_hash != study.protocol_hash:
        problems.append("eval_protocol.yaml is not the agreed one")
    problems += [
        f"the approval {each.key} is void: {each.why}"
        for each in study.missing_approvals
        if each.status == "void"
    ]
    return tuple(problems)


# ---------------------------------------------------------------------------- the rules


@fact
def standing_stops(study: Study) -> tuple[Stop, ...]:
    """Return the stop rules that hold now or fired before and were not lifted."""
    primary = study.metric_spec.primary
    facts = StopFacts(
        now=utc_now(),
        stop_file=study.folder.stop_file.exists(),
        direction=primary.direction,
        target=primary.target,
        guardrail_breaches=_breaches(study),
        hacking_levels=hacking_levels(study),
    )
    known = _waived(study)
    stops = {
        each.rule: each
        for each in check_stops(study.state, facts)
        if (each.rule, each.why) not in known or each.effect not in ("pause", "ask")
    }
    for fired in study.state.fired_stops:
        stop = Stop.model_validate({"rule": fired.rule, "effect": "pause", "why": fired.why})
        stops.setdefault(stop.rule, stop)
    return tuple(stops.values())


def _waived(study: Study) -> set[tuple[str, str]]:
    """Return what had fired when a person opened the study again: they knew, and went on."""
    opened = study.state.opened_seq
    return {
        (str(event.data["rule"]), str(event.data.get("why", "")))
        for event in study.events_of("stop.fired")
        if event.seq <= opened and event.data["rule"] not in _LIFTS_ITSELF
    }


def _breaches(study: Study) -> tuple[str, ...]:
    """Return block-severity guardrails that the newest audit of the incumbent finds broken."""
    audits = study.audits(study.incumbent.candidate) if study.incumbent else ()
    rails = audits[-1].guardrails if audits else ()
    return tuple(each.key for each in rails if each.severity == "block" and not each.passed)


def check_stops(state: StudyState, facts: StopFacts) -> list[Stop]:
    """Return the rules that hold now: those of the contract, and those that always apply."""
    rules: dict[StopName, StopRule] = {rule.rule: rule for rule in state.stop_rules}
    for name in _ALWAYS:
        rules.setdefault(name, StopRule(rule=name))
    stops: list[Stop] = []
    for name, rule in rules.items():
        if why := _why(rule, state, facts):
            effect = rule.action or _EFFECTS.get(name, "stop")
            stops.append(Stop(rule=name, effect=effect, why=why, kill_running=rule.kill_running))
    return stops


def _why(rule: StopRule, state: StudyState, facts: StopFacts) -> str | None:
    """Return why a rule holds now; None when it does not."""
    match rule.rule:
        case "target_reached":
            return _target_reached(rule, state, facts)
        case "budget_exhausted":
            gone = exhausted(state)
            return f"nothing is left of {', '.join(gone)}" if gone else None
        case "max_candidates":
            count = sum(each.kind != "baseline" for each in state.candidates.values())
            return _many("candidates", count, rule.value)
        case "max_iterations":
            return _many("decisions", len(_final(state)), rule.value)
        case "no_progress":
            return _no_progress(rule, state) or _small_gain(rule, state)
        case "wallclock_deadline":
            is_over = rule.at is not None and moment(facts.now) >= moment(rule.at)
            return f"the deadline {rule.at} has passed" if is_over else None
        case "failure_streak":
            return _failure_streak(rule, state)
        case "guardrail_breach":
            broken = ", ".join(facts.guardrail_breaches)
            return f"the incumbent breaks {broken}; consider a revert" if broken else None
        case "hacking_high":
            is_high = facts.hacking_levels[-2:] == ("high",) * 2
            return "two reflections in a row say high" if is_high else None
        case "integrity":
            return "; ".join(facts.integrity) or None
        case "human_stop":
            is_paused = state.study_status == "paused"
            said = "the study is paused" if is_paused else "there is a file named STOP"
            return said if is_paused or facts.stop_file else None


def _target_reached(rule: StopRule, state: StudyState, facts: StopFacts) -> str | None:
    target = rule.value if rule.value is not None else facts.target
    held = state.incumbent
    if target is None or held is None or held.ci is None:
        return None
    low, high = held.ci
    reached = low >= target if facts.direction == "max" else high <= target
    worst = low if facts.direction == "max" else high
    return f"{held.candidate} holds {worst:g}, the target is {target:g}" if reached else None


def _no_progress(rule: StopRule, state: StudyState) -> str | None:
    most = rule.k or _PROMOTIONS_WITHOUT_GAIN
    recent = [each for each in _final(state) if each.phase == "promotion"][-most:]
    if len(recent) == most and all(each.to != CandidateStatus.ACCEPTED for each in recent):
        return f"the last {most} promotions were not accepted"
    return None


def _small_gain(rule: StopRule, state: StudyState) -> str | None:
    """Compare the incumbents' metric over the last m accepts."""
    m = rule.m or _ACCEPTS_LOOKED_AT
    values = [
        each.incumbent.iqm
        for each in state.decisions.values()
        if each.to == CandidateStatus.ACCEPTED and each.incumbent and each.incumbent.iqm is not None
    ]
    if len(values) <= m:
        return None
    first, last = values[-m - 1], values[-1]
    least = _SMALL_GAIN if rule.min_gain is None else rule.min_gain
    gain = abs(last - first) / max(abs(first), 1e-12)
    return f"the last {m} accepts gained {gain:.2%} together" if gain < least else None


def _failure_streak(rule: StopRule, state: StudyState) -> str | None:
    most = rule.k or _FAILURES
    ended = [
        each
        for each in state.candidates.values()
        if each.status in _ENDED and each.since_seq >= state.opened_seq
    ]
    latest = sorted(ended, key=lambda each: each.since_seq)[-most:]
    if len(latest) == most and all(each.status == CandidateStatus.DEBUG for each in latest):
        return f"the last {most} candidates all ended in debug"
    return None


_ENDED = frozenset(
    {
        CandidateStatus.ACCEPTED,
        CandidateStatus.REJECTED,
        CandidateStatus.INCONCLUSIVE,
        CandidateStatus.DEBUG,
    }
)


def _final(state: StudyState) -> list[DecisionState]:
    """Return the decisions that ended a try."""
    return [each for each in state.decisions.values() if each.to in _ENDED]


def _many(what: str, count: int, most: float | None) -> str | None:
    is_over = most is not None and count >= most
    return f"{count} {what} are all that were planned" if is_over else None


# ---------------------------------------------------------------------------- written down


def ingest(study: Study, run: str, actor: StudyActor, *, is_unusable: bool = False) -> Evidence:
    """Measure a run that has ended, then write down what follows from it."""
    sheet = analyze_run(study, run, actor, is_unusable=is_unusable)
    record_findings(study)
    return sheet


def record_findings(study: Study) -> bool:
    """Write down what holds now and is not yet in the ledger; says whether anything was."""
    before, state = study.ledger.head, study.state
    is_agreed = state.contract_version is not None and study.folder.metric_spec.is_file()
    if not is_agreed or state.study_status != "open":
        return False
    with study.locked():
        for name in study.state.candidates:
            for result in judge_conditions(study, name):
                add_evidence(
                    study,
                    "condition",
                    result.as_data(),
                    SYSTEM,
                    candidate=name,
                    producer="telic.conditions",
                    summary=result.why,
                )
        for stop in standing_stops(study):
            if not _is_recorded(study, stop):
                facts = {"rule": stop.rule, "why": stop.why, "effect": stop.effect}
                stands = stop.effect in ("pause", "ask") and stop.rule not in _LIFTS_ITSELF
                study.append("stop.fired", None, {**facts, "stands": stands}, SYSTEM)
    return study.ledger.head != before


def _is_recorded(study: Study, stop: Stop) -> bool:
    """Tell whether the ledger has this stop since the study was last opened."""
    for event in reversed(study.events_of("study.status", "stop.fired")):
        if event.kind == "study.status" and event.data["status"] == "open":
            return False
        if event.kind == "stop.fired" and event.data["rule"] == stop.rule:
            return event.data.get("why") == stop.why
    return False
