"""One movement after another: order counts, each part is judged on its own time."""

import pytest
import torch

from telic.composer.compose import compose
from telic.envs import make
from telic.judges.criteria import Motion
from telic.judges.demonstrations import demonstrate
from telic.judges.validation import GOOD
from telic.rewards.probe import probe
from telic.rewards.reward import load_reward
from tests.composer.specs import judged, spec_of

CHEETAH, ANT = "HalfCheetah-v5", "Ant-v5"
STILL = Motion(seconds=20)
RUN = Motion(seconds=4, forward_mps=2.2, stride_hz=2)


def test_a_later_phase_counts_only_after_the_one_before_it():
    scores = judged(CHEETAH, "jump, then stand still", [STILL]).criteria
    later = [each for each in scores if each.title.startswith("phase 2") and not each.is_guard]
    assert later and all(each.counted == 0.0 for each in later)


def test_reward_is_higher_for_advancing_than_for_staying_in_a_phase():
    """A demonstration of both phases earns more per step in the second, and more in total."""
    made = compose("run forward for 3 seconds, then stop", spec_of(CHEETAH))
    motions = {GOOD: (RUN, STILL), "lingers": (RUN.model_copy(update={"seconds": 20.0}),)}
    examples = demonstrate(CHEETAH, made.env_args, {**motions, "never": (STILL,)})
    env = make(CHEETAH, num_envs=3, **made.env_args)
    reward = load_reward(made.reward)
    probe(reward, env, transitions=32)
    reward.start(3, "cpu")
    steps = [
        reward(each.obs, each.action, each.next_obs, each.info)
        for each in examples.recording.transitions
    ]
    totals = torch.stack([each.total for each in steps])
    finished = torch.stack([each.terms["finish"] for each in steps])
    stage = torch.stack([each.terms["stage"] for each in steps])
    assert (finished > 0).sum(0).tolist() == [1, 1, 0]  # finishing pays once
    before = totals[10:50, 0].mean()
    assert stage[-1, 0] > 0 and totals[-20:, 0].mean() > before
    assert totals[:, 0].sum() > totals[:, 1].sum() > totals[:, 2].sum()


def test_the_policy_sees_the_phase_and_every_term_has_a_name_of_its_own():
    made = compose("walk forward, then walk backward without falling or shaking", spec_of(ANT))
    reward = load_reward(made.reward)
    assert len(reward.seen_memory) == reward.memory_size
    names = reward.term_names
    assert len(names) == len(set(names)) and set(names) == set(reward.weights)
    assert {"speed_1", "speed_2", "stage", "finish", "control", "smooth"} <= set(names)
    alone = compose("walk forward", spec_of(ANT))
    assert made.env_args["max_episode_steps"] > alone.env_args["max_episode_steps"]


@pytest.mark.parametrize("words", ["turn around once", "spin several turns", "turn 90 degrees"])
def test_bounded_turn_observes_its_angle(words):
    assert load_reward(compose(words, spec_of(ANT)).reward).seen_memory
