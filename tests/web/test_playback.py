"""Recorded episodes as a player gets them."""

import numpy as np
import pytest

from telic.storage.trajectories import Trajectory, TrajectoryFacts, write_trajectory
from tests.web.conftest import client_of
from tests.web.made import RUN

FRAMES = 20


@pytest.fixture
def recorded(own):
    """A run with one episode of HalfCheetah that leans more and more."""
    states = np.zeros((FRAMES, 9), np.float32)
    states[:, 0] = np.linspace(0, 2, FRAMES)
    states[:, 2] = np.linspace(0, 1, FRAMES)
    columns = {
        "qpos": states,
        "reward": np.ones(FRAMES, np.float32),
        "reward_terms": np.arange(FRAMES * 2, dtype=np.float32).reshape(FRAMES, 2),
        "action": np.zeros((FRAMES, 6), np.float32),
    }
    facts = TrajectoryFacts(
        env_id="HalfCheetah-v5", dt_s=0.05, reward_term_names=("speed", "control")
    )
    folder = own / "runs" / RUN / "own_seed_1" / "trajectories"
    write_trajectory(folder / "trajectory_10000_median.npz", Trajectory(columns, facts))
    return client_of(own)


def test_bodies_are_where_the_recorded_state_puts_them(recorded):
    [file] = recorded.get(f"/api/artifacts/{RUN}/files", params={"kind": "recording"}).json()
    facts = recorded.get(f"/api/artifacts/{RUN}/playback/{file['key']}").json()
    assert facts["dt_s"] == 0.05
    assert facts["reward_terms"]["control"][:2] == [1.0, 3.0]
    content = recorded.get(f"/api/artifacts/{RUN}/playback/{file['key']}/poses").content
    poses = np.frombuffer(content, "<f4").reshape(FRAMES, facts["bodies"], 7)
    scene = recorded.get(f"/api/artifacts/{RUN}/scene").json()
    torso = scene["bodies"].index("torso")
    assert np.allclose(poses[:, torso, 0], np.linspace(0, 2, FRAMES), atol=1e-5)
    half = np.linspace(0, 1, FRAMES) / 2  # turned about y: w, x, y, z
    expected = np.stack([np.cos(half), 0 * half, np.sin(half), 0 * half], 1)
    assert np.allclose(poses[:, torso, 3:], expected, atol=1e-5)


def test_a_recording_of_another_model_is_refused_in_words(own, recorded):
    facts = TrajectoryFacts(env_id="HalfCheetah-v5", dt_s=0.05)
    folder = own / "runs" / RUN / "own_seed_2" / "trajectories"
    other = Trajectory({"qpos": np.zeros((3, 4), np.float32)}, facts)
    write_trajectory(folder / "trajectory_5_p10.npz", other)
    files = recorded.get(f"/api/artifacts/{RUN}/files", params={"kind": "recording"}).json()
    key = next(file["key"] for file in files if file["step"] == 5)
    answer = recorded.get(f"/api/artifacts/{RUN}/playback/{key}/poses")
    assert answer.status_code == 422 and "does not match" in answer.json()["message"]
