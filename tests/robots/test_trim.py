"""Models come as scenes: what is not the robot goes, and its base is freed and set straight."""

import mujoco
import numpy as np
import pytest
import torch

from telic.envs import make
from telic.errors import BadFile
from telic.robots.build import build_robot, driven
from telic.robots.record import RobotRecord, guessed

SCENE = """
<mujoco model="scene">
  <worldbody>
    <geom name="floor" type="plane" size="0 0 1"/>
    <geom name="wall_x" type="box" size=".1 1 1" pos="3 0 1"/>
    <body name="table" pos="2 0 0"><geom name="top" type="box" size=".1 .1 .1"/></body>
    <body name="ball" pos="0 1 1"><freejoint/><geom name="ball" size=".1"/></body>
    <body name="trunk" pos="0 0 .5" {turn}>
      {base}
      <geom name="chest" type="box" size=".2 .1 .05" pos=".05 0 .02" mass="2"/>
      <site name="imu" pos=".1 0 0"/>
      {legs}
    </body>
  </worldbody>
  <sensor><framepos objtype="body" objname="ball"/></sensor>
  {motor}
</mujoco>
"""
LEG = """
<body pos="{x} {y} 0">
  <joint name="hip{i}" axis="0 1 0" range="-60 60"/>
  <geom type="capsule" fromto="0 0 0 0 0 -.2" size=".02" mass=".2"/>
  <body pos="0 0 -.2"><joint axis="0 1 0" range="-120 120"/>
    <geom type="capsule" fromto="0 0 0 0 0 -.2" size=".02" mass=".1"/></body>
</body>
"""
MOTOR = '<actuator><motor joint="{}" gear="5"/></actuator>'
RAILS = "".join(
    f'<joint name="{kind}{axis}" type="{kind}" axis="{" ".join(axes)}"/>'
    for kind in ("slide", "hinge")
    for axis, axes in (("x", "100"), ("y", "010"), ("z", "001"))
)


@pytest.fixture
def scene(tmp_path):
    def write(base="<freejoint/>", turn="", motor=""):
        corners = enumerate([(0.15, 0.1), (0.15, -0.1), (-0.15, 0.1), (-0.15, -0.1)])
        legs = "".join(LEG.format(i=i, x=x, y=y) for i, (x, y) in corners)
        file = tmp_path / "scene.xml"
        file.write_text(SCENE.format(base=base, turn=turn, legs=legs, motor=motor))
        return file

    return write


def compiled(record):
    return mujoco.MjModel.from_xml_string(driven(record))


def test_what_is_left_out_is_gone_with_all_that_names_it(scene):
    model = compiled(guessed(scene(), {"leave_out": ["ball", "wall_.*"]}))
    assert (model.nsensor, model.nq, model.nu) == (0, 7 + 8, 8)
    names = [model.geom(g).name for g in range(model.ngeom)]
    assert "wall_x" not in names and "top" in names
    with pytest.raises(BadFile, match='"cat" matches no body or geom'):
        guessed(scene(), {"leave_out": ["cat"]})


@pytest.mark.parametrize(("base", "root"), [(RAILS, None), ("", "free"), ("<freejoint/>", None)])
def test_a_base_on_rails_or_on_nothing_becomes_free(scene, base, root):
    record = guessed(scene(base), {"leave_out": ["ball"], **({"root": root} if root else {})})
    model = compiled(record)
    assert record.base == "trunk" and model.jnt_type[0] == mujoco.mjtJoint.mjJNT_FREE
    assert (model.nq, model.nu) == (7 + 8, 8)  # joints without a name are driven, too
    fixed = compiled(record.replace(root="fixed"))
    assert fixed.nq == 8


