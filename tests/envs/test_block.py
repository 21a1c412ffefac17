"""Arms push and pick up a block: batched, from the model itself, and a gripper holds it."""

import mujoco
import numpy as np
import pytest
import torch

from telic.envs import make
from telic.envs.models import read_model
from telic.errors import BadEnvironment, ConfigError
from telic.robots.arm import BLOCK, HALF_M, has_gripper
from telic.robots.build import build_robot
from telic.robots.record import RobotRecord
from telic.robots.terrain import Ground

FINGERS = """
<body name="one"><joint name="finger_one" type="slide" axis="0 1 0" range="0 .04"/>
  <geom type="box" size=".02 .005 .02" pos="0 .005 0" mass=".05"/></body>
<body name="two"><joint name="finger_two" type="slide" axis="0 -1 0" range="0 .04"/>
  <geom type="box" size=".02 .005 .02" pos="0 -.005 0" mass=".05"/></body>
"""
ARM = """
<mujoco>
  <compiler angle="radian"/>
  <worldbody>
    {table}
    <body name="mount"><geom type="box" size=".05 .05 .05" pos="0 0 .05"/>
      <body name="upper" pos="0 0 .1"><joint name="pan" axis="0 0 1" range="-2 2"/>
        <joint name="lift" axis="0 1 0" range="-2 2"/>
        <geom type="capsule" fromto="0 0 0 .3 0 0" size=".02" mass=".5"/>
        <body name="lower" pos=".3 0 0"><joint name="elbow" axis="0 1 0" range="-2 2"/>
          <geom type="capsule" fromto="0 0 0 .2 0 0" size=".01" mass=".3"/>
          <body name="palm" pos=".26 0 0">{fingers}<site name="grasp_site"/></body>
        </body></body></body>
  </worldbody>
</mujoco>
"""
TABLE = '<body pos=".4 0 .02"><geom type="box" size=".2 .3 .02"/></body>'
POSE = {"lift": -0.9, "elbow": 1.2, "finger_one": 0.03, "finger_two": 0.03}
BOX = ((0.3, 0.5), (-0.2, 0.2), (0.1, 0.3))


@pytest.fixture(scope="module")
def arm(tmp_path_factory):
    place = tmp_path_factory.mktemp("arm")

    def made(table=TABLE, fingers=FINGERS, armature=0.2):
        file = place / "arm.xml"
        file.write_text(ARM.format(table=table, fingers=fingers))
        pose = POSE if fingers else {"lift": -0.9, "elbow": 1.2}
        drives = [{"joints": "pan|lift|elbow", "effort": 60, "stiffness": 300, "damping": 20}]
        if fingers:
            own = {"effort": 20, "stiffness": 800, "damping": 20, "armature": armature}
            drives.append({"joints": "finger_.*", **own})
        says = {"model": str(file), "pose": pose, "goal": BOX, "drives": drives}
        return str(build_robot(RobotRecord.parse(says), place / "driven", "arm"))

    return made


def column(env, name):
    return list(env.spec.obs_names).index(name)


def places(env, obs, stem):
    return obs[:, column(env, f"{stem}_x") : column(env, f"{stem}_z") + 1]


@pytest.mark.parametrize("task", ["push", "pick"])
def test_every_episode_has_block_and_goal_elsewhere_and_something_left_to_do(arm, task):
    env = make(arm(), num_envs=256, seed=1, task=task)
    obs = env.reset()
    block, goal = places(env, obs, "block"), places(env, obs, "target")
    low, high = torch.tensor(BOX).T
    for place in (block, goal):
        inside = (place[:, :2] >= low[:2] - 1e-4) & (place[:, :2] <= high[:2] + 1e-4)
        assert inside.all() and place[:, :2].std(0).min() > 0.03
    assert torch.allclose(block[:, 2], torch.tensor(0.04 + HALF_M), atol=1e-4)
    assert (goal - block)[:, :2].norm(dim=1).min() > 0.05
    raised = goal[:, 2] - block[:, 2]
    assert raised.abs().max() < 1e-4 if task == "push" else raised.min() > 0.09
    for _ in range(25):
        step = env.step(env.action_rest.expand(256, -1))
    assert (places(env, step.obs, "block") - block).abs().max() < 1e-3  # it lies where it was put
    assert torch.equal(places(env, step.obs, "target"), goal)


