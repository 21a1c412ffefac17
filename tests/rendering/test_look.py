"""Dressing a model changes what is seen and nothing else."""

import mujoco
import numpy as np
import pytest

from telic.envs.tasks import TASKS
from telic.errors import BadEnvironment
from telic.rendering import replay
from telic.rendering._camera import floor_height, radius_m
from telic.rendering.look import load_dressed, tile_size_m
from telic.storage.trajectories import TrajectoryFacts

OWN_ROBOT = """
<mujoco>
  <asset><material name="steel" rgba="0.1 0.2 0.3 1"/></asset>
  <worldbody>
    <body name="arm" pos="0 0 1">
      <joint type="hinge" axis="0 1 0"/>
      <geom name="plain" size="0.1"/>
      <geom name="own" size="0.1" rgba="0.9 0.1 0.2 1"/>
      <geom name="steel" size="0.1" material="steel"/>
    </body>
  </worldbody>
</mujoco>
"""


def facts(env_id, **kwargs):
    return TrajectoryFacts(env_id=env_id, dt_s=0.05, **kwargs)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_joints_and_bodies_of_every_task_stay_as_they_were(task, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = replay.model_file(facts(task))
    assert path is not None
    dressed = load_dressed(path, repaint=True)
    assert not list(tmp_path.iterdir()), "MuJoCo's log file does not belong here"
    plain = mujoco.MjModel.from_xml_path(str(path))
    assert dressed.nq == plain.nq
    assert np.array_equal(dressed.qpos0, plain.qpos0)
    assert np.array_equal(dressed.jnt_bodyid, plain.jnt_bodyid)
    assert np.array_equal(dressed.body_pos, plain.body_pos)
    assert dressed.nlight == 1 and dressed.ntex == 2  # sky and floor: nothing that nobody sees
    assert floor_height(dressed) is not None
    assert 0.01 < tile_size_m(dressed) <= 2


def test_a_users_robot_keeps_its_own_colors_and_gets_a_floor_below_it(tmp_path):
    path = tmp_path / "robot.xml"
    path.write_text(OWN_ROBOT)
    model = load_dressed(path)
    assert model.geom("own").rgba == pytest.approx((0.9, 0.1, 0.2, 1))
    assert model.geom("steel").matid[0] == model.material("steel").id
    assert model.geom("plain").rgba[0] > 0.9
    height = floor_height(model)
    assert height is not None and height < 0.9
    floor = np.flatnonzero(model.geom_type == mujoco.mjtGeom.mjGEOM_PLANE)[0]
    reach = model.geom_size[floor, 0]
    assert reach > 60 * radius_m(model), "its edge would be seen"
    periods = reach / (2 * tile_size_m(model))
    assert periods == pytest.approx(round(periods)), "its lines are not at whole tiles"


def test_error_names_the_file_that_is_not_a_model(tmp_path):
    path = tmp_path / "bad.xml"
    path.write_text("<mujoco><worldbody><geom size='-1'/></worldbody></mujoco>")
    with pytest.raises(BadEnvironment, match=r"cannot read .*bad\.xml"):
        load_dressed(path)