@pytest.mark.parametrize("turn", ['euler="90 0 0"', 'euler="0 0 40"', 'euler="10 20 30"'])
@pytest.mark.parametrize("facing", [0.0, 90.0])
def test_the_frame_of_the_base_is_upright_and_no_part_moves_against_another(scene, turn, facing):
    """The robot is turned about the vertical by what it faced, and not changed otherwise."""
    file = scene(turn=turn)
    says = {"leave_out": ["ball"], "facing_deg": facing}
    record = RobotRecord.parse({"model": str(file), "base": "trunk", **says})
    straight = record.spec().compile()
    plain = record.source().compile()
    assert np.allclose(straight.body("trunk").quat, (1, 0, 0, 0))
    ahead = np.radians(-facing)
    turned = np.array(
        [[np.cos(ahead), -np.sin(ahead), 0], [np.sin(ahead), np.cos(ahead), 0], [0, 0, 1]]
    )
    places = []
    for model in (plain, straight):
        data = mujoco.MjData(model)
        mujoco.mj_forward(model, data)
        own = model.body_rootid == model.body("trunk").id
        places.append(data.xipos[own] - data.xpos[model.body("trunk").id])
        places.append(data.site("imu").xpos - data.xpos[model.body("trunk").id])
    assert np.allclose(places[0] @ turned.T, places[2], atol=1e-6)
    assert np.allclose(places[1] @ turned.T, places[3], atol=1e-6)
    assert straight.body_mass.sum() == pytest.approx(
        plain.body_mass.sum() - plain.body("ball").mass
    )


def test_a_robot_is_driven_by_its_own_actuators_where_that_is_asked_for(scene, tmp_path):
    file = scene(motor=MOTOR.format("hip0"))
    record = guessed(file, {"leave_out": ["ball"], "actuators": "model"})
    model = compiled(record)
    assert model.nu == 1 and model.actuator_gear[0, 0] == 5
    env = make(str(build_robot(record, tmp_path, "own")), num_envs=2)
    env.reset()
    assert env.act_dim == 1


# ------------------------------------------------------------------- somebody's own model

OWN = """
<mujoco>
  <default>
    <joint limited="true" range="-90 90" damping="2" armature="0.1"/>
    <motor ctrllimited="true" ctrlrange="-1 1" gear="40"/>
    <position ctrlrange="-1 1" forcerange="-3 3"/>
  </default>
  <worldbody>
    <geom type="plane" size="0 0 1"/>
    {bodies}
  </worldbody>
  <tendon><fixed name="both"><joint joint="a" coef="1"/><joint joint="b" coef="1"/></fixed></tendon>
  <actuator>{actuators}</actuator>
  <sensor>{sensors}</sensor>
</mujoco>
"""
CHAIN = """
<body name="one" pos="0 0 .6">{base}<geom size=".05" mass="1"/>
  <body name="two" pos=".2 0 0"><joint name="a" axis="0 1 0"/><geom size=".05" mass="1"/>
    <body name="three" pos=".2 0 0"><joint name="b" axis="0 1 0"/><geom size=".05" mass="1"/>
      <body name="four" pos=".2 0 0"><joint name="c" axis="0 1 0"/><geom size=".05" mass=".1"/>
</body></body></body></body>
"""
PLANAR = '<joint type="slide" axis="1 0 0" limited="false"/><joint type="slide" axis="0 0 1" '
PLANAR += 'limited="false"/><joint axis="0 1 0" limited="false"/>'
BASES = {"fixed": "", "planar": PLANAR, "free": "<freejoint/>"}
ACTUATORS = {
    "none": ("", "abc"),
    "two joints": ('<motor name="m" joint="a"/><motor joint="c"/>', "ac"),
    "a tendon": ('<motor name="m" tendon="both"/>', "ab"),
}


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("actuators", ACTUATORS)
def test_what_the_model_moves_is_driven_and_what_it_does_not_is_left_alone(
    tmp_path, base, actuators
):
    text, moved = ACTUATORS[actuators]
    sensors = '<actuatorfrc actuator="m"/>' if text else ""
    file = tmp_path / "own.xml"
    bodies = CHAIN.format(base=BASES[base])
    file.write_text(OWN.format(bodies=bodies, actuators=text, sensors=sensors))
    record = guessed(file)
    path = build_robot(record, tmp_path, "own")
    model = mujoco.MjModel.from_xml_path(str(path))
    names = {model.actuator(i).name for i in range(model.nu)}
    # A base on rails is driven only where nobody says what is.
    assert set(moved) <= names and ((names == set(moved)) or (not text and base == "planar"))
    assert np.allclose(model.actuator_gear[:, 0], 1) and model.nsensor == 0
    env = make(str(path), num_envs=2)
    env.reset()
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        share = torch.rand(2, env.act_dim, generator=generator)
        step = env.step(env.action_low + (env.action_high - env.action_low) * share)
    assert torch.isfinite(step.obs).all() and not step.info["diverged"].any()
