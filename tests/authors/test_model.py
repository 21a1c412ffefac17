"""A whole session with a model as its author, on scripted answers."""

import json
import threading
import time

import pytest

from telic import llm
from telic.llm import Models
from telic.llm.work_orders import ORDERS, answer_order, list_orders
from telic.session.loop import run_session
from telic.storage.files import read_json
from telic.storage.layout import SessionFolder
from telic.testing.models import Scripted
from tests.authors.scripts import REVISION, REWARD, SCRIPT, STRICT
from tests.event_list import EventList
from tests.session.quick import BATCH, at_home
from tests.training.small import SPEED

SMALL = {"seeds": (1, 2), "episodes": 4, "steps": 256, "vision": False, "model": "scripted"}


@pytest.fixture(autouse=True)
def home():
    """Let workers' work be done in this process."""
    with at_home() as patch:
        yield patch


@pytest.fixture
def scripted(monkeypatch):
    """Let sessions ask a script; returns what was asked."""

    def use(script):
        provider = Scripted(script)

        def connect(name, folder, **options):
            return Models(provider, folder, **options)

        monkeypatch.setattr(llm, "connect", connect)
        return provider

    return use


@pytest.mark.slow
def test_a_model_writes_is_reviewed_revises_and_sums_up(scripted, tmp_path):
    strict = {**SCRIPT, "judge_author": {"reasoning": "j", "source": STRICT}}
    lasts = {**SCRIPT["elicitor"]["criteria"][0], "goal": 50.0}
    strict["elicitor"] = {**SCRIPT["elicitor"], "criteria": [lasts], "demonstration": []}
    provider = scripted({**strict, "reviser": REVISION})
    session = run_session("run", runs_dir=tmp_path, iterations=2, **SMALL)
    roles = [each.role for each in provider.requests]
    assert sorted(roles[1:3]) == ["judge_author", "reward_author"]  # side by side
    assert [roles[0], *roles[3:]] == ["elicitor", "reviewer", "reviser", "analyst"]
    assert session.summary.outcome == "not_passed" and session.summary.iterations == 2
    folder = SessionFolder(session.path)
    second = read_json(folder.iteration(2).candidate)
    assert second["parent"] == 1 and second["change"] == "faster"
    assert [each["weights"]["speed"] for each in second["variants"]] == [2.0, 4.0]
    assert read_json(folder.analysis)["story"] == "It ran."
    reported = provider.requests[-1].prompt
    assert "2. from 1: faster" in reported and "speed needs weight" in reported
    assert "def judge" not in provider.requests[4].prompt  # the judge stays hidden


@pytest.mark.slow
def test_work_orders_can_be_answered_and_nothing_is_asked_twice(tmp_path):
    asked, keys, is_over = [], [], threading.Event()

    def play_the_model():
        end = time.monotonic() + 240
        while time.monotonic() < end and not is_over.is_set():
            for folder in tmp_path.glob(f"*/{ORDERS}"):
                for line in list_orders(folder):
                    if line.state == "open" and line.key not in keys:
                        asked.append(line.role)
                        keys.append(line.key)
                        answer_order(folder, line.key, json.dumps(SCRIPT[line.role]))
            time.sleep(0.05)

    person = threading.Thread(target=play_the_model)
    person.start()
    request = {**SMALL, "model": "host", "runs_dir": tmp_path, "iterations": 1}
    seen = EventList()
    stopped = run_session(
        "run",
        on_event=seen,
        should_stop=lambda: any(each["event"] == "train.start" for each in seen),
        **{**request, "steps": 32 * BATCH},
    )
    assert stopped.summary.outcome == "stopped"
    before = list(asked)
    assert set(before) == set(SCRIPT) - {"analyst"}
    finished = run_session("run", **{**request, "steps": 32 * BATCH})
    is_over.set()
    person.join()
    assert finished.path == stopped.path and finished.summary.outcome == "unproven"
    assert asked[len(before) :] == ["analyst"], "what was answered before is not asked again"


@pytest.mark.long
def test_reward_that_favors_failure_modes_is_rejected_before_training(scripted, tmp_path):
    lazy = SPEED.replace('"speed": 1.0', '"speed": -1.0')
    answers = [{**REWARD, "source": lazy}, REWARD]
    runs = """
from telic import leaf

def judge(episode):
    return [leaf("runs", episode.mean("forward_velocity"), zero=0.3, goal=2.5, tag="too_slow")]
"""
    script = {**SCRIPT, "reward_author": answers, "judge_author": {"reasoning": "", "source": runs}}
    speed = {"title": "runs", "quantity": "speed", "zero": 0.3, "goal": 2.5, "unit": "m/s"}
    script["elicitor"] = {**SCRIPT["elicitor"], "criteria": [speed], "fine": []}
    provider = scripted(script)
    reported = EventList()
    run_session("run", runs_dir=tmp_path, iterations=1, on_event=reported, **SMALL)
    [first, second] = [each.prompt for each in provider.requests if each.role == "reward_author"]
    assert "rejected" not in first and "rejected" in second and "These failure modes earn" in second
    tried = [each for each in reported if each["event"] == "session.tried"]
    assert tried[0]["reward_problems"] and not tried[1]["reward_problems"]
