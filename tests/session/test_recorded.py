"""Sessions as a language model really ran them, played again: its files must still be good.

Each recording holds every answer in the order it was asked for, and what training came to at the
time. Training is not repeated here; what the model wrote is checked, tried on examples and run.
"""

import json
from pathlib import Path

import pytest

from telic import llm
from telic.llm import Models
from telic.session.loop import run_session
from telic.storage.files import read_json
from telic.storage.layout import SessionFolder
from telic.testing.models import Scripted
from tests.heard import Heard

RECORDED = sorted((Path(__file__).parent / "recorded").glob("*.json"))
LOOKING = ("vision_criteria", "vision_judge", "vision_again")


@pytest.mark.slow
@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=[pytest.mark.long] * (path.stem != "backflip"), id=path.stem)
        for path in RECORDED
    ],
)
def test_what_a_model_wrote_then_is_still_accepted(path, home, tmp_path, monkeypatch):
    recorded = json.loads(path.read_text())
    script = {}
    for each in recorded["answers"]:
        if each["role"] not in LOOKING:
            script.setdefault(each["role"], []).append(each["answer"])
    provider = Scripted(script)
    monkeypatch.setattr(
        llm, "connect", lambda name, folder, **more: Models(provider, folder, **more)
    )
    told = Heard()
    session = run_session(
        recorded["intent"],
        env=recorded["env"],
        runs_dir=tmp_path,
        model="scripted",
        seeds=(1,),
        episodes=4,
        steps=512,
        iterations=1,
        vision=False,
        robustness=False,
        on_event=told,
    )
    first = ("elicitor", "judge_author", "reviewer", "reward_author")
    asked = [each.role for each in provider.requests]
    assert sorted(asked[:4]) == list(first) and set(asked[4:]) <= {"analyst"}
    [tried] = [each for each in told if each["event"] == "session.tried"]
    assert not tried["judge_problems"] and not tried["reward_problems"]
    judged = read_json(SessionFolder(session.path).iteration(1).judgment)
    assert judged["score"] is not None and not judged["passed"]  # 512 steps teach nobody


def test_the_recordings_say_what_it_took():
    assert len(RECORDED) >= 4
    for path in RECORDED:
        recorded = json.loads(path.read_text())
        assert recorded["outcome"] in ("passed", "not_passed")
        assert recorded["iterations"][-1]["passed"] == (recorded["outcome"] == "passed")
