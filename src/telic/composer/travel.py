"""Going somewhere: at a speed, for a distance, on the spot, in a circle."""

from __future__ import annotations

import math

from telic.composer.draft import Credit, Draft
from telic.composer.extremes import LONGEST_S
from telic.composer.footing import go_in_steps
from telic.composer.frames import Degree, Direction, Frame
from telic.composer.gaits import ON_GROUND, gait_meant, step_in
from telic.composer.grounds import lay_ground, require_ground
from telic.composer.manners import (
    follow_heading,
    judge_travel,
    stay_on_feet,
    stay_straight,
)
from telic.composer.scene import Scene
from telic.composer.sizes import BELOW, FROUDE, Goal, origin, practice, speed, told

AHEAD = (Direction.FORWARD, Direction.BACKWARD, Direction.LEFT, Direction.RIGHT)

_ALONG = {
    Direction.FORWARD: ("forward_velocity", ""),
    Direction.BACKWARD: ("forward_velocity", "-"),
    Direction.LEFT: ("lateral_velocity", ""),
    Direction.RIGHT: ("lateral_velocity", "-"),
    Direction.SIDEWAYS: ("lateral_velocity", ""),
}
_ON_RAIL = {Direction.RIGHT: Direction.FORWARD, Direction.LEFT: Direction.BACKWARD}
PLACE = {"forward_velocity": "x_position", "lateral_velocity": "y_position"}
_RAIL_M = 0.5
_BEYOND = 1.1
"""where to aim at who must get so far at least, in parts of that"""
_MOST, _WALKED = 1.5, 1.15
"""times the goal up to which speed is paid for: a walk that is faster is none"""
_CIRCLE_RPS = 0.8
_WIDER = {Degree.LITTLE: 0.5, Degree.MUCH: 2.0, Degree.MOST: 2.0}
_OFF, _FAR_OFF = 0.2, 0.45
"""shares of a speed that was said as a number, by which it may be missed, and by which it is"""
_SEQUEL_S = 2.0
"""how long to go before what comes next, where it was not said"""
SETTLED = 0.85
"""share of the time asked for that must be at speed: getting there takes some of it"""
_GRIP, _GRIP_THERE = 0.1, 0.2
_WANDERED = 'float(np.max(np.abs(episode["displacement"])))'


def go(frame: Frame, scene: Scene, draft: Draft, aside: Frame | None = None) -> None:
    """Travel in a direction at a speed; with `aside`, between two directions."""
    require_ground(frame, scene)
    if frame.direction is Direction.IN_PLACE:
        step_in_place(frame, scene, draft)
        return
    direction = _direction(frame, scene)
    quantity, sign = _ALONG[direction]
    scene.require(quantity, f"go {direction.value}")
    amount = frame.amount
    gait = gait_meant(frame, scene)
    if scene.on_rail or (amount and amount.unit == "m" and frame.dimension != "height"):
        travel(frame, scene, draft, direction)
        return
    if frame.count and frame.gait == "step":
        draft.doubt(f'the steps of "{frame.word}" are not counted')
    goal = speed_meant(frame, scene, draft)
    target = goal.value
    reward, judge = f"{sign}{scene.velocity(quantity)}", f'{sign}episode["{PLACE[quantity]}"]'
    name = direction.value
    if aside is not None:
        second = _direction(aside, scene)
        other, other_sign = _ALONG[second]
        scene.require(other, f"go {second.value}")
        reward = f"0.7071 * ({reward} + {other_sign}{scene.velocity(other)})"
        judge = f'0.7071 * ({judge} + {other_sign}episode["{PLACE[other]}"])'
        name = f"{name} and {second.value}"
    draft.need(f"along = {reward}")
    judge_travel(draft, judge)
    be_fast(draft, name, goal, most=_WALKED if gait and gait.name in ON_GROUND else _MOST)
    meaning = f"share of the time faster than {0.3 * target:.2g} m/s, over half seconds"
    value = f"episode.share(along > {0.3 * target:.4g})"
    draft.leaf("keeps going", meaning, value, 0.3, 0.75, tag="stops")
    if aside is None:
        stay_straight(scene, draft, quantity)
    lay_ground(frame, scene, draft, target)
    if gait is not None and frame.gait is not None:
        step_in(gait, frame, scene, draft)
        go_in_steps(frame.gait, scene, draft, _GRIP)
    elif frame.gait in FROUDE and not scene.spec.feet:
        draft.doubt(f'it has no feet: of "{frame.word}" only the speed can be judged')
    stay_on_feet(scene, draft)
    within = f" & (along < {1.4 * target:.4g})" if goal.is_exact else ""
    held = f"(along > {0.7 * target:.4g}){within}"
    draft.ends_when(held, held, SETTLED * (frame.duration_s or _SEQUEL_S))
    if frame.duration_s:
        draft.seconds = max(frame.duration_s + 1.0, 2.0)


