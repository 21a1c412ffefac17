import pytest
import torch

from telic.errors import RewardError
from telic.rewards.load import load_reward

from .conftest import REFERENCE, run


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
    assert decision.microseconds["batched"] > 0


def test_code_without_any_sign_is_batched_when_rows_are_kept_apart(small):
    decision = decide(per_step("v = info['x_velocity'] * 2; return v, {'v': v}"), small)
    assert decision.mode == "batched"


def test_a_sum_over_everything_is_read_per_step_when_nothing_says_batched(small):
    decision = decide(per_step("v = -(action ** 2).sum(); return v, {'v': v}"), small)
    assert decision.mode == "vmap"
    assert set(decision.microseconds) == {"vmap"}


@pytest.mark.parametrize(
    "line, fix",
    [
        (
            "v = info['x_velocity'] - obs.mean(); return v, {'v': v}",
            r"Write obs.mean\(-1\) instead",
        ),
        (
            "v = torch.sum(obs) * info['x_velocity']; return v, {'v': v}",
            r"Write torch.sum\(obs, -1\) instead of torch.sum\(obs\)",
        ),
    ],
)
def test_a_batched_reward_must_not_mix_environments(line, fix, small):
    with pytest.raises(RewardError, match=fix) as caught:
        decide(batched(line), small)
    assert caught.value.line == 4
    assert "depends on the others" in str(caught.value)
    assert "among 8" in str(caught.value)


def test_a_batched_reward_must_not_keep_values_outside_memory(small):
    line = (
        "last = self.last if self.last is not None else obs[:, 0]\n"
        "        self.last = obs[:, 0]\n"
        "        return obs[:, 0] - last, {'v': obs[:, 0] - last}"
    )
    with pytest.raises(RewardError) as caught:
        decide(batched(line, "weights = {'a': 1.0}\n    last = None"), small)
    assert caught.value.line == 6
    assert "last keeps a value from one step to the next" in str(caught.value)
    assert 'Declare memory = {"last": 0.0}' in str(caught.value)


def test_a_constant_made_once_is_only_mentioned(small):
    line = (
        "if self.scale is None:\n            self.scale = torch.ones(1)\n"
        "        v = self.scale * obs[:, 0]\n        return v, {'v': v}"
    )
    decision = decide(batched(line, "weights = {'a': 1.0}\n    scale = None"), small)
    assert decision.mode == "batched"
    assert "keeps scale between steps" in finding(decision, "kept_attribute").message


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
        RewardError, match=r"line \d: the same transition gave .* must not depend on"
    ):
        decide(text, small, trusted=True)


def test_looping_says_what_it_costs_and_why(small):
    decision = decide(per_step("v = sorted(obs)[0]; return v, {'v': v}"), small)
    message = finding(decision, "looped").message
    assert decision.mode == "looped"
    assert "µs per environment step" in message
    assert "% of one core at 10,000 steps per second" in message


def test_state_behind_an_alias_is_noticed_by_running(small):
    text = (
        "state = {'n': 0.0}\ndef reward_fn(obs, action, next_obs, info):\n"
        "    s = state\n    s['n'] = s['n'] + 1.0\n    return float(s['n']), {'n': s['n']}\n"
    )
    decision = decide(text, small)
    assert (decision.mode, decision.is_stateful) == ("looped", True)
    assert decision.outcome.total[:, 0].tolist() == [1.0, 2.0, 3.0, 4.0]


def test_state_that_cannot_be_saved_is_said(small):
    text = (
        "class R(RewardFunction):\n    def __init__(self):\n"
        "        self.steps = iter(range(1000))\n"
        "    def compute(self, obs, action, next_obs, info):\n"
        "        v = float(next(self.steps))\n        return v, {'v': v}\n"
    )
    decision = decide(text, small)
    assert (decision.is_stateful, decision.is_resumable) == (True, False)
    assert "reward.steps is a range_iterator" in finding(decision, "not_resumable").message


@pytest.mark.parametrize("source", ["closure_nonlocal", "backflip_memory"])
def test_what_is_decided_on_is_what_will_be_run(source, recording):
    path = REFERENCE / f"{source}.py"
    reward = load_reward(path if path.exists() else source)
    decision = reward.decide(recording)
    totals, _ = run(reward, recording)
    assert torch.equal(decision.outcome.total, torch.from_numpy(totals))


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


def test_info_whose_names_are_built_is_given_whole(small):
    text = per_step("key = '_'.join(['x', 'velocity']); v = float(info[key]); return v, {'v': v}")
    decision = decide(text, small)
    assert decision.mode == "looped"
    speed = torch.stack([moment.info["x_velocity"] for moment in small.transitions])
    torch.testing.assert_close(decision.outcome.total, speed)
