"""The specification of an environment: the record shown, saved and exported."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import Field

from telic.core.config import Record

Axis = Literal["x", "y", "z"]
RootKind = Literal["free", "planar", "rail", "fixed"]
Vector = tuple[float, float, float]
Quaternion = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class Coordinate:
    """A position along, or an angle about, a world axis: offset + sign * qpos[qpos].

    Its rate is sign * qvel[dof]. Angles follow the right-hand rule.
    """

    __offered__: ClassVar[str] = "a robot"
    axis: Axis
    qpos: int
    dof: int
    sign: float = 1.0
    offset: float = 0.0


@dataclass(frozen=True, slots=True)
class Root:
    """The motion of the robot's first body in the world.

    `slides` are the world axes it translates along. It turns by `hinge` (about one world axis), or
    freely, with a quaternion at `quaternion` in qpos and local angular velocity at `spin` in qvel.
    """

    __offered__: ClassVar[str] = "a robot"
    kind: RootKind
    slides: tuple[Coordinate, ...] = ()
    hinge: Coordinate | None = None
    quaternion: int | None = None
    spin: int | None = None

    def slide(self, axis: str) -> Coordinate | None:
        """Return the translation along a world axis, or None where the root cannot move."""
        return next((slide for slide in self.slides if slide.axis == axis), None)

    @property
    def moves(self) -> str:
        """Return the axes it can move along, e.g. "xz" for a robot in the vertical plane."""
        return "".join(slide.axis for slide in self.slides)

    @property
    def turns(self) -> str:
        """Return the axes it can turn about, e.g. "y" for a robot in the vertical plane."""
        return "xyz" if self.quaternion is not None else self.hinge.axis if self.hinge else ""


@dataclass(frozen=True, slots=True)
class Limb:
    """A hinge or slide joint between two parts of the robot (not one of its root)."""

    __offered__: ClassVar[str] = "a robot"
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

    __offered__: ClassVar[str] = "a robot"
    qpos: int
    dof: int
    gear: float
    gain: float
    bias: Vector
    control_range: tuple[float, float] | None
    force_range: tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class Leg:
    """The chain of bodies of a foot, from the first joint not shared with another leg."""

    __offered__: ClassVar[str] = "a robot"
    place: tuple[float, float]
    """end of the foot seen from the torso in the resting pose, metres forward and to the left"""
    hip_m: float
    """height of the first joint above the torso's origin, in the resting pose"""
    length_m: float
    """height of the hip above the ground of a robot that stands, metres"""
    stretched_m: float
    """from joint to joint to the end of the foot"""
    qpos: tuple[int, ...]
    """columns of its joints"""
    splay: tuple[int, ...] = ()
    """those of them that move it aside or turn it about itself in the resting pose"""
    tip: Vector = (0.0, 0.0, 0.0)
    """end of the foot in the foot's own frame"""
    drive_kg: float = 0.0
    """inertia of its drives (armature) as the end of the foot feels it"""


@dataclass(frozen=True, slots=True)
class Robot:
    """Facts for measured quantities; bodies are rows of the by-body info values."""

    __offered__: ClassVar[str] = "a robot"
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
    legs: tuple[Leg, ...] = ()
    """one per foot"""

    def __hash__(self) -> int:
        # The generated hash would walk every number at each look-up of a cached table.
        return hash((self.mass, self.torso, len(self.body_mass)))


JointKind = Literal["free", "ball", "slide", "hinge"]


class JointSpec(Record):
    """One joint of the model."""

    __offered__: ClassVar[str] = "a robot"
    name: str
    kind: JointKind
    qpos_address: int = Field(description="first column of this joint in qpos")
    dof_address: int = Field(description="first column of this joint in qvel")
    low: float | None = Field(description="lower limit in metres or radians; None: unlimited")
    high: float | None = Field(description="upper limit in metres or radians; None: unlimited")


class EnvSpec(Record):
    """Everything a reward author, a recorder or an exporter needs to know."""

    __offered__: ClassVar[str] = "an environment"
    id: str
    description: str = Field(description="one or two sentences for a person")
    obs_names: tuple[str, ...] = Field(description="one name per column of the observation")
    action_names: tuple[str, ...] = Field(description="one name per column of the action")
    action_low: tuple[float, ...]
    action_high: tuple[float, ...]
    num_actions: int | None = Field(
        default=None, description="number of choices if actions are discrete"
    )
    dt_s: float | None = Field(
        description="simulated seconds per step; None: the task has no clock"
    )
    max_episode_steps: int | None = Field(description="time limit; None: unlimited")
    info_keys: dict[str, str] = Field(description="name of each info value: meaning")
    body_names: tuple[str, ...] = Field(
        default=(), description="in the order of the by-body info values"
    )
    joints: tuple[JointSpec, ...] = ()
    torso: str | None = Field(
        default=None, description="body whose motion is the motion of the robot"
    )
    feet: tuple[str, ...] = Field(default=(), description="bodies meant to touch the ground")
    robot: Robot | None = Field(
        default=None, description="facts measured quantities need; see robot_of"
    )
    solved_return: float | None = Field(
        default=None, description="return that counts as solved; None: unspecified"
    )
    notes: tuple[str, ...] = Field((), description="guesses made and limits a user should know of")
    arguments: dict[str, object] = Field(default_factory=dict, description="constructor arguments")

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Names of the joints, in the model's order."""
        return tuple(joint.name for joint in self.joints)

    @property
    def obs_dim(self) -> int:
        """Columns of the observation."""
        return len(self.obs_names)

    @property
    def act_dim(self) -> int:
        """Columns of the action; 1 when actions are discrete."""
        return len(self.action_names)
