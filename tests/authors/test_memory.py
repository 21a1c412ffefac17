"""Lessons of earlier sessions: found by robot and intent, and the same when a session goes on."""

from telic.authors.candidate import Lesson, RewardCandidate
from telic.authors.history import recall
from telic.authors.request import SessionConfig
from telic.storage.files import write_json
from tests.session.sessions import make_session

CONFIG = SessionConfig(intent="run backward fast", env="HalfCheetah-v5")


def learned(runs_dir, name, *lessons, finished=True, **config):
    folder = make_session(runs_dir, f"session_{name}", **config)
    for number, each in enumerate(lessons, start=1):
        made = RewardCandidate(reward="", env_args={}, steps=1, lessons=(each,))
        write_json(folder.iteration(number).candidate, made)
    if finished:
        write_json(folder.summary, {"outcome": "passed"})
    return folder


def test_the_most_similar_intent_comes_first_and_what_was_found_wrong_is_left_out(tmp_path):
    learned(tmp_path, "a", Lesson(text="hop first"), intent="jump high")
    learned(tmp_path, "b", Lesson(text="cap the speed"), intent="run backward")
    wrong = (Lesson(text="pay for height"), Lesson(text="pay for height", tier="retired"))
    learned(tmp_path, "c", *wrong, intent="run backward fast")
    learned(tmp_path, "d", Lesson(text="of another robot"), env="Ant-v5")
    learned(tmp_path, "e", Lesson(text="not finished"), finished=False)
    (tmp_path / "session_f").mkdir()
    (tmp_path / "session_f" / "session.json").write_text('{"of": "an older version"}')
    own = learned(tmp_path, "g", Lesson(text="my own"))
    found = recall(own, CONFIG.env, CONFIG.intent)
    assert [each.lesson.text for each in found.lessons] == ["cap the speed", "hop first"]
    assert "- cap the speed (from “run backward”)" in found.text()
