"""Events are records: each has a name on disk, is read back, and is documented."""

import json
from importlib import import_module

import pytest
from scripts import events_page

from telic.core.events import (
    EVENTS,
    TRAINING_EVENTS,
    TrainProgress,
    decode_event,
    encode_event,
    log_line,
    read_events,
)
from telic.session.budget import Spending
from telic.session.control import DeliveredNotes, Note
from telic.training.results import Finding


def test_the_reference_page_is_current():
    current = events_page.PAGE.read_text() == events_page.page()
    assert current, "Write it again: python scripts/events_page.py"


def test_every_event_is_where_the_table_says_under_its_own_name():
    for name, home in EVENTS.items():
        module, _, kind = home.partition(":")
        event = getattr(import_module(module), kind)
        assert name == event.NAME
        assert all(not event.model_fields[field].is_required() for field in event.OMITTED)


def test_an_event_comes_back_from_its_line_of_json():
    note = Note(id="1", time="t", author="ada", text="slow")
    for event in (
        Finding(member="a", name="plateau", message="m", values={"x": 1.0}, step=7),
        TrainProgress(
            step=1, total_steps=2, steps_per_second=None, seconds_left=None, returns={"a": None}
        ),
        Spending(number=1, seconds=2.0, steps=3, usd=None, calls=0),
        DeliveredNotes(delivered_at="t", number=2, notes=(note,)),
    ):
        assert decode_event(json.loads(json.dumps(encode_event(event)))) == event
        assert next(read_events([log_line(event)])) == event
    assert log_line(event)["time"] > 1e9


@pytest.mark.parametrize(
    "row",
    [
        {},
        {"event": ["log"]},
        {"event": "log"},
        {"event": "log", "message": {"no": "text"}},
        {"event": "session.paused", "message": "not said by a training"},
        {"event": "eval.done", "step": 1, "members": {"a": {"mean_return": "high"}}},
        {"event": "train.finding", "member": "a", "name": "b", "message": "c", "values": [1]},
    ],
)
def test_a_line_that_a_confined_training_may_not_send_is_refused(row):
    with pytest.raises(ValueError):
        decode_event(row, TRAINING_EVENTS)


def test_what_another_version_wrote_otherwise_is_left_out():
    rows = [
        {"event": "log", "message": "kept", "later": 1},
        {"event": "unknown.kind"},
        {"event": "train.start", "run": 3},
        {"event": "log", "message": "kept too", "time": 5.0},
    ]
    assert [event.message for event in read_events(rows)] == ["kept", "kept too"]
