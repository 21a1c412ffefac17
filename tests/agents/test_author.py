"""A model as the author: criteria first, then two authors who do not see one another."""

import threading
import time

import pytest

from telic.agents.author import author
from telic.envs import make
from telic.errors import RewardError
from telic.llm import Models, Scripted, answer_order, list_orders
from telic.llm.orders import ORDERS
from telic.session import loop
from telic.session.api import run
from tests.training.small import SPEED

CRITERIA = {
    "criteria": [
        {"title": "runs", "quantity": "forward_velocity", "goal": "3 m/s", "kind": "sustained"}
    ],
    "seconds": 2.0,
    "ambiguous": ["how fast: 3 m/s"],
}
JUDGE = """
from telic import leaf

def judge(episode):
    return [leaf("lasts", episode.seconds, zero=0.0, goal=1.0, unit="s", tag="ends_early")]
"""
REWARD = {"reasoning": "r", "source": SPEED, "steps": 10_000}
SCRIPT = {
    "elicitor": CRITERIA, "reward_author": REWARD,
    "judge_author": {"reasoning": "j", "source": JUDGE},
}  # fmt: skip


@pytest.fixture(scope="module")
def spec():
    return make("HalfCheetah-v5", num_envs=1).spec


def test_an_intent_becomes_criteria_reward_and_judge(spec, tmp_path):
    scripted = Scripted(SCRIPT)
    made = author(Models(scripted, tmp_path), "run", spec)
    assert made.reward == SPEED and made.judge == JUDGE and made.steps == 10_000
    assert made.env_args == {"max_episode_steps": 40} and made.doubts == ("how fast: 3 m/s",)
    by_role = {each.role: each.prompt for each in scripted.requests}
    assert "forward_velocity" in by_role["elicitor"] and "3 m/s" in by_role["reward_author"]
    assert "lasts" not in by_role["reward_author"]  # the judge is hidden from it
    assert "class Speed" not in by_role["judge_author"]


def test_a_file_that_is_refused_goes_back_with_the_reason(spec, tmp_path):
    bad = {**REWARD, "source": "import os\n" + SPEED}
    scripted = Scripted({**SCRIPT, "reward_author": [bad, REWARD]})
    made = author(Models(scripted, tmp_path), "run", spec)
    assert made.reward == SPEED
    prompts = [each.prompt for each in scripted.requests if each.role == "reward_author"]
    assert "was refused" in prompts[1] and "os" in prompts[1]


def test_an_author_who_never_writes_a_usable_file_is_an_error(spec, tmp_path):
    broken = {"reasoning": "j", "source": "def judge(:"}
    scripted = Scripted({**SCRIPT, "judge_author": [broken] * 3})
    with pytest.raises(RewardError, match="no usable file"):
        author(Models(scripted, tmp_path), "run", spec)


def test_a_session_runs_on_work_orders_and_asks_nothing_twice(tmp_path, monkeypatch):
    answers = {role: __import__("json").dumps(value) for role, value in SCRIPT.items()}
    asked = []

    def play_the_model():
        end = time.monotonic() + 60
        while time.monotonic() < end and len(asked) < 3:
            for folder in tmp_path.glob(f"*/{ORDERS}"):
                for line in list_orders(folder):
                    if line.state == "open":
                        asked.append(line.role)
                        answer_order(folder, line.key, answers[line.role])
            time.sleep(0.1)

    person = threading.Thread(target=play_the_model)
    person.start()
    request = {"runs_dir": tmp_path, "model": "host", "episodes": 4, "iterations": 1}
    session = run("run", steps=256, **request)
    person.join()
    assert session.passed and sorted(asked) == sorted(SCRIPT)
    (session.path / "summary.json").unlink()
    (session.path / "author.json").unlink()
    monkeypatch.setattr(loop, "compose", None)
    assert run("run", steps=256, **request).path == session.path  # answers are on disk
    assert len(asked) == 3
