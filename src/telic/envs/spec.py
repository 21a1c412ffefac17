"""Specifications of environments and rewards."""

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
    """Position along, or angle about, a world axis: offset + sign * qpos[qpos].

    The rate is sign * qvel[dof]. Angles follow the right-hand rule.
    """

    __offered__: ClassVar[str] = "a robot"
    axis: Axis
    qpos: int
    dof: int
    sign: float = 1.0
    offset: float = 0.0


@dataclass(frozen=True, slots=True)
class Root:
    """Degrees of freedom of the robot's root body in the world frame.

    `slides` are world axes of translation. The root rotates by `hinge` (about a world axis) or
    freely, with a quaternion at `quaternion` in qpos and angular velocity at `spin` in qvel.
    """

    __offered__: ClassVar[str] = "a robot"
    kind: RootKind
    slides: tuple[Coordinate, ...] = ()
    hinge: Coordinate | None = None
    quaternion: int | None = None
    spin: int | None = None

    def slide(self, axis: str) -> Coordinate | None:
        """Return the translation along a world axis, or None if there is none."""
        return next((slide for slide in self.slides if slide.axis == axis), None)

    @property
    def moves(self) -> str:
        """Return the translation axes, e.g. "xz" for a robot in the vertical plane."""
        return "".join(slide.axis for slide in self.slides)

    @property
    def turns(self) -> str:
        """Return the rotation axes, e.g. "y" for a robot in the vertical plane."""
        return "xyz" if self.quaternion is not None else self.hinge.axis if self.hinge else ""


@dataclass(frozen=True, slots=True)
class Limb:
    """Hinge or slide joint between two parts of the robot, excluding root joints."""

    __offered__: ClassVar[str] = "a robot"
    name: str
    qpos: int
    dof: int
    range: tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class Motor:
    """Actuator on one joint: force = gain * u + bias0 + bias1 * length + bias2 * velocity.

    u is the control clamped to `control_range`. Length and velocity are those of the joint times
    `gear`. The force is clamped to `force_range`, and gear * force is applied to the joint.
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
    """Leg that ends in a foot. It starts at the first joint that is not part of another leg."""

    __offered__: ClassVar[str] = "a robot"
    place: tuple[float, float]
    """Foot tip relative to the torso in the resting pose, forward and left in meters."""
    hip_m: float
    """Height of the first joint above the torso's origin in the resting pose, in meters."""
    length_m: float
    """Hip height above the ground when standing, in meters."""
    stretched_m: float
    """Sum of the distances from joint to joint and to the foot tip, in meters."""
    qpos: tuple[int, ...]
    """Columns of the leg's joints in qpos."""
    splay: tuple[int, ...] = ()
    """Those of the joints that abduct the leg, or rotate it about its axis in the resting pose."""
    tip: Vector = (0.0, 0.0, 0.0)
    """Foot tip in the local frame of the foot."""
    drive_kg: float = 0.0
    """Effective mass of the actuators' armature at the foot tip, in kg."""


@dataclass(frozen=True, slots=True)
class Robot:
    """Structure of a robot. Bodies are row indices into per-body info values."""

    __offered__: ClassVar[str] = "a robot"
    root: Root
    torso: int | None
    upright: Quaternion
    """Orientation of (forward, left, up) in the torso's local frame, w first."""
    rest_height: float | None
    """Height of the torso's origin in the resting pose, in meters."""
    rest_qpos: tuple[float, ...]
    """Resting pose, from which episodes start with added noise."""
    feet: tuple[int, ...]
    sides: tuple[tuple[int, ...], tuple[int, ...]] | None
    """Indices into `feet` of the two sides between which a gait alternates."""
    side_names: tuple[str, str] | None
    limbs: tuple[Limb, ...]
    motors: tuple[Motor, ...] | None
    """Motors, or None if torques are unknown because an actuator is not a motor on one joint."""
    poles: tuple[Coordinate, ...]
    """Hinges of poles on a cart, bottom up, where each angle is relative to the one below."""
    tip: tuple[int, Vector] | None
    """Tip of the last pole, as a body and a point in its frame."""
    target: int | None
    pointer: int | None
    """Body that should reach the target."""
    body_root: tuple[int, ...]
    """Root body of each body's kinematic tree."""
    body_mass: tuple[float, ...]
    body_center: tuple[Vector, ...]
    """Center of mass of each body in its local frame."""
    mass: float
    """Mass of the robot without loose objects, in kilograms."""
    contact_threshold: float
    """Force in newtons above which a body is in contact: 1 % of the robot's weight."""
    legs: tuple[Leg, ...] = ()
    """Legs, one per foot."""

    def __hash__(self) -> int:
        # The generated hash would iterate over all numbers at each cache lookup.
        return hash((self.mass, self.torso, len(self.body_mass)))


