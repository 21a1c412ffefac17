"""mjlab for real where it is installed, and Isaac Lab's interface through a stand-in."""

import sys
from pathlib import Path

import pytest
import torch

from telic.envs import make
from telic.errors import BadEnvironment, SimulatorError

STAND_IN = Path(__file__).with_name("isaac_stand_in")


@pytest.fixture(scope="module")
def isaac(tmp_path_factory) -> str:
    """Return a Python that has the stand-in, as Isaac Lab's own environment has Isaac Lab."""
    path = tmp_path_factory.mktemp("isaac") / "python"
    path.write_text(f'#!/bin/sh\nPYTHONPATH={STAND_IN} exec {sys.executable} "$@"\n')
    path.chmod(0o755)
    return str(path)


@pytest.mark.slow
def test_isaac_labs_interface_is_read_as_it_is(isaac):
    arguments = {"rewards.speed": 2.0, "episode_length_s": 0.2}
    env = make("isaaclab:Isaac-Roll-v0", num_envs=3, python=isaac, seed=1, **arguments)
    assert env.spec.obs_names == ("place_0", "place_1", "speed_0", "speed_1")
    assert env.dt == 0.05 and env.max_episode_steps == 4 and env.groups == ("critic",)
    assert env.action_high.tolist() == [3.0, 3.0]
    env.reset()
    for number in range(1, 5):
        step = env.step(torch.ones(3, 2))
        assert torch.allclose(step.reward, torch.full((3,), 0.2 * number))
        assert bool(step.truncated.all()) == (number == 4) and not step.terminated.any()
    assert torch.allclose(step.info["critic"][:, 0], torch.full((3,), 0.3)), "before the new start"
    assert torch.equal(env.present()["critic"][:, 0], torch.zeros(3))
    env.close()
    with pytest.raises(BadEnvironment, match=r'no task "Isaac-Rol-v0".*Isaac-Roll-v0'):
        make("isaaclab:Isaac-Rol-v0", num_envs=1, python=isaac)
    with pytest.raises(SimulatorError, match=r'configuration has no "rewards.height"'):
        make("isaaclab:Isaac-Roll-v0", num_envs=1, python=isaac, **{"rewards.height": 1.0})
