"""Selection of the rendered states and of the model."""

import numpy as np
import pytest

from telic.rendering.job import RenderJob
from telic.rendering.media import playback_rows
from telic.rendering.replay import Stage, model_file
from telic.storage.trajectories import Trajectory, TrajectoryFacts


def stage():
    return Stage("rays")


def job(**settings):
    files = {"trajectory": "t.npz", "output": "v.mp4", "env": "HalfCheetah-v5"}
    return RenderJob(**files, width=64, height=48, **settings)


@pytest.mark.parametrize(
    ("length", "dt", "fps", "frames"),
    [(1000, 0.05, 20, 1000), (1000, 0.008, 30, 240), (7, 1, 1, 7)],
)
def test_playback_is_in_real_time(length, dt, fps, frames):
    rows, rate = playback_rows(length, dt, 30)
    assert rate == pytest.approx(fps)
    assert len(rows) == frames
    assert len(rows) / rate == pytest.approx(length * dt, rel=0.01)
    assert rows[0] == 0 and rows[-1] >= length - 1 / (fps * dt) - 1
    # frame k shows the state of time k / fps
    assert np.abs(rows * dt - np.arange(frames) / fps).max() <= dt / 2 + 1e-9


def test_the_model_is_known_from_the_environment(tmp_path):
    def name(env_id, **more):
        path = model_file(TrajectoryFacts(env_id=env_id, dt_s=0.1, **more))
        return path and path.name

    assert name("HalfCheetah-v5") == "half_cheetah.xml"
    assert name("Walker2d-v5") == "walker2d_v5.xml"
    assert name("Walker2d-v4") == "walker2d.xml"
    assert name("Ant-v5", env_kwargs={"xml_file": "swimmer.xml"}) == "swimmer.xml"
    assert name("my:Env", model_path=str(tmp_path / "own.xml")) == "own.xml"
    assert name(str(tmp_path / "robot.xml")) == "robot.xml"
    assert name("CartPole-v1") is None
    assert name("my.module:Class") is None


def test_frames_show_the_recorded_states_and_reuse_the_model(cheetah):
    drawn = stage()
    frames = list(drawn.frames(cheetah, np.array([0, 20, 20]), 0.05, job(caption=False), 320))
    assert [frame.shape for frame in frames] == [(48, 64, 3)] * 3
    assert (frames[0] != frames[1]).any()
    kept = drawn._kept
    list(drawn.frames(cheetah, np.array([3]), 0.05, job(), 320))
    assert drawn._kept is kept
    drawn.close()


def test_mocap_bodies_are_put_where_they_were(tmp_path):
    path = tmp_path / "goal.xml"
    path.write_text(
        "<mujoco><worldbody><body><freejoint/><geom size='.1'/></body>"
        "<body mocap='true'><geom size='.3' rgba='1 0 0 1'/></body></worldbody></mujoco>"
    )
    qpos = np.tile([0, 0, 0, 1, 0, 0, 0], (2, 1)).astype(float)
    columns = {"qpos": qpos, "mocap_pos": np.array([[[0.0, 0, 0]], [[50.0, 0, 0]]])}
    columns["mocap_quat"] = np.tile([1.0, 0, 0, 0], (2, 1, 1))
    episode = Trajectory(columns, TrajectoryFacts(env_id=str(path), dt_s=0.1))
    near, far = stage().frames(episode, np.arange(2), 0.1, job(caption=False), 320)
    red = [((f[..., 0] > 2.0 * f[..., 1]) & (f[..., 0] > 60)).sum() for f in (near, far)]
    assert red[0] > 20 and red[1] == 0
