import pytest
import torch

from telic.envs.vector import Info
from telic.errors import RewardError
from telic.rewards.load import load_reward
from telic.rewards.vectorise.runner import VectorisedRunner


class Watched(Info):
    """An info that remembers what it was asked for."""

    def __init__(self, values):
        inner = Info.of(values)
        super().__init__(self._note, inner.schema)
        self.values = values
        self.asked = []

    def _note(self, name):
        self.asked.append(name)
        return self.values[name]


def inputs():
    obs = torch.arange(6.0).view(3, 2)
    info = Watched({"speed": torch.ones(3).double(), "mass": torch.ones(3).double()})
    return obs, obs[:, :1], obs + 1.0, info


def runner_of(text, names=("a",), weights=None):
    runner = VectorisedRunner(load_reward(text).definition, weights or {}, names)
    runner.start(3, "cpu")
    return runner


def function(line):
    return f"def reward_fn(obs, action, next_obs, info):\n    {line}\n"


def test_only_what_is_used_is_computed():
    runner = runner_of(
        function("m = info['mass'] * 2; a = float(info['speed']); return a, {'a': a}")
    )
    runner.run(*inputs())
    given = inputs()
    step = runner.run(*given)
    assert given[3].asked == ["speed"]
    assert step.terms["a"].tolist() == [1.0, 1.0, 1.0]
    assert step.total.dtype is torch.float32


def test_weights_are_those_given():
    text = (
        "class R(RewardFunction):\n    weights = {'a': 2.0}\n"
        "    def compute(self, obs, action, next_obs, info):\n"
        "        a = self.weights['a'] * float(obs[0])\n        return a, {'a': a}\n"
    )
    assert runner_of(text).run(*inputs()).total.tolist() == [0.0, 4.0, 8.0]
    assert runner_of(text, weights={"a": 5.0}).run(*inputs()).total.tolist() == [0.0, 10.0, 20.0]


def test_the_number_of_environments_may_change_at_a_start():
    runner = runner_of(function("a = float(np.sum(obs)); return a, {'a': a}"))
    assert runner.run(*inputs()).total.tolist() == [1.0, 5.0, 9.0]
    runner.start(2, "cpu")
    obs, action, next_obs, info = inputs()
    two = Info.of({name: info.values[name][:2] for name in info})
    assert runner.run(obs[:2], action[:2], next_obs[:2], two).total.tolist() == [1.0, 5.0]


@pytest.mark.parametrize(
    "line, reason",
    [
        ("a = float(np.interp(obs[0], [0, 1], [0, 1])); return a, {'a': a}", "line 2: np.interp"),
        ("a = sorted([obs[0], obs[1]])[0]; return a, {'a': a}", "line 2: a decision that differs"),
        ("a = sum(info.values()); return a, {'a': a}", "line 2: info is read by names not in"),
        ("a = [1.0, 2.0][int(obs[0])]; return a, {'a': a}", "line 2: a Python number"),
        ("return obs, {'a': 0.0}", "a term that is not one number"),
        ("return undefined, {'a': 0.0}", "NameError"),
    ],
)
def test_what_prevents_vectorising_is_named_with_its_line(line, reason):
    runner = VectorisedRunner(load_reward(function(line), trusted=True).definition, {}, ("a",))
    runner.start(3, "cpu")
    with pytest.raises(RewardError, match=reason):
        runner.run(*inputs())
