import math

import pytest
import torch

from telic import quantities as q
from telic.errors import UsageError

DT = 0.05  # of the recordings below


def turning(recording, robot, angles, starts=None):
    """A robot in the vertical plane that turns through the given angles."""
    qpos = torch.zeros(len(angles), 9 if robot != "Hopper" else 6, dtype=torch.float64)
    qpos[:, 2] = torch.as_tensor(angles)
    fields = {} if starts is None else {"episode_start": torch.tensor(starts)}
    return recording(robot, qpos=qpos, **fields)


@pytest.mark.parametrize("robot", ["HalfCheetah", "Hopper", "Walker2d"])
def test_a_backflip_is_minus_one_turn(recording, robot):
    flip = turning(recording, robot, torch.linspace(0.2, 0.2 - 2 * math.pi, 30))
    turns = q.pitch_turns.over(flip)
    assert turns.shape == (30,)
    assert turns[0].item() == 0.0
    assert turns[-1].item() == pytest.approx(-1.0, abs=1e-6)
    assert q.pitch_rotation.over(flip)[-1].item() == pytest.approx(-2 * math.pi, abs=1e-6)


def spinning(recording, axis, angles, tilt=None):
    """An Ant that turns about one axis of the world or, after a tilt, about its own."""
    half = torch.as_tensor(angles, dtype=torch.float64) / 2
    qpos = torch.zeros(len(half), 15, dtype=torch.float64)
    qpos[:, 3], qpos[:, 4 + axis] = half.cos(), half.sin()
    if tilt is not None:
        from telic.core.rotations import multiply

        qpos[:, 3:7] = multiply(torch.tensor(tilt, dtype=torch.float64), qpos[:, 3:7])
    return recording("Ant", qpos=qpos)


@pytest.mark.parametrize(("axis", "own"), [(0, q.roll_turns), (1, q.pitch_turns), (2, q.yaw_turns)])
def test_a_free_robot_counts_turns_about_its_own_axes_through_every_angle(recording, axis, own):
    # pitch passes the poles of Euler angles at 90 degrees, twice per turn
    twice = spinning(recording, axis, torch.linspace(0, 4 * math.pi, 60, dtype=torch.float64))
    assert own.over(twice)[-1].item() == pytest.approx(2.0, abs=1e-9)
    others = {q.roll_turns, q.pitch_turns, q.yaw_turns} - {own}
    assert all(abs(each.over(twice)[-1].item()) < 1e-9 for each in others)


def test_turning_like_a_log_is_yaw_for_the_robot_but_no_change_of_heading(recording):
    on_its_side = [math.sqrt(0.5), math.sqrt(0.5), 0.0, 0.0]  # up axis along -y
    log = spinning(recording, 2, torch.linspace(0, 2 * math.pi, 40), tilt=on_its_side)
    assert q.yaw_turns.over(log)[-1].item() == pytest.approx(1.0)
    assert q.heading_turns.over(log)[-1].item() == pytest.approx(0.0, abs=1e-9)
    assert q.yaw_rotation.over(log)[-1].item() == pytest.approx(2 * math.pi)


def test_new_episode_resets_the_counts(recording):
    two = turning(
        recording, "HalfCheetah", [0.0, 0.5, 1.0, 4.0, 4.5], [True, False, False, True, False]
    )
    assert q.pitch_rotation.over(two).tolist() == pytest.approx([0, 0.5, 1.0, 0, 0.5])


def test_displacement_has_a_sign_and_distance_does_not(recording):
    qpos = torch.zeros(4, 15, dtype=torch.float64)
    qpos[:, 3] = 1.0
    qpos[:, 0] = torch.tensor([5.0, 8.0, 8.0, 4.0])
    qpos[:, 1] = torch.tensor([0.0, 4.0, 4.0, 1.0])
    walk = recording("Ant", qpos=qpos)
    assert q.displacement.over(walk).tolist() == [0.0, 3.0, 3.0, -1.0]
    assert q.distance_traveled.over(walk).tolist() == [0.0, 5.0, 5.0, 10.0]


def stepping(recording, left, right, starts=None):
    """Walker2d with scripted foot contacts."""
    contacts = torch.zeros(len(left), 8)
    contacts[:, 7] = torch.tensor(left) * 1000.0
    contacts[:, 4] = torch.tensor(right) * 1000.0
    fields = {} if starts is None else {"episode_start": torch.tensor(starts)}
    return recording("Walker2d", contacts=contacts, qpos=torch.zeros(len(left), 9), **fields)


def test_air_time_runs_while_no_foot_touches(recording):
    jump = stepping(recording, [1, 0, 0, 0, 1, 0], [0, 0, 0, 0, 0, 0])
    expected = [0, DT, 2 * DT, 3 * DT, 0, DT]
    assert q.air_time.over(jump).tolist() == pytest.approx(expected)


def test_duty_factor_is_the_share_of_time_on_the_ground(recording):
    walk = stepping(recording, [1, 1, 0, 0], [1, 1, 1, 0])
    per_foot = q.foot_duty_factor.over(walk)  # right, left
    assert per_foot[3].tolist() == pytest.approx([0.75, 0.5])


def test_walking_alternates(recording):
    walk = stepping(recording, [1, 0, 1, 0, 1, 0], [0, 1, 0, 1, 0, 1])
    assert q.stride_alternation.over(walk).tolist() == [0.0, 1.0, 1.0, 1.0, 1.0, 1.0]


def test_hopping_on_one_leg_or_on_both_does_not_alternate(recording):
    one_leg = stepping(recording, [1, 0, 1, 0, 1, 0], [0, 0, 0, 0, 0, 0])
    both = stepping(recording, [1, 0, 1, 0, 1, 0], [1, 0, 1, 0, 1, 0])
    assert q.stride_alternation.over(one_leg)[-1].item() == 0.0
    assert q.stride_alternation.over(both)[-1].item() == 0.0


def test_energy_adds_up_power(recording):
    qvel = torch.zeros(3, 9, dtype=torch.float64)
    qvel[:, 3] = torch.tensor([1.0, -2.0, 0.0])
    action = torch.zeros(3, 6, dtype=torch.float64)
    action[:, 0] = 0.5
    run = recording("HalfCheetah", qpos=torch.zeros_like(qvel), qvel=qvel, action=action)
    # gear 120: |60 * 1| and |60 * -2| watts, for DT seconds each
    assert q.energy.over(run).tolist() == pytest.approx([60 * DT, 180 * DT, 180 * DT])


def test_action_change_is_that_of_a_step(recording):
    action = torch.tensor([[1.0, 0.0, 0.0], [1.0, 3.0, 0.0], [1.0, 3.0, 0.0]])
    jerky = recording("Hopper", action=action)
    assert q.action_change.over(jerky).tolist() == pytest.approx([0.0, 3.0, 0.0])


def test_a_quantity_with_memory_cannot_be_read_off_one_step(recording):
    with pytest.raises(UsageError, match=r"pitch_turns.update"):
        q.pitch_turns(turning(recording, "HalfCheetah", [0.0]))
