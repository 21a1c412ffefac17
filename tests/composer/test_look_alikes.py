"""What passed for the real thing once, and must not again; beside it the real thing, which must."""

from functools import lru_cache

import numpy as np
import pytest

from telic.composer.compose import compose
from telic.envs import make
from telic.judges.code import JudgeCode
from telic.judges.criteria import Motion
from telic.judges.demonstrations import demonstration
from telic.judges.episode import RecordedEpisode
from telic.judges.failure_modes import failure_modes
from telic.rewards.reward import load_reward

CHEETAH, ANT, HUMANOID, SWIMMER = "HalfCheetah-v5", "Ant-v5", "Humanoid-v5", "Swimmer-v5"
STILL = Motion(seconds=20)


@lru_cache
def spec_of(env, **args):
    made = make(env, num_envs=1, **args)
    made.close()
    return made.spec


WALKING = {"feet": ((0.0,), (0.5,)), "duty": 0.62}
"""two feet that walk"""
ANT_WALKING = {"feet": ((0.25,), (0.0,), (0.5,), (0.75,)), "duty": 0.65}
ANT_BACKWARD = {"feet": ((0.5,), (0.75,), (0.25,), (0.0,)), "duty": 0.65}


def go(seconds, speed, **more):
    return Motion(seconds=seconds, forward_mps=speed, stride_hz=1, **more)


def judged(made, trajectory):
    verdict = JudgeCode(made.judge)(trajectory, spec_of(made.env, **made.env_args))
    assert verdict.score is not None, verdict.reason
    return verdict


def led(env, intent, *motions):
    made = compose(intent, spec_of(env))
    return judged(made, demonstration(env, made.env_args, motions)).score


def habit(env, intent, name):
    made = compose(intent, spec_of(env))
    return judged(made, failure_modes(env, made.env_args).trajectory(name)).score


def test_flailing_is_not_swimming():
    assert led(SWIMMER, "swim forward", go(8, 0.15)) >= 0.8
    assert habit(SWIMMER, "swim forward", "flails") < 0.6


def test_shaking_is_not_walking_slowly():
    assert led(CHEETAH, "walk slowly", go(8, 0.4, **WALKING)) >= 0.8
    assert habit(CHEETAH, "walk slowly", "shakes") < 0.1


def test_travel_is_what_the_place_says_whatever_the_velocity_at_the_end_of_a_step():
    made = compose("run forward fast", spec_of(CHEETAH))
    still = demonstration(CHEETAH, made.env_args, [STILL])
    still.columns["qvel"][:, 0] = 5.0
    still.columns["cvel"][:, :, 3] = 5.0
    assert judged(made, still).score < 0.1


@pytest.mark.parametrize(("share", "passes"), [(0.05, True), (0.6, False)])
def test_sliding_on_the_head_is_not_running_but_a_short_touch_is_fine(share, passes):
    made = compose("run forward at 1 m/s", spec_of(CHEETAH))
    run = demonstration(CHEETAH, made.env_args, [go(8, 1.0)])
    torso = spec_of(CHEETAH).body_names.index("torso")
    run.columns["cfrc_ext"][: int(share * len(run)), torso, 5] = 100.0
    assert (judged(made, run).score >= 0.8) is passes


@pytest.mark.parametrize(("pitch", "passes"), [(-1.0, True), (0.0, False), (1.0, False)])
def test_balancing_level_on_the_hind_foot_is_not_rearing_up(pitch, passes):
    made = compose("stand on your hind legs", spec_of(CHEETAH))
    stands = demonstration(CHEETAH, made.env_args, [STILL])
    bodies = spec_of(CHEETAH).body_names
    stands.columns["cfrc_ext"][:, bodies.index("ffoot")] = 0.0
    stands.columns["cfrc_ext"][:, bodies.index("bfoot"), 5] = 100.0
    stands.columns["xpos"][:, bodies.index("ffoot"), 2] += 0.4
    stands.columns["qpos"][:, 2] = pitch
    turned = [np.cos(pitch / 2), 0.0, np.sin(pitch / 2), 0.0]
    stands.columns["xquat"][:, bodies.index("torso")] = turned
    assert (judged(made, stands).score >= 0.8) is passes


