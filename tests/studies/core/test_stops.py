"""Each stop rule holds when it should and does not when it should not."""

import pytest

from telic.studies.budget import BudgetState
from telic.studies.documents.contract import StopRule
from telic.studies.rules.stops import StopFacts, check_stops
from telic.studies.state import CandidateState, DecisionState, Incumbent, StudyState

NOW = "2026-08-01T09:00:00Z"


def stops(state=None, facts=None, **rule):
    rules = (StopRule(**rule),) if rule else ()
    state = (state or StudyState(study="a/b")).model_copy(update={"stop_rules": rules})
    return {each.rule: each.effect for each in check_stops(state, facts or StopFacts(now=NOW))}


def incumbent(low, high):
    return StudyState(study="a/b", incumbent=Incumbent(candidate="c-1", ci=(low, high)))


def decided(*ends, phase="promotion", iqms=()):
    values = list(iqms) + [None] * len(ends)
    found = {
        f"d-{number}": DecisionState(
            candidate="c-1",
            verdict=to,
            to=to,
            phase=phase,
            actor="human:ada",
            at=NOW,
            incumbent=Incumbent(candidate="c-1", iqm=values[number]),
        )
        for number, to in enumerate(ends)
    }
    return StudyState(study="a/b", decisions=found)


def candidates(*statuses):
    made = {
        f"c-{n}": CandidateState(status=status, author="agent:x", since_seq=n)
        for n, status in enumerate(statuses)
    }
    return StudyState(study="a/b", candidates=made)


def test_a_quiet_study_goes_on():
    assert stops() == {}


def test_the_target_counts_when_the_interval_holds_it():
    assert stops(incumbent(0.91, 0.95), rule="target_reached", value=0.9) == {
        "target_reached": "close"
    }
    assert stops(incumbent(0.89, 0.95), rule="target_reached", value=0.9) == {}
    lower = StopFacts(now=NOW, direction="min", target=0.2)
    assert stops(incumbent(0.1, 0.15), lower, rule="target_reached") == {"target_reached": "close"}
    assert stops(incumbent(0.1, 0.25), lower, rule="target_reached") == {}


def test_an_empty_budget_stops():
    state = StudyState(study="a/b", budget=BudgetState(left={"launches": 0}))
    assert stops(state) == {"budget_exhausted": "stop"}


def test_counts():
    assert stops(candidates("draft"), rule="max_candidates", value=1) == {"max_candidates": "stop"}
    assert stops(candidates("draft"), rule="max_candidates", value=2) == {}
    assert stops(decided("rejected"), rule="max_iterations", value=1) == {"max_iterations": "stop"}
    assert stops(decided("rejected"), rule="max_iterations", value=2) == {}


def test_no_progress():
    assert stops(decided(*["rejected"] * 5), rule="no_progress") == {"no_progress": "stop"}
    assert stops(decided(*["rejected"] * 4), rule="no_progress") == {}
    assert stops(decided("accepted", *["rejected"] * 4), rule="no_progress") == {}
    short = decided(*["rejected"] * 5, phase="short_trial")
    assert stops(short, rule="no_progress") == {}


def test_small_gains_over_the_last_accepts():
    slow = decided(*["accepted"] * 3, iqms=(1.0, 1.004, 1.008))
    fast = decided(*["accepted"] * 3, iqms=(1.0, 1.004, 1.02))
    assert stops(slow, rule="no_progress", m=2, action="ask") == {"no_progress": "ask"}
    assert stops(fast, rule="no_progress", m=2) == {}


def test_the_deadline():
    assert stops(rule="wallclock_deadline", at="2026-08-01T08:59:59Z") == {
        "wallclock_deadline": "stop"
    }
    assert stops(rule="wallclock_deadline", at="2026-08-01T09:00:01Z") == {}


def test_a_streak_of_failures_pauses():
    assert stops(candidates(*["debug"] * 3)) == {"failure_streak": "pause"}
    assert stops(candidates("debug", "debug", "rejected")) == {}
    assert stops(candidates("debug", "debug"), rule="failure_streak", k=2) == {
        "failure_streak": "pause"
    }


@pytest.mark.parametrize(
    ("facts", "found"),
    [
        ({"guardrail_breaches": ("falls",)}, {"guardrail_breach": "pause"}),
        ({"hacking_levels": ("low", "high", "high")}, {"hacking_high": "pause"}),
        ({"hacking_levels": ("high", "low", "high")}, {}),
        ({"integrity": ("the ledger is broken",)}, {"integrity": "pause"}),
        ({"stop_file": True}, {"human_stop": "pause"}),
    ],
)
def test_what_comes_from_outside_the_ledger(facts, found):
    assert stops(facts=StopFacts(now=NOW, **facts)) == found


def test_a_paused_study_stands_still():
    assert stops(StudyState(study="a/b", study_status="paused")) == {"human_stop": "pause"}
