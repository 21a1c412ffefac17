"""Facts about a robot as plain data, which measured quantities need and a recording can carry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Axis = Literal["x", "y", "z"]
RootKind = Literal["free", "planar", "rail", "fixed"]
Vector = tuple[float, float, float]
Quaternion = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class Coordinate:
    """A position along, or an angle about, a world axis: offset + sign * qpos[qpos].

    Its rate is sign * qvel[dof]. Angles follow the right-hand rule.
    """

    axis: Axis
    qpos: int
    dof: int
    sign: float = 1.0
    offset: float = 0.0


@dataclass(frozen=True, slots=True)
class Root:
    """How the robot's first body moves in the world.

    `slides` are the world axes it translates along. It turns by `hinge` (about one world axis), or
    freely, with a quaternion at `quaternion` in qpos and local angular velocity at `spin` in qvel.
    """

    kind: RootKind
    slides: tuple[Coordinate, ...] = ()
    hinge: Coordinate | None = None
    quaternion: int | None = None
    spin: int | None = None

    def slide(self, axis: str) -> Coordinate | None:
        """Return the translation along a world axis, or None where the root cannot move."""
        return next((each for each in self.slides if each.axis == axis), None)

    @property
    def moves(self) -> str:
        """Return the axes it can move along, e.g. "xz" for a robot in the vertical plane."""
        return "".join(each.axis for each in self.slides)

    @property
    def turns(self) -> str:
        """Return the axes it can turn about, e.g. "y" for a robot in the vertical plane."""
        return "xyz" if self.quaternion is not None else self.hinge.axis if self.hinge else ""


@dataclass(frozen=True, slots=True)
class Limb:
    """A hinge or slide joint between two parts of the robot (not one of its root)."""

    name: str
    qpos: int
    dof: int
    range: tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class Motor:
    """An actuator on one joint: force = gain * u + bias0 + bias1 * length + bias2 * velocity.

    u is the control clamped to `control_range`, length and velocity are the joint's times `gear`,
    the force is clamped to `force_range`, and the joint feels gear * force.
    """

    qpos: int
    dof: int
    gear: float
    gain: float
    bias: Vector
    control_range: tuple[float, float] | None
    force_range: tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class Robot:
    """What measured quantities need to know; bodies are rows of the by-body info values."""

    root: Root
    torso: int | None
    upright: Quaternion
    """orientation of (forward, left, up) in the torso's own frame, w first"""
    rest_height: float | None
    """height of the torso's origin in the resting pose, metres"""
    rest_qpos: tuple[float, ...]
    """the resting pose, where episodes start but for noise"""
    feet: tuple[int, ...]
    sides: tuple[tuple[int, ...], tuple[int, ...]] | None
    """places in `feet` of the two sides a gait alternates between"""
    side_names: tuple[str, str] | None
    limbs: tuple[Limb, ...]
    motors: tuple[Motor, ...] | None
    """None when an actuator is more than a motor on one joint: its torque is then not known"""
    poles: tuple[Coordinate, ...]
    """hinges of a pole balanced on a cart, bottom up; each angle is relative to the one below"""
    tip: tuple[int, Vector] | None
    """body and point in its frame that is the end of the last pole"""
    target: int | None
    pointer: int | None
    """body that should get to the target"""
    body_root: tuple[int, ...]
    """first body of the tree each body belongs to"""
    body_mass: tuple[float, ...]
    body_centre: tuple[Vector, ...]
    """centre of mass of each body in its own frame"""
    mass: float
    """of the robot, without loose objects, kilograms"""
    contact_threshold: float
    """newtons above which a body counts as touching: 1 % of the robot's weight"""

    def __hash__(self) -> int:
        # The generated hash would walk every number at each look-up of a cached table.
        return hash((self.mass, self.torso, len(self.body_mass)))
