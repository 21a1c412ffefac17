"""Named points on a robot: hips, knees, feet, hands and head.

The points are found in the resting pose of a model, so that motions can be generated for and
retargeted to any biped. Legs are below the root and end in feet. Arms are the other free chains.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import mujoco
import numpy as np
import torch
from torch import Tensor

from telic.core.rotations import rotate
from telic.errors import BadEnvironment
from telic.motions.clip import HumanTrack, MotionClip
from telic.motions.robot import MotionRobot
from telic.robots.structure import ancestors, geoms_of, joints_of

Side = Literal["left", "right"]
SIDES: tuple[Side, Side] = ("left", "right")
_BENT_RAD = 0.35
_ANKLE_M = 0.12
_GEOM = mujoco.mjtGeom
_ROUND = (int(_GEOM.mjGEOM_SPHERE), int(_GEOM.mjGEOM_CAPSULE))
_BOX, _MESH = int(_GEOM.mjGEOM_BOX), int(_GEOM.mjGEOM_MESH)


class BodyPoint(NamedTuple):
    """Point that moves with a body."""

    body: int
    """index of the body in the robot's kinematics"""
    offset: tuple[float, float, float]
    """offset in the frame of the body, in m"""


class Sole(NamedTuple):
    """Contact geometry of a foot, as spheres around points."""

    body: int
    points: np.ndarray
    """sphere centers in the frame of the foot, (P, 3)"""
    radii: np.ndarray
    """sphere radii, (P,)"""


