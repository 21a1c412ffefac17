"""Hopping: flying and landing, again and again, as high as asked for, at the times asked for.

Of "jump every 3 seconds" and "jump twice per second" counts the time from one landing to the next.
The policy sees how long it has waited.
"""

from __future__ import annotations

import math

from telic.composer.draft import Draft
from telic.composer.frames import Degree, Direction, Frame
from telic.composer.gaits import land_together
from telic.composer.manners import allow_height, judge_travel, stay_on_feet
from telic.composer.scene import Scene
from telic.composer.sizes import Goal, jump_height, origin, told
from telic.composer.travel import AHEAD, PLACE, be_fast, speed_meant

_FLIGHT_S, _RISE_M = 0.11, 0.05
"""a flight shorter or lower than this is a foot that trembles"""
_HOPS_PER_S = 1.0
_OF_JUMP = 0.6
"""a hop that shall be high, in parts of a jump that is"""
_FAST = (Degree.FAST, Degree.VERY_FAST, Degree.MOST)


def hop(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Fly and land, again and again, on the spot or on the way."""
    scene.require("air_time", "hop")
    draft.remember("air", 1)
    draft.remember("hops")
    draft.need(
        'flown = self.memory["air"][:, 0]',
        'self.memory["air"], air = quantities.air_time.update(self.memory["air"], info)',
        f"landed = ((air == 0) & (flown > {_FLIGHT_S:g})).float()",
        'self.memory["hops"] = self.memory["hops"] + landed',
        "rising = quantities.vertical_velocity(info)",
    )
    code = "landed * (flown / 0.2).clamp(0.0, 1.5)"
    meaning = "at each landing, for the time in the air before it"
    draft.add("hop", code, 5.0, meaning, r"[\text{land}]\, t_\text{air}")
    draft.add("rise", "rising.clamp(0.0, 2.0)", 0.3, "upward velocity", r"\max(v_z, 0)")
    draft.measure(
        'air = episode["air_time"]',
        'rise = episode.since(episode["height"], air == 0)',
        f"hops = episode.count((air > {_FLIGHT_S:g}) & (rise > {_RISE_M:g}), air == 0)",
    )
    title = "hops once a second"
    meaning = f"flights of over {_FLIGHT_S:g} s that rise {_RISE_M:g} m and land, per second"
    value = "float(hops[-1]) / episode.full_seconds"
    draft.total(title, meaning, value, 0.15, _HOPS_PER_S, weight=3.0, unit="1/s", tag="drags")
    title = "is in the air a fifth of the time"
    meaning = "share of the time without a foot on the ground"
    draft.leaf(title, meaning, "episode.share(air > 0)", 0.05, 0.2, weight=1.0, tag="too_low")
    if frame.dimension == "height":
        _high(frame, scene, draft)
    if frame.count:
        tolerance = 0.25 + 0.05 * frame.count
        value = "float(hops[-1])"
        draft.counted(
            "hops", "flights with a landing", value, frame, tolerance, weight=3.0, tag="drags"
        )
        draft.seconds = max(2.0, frame.count / _HOPS_PER_S)
    land_together(scene, draft)
    _where(frame, scene, draft)
    jump = jump_height(Frame(verb=frame.verb, word=frame.word, degree=Degree.MUCH), scene)
    allow_height(scene, draft, scene.stands + 2.0 * jump.value + 0.5)
    stay_on_feet(scene, draft)
    done = f"{(frame.count or max(2, round(frame.duration_s or 2.0))) - 0.5:g}"
    draft.ends_when(f'self.memory["hops"] > {done}', f"hops > {done}")


def _high(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Hop as high as asked for."""
    goal = jump_height(frame, scene)
    if goal.source != "as said":
        part = f"{_OF_JUMP:.0%} of a jump: {goal.source}"
        goal = goal._replace(value=_OF_JUMP * goal.value, source=part)
        draft.doubt(told(f'"{frame.word}"', goal, "m above standing"))
    target = goal.value
    draft.need(scene.leap())
    most = "" if goal.is_open else ", 1.5"
    code = f"(leap / {target:.4g}).clamp(0.0{most})"
    meaning = f"height above standing, in parts of {target:.2g} m"
    draft.add("height", code, 1.0, meaning, r"\max(h, 0) / h^*")
    draft.measure(scene.leap(judged=True))
    draft.total(
        f"hops {target:.2g} m high",
        "highest point of the torso above standing, in flight",
        "float(np.max(np.where(air > 0, leap, 0.0)))",
        0.15 * target,
        target,
        weight=3.0,
        unit="m",
        tag="too_low",
        **origin(goal),
    )


def _where(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Hop to somewhere, or on the spot."""
    scene.require("forward_velocity", "hop")
    if frame.direction is Direction.IN_PLACE:
        draft.need("away = quantities.horizontal_speed(info)")
        draft.add("stay", "torch.exp(-3.0 * away)", 0.5, "not going anywhere", r"e^{-3 v}")
        title = "stays on the spot"
        meaning = "farthest way from the start along x"
        value = 'float(np.max(np.abs(episode["displacement"])))'
        draft.leaf(title, meaning, value, 1.5, 0.5, weight=1.0, unit="m", tag="drifts")
    elif frame.direction in AHEAD or (frame.dimension != "height" and frame.degree in _FAST):
        direction = frame.direction if frame.direction in AHEAD else Direction.FORWARD
        assert direction is not None
        is_aside = direction in (Direction.LEFT, Direction.RIGHT)
        quantity = "lateral_velocity" if is_aside else "forward_velocity"
        scene.require(quantity, f"hop {direction.value}")
        sign = "-" if direction in (Direction.BACKWARD, Direction.RIGHT) else ""
        goal = speed_meant(frame, scene, draft)
        draft.need(f"along = {sign}{scene.velocity(quantity)}")
        judge_travel(draft, f'{sign}episode["{PLACE[quantity]}"]')
        be_fast(draft, direction.value, goal)


_LONGEST_S = 30.0
_BEATS = 4
_FLIGHT = 0.7
"""share of the time between two jumps that may be spent in the air"""
_DUE = 0.6
"""share of that time to wait before another jump pays"""
_LATE = 0.25
"""share of that time by which a jump may be early or late"""


def beats(period_s: float) -> int:
    """Return how often it is to be done while it is judged."""
    return max(min(_BEATS, math.floor(_LONGEST_S / period_s - 0.5)), 1)


def jump_in_time(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Jump once in so many seconds, again and again."""
    period = frame.period_s or 1.0
    count = beats(period)
    if count < 2:
        why = f"an episode lasts {_LONGEST_S:g} s at most, which is less than two of these"
        raise scene.cannot(f"jump every {period:g} s", why)
    goal = _height(frame, scene, period)
    if goal.source != "as said":
        draft.doubt(told(f'"{frame.word}"', goal, "m above standing"))
    _teach(goal, period, count, scene, draft)
    _judge(goal, period, count, scene, draft)
    allow_height(scene, draft, scene.stands + 2.0 * goal.value + 0.5)
    stay_on_feet(scene, draft)
    draft.seconds = (count + 0.5) * period


def _height(frame: Frame, scene: Scene, period: float) -> Goal:
    """Return how high to jump: no higher than there is time for, h = g (t / 2)^2 / 2."""
    goal = jump_height(frame, scene)
    most = scene.gravity * (0.5 * _FLIGHT * period) ** 2 / 2.0
    if goal.source == "as said" or goal.value <= most:
        return goal
    return goal._replace(value=most, source=f"what there is time for in {period:g} s")


def _teach(goal: Goal, period: float, count: int, scene: Scene, draft: Draft) -> None:
    target = goal.value
    draft.remember("is_up")
    draft.remember("waited")
    draft.remember("jumps")
    draft.is_seen = True
    draft.need(
        scene.leap(),
        "rising = quantities.vertical_velocity(info)",
        f'up = torch.maximum(self.memory["is_up"], (leap > {0.8 * target:.4g}).float())',
        f"down = up * (leap < {0.3 * target:.4g}).float()",
        'self.memory["is_up"] = up - down',
        'self.memory["jumps"] = self.memory["jumps"] + down',
        f'waited = self.memory["waited"] + {scene.spec.dt_s or 1.0:g}',
        f"due = torch.maximum(up, (waited > {_DUE * period:.4g}).float())",
        'self.memory["waited"] = waited * (1.0 - down)',
    )
    code = f"due * (leap / {target:.4g}).clamp(0.0, 2.0)"
    meaning = f"height above standing when a jump is due, in parts of {target:.2g} m"
    draft.add("height", code, 1.0, meaning, r"\max(h, 0) / h^*")
    meaning = "upward velocity when a jump is due"
    draft.add("rise", "due * rising.clamp(0.0, 3.0)", 0.3, meaning, r"\max(v_z, 0)")
    code = f"5.0 * down * torch.exp(-((waited - {period:.4g}) / {_LATE * period:.4g}) ** 2)"
    draft.add("land", code, 1.0, "once per jump: down again in time", r"[\text{land}]")
    if scene.has("speed"):
        code = "(1.0 - due) * torch.exp(-quantities.speed(info))"
        draft.add("rest", code, 0.5, "at rest between the jumps", r"[\text{wait}] e^{-v}")
    done = f"{count - 0.5:g}"
    draft.ends_when(f'self.memory["jumps"] > {done}', f"jumps > {done}")


def _judge(goal: Goal, period: float, count: int, scene: Scene, draft: Draft) -> None:
    target = goal.value
    draft.measure(
        scene.leap(judged=True),
        f"jumps = episode.count(leap > {0.8 * target:.4g}, leap < {0.3 * target:.4g})",
        "landed = np.flatnonzero(np.diff(jumps, prepend=0.0) > 0) * episode.dt",
        f"in_time = np.abs(np.diff(landed) - {period:.4g}) < {_LATE * period:.4g}",
    )
    title, meaning = f"gets {target:.2g} m above standing", "highest point of the torso"
    value = "float(np.max(leap))"
    draft.total(
        title, meaning, value, 0.15 * target, target, unit="m", tag="too_low", **origin(goal)
    )
    title = f"jumps every {period:g} s"
    meaning = f"jumps {period:g} s after the one before, of the {count - 1} there is time for"
    value = f"float(in_time.sum()) / {count - 1}"
    draft.total(title, meaning, value, 0.2, 1.0, weight=4.0, tag="too_slow")
    if scene.has("air_time"):
        meaning = "longest time without a foot on the ground"
        value = 'float(np.max(episode["air_time"]))'
        least = min(0.15, 0.5 * _FLIGHT * period)
        draft.total("leaves the ground", meaning, value, 0.03, least, unit="s", tag="too_low")
