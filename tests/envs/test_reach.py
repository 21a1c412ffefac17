"""Arms reach for a target that every episode has elsewhere: batched, from the model itself."""

import mujoco
import pytest
import torch

from telic.envs import make
from telic.envs.robot_facts import robot_facts
from telic.quantities import distance_to_target
from telic.robots.build import build_robot
from telic.robots.record import RobotRecord

ARM = """
<mujoco>
  <worldbody>
    <body name="mount"><geom type="box" size=".05 .05 .05" pos="0 0 .05"/>
      <body name="upper" pos="0 0 .1"><joint name="pan" axis="0 0 1"/>
        <joint name="lift" axis="0 1 0" range="-90 90"/>
        <geom type="capsule" fromto="0 0 0 .3 0 0" size=".02" mass=".5"/>
        <body name="lower" pos=".3 0 0"><joint name="elbow" axis="0 1 0" range="-120 120"/>
          <geom type="capsule" fromto="0 0 0 .3 0 0" size=".02" mass=".3"/>
          {site}
        </body></body></body>
  </worldbody>
</mujoco>
"""
SITE = '<site name="grasp_site" pos=".3 0 0"/>'
POSE = {"lift": -0.9, "elbow": 1.2}
BOX = ((0.2, 0.4), (-0.2, 0.2), (0.1, 0.3))


@pytest.fixture(scope="module")
def arm(tmp_path_factory):
    place = tmp_path_factory.mktemp("arm")

    def made(site=SITE, **says):
        file = place / "arm.xml"
        file.write_text(ARM.format(site=site))
        record = RobotRecord.parse({"model": str(file), "pose": POSE, **says})
        return build_robot(record, place / "driven", "arm")

    return made


def targets(env):
    return env.sim.field("xpos")[:, env.robot.target]


def test_every_episode_has_its_target_within_the_box_and_it_stays_there(arm):
    env = make(str(arm()), num_envs=64, seed=1, goal=BOX, max_episode_steps=10)
    env.reset()
    low, high = torch.tensor(BOX, dtype=torch.float64).T
    first = targets(env).clone()
    assert ((first >= low) & (first <= high)).all() and first.std(0).min() > 0.03
    for k in range(9):
        env.step((env.action_high if k % 2 else env.action_low).expand(64, -1))
        assert torch.allclose(targets(env), first, atol=1e-9)
    env.step(env.action_rest.expand(64, -1))
    assert (targets(env) - first).norm(dim=1).min() > 1e-4  # another episode, another place


def test_it_sees_the_way_to_the_target_and_is_measured_by_it(arm):
    env = make(str(arm()), num_envs=8, seed=2)
    env.reset()
    step = env.step(env.action_rest.expand(8, -1))
    names = list(env.spec.obs_names)
    way = step.obs[:, names.index("to_target_x") : names.index("to_target_z") + 1]
    hand = step.obs[:, names.index("hand_x") : names.index("hand_z") + 1]
    assert torch.allclose(hand + way, targets(env).float(), atol=1e-5)
    assert torch.allclose(way.norm(dim=1), distance_to_target(step.info).float(), atol=1e-5)
    assert torch.allclose(step.info["reward_dist"].float(), -way.norm(dim=1), atol=1e-5)


@pytest.mark.parametrize(("site", "says"), [(SITE, {}), ("", {}), ("", {"hand": "upper"})])
def test_hand_is_the_named_site_or_the_last_body_or_as_given(arm, site, says):
    path = arm(site, **says)
    model = mujoco.MjModel.from_xml_path(str(path))
    holder = "upper" if says else "lower"
    assert model.body(model.body("fingertip").parentid[0]).name == holder
    assert model.body("fingertip").pos[0] == (0.3 if site else 0.0)
    assert robot_facts(path).kind == "arm" and robot_facts(path).joints == 3
