import mujoco
import pytest

from telic.envs.anatomy import robot_of
from telic.envs.catalogue import describe


@pytest.mark.parametrize(
    ("name", "root", "moves", "turns", "torso", "feet", "sides"),
    [
        ("HalfCheetah", "planar", "xz", "y", "torso", ("bfoot", "ffoot"), ("back", "front")),
        ("Hopper", "planar", "xz", "y", "torso", ("foot",), None),
        ("Walker2d", "planar", "xz", "y", "torso", ("foot", "foot_left"), ("left", "right")),
        ("Swimmer", "planar", "xy", "z", "torso", (), None),
        ("Humanoid", "free", "xyz", "xyz", "torso", ("right_foot", "left_foot"), ("left", "right")),
        ("Reacher", "fixed", "", "", None, (), None),
        ("InvertedPendulum", "rail", "x", "", "cart", (), None),
    ],
)
def test_what_the_model_shows(name, root, moves, turns, torso, feet, sides):
    spec = describe(f"{name}-v5")
    robot = spec.robot
    assert (robot.root.kind, robot.root.moves, robot.root.turns) == (root, moves, turns)
    assert spec.torso == torso
    assert spec.feet == feet
    assert robot.side_names == sides


def test_the_feet_of_the_ant_are_left_and_right_of_its_way():
    spec = describe("Ant-v5")
    assert spec.feet == ("aux_1.1", "aux_2.1", "aux_3.1", "aux_4.1")
    # seen along +x; the model's own names take +y for the front
    assert spec.robot.sides == ((0, 1), (2, 3))


def compile_body(joints, rest=""):
    return mujoco.MjModel.from_xml_string(
        f"<mujoco><worldbody><body name='b' pos='1 2 3'>{joints}<geom size='.1' mass='1'/>"
        f"<body><joint axis='0 1 0'/><geom size='.1' mass='1'/></body></body>{rest}</worldbody>"
        "<actuator><motor joint='m'/></actuator></mujoco>".replace(
            "<joint axis='0 1 0'/>", "<joint name='m' axis='0 1 0'/>"
        )
    )


@pytest.mark.parametrize(
    "joints",
    [
        "<joint type='hinge' axis='0 1 0'/><joint type='slide' axis='1 0 0'/>",  # slides turn along
        "<joint type='slide' axis='1 0 1'/>",  # not along a world axis
        "<joint type='slide' axis='1 0 0'/><joint type='hinge' axis='0 1 0' pos='0 0 1'/>",
        "<joint type='ball'/>",
        "",
    ],
)
def test_a_root_that_qpos_alone_does_not_place_counts_as_fixed(joints):
    robot = robot_of(compile_body(joints))
    assert robot.root.kind == "fixed"
    assert robot.torso is None
