import math

import pytest

from telic import quantities as q


def value(tensor):
    return tensor.squeeze(0).tolist()


def test_poles_are_measured_from_upright(pose):
    info = pose("InvertedDoublePendulum").set(hinge=0.3, hinge2=0.2).move(hinge=1, hinge2=-3).info()
    assert value(q.pole_angles(info)) == pytest.approx([0.3, 0.5])
    assert value(q.pole_angle(info)) == pytest.approx(0.3)
    assert value(q.pole_rates(info)) == pytest.approx([1.0, -2.0])


def test_a_pole_leaning_to_the_front_has_a_positive_angle(pose):
    robot = pose("InvertedPendulum").set(hinge=0.4)
    assert value(q.pole_angle(robot.info())) == pytest.approx(0.4)
    assert robot.data.body("pole").xipos[0] > 0.1


def test_tip_height_is_the_end_of_the_last_pole(pose):
    double = pose("InvertedDoublePendulum").set(hinge=0.3, hinge2=0.2)
    expected = 0.6 * math.cos(0.3) + 0.6 * math.cos(0.5)
    assert value(q.tip_height(double.info())) == pytest.approx(expected)
    assert double.data.site("tip").xpos[2] == pytest.approx(expected)
    single = pose("InvertedPendulum").set(hinge=0.4).info()
    # the capsule ends at (0.001, 0, 0.6) in the pole's frame
    assert value(q.tip_height(single)) == pytest.approx(0.6 * math.cos(0.4) - 0.001 * math.sin(0.4))
