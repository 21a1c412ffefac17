import pytest
import torch

from telic.envs.vector import Info
from telic.errors import RewardError
from telic.rewards._runners import LoopedRunner
from telic.rewards.load import load_reward

COUNTER = """
def _make_reward():
    count = 0
    def reward_fn(obs, action, next_obs, info):
        nonlocal count
        count += 1
        return 10.0 * obs[0] + count, {"count": count}
    return reward_fn
"""


def runner_of(text, num_envs=3, is_stateful=True):
    runner = LoopedRunner(load_reward(text).definition, {}, None, is_stateful=is_stateful)
    runner.start(num_envs, "cpu")
    return runner


def inputs(num_envs=3):
    obs = torch.arange(num_envs * 2.0).view(num_envs, 2)
    return obs, obs[:, :1].clone(), obs + 1.0, Info.of({"x_velocity": torch.arange(num_envs) * 1.0})


def counts(runner):
    return runner.run(*inputs()).terms["count"].tolist()


def test_every_environment_has_a_state_of_its_own_renewed_with_its_episode():
    runner = runner_of(COUNTER)
    assert counts(runner) == [1, 1, 1]
    assert counts(runner) == [2, 2, 2]
    runner.reset(torch.tensor([False, True, False]))
    assert counts(runner) == [3, 1, 3]


def test_rows_are_given_as_plain_python():
    text = (
        "def reward_fn(obs, action, next_obs, info):\n"
        "    speed = info['x_velocity']\n"
        "    plain = isinstance(speed, float) and isinstance(obs, np.ndarray)\n"
        "    start = float(info.get('_episode_start', 7.0))\n"
        "    return float(plain) + obs.shape[0], {'start': start}\n"
    )
    step = runner_of(text, is_stateful=False).run(*inputs())
    assert step.total.tolist() == [3.0, 3.0, 3.0]
    assert step.terms["start"].tolist() == [7.0, 7.0, 7.0]


def test_discrete_actions_are_python_integers():
    text = "def reward_fn(obs, action, next_obs, info):\n    return [5.0, 7.0][action], {}\n"
    obs, _, next_obs, info = inputs()
    action = torch.tensor([0, 1, 1])
    step = runner_of(text, is_stateful=False).run(obs, action, next_obs, info)
    assert step.total.tolist() == [5.0, 7.0, 7.0]


def test_rows_are_copies():
    text = "def reward_fn(obs, action, next_obs, info):\n    obs[0] = 99.0\n    return 0.0, {}\n"
    runner = LoopedRunner(load_reward(text, trusted=True).definition, {}, None, is_stateful=False)
    runner.start(3, "cpu")
    given = [inputs()[0].double(), *inputs()[1:]]
    runner.run(*given)
    assert given[0].tolist() == inputs()[0].tolist()


@pytest.mark.parametrize(
    "line, message",
    [
        ("return 1.0", r"returned float\. Return the total"),
        ("return obs, {}", r"the total is an array of shape \(2,\); it must be one number"),
        ("return 0.0, {'a': None}", r'line 2, term "a" is a NoneType; it must be one number'),
        (
            "return 1.0 / (float(obs[0]) - 2.0), {}",
            r"line 2: ZeroDivisionError.*\(step 0, environment 1\)",
        ),
        ("return info['x_vel'], {}", r'no info named "x_vel" .*Closest: x_velocity'),
        ("return {'a': 1}['b'], {}", r'no key "b" in the dictionary'),
    ],
)
def test_mistakes_are_explained(line, message):
    text = f"def reward_fn(obs, action, next_obs, info):\n    {line}\n"
    with pytest.raises(RewardError, match=message):
        runner_of(text, is_stateful=False).run(*inputs())