@dataclass(frozen=True, eq=False)
class RobotFigure:
    """Named points of a biped."""

    robot: MotionRobot

    @cached_property
    def rest(self) -> mujoco.MjData:
        """State of the simulation in the resting pose."""
        data = mujoco.MjData(self.robot.model)
        data.qpos[:] = self.robot.facts.rest_qpos
        mujoco.mj_forward(self.robot.model, data)
        return data

    @property
    def sides(self) -> list[Side]:
        """Both sides, ordered like the robot's feet."""
        return sorted(SIDES, key=lambda side: self.robot.facts.feet.index(self.feet[side]))

    @cached_property
    def _place(self) -> dict[int, int]:
        return {body: place for place, body in enumerate(self.robot.kinematics.bodies)}

    @cached_property
    def feet(self) -> dict[Side, int]:
        """Foot bodies. Raises BadEnvironment unless there is a left and a right foot."""
        facts = self.robot.facts
        if (
            facts.sides is None
            or facts.side_names != SIDES
            or any(len(x) != 1 for x in facts.sides)
        ):
            raise BadEnvironment(
                f"{self.robot.name} has no distinguishable left and right foot. Motions require "
                "a biped."
            )
        return {side: facts.feet[own[0]] for side, own in zip(SIDES, facts.sides, strict=True)}

    @cached_property
    def points(self) -> dict[str, BodyPoint]:
        """Points by name, such as `pelvis`, `head` and `left_hip`. Arm points require two arms."""
        points = {"pelvis": self._point(self._above_legs(), self._between_hips())}
        for side in SIDES:
            points |= self._leg(side)
            points |= self._arm(side)
        body, top = self._top()
        points["head"] = self._point(body, top)
        return points

    @cached_property
    def soles(self) -> dict[Side, Sole]:
        """Contact geometry of the feet."""
        return {
            side: _sole(self.robot.model, body, self._place) for side, body in self.feet.items()
        }

    @property
    def has_arms(self) -> bool:
        """True if the robot has two arms."""
        return {"left_hand", "right_hand"} <= set(self.points)

    @cached_property
    def leg_length(self) -> float:
        """Length of the path from hip over knee to ankle, in m."""
        return self.length("left_hip", "left_knee", "left_ankle")

    def at_rest(self, name: str) -> np.ndarray:
        """Return the world position of a point in the resting pose, in m."""
        point = self.points[name]
        body = self.robot.kinematics.bodies[point.body]
        frame = self.rest.xmat[body].reshape(3, 3)
        return self.rest.xpos[body] + frame @ np.array(point.offset)

    def length(self, *names: str) -> float:
        """Return the length in m of the path through the points in the resting pose."""
        places = [self.at_rest(name) for name in names]
        return float(sum(np.linalg.norm(b - a) for a, b in itertools.pairwise(places)))

    def foot_rest_quat(self, side: Side) -> np.ndarray:
        """Return the orientation of a flat foot in the resting pose."""
        return self.rest.xquat[self.feet[side]].copy()

    def rest_quat(self, name: str) -> np.ndarray:
        """Return the orientation of a point's body in the resting pose."""
        body = self.robot.kinematics.bodies[self.points[name].body]
        return self.rest.xquat[body].copy()

    def has_ankle(self, side: Side) -> bool:
        """Return True if a joint rotates the foot relative to the shin."""
        knee = self.robot.kinematics.bodies[self.points[f"{side}_knee"].body]
        chain = self.chain(self.feet[side])
        return bool(self._joints(chain[chain.index(knee) + 1 :])) if knee in chain else False

    def bent(self) -> Tensor:
        """Return the resting joint positions. Straight legs are bent slightly."""
        low, high = torch.as_tensor(self.robot.low), torch.as_tensor(self.robot.high)
        joints = torch.as_tensor(self.robot.home.joint_pos)
        room = torch.clamp((high - low) / 2, max=_BENT_RAD)
        bodies = {body for foot in self.feet.values() for body in self.chain(foot)}
        legs = [int(self.robot.model.jnt_bodyid[joint]) in bodies for joint in self.robot.joints]
        inside = torch.maximum(torch.minimum(joints, high - room), low + room)
        return torch.where(torch.tensor(legs), inside, joints)

    def stands_on(self, side: Side) -> tuple[BodyPoint, float]:
        """Return the point of a foot that is fixed during stance, and its height in m.

        The point is the ankle, or the middle of the sole of a foot without an ankle joint.
        """
        ankle, sole = self.points[f"{side}_ankle"], self.soles[side]
        if self.has_ankle(side):
            low = min(self.at_rest(f"{side}_{end}")[2] for end in ("heel", "toe"))
            return ankle, float(self.at_rest(f"{side}_ankle")[2] - low)
        x, y, z = map(float, sole.points.mean(axis=0))
        return BodyPoint(sole.body, (x, y, z)), float(sole.radii.mean())

    # ---- legs

    def _leg(self, side: Side) -> dict[str, BodyPoint]:
        foot = self.feet[side]
        chain = [b for b in self.chain(foot) if b not in self.chain(self.feet[other_side(side)])]
        joints = self._joints(chain)
        hip = self.rest.xanchor[joints[0]] if joints else self.rest.xpos[chain[0]]
        sole = self._world_sole(side)
        end = sole.mean(axis=0)
        ankle = self.rest.xanchor[joints[-1]] if len(joints) > 1 else self.rest.xpos[foot]
        # Without ankles, the last joint is the knee and the foot is part of the shin.
        length = float(np.linalg.norm(hip - end))
        if np.linalg.norm(ankle - end) > 0.3 * length:
            ankle = self.rest.xpos[foot]
        knee_body, knee = self._middle(joints, hip, ankle)
        flat = sole[sole[:, 2] <= sole[:, 2].min() + 0.02]
        return {
            f"{side}_hip": self._point(self._above_legs(), hip),
            f"{side}_knee": self._point(knee_body, knee),
            f"{side}_ankle": self._point(foot, ankle),
            f"{side}_toe": self._point(foot, flat[np.argmax(flat[:, 0])]),
            f"{side}_heel": self._point(foot, flat[np.argmin(flat[:, 0])]),
        }

    def _world_sole(self, side: Side) -> np.ndarray:
        """Return the bottom points of a sole in the default pose."""
        sole, body = self.soles[side], self.feet[side]
        frame = self.rest.xmat[body].reshape(3, 3)
        return self.rest.xpos[body] + sole.points @ frame.T - sole.radii[:, None] * [0, 0, 1]

    def _middle(
        self, joints: list[int], start: np.ndarray, end: np.ndarray
    ) -> tuple[int, np.ndarray]:
        """Return the body and position of the joint farthest from both ends of a limb."""
        if not joints:
            return self.robot.root, (start + end) / 2
        places = self.rest.xanchor[joints]
        away = np.minimum(
            np.linalg.norm(places - start, axis=-1), np.linalg.norm(places - end, axis=-1)
        )
        best = int(np.argmax(away))
        return int(self.robot.model.jnt_bodyid[joints[best]]), places[best]

    def _above_legs(self) -> int:
        """Return the last common ancestor of both legs."""
        left, right = (self.chain(self.feet[side]) for side in SIDES)
        shared = [body for body in left if body in right]
        return shared[-1] if shared else self.robot.root

    def _between_hips(self) -> np.ndarray:
        firsts: list[np.ndarray] = []
        for side in SIDES:
            other = self.chain(self.feet[other_side(side)])
            joints = self._joints([b for b in self.chain(self.feet[side]) if b not in other])
            firsts.append(self.rest.xanchor[joints[0]])
        return np.mean(firsts, axis=0)

    # ---- arms and head

    @cached_property
    def _ends(self) -> list[int]:
        """Leaf bodies that are not part of the legs."""
        model = self.robot.model
        legs = {b for foot in self.feet.values() for b in self.chain(foot)}
        own = [b for b in self._place if b != self.robot.root]
        carrying = {int(model.body_parentid[b]) for b in own}
        below = [b for b in own if b not in carrying and not legs & set(self.chain(b))]
        return [b for b in below if self._joints(self.chain(b))]

    def _arm(self, side: Side) -> dict[str, BodyPoint]:
        """Return the shoulder, elbow and hand of the longest limb on a side, or an empty dict."""
        sign = 1.0 if side == "left" else -1.0
        best: tuple[float, dict[str, BodyPoint]] = (0.0, {})
        for end in self._ends:
            others = {b for other in self._ends if other != end for b in self.chain(other)}
            joints = self._joints([b for b in self.chain(end) if b not in others])
            if not joints:
                continue
            shoulder = self.rest.xanchor[joints[0]]
            tip = self._tip(end, shoulder)
            if sign * (shoulder[1] - self.rest.xpos[self.robot.root][1]) < 0.02:
                continue
            elbow_body, elbow = self._middle(joints, shoulder, tip)
            length = float(np.linalg.norm(tip - shoulder))
            above = int(self.robot.model.body_parentid[self.robot.model.jnt_bodyid[joints[0]]])
            found = {
                f"{side}_shoulder": self._point(above, shoulder),
                f"{side}_elbow": self._point(elbow_body, elbow),
                f"{side}_hand": self._point(end, tip),
            }
            best = max(best, (length, found), key=lambda each: each[0])
        return best[1]

    def _tip(self, body: int, away_from: np.ndarray) -> np.ndarray:
        """Return the center of the body's geom that is farthest from a point."""
        places = [self._geom_middle(geom) for geom in geoms_of(self.robot.model, body)]
        if not places:
            return self.rest.xpos[body].copy()
        return max(places, key=lambda place: float(np.linalg.norm(place - away_from)))

    def _geom_middle(self, geom: int) -> np.ndarray:
        frame = self.rest.geom_xmat[geom].reshape(3, 3)
        return self.rest.geom_xpos[geom] + frame @ self.robot.model.geom_aabb[geom, :3]

    def _top(self) -> tuple[int, np.ndarray]:
        """Return the highest point that is not on a limb, at the center of its geom."""
        model = self.robot.model
        limbs = {
            int(self.robot.kinematics.bodies[p.body])
            for s in SIDES
            for p in self._arm(s).values()
            if p.body
        }
        best, found = -np.inf, (self.robot.root, self.rest.xpos[self.robot.root].copy())
        for geom in range(model.ngeom):
            body = int(model.geom_bodyid[geom])
            if body not in self._place or (body in limbs and body in self._ends):
                continue
            up = self.rest.geom_xmat[geom].reshape(3, 3)[2]
            middle = self._geom_middle(geom)
            top = float(middle[2] + np.abs(up) @ model.geom_aabb[geom, 3:])
            if top > best:
                best, found = top, (body, np.array([middle[0], middle[1], top]))
        return found

    # ---- kinematic tree

    def chain(self, body: int) -> list[int]:
        """Return the bodies from the root (exclusive) to a body (inclusive)."""
        above = [body, *ancestors(self.robot.model, body)]
        return above[: above.index(self.robot.root)][::-1]

    def _joints(self, bodies: list[int]) -> list[int]:
        return [joint for body in bodies for joint in joints_of(self.robot.model, body)]

    def _point(self, body: int, place: np.ndarray) -> BodyPoint:
        own = self.rest.xmat[body].reshape(3, 3).T @ (place - self.rest.xpos[body])
        return BodyPoint(self._place[body], (float(own[0]), float(own[1]), float(own[2])))


