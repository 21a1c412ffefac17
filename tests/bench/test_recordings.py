"""Recorded model replies of the benchmark are still valid answers."""

import json
import runpy
from functools import cache
from pathlib import Path

import pytest

from telic.authors.answers import Elicited, Review, Revision, WrittenJudge, WrittenReward
from telic.authors.candidate import check_judge, check_reward
from telic.bench.results import load_suite
from telic.testing.models import Replay

RECORDINGS = Path(__file__).parents[2] / "benchmarks" / "recordings"
CASES = sorted(path.parent.name for path in RECORDINGS.glob("*/result.json"))
ANSWERS = {
    "elicitor": Elicited,
    "reward_author": WrittenReward,
    "judge_author": WrittenJudge,
    "reviewer": Review,
}
MOST_BYTES = 300_000


@cache
def replies(case):
    paths = sorted((RECORDINGS / case / "replies").glob("*.json"))
    return [json.loads(path.read_text(encoding="utf-8")) for path in paths]


def answers(case, role):
    """Return the recorded reply of a role as a record."""
    return [
        ANSWERS[role].model_validate(_as_now(json.loads(reply["raw"]["text"])))
        for reply in replies(case)
        if reply["role"] == role
    ]


def _as_now(answer):
    """Leave out what is no longer asked for: other structures of a reward."""
    return {name: value for name, value in answer.items() if name != "others"}


@pytest.mark.parametrize("case", CASES)
def test_a_recording_says_what_came_of_it(case):
    result = json.loads((RECORDINGS / case / "result.json").read_text(encoding="utf-8"))
    suites = [load_suite(name) for name in ("core", "exotic", "files")]
    (known,) = [one for suite in suites for one in suite.case if one.id == case]
    assert result["case"] == case and result["intent"] == known.intent
    assert result["env"] == Path(known.env).name
    assert sum(result["orders"].values()) == len(replies(case))
    if result["outcome"] == "passed":
        assert result["low"] >= 0.8 and result["passing"] <= result["episodes"]
    size = sum(path.stat().st_size for path in (RECORDINGS / case).rglob("*.json"))
    assert size < MOST_BYTES


@pytest.mark.parametrize("case", CASES)
def test_what_was_recorded_can_still_be_used(case):
    for role in ANSWERS:
        answers(case, role)
    for written in answers(case, "reward_author"):
        check_reward(written.source)
    for written in answers(case, "judge_author"):
        check_judge(written.source)
    turns = [json.loads(each["raw"]["text"]) for each in replies(case) if each["role"] == "reviser"]
    for turn in filter(None, (each.get("revision") for each in turns)):  # others were looks
        revision = Revision.model_validate(_as_now(turn))
        if revision.source is not None:
            check_reward(revision.source)
    assert Replay(RECORDINGS / case / "replies").name == "host"


def test_a_recording_names_the_commit_that_was_trained_with(tmp_path):
    written = runpy.run_path(str(RECORDINGS.parent / "record.py"))
    written["record"].__globals__["RECORDINGS"] = tmp_path / "recordings"
    session = tmp_path / "bench" / "cases" / "one" / "session_1"
    for folder in ("replies", "iter_1/train"):
        (session / folder).mkdir(parents=True)
    (session / "session.json").write_text('{"env": "Hopper-v5", "intent": "jump"}')
    (session / "replies" / "a.json").write_text('{"role": "reviewer"}')
    manifest = session / "iter_1" / "train" / "manifest.json"
    for commit in ("0123abc", None):  # None: from before manifests said it
        manifest.write_text(json.dumps({"commit": commit} if commit else {}))
        (folder,) = written["record"](tmp_path / "bench")
        assert json.loads((folder / "result.json").read_text())["commit"] == commit
