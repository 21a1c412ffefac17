"""An episode under one commanded velocity."""

from pathlib import Path

import pytest
import torch

from telic import bench
from telic.envs import make
from telic.envs.driven import VelocityCommands
from telic.errors import UsageError
from telic.robots.build import build_robot
from telic.robots.record import guessed
from telic.training.policy import read_command, with_command

DOG = Path(bench.__file__).parent / "suites" / "robots" / "dog.xml"
SPANS = VelocityCommands(forward=(-0.4, 0.8), sideways=(-0.5, 0.5), turn=(0.0, 1.0))
COMMANDS = ("command_forward", "command_sideways", "command_turn")


@pytest.fixture(scope="module")
def dog(tmp_path_factory):
    return str(build_robot(guessed(DOG), tmp_path_factory.mktemp("driven"), "dog"))


def test_a_command_is_three_numbers_that_it_was_trained_with():
    assert read_command("0.5, 0,-0", SPANS) == (0.5, 0.0, 0.0)
    for text in ("", "1", "a,b,c", "1,2", "0,0,0,0", "nan,0,0", "inf,0,0"):
        with pytest.raises(UsageError, match="Invalid --command"):
            read_command(text, SPANS)
    with pytest.raises(
        UsageError, match=r"0\.9 is outside the range of this policy, -0\.4 to 0\.8 m/s"
    ):
        read_command("0.9,0,0", SPANS)


def test_one_command_is_given_throughout(dog):
    arguments = with_command({"commands": {}, "max_episode_steps": 8}, (0.3, -0.1, 0.2))
    env = make(dog, num_envs=3, seed=1, **arguments)
    env.reset()
    for _ in range(7):
        info = env.step(env.action_rest.expand(3, -1)).info
        for name, value in zip(COMMANDS, (0.3, -0.1, 0.2), strict=True):
            assert torch.allclose(info[name], torch.full((3,), value), atol=1e-6)
