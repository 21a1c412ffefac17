"""Stop rules: evaluated before every launch and at every step of the loop, recorded when they fire.

The integrity of the ledger and of the agreement are checked here, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

from telic.core.config import Record
from telic.errors import TelicError
from telic.studies.canonical import moment, utc_now
from telic.studies.documents.base import SYSTEM, StudyActor
from telic.studies.documents.candidate import CandidateStatus, Evidence
from telic.studies.documents.contract import RESOURCES, StopName, StopRule
from telic.studies.evidence.measurement import analyze_run
from telic.studies.evidence.reflection import reflect_run
from telic.studies.evidence.review import hacking_levels
from telic.studies.evidence.store import add_evidence
from telic.studies.rules.results import judge_conditions
from telic.studies.state import DecisionState, StudyState
from telic.studies.study import Study, fact

_Effect = Literal["close", "stop", "pause", "ask"]
_ENDED = (
    *(CandidateStatus.ACCEPTED, CandidateStatus.REJECTED),
    *(CandidateStatus.INCONCLUSIVE, CandidateStatus.DEBUG),
)
_LIFTS_ITSELF = ("hacking_high", "human_stop")
"""rules that end by themselves: after a review, a resume, or when the file STOP is removed"""


class Stop(Record):
    """A rule that holds now."""

    rule: StopName
    effect: _Effect
    why: str
    kill_running: bool = False


# ---------------------------------------------------------------------------- integrity


@fact
def ledger_problems(study: Study) -> tuple[str, ...]:
    """Return what is wrong with the chain itself; then nothing else can be trusted."""
    check = study.ledger.verify()
    return () if check.ok else (f"ledger line {check.bad_seq}: {check.why}",)


@fact
def agreement_problems(study: Study) -> tuple[str, ...]:
    """Return where files and approvals are no longer what was agreed on."""
    try:
        agreed = {
            "contract.yaml was edited and is not the agreed version": study.is_contract_agreed,
            "metric_spec.yaml is not the agreed one": study.is_metric_spec_agreed,
            "eval_protocol.yaml is not the agreed one": study.is_protocol_agreed,
        }
    except TelicError as error:
        return (error.message,)
    void = [each for each in study.missing_approvals if each.status == "void"]
    return (
        *(problem for problem, holds in agreed.items() if not holds),
        *(f"the approval {each.key} is void: {each.why}" for each in void),
    )


# ---------------------------------------------------------------------------- the rules


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
    return f"nothing is left of {', '.join(gone)}" if gone else None


def _max_candidates(study: Study, rule: StopRule) -> str | None:
    count = sum(each.kind != "baseline" for each in study.state.candidates.values())
    is_over = rule.value is not None and count >= rule.value
    return f"{count} candidates are all that were planned" if is_over else None


def _max_iterations(study: Study, rule: StopRule) -> str | None:
    count = len(_final(study.state))
    is_over = rule.value is not None and count >= rule.value
    return f"{count} decisions are all that were planned" if is_over else None


def _no_progress(study: Study, rule: StopRule) -> str | None:
    most = rule.k or 5
    recent = [x for x in _final(study.state) if x.phase == "promotion"][-most:]
    if len(recent) == most and all(x.to != CandidateStatus.ACCEPTED for x in recent):
        return f"the last {most} promotions were not accepted"
    return None


def _wallclock_deadline(study: Study, rule: StopRule) -> str | None:
    is_over = rule.at is not None and moment(utc_now()) >= moment(rule.at)
    return f"the deadline {rule.at} has passed" if is_over else None


def _failure_streak(study: Study, rule: StopRule) -> str | None:
    most, state = rule.k or 3, study.state
    ended = [
        each
        for each in state.candidates.values()
        if each.status in _ENDED and each.since_seq >= state.opened_seq
    ]
    latest = sorted(ended, key=lambda each: each.since_seq)[-most:]
    if len(latest) == most and all(each.status == CandidateStatus.DEBUG for each in latest):
        return f"the last {most} candidates all ended in debug"
    return None


def _hacking_high(study: Study, rule: StopRule) -> str | None:
    is_high = hacking_levels(study)[-2:] == ("high", "high")
    return "two reflections in a row say high" if is_high else None


def _human_stop(study: Study, rule: StopRule) -> str | None:
    if study.state.study_status == "paused":
        return "the study is paused"
    return "there is a file named STOP" if study.folder.stop_file.exists() else None


def _final(state: StudyState) -> list[DecisionState]:
    """Return the decisions that ended a try."""
    return [each for each in state.decisions.values() if each.to in _ENDED]


class _Row(NamedTuple):
    why: Callable[[Study, StopRule], str | None]
    effect: _Effect
    is_default: bool = False
    """applies to every study"""


_RULES: dict[StopName, _Row] = {
    "target_reached": _Row(_target_reached, "close"),
    "max_candidates": _Row(_max_candidates, "stop"),
    "max_iterations": _Row(_max_iterations, "stop"),
    "no_progress": _Row(_no_progress, "stop"),
    "wallclock_deadline": _Row(_wallclock_deadline, "stop"),
    "budget_exhausted": _Row(_budget_exhausted, "stop", is_default=True),
    "failure_streak": _Row(_failure_streak, "pause", is_default=True),
    "hacking_high": _Row(_hacking_high, "pause", is_default=True),
    "human_stop": _Row(_human_stop, "pause", is_default=True),
}


def check_stops(study: Study) -> list[Stop]:
    """Return the rules that hold now: those of the contract, and those that always apply."""
    rules = {rule.rule: rule for rule in study.state.stop_rules if rule.rule in _RULES}
    rules |= {
        name: StopRule(rule=name)
        for name, row in _RULES.items()
        if row.is_default and name not in rules
    }
    stops: list[Stop] = []
    for name, rule in rules.items():
        if why := _RULES[name].why(study, rule):
            effect = rule.action or _RULES[name].effect
            stops.append(Stop(rule=name, effect=effect, why=why, kill_running=rule.kill_running))
    return stops


@fact
def standing_stops(study: Study) -> tuple[Stop, ...]:
    """Return the stop rules that hold now or fired before and were not lifted."""
    # When a person reopens a study, they know of the rules that had fired.
    waived = {
        (event.data["rule"], event.data.get("why", ""))
        for event in study.events_of("stop.fired")
        if event.seq <= study.state.opened_seq and event.data["rule"] not in _LIFTS_ITSELF
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
    """Measure a run that has ended, reflect on its reward, and record what follows."""
    sheet = analyze_run(study, run, actor, is_unusable=is_unusable)
    state, terms = study.state.runs[run], {each.key for each in study.metric_spec.components}
    is_reward = study.candidate_state(state.candidate).kind.startswith("reward_")
    has_terms = sheet.payload["primary"] is not None and terms & sheet.payload["curves"].keys()
    if is_reward and state.phase != "smoke" and has_terms:
        reflect_run(study, run, actor)
    record_findings(study)
    return sheet


def record_findings(study: Study) -> bool:
    """Record conditions and stop rules that hold and are not yet in the ledger; True if any."""
    before, state = study.ledger.head, study.state
    is_agreed = state.contract_version is not None and study.folder.metric_spec.is_file()
    if not is_agreed or state.study_status != "open":
        return False
    with study.locked():
        for name in study.state.candidates:
            for result in judge_conditions(study, name):
                facts, by = result.as_data(), "telic.conditions"
                about = {"candidate": name, "producer": by, "summary": result.why}
                add_evidence(study, "condition", facts, SYSTEM, **about)
        for stop in standing_stops(study):
            if not _is_recorded(study, stop):
                facts = {"rule": stop.rule, "why": stop.why, "effect": stop.effect}
                stands = stop.effect in ("pause", "ask") and stop.rule not in _LIFTS_ITSELF
                study.append("stop.fired", None, {**facts, "stands": stands}, SYSTEM)
    return study.ledger.head != before


def _is_recorded(study: Study, stop: Stop) -> bool:
    """Return whether the ledger has this stop since the study was last opened."""
    since = study.state.opened_seq
    fired = [x for x in study.events_of("stop.fired") if x.data["rule"] == stop.rule]
    return bool(fired) and fired[-1].seq > since and fired[-1].data.get("why") == stop.why
