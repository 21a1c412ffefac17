import math

import pytest
import torch

from telic import quantities as q
from telic.envs.spec import EnvSpec


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


def classic(name, state):
    spec = EnvSpec(
        id=name,
        description="",
        obs_names=(),
        action_names=("action",),
        action_low=(0.0,),
        action_high=(1.0,),
        num_actions=2,
        dt_s=None,
        max_episode_steps=None,
        info_keys={"state": ""},
    )
    return q.Recording({"state": torch.tensor([state])}, spec)


def test_classic_tasks_have_poles_too():
    assert value(q.pole_angle(classic("CartPole-v1", [9.0, 9.0, 0.1, -2.0]))) == pytest.approx(0.1)
    assert value(q.pole_rates(classic("CartPole-v1", [9.0, 9.0, 0.1, -2.0]))) == [-2.0]
    assert value(q.pole_angle(classic("Pendulum-v1", [7.0, 1.0]))) == pytest.approx(7 - 2 * math.pi)
    # Acrobot counts its first angle from hanging down, its second from the first
    hanging = q.pole_angles(classic("Acrobot-v1", [0.5, -0.5, 1.0, 2.0]))
    assert value(hanging)[0] == pytest.approx(0.5 - math.pi)
    assert abs(value(hanging)[1]) == pytest.approx(math.pi)
    assert value(q.pole_rates(classic("Acrobot-v1", [0.5, -0.5, 1.0, 2.0]))) == [1.0, 3.0]