def _direction(frame: Frame, scene: Scene) -> Direction:
    direction = frame.direction or Direction.FORWARD
    if scene.on_rail:
        direction = _ON_RAIL.get(direction, direction)
    return direction if direction in _ALONG else Direction.FORWARD


def be_fast(draft: Draft, name: str, goal: Goal, most: float = _MOST) -> None:
    """Add the term and the leaf of a speed `along`; `most`: times the goal that is paid for."""
    target = goal.value
    title, words = f"moves {name} at {target:.2g} m/s", f"way made {name} in the full time"
    if goal.is_exact:
        code = (
            f"torch.exp(-((along - {target:.4g}) / {0.5 * target:.4g}) ** 2)"
            f" + 0.3 * (along / {target:.4g}).clamp(-1.0, 1.0)"
        )
        meaning = f"speed {name}, best at {target:.2g} m/s"
        draft.add("speed", code, 1.0, meaning, r"e^{-((v - v^*)/w)^2}")
        draft.near(
            title,
            words,
            "travelled",
            target,
            0.25 * target,
            weight=3.0,
            unit="m/s",
            tag="wrong_speed",
            **origin(goal),
        )
        if goal.is_said:
            _keep_to_number(draft, goal)
        return
    code, latex = f"(along / {target:.4g}).clamp(-1.0, {most:g})", rf"\min(v / v^*, {most:g})"
    if goal.is_open:
        code, latex = f"(along / {target:.4g}).clamp(-1.0)", "v / v^*"
    meaning = f"speed {name}, in parts of {target:.2g} m/s"
    draft.add("speed", code, 1.0, meaning, latex)
    draft.leaf(
        title,
        words,
        "travelled",
        0.1 * target,
        target,
        weight=3.0,
        unit="m/s",
        tag="too_slow",
        **origin(goal),
    )
    if goal.is_said:
        _keep_to_number(draft, goal)


def _keep_to_number(draft: Draft, goal: Goal) -> None:
    """Guard a speed that was said as a number: what is far from it does not pass by its gait."""
    meaning = "speed over the full time, off what was said, as a share of it"
    value, tag = f"abs(travelled / {goal.value:.4g} - 1.0)", "wrong_speed"
    if not goal.is_exact:
        meaning = "speed over the full time, short of what was said, as a share of it"
        value, tag = f"max(1.0 - travelled / {goal.value:.4g}, 0.0)", "too_slow"
    # Below a number that must not be exceeded there is room up to that number.
    is_below = goal.source.startswith("below")
    off, far_off = (1.0 / BELOW - 1.0, 0.6) if is_below else (_OFF, _FAR_OFF)
    draft.guard("is about as fast as said", meaning, value, far_off, off, tag=tag)


def speed_meant(frame: Frame, scene: Scene, draft: Draft) -> Goal:
    """Return the speed that is meant; say so before training, and practise long enough for it."""
    goal = speed(frame, scene)
    if goal.source != "as said":
        draft.doubt(told(f'"{frame.word}"', goal))
    draft.practice = max(draft.practice, practice(scene, goal.value))
    known = scene.known.get("top_speed")
    if known is not None and goal.value > known:
        draft.doubt(
            f"plain training of this robot for two to four minutes reached {known:g} m/s: "
            f"{goal.value:.2g} m/s may need more steps, or a GPU"
        )
    return goal


