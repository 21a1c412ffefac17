import pytest
import torch

from telic.envs.vector import Info
from telic.errors import RewardError
from telic.rewards._run import LoopedRunner
from telic.rewards.reward import load_reward


def batched(line, attributes="weights = {'a': 1.0}"):
    return (
        f"class R(RewardFunction):\n    {attributes}\n"
        f"    def compute(self, obs, action, next_obs, info):\n        {line}\n"
    )


def per_step(line):
    return f"def reward_fn(obs, action, next_obs, info):\n    {line}\n"


def decide(text, recording, **options):
    reward = load_reward(text, **options)
    return reward.decide(recording)


def finding(decision, name):
    return next(each for each in decision.findings if each.name == name)


def test_a_batched_reward_is_run_batched(small):
    decision = decide(batched("v = obs[:, 0]; return v, {'v': v}"), small)
    assert (decision.mode, decision.term_names, decision.findings) == ("batched", ("v",), ())
    assert decision.microseconds > 0


def test_a_sum_over_everything_is_read_per_step_when_nothing_says_batched(small):
    decision = decide(per_step("v = -(action ** 2).sum(); return v, {'v': v}"), small)
    assert decision.mode == "vmap"


def test_a_batched_reward_must_not_mix_environments(small):
    for line in (
        "v = info['x_velocity'] - obs.mean(); return v, {'v': v}",
        "v = torch.sum(obs) * info['x_velocity']; return v, {'v': v}",
    ):
        with pytest.raises(
            RewardError, match=r"line 4, term .v. depends on other environments .* among 8.* x.mean"
        ):
            decide(batched(line), small)


def test_a_batched_reward_must_not_keep_values_outside_memory(small):
    line = (
        "last = self.last if self.last is not None else obs[:, 0]\n"
        "        self.last = obs[:, 0]\n"
        "        return obs[:, 0] - last, {'v': obs[:, 0] - last}"
    )
    with pytest.raises(RewardError) as caught:
        decide(batched(line, "weights = {'a': 1.0}\n    last = None"), small)
    assert caught.value.line == 6
    assert "last keeps a value between steps" in str(caught.value)
    assert 'Declare memory = {"last": 0.0}' in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        batched("v = obs[:, 0] + torch.rand(len(obs)); return v, {'v': v}"),
        per_step("v = float(obs[0]) + np.random.rand(); return v, {'v': v}"),
        "import time\n" + per_step("v = float(obs[0]) + time.perf_counter(); return v, {'v': v}"),
    ],
)
def test_chance_and_the_clock_are_refused(text, small):
    with pytest.raises(
        RewardError, match=r"line \d, term .v. was .* for the same transition.* must not depend on"
    ):
        decide(text, small, trusted=True)


def test_state_that_shows_only_in_training_is_kept_apart(small):
    text = (
        "class R(RewardFunction):\n    def __init__(self):\n        self.done = False\n"
        "    def compute(self, obs, action, next_obs, info):\n"
        "        self.done = self.done or float(obs[0]) > 1e6\n"
        "        return float(self.done), {'done': float(self.done)}\n"
    )
    reward = load_reward(text)
    decision = reward.decide(small)
    assert (decision.mode, decision.is_stateful) == ("looped", True)
    assert "a resumed run starts without it" in finding(decision, "not_resumable").message
    reward.start(8, "cpu")
    moment = small.transitions[0]
    obs = moment.obs.clone()
    obs[3, 0] = 1e7
    for seen in (obs, moment.obs):
        total = reward(seen, moment.action, moment.next_obs, moment.info).total
        assert total.tolist() == [0, 0, 0, 1, 0, 0, 0, 0]
    reward.reset(torch.ones(8, dtype=torch.bool))
    assert not reward(moment.obs, moment.action, moment.next_obs, moment.info).total.any()


def test_the_message_of_the_intended_contract_is_shown(small):
    with pytest.raises(RewardError, match=r"torch.where\(condition, a, b\) instead of if"):
        decide(
            batched(
                "v = obs[:, 0]\n        if v > 0:\n            v = v * 2\n        return v, {}"
            ),
            small,
        )
    with pytest.raises(RewardError, match="IndexError"):
        decide(per_step("v = float(obs[99]); return v, {}"), small)


# ---- one environment at a time


def inputs(num_envs=3):
    obs = torch.arange(num_envs * 2.0).view(num_envs, 2)
    return obs, obs[:, :1].clone(), obs + 1.0, Info.of({"x_velocity": torch.arange(num_envs) * 1.0})


def looped(text, **options):
    return LoopedRunner(load_reward(text, **options).code, {}, 3, "cpu")


@pytest.mark.parametrize(
    "line, message",
    [
        ("return 1.0", r"returned float.*Return the total"),
        ("return obs, {}", r"the total is an array of shape \(2,\), expected a number"),
        ("return 0.0, {'a': None}", r'line 2, term "a" is a NoneType, expected a number'),
        (
            "return 1.0 / (float(obs[0]) - 2.0), {}",
            r"line 2: ZeroDivisionError.*\(step 0, environment 1\)",
        ),
        ("return info['x_vel'], {}", r'no info named "x_vel" .*Closest: x_velocity'),
        ("return info['mj_data'], {}", r"The simulator itself is not available"),
        ("return {'a': 1}['b'], {}", r'no key "b" in the dictionary'),
    ],
)
def test_mistakes_are_explained(line, message):
    with pytest.raises(RewardError, match=message):
        looped(per_step(line)).run(*inputs())
