"""Inverse kinematics of all frames at once: joints that put points and bodies where they should be.

Damped least squares (Levenberg and Marquardt): every frame has its own damping, which falls while
steps help and rises where one does not. Joints never leave their limits: one that would is held at
its end, and the others do the rest.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from telic.core.rotations import conjugate, from_rotation_vector, multiply, rotate, rotation_vector
from telic.core.tensors import cross
from telic.motions.kinematics import TreePose
from telic.motions.robot import MotionRobot

_LEAST_DAMPING, _MOST_DAMPING = 1e-5, 1e3
_LEAP = 14.0
"""rad/s above which neighbours took different ways"""
_ENOUGH = 1e-9
"""of the cost: when no frame gains more, all have arrived"""
_linalg: Any = torch.linalg


class PoseBatch(NamedTuple):
    """Frames of a robot as a batch."""

    root_pos: Tensor
    root_quat: Tensor
    joint_pos: Tensor


class PointGoal(NamedTuple):
    """A point of a body should be at a place."""

    body: int
    offset: Tensor
    """(3,) in the body's frame"""
    place: Tensor
    """(T, 3) in the world"""
    weight: Tensor
    """(T,) or (): how much a metre off counts"""


class TurnGoal(NamedTuple):
    """A body should be turned so."""

    body: int
    quat: Tensor
    """(T, 4)"""
    weight: Tensor
    """(T,) or (): how much a radian off counts"""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What frames should be like, beside their goals."""

    points: tuple[PointGoal, ...] = ()
    turns: tuple[TurnGoal, ...] = ()
    near: Tensor | None = None
    """(T, J) joints that are wanted where goals leave room; None: where they start"""
    near_weight: float = 0.02
    moves_root: bool = True
    margin: float = 0.0
    """rad that joints keep from their limits"""


def solve(robot: MotionRobot, start: PoseBatch, wishes: Wishes, iterations: int = 30) -> PoseBatch:
    """Return frames as near to the wishes as the robot can be, each on its own."""
    return _Solver(robot, start, wishes).run(start, iterations)


def solve_smoothly(
    robot: MotionRobot, start: PoseBatch, wishes: Wishes, fps: float, iterations: int = 30
) -> PoseBatch:
    """Return frames as near to the wishes as the robot can be, and near to each other.

    Limbs with joints to spare have many ways to one goal, and neighbours may take different ones.
    Where they do, all frames look again from between.
    """
    poses = solve(robot, start, wishes, iterations)
    for width_s in (0.1, 0.25, 0.5):
        step = (poses.joint_pos[1:] - poses.joint_pos[:-1]).abs().max()
        if float(step) * fps < _LEAP:
            break
        between = _smoothed(poses.joint_pos, width_s * fps)
        again = replace(wishes, near=between, near_weight=max(wishes.near_weight, 0.05))
        poses = solve(robot, poses._replace(joint_pos=between), again, iterations)
    return poses


def _smoothed(values: Tensor, sigma: float) -> Tensor:
    """Return (T, n) blurred along time by a bell of `sigma` frames; the ends repeat."""
    reach = max(1, round(3 * sigma))
    places = torch.arange(-reach, reach + 1)
    bell = torch.exp(-0.5 * (places / sigma) ** 2)
    frames = torch.arange(len(values))[:, None] + places
    return (values[frames.clamp(0, len(values) - 1)] * (bell / bell.sum())[:, None]).sum(1)


class _Solver:
    def __init__(self, robot: MotionRobot, start: PoseBatch, wishes: Wishes) -> None:
        self.kinematics, self.wishes = robot.kinematics(), wishes
        self.near = start.joint_pos if wishes.near is None else wishes.near
        low, high = torch.as_tensor(robot.low), torch.as_tensor(robot.high)
        room = torch.clamp((high - low) / 2 - 1e-4, min=0.0)
        margin = torch.clamp(torch.full_like(low, wishes.margin), max=room)
        self.low, self.high = low + margin, high - margin
        root = robot.facts.root
        free = [axis in root.moves for axis in "xyz"] + [axis in root.turns for axis in "xyz"]
        moves = [each and wishes.moves_root for each in free] + [True] * len(robot.joint_names)
        frames = len(start.root_pos)
        self.point_goals = (
            torch.tensor([goal.body for goal in wishes.points], dtype=torch.long),
            _stacked([goal.offset for goal in wishes.points], 0),
            _stacked([goal.place for goal in wishes.points], 1),
            _stacked([goal.weight.expand(frames) for goal in wishes.points], 1),
        )
        self.turn_goals = (
            torch.tensor([goal.body for goal in wishes.turns], dtype=torch.long),
            _stacked([goal.quat for goal in wishes.turns], 1),
            _stacked([goal.weight.expand(frames) for goal in wishes.turns], 1),
        )
        self.columns = torch.tensor([i for i, each in enumerate(moves) if each])

    def run(self, start: PoseBatch, iterations: int) -> PoseBatch:
        poses = start._replace(joint_pos=self._inside(start.joint_pos))
        damping = torch.full((len(poses.root_pos), 1), 1e-2)
        off, jacobian = self._off(poses)
        cost = (off * off).sum(-1, keepdim=True)
        for _ in range(iterations):
            trial = self._moved(poses, self._step(poses, off, jacobian, damping))
            new_off, new_jacobian = self._off(trial)
            new_cost = (new_off * new_off).sum(-1, keepdim=True)
            better = new_cost < cost
            gain = float((cost - new_cost).clamp_min(0.0).max())
            poses = PoseBatch(
                *(torch.where(better, b, a) for a, b in zip(poses, trial, strict=True))
            )
            off, cost = torch.where(better, new_off, off), torch.where(better, new_cost, cost)
            jacobian = torch.where(better[..., None], new_jacobian, jacobian)
            damping = torch.where(better, damping / 4, damping * 6)
            damping = damping.clamp(_LEAST_DAMPING, _MOST_DAMPING)
            if gain < _ENOUGH and bool(better.any()):
                break
        return poses

    def _inside(self, joints: Tensor) -> Tensor:
        return torch.maximum(torch.minimum(joints, self.high), self.low)

    def _step(self, poses: PoseBatch, off: Tensor, jacobian: Tensor, damping: Tensor) -> Tensor:
        """Return the change of root and joints (T, 6 + J); joints at their ends do not push out."""
        slope = (jacobian.transpose(-1, -2) @ off[..., None])[..., 0]
        joints = poses.joint_pos
        pushed = slope[:, 6:]  # the step goes against the slope
        held = ((joints <= self.low + 1e-6) & (pushed > 0)) | (
            (joints >= self.high - 1e-6) & (pushed < 0)
        )
        loose = torch.cat((torch.ones_like(slope[:, :6]), (~held).to(slope.dtype)), dim=-1)
        own = jacobian[..., self.columns] * loose[:, None, self.columns]
        square = own.transpose(-1, -2) @ own
        eye = torch.eye(square.shape[-1])
        scale = square.diagonal(dim1=-2, dim2=-1).clamp_min(1e-6)
        square = square + eye * (damping * scale + 1e-9)[..., None]
        part = -(slope * loose)[:, self.columns]
        step = torch.zeros_like(slope)
        step[:, self.columns] = _linalg.solve(square, part)
        return step.clamp(-0.5, 0.5)

    def _moved(self, poses: PoseBatch, step: Tensor) -> PoseBatch:
        turn = from_rotation_vector(step[:, 3:6])
        return PoseBatch(
            poses.root_pos + step[:, :3],
            multiply(turn, poses.root_quat),
            self._inside(poses.joint_pos + step[:, 6:]),
        )

    def _off(self, poses: PoseBatch) -> tuple[Tensor, Tensor]:
        """Return what is off (T, m), weighted, and how it changes with root and joints."""
        tree = self.kinematics.tree(*poses)
        parts = [self._points_off(tree)] if self.wishes.points else []
        parts += [self._turns_off(tree)] if self.wishes.turns else []
        count = poses.joint_pos.shape[-1]
        weight = self.wishes.near_weight
        eye = torch.cat((torch.zeros(count, 6), torch.eye(count)), dim=-1) * weight
        rest = (poses.joint_pos - self.near) * weight
        parts.append((rest, eye.expand(len(rest), -1, -1)))
        off, jacobian = zip(*parts, strict=True)
        return torch.cat(off, dim=-1), torch.cat(jacobian, dim=-2)

    def _points_off(self, tree: TreePose) -> tuple[Tensor, Tensor]:
        bodies, offsets, places, weights = self.point_goals
        points = tree.pos[:, bodies] + rotate(tree.quat[:, bodies], offsets)
        linear, _ = self.kinematics.jacobian(tree, bodies, points)
        off = (points - places) * weights[..., None]
        return off.flatten(1), (linear * weights[..., None, None]).flatten(1, 2)

    def _turns_off(self, tree: TreePose) -> tuple[Tensor, Tensor]:
        bodies, wanted, weights = self.turn_goals
        _, angular = self.kinematics.jacobian(tree, bodies, tree.pos[:, bodies])
        off = rotation_vector(multiply(tree.quat[:, bodies], conjugate(wanted)))
        change = _to_logarithm(off, angular) * weights[..., None, None]
        return (off * weights[..., None]).flatten(1), change.flatten(1, 2)


def _stacked(parts: list[Tensor], dim: int) -> Tensor:
    return torch.stack(parts, dim) if parts else torch.zeros(0)


def _to_logarithm(vector: Tensor, angular: Tensor) -> Tensor:
    """Return how a rotation vector changes, to the first order, where the body turns so."""
    rows = angular.transpose(-1, -2)
    half = cross(vector[..., None, :].expand_as(rows), rows)
    return angular - 0.5 * half.transpose(-1, -2)
