import io

import numpy as np
import pytest
import torch

from telic.rewards._state import CannotCapture, capture, changed_names, restore
from telic.rewards.load import load_reward

EVERYTHING = """
from collections import deque
seen = []

class Filter:
    def __init__(self):
        self.value = 0.0
    def push(self, x):
        self.value = 0.9 * self.value + 0.1 * x
        return self.value

def _make_reward():
    count = 0
    history = deque(maxlen=3)
    smooth = Filter()
    shared = [0.0]
    both = {"one": shared, "two": shared}
    last = None

    def helper(x):
        nonlocal last
        last = x
        return x

    def reward_fn(obs, action, next_obs, info, cache={"n": 0}):
        nonlocal count
        count += 1
        history.append(float(obs[0]))
        seen.append(count)
        both["one"][0] += 1.0
        cache["n"] += 2
        helper(obs * 2.0)
        total = count + sum(history) + smooth.push(obs[1]) + both["two"][0] + cache["n"] + last[2]
        return float(total), {"all": float(total) + len(seen) * 0.0}
    return reward_fn

reward_fn = _make_reward()
"""


def advance(instance, steps):
    obs = np.arange(3.0)
    return [instance.call(obs + k, None, None, {})[0] for k in range(steps)]


def test_every_place_that_keeps_values_is_saved_and_put_back_without_running_code():
    definition = load_reward(EVERYTHING, trusted=True).definition
    one, other = definition.create({}), definition.create({})
    untouched = capture(definition.create({}))
    advance(one, 5)
    assert changed_names(untouched, capture(one))
    assert changed_names(untouched, capture(other)) == []  # instances share nothing
    file = io.BytesIO()
    torch.save(capture(one), file)
    file.seek(0)
    twin = definition.create({})
    restore(twin, torch.load(file, weights_only=True))
    assert changed_names(capture(one), capture(twin)) == []
    assert advance(twin, 4) == advance(one, 4)


def test_what_is_not_data_cannot_be_captured():
    text = "class R(RewardFunction):\n    def __init__(self):\n        self.steps = iter([1, 2])\n"
    instance = load_reward(text, trusted=True).definition.create({})
    with pytest.raises(CannotCapture, match="steps is a list_iterator"):
        capture(instance)