JointKind = Literal["free", "ball", "slide", "hinge"]


class JointSpec(Record):
    """Specification of a joint."""

    __offered__: ClassVar[str] = "a robot"
    name: str
    kind: JointKind
    qpos_address: int = Field(description="first qpos column of the joint")
    dof_address: int = Field(description="first qvel column of the joint")
    low: float | None = Field(description="lower limit in m or rad, or None if unlimited")
    high: float | None = Field(description="upper limit in m or rad, or None if unlimited")


class EnvSpec(Record):
    """Specification of an environment, used by rewards, recordings and exports."""

    __offered__: ClassVar[str] = "an environment"
    id: str
    description: str = Field(description="description in one or two sentences")
    obs_names: tuple[str, ...] = Field(description="names of observation columns")
    action_names: tuple[str, ...] = Field(description="names of action columns")
    action_low: tuple[float, ...]
    action_high: tuple[float, ...]
    num_actions: int | None = Field(default=None, description="number of discrete actions")
    dt_s: float | None = Field(
        description="simulated seconds per step, or None if the task has no clock"
    )
    max_episode_steps: int | None = Field(description="time limit in steps, or None if unlimited")
    info_keys: dict[str, str] = Field(description="meaning of each info value")
    body_names: tuple[str, ...] = Field(
        default=(), description="names of the bodies, ordered like per-body info values"
    )
    joints: tuple[JointSpec, ...] = ()
    torso: str | None = Field(
        default=None, description="body whose motion defines the motion of the robot"
    )
    feet: tuple[str, ...] = Field(default=(), description="bodies intended for ground contact")
    robot: Robot | None = Field(
        default=None, description="robot structure required by quantities (see `robot_of`)"
    )
    solved_return: float | None = Field(
        default=None, description="return that counts as solved, or None if unspecified"
    )
    notes: tuple[str, ...] = Field((), description="assumptions and limitations for the user")
    arguments: dict[str, object] = Field(default_factory=dict, description="constructor arguments")

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Names of the joints in model order."""
        return tuple(joint.name for joint in self.joints)

    @property
    def obs_dim(self) -> int:
        """Number of observation columns."""
        return len(self.obs_names)

    @property
    def act_dim(self) -> int:
        """Number of action columns (1 for discrete actions)."""
        return len(self.action_names)


# ---- rewards, described without the imports that they need


class TermSpec(Record):
    """One term of a reward."""

    name: str
    description: str = ""
    latex: str | None = None
    weight: float | None = Field(default=None, description="tunable weight with the same name")


class RewardSpec(Record):
    """Description and formula of a reward, written to reward_spec.json."""

    latex: str = ""
    description: str = ""
    terms: tuple[TermSpec, ...] = ()


class RewardFinding(Record):
    """Warning about a reward that does not prevent training."""

    name: str = Field(description="stable name of the kind of finding, e.g. looped")
    message: str = Field(description="finding with numbers, and recommended action")
    values: dict[str, float] = Field(default_factory=dict, description="measured values")
