"""The ray caster draws what is there."""

import mujoco
import numpy as np
import pytest

from telic.rendering._camera import Camera
from telic.rendering._painters import RayPainter
from telic.rendering.look import FLOOR_SHADOW, load_dressed

BALL = """
<mujoco>
  <worldbody>
    <geom type="plane" size="1 1 1"/>
    <body pos="0 0 1">
      <freejoint/>
      <geom type="sphere" size="0.5" rgba="1 0 0 1"/>
    </body>
  </worldbody>
</mujoco>
"""


@pytest.fixture
def ball(tmp_path):
    path = tmp_path / "ball.xml"
    path.write_text(BALL)
    model = load_dressed(path)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    return model, data


def red(picture):
    return (picture[..., 0] > 2.0 * picture[..., 1]) & (picture[..., 0] > 60)


def test_a_ball_is_where_and_as_large_as_perspective_says(ball):
    model, data = ball
    painter = RayPainter(model, 160, 120)
    camera = Camera(np.array([0.0, 0.0, 1.0]), 4.0, 90.0, 0.0)
    rows, columns = np.nonzero(red(painter.paint(data, camera)))
    assert rows.mean() == pytest.approx(59.5, abs=0.5)
    assert columns.mean() == pytest.approx(79.5, abs=0.5)
    # radius in pixels: tan(asin(r / d)) / tan(fov / 2) * height / 2
    radius = np.tan(np.arcsin(0.5 / 4.0)) / np.tan(np.radians(22.5)) * 60
    assert np.sqrt(len(rows) / np.pi) == pytest.approx(radius, rel=0.03)
    data.qpos[0] = 0.5
    mujoco.mj_kinematics(model, data)
    moved = np.nonzero(red(painter.paint(data, camera)))[1]
    assert moved.mean() - columns.mean() == pytest.approx(0.5 / 4 * 60 / 0.4142, rel=0.05)


def test_sky_is_above_the_floor_and_a_shadow_lies_on_it(ball):
    model, data = ball
    painter = RayPainter(model, 160, 120)
    camera = Camera(np.array([0.0, 0.0, 0.7]), 5.0, 90.0, -20.0)
    picture = painter.paint(data, camera).astype(int)
    assert picture[0, 80, 2] > picture[0, 80, 0] + 10, "the sky is blue"
    darkest = np.array(FLOOR_SHADOW) * 255
    shadow = np.abs(picture - darkest).max(-1) < 14
    assert shadow.sum() > 100
    data.qpos[2] = 50.0  # far above: its shadow is out of sight
    mujoco.mj_kinematics(model, data)
    assert (np.abs(painter.paint(data, camera) - darkest).max(-1) < 14).sum() == 0
