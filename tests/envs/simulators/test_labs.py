"""mjlab for real where it is installed, and Isaac Lab's interface through a stand-in."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from telic.envs import make
from telic.errors import BadEnvironment, SimulatorError
from tests.training.small import small_job, train_here

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


MJLAB_PYTHON = os.environ.get("TELIC_MJLAB_PYTHON")


def _has_mjlab() -> bool:
    if MJLAB_PYTHON is None:
        return False
    return subprocess.run([MJLAB_PYTHON, "-c", "import mjlab"], capture_output=True).returncode == 0


needs_mjlab = pytest.mark.skipif(
    not _has_mjlab(),
    reason="TELIC_MJLAB_PYTHON names no Python that has mjlab",
)


@pytest.mark.slow
def test_a_task_of_isaac_labs_interface_is_trained(isaac, tmp_path):
    job = small_job(
        "isaaclab:Isaac-Roll-v0",
        steps=512,
        env_args={},
        python=isaac,
        settings={"critic_sees": ("critic",)},
    )
    assert train_here(job, tmp_path).summary.exists()


@pytest.mark.slow
@needs_mjlab
def test_mjlabs_go1_is_trained_through_its_own_python(tmp_path):
    job = small_job(
        "mjlab:Mjlab-Velocity-Flat-Unitree-Go1",
        steps=256,
        env_args={"episode_length_s": 1.0},
        python=MJLAB_PYTHON,
        evaluations=1,
        settings={"horizon": 8, "minibatch_size": 32, "critic_sees": ("critic",)},
    )
    assert train_here(job, tmp_path).summary.exists()
