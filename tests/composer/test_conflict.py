"""What cannot be had together is refused before anything is trained for it."""

import pytest

from telic.composer._conflict import Demand, require_consistent
from telic.composer._draft import Draft
from telic.composer.compose import compose
from telic.errors import BadEnvironment, Contradiction, UsageError
from telic.judges import metrics, tracks
from tests.composer.specs import spec_of

IMPOSSIBLE = """
HalfCheetah: run forward and stand still
HalfCheetah: run while standing still
HalfCheetah: jump without leaving the ground
HalfCheetah: hop in place without jumping
HalfCheetah: do a backflip while keeping the torso upright
HalfCheetah: run at at least 3 m/s and at most 1 m/s
Ant: run forward without moving forward
Ant: run forward without moving more than 1 m
Ant: walk 5 m without moving more than 1 m
Ant: spin without turning
Ant: turn 180 degrees left without turning more than 90 degrees
Ant: walk in a circle without turning
Humanoid: lie down while keeping your torso upright
Humanoid: do a handstand without using your hands
Humanoid: stand tall and stay low
Humanoid: walk upside down, upright
""".strip().splitlines()
POSSIBLE = """
HalfCheetah: run at least 1 m/s and at most 3 m/s
HalfCheetah: run forward, then stand still
HalfCheetah: do a backflip and land on your feet
HalfCheetah: jump and stand still
Humanoid: walk 3 m and stand still
Humanoid: lie down, then stand up
Ant: walk 1 m without moving more than 3 m
Ant: turn 90 degrees left without turning more than 180 degrees
Ant: jump in place three times
Ant: walk in place without drifting
Ant: stand still without moving
""".strip().splitlines()


@pytest.mark.parametrize("line", IMPOSSIBLE)
def test_what_cannot_be_had_together_is_refused(line):
    robot, _, intent = line.partition(": ")
    with pytest.raises(Contradiction, match=r'".+" and ".+" cannot both be done') as caught:
        compose(intent, spec_of(f"{robot}-v5"))
    assert isinstance(caught.value, UsageError) and caught.value.exit_code == 2


@pytest.mark.parametrize("line", POSSIBLE)
def test_what_can_be_had_together_is_not(line):
    robot, _, intent = line.partition(": ")
    assert compose(intent, spec_of(f"{robot}-v5")).criteria


@pytest.mark.parametrize(
    ("robot", "intent"),
    [
        ("Hopper", "go to the left"),
        ("HalfCheetah", "turn right"),
        ("HalfCheetah", "wave your hands"),
        ("Ant", "walk without using the legs"),
    ],
)
def test_what_the_robot_does_not_have_is_refused(robot, intent):
    with pytest.raises(BadEnvironment, match="cannot"):
        compose(intent, spec_of(f"{robot}-v5"))


def judging(*parts):
    draft = Draft(seconds=8.0)
    for title, value, zero, goal in parts:
        draft.score(title, value, zero, goal)
    return draft


SPEED = metrics.net_speed("forward")
STRAYED = tracks.highest(metrics.gone())
TOP = tracks.highest("height")
LEAP = tracks.highest(tracks.less("height", 1.2))
UP, LOW = tracks.share_above("height", 1.2), tracks.share_below("height", 1.0)


@pytest.mark.parametrize(
    "parts",
    [
        [("fast", SPEED, 0.3, 3.0), ("slow", SPEED, 3.0, 1.0)],
        [("goes", SPEED, 0.3, 3.0), ("stays", STRAYED, 1.5, 0.5)],
        [("leaps", LEAP, 0.1, 0.5), ("low", TOP, 1.6, 1.3)],
        [("high", UP, 0.3, 0.8), ("low", LOW, 0.3, 0.8)],
    ],
)
def test_criteria_that_exclude_one_another_are_refused(parts):
    with pytest.raises(Contradiction, match="cannot both be met"):
        require_consistent(judging(*parts))


@pytest.mark.parametrize(
    "parts",
    [
        [("fast", SPEED, 0.3, 3.0), ("not too fast", SPEED, 6.0, 4.0)],
        [("leaps", LEAP, 0.1, 0.5), ("high", TOP, 1.0, 1.5)],
        [("up", UP, 0.1, 0.3), ("low", LOW, 0.1, 0.3)],
    ],
)
def test_criteria_that_can_all_be_met_are_not(parts):
    assert require_consistent(judging(*parts)) is None


def test_criteria_as_composed_never_exclude_one_another():
    for line in POSSIBLE:
        robot, _, intent = line.partition(": ")
        made = compose(intent, spec_of(f"{robot}-v5"))
        assert compose(intent, spec_of(f"{robot}-v5"), criteria=made.criteria) == made


def test_two_demands_meet_in_time_and_on_one_quantity():
    fast = Demand("speed", 3.0, 9.0, "fast", phase=0)
    assert fast.excludes(Demand("speed", 0.0, 1.0, "slow", phase=0))
    assert fast.excludes(Demand("speed", 0.0, 1.0, "slow throughout"))
    assert not fast.excludes(Demand("speed", 0.0, 1.0, "slow later", phase=1))
    assert not fast.excludes(Demand("speed", 2.0, 4.0, "about 3", phase=0))
    assert not fast.excludes(Demand("height", 0.0, 1.0, "low", phase=0))
    once = Demand("speed", 3.0, 9.0, "fast once", always=False)
    assert not once.excludes(Demand("speed", 0.0, 1.0, "slow once", always=False))
    assert once.excludes(Demand("speed", 0.0, 1.0, "never fast"))
