"""Quantities of gaits on contact patterns made by hand, where the right numbers are known."""

import pytest
import torch

from telic import quantities as q

DT = 0.05  # of the recordings below
FEET = (4, 7, 10, 13)  # Ant's
PERIOD = 20  # steps a cycle


def pattern(phases, duty, cycles=8, period=PERIOD):
    """Return who is on the ground, (T, F): foot i lands at phases[i] and stays for its duty."""
    landed = torch.tensor([round(phase * period) for phase in phases])
    time = torch.arange(cycles * period).unsqueeze(-1)
    return ((time - landed).remainder(period) < round(duty * period)).float()


def walking(recording, contact, robot="Ant", feet=FEET):
    contacts = torch.zeros(len(contact), 14)
    contacts[:, list(feet)] = 1000.0 * contact
    return recording(robot, contacts=contacts, qpos=torch.zeros(len(contact), 15))


def last(quantity, recorded):
    return quantity.over(recorded)[-1]


PHASES = [
    (0.0, 0.5, 0.0, 0.5),
    (0.0, 0.25, 0.5, 0.75),
    (0.0, 0.0, 0.0, 0.0),
    (0.0, 0.15, 0.5, 0.65),
]


@pytest.mark.parametrize("phases", PHASES)
@pytest.mark.parametrize("duty", [0.35, 0.7])
def test_phases_are_when_feet_land_in_the_cycle_of_the_first(recording, phases, duty):
    gait = walking(recording, pattern(phases, duty))
    assert last(q.foot_phase, gait).tolist() == pytest.approx(phases, abs=1e-5)
    assert last(q.foot_phase_lock, gait).tolist() == pytest.approx([1.0] * 4, abs=1e-5)


def test_a_foot_a_little_early_and_a_little_late_lands_on_average_in_time(recording):
    contact = pattern((0.0, 0.0, 0.0, 0.0), 0.5)
    for cycle in range(7):
        shift = 2 if cycle % 2 else -2
        rows = slice(cycle * PERIOD + 5, (cycle + 1) * PERIOD + 5)
        contact[rows, 1] = contact[rows, 1].roll(shift)
    phase, lock = (
        last(q.foot_phase, walking(recording, contact)),
        last(q.foot_phase_lock, walking(recording, contact)),
    )
    away = min(phase[1].item(), 1.0 - phase[1].item())
    assert away < 0.03 and 0.6 < lock[1].item() < 0.95


def test_vibrating_is_not_landing(recording):
    contact = pattern((0.0, 0.5), 0.5)
    feet = (4, 7)
    shaken = contact.repeat_interleave(8, 0)  # at 0.00625 s a step
    shaken[3::16] = 0.0
    fine = walking(recording, contact, "Walker2d", feet)
    fields = {"contacts": torch.zeros(len(shaken), 8), "qpos": torch.zeros(len(shaken), 9)}
    fields["contacts"][:, [4, 7]] = 1000.0 * shaken
    spec = fine.spec.model_copy(update={"dt_s": DT / 8})
    frequency = last(q.stride_frequency, q.Recording(fields, spec)).item()
    assert frequency == pytest.approx(1.0 / (PERIOD * DT), rel=0.1)


@pytest.mark.parametrize(("duty", "flight"), [(0.6, 0.0), (0.5, 0.0), (0.3, 0.4)])
def test_a_biped_walks_without_flight_and_runs_with_it(recording, duty, flight):
    gait = walking(recording, pattern((0.0, 0.5), duty), "Walker2d", (4, 7))
    assert last(q.flight_share, gait).item() == pytest.approx(flight, abs=1e-6)
    assert last(q.foot_duty_factor, gait).tolist() == pytest.approx([duty, duty])


def test_sliding_on_a_shin_is_not_flight(recording):
    contact = torch.zeros(10, 4)
    contacts = torch.zeros(10, 14)
    contacts[:5, 3] = 1000.0  # a body above the foot
    slide = recording("Ant", contacts=contacts, qpos=torch.zeros(10, 15))
    assert last(q.flight_share, slide).item() == pytest.approx(0.5)
    assert last(q.flight_share, walking(recording, contact)).item() == 1.0


