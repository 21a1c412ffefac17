"""Properties of an environment for composing behaviors: quantities, sizes and observed values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from telic.composer._parts import bodies_of, robot_of
from telic.composer.lexicon import word_table
from telic.envs.spec import EnvSpec
from telic.errors import BadEnvironment
from telic.quantities import QUANTITIES
from telic.quantities.quantity import ObservedKind
from telic.robots.terrain import ArmTask

if TYPE_CHECKING:
    from telic.composer.reference import Reference

_LEARNS = 400_000
"""default number of training steps for locomotion, for robots without calibration"""
_ON_TWO = 3
"""step multiplier for bipeds that can fall in any direction"""
_NO_LEGS_MPS = 1.0
"""default top speed of robots without legs, in m/s"""
_GOAL_STEPS, _USUAL_STEPS = 100_000, 400_000
_GOALS = ("goal", "target", "goal_position", "target_position", "goal_pos", "target_pos")
_NO_PLACE = r"^to_|vel|speed|rate|quat|angle|force|achieved_goal|desired_goal"
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
    is_over: bool = False
    """whether the robot should be on its back"""
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


# ---- observed values


class Observable(NamedTuple):
    """Scalar computed from a single observation."""

    name: str
    columns: tuple[int, ...]
    """observation columns used to compute it, see `telic.quantities.quantity`"""
    kind: ObservedKind = "column"
    unit: str = ""
    near: float = 0.1
    """default tolerance around a value"""
    span: float = 1.0
    """maximum initial distance from the target value"""
    words: tuple[str, ...] = ()
    """alternative names"""
    is_far: bool = False
    """whether reaching the target value takes a part of the episode"""
    starts_at_0: bool = False
    """whether it starts at 0, so that only nonzero targets must be reached"""


def as_tuples(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of a table with tuples for lists."""
    return {key: tuple(x) if isinstance(x, list) else x for key, x in row.items()}


def known_values(spec: EnvSpec) -> tuple[list[Observable], list[Mapping[str, Any]], int]:
    """Return the known observables, phrase rows and training steps of an environment.

    Any named object can be moved to the goal if the goal is also observed. Names are Dict keys or
    column names, such as `puck_0` and `puck_1`, or `puck_x` and `puck_y`.
    """
    data = word_table("observed")
    has_block = can_have_block(spec)
    row = data["families"].get(robot_of(spec), data["families"]["arm"] if has_block else {})
    row = data["families"].get(row.get("same"), {}) | row
    columns = [*spec.obs_names, *data["block"]["columns"] * has_block]
    seen = [_observable(each, columns) for each in row.get("observables", ())]
    seen = [each for each in seen if each is not None]
    own = {"return", *(each.name for each in seen), *map(_plain, columns)}
    phrases = [each for each in row.get("phrases", ()) if own >= {w["what"] for w in each["wants"]}]
    steps = row.get("learns", _USUAL_STEPS)
    found, stems = list[tuple[Observable, Mapping[str, Any]]](), dict[str, list[int]]()
    for index, name in enumerate(spec.obs_names):
        if match := re.fullmatch(r"(.+)_(?:\d|[xyz])", name.lower()):
            stems.setdefault(match[1], []).append(index)
    named = [(k, re.sub(r"_\d+$", "", name)) for k, name in enumerate(spec.obs_names)]
    at, to = (
        [k for k, name in named if name == f"{stem}_goal"] for stem in ("achieved", "desired")
    )
    if at and len(at) == len(to):
        name, words = "distance to the goal", ("distance to target", "goal distance", "distance")
        away = Observable(name, (*at, *to), "distance", "m", 0.05, 0.3, words, is_far=True)
        found += [(away, row) for row in data["goal"]["phrases"]]
    goal = next((stems[stem] for stem in _GOALS if stem in stems), [])
    for stem, columns in stems.items():
        if stem in _GOALS or re.search(_NO_PLACE, stem) or len(columns) != len(goal):
            continue
        thing = re.sub(r"_(?:pos|position|place|xy|xyz)$", "", stem).replace("_", " ")
        name = f"distance of the {thing} to the goal"
        title = f"brings the {thing} within 0.05 of the goal"
        want = {"kind": "near", "what": name, "value": 0.0, "tolerance": 0.05, "title": title}
        words = [each.replace("{}", thing) for each in data["brought"]["words"]]
        row = {"words": words, "wants": [want], "example": f"push the {thing} to the goal"}
        both = (*columns, *goal)
        found.append((Observable(name, both, "distance", near=0.05, span=0.5, is_far=True), row))
    for observable, row in found:
        seen, phrases, steps = [observable, *seen], [row, *phrases], _GOAL_STEPS
    return seen, phrases, steps


def _observable(row: Mapping[str, Any], columns: Sequence[str]) -> Observable | None:
    """Return an observable of some columns, given by index or name, if they exist."""
    places = [columns.index(k) if k in columns else k for k in row["columns"]]
    is_known = all(isinstance(place, int) for place in places)
    return Observable(**as_tuples({**row, "columns": places})) if is_known else None


def _plain(name: str) -> str:
    return re.sub(r"[_\W]+", " ", name).strip()


def observables(spec: EnvSpec) -> tuple[Observable, ...]:
    """Return all observables of an environment, with documented names before columns."""
    columns = tuple(
        Observable(
            _plain(name) or f"obs {index}",
            (index,),
            words=(name.lower(), f"obs {index}", f"obs[{index}]", f"observation {index}"),
        )
        for index, name in enumerate(spec.obs_names)
    )
    return (*known_values(spec)[0], *columns)


def can_have_block(spec: EnvSpec) -> bool:
    """Return whether an environment is an arm to which telic can add a block."""
    # A user-defined environment class may have an argument of the same name.
    is_arm = spec.robot is not None and spec.robot.target is not None
    return is_arm and spec.arguments.get("task") in get_args(ArmTask)