def travel(frame: Frame, scene: Scene, draft: Draft, direction: Direction) -> None:
    """Go a distance, and stay there."""
    quantity, sign = _ALONG[direction]
    place = PLACE[quantity]
    amount = frame.amount
    is_said = amount is not None and amount.unit == "m" and amount.value > 0.0
    target = amount.value if amount and is_said else _RAIL_M
    if amount and is_said and amount.rule == "at_most":
        target *= BELOW
        draft.doubt(f'"{frame.word}": about {target:.2g} m, below the {amount.value:g} m said')
    is_least = amount is not None and is_said and amount.rule == "at_least"
    aim = target * (_BEYOND if is_least else 1.0)
    if not is_said:
        draft.doubt(f'"{frame.word}" is taken as {target:g} m along the rail')
    draft.remember("start", 2)
    draft.need(
        f"place = {sign}quantities.{place}(info)",
        'start = torch.where(self.memory["start"][:, 0] > 0, self.memory["start"][:, 1], place)',
        'self.memory["start"] = torch.stack((torch.ones_like(place), start), -1)',
        "made = place - start",
    )
    width = max(0.2 * target, 0.1)
    code = (
        f"1.0 - ((made - {aim:.4g}).abs() / {aim:.4g}).clamp(max=2.0)"
        f" + torch.exp(-((made - {aim:.4g}) / {width:.4g}) ** 2)"
    )
    meaning = f"close to {aim:.2g} m {direction.value}"
    draft.add("way", code, 1.0, meaning, r"1 - |d - d^*| / d^*")
    draft.measure(f'place = {sign}episode["{place}"]', "made = place - place[0]")
    where, value = f"{target:.3g} m {direction.value}", "float(made[-1])"
    meaning = "way made from the start to the end"
    credit = Credit(weight=3.0, unit="m", kind="cumulative", tag="too_far")
    if is_least:
        draft.leaf(f"ends at least {where}", meaning, value, 0.5 * target, target, **credit)
    else:
        close = min(max(0.12 * target, 0.05), target / 4)
        draft.near(f"ends {where}", meaning, value, target, close, **credit)
    meaning, value = "farthest way from the start", "float(np.max(made))"
    credit = Credit(weight=1.5, unit="m", tag="too_slow")
    draft.total(f"gets {where}", meaning, value, 0.1 * target, 0.9 * target, **credit)
    meaning = "mean speed over the last second"
    value = 'float(np.mean(episode["speed"][-max(1, int(1.0 / episode.dt)):]))'
    draft.leaf("stops there", meaning, value, 0.8, 0.3, weight=1.5, unit="m/s", tag="drifts")
    # Who is still under way when time is up has arrived by chance.
    meaning = f"way made in the last fifth of the time, in parts of {target:.3g} m"
    value = f"float(abs(made[-1] - made[int(0.8 * len(made))])) / {target:.4g}"
    draft.guard("has arrived by then", meaning, value, 0.18, 0.1, tag="drifts")
    stay_straight(scene, draft, quantity)
    if frame.gait in FROUDE:
        go_in_steps(frame.gait, scene, draft, _GRIP_THERE)
    stay_on_feet(scene, draft)
    there = f"made > {0.88 * target:.4g}"
    draft.ends_when(there, there)
    usual = speed(frame.model_copy(update={"amount": None}), scene).value
    draft.seconds = min(max(1.5 * target / usual + 2.0, 4.0), LONGEST_S)


