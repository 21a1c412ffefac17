"""Gaits are distinguished by foot contacts: generated patterns pass only for their own gait."""

from functools import lru_cache

import numpy as np
import pytest

from telic.composer._gaits import gait_meant
from telic.composer.compose import compose
from telic.composer.reader import parse
from telic.composer.scene import Scene
from telic.envs import make
from telic.errors import BadEnvironment
from telic.judges.code import JudgeCode
from telic.judges.criteria import Motion
from telic.judges.demonstrations import foot_times
from tests.composer import specs
from tests.judges.playing import demonstration

CHEETAH, WALKER, ANT, HOPPER = "HalfCheetah-v5", "Walker2d-v5", "Ant-v5", "Hopper-v5"
SECONDS = 6.0
COARSE = {WALKER: {"frame_skip": 12}}  # fewer steps to measure


def spec_of(env, **args):
    return specs.spec_of(env, **COARSE.get(env, {}), **args)


@lru_cache
def still(env):
    """Return a standing episode as a basis for scripted motions."""
    steps = round(SECONDS / spec_of(env).dt_s)
    args = {"max_episode_steps": steps, **COARSE.get(env, {})}
    return demonstration(env, args, [Motion(seconds=SECONDS)])


def gait_of(env, word):
    spec = spec_of(env)
    return gait_meant(parse(f"{word} forward", spec).frames[0], Scene.of(spec))


def led(env, landings, duty, hertz, speed):
    """Return an episode with feet that touch the ground in a pattern, at a speed."""
    trajectory, spec = still(env), spec_of(env)
    columns = {name: column.copy() for name, column in trajectory.columns.items()}
    clock = np.arange(1, len(trajectory) + 1) * spec.dt_s
    motion = Motion(seconds=SECONDS, feet=landings, duty=duty, stride_hz=hertz)
    down = foot_times(motion, hertz * clock).is_down
    columns["qpos"][:, spec.robot.root.slide("x").qpos] = speed * clock
    columns["cfrc_ext"][:] = 0.0
    columns["cfrc_ext"][:, list(spec.robot.feet), 5] = 1000.0 * down
    columns["xpos"][:, list(spec.robot.feet), 2] += 0.1 * ~down  # who swings rises
    height = spec.robot.root.slide("z").qpos
    columns["qpos"][:, height] += 0.1 * ~down.any(1)
    return trajectory.__class__(columns, trajectory.facts)


def scored(env, word, trajectory):
    made = compose(f"{word} forward", spec_of(env))
    steps = round(SECONDS / spec_of(env).dt_s)
    verdict = JudgeCode(made.judge)(trajectory, spec_of(env, max_episode_steps=steps))
    assert verdict.score is not None, verdict.reason
    return {each.title: each for each in verdict.criteria}, verdict.score


TWO, FOUR = ("walk", "run", "skip", "gallop", "hop"), ("walk", "trot", "bound", "gallop", "pronk")
IN_PLANE = ("walk", "bound", "hop")
HOP = {CHEETAH: ((0.0,), (0.0,)), WALKER: ((0.0,), (0.0,))}


def patterned(env, word, speed):
    if word == "hop":
        return led(env, HOP[env], 0.6, 1.5, speed)
    gait = gait_of(env, word)
    return led(env, gait.landings, gait.duty, gait.hertz, speed)


@pytest.mark.parametrize(
    ("env", "words"),
    [
        pytest.param(WALKER, TWO, marks=pytest.mark.slow),
        pytest.param(ANT, FOUR, marks=pytest.mark.slow),
        (CHEETAH, IN_PLANE),
    ],
)
def test_each_gait_passes_for_itself_and_for_no_other(env, words):
    for asked in words:
        made = compose(f"{asked} forward", spec_of(env))
        goal = next(each.goal for each in made.criteria if each.title.startswith("averages"))
        scores = {
            shown: scored(env, asked, patterned(env, shown, 1.05 * goal))[1] for shown in words
        }
        passing = {shown for shown, score in scores.items() if score >= 0.8}
        assert passing == {asked}, (asked, scores)


@pytest.mark.parametrize(
    ("words", "fits"),
    [("2 Hz", {2.0}), ("a cadence below 2.2 Hz", {1.4, 2.0}), ("180 steps per minute", {1.4})],
)
def test_a_stated_frequency_is_judged(words, fits):
    trot = gait_of(ANT, "trot")
    shown = {hertz: led(ANT, trot.landings, trot.duty, hertz, 1.2) for hertz in (1.4, 2.0, 3.0)}
    for hertz, trajectory in shown.items():
        found = scored(ANT, f"trot at {words}", trajectory)[0]
        rate = next(each for title, each in found.items() if "per second" in title)
        assert rate.passed == (hertz in fits), (words, hertz)


QUICK = [(CHEETAH, "walk"), (ANT, "trot"), (ANT, "gallop"), ("tests/envs/robots/walker.xml", "run")]


def recognized(env, word):
    try:
        made = compose(f"{word} forward", spec_of(env))
    except BadEnvironment:
        return True
    args = {**made.env_args, **COARSE.get(env, {})}
    opened = make(env, num_envs=1, **args)
    opened.close()
    score = JudgeCode(made.judge)(demonstration(env, args, made.motions), opened.spec).score
    return score is not None and score >= 0.9


@pytest.mark.parametrize(("env", "word"), QUICK)
def test_a_robot_led_through_a_gait_is_recognized(env, word):
    assert recognized(env, word)


REST = [
    (env, word)
    for env in (CHEETAH, WALKER, ANT, HOPPER, "Humanoid-v5", "tests/envs/robots/quadruped.xml")
    for word in ("walk", "run", "trot", "bound", "gallop", "pronk", "skip", "crawl")
]


@pytest.mark.long
def test_every_robot_led_through_every_gait_it_can_do_is_recognized():
    assert [each for each in REST if not recognized(*each)] == []
