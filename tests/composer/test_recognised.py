"""Composed judges know the real thing when they see it, and are not taken in by bad habits.

Puppets show the real thing: a robot led by hand through what was asked for.
"""

import pytest

from telic.composer.compose import compose
from telic.envs import make
from telic.judges.code import JudgeCode
from telic.judges.criteria import Motion
from telic.judges.demonstrations import demonstration
from telic.judges.failure_modes import failure_modes
from tests.composer.specs import spec_of

CHEETAH, ANT, HOPPER = "HalfCheetah-v5", "Ant-v5", "Hopper-v5"
STILL = Motion(seconds=20)
WALKING = {"stride_hz": 1.3, "feet": ((0.25,), (0.0,), (0.5,), (0.75,)), "duty": 0.65}
"""feet of an Ant that walks"""


def go(seconds, speed, **more):
    return Motion(seconds=seconds, forward_mps=speed, **more)


def jumps(seconds, count, height=0.9, **more):
    return Motion(seconds=seconds, jumps=count, height_m=height, **more)


GOOD = [
    (CHEETAH, "run forward fast", [go(8, 3.2, stride_hz=2)]),
    (CHEETAH, "stand still", [STILL]),
    (CHEETAH, "jump", [jumps(5, 2)]),
    (CHEETAH, "jump three times", [jumps(5, 3), STILL]),
    (CHEETAH, "hop in place", [jumps(8, 12, 0.2)]),
    (HOPPER, "hop forward", [jumps(8, 12, 0.2, forward_mps=0.9)]),
    (CHEETAH, "do a backflip", [jumps(1, 1, pitch_turns=-1.0), STILL]),
    (ANT, "do a cartwheel", [Motion(seconds=1.5, roll_turns=1.0), STILL]),
    (ANT, "keep rolling to the side", [Motion(seconds=5.0, roll_turns=3.0)]),
    (ANT, "jump forward", [jumps(5, 2, 0.7, forward_mps=1.2)]),
    (ANT, "walk 2 m", [go(5, 0.4, **WALKING), STILL]),
    (ANT, "walk forward and to the left", [go(8, 0.7, left_mps=0.7, **WALKING)]),
    (ANT, "walk in a circle", [go(30, 0.48, turn_rps=0.8, circle=True)]),
    (ANT, "walk in a circle clockwise", [go(30, 0.48, turn_rps=-0.8, circle=True)]),
    (ANT, "turn 180 degrees left", [Motion(seconds=3, turn_rps=1.0472), STILL]),
    (ANT, "spin twice", [Motion(seconds=10, turn_rps=1.2566), STILL]),
    (CHEETAH, "go at least 3 m", [go(6, 1.0, stride_hz=2), STILL]),
    (ANT, "spin several turns", [Motion(seconds=20, turn_rps=0.95), STILL]),
    (ANT, "spin several turns", [Motion(seconds=20, turn_rps=1.7), STILL]),  # who counts?
    (ANT, "spin clockwise", [Motion(seconds=10, turn_rps=-1.1)]),
    (ANT, "run forward without turning or jumping", [go(8, 2.0, stride_hz=3)]),
]
# What looks like it in some way, and is not: half of it, the wrong way, without the guard.
ALIKE = [
    (CHEETAH, "run forward fast", [go(8, -3.2)]),
    (CHEETAH, "walk slowly", [go(8, 5.0)]),
    (CHEETAH, "do a backflip", [jumps(1, 1, pitch_turns=-0.5), STILL]),
    (CHEETAH, "do a backflip", [jumps(1, 1, pitch_turns=1.0), STILL]),
    (CHEETAH, "jump three times", [jumps(5, 1), STILL]),
    (CHEETAH, "jump three times", [jumps(5, 6), STILL]),
    (CHEETAH, "hop in place", [STILL]),
    (HOPPER, "hop forward", [go(8, 0.9)]),
    (ANT, "walk in a circle", [go(30, 0.48)]),
    (ANT, "walk in a circle", [Motion(seconds=30, turn_rps=0.8)]),
    (ANT, "walk in a circle clockwise", [go(30, 0.48, turn_rps=0.8, circle=True)]),
    (ANT, "turn 180 degrees left", [Motion(seconds=3, turn_rps=-1.0472), STILL]),
    (ANT, "turn 180 degrees left", [Motion(seconds=20, turn_rps=1.0472)]),
    (ANT, "spin several turns", [Motion(seconds=20, turn_rps=0.5), STILL]),
    (ANT, "spin three turns", [Motion(seconds=20, turn_rps=1.7), STILL]),
    (ANT, "walk 2 m", [go(20, 0.6, **WALKING)]),
    (ANT, "walk 2 m", [go(5, 0.4), STILL]),
    (CHEETAH, "walk 3 m", [go(5, 0.6), STILL]),
    (CHEETAH, "go at least 3 m", [go(2, 1.0, stride_hz=2), STILL]),
    (CHEETAH, "go 3 m", [go(6, 1.0, stride_hz=2), STILL]),
    (CHEETAH, "go 3 m", [go(20, 0.326)]),  # just there when time is up
    (CHEETAH, "walk slowly", [go(8, 0.37)]),
    (CHEETAH, "run forward and come back", [go(3, 2.2, stride_hz=2), STILL]),
    (CHEETAH, "run forward and come back", [go(3, 2.2, stride_hz=2), go(20, -2.2)]),
    (CHEETAH, "run forward and come back", [STILL]),
    (ANT, "run forward without turning", [go(8, 1.0, turn_rps=1.0, stride_hz=3)]),
    (ANT, "run forward without jumping", [jumps(8, 8, 0.7, forward_mps=1.2)]),
    (ANT, "stand without moving more than 0.5 m", [go(8, 0.24)]),
    (ANT, "stand upright on two legs", [STILL]),
    (CHEETAH, "run on the hind legs", [go(8, 3.2, stride_hz=2)]),
]


