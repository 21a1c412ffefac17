"""Classes of misreadings: durations, order, limits and negations must be judged or named."""

import random

import pytest

from telic.composer.compose import compose
from telic.errors import TelicError
from tests.composer.specs import spec_of

WORDS = "jump walk run stand arm torso height pitch x y landing hold never until then left back of"
MARKS = [
    ".",
    ",",
    "±",
    "<",
    ">=",
    "(",
    ")",
    ":",
    "-",
    "/",
    "0.25",
    "3",
    "-1.5",
    ".5",
    "1e3",
    "m",
    "s",
]


def titles(intent, robot):
    return [each.title for each in compose(intent, spec_of(robot)).criteria]


def test_punctuation_and_numbers_around_known_words_raise_only_our_errors():
    draw = random.Random(38)
    choices = [*WORDS.split(), *MARKS]
    texts = [" ".join(draw.choices(choices, k=draw.randint(2, 7))) for _ in range(100)]
    texts.append(
        "Single vertical jump: height >= standing + 0.25 m, landing within 0.1 m of takeoff x."
    )
    read = 0
    for text in texts:
        try:
            read += bool(compose(text, spec_of("Hopper-v5")).criteria)
        except TelicError:
            continue
    assert read > 10


@pytest.mark.parametrize("seconds", [3, 6])
def test_the_duration_of_a_phase_is_shown(seconds):
    found = titles(f"stand for {seconds} s, then jump", "Walker2d-v5")
    assert any(f"lasts {seconds} s" in title for title in found)


def test_an_episode_of_one_pose_is_as_long_as_its_duration():
    steps = [
        compose(f"lie down for {k} s", spec_of("Ant-v5")).env_args["max_episode_steps"]
        for k in (1, 2, 4)
    ]
    assert steps == sorted({*steps})


@pytest.mark.parametrize(
    "limit",
    ["body pitch must not exceed 20 degrees", "body pitch below 20 degrees throughout"],
)
def test_a_limit_of_the_whole_episode_is_a_constraint_of_all_phases(limit):
    made = compose(f"walk, then jump, {limit}", spec_of("Walker2d-v5"))
    limits = [each for each in made.criteria if "pitch" in each.title]
    assert [each.title[:6] for each in limits] == ["always"] and limits[0].is_guard


def test_reverse_after_going_backward_goes_forward():
    found = titles("walk backward for 2 m, then reverse", "Walker2d-v5")
    assert any("phase 2" in each and "forward" in each for each in found)


def test_limbs_that_never_move_are_named_and_start_no_movement():
    made = compose("wave your right hand. Feet never move.", spec_of("Humanoid-v5"))
    assert not any("waves its feet" in each.title for each in made.criteria)
    assert any("never move" in each.lower() for each in made.not_understood)


def test_staying_after_lying_down_stays_down():
    found = titles("walk, stop, down flat on the belly, stay", "Ant-v5")
    assert not any("standing height" in each for each in found)


def test_a_robot_upside_down_may_be_on_its_back():
    found = titles("go forward at 1 m/s upside down", "HalfCheetah-v5")
    assert any("upside down" in each for each in found)
    assert not any("not on its back" in each for each in found)


def test_the_back_of_the_body_does_not_reverse_the_way():
    found = titles("march for 10 steps, back straight as a board", "Humanoid-v5")
    assert not any("backward" in each for each in found)


def test_raising_an_arm_after_a_timed_stand_is_a_later_phase():
    found = titles("stand 3 s, raise left arm to shoulder height", "Humanoid-v5")
    assert any("phase 2" in each and "left lower arm" in each for each in found)


@pytest.mark.parametrize(
    ("intent", "is_limit"),
    [
        ("Bend the left knee to 30 degrees three times.", False),
        ("Stand still for 2 s. Then bend the left knee to 60 degrees.", False),
        ("Stand still for 2 s. Bend the left knee to 60 degrees.", False),
        ("Walk forward for 3 s. Then crouch with the torso below 0.9 m.", False),
        ("Walk forward, with the torso height above 1.1 m at all times.", True),
        ("Walk forward. Keep the torso pitch between -5 and 5 degrees.", True),
        ("Walk forward. The torso pitch must never exceed 10 degrees.", True),
    ],
)
def test_only_stated_limits_hold_for_the_whole_episode(intent, is_limit):
    assert any("always" in title for title in titles(intent, "Walker2d-v5")) == is_limit
