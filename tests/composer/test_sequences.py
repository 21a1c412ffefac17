"""One movement after another: order counts, each part is judged on its own time."""

import pytest
import torch

from telic.authors.candidate import weights_in
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
    later = [each for each in scores if each.title.startswith("second") and not each.is_guard]
    assert later and all(each.counted == 0.0 for each in later)


def test_getting_up_later_does_not_require_staying_up_before():
    """Otherwise the reward pays for standing still, and the deed is worth less than that."""
    for deed, rising in (("do a forward roll", "stand up"), ("walk 2 m", "come back up")):
        paid = weights_in(compose(f"{deed} and {rising}", spec_of("Humanoid-v5")).reward)
        assert "height_2" in paid and not {"still", "still_1", "posture", "posture_1"} & {*paid}


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


def test_skipping_a_phase_is_constrained():
    titles = [each.title for each in compose("jump, then stand still", spec_of(CHEETAH)).criteria]
    assert any(title.startswith("first: not skipped") for title in titles)


@pytest.mark.parametrize(
    ("words", "deed"),
    [
        ("turn left on the spot", "turn"),
        ("turn around once on the spot, then stand still", "turn_1"),
        ("turn left on the spot for 3 seconds, then stand still", "turn_1"),
    ],
)
def test_staying_there_never_costs_more_than_the_deed_pays(words, deed):
    """Otherwise who moves at all had better fall, which an Ant learned."""
    paid = weights_in(compose(words, spec_of("Ant-v5")).reward)
    assert 4.0 * paid["stay"] < paid[deed]


def test_only_a_phase_that_lasts_pays_for_being_alive():
    ant = spec_of("Ant-v5")
    done = weights_in(compose("turn around once on the spot, then stand still", ant).reward)
    timed = weights_in(compose("turn left on the spot for 3 seconds, then stand still", ant).reward)
    assert "alive_1" not in done and timed["alive_1"] > 0.0


@pytest.mark.parametrize("words", ["turn around once", "spin several turns", "turn 90 degrees"])
def test_bounded_turn_observes_its_angle(words):
    assert load_reward(compose(words, spec_of(ANT)).reward).seen_memory