def other_side(side: Side) -> Side:
    """Return the opposite side."""
    return "right" if side == "left" else "left"


def _sole(model: mujoco.MjModel, body: int, place: dict[int, int]) -> Sole:
    """Return the contact spheres of a body."""
    every = geoms_of(model, body)
    geoms = [g for g in every if model.geom_contype[g] or model.geom_conaffinity[g]]
    points, radii = [np.zeros((0, 3))], [np.zeros(0)]
    for geom in geoms or every:
        own, size = _geom_points(model, geom)
        frame = np.zeros(9)
        mujoco.mju_quat2Mat(frame, model.geom_quat[geom])
        points.append(model.geom_pos[geom] + own @ frame.reshape(3, 3).T)
        radii.append(np.full(len(own), size))
    if len(points) == 1:
        points.append(np.zeros((1, 3)))
        radii.append(np.zeros(1))
    return Sole(place[body], np.concatenate(points), np.concatenate(radii))


def contact_points(robot: MotionRobot) -> list[Sole]:
    """Return contact points of all bodies above the ankles in the resting pose, except feet."""
    place = {body: number for number, body in enumerate(robot.kinematics.bodies)}
    data, found = RobotFigure(robot).rest, list[Sole]()
    for body in place:
        sole = _sole(robot.model, body, place)
        frame = data.xmat[body].reshape(3, 3)
        high = (data.xpos[body] + sole.points @ frame.T)[:, 2] - sole.radii > _ANKLE_M
        if int(robot.model.body_geomnum[body]) and high.any():
            found.append(Sole(sole.body, sole.points[high], sole.radii[high]))
    return found


