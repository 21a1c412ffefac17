"""Properties of a robot for composing behaviors: quantities, dimensions and limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from telic.composer._parts import bodies_of
from telic.composer.lexicon import word_table
from telic.envs.spec import EnvSpec
from telic.errors import BadEnvironment
from telic.quantities import QUANTITIES

if TYPE_CHECKING:
    from telic.composer.reference import Reference

_LEARNS = 400_000
"""default number of training steps for locomotion, for robots without calibration"""
_ON_TWO = 3
"""step multiplier for bipeds that can fall in any direction"""
_NO_LEGS_MPS = 1.0
"""default top speed of robots without legs, in m/s"""
_LIES = 0.35
"""default lying height as a fraction of the standing height"""


class Scene(NamedTuple):
    """Robot and context for which a behavior is composed."""

    spec: EnvSpec
    known: dict[str, Any]
    may_fall: bool = False
    """whether the intent requires poses that would terminate the episode"""
    reference: Reference | None = None
    """reference motion to track, if any"""
    is_going: bool = False
    """whether the robot travels at the same time"""
    is_last: bool = True
    """whether this is the last phase"""
    is_on_hands: bool = False
    """whether the robot should be on hands and knees rather than on its feet"""
    is_turning: bool = False
    """whether the robot turns at the same time"""
    is_waving: bool = False
    """whether a limb moves at the same time"""
    is_lifting: bool = False
    """whether a foot is held up at the same time"""
    lies_next: bool = False
    """whether the next phase is lying down"""

    @classmethod
    def of(cls, spec: EnvSpec, may_fall: bool = False) -> Scene:
        """Return the scene of an environment."""
        robot = spec.robot
        on_two = robot is not None and robot.root.kind == "free" and len(robot.feet) == 2
        learns = _LEARNS * (_ON_TWO if on_two else 1)
        known = {"learns": learns} | word_table("calibration").get(spec.id, {})
        return cls(spec, known, may_fall)

    def has(self, *quantities: str) -> bool:
        """Return whether the environment provides all of the given quantities."""
        return all(QUANTITIES[name].available(self.spec) for name in quantities)

    def require(self, quantity: str, what: str) -> None:
        """Raise BadEnvironment if a required quantity is not available."""
        if not self.has(quantity):
            raise self.cannot(what, f"it requires {QUANTITIES[quantity].need.words}", quantity)

    def cannot(self, what: str, why: str, needs: str = "foot_contact") -> BadEnvironment:
        """Return the error for a behavior that the robot cannot perform."""
        error = BadEnvironment(f"{self.name} cannot {what}: {why}.")
        error.needs = needs
        return error

    def posture(self, name: str) -> dict[str, Any]:
        """Return the quantity that a posture holds, or nothing (`tables/postures.toml`)."""
        row = word_table("postures")[name][0].get("hold", {})
        return row | row.get("tall", {}) if self.is_tall else row

    @property
    def name(self) -> str:
        """Display name of the robot, without the suffix of a model file."""
        return self.spec.id.removesuffix(".xml")

    @property
    def ends_fallen(self) -> bool:
        """True if the episode terminates when the robot falls."""
        return "terminate_when_unhealthy" in self.spec.arguments and not self.may_fall

    @property
    def stands(self) -> float:
        """Torso height when standing at rest, in meters."""
        rest = self.spec.robot.rest_height if self.spec.robot else None
        return float(self.known.get("stands", rest or 0.0))

    @property
    def lies(self) -> float:
        """Torso height when lying on the ground, in meters."""
        return float(self.known.get("lies", _LIES * self.stands))

    @property
    def leg(self) -> float | None:
        """Leg length in meters (the hip height when standing)."""
        legs = self.spec.robot.legs if self.spec.robot else ()
        if not legs or "stands" not in self.known:
            return sum(leg.length_m for leg in legs) / len(legs) if legs else None
        low, high = legs[0].stretched_m / 2.0, legs[0].stretched_m
        return min(max(self.stands + legs[0].hip_m, low), high)

    @property
    def bounces(self) -> bool:
        """True if the actuators are strong enough to throw the light body off the ground."""
        robot = self.spec.robot
        return robot is not None and sum(leg.drive_kg for leg in robot.legs) > robot.mass

    @property
    def gravity(self) -> float:
        """Gravity in m/s^2."""
        robot = self.spec.robot
        return 100.0 * robot.contact_threshold / robot.mass if robot and robot.mass else 9.81

    @property
    def top_speed(self) -> float:
        """Calibrated top speed in m/s, or the speed at Froude number 1 for uncalibrated legs."""
        if self.leg is None:
            return float(self.known.get("top_speed", _NO_LEGS_MPS))
        return float(self.known.get("top_speed", (self.gravity * self.leg) ** 0.5))

    @property
    def is_round(self) -> bool:
        """True if the legs are equally spaced in both directions, without a distinct front."""
        legs = self.spec.robot.legs if self.spec.robot else ()
        long, wide = (max((abs(leg.place[k]) for leg in legs), default=0.0) for k in (0, 1))
        return len(legs) >= 4 and wide > 0.8 * long

    @property
    def has_front_and_rear(self) -> bool:
        """True if the robot has front and hind feet."""
        is_long = len(self.spec.feet) == 4 and not self.is_round and not self.is_tall
        return is_long and len(self.feet("front")) == len(self.feet("rear")) == 2

    @property
    def is_tall(self) -> bool:
        """True if the torso is horizontal when lying, as for bipeds but not quadrupeds."""
        return self.lies < 0.3 * self.stands

    @property
    def torso(self) -> str | None:
        """Name of the torso, if the robot has feet to keep it off the ground."""
        robot = self.spec.robot
        if robot is None or robot.torso is None or not robot.feet or not self.has("height"):
            return None
        return self.spec.body_names[robot.torso]

    @property
    def on_rail(self) -> bool:
        """True if the robot is a cart on a rail."""
        return self.spec.robot is not None and self.spec.robot.root.kind == "rail"

    @property
    def on_wheels(self) -> bool:
        """True if every joint is continuous and drives only a wheel.

        Legs without joint limits are also continuous, but have more than one joint.
        """
        robot = self.spec.robot
        if robot is None or not robot.limbs or any(each.range for each in robot.limbs):
            return False
        return bool(robot.legs) and all(len(leg.qpos) == 1 for leg in robot.legs)

    @property
    def starts(self) -> float:
        """Torso height at the start of an episode, if the robot stands or drops from there."""
        rest = self.spec.robot.rest_height if self.spec.robot else None
        return max(self.stands, rest or 0.0)

    @property
    def axes(self) -> str:
        """Horizontal axes of motion: "x" or "xy"."""
        return "xy" if self.has("y_position") else "x"

    def feet(self, *places: str) -> tuple[str, ...]:
        """Return the feet at places such as "rear" and "left", or all feet if no place is given."""
        if not places:
            return self.spec.feet
        found = bodies_of(frozenset((*places, "foot")), "foot", self.spec)
        return tuple(foot for foot in self.spec.feet if foot in found)

    @property
    def hands(self) -> tuple[str, ...]:
        """Names of the hand bodies."""
        return bodies_of(frozenset({"hand"}), "hand", self.spec)

    @property
    def has_hands(self) -> bool:
        """True if the robot stands on two feet and has hands to rest on."""
        return len(self.spec.feet) == 2 and bool(self.hands)

    def foot_places(self, bodies: tuple[str, ...]) -> tuple[int, ...]:
        """Return the indices of the given feet in `foot_contact`."""
        return tuple(index for index, foot in enumerate(self.spec.feet) if foot in bodies)