def test_what_is_observed_of_the_block_is_what_the_simulation_has(arm):
    env = make(arm(), num_envs=4, seed=3, task="push")
    env.reset()
    step = env.step(env.action_rest.expand(4, -1))
    body = env.model.body(BLOCK).id
    place, turn = env.sim.field("xpos")[:, body], env.sim.field("xquat")[:, body]
    hand, goal = places(env, step.obs, "hand"), places(env, step.obs, "target")
    assert torch.allclose(places(env, step.obs, "block"), place.float(), atol=1e-6)
    assert torch.allclose(places(env, step.obs, "to_block") + hand, place.float(), atol=1e-5)
    way = places(env, step.obs, "block_to_target")
    assert torch.allclose(place.float() + way, goal, atol=1e-5)
    for row in range(4):
        matrix = np.zeros(9)
        mujoco.mju_quat2Mat(matrix, turn[row].numpy())
        columns = torch.tensor(matrix).view(3, 3).float()
        assert torch.allclose(places(env, step.obs, "block_ahead")[row], columns[:, 0], atol=1e-5)
        assert torch.allclose(places(env, step.obs, "block_left")[row], columns[:, 1], atol=1e-5)
    assert torch.allclose(step.info["reward_dist"].float(), -way.norm(dim=1), atol=1e-5)


@pytest.mark.parametrize("armature", [0.0, 0.2, 1.0])
def test_a_gripper_holds_the_block_at_rest_and_while_the_arm_swings(arm, armature):
    """With the friction of robots on floors, it creeps out of the fingers in seconds."""
    model, _ = read_model(arm(armature=armature), Ground(block=True))
    assert _slipped_m(model, 0.0) < 0.001
    assert _slipped_m(model, 0.3) < 0.005
    plain, _ = read_model(arm(armature=armature))
    for name in ("cone", "impratio", "iterations", "ls_iterations"):
        setattr(model.opt, name, getattr(plain.opt, name))
    assert _slipped_m(model, 0.0) > 0.003


def _slipped_m(model, swing_rad):
    """Close the fingers around a block in the air, swing for three seconds; return its slip."""
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    for name in ("finger_one", "finger_two"):
        data.joint(name).qpos = HALF_M + 0.0002
    mujoco.mj_forward(model, data)
    first = model.joint("block_x").qposadr[0]
    data.qpos[first : first + 7] = *data.body("palm").xpos, *data.body("palm").xquat
    drives = [model.actuator(i).name for i in range(model.nu)]
    rest = np.array([data.joint(name).qpos[0] for name in drives])
    mujoco.mj_forward(model, data)

    def seen():
        turned = data.body("palm").xmat.reshape(3, 3)
        return turned.T @ (data.body(BLOCK).xpos - data.body("palm").xpos)

    held = seen()
    for step in range(round(3.0 / model.opt.timestep)):
        data.ctrl[:] = rest
        data.ctrl[drives.index("finger_one")] = data.ctrl[drives.index("finger_two")] = 0.0
        data.ctrl[drives.index("pan")] += swing_rad * np.sin(3.0 * step * model.opt.timestep)
        mujoco.mj_step(model, data)
    return float(np.linalg.norm(seen() - held))


def test_an_arm_without_a_gripper_pushes_and_does_not_pick(arm):
    bare = arm(fingers="")
    assert has_gripper(mujoco.MjModel.from_xml_path(arm()))
    make(bare, num_envs=1, task="push").reset()
    with pytest.raises(ConfigError, match="no gripper"):
        make(bare, num_envs=1, task="pick")


def test_what_reaches_for_nothing_has_no_block(tmp_path):
    cart = tmp_path / "cart.xml"
    cart.write_text(
        "<mujoco><worldbody><body><joint name='a' type='slide' axis='1 0 0'/><geom size='.1'/>"
        "</body></worldbody><actuator><motor joint='a'/></actuator></mujoco>"
    )
    with pytest.raises(BadEnvironment, match="no arm with a hand"):
        make(str(cart), num_envs=1, task="push")


@pytest.mark.slow  # compiles kernels of elliptic cones: half a minute, once
def test_a_step_with_the_block_in_the_gripper_is_the_same_on_a_gpu(arm):
    pytest.importorskip("mujoco_warp", reason="the extra gpu is not installed")
    from telic.sim._gpu import GpuSimulation
    from telic.sim.simulation import simulate

    model, _ = read_model(arm(), Ground(block=True))
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    for name in ("finger_one", "finger_two"):
        data.joint(name).qpos = HALF_M - 0.0002
    mujoco.mj_forward(model, data)
    first = model.joint("block_x").qposadr[0]
    data.qpos[first : first + 7] = *data.body("palm").xpos, *data.body("palm").xquat
    ends = []
    for sim in (simulate(model, 2), GpuSimulation(model, 2, device="cpu")):
        like = sim.field("qpos")
        qpos = torch.tensor(data.qpos).to(like.dtype).repeat(2, 1)
        sim.reset(torch.ones(2, dtype=torch.bool), qpos, torch.zeros_like(sim.field("qvel")))
        sim.step(torch.tensor([0.1, -0.9, 1.2, 0.0, 0.0]).to(like.dtype).repeat(2, 1), 8)
        ends.append(sim.field("qpos").double())
    off = (ends[0] - ends[1]).abs().amax(0)
    assert off[:-4].max() < 1e-4 and off[-4:].max() < 2e-3  # last: how a small block is turned
    assert (ends[0][0] - qpos[0]).abs().max() > 1e-3
