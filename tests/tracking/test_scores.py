"""Rewards and failures on hand-made moments."""

import math

import pytest
import torch

from telic.errors import ConfigError, UnknownName
from telic.motions.kinematics import BodyStates
from telic.tracking._parts import tracked_parts
from telic.tracking.config import TerminationsGroup, TrackingReward, preset
from telic.tracking.scores import (
    Tracked,
    check_rewards,
    failures,
    relative,
    rewards,
)

PARTS = tracked_parts(preset("planar").robot)
B = len(PARTS.bodies)


def turn(axis: int, angle: float) -> torch.Tensor:
    quat = torch.zeros(4)
    quat[0], quat[1 + axis] = math.cos(angle / 2), math.sin(angle / 2)
    return quat


def bodies(n: int = 1) -> BodyStates:
    generator = torch.Generator().manual_seed(0)
    quat = torch.zeros(n, B, 4)
    quat[..., 0] = 1.0
    draw = [torch.randn(n, B, 3, generator=generator) for _ in range(3)]
    return BodyStates(draw[0], quat, draw[1], draw[2])


def tracked(robot: BodyStates, target: BodyStates, **changes) -> Tracked:
    n = len(robot.pos)
    limits = torch.tensor([[-1.0] * 6, [1.0] * 6])
    made = Tracked(
        parts=PARTS,
        bodies=robot,
        target=target,
        relative=relative(robot, target),
        action=torch.zeros(n, 6),
        last_action=torch.zeros(n, 6),
        joint_pos=torch.zeros(n, 6),
        joint_acc=torch.zeros(n, 9),
        limits=limits,
        contact=torch.zeros(n, 4),
    )
    return made._replace(**changes)


def shifted(frames: BodyStates, **changes: torch.Tensor) -> BodyStates:
    return frames._replace(**{name: getattr(frames, name) + by for name, by in changes.items()})


def test_an_error_of_one_sigma_earns_one_part_in_e():
    robot = bodies()
    up, aside = torch.tensor([0.0, 0.0, 0.3]), torch.tensor([0.3, 0.0, 0.0])
    turned = robot._replace(quat=turn(1, 0.4).expand(1, B, 4))
    cases = {
        "anchor_place": (shifted(robot, pos=up), 0.3),
        "anchor_turn": (turned, 0.4),
        "body_places": (shifted(robot, pos=up), 0.3),
        "body_turns": (turned, 0.4),
        "body_velocities": (shifted(robot, lin_vel=aside), 0.3),
        "body_spins": (shifted(robot, ang_vel=aside), 0.3),
    }
    for name, (target, sigma) in cases.items():
        terms = {name: TrackingReward(weight=1.0, sigma=sigma)}
        earned = float(rewards(tracked(robot, target), terms, 1.0)[name])
        assert earned == pytest.approx(math.exp(-1.0), rel=1e-3), name


GROUP = TerminationsGroup(
    anchor_height_m=0.15,
    anchor_turn_rad=0.4,
    end_height_m=0.15,
    foot_place_m=0.2,
    anchor_place_m=0.5,
    low_below_m=0.5,
    low_height_m=0.75,
)


def failed(target: BodyStates, robot: BodyStates, low: bool = False) -> set[str]:
    found = failures(tracked(robot, target), GROUP, torch.tensor([low]))
    return {name for name, hit in found.items() if bool(hit)}


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_limits_have_their_documented_values(sign):
    robot = bodies()
    for off, names in ((0.14, set()), (0.16, {"anchor_height", "end_height"})):
        # the whole target higher: feet are compared with the target's own height
        target = shifted(robot, pos=torch.tensor([0.0, 0.0, sign * off]))
        assert failed(target, robot) == names
        assert failed(target, robot, low=True) == set()
    for angle, names in ((0.39, set()), (0.41, {"anchor_turn"})):
        quat = robot.quat.clone()
        quat[:, 0] = turn(1, sign * angle)
        assert failed(robot._replace(quat=quat), robot) == names
    for off, names in ((0.19, set()), (0.21, {"foot_place"})):
        by = torch.zeros(1, B, 3)
        by[:, PARTS.feet[0], 0] = sign * off
        assert failed(shifted(robot, pos=by), robot) == names


@pytest.mark.parametrize("factor", [0.5, 2.0, 3.0])
def test_a_curriculum_moves_every_limit_and_every_charge_by_its_factor(factor):
    robot = bodies()
    up, aside = torch.tensor([0.0, 0.0, 0.15]), torch.tensor([0.5, 0.0, 0.0])
    for off, names in ((up, {"anchor_height", "end_height"}), (aside, {"anchor_place"})):
        for share, expected in ((0.99, set()), (1.01, names)):
            made = tracked(robot, shifted(robot, pos=share * factor * off))
            found = failures(made, GROUP, torch.tensor([False]), torch.tensor(factor))
            assert {name for name, hit in found.items() if bool(hit)} - {"foot_place"} == expected
    terms = {
        "action_rate": TrackingReward(weight=-1.0),
        "points": TrackingReward(weight=1.0, sigma=1),
    }
    made = tracked(robot, robot, action=torch.ones(1, 6))
    plain, changed = rewards(made, terms, 1.0), rewards(made, terms, 1.0, torch.tensor(factor))
    assert float(changed["action_rate"]) == pytest.approx(factor * float(plain["action_rate"]))
    assert torch.equal(changed["points"], plain["points"])


def test_rewards_that_do_not_exist_are_refused_with_the_closest():
    with pytest.raises(UnknownName, match="body_places"):
        check_rewards({"body_place": TrackingReward(weight=1.0, sigma=1.0)})
    with pytest.raises(ConfigError, match="requires a sigma"):
        check_rewards({"body_places": TrackingReward(weight=1.0)})
