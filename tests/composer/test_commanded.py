"""Tracking commanded velocities: what is read, and what is judged."""

from itertools import product

import numpy as np
import pytest

from telic.composer.compose import compose
from telic.composer.reader import parse
from telic.envs import make
from telic.errors import BadEnvironment, Contradiction, Refused
from telic.judges.code import JudgeCode
from telic.judges.episode import recorded_together
from telic.storage.trajectories import COMMANDS, Trajectory, TrajectoryFacts


@pytest.fixture(scope="module")
def made(spec):
    return compose("obey velocity commands", spec)


def commanded_spec(dog, made):
    env = make(dog, num_envs=1, **made.env_args)
    env.close()
    return env.spec


VERBS = ("obey", "follow", "track", "respond to", "listen to", "execute")
NOUNS = ("velocity commands", "the commands", "my speed commands", "joystick commands")
WAYS = ("as commanded", "under joystick control", "at the commanded speed", "as told")


def test_commands_are_read_whole_and_gaits_are_tracked(spec):
    for verb, noun in product(VERBS, NOUNS):
        found = parse(f"{verb} {noun}", spec)
        assert [frame.verb for frame in found.frames] == ["obey"], (verb, noun)
        assert not found.unread, (verb, noun)
    for (verb, gait), way in product((("walk", "walk"), ("trot", "trot"), ("move", None)), WAYS):
        [frame] = parse(f"{verb} {way}", spec).frames
        assert (frame.verb, frame.gait) == ("obey", gait), (verb, way)


def test_commands_are_as_stated_or_suit_the_legs(spec):
    usual = compose("obey velocity commands", spec).env_args["commands"]
    printed = compose("obey velocity commands up to 0.7 m/s", spec)
    assert printed.env_args["commands"]["forward"] == [-0.7, 0.7] and not printed.dropped
    slow = compose("obey velocity commands slowly", spec).env_args["commands"]
    assert slow["forward"][1] < usual["forward"][1]
    leg = sum(each.length_m for each in spec.robot.legs) / len(spec.robot.legs)
    assert usual["forward"][1] == pytest.approx((0.25 * 9.81 * leg) ** 0.5, rel=0.05)


def test_a_direction_or_both_ends_narrow_what_is_commanded(spec):
    def command(text):
        made = compose(text, spec)
        assert not made.dropped and not made.not_understood, text
        return made, made.env_args["commands"]

    made, ahead = command("walk forward as commanded")
    assert ahead["forward"][0] == 0.0 < ahead["forward"][1] and ahead["sideways"] == [0.0, 0.0]
    assert "does not move sideways" in {each.title for each in made.criteria}
    assert all(motion.left_mps == 0.0 for motion in made.motions)
    _, back = command("walk backwards as commanded")
    assert back["forward"][0] < 0.0 == back["forward"][1]
    _, aside = command("sidestep as commanded")
    assert aside["forward"] == [0.0, 0.0] and aside["sideways"][0] < 0.0 < aside["sideways"][1]
    _, between = command("obey velocity commands between 0.2 and 0.6 m/s")
    assert between["forward"] == [0.2, 0.6]


def test_gait_can_be_combined_with_commands(spec):
    for text in ("trot as commanded", "follow the commands while trotting"):
        made = compose(text, spec)
        assert not made.dropped and any("trot" in each.words for each in made.covered), text
    plain = {each.title for each in compose("obey commands", spec).criteria}
    assert {each.title for each in made.criteria} > plain


def test_what_cannot_be_done_as_well_is_refused_before_training(spec):
    for text in ("obey commands and jump", "walk forward, then obey commands"):
        with pytest.raises(Refused, match="cannot be added"):
            compose(text, spec)
    with pytest.raises(Contradiction):
        compose("obey commands without moving from the spot", spec)


def test_commands_are_refused_where_the_environment_gives_none():
    other = make("Ant-v5", num_envs=1)
    other.close()
    with pytest.raises(
        BadEnvironment, match="cannot obey commands: its environment has no commands"
    ):
        compose("obey velocity commands", other.spec)


# ---- the judge on drawn paths: whatever was commanded, it is what was done that counts


def path(spec, command, done, seconds=10.0):
    """An episode whose trunk has these rates, (K, 3) each, one after another; feet step."""
    steps = round(seconds / spec.dt_s)
    which = np.minimum(np.arange(steps) * len(command) // steps, len(command) - 1)
    ahead, aside, turn = done[which].T
    yaw = np.cumsum(turn) * spec.dt_s
    rate = np.stack(
        (ahead * np.cos(yaw) - aside * np.sin(yaw), ahead * np.sin(yaw) + aside * np.cos(yaw)), -1
    )
    qpos = np.tile(np.array(spec.robot.rest_qpos), (steps, 1))
    qpos[:, :2] = np.cumsum(rate, 0) * spec.dt_s
    qpos[:, 3:7] = np.stack((np.cos(yaw / 2), 0 * yaw, 0 * yaw, np.sin(yaw / 2)), -1)
    bodies = len(spec.body_names)
    xpos = np.zeros((steps, bodies, 3))
    # A foot stays while the body passes over it for half a second, then steps.
    xpos[:, :, :2] = qpos[:, None, :2]
    held = (np.arange(steps) // 25) * 25
    feet = list(spec.robot.feet)
    xpos[:, feet, :2] = qpos[held][:, None, :2]
    force = np.zeros((steps, bodies, 6))
    force[:, feet, 5] = 10.0 * spec.robot.contact_threshold
    force[held == np.arange(steps)] = 0.0
    columns = {
        "qpos": qpos,
        "qvel": np.zeros((steps, len(spec.robot.rest_qpos) - 1)),
        "xpos": xpos,
        "xquat": np.tile([1.0, 0.0, 0.0, 0.0], (steps, bodies, 1)),
        "cvel": np.zeros((steps, bodies, 6)),
        "cfrc_ext": force,
        "subtree_com": xpos,
        "action": np.zeros((steps, spec.act_dim)),
        **{name: command[which][:, k] for k, name in enumerate(COMMANDS)},
    }
    columns = {name: column.astype(np.float32) for name, column in columns.items()}
    return Trajectory(columns, TrajectoryFacts(env_id=spec.id, dt_s=spec.dt_s))


def drawn(made, random, count=4):
    ends = made.env_args["commands"]
    most = np.array([ends[name][1] for name in ("forward", "sideways", "turn")])
    command = random.uniform(-most, most, (count, 3))
    command[random.integers(count)] = 0.0
    return command, most


def scores(dog, made, pairs):
    """Return the judge's scores of paths with these commanded and actual rates."""
    spec, judge = commanded_spec(dog, made), JudgeCode(made.judge)
    episodes = [path(spec, command, done) for command, done in pairs]
    verdicts = [judge.judge(each) for each in recorded_together(episodes, spec)]
    assert all(verdict.score is not None for verdict in verdicts), verdicts[0].reason
    return [verdict.score for verdict in verdicts]


def test_tracking_random_commands_passes_and_ignoring_one_component_fails(dog, made):
    random = np.random.default_rng(1)
    good, bad = [], []
    for _ in range(6):
        command, most = drawn(made, random)
        good.append((command, command + 0.08 * most * random.normal(size=command.shape)))
        restless = np.where(command.any(-1, keepdims=True), command, 0.8 * most)
        ignoring = [command * (np.arange(3) != place) for place in range(3)]
        bad += [(command, done) for done in (0.0 * command, -command, restless, *ignoring)]
    given = scores(dog, made, [*good, *bad])
    assert min(given[: len(good)]) >= 0.8
    assert max(given[len(good) :]) < 0.1