@pytest.mark.parametrize("robot", ["Ant", "Walker2d", "HalfCheetah", "Humanoid", "Hopper"])
def test_the_end_of_a_foot_is_where_the_leg_was_measured_to(pose, robot):
    standing = pose(robot)
    heights = q.foot_height(standing.info())
    legs = standing.spec.robot.legs
    hip = standing.spec.robot.rest_height + torch.tensor([leg.hip_m for leg in legs])
    assert heights.shape == (1, len(legs))
    # Never further from the hip than the leg is long.
    assert (hip - heights[0] <= torch.tensor([leg.stretched_m for leg in legs]) + 1e-6).all()
    assert (heights[0] < standing.spec.robot.rest_height + 1e-6).all()


def test_a_bent_ankle_moves_the_end_of_the_foot_and_no_other(pose):
    straight, bent = (
        q.foot_height(pose("Ant").info()),
        q.foot_height(pose("Ant").set(ankle_1=1.0).info()),
    )
    assert bent[0, 0].item() < straight[0, 0].item() - 0.2
    assert bent[0, 1:].tolist() == pytest.approx(straight[0, 1:].tolist())


def bouncing(contact, seed):
    """Return the pattern with the ground lost for a step here and there while a foot stands."""
    noise = torch.rand(contact.shape, generator=torch.Generator().manual_seed(seed)) < 0.25
    inside = (contact > 0) & (contact.roll(1, 0) > 0) & (contact.roll(-1, 0) > 0)
    gaps = noise & inside
    gaps[1:] &= ~gaps[:-1]  # for one step at a time
    return contact * (~gaps).float()


@pytest.mark.parametrize("phases", PHASES)
@pytest.mark.parametrize("seed", range(3))
def test_a_foot_that_bounces_where_it_stands_keeps_its_phase_and_its_stance(
    recording, phases, seed
):
    gait = pattern(phases, 0.6)
    steady, bounced = walking(recording, gait), walking(recording, bouncing(gait, seed))
    assert last(q.foot_phase, bounced).tolist() == pytest.approx(phases, abs=0.02)
    assert min(last(q.foot_phase_lock, bounced).tolist()) > 0.98
    stands = [last(q.stance_share, each).item() for each in (steady, bounced)]
    assert stands == pytest.approx([0.6, 0.6], abs=0.03)
    down = [last(q.foot_duty_factor, each).mean() for each in (bounced, steady)]
    assert down[0] < down[1] - 0.05


def gliding(recording, contact, steps_back):
    """Return a body that goes 0.1 m a step, with feet that stay behind by so much each step."""
    time = torch.arange(len(contact)).double()
    xpos, xquat = torch.zeros(len(contact), 14, 3), torch.zeros(len(contact), 14, 4)
    xquat[..., 0] = 1.0
    xpos[..., 0] = 0.1 * time[:, None]
    for foot, back in zip(FEET, steps_back, strict=True):
        xpos[:, foot, 0] = (0.1 - back) * time
    contacts = torch.zeros(len(contact), 14)
    contacts[:, list(FEET)] = 1000.0 * contact
    qpos = torch.zeros(len(contact), 15)
    return recording("Ant", contacts=contacts, qpos=qpos, xpos=xpos, xquat=xquat)


@pytest.mark.parametrize(
    ("back", "share"),
    [
        ((0.0, 0.0, 0.0, 0.0), 1.0),
        ((0.1, 0.0, 0.0, 0.0), 0.0),
        ((0.05, 0.05, 0.05, 0.0), 0.5),
        ((0.3, 0.3, 0.3, 0.3), 0.0),
    ],
)
def test_robot_with_a_resting_foot_does_not_slide(recording, back, share):
    on = torch.ones(40, 4)
    assert last(q.slide_share, gliding(recording, on, back)).item() == pytest.approx(share)
    assert last(q.slide_share, gliding(recording, 0 * on, back)).item() == 0.0