def step_in_place(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Walk on the spot: one foot after the other, without going anywhere."""
    scene.require("stride_alternation", f"{frame.gait or 'go'} in place")
    draft.remember("steps", 5)
    draft.need(
        'landings = self.memory["steps"][:, 3]',
        'self.memory["steps"], alternation = quantities.stride_alternation.update('
        'self.memory["steps"], info)',
        'landed = self.memory["steps"][:, 3] - landings',
        "away = quantities.horizontal_speed(info)",
    )
    draft.add("step", "landed.clamp(0.0, 1.0) * alternation", 3.0, "a foot comes down", r"[s]")
    draft.add("stay", "torch.exp(-4.0 * away)", 0.7, "not going anywhere", r"e^{-4 v}")
    draft.measure(
        'touches = episode["foot_contact"] > 0',
        "landings = float(np.sum(touches[1:] & ~touches[:-1]))",
    )
    title = "puts its feet down twice a second"
    meaning = "touchdowns per second"
    value = "landings / episode.full_seconds"
    draft.total(title, meaning, value, 0.3, 2.0, weight=2.0, unit="1/s", tag="drags")
    meaning = "stride_alternation at the end"
    value = 'float(episode["stride_alternation"][-1])'
    draft.leaf("one foot after the other", meaning, value, 0.3, 0.8, weight=1.5, tag="one_sided")
    meaning = "farthest distance from the start"
    draft.guard("stays on the spot", meaning, _WANDERED, 2.0, 0.7, unit="m", tag="drifts")
    stay_on_feet(scene, draft)
    draft.ends_when("landed > 0", "touches.any(-1)", frame.duration_s or _SEQUEL_S)


def circle(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Go round in a circle: forward along the heading while the heading turns."""
    scene.require("heading_velocity", "go in a circle")
    target = speed_meant(frame, scene, draft).value
    is_right = frame.direction in (Direction.RIGHT, Direction.CLOCKWISE)
    sign, which = ("-", "right") if is_right else ("", "left")
    amount = frame.amount
    radius = target / _CIRCLE_RPS
    if frame.dimension == "distance":
        radius *= _WIDER.get(frame.degree or Degree.MODERATE, 1.0)
        radius = amount.value if amount and amount.unit == "m" else radius
    rate = target / radius
    laps = float(frame.count or 1)
    draft.seconds = min(1.3 * laps * 2.0 * math.pi / rate + 1.0, LONGEST_S)
    draft.doubt(f"the circle is taken as one with a radius of {radius:.2g} m, to the {which}")
    draft.need(scene.ahead())
    follow_heading(scene, draft, sign)
    code = f"(ahead / {target:.4g}).clamp(-1.0, 1.2)"
    meaning = f"speed where it faces, in parts of {target:.2g} m/s"
    draft.add("speed", code, 1.0, meaning, r"\min(v / v^*, 1.2)")
    code = (
        f"torch.exp(-((turning - {rate:.4g}) / {0.6 * rate:.4g}) ** 2)"
        f" + 0.3 * (turning / {rate:.4g}).clamp(-1.0, 1.0)"
    )
    meaning = f"turning {which} at {rate:.2g} rad/s"
    draft.add("turn", code, 1.0, meaning, r"e^{-((\omega - \omega^*)/w)^2}")
    _judge_circle(draft, sign, which, radius, rate, laps)
    stay_on_feet(scene, draft)
    draft.ends_when(f"{sign}turns > {0.9 * laps:.3g}", f"turned > {0.9 * laps:.3g}")


def _judge_circle(
    draft: Draft, sign: str, which: str, radius: float, rate: float, laps: float
) -> None:
    draft.measure(
        'x, y = episode["x_position"], episode["y_position"]',
        f'turned = {sign}episode["heading_turns"]',
        "out = np.hypot(x - x.mean(), y - y.mean())",
        f"angle = {sign}np.unwrap(np.arctan2(y - y.mean(), x - x.mean()))",
        "wound = (angle - angle[0]) / (2.0 * np.pi)",
    )
    times = "once" if laps == 1 else f"{laps:g} times"
    title = f"goes round {times} to the {which}"
    meaning = "turns of the path about its own middle"
    value = "float(wound[-1])"
    draft.total(
        title, meaning, value, 0.2 * laps, 0.9 * laps, weight=2.0, unit="turns", tag="under_rotates"
    )
    draft.total(
        "faces where it goes",
        "turns of the heading",
        "float(turned[-1])",
        0.2 * laps,
        0.85 * laps,
        weight=1.0,
        unit="turns",
        tag="under_rotates",
    )
    way = 2.0 * math.pi * radius * laps
    title = f"goes {way:.2g} m"
    meaning = "length of the path"
    value = 'float(episode["distance_travelled"][-1])'
    draft.total(title, meaning, value, 0.2 * way, 0.75 * way, weight=1.5, unit="m", tag="too_slow")
    draft.near(
        f"keeps {radius:.2g} m from the middle",
        "mean distance from the middle of the path",
        "float(np.mean(out))",
        radius,
        min(0.35 * radius, radius / 4),
        weight=1.0,
        unit="m",
        tag="drifts",
    )
    title = "really goes round"
    meaning = "turns of the path about its own middle"
    value = "float(wound[-1])"
    draft.guard(title, meaning, value, 0.1 * laps, 0.5 * laps, unit="turns", tag="never_moves")
    # Whoever walks there and back passes the middle of the path twice, too.
    slow = 0.2 * rate / (2.0 * math.pi)
    meaning = "share of the time in which the path winds on, over half seconds"
    value = f"episode.share(episode.pace(wound) > {slow:.4g})"
    draft.guard("goes round steadily", meaning, value, 0.3, 0.65, tag="stops")
