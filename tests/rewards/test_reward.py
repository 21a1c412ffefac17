import io

import pytest
import torch

from telic.errors import RewardError
from telic.rewards.reward import load_reward

from .conftest import REFERENCE, RUN_FORWARD, WITH_MEMORY


def call(reward, moment):
    return reward(moment.obs, moment.action, moment.next_obs, moment.info)


def test_members_with_other_weights_are_independent(small):
    reward = load_reward(RUN_FORWARD)
    reward.decide(small)
    fast = reward.with_weights({"speed": 10.0})
    assert reward.weights["speed"] == 1.0
    assert fast.mode == "batched"
    totals = []
    for each in (reward, fast):
        each.start(8, "cpu")
        totals.append(call(each, small.transitions[0]).terms["speed"])
    torch.testing.assert_close(totals[1], 10.0 * totals[0])
    assert fast.with_weights({"upright": 0.0}).weights["speed"] == 10.0


@pytest.mark.parametrize("source", [WITH_MEMORY, REFERENCE / "arithmetic.py"])
def test_a_resumed_reward_continues_bit_for_bit(source, recording):
    reward = load_reward(source)
    reward.decide(recording)
    reward.start(8, "cpu")
    middle = len(recording.transitions) // 2 - 1
    for moment in recording.transitions[:middle]:
        call(reward, moment)
        reward.reset(moment.ended)
    file = io.BytesIO()
    torch.save(reward.state_dict(), file)
    file.seek(0)
    resumed = load_reward(source)
    resumed.decide(recording)
    resumed.start(8, "cpu")
    resumed.load_state_dict(torch.load(file, weights_only=True))
    assert resumed.mode == reward.mode
    for moment in recording.transitions[middle:]:
        one, other = call(reward, moment), call(resumed, moment)
        assert torch.equal(one.total, other.total)
        assert torch.equal(reward.memory(), resumed.memory())
        reward.reset(moment.ended)
        resumed.reset(moment.ended)


def test_the_environments_own_reward_is_given_and_its_parts_are_terms(small):
    reward = load_reward(None)
    reward.decide(small)
    reward.start(8, "cpu")
    moment = small.transitions[0]
    given = torch.arange(8.0)
    step = reward(moment.obs, moment.action, moment.next_obs, moment.info, given)
    assert torch.equal(step.total, given)
    assert tuple(step.terms) == ("forward", "ctrl")
    with pytest.raises(RewardError, match=r"is missing"):
        call(reward, moment)


def test_a_call_before_start_is_refused(small):
    with pytest.raises(RewardError, match="called before start"):
        call(load_reward(RUN_FORWARD), small.transitions[0])
