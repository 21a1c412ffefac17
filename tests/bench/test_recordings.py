"""What a model answered in recorded sessions of the benchmark is still an answer."""

import json
from functools import cache
from pathlib import Path

import pytest

from telic.authors.answers import Elicited, Review, Revision, WrittenJudge, WrittenReward
from telic.authors.candidate import check_judge, check_reward
from telic.testing.models import Replay

RECORDINGS = Path(__file__).parents[2] / "benchmarks" / "recordings"
CASES = sorted(path.parent.name for path in RECORDINGS.glob("*/result.json"))
ANSWERS = {
    "elicitor": Elicited,
    "reward_author": WrittenReward,
    "judge_author": WrittenJudge,
    "reviewer": Review,
}


@cache
def replies(case):
    paths = sorted((RECORDINGS / case / "replies").glob("*.json"))
    return [json.loads(path.read_text(encoding="utf-8")) for path in paths]


def answers(case, role):
    """What was answered in a role, as the record it must become."""
    return [
        ANSWERS[role].model_validate(_as_now(json.loads(reply["raw"]["text"])))
        for reply in replies(case)
        if reply["role"] == role
    ]


def _as_now(answer):
    """Leave out what is no longer asked for: other structures of a reward."""
    return {name: value for name, value in answer.items() if name != "others"}


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
