"""Events are types: each has a name on disk, survives the way there and back, and is documented."""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import pytest

from telic.authors.author import MeasurableIntent
from telic.authors.candidate import SessionIteration
from telic.bench.results import CaseResult
from telic.core import events
from telic.core.events import (
    EVENTS,
    BenchEvent,
    EvalDone,
    LogMessage,
    ModelSent,
    SessionSpent,
    TrainFinding,
    TrainingEvent,
    TrainProgress,
    decode,
    encode,
    read_events,
)
from telic.core.events.codec import events_page
from telic.judges.trial import Trial
from telic.llm.records import Tokens
from telic.rewards.probe import ProbeReport
from telic.search.records import SearchRunSummary as SearchRunSummary
from telic.session.budget import AllowanceLeft, Spending
from telic.session.forecast import Forecast
from telic.training.results import EvaluationRecord, RunSummary

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "events.md"


def test_the_reference_page_is_current():
    assert PAGE.read_text() == events_page(), (
        "Write it anew: python -c 'from telic.core.events.codec import events_page; "
        f'print(events_page(), end="")\' > docs/reference/{PAGE.name}'
    )


def test_every_field_of_every_event_says_what_it_holds():
    page = events_page()
    for kind in EVENTS:
        for field in dataclasses.fields(kind):
            assert f"| `{field.name}` |" in page or field.name == "time", (kind, field.name)


def test_names_are_unique_and_importing_events_is_cheap():
    names = [kind.NAME for kind in EVENTS if kind is not BenchEvent]
    assert len(set(names)) == len(names) and all(names)
    heavy = "{'torch', 'numpy', 'pydantic'} & set(sys.modules)"
    code = f"import sys; import telic.core.events; assert not {heavy}, {heavy}"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_event_comes_back_from_its_line_of_json():
    told = [
        TrainFinding(time=1.5, member="a", name="plateau", message="m", values={"x": 1.0}, step=7),
        TrainProgress(
            step=1, total_steps=2, steps_per_second=None, seconds_left=None, returns={"a": None}
        ),
        SessionSpent(number=1, seconds=2.0, steps=3, usd=None, calls=0),
        events.SearchRunEnd(
            run=1,
            outcome="completed",
            method="cma",
            proposer="CMA-ES",
            model="none",
            iterations=1,
            candidates=1,
            episodes=1,
            steps=1,
            calls=0,
            price_usd=None,
            best=(1.0, 2.0),
            fresh=events.FreshReturn(mean=3.0, episodes=4),
            mean=1.0,
            mean_all=1.0,
            mean_selected=1.0,
            best_seen=1.0,
            incumbent_area=1.0,
            episodes_to_good=None,
            calls_to_good=None,
            fallbacks=0,
            seconds=1.0,
        ),
        events.SessionNotes(number=2, notes=(events.PersonNote(author="ada", text="slow"),)),
    ]
    for event in told:
        assert decode(json.loads(json.dumps(encode(event)))) == event
    assert encode(told[0])["event"] == "train.finding" and encode(told[0])["time"] == 1.5
    assert "time" not in encode(told[1])


def test_an_event_of_a_case_is_written_as_the_event_with_the_case():
    event = BenchEvent(case="walk", told=LogMessage(message="hello"))
    assert encode(event) == {"event": "log", "message": "hello", "case": "walk"}


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
        decode(row, TrainingEvent)


def test_logs_of_other_versions_are_read_as_far_as_they_are_understood():
    rows = [
        {"event": "log", "message": "hello", "of_tomorrow": 1},
        {"event": "of.tomorrow", "x": 1},
        {"event": "session.spent", "seconds": 1.0, "steps": 2, "usd": None, "calls": 0},
        {"event": "probe.done", "reward": "r", "mode": "batched", "microseconds_per_step": 1.0},
    ]
    said = list(read_events(rows))
    assert [type(each).NAME for each in said] == ["log", "session.spent", "probe.done"]
    assert isinstance(said[1], SessionSpent) and said[1].number is None


CERTIFIED = {"judge_hash", "env_args", "fine", "good"}
"""what a trial keeps for its certificate and does not tell"""


@pytest.mark.parametrize(
    ("kind", "record", "other"),
    [
        (events.ProbeDone, ProbeReport, {"reward"}),
        (events.TrainEnd, RunSummary, set()),
        (events.MemberEvaluation, EvaluationRecord, {"all_returns"}),
        (events.SessionAsked, MeasurableIntent, set()),
        (events.SessionTried, Trial, {"schema_version", *CERTIFIED, "reward_hash"}),
        (events.SessionForecast, Forecast, set()),
        (
            events.SessionJudged,
            SessionIteration,
            {"members", "trials", "judge_hash", "reward_hashes", "scores"},
        ),
        (events.SessionSpent, Spending, {"number", "left"}),
        (events.BudgetLeft, AllowanceLeft, set()),
        (events.SearchRunEnd, SearchRunSummary, set()),
        (events.BenchResult, CaseResult, set()),
        (events.TokenCount, Tokens, set()),
    ],
)
def test_an_event_made_from_a_record_has_its_fields(kind, record, other):
    fields = {field.name for field in dataclasses.fields(kind)} - {"time"}
    assert fields ^ set(record.model_fields) == other


def test_a_listener_matches_on_the_type():
    event = EvalDone(step=3, members={})
    match event:
        case EvalDone(step=step):
            assert step == 3
        case _:
            pytest.fail("not matched")
    assert not isinstance(event, ModelSent)