def score(env, intent, motions):
    made = compose(intent, spec_of(env))
    opened = make(env, num_envs=1, **made.env_args)
    opened.close()
    verdict = JudgeCode(made.judge)(demonstration(env, made.env_args, motions), opened.spec)
    assert verdict.score is not None, verdict.reason
    return verdict.score


@pytest.mark.parametrize(("env", "intent", "motions"), GOOD, ids=[each[1] for each in GOOD])
def test_the_real_thing_is_recognised(env, intent, motions):
    assert score(env, intent, motions) >= 0.8


@pytest.mark.parametrize(
    ("often", "meant"),
    [
        ("{} three times", {3}),
        ("{} at least three times", {3, 5}),
        ("{} more than twice", {3, 5}),
        ("{} several times", {3, 5}),
        ("{} at most twice", {1, 2}),
        ("{} no more than twice", {1, 2}),
        ("{} fewer than 3 times", {1, 2}),
    ],
)
@pytest.mark.parametrize(
    ("deed", "shown"),
    [
        ("jump", lambda often: jumps(1.6 * often, often)),
        pytest.param(
            "backflip",
            lambda often: jumps(1.2 * often, often, pitch_turns=-float(often)),
            marks=pytest.mark.slow,
        ),
    ],
    ids=["jump", "backflip"],
)
def test_how_often_is_meant_as_it_was_said(deed, shown, often, meant):
    intent = often.format(deed)
    passing = {
        each
        for each in (0, 1, 2, 3, 5)
        if score(CHEETAH, intent, [*([shown(each)] if each else []), STILL]) >= 0.8
    }
    assert passing == meant


def test_coming_back_is_recognised_by_where_it_ends():
    made = compose("run forward and come back", spec_of(CHEETAH))
    assert made.dropped == () and len(made.motions) == 3
    assert score(CHEETAH, "run forward and come back", made.motions) >= 0.8


@pytest.mark.parametrize(("env", "intent", "motions"), ALIKE, ids=[each[1] for each in ALIKE])
def test_what_only_looks_like_it_is_not_taken_for_it(env, intent, motions):
    assert score(env, intent, motions) < 0.8


# Habits that truly are what was asked for: pushing all joints one way folds the cheetah's legs.
TRULY = {
    (CHEETAH, "stand still"): {"does nothing"},
    (CHEETAH, "crouch"): {"pulls"},
    (CHEETAH, "lie down"): {"pushes", "lies on its back", "topples over"},
    (CHEETAH, "lift a foot"): {"pulls"},
    (ANT, "stand still"): {"does nothing", "pushes", "pulls"},
    (ANT, "lie down"): {"lies on its back", "topples over"},
    (ANT, "lift a foot"): {"pushes"},
    (HOPPER, "lie down"): {"pushes", "lies on its back"},
}
TEMPTING = [
    "run forward fast",
    "go 3 m",
    "jump",
    "jump three times",
    "jump forward",
    "hop in place",
    "do a backflip",
    "roll over",
    "stand still",
    "crouch",
    "squat three times",
    "lie down",
    "wave",
    "kick",
    "lift a foot",
    "jump, then stand still",
    "run for 3 seconds, then stop",
]
CALLED_OFF = {(HOPPER, "kick"), (HOPPER, "lift a foot")}


@pytest.mark.parametrize(
    ("env", "tempting"),
    [
        (CHEETAH, TEMPTING[::8]),
        pytest.param(CHEETAH, TEMPTING, marks=pytest.mark.slow),
        *(pytest.param(each, TEMPTING, marks=pytest.mark.long) for each in (ANT, HOPPER)),
    ],
)
def test_no_bad_habit_passes_for_what_was_asked(env, tempting):
    known = {}
    for intent in tempting:
        if (env, intent) in CALLED_OFF:
            continue
        made = compose(intent, spec_of(env))
        key = str(sorted(made.env_args.items()))
        if key not in known:
            known[key] = failure_modes(env, made.env_args)
        judge = JudgeCode(made.judge)
        passing: set[str] = set()
        for name in known[key].names:
            verdict = judge(known[key].trajectory(name), known[key].spec)
            assert verdict.score is not None, verdict.reason
            passing |= {name} if verdict.score >= 0.8 else set()
        assert passing == TRULY.get((env, intent), set()), intent
