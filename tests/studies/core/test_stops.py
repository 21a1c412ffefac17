"""Each stop rule holds when it should and does not when it should not."""

from types import SimpleNamespace

import pytest

from telic.storage.journal import JournalHead
from telic.studies.documents.contract import Primary, StopRule, StudyBudget
from telic.studies.rules import results as module
from telic.studies.rules.results import check_stops
from telic.studies.state import CandidateState, DecisionState, Incumbent, StudyState

NOW = "2026-08-01T09:00:00Z"


def state(**fields):
    return StudyState("a/b", JournalHead(seq=0, hash=""), protocol_hash="p", **fields)


@pytest.fixture
def stops(monkeypatch, tmp_path):
    """Return a function that gives the effects of the rules that hold, by rule."""
    monkeypatch.setattr(module, "utc_now", lambda: NOW)

    def find(held=None, *, direction="max", target=None, levels=(), rails=(), **rule):
        held = held or state()
        held.stop_rules = (StopRule(**rule),) if rule else ()
        monkeypatch.setattr(module, "hacking_levels", lambda study: levels)
        audit = SimpleNamespace(guardrails=rails)
        study = SimpleNamespace(
            state=held,
            incumbent=held.incumbent,
            folder=SimpleNamespace(stop_file=tmp_path / "STOP"),
            metric_spec=SimpleNamespace(
                primary=Primary(key="x", direction=direction, target=target)
            ),
            audits=lambda name: (audit,),
        )
        return {each.rule: each.effect for each in check_stops(study)}

    return find


def incumbent(low, high):
    return state(incumbents={"p": Incumbent(candidate="c-1", ci=(low, high))})


def decided(*ends, phase="promotion", iqms=()):
    values = list(iqms) + [None] * len(ends)
    common = {"candidate": "c-1", "phase": phase, "actor": "human:ada", "at": NOW}
    found = {
        f"d-{n}": DecisionState(
            **common, verdict=to, to=to, incumbent=Incumbent(candidate="c-1", iqm=values[n])
        )
        for n, to in enumerate(ends)
    }
    return state(decisions=found)


def candidates(*statuses):
    made = {
        f"c-{n}": CandidateState(status=status, author="agent:x", since_seq=n)
        for n, status in enumerate(statuses)
    }
    return state(candidates=made)


def test_a_quiet_study_continues(stops):
    assert stops() == {}


def test_the_target_counts_when_the_interval_reaches_it(stops):
    reached = {"target_reached": "close"}
    assert stops(incumbent(0.91, 0.95), rule="target_reached", value=0.9) == reached
    assert stops(incumbent(0.89, 0.95), rule="target_reached", value=0.9) == {}
    lower = {"direction": "min", "target": 0.2, "rule": "target_reached"}
    assert stops(incumbent(0.1, 0.15), **lower) == reached
    assert stops(incumbent(0.1, 0.25), **lower) == {}


def test_an_empty_budget_stops(stops):
    assert stops(state(budget_limits=StudyBudget(launches=0))) == {"budget_exhausted": "stop"}


def test_counts(stops):
    one, two = {"value": 1}, {"value": 2}
    assert stops(candidates("draft"), rule="max_candidates", **one) == {"max_candidates": "stop"}
    assert stops(candidates("draft"), rule="max_candidates", **two) == {}
    assert stops(decided("rejected"), rule="max_iterations", **one) == {"max_iterations": "stop"}
    assert stops(decided("rejected"), rule="max_iterations", **two) == {}


def test_no_progress(stops):
    assert stops(decided(*["rejected"] * 5), rule="no_progress") == {"no_progress": "stop"}
    assert stops(decided(*["rejected"] * 4), rule="no_progress") == {}
    assert stops(decided("accepted", *["rejected"] * 4), rule="no_progress") == {}
    assert stops(decided(*["rejected"] * 5, phase="short_trial"), rule="no_progress") == {}


def test_the_deadline(stops):
    over = {"wallclock_deadline": "stop"}
    assert stops(rule="wallclock_deadline", at="2026-08-01T08:59:59Z") == over
    assert stops(rule="wallclock_deadline", at="2026-08-01T09:00:01Z") == {}


def test_a_streak_of_failures_pauses(stops):
    paused = {"failure_streak": "pause"}
    assert stops(candidates(*["debug"] * 3)) == paused
    assert stops(candidates("debug", "debug", "rejected")) == {}
    assert stops(candidates("debug", "debug"), rule="failure_streak", k=2) == paused


def test_what_comes_from_outside_the_ledger(stops, tmp_path):
    assert stops(levels=("low", "high", "high")) == {"hacking_high": "pause"}
    assert stops(levels=("high", "low", "high")) == {}
    assert stops(state(study_status="paused")) == {"human_stop": "pause"}
    (tmp_path / "STOP").touch()
    assert stops() == {"human_stop": "pause"}