@pytest.mark.parametrize(
    ("env", "intent", "down"),
    [
        (ANT, "balance on two legs", 2),
        (HUMANOID, "stand on one leg", 1),
        (HUMANOID, "stand on your left leg", 1),
    ],
)
def test_a_foot_that_hovers_or_rests_without_weight_is_not_up(env, intent, down):
    made, spec = compose(intent, spec_of(env)), spec_of(env)
    stands = demonstration(env, made.env_args, [STILL])
    feet = list(spec.feet)
    mine = [foot for foot in feet if "left" in foot] if "left" in intent else feet[:down]
    for foot in feet:
        place = spec.body_names.index(foot)
        stands.columns["cfrc_ext"][:, place] = 0.0
        stands.columns["cfrc_ext"][:, place, 5] = 100.0 if foot in mine else 0.0
    others = [spec.body_names.index(foot) for foot in feet if foot not in mine]
    assert judged(made, stands).score < 0.8
    stands.columns["xpos"][:, others, 2] += 0.005
    assert judged(made, stands).score < 0.8
    stands.columns["xpos"][:, others, 2] += 0.25
    assert judged(made, stands).score >= 0.8


def test_who_stretches_its_legs_at_once_has_jumped_but_not_three_times():
    """On a robot that is told positions a constant command is a jump, and lands on its feet."""
    assert {"pushes", "pulls"} <= set(compose("jump up and land on your feet", spec_of(ANT)).fine)
    for more in ("jump three times", "jump, then jump again", "jump, then walk", "do a backflip"):
        assert not {"pushes", "pulls"} & set(compose(more, spec_of(ANT)).fine)


def test_low_intents_may_touch_the_ground():
    assert "body off the ground" not in compose("lie down", spec_of(CHEETAH)).judge
    assert "body off the ground" not in compose("run low", spec_of(HUMANOID)).judge


@pytest.mark.parametrize(
    ("env", "first"),
    [
        (HUMANOID, Motion(seconds=8, turn_rps=1.5)),
        (ANT, Motion(seconds=3, turn_rps=1.5)),
        (CHEETAH, Motion(seconds=1.2, jumps=1, height_m=1.0, pitch_turns=-1)),
        (CHEETAH, Motion(seconds=1, jumps=1, height_m=0.6)),
        (CHEETAH, go(1, 2.0)),
    ],
)
def test_standing_still_is_standing_still_from_the_start(env, first):
    assert led(env, "stand still", STILL) >= 0.8
    assert led(env, "stand still", first, STILL) < 0.6


def test_there_and_back_is_no_circle():
    intent = "walk in a circle to the left"
    assert led(ANT, intent, go(20, 0.5, turn_rps=0.8, circle=True)) >= 0.8
    assert led(ANT, intent, go(3, 0.9), go(3, -0.9), STILL) < 0.3


@pytest.mark.parametrize(
    ("env", "intent", "motions"),
    [
        (
            "Hopper-v5",
            "jump once, then stand still",
            [Motion(seconds=1.5, jumps=1, height_m=0.45), STILL],
        ),
        pytest.param(
            "Walker2d-v5",
            "walk slowly for three seconds, then run",
            [go(3, 0.5, **WALKING), go(20, 2.3, feet=((0.0,), (0.5,)), duty=0.35)],
            marks=pytest.mark.slow,
        ),
        (
            ANT,
            "walk forward for three seconds, then walk backward for three seconds",
            [go(3, 1.0, **ANT_WALKING), go(20, -1.0, **ANT_BACKWARD)],
        ),
    ],
)
def test_a_sequence_done_to_the_letter_passes(env, intent, motions):
    assert led(env, intent, *motions) >= 0.85


@pytest.mark.slow
def test_every_phase_counts_the_same():
    made = compose("walk slowly for three seconds, then run", spec_of("Walker2d-v5"))
    weights = [
        sum(each.weight for each in made.criteria if each.title.startswith(name))
        for name in ("first", "second")
    ]
    assert weights[0] == pytest.approx(weights[1], abs=0.05)
    walked = demonstration("Walker2d-v5", made.env_args, [go(20, 0.5)])
    assert judged(made, walked).score < 0.8


def test_constant_force_may_hold_a_pose_but_no_pole():
    assert {"pushes", "pulls"} <= set(compose("stand still", spec_of(ANT)).fine)
    pole = compose("keep the pole upright", spec_of("InvertedPendulum-v5"))
    assert not {"pushes", "pulls"} & set(pole.fine)


def test_costs_stand_in_parentheses_in_the_formula():
    latex = load_reward(compose("run forward", spec_of(CHEETAH)).reward).spec.latex
    assert r"w_{\text{control}} (-\overline{a^2})" in latex and "} -" not in latex


def test_the_pace_of_an_episode_is_not_inflated_by_shaking():
    env_args = {"max_episode_steps": 60}
    episode = RecordedEpisode(
        demonstration(CHEETAH, env_args, [STILL]), spec_of(CHEETAH, **env_args)
    )
    time = np.arange(60) * episode.dt
    shaken = 2.0 * time + 0.05 * (np.arange(60) % 2)
    assert np.abs(np.gradient(shaken, episode.dt) - 2.0).max() > 0.9
    assert np.abs(episode.pace(shaken)[5:-5] - 2.0).max() < 0.15
