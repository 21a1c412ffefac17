"""Describe the robot that a behaviour is for: its quantities, sizes and known limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from torch import Tensor

from telic.composer._parts import bodies_of
from telic.composer.lexicon import word_table
from telic.envs.spec import EnvSpec
from telic.errors import BadEnvironment
from telic.quantities import QUANTITIES
from telic.rewards.signals import Measured

if TYPE_CHECKING:
    from telic.composer.reference import Reference

_LEARNS = 400_000
"""steps to learn to go, for robots without a calibration of their own"""
_ON_TWO = 3
"""times as many for a robot that can fall to every side from two feet"""
_NO_LEGS_MPS = 1.0
"""top speed of what has no legs and was not measured"""
_LIES = 0.35
"""share of the standing height at which a robot lies, where it was not measured"""


class Scene(NamedTuple):
    """A robot and its limits."""

    spec: EnvSpec
    known: dict[str, Any]
    may_fall: bool = False
    """whether what is asked for needs poses in which the environment would end the episode"""
    reference: Reference | None = None
    """the motion to follow, where there is one"""
    is_going: bool = False
    """whether it also goes somewhere at the same time"""
    is_last: bool = True
    """whether nothing comes after it"""
    is_on_hands: bool = False
    """whether it is asked to be on its hands and knees, not on its feet"""
    is_turning: bool = False
    """whether it also turns at the same time"""

    @classmethod
    def of(cls, spec: EnvSpec, may_fall: bool = False, reference: Reference | None = None) -> Scene:
        """Return the scene of an environment."""
        robot = spec.robot
        on_two = robot is not None and robot.root.kind == "free" and len(robot.feet) == 2
        learns = _LEARNS * (_ON_TWO if on_two else 1)
        return cls(
            spec,
            {"learns": learns} | word_table("calibration").get(spec.id, {}),
            may_fall,
            reference,
        )

    def has(self, *quantities: str) -> bool:
        """Return whether the environment has all of these quantities."""
        return all(QUANTITIES[name].available(self.spec) for name in quantities)

    def require(self, quantity: str, what: str) -> None:
        """Refuse what the robot cannot do."""
        if not self.has(quantity):
            raise self.cannot(what, f"it needs {QUANTITIES[quantity].need.words}")

    def cannot(self, what: str, why: str) -> BadEnvironment:
        """Return the refusal of something this robot cannot do."""
        return BadEnvironment(f"{self.name} cannot {what}: {why}.")

    @property
    def name(self) -> str:
        """Name of the robot, as a person knows it: a model's file has an ending."""
        return self.spec.id.removesuffix(".xml")

    @property
    def ends_fallen(self) -> bool:
        """True if the episode ends when the robot falls."""
        return "terminate_when_unhealthy" in self.spec.arguments and not self.may_fall

    @property
    def stands(self) -> float:
        """Height of the torso of the robot at rest on its feet, metres."""
        rest = self.spec.robot.rest_height if self.spec.robot else None
        return float(self.known.get("stands", rest or 0.0))

    @property
    def lies(self) -> float:
        """Height of the torso of the robot lying on the ground, metres."""
        return float(self.known.get("lies", _LIES * self.stands))

    @property
    def leg(self) -> float | None:
        """Length of its legs, metres: height of the hips of the robot that stands."""
        legs = self.spec.robot.legs if self.spec.robot else ()
        if not legs or "stands" not in self.known:
            return sum(leg.length_m for leg in legs) / len(legs) if legs else None
        low, high = legs[0].stretched_m / 2.0, legs[0].stretched_m
        return min(max(self.stands + legs[0].hip_m, low), high)

    @property
    def bounces(self) -> bool:
        """True if its drives outweigh it: what they do throws the light body off the ground."""
        robot = self.spec.robot
        return robot is not None and sum(leg.drive_kg for leg in robot.legs) > robot.mass

    @property
    def gravity(self) -> float:
        """Gravity, m/s^2."""
        robot = self.spec.robot
        return 100.0 * robot.contact_threshold / robot.mass if robot and robot.mass else 9.81

    @property
    def top_speed(self) -> float:
        """Speed it is known to reach; Froude number 1 for legs without a measurement."""
        if self.leg is None:
            return float(self.known.get("top_speed", _NO_LEGS_MPS))
        return float(self.known.get("top_speed", (self.gravity * self.leg) ** 0.5))

    @property
    def is_round(self) -> bool:
        """True if its legs are as far apart sideways as lengthwise, so that it has no front."""
        legs = self.spec.robot.legs if self.spec.robot else ()
        long, wide = (max((abs(leg.place[k]) for leg in legs), default=0.0) for k in (0, 1))
        return len(legs) >= 4 and wide > 0.8 * long

    @property
    def has_front_and_rear(self) -> bool:
        """True if it has front and hind feet, as a dog has."""
        is_long = len(self.spec.feet) == 4 and not self.is_round and not self.is_tall
        return is_long and len(self.feet("front")) == len(self.feet("rear")) == 2

    @property
    def is_tall(self) -> bool:
        """True if lying means that its torso lies, too: a biped, not a quadruped."""
        return self.lies < 0.3 * self.stands

    @property
    def torso(self) -> str | None:
        """Name of the torso of a robot that has feet to keep it off the ground."""
        robot = self.spec.robot
        if robot is None or robot.torso is None or not robot.feet or not self.has("height"):
            return None
        return self.spec.body_names[robot.torso]

    @property
    def on_rail(self) -> bool:
        """True if it is a cart on a rail."""
        return self.spec.robot is not None and self.spec.robot.root.kind == "rail"

    @property
    def on_wheels(self) -> bool:
        """True if each of its joints turns without end, and nothing hangs on it but a wheel.

        Legs whose model names no limits turn without end, too, but have more than one joint.
        """
        robot = self.spec.robot
        if robot is None or not robot.limbs or any(each.range for each in robot.limbs):
            return False
        return bool(robot.legs) and all(len(leg.qpos) == 1 for leg in robot.legs)

    @property
    def starts(self) -> float:
        """Height of the torso at the start of an episode, if it stands or drops from there."""
        rest = self.spec.robot.rest_height if self.spec.robot else None
        return max(self.stands, rest or 0.0)

    def above_start(self) -> Tensor:
        """Return the height of the torso above where it can get without a jump, as a signal."""
        return Measured("height", minus=self.starts)

    @property
    def axes(self) -> str:
        """Axes of the ground that it can move along: "x" or "xy"."""
        return "xy" if self.has("y_position") else "x"

    def feet(self, *places: str) -> tuple[str, ...]:
        """Return the feet at these places ("rear", "left"); all of them without any."""
        if not places:
            return self.spec.feet
        found = bodies_of(frozenset((*places, "foot")), "foot", self.spec)
        return tuple(foot for foot in self.spec.feet if foot in found)

    @property
    def hands(self) -> tuple[str, ...]:
        """Bodies that are its hands."""
        return bodies_of(frozenset({"hand"}), "hand", self.spec)

    def foot_places(self, bodies: tuple[str, ...]) -> tuple[int, ...]:
        """Return the places of these feet in `foot_contact`."""
        return tuple(index for index, foot in enumerate(self.spec.feet) if foot in bodies)
