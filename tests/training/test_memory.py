"""The memory that a policy sees, updated without its reward."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from telic import bench
from telic.composer.compose import compose
from telic.envs import make
from telic.errors import UsageError
from telic.rewards.recording import collect
from telic.rewards.reward import load_reward
from telic.training.policy import MemoryLaw, PolicyWithMemory, memory_law

DOG = Path(bench.__file__).parent / "suites" / "robots" / "dog.xml"
BEAT = '''
import torch

from telic import RewardFunction


class Trot(RewardFunction):
    """Trot, with a phase variable of its own."""

    memory = {"beat": (0.0, 0.0)}
    memory_to = "actor"

    def compute(self, obs, action, next_obs, info):
        first = (self.memory["beat"].abs().sum(-1) == 0).float()
        x, y = self.memory["beat"][:, 0] + first, self.memory["beat"][:, 1]
        x, y = 0.95860081 * x - 0.28475337 * y, 0.28475337 * x + 0.95860081 * y
        self.memory["beat"] = torch.stack((x, y), -1)
        terms = {"speed": info["x_velocity"] * x}
        return terms["speed"], terms
'''


@pytest.fixture(scope="module")
def env():
    return make(str(DOG), num_envs=2, seed=1, terminate_when_unhealthy=False)


def law_of(source, env, hidden=()):
    reward = load_reward(source)
    size = reward.memory_size
    seen = [column for column in reward.seen_memory if column not in hidden]
    facts = {"action_names": list(env.spec.action_names), "dt_s": env.spec.dt_s}
    return memory_law(SimpleNamespace(memory_size=size, seen_memory=seen, facts=facts), source)


@pytest.mark.parametrize("intent", ["trot forward smoothly", "walk forward at 0.5 m/s", None])
def test_the_law_updates_memory_as_the_reward_does(env, intent):
    source = BEAT if intent is None else compose(intent, env.spec).reward
    law, reward = law_of(source, env), load_reward(source)
    reward.decide(collect(env, 64))
    obs = env.reset(seed=3)
    reward.start(2, "cpu")
    keep, action, state = np.array(law.keep), np.array(law.action), np.tile(law.start, (2, 1))
    random = torch.Generator().manual_seed(0)
    middle, half = (env.action_high + env.action_low) / 2, (env.action_high - env.action_low) / 2
    for _ in range(120):
        assert np.abs(state[:, : law.shown] - reward.memory().numpy()).max() < 1e-4
        asked = torch.rand((2, env.act_dim), generator=random) * 2.0 - 1.0
        step = env.step(middle + half * asked)
        reward(obs, middle + half * asked, step.final_obs, step.info, step.reward)
        state = state @ keep.T + asked.numpy() @ action.T
        obs = step.obs


def test_memory_of_the_world_is_refused_by_name(env):
    with pytest.raises(UsageError, match=r"of the world \(.*phase"):
        law_of(compose("walk forward then stop", env.spec).reward, env)
    with pytest.raises(UsageError, match=r"of the world \(last\)"):
        law_of(BEAT.replace('"beat"', '"last"'), env)
    with pytest.raises(UsageError, match="how fast"):
        law_of(BEAT.replace("0.95860081 * x -", "x -"), env)


def test_memory_that_the_policy_does_not_use_is_zero(env):
    law = law_of(BEAT, env, hidden=(0, 1))
    assert law.shown == 2 and not np.array(law.keep)[:2].any()


def test_a_policy_keeps_its_memory_by_its_law():
    """The memory here is half of itself and all of the last action."""
    law = MemoryLaw(shown=1, start=(1.0, 0.5), keep=((0.5, 0.0), (0.0, 0.0)), action=((1.0,), (0,)))
    seen = []

    class Seeing:
        facts = SimpleNamespace()
        low, high = torch.tensor([0.0]), torch.tensor([4.0])

        def __call__(self, obs, memory):
            seen.append(memory.item())
            return torch.tensor([[4.0 if len(seen) == 1 else 2.0]])

    policy = PolicyWithMemory(Seeing(), law)
    for _ in range(3):
        policy(torch.zeros(1, 2))
    assert seen == [1.0, 1.5, 0.75]
