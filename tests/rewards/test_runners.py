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


def test_a_reset_of_its_own_may_replace_the_default():
    text = TURNS + (
        "\n    def reset(self, mask):\n"
        "        super().reset(mask)\n"
        "        self.memory['best'] = torch.where(mask, -5.0, self.memory['best'])\n"
    )
    runner = runner_of(text)
    runner.run(*inputs())
    runner.reset(torch.tensor([True, False, False]))
    assert runner.memory["best"].tolist() == [-5.0, 2.0, 4.0]


def test_nothing_a_reward_changes_reaches_the_caller():
    changes = "obs.zero_(); action.zero_(); next_obs.zero_(); info['x_velocity'].zero_()"
    line = f"{changes}; return obs[:, 0], {{}}"
    runner = runner_of(body(line), trusted=True)
    given = inputs()
    runner.run(*given)
    for value, kept in zip(given[:3], inputs()[:3], strict=True):
        assert torch.equal(value, kept)
    assert given[3]["x_velocity"].tolist() == [0.0, 1.0, 2.0]


def test_what_describes_the_environment_cannot_be_changed_for_others(small):
    line = "d = info.schema.bodies; d.clear(); info.spec.info_keys.clear(); return obs[:, 0], {}"
    runner = runner_of(body(line), 8, trusted=True)
    moment = small.transitions[0]
    runner.run(moment.obs, moment.action, moment.next_obs, moment.info)
    assert moment.info.body("torso").xpos.shape == (8, 3)
    assert moment.info.spec.info_keys


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


def test_single_numbers_serve_every_environment():
    step = runner_of(body("return 2.0, {'a': torch.tensor(1.5), 'b': obs[:, 0] > 1}")).run(
        *inputs()
    )
    assert step.total.tolist() == [2.0, 2.0, 2.0]
    assert step.terms["a"].tolist() == [1.5, 1.5, 1.5]
    assert step.terms["b"].tolist() == [0.0, 1.0, 1.0]
    assert all(each.dtype is torch.float32 for each in (step.total, *step.terms.values()))


def test_an_error_names_line_step_and_text():
    runner = runner_of(body("return obs[:, 7], {}"))
    with pytest.raises(RewardError) as caught:
        runner.run(*inputs())
    assert caught.value.line == 5
    assert "reward line 5: IndexError" in str(caught.value)
    assert "(step 0)" in str(caught.value)
    assert "return obs[:, 7], {}" in str(caught.value)
    assert "obs has 2 columns and action has 1" in str(caught.value)
