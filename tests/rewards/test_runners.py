import pytest
import torch

from telic.envs.vector import Info
from telic.errors import RewardError
from telic.rewards._run import BatchedRunner
from telic.rewards.reward import load_reward

TURNS = """
class Turns(RewardFunction):
    memory = {"turns": 1.0, "start": (2,), "best": 0.0}

    def compute(self, obs, action, next_obs, info):
        self.memory["turns"] = self.memory["turns"] + obs[:, 0]
        self.memory["start"] += 1.0
        self.memory["best"] = torch.maximum(self.memory["best"], obs[:, 0])
        terms = {"turns": self.memory["turns"], "best": self.memory["best"]}
        return sum(terms.values()), terms
"""


def runner_of(text, num_envs=3, **options):
    return BatchedRunner(load_reward(text, **options).code, {}, num_envs, "cpu")


def memory(runner):
    return {name: value.tolist() for name, value in runner.memory.items()}


def inputs(num_envs=3):
    obs = torch.arange(num_envs * 2.0).view(num_envs, 2)
    return obs, obs[:, :1].clone(), obs + 1.0, Info.of({"x_velocity": torch.arange(num_envs) * 1.0})


def body(line, attributes=""):
    return (
        f"class R(RewardFunction):\n    weights = {{'a': 1.0}}\n    {attributes}\n"
        f"    def compute(self, obs, action, next_obs, info):\n        {line}\n"
    )


def test_memory_lasts_until_its_row_is_reset():
    runner = runner_of(TURNS)
    first = runner.run(*inputs())
    assert first.terms["turns"].tolist() == [1.0, 3.0, 5.0]
    assert memory(runner) == {"turns": [1, 3, 5], "start": [[1, 1]] * 3, "best": [0, 2, 4]}
    runner.reset(torch.tensor([False, True, False]))
    rest = {"turns": [1, 1, 5], "start": [[1, 1], [0, 0], [1, 1]], "best": [0, 0, 4]}
    assert memory(runner) == rest
    assert runner.memory["best"].dtype is torch.float32


def test_nothing_a_reward_changes_reaches_the_caller():
    changes = "obs.zero_(); action.zero_(); next_obs.zero_(); info['x_velocity'].zero_()"
    line = f"{changes}; return obs[:, 0], {{}}"
    runner = runner_of(body(line), trusted=True)
    given = inputs()
    runner.run(*given)
    for value, kept in zip(given[:3], inputs()[:3], strict=True):
        assert torch.equal(value, kept)
    assert given[3]["x_velocity"].tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize(
    "line, message",
    [
        (
            "return obs, {}",
            r"the total has shape \(3, 2\), expected \(3,\) for 3 environments.*\.sum\(-1\)",
        ),
        ("return obs[:, :1], {}", r"has shape \(3, 1\).*Omit keepdim"),
        ("return obs[0], {}", r"the total has shape \(2,\).*x\[:, 3\]"),
        ("return obs[:, 0], {'a': obs}", r'line 5, term "a" has shape \(3, 2\)'),
        ("return obs[:, 0], {'a': 'text'}", r'term "a" is a str, not a tensor'),
        ("return obs[:, 0]", r"returned Tensor\. Return the total and a dictionary"),
        ("return obs[:, 0], obs, {}", r"returned 3 values \(Tensor, Tensor, dict\)"),
    ],
)
def test_wrong_results_are_explained(line, message):
    with pytest.raises(RewardError, match=message):
        runner_of(body(line)).run(*inputs())


@pytest.mark.parametrize(
    "line, message",
    [
        ("self.memory['n'] = obs.sum(); return obs[:, 0], {}", r'memory "n" became \(\).*\(3,\)'),
        ("self.memory['n'] = 1.0; return obs[:, 0], {}", r'memory "n" became float'),
        ("self.memory['m'] = obs; return obs[:, 0], {}", r"memory m was not declared.*has n"),
    ],
)
def test_memory_must_keep_its_shape(line, message):
    with pytest.raises(RewardError, match=message):
        runner_of(body(line, "memory = {'n': 0.0}")).run(*inputs())
