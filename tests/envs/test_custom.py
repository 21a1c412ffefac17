from pathlib import Path

import mujoco
import pytest
import torch

from telic import quantities as q
from telic.envs import make
from telic.errors import BadEnvironment, ConfigError, UnknownName

ROBOTS = Path(__file__).parent / "robots"
WALKER, QUADRUPED = str(ROBOTS / "walker.xml"), str(ROBOTS / "quadruped.xml")


def test_a_planar_walker_gets_named_observations_without_its_place():
    env = make(WALKER, num_envs=3)
    assert env.spec.id == "walker.xml"
    assert env.spec.obs_names == (
        *("slide_z", "tilt", "rear_hip", "front_hip"),
        *("slide_x_velocity", "slide_z_velocity", "tilt_velocity"),
        *("rear_hip_velocity", "front_hip_velocity"),
    )
    assert env.spec.action_names == ("rear", "front")
    assert env.reset().shape == (3, 9)


def test_quantities_know_the_signs_of_the_model():
    env = make(WALKER, num_envs=1, reset_noise_scale=0.0)
    env.reset()
    env.sim.reset(
        torch.ones(1, dtype=torch.bool),
        torch.tensor([[-2.0, 5.0, -0.3, 0.0, 0.0]]).double(),
        torch.tensor([[-1.5, 0.0, 0.0, 0.0, 0.0]]).double(),
    )
    info = env.step(torch.zeros(1, 2)).info
    # x is driven backwards and the hinge turns about -y: both signs flip; free fall otherwise
    assert q.x_position(info).item() == pytest.approx(2.0 + 1.5 * 0.02, abs=1e-3)
    assert q.forward_velocity(info).item() == pytest.approx(1.5, abs=1e-2)
    assert q.pitch(info).item() == pytest.approx(0.3, abs=1e-2)
    assert q.height(info).item() == pytest.approx(5.6, abs=1e-2)
    assert info["x_velocity"].item() != 0


def test_the_default_reward_is_forward_velocity_less_effort():
    env = make(WALKER, num_envs=2, forward_reward_weight=2.0, ctrl_cost_weight=0.5)
    env.reset()
    before = env.sim.field("qpos").clone()
    step = env.step(torch.tensor([[1.0, 0.0], [0.0, 0.0]]))
    velocity = -(env.sim.field("qpos") - before)[:, 0] / 0.02
    expected = 2.0 * velocity - 0.5 * torch.tensor([0.5, 0.0])
    assert torch.allclose(step.reward.double(), expected, atol=1e-6)
    assert not step.terminated.any()
    assert any("forward_reward_weight * x_velocity" in note for note in env.spec.notes)


def test_a_quadruped_starts_from_its_first_keyframe_and_reads_its_sensors():
    env = make(QUADRUPED, num_envs=2, reset_noise_scale=0.0)
    env.reset()
    assert env.sim.field("qpos")[0, 2].item() == pytest.approx(0.32)
    names = env.spec.obs_names
    assert names[:5] == ("root_z", "root_qw", "root_qx", "root_qy", "root_qz")
    assert names[-4:] == ("gyro_0", "gyro_1", "gyro_2", "fl_angle")
    step = env.step(torch.zeros(2, 4))
    # a sensor describes the state before the last substep, within 2 ms of the joint itself
    observed = step.final_obs[0, names.index("fl_hip")]
    assert step.final_obs[0, -1].item() == pytest.approx(observed.item(), abs=0.01)
    assert env.spec.robot.rest_height == pytest.approx(0.32)


def test_health_pays_and_ends_the_episode_only_when_asked_for():
    env = make(QUADRUPED, num_envs=1, healthy_z_range=(0.5, 3.0), healthy_reward=5.0)
    env.reset()
    step = env.step(torch.zeros(1, 4))
    assert step.terminated.all() and step.info["reward_survive"].item() == 0.0
    kept = make(
        QUADRUPED, num_envs=1, healthy_z_range=(0.1, 3.0), healthy_reward=5.0, keyframe="stand"
    )
    kept.reset()
    step = kept.step(torch.zeros(1, 4))
    assert not step.terminated.any() and step.info["reward_survive"].item() == 5.0
    walking = make(
        QUADRUPED, num_envs=1, healthy_z_range=(0.5, 3.0), terminate_when_unhealthy=False
    )
    walking.reset()
    assert not walking.step(torch.zeros(1, 4)).terminated.any()


def test_a_urdf_gets_motors_with_its_effort_limits_and_no_reward():
    env = make(str(ROBOTS / "arm.urdf"), num_envs=1)
    env.reset()
    step = env.step(torch.ones(1, 1))
    assert env.model.actuator_gear[0, 0] == 12.0
    assert step.info["qfrc_actuator"].item() == pytest.approx(12.0)
    assert step.reward.item() == 0.0
    assert any("zero" in note for note in env.spec.notes)


BROKEN = """<mujoco>
  <worldbody>
    <body name="a"><geom size="0.1"/><joint kind="hinge"/></body>
  </worldbody>
</mujoco>"""


def test_a_broken_file_is_explained_with_its_line(tmp_path):
    file = tmp_path / "broken.xml"
    file.write_text(BROKEN)
    with pytest.raises(BadEnvironment, match=r"(?s)broken.xml.*kind.*line 3"):
        make(str(file), num_envs=1)


def test_another_keyframe_may_be_chosen_by_name_or_number():
    assert make(QUADRUPED, num_envs=1, keyframe="high").robot.rest_height == pytest.approx(2.0)
    assert make(QUADRUPED, num_envs=1, keyframe=1).robot.rest_height == pytest.approx(2.0)
    assert make(QUADRUPED, num_envs=1, keyframe=-1).robot.rest_height == pytest.approx(1.0)
    with pytest.raises(UnknownName, match="stand"):
        make(QUADRUPED, num_envs=1, keyframe="stnd")
    with pytest.raises(ConfigError, match="2 keyframes"):
        make(QUADRUPED, num_envs=1, keyframe=7)


def test_a_compiled_model_works_and_a_damaged_one_is_explained(tmp_path):
    file = tmp_path / "walker.mjb"
    mujoco.mj_saveModel(mujoco.MjModel.from_xml_path(WALKER), str(file), None)
    assert make(str(file), num_envs=1).spec.torso == "trunk"
    file.write_bytes(b"not a model")
    with pytest.raises(BadEnvironment, match=r"walker\.mjb.*XML file"):
        make(str(file), num_envs=1)
