"""Signals: what reward terms are about, measured for N environments at each step.

A signal is a frozen, typed object. `step(signal)` measures it, once per step however many terms use
it. Most are quantities of one moment (`Measured`); others remember the episode and name the memory
they need in `slots`. Equal signals share their memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import MISSING, Field, dataclass, field, fields
from functools import cached_property
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar, cast, dataclass_transform

import torch
from torch import Tensor

from telic.core.text import is_row
from telic.envs.vector import Info
from telic.quantities import QUANTITIES
from telic.quantities.observed import observed
from telic.quantities.quantity import Accumulated

_SYMBOLS = {
    "action_change": r"\Delta a^2",
    "distance_to_target": "d",
    "effort": r"\overline{a^2}",
    "heading_rate": r"\omega",
    "height": "h",
    "height_above_start": "h",
    "joint_speed": r"|\dot q|",
    "pitch": r"\theta",
    "stride_alternation": "a",
    "uprightness": r"\cos\theta",
    "vertical_velocity": "v_z",
}
T = TypeVar("T")
_AXES = {"forward": (0, 1), "backward": (0, -1), "left": (1, 1), "right": (1, -1)}
_VELOCITIES = (("x_velocity", "forward_velocity"), ("y_velocity", "lateral_velocity"))
_DIAGONAL = 0.7071
CLOCKS = frozenset({"beat", "action_change"})
"""memory that follows from time and actions alone, so that a robot can keep it without a reward"""


class Step:
    """One transition of N environments, and what was measured of it so far."""

    def __init__(
        self,
        action: Tensor,
        next_obs: Tensor,
        info: Info,
        memory: dict[str, Tensor],
        suffix: str = "",
    ) -> None:
        """Hold a transition; `suffix` ends the names of the memory of a phase."""
        self.action = action
        self.next_obs = next_obs
        self.info = info
        self.phase: Tensor | None = None
        """which phase is on, (N,), where there are phases"""
        self._memory = memory
        self._suffix = suffix
        self._known: dict[Signal[Any], Any] = {}

    def __call__(self, signal: Signal[T]) -> T:
        """Return the value of a signal, measured at its first use."""
        if signal not in self._known:
            self._known[signal] = signal.measure(self)
        return self._known[signal]

    def recall(self, slot: str) -> Tensor:
        """Return a memory as the last step left it."""
        return self._memory[slot + self._suffix]

    def keep(self, slot: str, value: Tensor) -> None:
        """Replace a memory."""
        self._memory[slot + self._suffix] = value

    def first(self, slot: str, now: Tensor) -> Tensor:
        """Return rows (N, k) as they were at the first step of the episode; keeps them."""
        kept = self.recall(slot)
        is_known = kept[:, :1]
        start = torch.where(is_known > 0, kept[:, 1 : 1 + now.shape[1]], now)
        rest = kept[:, 1 + now.shape[1] :]
        self.keep(slot, torch.cat((torch.ones_like(is_known), start, rest), -1))
        return start

    @property
    def dt(self) -> float:
        """Seconds per step."""
        return self.info.spec.dt_s or 1.0

    def measured(self, quantity: str, *arguments: str) -> Tensor:
        """Return a quantity of this moment."""
        return QUANTITIES[quantity](self.info, *arguments)


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(field,))
class Node:
    """A frozen record that is written as the Python call that makes it.

    Numbers are rounded to a few significant digits, so that a file says exactly what is computed.
    """

    __offered__: ClassVar[str] = "a term"
    digits: ClassVar[int] = 4

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        dataclass(frozen=True, eq=False, repr=False)(cls)

    def __post_init__(self) -> None:
        """Round the numbers."""
        for each in self._fields:
            value = getattr(self, each.name)
            object.__setattr__(self, each.name, _rounded(value, self.digits))

    @property
    def _fields(self) -> tuple[Field[Any], ...]:
        return fields(cast("Any", self))

    @cached_property
    def _values(self) -> tuple[Any, ...]:
        return (type(self).__name__, *(getattr(self, each.name) for each in self._fields))

    @cached_property
    def _hashed(self) -> int:
        return hash(self._values)

    def __hash__(self) -> int:
        return self._hashed

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Node) and self._values == other._values)

    def __repr__(self) -> str:
        """Return the call that makes it: its first value by place, others by name."""
        given: list[str] = []
        for each in sorted(self._fields, key=lambda each: each.kw_only):
            value = getattr(self, each.name)
            if each.default is MISSING and not given:
                given.append(repr(value))
            elif value != each.default:
                given.append(f"{each.name}={value!r}")
        return f"{type(self).__name__}({', '.join(given)})"

    def nodes(self) -> Iterator[Node]:
        """Yield this node and all inside it."""
        yield self
        for each in self._fields:
            value = getattr(self, each.name)
            for inner in value if isinstance(value, tuple) else (value,):
                if isinstance(inner, Node):
                    yield from inner.nodes()

    def slots(self) -> dict[str, int | None]:
        """Return the memory it needs, by name: how many numbers, None for a single one."""
        return {}


def _rounded(value: Any, digits: int) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{digits}g}")
    if is_row(value):
        return tuple(_rounded(each, digits) for each in value)
    return value


class Signal(Node, Generic[T]):
    """Something measured at each step."""

    symbol: ClassVar[str] = "x"

    def formula(self) -> str:
        """Return the symbol that stands for it in formulas, LaTeX."""
        return self.symbol

    def measure(self, step: Step) -> T:
        """Return the value at this step, for a number (N,)."""
        raise NotImplementedError


Number = Signal[Tensor]


class Measured(Signal[Tensor]):
    """A quantity of `telic quantities`, less a number; `sign` -1 turns it round."""

    quantity: str
    body: str | None = None
    minus: float = 0.0
    sign: int = 1

    def formula(self) -> str:
        """Return the symbol of the quantity."""
        return ("-" if self.sign < 0 else "") + _SYMBOLS.get(self.quantity, "x")

    def measure(self, step: Step) -> Tensor:
        """Return the quantity."""
        value = step.measured(self.quantity, *(() if self.body is None else (self.body,)))
        value = value - self.minus if self.minus else value
        return -value if self.sign < 0 else value


class SoFar(Signal[Tensor]):
    """A quantity of the episode so far; `width` is the size of its memory."""

    quantity: str
    width: int

    def formula(self) -> str:
        """Return the symbol of the quantity."""
        return _SYMBOLS.get(self.quantity, "x")

    def slots(self) -> dict[str, int | None]:
        """Remember what the quantity adds up."""
        return {self.quantity: self.width}

    def measure(self, step: Step) -> Tensor:
        """Return the quantity after this step."""
        quantity = cast("Accumulated", QUANTITIES[self.quantity])
        memory, value = quantity.update(step.recall(self.quantity), step.info)
        step.keep(self.quantity, memory)
        return value


class Size(Signal[Tensor]):
    """The absolute value of a signal."""

    of: Number

    def measure(self, step: Step) -> Tensor:
        """Return the size."""
        return step(self.of).abs()


class Observed(Signal[Tensor]):
    """What follows from columns of the observation; see `telic.quantities.observed`."""

    kind: str
    columns: tuple[int, ...]

    def measure(self, step: Step) -> Tensor:
        """Return the value after the step."""
        return observed(step.next_obs, self.kind, self.columns)


class Given(Signal[Tensor]):
    """A value of the step's info, such as the environment's own reward."""

    symbol: ClassVar[str] = "r"
    name: str

    def measure(self, step: Step) -> Tensor:
        """Return the value."""
        return step.info[self.name]


# ---- conditions


class Above(Signal[Tensor]):
    """Whether a signal is above a limit."""

    digits: ClassVar[int] = 6
    of: Number
    limit: float

    def measure(self, step: Step) -> Tensor:
        """Compare."""
        return step(self.of) > self.limit


class Below(Signal[Tensor]):
    """Whether a signal is below a limit."""

    digits: ClassVar[int] = 6
    of: Number
    limit: float

    def measure(self, step: Step) -> Tensor:
        """Compare."""
        return step(self.of) < self.limit


class Not(Signal[Tensor]):
    """Whether a condition does not hold; of a share between 0 and 1, the rest."""

    of: Number

    def measure(self, step: Step) -> Tensor:
        """Turn it round."""
        return 1.0 - step(self.of).float()


# ---- going


class Along(Signal[Tensor]):
    """Velocity over the ground in a direction, m/s; with `aside`, half way between two.

    Of a robot without feet that of its centre of mass, since each of its parts swings faster than
    the whole goes; else the mean over the step where there is one, which shaking leaves at 0.
    """

    symbol: ClassVar[str] = "v"
    direction: str
    aside: str | None = None

    def measure(self, step: Step) -> Tensor:
        """Return the velocity."""
        if self.aside is not None:
            return _DIAGONAL * (step(Along(self.direction)) + step(Along(self.aside)))
        axis, sign = _AXES[self.direction]
        spec = step.info.spec
        mean, quantity = _VELOCITIES[axis]
        centre = QUANTITIES["centre_of_mass_velocity"]
        robot = spec.robot
        winds = robot is not None and not robot.feet and robot.root.kind != "rail"
        if winds and centre.available(spec):
            value = centre(step.info)[:, axis]
        elif mean in spec.info_keys:
            value = step.info[mean]
        else:
            value = step.measured(quantity)
        return -value if sign < 0 else value


class Ahead(Signal[Tensor]):
    """Velocity where the robot faces, m/s, if possible the mean of the step; `aside`: to its left."""

    symbol: ClassVar[str] = "v"
    aside: bool = False

    def measure(self, step: Step) -> Tensor:
        """Return the velocity."""
        info = step.info
        if not {"x_velocity", "y_velocity"} <= set(info.spec.info_keys):
            return step.measured("sideways_velocity" if self.aside else "heading_velocity")
        facing = step.measured("heading")
        if self.aside:
            return info["y_velocity"] * facing.cos() - info["x_velocity"] * facing.sin()
        return info["x_velocity"] * facing.cos() + info["y_velocity"] * facing.sin()


class Made(Signal[Tensor]):
    """Way made in a direction since the episode began, m."""

    symbol: ClassVar[str] = "d"
    direction: str

    def slots(self) -> dict[str, int | None]:
        """Remember where it began."""
        return {"start": 2}

    def measure(self, step: Step) -> Tensor:
        """Return the way."""
        axis, sign = _AXES[self.direction]
        place = step.measured("xy"[axis] + "_position")
        place = -place if sign < 0 else place
        return place - step.first("start", place.unsqueeze(-1))[:, 0]


class Gone(Signal[Tensor]):
    """Distance from where the episode began, m; the policy may see which way back it is."""

    symbol: ClassVar[str] = "d"
    axes: tuple[str, ...]

    def slots(self) -> dict[str, int | None]:
        """Remember where it began, and how far away that is."""
        return {"spot": 1 + 2 * len(self.axes)}

    def measure(self, step: Step) -> Tensor:
        """Return the distance."""
        here = torch.stack([step.measured(f"{axis}_position") for axis in self.axes], -1)
        gone = here - step.first("spot", here)
        kept = step.recall("spot")
        step.keep("spot", torch.cat((kept[:, : 1 + len(self.axes)], gone), -1))
        return gone.norm(dim=-1)


class Turned(Signal[Tensor]):
    """Turns of the heading since the episode began, to a side."""

    symbol: ClassVar[str] = r"\psi"
    side: str

    def slots(self) -> dict[str, int | None]:
        """Remember the heading, and what it was one step before."""
        return {"heading_turns": 6, "faced": None}

    def measure(self, step: Step) -> Tensor:
        """Return the turns."""
        turns = step(SoFar("heading_turns", 6))
        return -turns if self.side == "right" else turns


class Turning(Signal[Tensor]):
    """Turning rate to a side as the mean of the step, rad/s."""

    symbol: ClassVar[str] = r"\omega"
    side: str

    def slots(self) -> dict[str, int | None]:
        """Remember what `Turned` does."""
        return Turned(self.side).slots()

    def measure(self, step: Step) -> Tensor:
        """Return the rate."""
        turns = step(SoFar("heading_turns", 6))
        rate = 2.0 * math.pi / step.dt * (turns - step.recall("faced"))
        step.keep("faced", turns)
        return -rate if self.side == "right" else rate


# ---- feet


class Contacts(Signal[Tensor]):
    """Which feet touch the ground, (N, feet)."""

    def measure(self, step: Step) -> Tensor:
        """Return 1 for each that does."""
        return step.measured("foot_contact")


class Airborne(Signal[Tensor]):
    """Whether no foot touches the ground."""

    symbol: ClassVar[str] = r"[\text{air}]"

    def measure(self, step: Step) -> Tensor:
        """Return 1 in the air."""
        return (step.measured("feet_in_contact") == 0).float()


class Grounded(Signal[Tensor]):
    """Whether a foot touches the ground."""

    symbol: ClassVar[str] = r"[\text{foot}]"

    def measure(self, step: Step) -> Tensor:
        """Return 1 on the ground."""
        return (step.measured("feet_in_contact") > 0).float()


class OnlyFeet(Signal[Tensor]):
    """Whether one of some feet touches the ground and none of the others; without any, all are."""

    symbol: ClassVar[str] = r"[\text{feet}]"
    others: tuple[int, ...]
    mine: tuple[int, ...] = ()

    def measure(self, step: Step) -> Tensor:
        """Return 1 where it stands on these alone."""
        contact = step(Contacts())
        mine = contact[:, list(self.mine)] if self.mine else contact
        others = contact[:, list(self.others)].amax(-1) if self.others else 0.0
        return mine.amax(-1) * (1.0 - others)


class FewFeet(Signal[Tensor]):
    """Whether at least one foot touches the ground, and at most so many do."""

    symbol: ClassVar[str] = r"[\text{feet}]"
    most: int

    def measure(self, step: Step) -> Tensor:
        """Return 1 where it stands on so few."""
        contact = step(Contacts())
        return (contact.sum(-1) < self.most + 0.5).float() * contact.amax(-1)


class FeetUp(Signal[Tensor]):
    """Height of the lowest of some feet above the lowest foot of all, m.

    Without feet, of the one that `rank` feet are lower than; -1 is the highest.
    """

    symbol: ClassVar[str] = r"\Delta z"
    feet: tuple[int, ...] = ()
    rank: int = -1

    def measure(self, step: Step) -> Tensor:
        """Return the height."""
        up = step.measured("foot_height")
        up = up - up.amin(-1, keepdim=True)
        if self.feet:
            return up[:, list(self.feet)].amin(-1)
        return up.amax(-1) if self.rank < 0 else up.sort(-1)[0][:, self.rank]


class Together(Signal[Tensor]):
    """Whether all feet touch the ground, or none."""

    symbol: ClassVar[str] = "[c_i = c_j]"

    def measure(self, step: Step) -> Tensor:
        """Return 1 where they do the same."""
        contact = step(Contacts())
        return 1.0 - (contact.amax(-1) - contact.amin(-1))


class Slip(Signal[Tensor]):
    """Speed over the ground of feet that touch it, m/s, mean of the feet."""

    symbol: ClassVar[str] = r"\overline{c_i v_i}"

    def measure(self, step: Step) -> Tensor:
        """Return the speed."""
        return step.measured("foot_slip").mean(-1)


class Skew(Signal[Tensor]):
    """Difference of the shares of time that the feet of two sides were on the ground."""

    symbol: ClassVar[str] = "|d_l - d_r|"
    one: tuple[int, ...]
    other: tuple[int, ...]
    feet: int

    def slots(self) -> dict[str, int | None]:
        """Remember the time of each foot."""
        return {"foot_duty_factor": 1 + self.feet}

    def measure(self, step: Step) -> Tensor:
        """Return the difference."""
        duty = step(SoFar("foot_duty_factor", 1 + self.feet))
        return (duty[:, list(self.one)].mean(-1) - duty[:, list(self.other)].mean(-1)).abs()


class Stride(NamedTuple):
    """What the feet did in a step."""

    landed: Tensor
    alternation: Tensor


class Strides(Signal[Stride]):
    """Feet that come down, and how far sides take turns."""

    def slots(self) -> dict[str, int | None]:
        """Remember the landings."""
        return {"stride_alternation": 5}

    def measure(self, step: Step) -> Stride:
        """Count the landings of this step."""
        before = step.recall("stride_alternation")[:, 3]
        alternation = step(SoFar("stride_alternation", 5))
        return Stride(step.recall("stride_alternation")[:, 3] - before, alternation)


class Landed(Signal[Tensor]):
    """How many feet came down in this step."""

    def measure(self, step: Step) -> Tensor:
        """Return the count."""
        return step(Strides()).landed

    def slots(self) -> dict[str, int | None]:
        """Remember what `Strides` does."""
        return Strides().slots()


class Beat(Signal[tuple[Tensor, Tensor]]):
    """A clock, as a point on the unit circle that turns so many times a second."""

    digits: ClassVar[int] = 6
    hertz: float

    def slots(self) -> dict[str, int | None]:
        """Remember the point; the policy sees it."""
        return {"beat": 2}

    def measure(self, step: Step) -> tuple[Tensor, Tensor]:
        """Turn it on by one step."""
        beat = step.recall("beat")
        angle = 2.0 * math.pi * self.hertz * step.dt
        x, y = beat[:, 0] + (beat.abs().sum(-1) == 0).float(), beat[:, 1]
        cosine, sine = math.cos(angle), math.sin(angle)
        x, y = cosine * x - sine * y, sine * x + cosine * y
        step.keep("beat", torch.stack((x, y), -1))
        return x, y


# ---- deeds that are counted


class Cycle(NamedTuple):
    """Where a repeated deed is."""

    value: Tensor
    is_up: Tensor
    """1 from getting above `high` to getting below `low` again"""
    done: Tensor
    """1 in the step in which it is below again"""
    count: Tensor


class Cycles(Signal[Cycle]):
    """How often a signal was above `high` and then below `low`: jumps, waves, squats."""

    of: Number
    high: float
    low: float

    def slots(self) -> dict[str, int | None]:
        """Remember whether it is up, and the count."""
        return {"is_up": None, "times": None}

    def measure(self, step: Step) -> Cycle:
        """Count."""
        value = step(self.of)
        is_up = torch.maximum(step.recall("is_up"), (value > self.high).float())
        done = is_up * (value < self.low).float()
        step.keep("is_up", is_up - done)
        count = step.recall("times") + done
        step.keep("times", count)
        return Cycle(value, is_up, done, count)


class Count(Signal[Tensor]):
    """How often it was done so far."""

    of: Cycles

    def measure(self, step: Step) -> Tensor:
        """Return the count."""
        return step(self.of).count


class Wait(NamedTuple):
    """How long it has waited for the next time."""

    waited: Tensor
    due: Tensor


class Waiting(Signal[Wait]):
    """Time since it was last done, s; the next is due after 0.6 of a period."""

    of: Cycles
    period: float

    def slots(self) -> dict[str, int | None]:
        """Remember the time; the policy sees it."""
        return {"waited": None}

    def measure(self, step: Step) -> Wait:
        """Add a step."""
        cycle = step(self.of)
        waited = step.recall("waited") + step.dt
        due = torch.maximum(cycle.is_up, (waited > 0.6 * self.period).float())
        step.keep("waited", waited * (1.0 - cycle.done))
        return Wait(waited, due)


class Due(Signal[Tensor]):
    """Whether it is time to do it again."""

    symbol: ClassVar[str] = r"[\text{due}]"
    of: Waiting

    def measure(self, step: Step) -> Tensor:
        """Return 1 when it is."""
        return step(self.of).due


class Flight(NamedTuple):
    """What a hop came to."""

    flown: Tensor
    """seconds in the air up to the step before"""
    landed: Tensor
    count: Tensor


class Flights(Signal[Flight]):
    """Flights of at least so many seconds that land."""

    least_s: float

    def slots(self) -> dict[str, int | None]:
        """Remember the time in the air, and the count."""
        return {"air_time": 1, "hops": None}

    def measure(self, step: Step) -> Flight:
        """Count."""
        flown = step.recall("air_time")[:, 0]
        air = step(SoFar("air_time", 1))
        landed = ((air == 0) & (flown > self.least_s)).float()
        count = step.recall("hops") + landed
        step.keep("hops", count)
        return Flight(flown, landed, count)


class Hops(Signal[Tensor]):
    """How many flights have landed so far."""

    of: Flights

    def measure(self, step: Step) -> Tensor:
        """Return the count."""
        return step(self.of).count


class TurnOver(NamedTuple):
    """Where a somersault is."""

    progress: Tensor
    """turns gained in this step beyond the most so far"""
    done: Tensor
    landing: Tensor
    """1 in the step in which it lands"""
    landed: Tensor


class Somersault(Signal[TurnOver]):
    """Turning over so often, and then standing on the feet."""

    turns: str
    sign: int
    count: int
    has_feet: bool = True

    def slots(self) -> dict[str, int | None]:
        """Remember the turns, the most of them, and whether it has landed."""
        return {self.turns: 6, "best": None, "landed": None}

    def measure(self, step: Step) -> TurnOver:
        """Return what this step added."""
        turns = step(SoFar(self.turns, 6))
        turns = -turns if self.sign < 0 else turns
        best = torch.maximum(step.recall("best"), turns.clamp(0.0, float(self.count)))
        progress = best - step.recall("best")
        step.keep("best", best)
        upright = step(Measured("uprightness"))
        done = best > self.count - 0.1
        stands = step.measured("feet_in_contact") > 0 if self.has_feet else upright > 0
        landed = torch.maximum(step.recall("landed"), (done & (upright > 0.8) & stands).float())
        landing = landed - step.recall("landed")
        step.keep("landed", landed)
        return TurnOver(progress, done, landing, landed)


class TurnDone(Signal[Tensor]):
    """Whether a somersault is complete, or with `landed` also landed."""

    of: Somersault
    landed: bool = False

    def measure(self, step: Step) -> Tensor:
        """Return 1 when it is."""
        state = step(self.of)
        return state.landed if self.landed else state.done.float()


# ---- limbs and poles


class Rise(Signal[Tensor]):
    """How far bodies are above where they began, m, seen from the torso; the lowest of them.

    `highest`: the highest instead. `from_torso`: less the height of the torso.
    """

    symbol: ClassVar[str] = r"\Delta z"
    bodies: tuple[str, ...]
    highest: bool = False
    from_torso: bool = True

    def slots(self) -> dict[str, int | None]:
        """Remember where they began."""
        return {"began": 1 + len(self.bodies)}

    def measure(self, step: Step) -> Tensor:
        """Return the rise."""
        ends = torch.stack([step.measured("body_height", body) for body in self.bodies], -1)
        if self.from_torso:
            ends = ends - step.measured("height").unsqueeze(-1)
        rise = ends - step.first("began", ends)
        return rise.amax(-1) if self.highest else rise.amin(-1)


class KickSpeed(Signal[Tensor]):
    """Speed of a foot forward, seen from the torso, m/s, while it is free; `sign` -1: backward.

    It is free off the ground, and where there are `others` only if one of these carries the robot.
    """

    symbol: ClassVar[str] = r"[f]\, v_\text{foot}"
    body: str
    foot: int
    others: tuple[int, ...] = ()
    sign: int = 1

    def measure(self, step: Step) -> Tensor:
        """Return the speed."""
        contact = step(Contacts())
        swing = step.measured("body_velocity", self.body)[:, 0] - step.measured("forward_velocity")
        free = 1.0 - contact[:, self.foot]
        free = free * contact[:, list(self.others)].amax(-1) if self.others else free
        return free * (-swing if self.sign < 0 else swing)


class Touching(Signal[Tensor]):
    """Whether more than a force, N, acts on one of some bodies."""

    symbol: ClassVar[str] = r"[\text{touch}]"
    bodies: tuple[str, ...]
    least: float

    def measure(self, step: Step) -> Tensor:
        """Return 1 where it does."""
        forces = torch.stack([step.measured("contact_force", body) for body in self.bodies], -1)
        return (forces.amax(-1) > self.least).float()


class PoleAngle(Signal[Tensor]):
    """Angle of the pole that is farthest from upright, rad."""

    symbol: ClassVar[str] = r"\theta"

    def measure(self, step: Step) -> Tensor:
        """Return the angle."""
        return step.measured("pole_angles").abs().amax(-1)


class IsDown(Signal[Tensor]):
    """Whether the torso is below a height, or far from upright."""

    symbol: ClassVar[str] = r"[\text{down}]"
    below: float

    def measure(self, step: Step) -> Tensor:
        """Return 1 where it is."""
        low = step.measured("height") < self.below
        return (low | (step.measured("uprightness") < 0.3)).float()


class Climbed(Signal[Tensor]):
    """Share of the way up a field of so many steps that is made."""

    symbol: ClassVar[str] = "h / h^*"
    steps: float

    def measure(self, step: Step) -> Tensor:
        """Return the share."""
        rise = step.measured("ground_step").clamp_min(1e-3)
        return (step.measured("ground_height") / (self.steps * rise)).clamp(0.0, 1.0)


# ---- commands


class Missed(NamedTuple):
    """How far it is off a commanded velocity, in parts of the largest command."""

    ground: Tensor
    turn: Tensor
    swing: Tensor
    """of the turning rate, what its mean does not show"""


class CommandError(Signal[Missed]):
    """Distance from the commanded velocity; over a mean of `mean_s`, where hips sway."""

    ahead: float
    turn: float
    mean_s: float = 0.0

    def slots(self) -> dict[str, int | None]:
        """Remember the means; a robot cannot keep them, so the policy does not see them."""
        return {"strayed": 3} if self.mean_s else {}

    def measure(self, step: Step) -> Missed:
        """Return the errors."""
        info = step.info
        ahead = (step(Ahead()) - info["command_forward"]) / self.ahead
        aside = (step(Ahead(aside=True)) - info["command_sideways"]) / self.ahead
        turn = (step.measured("heading_rate") - info["command_turn"]) / self.turn
        swing = torch.zeros_like(turn)
        if self.mean_s:
            kept = math.exp(-step.dt / self.mean_s)
            now = torch.stack((ahead, aside, turn), -1)
            mean = kept * step.recall("strayed") + (1.0 - kept) * now
            step.keep("strayed", mean)
            swing = turn - mean[:, 2]
            ahead, aside, turn = mean.unbind(-1)
        return Missed((ahead.square() + aside.square() + 1e-8).sqrt(), turn.abs(), swing)


class IsCommanded(Signal[Tensor]):
    """Whether it is commanded to move, more than 0.05 of the largest commands."""

    symbol: ClassVar[str] = r"[\text{go}]"
    ahead: float
    turn: float

    def measure(self, step: Step) -> Tensor:
        """Return 1 where it is."""
        info = step.info
        ground = torch.hypot(info["command_forward"], info["command_sideways"])
        goes = (ground > 0.05 * self.ahead) | (info["command_turn"].abs() > 0.05 * self.turn)
        return goes.float()


# ---- blocks


class BlockState(NamedTuple):
    """Where a block is."""

    away: Tensor
    """from the goal, m"""
    near: Tensor
    """from the hand, m"""
    rise: Tensor
    """above where it lay, m"""
    way: Tensor
    """share of its way to the goal that is made"""


class Block(Signal[BlockState]):
    """Where the block is, seen from the goal, the hand and the place where it lay."""

    def slots(self) -> dict[str, int | None]:
        """Remember its height and distance at the start."""
        return {"began": 3}

    def measure(self, step: Step) -> BlockState:
        """Return the distances."""
        block = step.measured("body_position", "block")
        away = (block - step.measured("body_position", "target")).norm(dim=-1)
        near = (block - step.measured("body_position", "fingertip")).norm(dim=-1)
        began = step.first("began", torch.stack((block[:, 2], away), dim=-1))
        # Of the way that this episode has: how far it is by chance is not to the policy's credit.
        way = (1.0 - away / began[:, 1].clamp_min(0.02)).clamp(-1.0, 1.0)
        return BlockState(away, near, block[:, 2] - began[:, 0], way)


class OfBlock(Signal[Tensor]):
    """One number about the block: "away", "near", "rise" or "way"."""

    symbol: ClassVar[str] = "d"
    what: str

    def slots(self) -> dict[str, int | None]:
        """Remember what `Block` does."""
        return Block().slots()

    def measure(self, step: Step) -> Tensor:
        """Return the number."""
        return getattr(step(Block()), self.what)
