"""A member may start from a policy that was trained before."""

from functools import partial

import pytest
import torch

from telic.storage.layout import MemberFolder, RunFolder
from telic.training.plan import plan
from telic.training.policy import load_policy
from telic.training.run import execute
from tests.event_list import EventList

SMALL = {"num_envs": 4, "horizon": 16, "minibatch_size": 32, "hidden": (8,), "overlap": False}


def job(steps, **changes):
    asked = {
        "steps": steps,
        "seeds": (1, 2),
        "settings": SMALL,
        "evaluations": 1,
        "eval_episodes": 2,
        "env_args": {"max_episode_steps": 20},
        "threads": 1,
    }
    return plan("InvertedPendulum-v5", **{**asked, **changes})


def newest(run, seed):
    [member] = [each for each in RunFolder(run.path).members() if each.name.endswith(f"_{seed}")]
    return member.checkpoints()[-1].path


def test_training_starts_from_a_given_policy(tmp_path):
    first = execute(job(256), tmp_path, name="first")
    # A learning rate too small to change anything shows where training began.
    frozen = {**SMALL, "learning_rate": 1e-12, "schedule": "constant"}
    starts = {(0, 1): newest(first, 2)}
    second = execute(job(64, settings=frozen, starts=starts), tmp_path, name="second")
    before, warm, cold = (
        load_policy(path) for path in (newest(first, 2), newest(second, 1), newest(second, 2))
    )
    assert torch.allclose(warm.flat, before.flat, atol=1e-6)
    assert torch.allclose(warm.actor.scaling.shift, before.actor.scaling.shift, atol=0.01)
    assert not torch.allclose(cold.flat, before.flat, atol=1e-3)


def remembering(count, shown):
    """Return a reward that keeps so many numbers, and says who is shown them."""
    return f"""
from telic import RewardFunction

class Remembering(RewardFunction):
    memory = {{f"kept_{{place}}": 0.0 for place in range({count})}}
    memory_to = {shown!r}

    def compute(self, obs, action, next_obs, info):
        for place in range({count}):
            kept = self.memory[f"kept_{{place}}"]
            self.memory[f"kept_{{place}}"] = kept + 0.1 * (place + 1) * next_obs[:, 1]
        terms = {{"upright": 1.0 - next_obs[:, 1].square() + self.memory["kept_0"]}}
        return terms["upright"], terms
"""


def seen_by(policy, obs, memory):
    """Return what a policy of some width does, and what its critic thinks of it."""
    critic = torch.zeros(len(obs), policy.shape.critic_inputs)
    critic[:, : obs.shape[1]] = obs
    critic[:, obs.shape[1] : obs.shape[1] + memory.shape[1]] = memory
    shown = policy.memory_size
    padded = torch.nn.functional.pad(memory, (0, max(shown - memory.shape[1], 0)))[:, :shown]
    scaled = policy.actor.scaling.apply(critic.unsqueeze(0))
    return policy(obs, padded if shown else None), policy.networks.value(policy.actor.views, scaled)


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        pytest.param((2, 5), (2,), "critic", marks=pytest.mark.slow),
        ((2,), (2, 5), ("kept_1",)),
        pytest.param((3, 1), (3, 4), "actor", marks=pytest.mark.slow),
    ],
)
def test_policy_trained_with_other_rewards_continues_alone_or_with_others(
    tmp_path, before, after, shown
):
    def asked(counts, steps, **changes):
        first, *others = counts
        rewards = [remembering(first, shown), *(remembering(each, "critic") for each in others)]
        return job(steps, reward=rewards, seeds=(1,), **changes)

    # In this process, where rewards share one population, as they do on a GPU.
    here = partial(execute, runs_dir=tmp_path, confined=False)
    first = here(asked(before, 256), name="first").path / "reward_seed_1"
    start = MemberFolder(first).checkpoints()[-1].path
    frozen = {**SMALL, "learning_rate": 1e-12, "schedule": "constant"}
    events = EventList()
    onward = asked(after, 64, settings=frozen, starts={(0, 1): start})
    second = here(onward, name="second", on_event=events).path / "reward_seed_1"
    assert not any(
        "training starts without an initial policy" in str(event.get("message")) for event in events
    )

    draw = torch.Generator().manual_seed(3)
    obs, memory = (torch.rand(32, size, generator=draw) for size in (4, before[0]))
    kept, now = (
        seen_by(load_policy(MemberFolder(each).checkpoints()[-1].path), obs, memory)
        for each in (first, second)
    )
    assert torch.allclose(now[0], kept[0], atol=0.02) and torch.allclose(now[1], kept[1], atol=0.05)
    assert kept[0].std() > 0.001 and kept[1].std() > 0.05
