"""Batched forward and inverse kinematics of a robot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import mujoco
import numpy as np
import torch
from scipy.linalg import solveh_banded
from torch import Tensor

from telic.core.rotations import conjugate, from_rotation_vector, multiply, rotate, rotation_vector
from telic.core.tensors import cross
from telic.errors import BadEnvironment
from telic.robots.structure import joints_of

if TYPE_CHECKING:
    from telic.motions.robot import MotionRobot

_HINGE, _SLIDE = int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE)


class BodyStates(NamedTuple):
    """World states of bodies, ordered like `Kinematics.body_names`."""

    pos: Tensor
    """positions of the frame origins (..., B, 3), in m"""
    quat: Tensor
    """orientations (..., B, 4), w first"""
    lin_vel: Tensor
    """velocities of the frame origins (..., B, 3), in m/s"""
    ang_vel: Tensor
    """angular velocities (..., B, 3), in rad/s"""


class TreePose(NamedTuple):
    """World poses of bodies, and world axes and anchors of joints."""

    pos: Tensor
    """body positions (..., B, 3)"""
    quat: Tensor
    """body orientations (..., B, 4)"""
    axis: Tensor
    """joint axes (..., J, 3)"""
    anchor: Tensor
    """points on the joint axes (..., J, 3)"""


class _Link(NamedTuple):
    """Rigid link: a body, or the segment between two joints of one body."""

    parent: int
    body: int
    pos: np.ndarray
    quat: np.ndarray
    joint: int | None
    """index among the joints of clips"""
    kind: int
    anchor: np.ndarray
    axis: np.ndarray
    zero: float


class Kinematics:
    """Forward kinematics of a robot's root and its descendants."""

    def __init__(self, model: mujoco.MjModel, root: int, joints: tuple[int, ...]) -> None:
        """Build the kinematic tree."""
        links = _links(model, root, joints)
        last = {link.body: place for place, link in enumerate(links)}
        self.bodies = tuple(sorted(last))
        self.body_names = tuple(model.body(body).name or f"body {body}" for body in self.bodies)
        self._count = len(joints)
        self._shown = torch.tensor([last[body] for body in self.bodies])
        self._rounds = [torch.tensor(way) for way in _halvings(links)]
        self._set_links(links)

    def _set_links(self, links: list[_Link]) -> None:
        def tensor(values: list[np.ndarray]) -> Tensor:
            return torch.tensor(np.array(values), dtype=torch.float32)

        rest = links[1:]
        self._pos, self._quat = tensor([x.pos for x in rest]), tensor([x.quat for x in rest])
        self._anchor, self._axis = tensor([x.anchor for x in rest]), tensor([x.axis for x in rest])
        column = [self._count if x.joint is None else x.joint for x in rest]
        self._column = torch.tensor(column, dtype=torch.long)
        self._zero = tensor([np.array(x.zero) for x in rest])
        self._turns = tensor([np.array(float(x.kind == _HINGE)) for x in rest])
        above = np.zeros((len(links), len(rest)), dtype=np.float32)
        for place, link in enumerate(links[1:], start=1):
            above[place] = above[link.parent]
            above[place, place - 1] = link.joint is not None
        self._above = tensor(list(above))[self._shown]
        places = {x.joint: place for place, x in enumerate(rest) if x.joint is not None}
        own = [places[joint] for joint in range(self._count)]
        self._driven = torch.tensor(own, dtype=torch.long)

    def poses(
        self, root_pos: Tensor, root_quat: Tensor, joint_pos: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the positions (..., B, 3) and orientations (..., B, 4) of all bodies."""
        pos, quat = self._compose(root_pos, root_quat, self._angles(joint_pos))
        return pos[..., self._shown, :], quat[..., self._shown, :]

    def states(
        self,
        root_pos: Tensor,
        root_quat: Tensor,
        joint_pos: Tensor,
        root_lin_vel: Tensor,
        root_ang_vel: Tensor,
        joint_vel: Tensor,
    ) -> BodyStates:
        """Return the poses and velocities of all bodies. Root velocities are in the world frame."""
        pos, quat = self._compose(root_pos, root_quat, self._angles(joint_pos))
        joint_vel = torch.cat((joint_vel, torch.zeros_like(joint_vel[..., :1])), dim=-1)
        speed = joint_vel[..., self._column, None]
        # A joint's axis and anchor are constant in the frame of its child link.
        axis = rotate(quat[..., 1:, :], self._axis)
        anchor = pos[..., 1:, :] + rotate(quat[..., 1:, :], self._anchor)
        turns = self._turns[:, None]
        spin, slide = axis * speed * turns, axis * speed * (1.0 - turns)
        shown = pos[..., self._shown, :]
        turning = self._above @ spin
        carried = self._above @ (slide - cross(spin, anchor))
        ang_vel = root_ang_vel[..., None, :] + turning
        lin_vel = (
            root_lin_vel[..., None, :]
            + cross(root_ang_vel[..., None, :].expand_as(shown), shown - root_pos[..., None, :])
            + cross(turning, shown)
            + carried
        )
        return BodyStates(shown, quat[..., self._shown, :], lin_vel, ang_vel)

    def tree(self, root_pos: Tensor, root_quat: Tensor, joint_pos: Tensor) -> TreePose:
        """Return the poses of all bodies, and the axes and anchors of all joints."""
        pos, quat = self._compose(root_pos, root_quat, self._angles(joint_pos))
        own_pos, own_quat = pos[..., 1 + self._driven, :], quat[..., 1 + self._driven, :]
        axis = rotate(own_quat, self._axis[self._driven])
        anchor = own_pos + rotate(own_quat, self._anchor[self._driven])
        return TreePose(pos[..., self._shown, :], quat[..., self._shown, :], axis, anchor)

    def jacobian(self, tree: TreePose, bodies: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
        """Compute the Jacobians of points (T, P, 3) on bodies (P,).

        Returns:
            Linear and angular Jacobians (T, P, 3, 6 + J) with respect to root position,
            root rotation in the world, and joints.
        """
        own = self._above[bodies][:, self._driven][..., None]
        turns = self._turns[self._driven][:, None]
        axis = tree.axis[:, None] * own
        spin = axis * turns
        arm = points[..., None, :] - tree.anchor[:, None]
        moved = cross(spin, arm) + axis * (1.0 - turns)
        eye = torch.eye(3, dtype=points.dtype, device=points.device)
        eye = eye.expand(*points.shape[:-1], 3, 3)
        lever = (points - tree.pos[:, :1])[..., None, :].expand_as(eye)
        turned = cross(eye, lever)  # row k: motion under root rotation about axis k
        linear = torch.cat((eye, turned, moved), dim=-2).transpose(-1, -2)
        angular = torch.cat((torch.zeros_like(eye), eye, spin), dim=-2).transpose(-1, -2)
        return linear, angular

    def _angles(self, joint_pos: Tensor) -> Tensor:
        """Return the joint displacement of every link (zero for links without a joint)."""
        padded = torch.cat((joint_pos, torch.zeros_like(joint_pos[..., :1])), dim=-1)
        return padded[..., self._column] - self._zero

    def _compose(self, root_pos: Tensor, root_quat: Tensor, moved: Tensor) -> tuple[Tensor, Tensor]:
        half = 0.5 * moved * self._turns
        turn = torch.cat((torch.cos(half)[..., None], torch.sin(half)[..., None] * self._axis), -1)
        slide = (moved * (1.0 - self._turns))[..., None] * self._axis
        own = self._anchor - rotate(turn, self._anchor) + slide
        pos = self._pos + rotate(self._quat, own)
        quat = multiply(self._quat.expand_as(turn), turn)
        pos = torch.cat((root_pos[..., None, :], pos), dim=-2)
        quat = torch.cat((root_quat[..., None, :], quat), dim=-2)
        for way in self._rounds:
            # The last row is the identity, for links without a remaining ancestor.
            before_pos = torch.cat((pos, torch.zeros_like(pos[..., :1, :])), dim=-2)[..., way, :]
            none = torch.zeros_like(quat[..., :1, :])
            none[..., 0] = 1.0
            before_quat = torch.cat((quat, none), dim=-2)[..., way, :]
            pos = before_pos + rotate(before_quat, pos)
            quat = multiply(before_quat, quat)
        return pos, quat


def _links(model: mujoco.MjModel, root: int, joints: tuple[int, ...]) -> list[_Link]:
    """Return the links of the tree in topological order, starting with the root."""
    nothing, zero = np.array([1.0, 0.0, 0.0, 0.0]), np.zeros(3)
    place = {root: 0}
    links = [_Link(-1, root, zero, nothing, None, -1, zero, zero, 0.0)]
    for body in range(root + 1, model.nbody):
        parent = int(model.body_parentid[body])
        if parent not in place:
            continue
        above, pos, quat = place[parent], model.body_pos[body], model.body_quat[body]
        own = [joint for joint in joints_of(model, body) if joint in joints]
        if len(own) < len(joints_of(model, body)):
            other = next(model.joint(j).name for j in joints_of(model, body) if j not in own)
            raise BadEnvironment(
                f"The joint {other or body} is neither a hinge nor a slide, so it has no single "
                "position value.",
                hint="Use a model with hinge and slide joints only.",
            )
        for joint in own or [None]:
            kind = -1 if joint is None else int(model.jnt_type[joint])
            anchor = zero if joint is None else model.jnt_pos[joint]
            axis = zero if joint is None else model.jnt_axis[joint]
            start = 0.0 if joint is None else float(model.qpos0[model.jnt_qposadr[joint]])
            column = None if joint is None else joints.index(joint)
            links.append(_Link(above, body, pos, quat, column, kind, anchor, axis, start))
            above, pos, quat = len(links) - 1, zero, nothing
        place[body] = above
    return links


def _halvings(links: list[_Link]) -> list[list[int]]:
    """Return every link's ancestor in each round of pointer jumping, or `len(links)` for none."""
    none = len(links)
    way = [none if link.parent < 0 else link.parent for link in links]
    rounds: list[list[int]] = []
    while any(each != none for each in way):
        rounds.append(way)
        way = [none if each == none else way[each] for each in way]
    return rounds


_MIN_DAMPING, _MAX_DAMPING = 1e-5, 1e3
_SMOOTH = 0.06
"""weight of joint second differences, relative to meters of a goal with weight 1"""
_ROOT_SMOOTH = 3.0
"""weight of root second differences, relative to those of joints"""
_WINDOW, _OVERLAP = 1200, 60
_MAX_RAD_S = 18.0
"""joint speed above which a trajectory is solved again with a larger smoothness weight"""


class PoseBatch(NamedTuple):
    """Batch of robot poses."""

    root_pos: Tensor
    root_quat: Tensor
    joint_pos: Tensor


class PointGoal(NamedTuple):
    """Position goal for a point on a body."""

    body: int
    offset: Tensor
    """offset (3,) in the body frame"""
    place: Tensor
    """position (T, 3) in the world frame"""
    weight: Tensor
    """weight per meter of error, (T,) or ()"""


class TurnGoal(NamedTuple):
    """Orientation goal for a body."""

    body: int
    quat: Tensor
    """orientation (T, 4) in the world frame"""
    weight: Tensor
    """weight per radian of error, (T,) or ()"""


@dataclass(frozen=True, slots=True)
class KinematicGoals:
    """Goals and regularization of an inverse kinematics problem."""

    points: tuple[PointGoal, ...] = ()
    turns: tuple[TurnGoal, ...] = ()
    near_weight: float = 0.02
    """weight per radian of deviation from the initial joint positions"""
    moves_root: bool = True
    margin: float = 0.0
    """margin to the joint limits, in rad"""


def solve_trajectory(
    robot: MotionRobot, start: PoseBatch, wishes: KinematicGoals, fps: float, iterations: int = 24
) -> PoseBatch:
    """Solve inverse kinematics of a trajectory with continuous joint motion.

    All frames of a window are solved jointly, with a cost on joint accelerations, so that redundant
    limbs keep one solution. Each window continues from the end of the previous one.
    """
    frames, made = len(start.root_pos), list[PoseBatch]()
    first = 0
    while True:
        pinned = 2 if made else 0
        last = min(frames, first + _WINDOW)
        begun = PoseBatch(*(column[first - pinned : last].clone() for column in start))
        near = begun.joint_pos.clone()
        if pinned:
            for column, before in zip(begun, made[-1], strict=True):
                column[:2] = before[-2:]
        window = _Window(robot, wishes, slice(first - pinned, last), near, pinned)
        poses = window.solve(begun, fps, iterations)
        keep = last - first - (_OVERLAP if last < frames else 0)
        made.append(PoseBatch(*(column[pinned : pinned + keep] for column in poses)))
        if last == frames:
            return PoseBatch(*(torch.cat(columns) for columns in zip(*made, strict=True)))
        first += keep


class _Window:
    """Window of frames solved jointly by Levenberg-Marquardt on a banded system."""

    def __init__(
        self, robot: MotionRobot, wishes: KinematicGoals, part: slice, near: Tensor, pinned: int
    ) -> None:
        self.kinematics, self.near, self.near_weight = robot.kinematics, near, wishes.near_weight
        self.pinned = pinned
        low, high = torch.as_tensor(robot.low), torch.as_tensor(robot.high)
        room = torch.clamp((high - low) / 2 - 1e-4, min=0.0)
        margin = torch.clamp(torch.full_like(low, wishes.margin), max=room)
        self.low, self.high = low + margin, high - margin
        root = robot.facts.root
        free = [axis in root.moves for axis in "xyz"] + [axis in root.turns for axis in "xyz"]
        moves = [each and wishes.moves_root for each in free] + [True] * len(robot.joint_names)
        self.columns = torch.tensor([i for i, each in enumerate(moves) if each])
        count = len(near)

        def weights(goals: tuple[PointGoal, ...] | tuple[TurnGoal, ...]) -> Tensor:
            own = [g.weight[part] if g.weight.ndim else g.weight.expand(count) for g in goals]
            return torch.stack(own, 1)

        self.points, self.turns = wishes.points, wishes.turns
        if self.points:
            self.point_bodies = torch.tensor([goal.body for goal in self.points])
            self.offsets = torch.stack([goal.offset for goal in self.points])
            self.places = torch.stack([goal.place[part] for goal in self.points], 1)
            self.point_weights = weights(self.points)
        if self.turns:
            self.turn_bodies = torch.tensor([goal.body for goal in self.turns])
            self.quats = torch.stack([goal.quat[part] for goal in self.turns], 1)
            self.turn_weights = weights(self.turns)

    def solve(self, start: PoseBatch, fps: float, iterations: int) -> PoseBatch:
        """Minimize goal errors and accelerations, then smooth fast joints more and repeat."""
        pinned = self.pinned
        poses = start._replace(joint_pos=self._inside(start.joint_pos))
        poses.joint_pos[:pinned] = start.joint_pos[:pinned]
        smooth = np.full(max(len(start.root_pos) - 2, 0), _SMOOTH**2)
        off, jacobian = self._residual(poses)
        for rounds in range(6):
            damping = 1e-2
            for number in range(iterations):
                # Smooth strongly at first, so that all frames move together toward distant goals.
                weight = smooth * (1.0 if rounds else max(1.0, 8.0 * 0.6**number) ** 2)
                bend = _second_differences(poses)
                cost = _cost(off, bend, weight)
                step = self._step(poses, off, jacobian, damping, bend, weight)
                trial = PoseBatch(
                    poses.root_pos + step[:, :3],
                    multiply(from_rotation_vector(step[:, 3:6]), poses.root_quat),
                    self._inside(poses.joint_pos + step[:, 6:]),
                )
                trial.joint_pos[:pinned] = poses.joint_pos[:pinned]
                new_off, new_jacobian = self._residual(trial)
                gain = cost - _cost(new_off, _second_differences(trial), weight)
                if gain > 0:
                    poses, off, jacobian = trial, new_off, new_jacobian
                    damping = max(damping / 4, _MIN_DAMPING)
                else:
                    damping = min(damping * 8, _MAX_DAMPING)
                if number > 8 and 0 <= gain < 1e-4 * cost:
                    break
            speed = (poses.joint_pos[1:] - poses.joint_pos[:-1]).abs().amax(1).numpy() * fps
            fast = np.flatnonzero(speed > _MAX_RAD_S)
            if not len(fast):
                break
            for frame in fast:
                smooth[max(0, frame - 8) : frame + 8] *= 1.5
            smooth, iterations = np.minimum(smooth, (100 * _SMOOTH) ** 2), 8
        return poses

    def _inside(self, joints: Tensor) -> Tensor:
        return torch.maximum(torch.minimum(joints, self.high), self.low)

    def _step(
        self,
        poses: PoseBatch,
        off: Tensor,
        jacobian: Tensor,
        damping: float,
        bend: np.ndarray,
        weight: np.ndarray,
    ) -> Tensor:
        """Return the joint updates of all frames. Second differences couple the frames."""
        frames, count, places = len(off), len(self.columns), self.columns.numpy()
        own = jacobian[..., self.columns].double().numpy()
        turned = own.transpose(0, 2, 1)
        slope = (turned @ off.double().numpy()[..., None])[..., 0]
        scale = np.where(places < 6, _ROOT_SMOOTH**2, 1.0)
        stencil = (1.0, -2.0, 1.0)
        for shift, value in enumerate(stencil):
            slope[shift : frames - 2 + shift] += value * weight[:, None] * scale * bend[:, places]
        # Freeze joints at a limit that the descent direction would push outward.
        joints = poses.joint_pos.double().numpy()
        loose, is_joint = np.ones_like(slope), places >= 6
        at_low = (joints <= self.low.numpy() + 1e-6) & (slope[:, is_joint] > 0)
        at_high = (joints >= self.high.numpy() - 1e-6) & (slope[:, is_joint] < 0)
        loose[:, is_joint] = ~(at_low | at_high)
        loose[: self.pinned] = 0.0
        square = (turned @ own) * loose[:, :, None] * loose[:, None]
        diagonal = np.arange(count)
        size = np.maximum(square[:, diagonal, diagonal], 1e-6)
        square[:, diagonal, diagonal] += damping * size + 1e-9 + (1.0 - loose)
        # Bands of the matrix: blocks within a frame, then coupling with the next two frames.
        matrix = np.zeros((frames, count, 2 * count + 1))
        for row in range(count):
            matrix[:, : count - row, row] = square[:, diagonal[row:], diagonal[: count - row]]
        for shift in range(min(3, frames)):
            band = np.zeros(frames - shift)
            for place in range(3 - shift):
                band[place : place + len(weight)] += (
                    stencil[place] * stencil[place + shift] * weight
                )
            both = loose[: frames - shift] * loose[shift:] * scale * band[:, None]
            matrix[: frames - shift, :, shift * count] += both
        system = matrix.reshape(frames * count, -1).T
        solved: Any = solveh_banded(
            system, -(slope * loose).ravel(), lower=True, overwrite_ab=True, check_finite=False
        )
        step = torch.zeros(frames, jacobian.shape[-1])
        step[:, self.columns] = torch.as_tensor(solved.reshape(frames, count)).float()
        return step.clamp(-0.5, 0.5)

    def _residual(self, poses: PoseBatch) -> tuple[Tensor, Tensor]:
        """Return the weighted residuals (T, m) and their Jacobian (T, m, 6 + J)."""
        tree = self.kinematics.tree(*poses)
        count = poses.joint_pos.shape[-1]
        eye = torch.cat((torch.zeros(count, 6), torch.eye(count)), dim=-1) * self.near_weight
        rest = (poses.joint_pos - self.near) * self.near_weight
        parts = [(rest, eye.expand(len(rest), -1, -1))]
        if self.points:
            bodies, weight = self.point_bodies, self.point_weights[..., None]
            points = tree.pos[:, bodies] + rotate(tree.quat[:, bodies], self.offsets)
            linear, _ = self.kinematics.jacobian(tree, bodies, points)
            away = (points - self.places) * weight
            parts.append((away.flatten(1), (linear * weight[..., None]).flatten(1, 2)))
        if self.turns:
            bodies, weight = self.turn_bodies, self.turn_weights[..., None]
            _, angular = self.kinematics.jacobian(tree, bodies, tree.pos[:, bodies])
            away = rotation_vector(multiply(tree.quat[:, bodies], conjugate(self.quats)))
            rows = angular.transpose(-1, -2)
            # First-order change of the rotation vector under a rotation of the body.
            half = cross(away[..., None, :].expand_as(rows), rows)
            change = (angular - 0.5 * half.transpose(-1, -2)) * weight[..., None]
            parts.append(((away * weight).flatten(1), change.flatten(1, 2)))
        off, jacobian = zip(*parts, strict=True)
        return torch.cat(off, dim=-1), torch.cat(jacobian, dim=-2)


def _second_differences(poses: PoseBatch) -> np.ndarray:
    """Return second differences of root position, root rotation and joints, (T-2, 6 + J)."""
    spin = rotation_vector(multiply(poses.root_quat[1:], conjugate(poses.root_quat[:-1])))
    joints, root = poses.joint_pos, poses.root_pos
    columns = (
        root[2:] - 2.0 * root[1:-1] + root[:-2],
        spin[1:] - spin[:-1],
        joints[2:] - 2.0 * joints[1:-1] + joints[:-2],
    )
    return torch.cat(columns, dim=-1).double().numpy()


def _cost(off: Tensor, bend: np.ndarray, weight: np.ndarray) -> float:
    scale = np.where(np.arange(bend.shape[1]) < 6, _ROOT_SMOOTH**2, 1.0)
    return float(off.double().square().sum()) + float((weight[:, None] * scale * bend**2).sum())
