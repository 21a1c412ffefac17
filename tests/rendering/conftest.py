"""A short recorded episode of a robot, made with MuJoCo alone."""

from pathlib import Path

import numpy as np
import pytest

from telic.storage.trajectories import Trajectory, TrajectoryFacts, write_trajectory

CHEETAH_DT = 0.05


@pytest.fixture(scope="session")
def cheetah() -> Trajectory:
    """Forty steps in which the model glides forward at 2 m/s and swings its legs."""
    steps = 40
    time = np.arange(1, steps + 1) * CHEETAH_DT
    qpos = np.zeros((steps, 9))
    qpos[:, 0] = 2.0 * time
    qpos[:, 3:] = 0.4 * np.sin(6 * time[:, None] + np.arange(6))
    columns = {"qpos": qpos, "reward": np.ones(steps)}
    return Trajectory(columns, TrajectoryFacts(env_id="HalfCheetah-v5", dt_s=CHEETAH_DT))


@pytest.fixture
def cheetah_file(cheetah, tmp_path) -> Path:
    path = tmp_path / "cheetah.npz"
    write_trajectory(path, cheetah)
    return path
