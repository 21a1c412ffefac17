"""Steering by hand: keys become commands, and the robot is told them instead of what it drew."""

from pathlib import Path

import numpy as np
import pytest
import torch

from telic import bench
from telic.envs import make
from telic.envs.commands import VelocityCommands
from telic.errors import UsageError
from telic.rendering.sketch import LINES
from telic.robots.build import build
from telic.robots.record import guessed
from telic.training.joystick import (
    Joystick,
    Steering,
    always_told,
    read_command,
)
from telic.training.policy import play_episode
from telic.verbs.play import play

DOG = Path(bench.__file__).parent / "suites" / "robots" / "dog.xml"
SPANS = VelocityCommands(forward=(-0.4, 0.8), sideways=(-0.5, 0.5), turn=(0.0, 1.0))
TOLD = ("command_forward", "command_sideways", "command_turn")


@pytest.fixture(scope="module")
def dog(tmp_path_factory):
    return str(build(guessed(DOG), tmp_path_factory.mktemp("driven"), "dog"))


class Resting:
    """A policy that does nothing."""

    def __init__(self, env):
        self.facts = {"step": 0}
        self._action = env.action_rest[None]

    def __call__(self, obs):
        return self._action


def pressed(*keys):
    joystick = Joystick(SPANS)
    for key in keys:
        assert joystick.press(key)
    return joystick.command


def test_a_key_is_a_notch_of_the_largest_rate():
    assert pressed("w") == [0.2, 0.0, 0.0]
    assert pressed("w", "w", "a", "q") == pytest.approx([0.4, 0.125, 0.25])
    assert pressed("d", "D") == pytest.approx([0.0, -0.25, 0.0])
    assert pressed("wwa ") == [0.0, 0.0, 0.0]
    assert pressed("w", "s") == [0.0, 0.0, 0.0]
    assert pressed("\x1b[A\x1b[D") == pytest.approx([0.2, 0.0, 0.25])
    assert pressed("xyz?") == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("key", ["\x1b", "\x03", "\x04", "ww\x1b"])
def test_escape_ends_it(key):
    assert not Joystick(SPANS).press(key)


def test_a_command_is_three_numbers_that_it_was_trained_with():
    assert read_command("0.5, 0,-0", SPANS) == (0.5, 0.0, 0.0)
    for text in ("", "1", "a,b,c", "1,2", "0,0,0,0", "nan,0,0", "inf,0,0"):
        with pytest.raises(UsageError, match="is not understood"):
            read_command(text, SPANS)
    with pytest.raises(UsageError, match=r"forward commands of -0\.4 to 0\.8 m/s"):
        read_command("0.9,0,0", SPANS)


def test_one_command_is_given_throughout(dog):
    arguments = always_told({"commands": {}, "max_episode_steps": 8}, (0.3, -0.1, 0.2))
    env = make(dog, num_envs=3, seed=1, **arguments)
    env.reset()
    for _ in range(7):
        info = env.step(env.action_rest.expand(3, -1)).info
        for name, value in zip(TOLD, (0.3, -0.1, 0.2), strict=True):
            assert torch.allclose(info[name], torch.full((3,), value), atol=1e-6)


def test_the_robot_is_told_what_the_keys_say_and_seen_meanwhile(dog):
    arguments = {"commands": {}, "max_episode_steps": 50}
    env = make(dog, num_envs=1, **arguments)
    policy = Resting(env)
    typed = iter(["", "w", "", "q", "", "", " ", "\x1b"])
    shown = []
    steering = Steering(
        Joystick(VelocityCommands()), lambda: next(typed), shown.append, is_live=False
    )
    episode = play_episode(policy, 1, (dog, arguments), steering)
    assert len(episode) == 7
    ahead = [0.0, 0.25, 0.25, 0.25, 0.25, 0.25, 0.0]
    assert np.allclose(episode["command_forward"], ahead)
    assert np.allclose(episode["command_turn"], [0.0, 0.0, 0.0, 0.25, 0.25, 0.25, 0.0])
    seen = list(episode.facts.obs_names).index("command_forward")
    assert np.allclose(episode["next_obs"][:, seen], ahead)
    assert "of +0.25 m/s" in shown[-1] and shown[0].count("\n") == LINES + 2


def test_one_of_joystick_and_command():
    with pytest.raises(UsageError, match="both set"):
        play(joystick="keys", command="0,0,0")
