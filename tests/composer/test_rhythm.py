"""Jumps at regular times: recognised by the time from one landing to the next."""

import pytest

from telic.composer.acrobatics import beats
from telic.composer.compose import compose
from telic.errors import BadEnvironment
from telic.judges.code import JudgeCode
from telic.judges.criteria import Motion
from telic.judges.demonstrations import demonstration
from telic.rewards.reward import load_reward
from tests.composer.specs import spec_of

CHEETAH = "HalfCheetah-v5"
INTENT = "jump every 2 seconds"


def score(made, motions):
    verdict = JudgeCode(made.judge)(
        demonstration(CHEETAH, made.env_args, motions), spec_of(CHEETAH, **made.env_args)
    )
    assert verdict.score is not None, verdict.reason
    return verdict.score


def jumps(seconds, count):
    return Motion(seconds=seconds, jumps=count, height_m=0.7)


def test_jumps_in_time_are_recognised_and_others_are_not():
    made = compose(INTENT, spec_of(CHEETAH))
    still = Motion(seconds=1)
    assert made.dropped == () and score(made, made.motions) >= 0.95
    for other in (
        [still],
        [jumps(1.5, 1), Motion(seconds=20)],  # once
        [jumps(9, 9)],  # twice as often
        [jumps(6, 2), Motion(seconds=20)],  # every three seconds
        [jumps(1, 1), Motion(seconds=0.2), jumps(1, 1), Motion(seconds=3), jumps(2, 2), still],
    ):
        assert score(made, other) < 0.8


@pytest.mark.parametrize(("period", "count"), [(0.5, 4), (3.0, 4), (7.0, 3), (12.0, 2), (25.0, 1)])
def test_there_is_time_for_what_is_judged(period, count):
    assert beats(period) == count


def test_what_there_is_no_time_for_is_lower_or_refused():
    assert "what there is time for" in compose("jump twice per second", spec_of(CHEETAH)).doubts[0]
    with pytest.raises(BadEnvironment, match="less than two of these"):
        compose("jump every 20 seconds", spec_of(CHEETAH))


def test_the_policy_sees_how_long_it_has_waited():
    made = compose(INTENT, spec_of(CHEETAH))
    assert load_reward(made.reward).seen_memory and '"waited"' in made.reward
