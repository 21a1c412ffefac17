"""Inferred root body, up axis, heading and pose: correct, reported as assumed, or refused."""

import mujoco
import pytest

from telic.envs import make
from telic.envs.anatomy import body_names, robot_of
from telic.envs.models import read_model
from telic.envs.own_robot import assumption_notes
from telic.envs.robot_facts import robot_facts
from telic.errors import BadEnvironment
from telic.robots.record import guessed

FLOOR = '<geom type="plane" size="9 9 .1"/>'
BALL = '<body name="ball" pos="2 0 1"><freejoint/><geom size=".1"/></body>'


def walker(faces="x", size=1.0, prefix="", at="0 0"):
    """Return a quadruped whose legs are called FL, FR, RL and RR."""
    legs = ""
    for x, y, name in ((1, 1, "FL"), (1, -1, "FR"), (-1, 1, "RL"), (-1, -1, "RR")):
        place = (0.2 * x, 0.1 * y) if faces == "x" else (-0.1 * y, 0.2 * x)
        legs += (
            f'<body name="{prefix}{name}" pos="{size * place[0]} {size * place[1]} 0">'
            f'<joint name="{prefix}{name}" axis="0 1 0"/><site name="{prefix}{name}"/>'
            f'<geom type="capsule" fromto="0 0 0 0 0 {-0.3 * size}" size="{0.03 * size}"/></body>'
        )
    return (
        f'<body name="{prefix}trunk" pos="{at} {0.34 * size}"><freejoint/>'
        f'<geom size="{0.1 * size}"/>{legs}</body>'
    )


def scene(bodies, actuators='<motor joint="FL" ctrlrange="-1 1"/>', floor=FLOOR, more="", up=""):
    """Return a model as MJCF."""
    return (
        f"<mujoco><option {up}/><worldbody>{floor}{bodies}</worldbody>"
        f"<actuator>{actuators}</actuator>{more}</mujoco>"
    )


def written(tmp_path, text):
    path = tmp_path / "robot.xml"
    path.write_text(text)
    return path


def compiled(text):
    return mujoco.MjModel.from_xml_string(text)


ROPE = '<tendon><fixed name="t"><joint joint="FL" coef="1"/></fixed></tendon>'
ALONG = '<tendon><spatial name="t"><site site="FL"/><site site="RR"/></spatial></tendon>'


@pytest.mark.parametrize(
    ("actuator", "more"),
    [
        ('<motor tendon="t" ctrlrange="-1 1"/>', ROPE),
        ('<muscle tendon="t" lengthrange="-1 1"/>', ROPE),
        ('<motor tendon="t" ctrlrange="-1 1"/>', ALONG),
        ('<motor jointinparent="FL" ctrlrange="-1 1"/>', ""),
        ('<motor site="FL" gear="0 0 1 0 0 0" ctrlrange="0 5"/>', ""),
        ('<general cranksite="FL" slidersite="FR" cranklength="1" ctrlrange="-1 1"/>', ""),
        ('<adhesion body="FL" ctrlrange="0 1" gain="5"/>', ""),
    ],
    ids=["tendon", "muscle", "tendon along sites", "in parent", "thrust", "crank", "adhesion"],
)
def test_the_robot_is_what_is_driven_however_that_is_done(tmp_path, actuator, more):
    path = written(tmp_path, scene(BALL + walker(), actuator, more=more))
    model = compiled(path.read_text())
    robot = robot_of(model)
    assert body_names(model)[robot.torso] == "trunk"
    assert len(robot.feet) == 4 and len(robot.limbs) == 4
    facts = robot_facts(path)
    assert facts.base == "trunk" and facts.mass_kg == pytest.approx(robot.mass, abs=0.01)
    assert guessed(path).base == "trunk"


@pytest.mark.parametrize("gravity", ["0 -9.81 0", "9.81 0 0", "0 0 9.81"])
def test_a_model_in_which_z_is_not_up_is_refused_in_words(tmp_path, gravity):
    path = written(tmp_path, scene(walker(), up=f'gravity="{gravity}"'))
    for read in (lambda: read_model(str(path)), lambda: guessed(path)):
        with pytest.raises(BadEnvironment, match="z is up"):
            read()


def notes(tmp_path, text, **arguments):
    env = make(str(written(tmp_path, text)), num_envs=1, **arguments)
    env.close()
    return " ".join(assumption_notes(env.spec))


def test_facing_that_contradicts_the_names_is_reported(tmp_path):
    assert "faces 90° from it" in notes(tmp_path, scene(walker("y")))
    assert "faces" not in notes(tmp_path, scene(walker("x")))
    sides = walker("y").replace("FL", "left_1").replace("FR", "right_1")
    sides = sides.replace("RL", "left_2").replace("RR", "right_2")
    assert "faces 90° from it" in notes(tmp_path, scene(sides, '<motor joint="left_1"/>'))


def test_a_second_robot_is_noted(tmp_path):
    two = scene(
        walker() + walker(prefix="other_", at="0 2"),
        '<motor joint="FL" ctrlrange="-1 1"/><motor joint="other_FL" ctrlrange="-1 1"/>',
    )
    assert "Actions also drive other_trunk" in notes(tmp_path, two)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("telic_feet", "garbage"),
        ("telic_feet", "{}"),
        ("telic_feet", "[&quot;nobody&quot;]"),
        ("telic_action_scales", "[1, 2, 3]"),
        ("telic_action_scales", "[&quot;far&quot;]"),
    ],
)
def test_texts_that_are_called_like_ours_are_refused_by_name(tmp_path, name, data):
    custom = f'<custom><text name="{name}" data="{data}"/></custom>'
    with pytest.raises(BadEnvironment, match=name):
        make(str(written(tmp_path, scene(walker(), more=custom))), num_envs=1)
