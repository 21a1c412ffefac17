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

    def find(held=None, *, direction="max", target=None, **rule):
        held = held or state()
        held.stop_rules = (StopRule(**rule),) if rule else ()
        study = SimpleNamespace(
            state=held,
            incumbent=held.incumbent,
            folder=SimpleNamespace(stop_file=tmp_path / "STOP"),
            metric_spec=SimpleNamespace(
                primary=Primary(key="x", direction=direction, target=target)
            ),
        )
        return {each.rule: each.effect for each in check_stops(study)}

    return find


def incumbent(low, high):
    return state(incumbents={"p": Incumbent(candidate="c-1", ci=(low, high))})


def decided(*ends, phase="promotion"):
    facts = {"candidate": "c-1", "phase": phase, "actor": "human:ada", "at": NOW}
    found = {f"d-{n}": DecisionState(**facts, verdict=x, to=x) for n, x in enumerate(ends)}
    return state(decisions=found)


def candidates(*statuses):
    made = {
        f"c-{n}": CandidateState(status=status, author="agent:x", since_seq=n)
        for n, status in enumerate(statuses)
    }
    return state(candidates=made)


def test_the_target_counts_when_the_interval_reaches_it(stops):
    assert stops() == {}, "a quiet study continues"
    reached = {"target_reached": "close"}
    assert stops(incumbent(0.91, 0.95), rule="target_reached", value=0.9) == reached
    assert stops(incumbent(0.89, 0.95), rule="target_reached", value=0.9) == {}
    lower = {"direction": "min", "target": 0.2, "rule": "target_reached"}
    assert stops(incumbent(0.1, 0.15), **lower) == reached
    assert stops(incumbent(0.1, 0.25), **lower) == {}


def test_budget_counts_and_deadline(stops):
    assert stops(state(budget_limits=StudyBudget(launches=0))) == {"budget_exhausted": "stop"}
    held, rule = candidates("rejected"), "max_candidates"
    assert stops(held, rule=rule, value=1) == {rule: "stop"}
    assert stops(candidates("draft"), rule=rule, value=1) == {}, "it must be decided first"
    assert stops(held, rule=rule, value=2) == {}
    over = {"wallclock_deadline": "stop"}
    assert stops(rule="wallclock_deadline", at="2026-08-01T08:59:59Z") == over
    assert stops(rule="wallclock_deadline", at="2026-08-01T09:00:01Z") == {}


def test_what_comes_from_outside_the_ledger(stops, tmp_path):
    assert stops(state(study_status="paused")) == {"human_stop": "pause"}
    (tmp_path / "STOP").touch()
    assert stops() == {"human_stop": "pause"}
