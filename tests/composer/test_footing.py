"""Going is in steps: what glides or trembles along is not taken for a gait."""

import numpy as np
import pytest

from telic.composer.compose import compose
from telic.judges.code import JudgeCode
from telic.judges.demonstrations import demonstration
from tests.composer.specs import spec_of

GUARDS = ("does not slide along", "does not vibrate in place", "takes steps")
GAITS = {
    "HalfCheetah-v5": ("walk forward", "run forward"),
    "Ant-v5": ("walk forward", "crawl", "trot"),
    "Walker2d-v5": ("walk forward", "run forward"),
    "Humanoid-v5": ("walk forward",),
}


def guards(made, trajectory):
    verdict = JudgeCode(made.judge)(trajectory, spec_of(made.env, **made.env_args))
    assert verdict.score is not None, verdict.reason
    return verdict.score, {leaf.title: leaf.credit for leaf in verdict.leaves if leaf.is_guard}


@pytest.mark.parametrize(
    "env", [e if "Half" in e else pytest.param(e, marks=pytest.mark.slow) for e in GAITS]
)
def test_a_gait_led_by_hand_is_one_and_the_same_pose_gliding_is_none(env):
    for intent in GAITS[env]:
        made = compose(intent, spec_of(env))
        score, held = guards(made, demonstration(env, made.env_args, made.motions))
        assert score >= 0.9 and all(held[each] == 1.0 for each in GUARDS if each in held), intent
        glide = [each.model_copy(update={"feet": (), "stride_hz": 0.0}) for each in made.motions]
        assert guards(made, demonstration(env, made.env_args, glide))[0] < 0.75, intent


def test_feet_that_tremble_take_no_steps():
    made = compose("walk forward", spec_of("HalfCheetah-v5"))
    walk = demonstration("HalfCheetah-v5", made.env_args, made.motions)
    feet = [spec_of("HalfCheetah-v5").body_names.index(f) for f in spec_of("HalfCheetah-v5").feet]
    # The same way, but both feet lose the ground at every other step.
    walk.columns["cfrc_ext"][:, feet, 3:] = 0.0
    walk.columns["cfrc_ext"][::2, feet, 5] = 100.0
    assert np.ptp(walk.columns["qpos"][:, 0]) > 2.0
    score, held = guards(made, walk)
    assert held["takes steps"] == 0.0 and score == 0.0


def test_what_slips_costs_in_the_reward_of_every_gait_and_of_a_way():
    for intent in ("walk forward", "run forward fast", "walk 3 m"):
        assert "grip" in compose(intent, spec_of("Ant-v5")).reward
    for env, intent in (("Ant-v5", "go forward"), ("Swimmer-v5", "swim forward")):
        assert "grip" not in compose(intent, spec_of(env)).reward