def _geom_points(model: mujoco.MjModel, geom: int) -> tuple[np.ndarray, float]:
    """Return the centers of a geom's contact spheres in its frame, and their radius."""
    kind, size = int(model.geom_type[geom]), model.geom_size[geom]
    if kind in _ROUND:
        half = float(size[1]) if kind == int(_GEOM.mjGEOM_CAPSULE) else 0.0
        ends = [(0.0, 0.0, -half), (0.0, 0.0, half)] if half else [(0.0, 0.0, 0.0)]
        return np.array(ends), float(size[0])
    if kind == _MESH:
        mesh = int(model.geom_dataid[geom])
        first, count = int(model.mesh_vertadr[mesh]), int(model.mesh_vertnum[mesh])
        vertices = np.array(model.mesh_vert[first : first + count], dtype=float)
        return vertices[_outermost(vertices)], 0.0
    middle, half = model.geom_aabb[geom, :3], model.geom_aabb[geom, 3:]
    return middle + half * np.array(list(itertools.product((-1, 1), repeat=3))), 0.0


def _outermost(vertices: np.ndarray) -> np.ndarray:
    """Return the indices of the extreme vertices along many directions."""
    directions = np.array([d for d in itertools.product((-2, -1, 0, 1, 2), repeat=3) if any(d)])
    return np.unique(np.argmax(vertices @ directions.T, axis=0))


# ---- human motion for a robot motion Points have the names of `RobotFigure.points`. Human limbs
# have the directions of the robot's limbs but human lengths: a second representation of the same
# motion.

# start, end and length, m, of each bone of a 1.75 m tall adult
_LEGS = (
    ("pelvis", "left_hip", 0.09),
    ("left_hip", "left_knee", 0.42),
    ("left_knee", "left_ankle", 0.42),
    ("left_ankle", "left_toe", 0.19),
    ("pelvis", "right_hip", 0.09),
    ("right_hip", "right_knee", 0.42),
    ("right_knee", "right_ankle", 0.42),
    ("right_ankle", "right_toe", 0.19),
    ("pelvis", "head", 0.78),
)
_ARMS = (
    ("pelvis", "left_shoulder", 0.52),
    ("left_shoulder", "left_elbow", 0.29),
    ("left_elbow", "left_hand", 0.33),
    ("pelvis", "right_shoulder", 0.52),
    ("right_shoulder", "right_elbow", 0.29),
    ("right_elbow", "right_hand", 0.33),
)
LEG_M = 0.84


def person_points(has_arms: bool) -> tuple[str, ...]:
    """Return the names of human points for a robot with or without arms."""
    return ("pelvis", *(end for _, end, _ in (*_LEGS, *(_ARMS if has_arms else ()))))


def figure_points(figure: RobotFigure, clip: MotionClip) -> dict[str, np.ndarray]:
    """Return the robot's points in each frame as world positions (T, 3)."""
    pos, quat = figure.robot.bodies_of(clip)
    found: dict[str, np.ndarray] = {}
    for name, point in figure.points.items():
        offset = torch.tensor(point.offset).expand(clip.frames, 3)
        found[name] = (pos[:, point.body] + rotate(quat[:, point.body], offset)).numpy()
    return found


def person_like(figure: RobotFigure, clip: MotionClip) -> HumanTrack:
    """Return the motion of a human of adult size who moves like the robot in a clip."""
    points = figure_points(figure, clip)
    scale = LEG_M / figure.leg_length
    person = {"pelvis": points["pelvis"] * scale}
    for start, end, length in (*_LEGS, *(_ARMS if figure.has_arms else ())):
        way = points[end] - points[start]
        size = np.linalg.norm(way, axis=-1, keepdims=True)
        person[end] = person[start] + length * way / np.maximum(size, 1e-6)
    names = tuple(person)
    stacked = np.stack([person[name] for name in names], axis=1)
    return HumanTrack(names, stacked.astype(np.float32), clip.root_quat)
