"""Leaving the ground: jumps high, far or counted, and hopping on and on."""

from __future__ import annotations

from telic.composer.draft import Draft
from telic.composer.frames import Degree, Direction, Frame
from telic.composer.manners import (
    allow_height,
    do_it_on_purpose,
    judge_travel,
    rest_after,
    stay_on_feet,
)
from telic.composer.scene import GENTLE, Scene
from telic.composer.travel import PLACE, be_fast, speed_meant

_FLIGHT_S, _RISE_M = 0.11, 0.05
"""a flight shorter or lower than this is a foot that trembles"""
_HOPS_PER_S = 1.0
_AHEAD = (Direction.FORWARD, Direction.BACKWARD, Direction.LEFT, Direction.RIGHT)


def jump(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Get the torso high above its standing height, so often or so far as asked for."""
    scene.require("height", "jump")
    amount = frame.amount
    is_far = frame.dimension == "distance" or frame.direction in _AHEAD
    is_high = amount is not None and amount.unit == "m" and frame.dimension != "distance"
    target = amount.value if amount and is_high else float(scene.known["jump"])
    if frame.degree in GENTLE:
        target *= 0.5
    if is_far and not is_high:
        target *= 0.7  # a leap forward need not be as high
    _rise(scene, draft, target, frame.count)
    if is_far:
        _leap(frame, scene, draft)
    allow_height(scene, draft, scene.stands + 2.0 * target + 0.5)
    stay_on_feet(scene, draft)
    draft.seconds = 5.0 if frame.count is None else max(3.0, 1.5 * frame.count + 1.5)


def _rise(scene: Scene, draft: Draft, target: float, count: int | None) -> None:
    """Reward and judge getting up, and coming down again if jumps are counted."""
    low = 0.3 * target
    draft.remember("is_up")
    draft.remember("jumps")
    draft.need(
        scene.leap(),
        "rising = quantities.vertical_velocity(info)",
        f'up = torch.maximum(self.memory["is_up"], (leap > {0.8 * target:.4g}).float())',
        f"down = up * (leap < {low:.4g}).float()",
        'self.memory["is_up"] = up - down',
        'self.memory["jumps"] = self.memory["jumps"] + down',
    )
    left = "1.0"
    if count is not None:
        draft.need(f'over = (self.memory["jumps"] > {count - 0.5:g}).float()')
        left = "(1.0 - over)"
        rest_after(scene, draft, "over")
        draft.add(
            "land", f"5.0 * down * {left}", 1.0, "once per jump: down again", r"[\text{land}]"
        )
    code = f"{left} * (leap / {target:.4g}).clamp(0.0, 2.0)"
    meaning = f"height above standing, in parts of {target:.2g} m"
    draft.add("height", code, 1.0, meaning, r"\max(h, 0) / h^*")
    draft.add("rise", f"{left} * rising.clamp(0.0, 3.0)", 0.3, "upward velocity", r"\max(v_z, 0)")
    draft.measure(
        scene.leap(judged=True),
        f"jumps = episode.count(leap > {0.8 * target:.4g}, leap < {low:.4g})",
    )
    title = f"gets {target:.2g} m above standing"
    meaning = "highest point of the torso"
    value = "float(np.max(leap))"
    draft.total(title, meaning, value, 0.15 * target, target, weight=3.0, unit="m", tag="too_low")
    if scene.has("air_time"):
        title = "leaves the ground"
        meaning = "longest time without a foot on the ground"
        value = 'float(np.max(episode["air_time"]))'
        draft.total(title, meaning, value, 0.03, 0.15, weight=1.0, unit="s", tag="too_low")
    if count is not None:
        title = f"jumps {count} times"
        meaning = f"times it rose {0.8 * target:.2g} m and came down again"
        value = "float(jumps[-1])"
        draft.near(
            title, meaning, value, float(count), 0.25, weight=3.0, kind="cumulative", tag="too_low"
        )
    done = f"{(count or 1) - 0.5:g}"
    draft.ends_when(f'self.memory["jumps"] > {done}', f"jumps > {done}")


def _leap(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Cover ground in the air."""
    is_aside = frame.direction in (Direction.LEFT, Direction.RIGHT)
    is_back = frame.direction in (Direction.BACKWARD, Direction.RIGHT)
    axis, quantity = ("y", "lateral_velocity") if is_aside else ("x", "forward_velocity")
    scene.require(quantity, f"jump to the {frame.direction}" if is_aside else "jump forward")
    scene.require("air_time", "jump a distance")
    sign = "-" if is_back else ""
    way = (frame.direction or Direction.FORWARD).value
    amount = frame.amount
    is_said = amount is not None and amount.unit == "m" and frame.dimension == "distance"
    target = amount.value if amount and is_said else 0.5 * float(scene.known["top_speed"])
    if not is_said:
        draft.doubt(f'"{frame.word}" {way} is taken as {target:.2g} m in the air')
    draft.need(
        f"along = {sign}{scene.velocity(quantity)}",
        "airborne = (quantities.feet_in_contact(info) == 0).float()",
    )
    code = f"airborne * (along / {max(target / 0.4, 0.2):.4g}).clamp(-1.0, 2.0)"
    draft.add("leap", code, 1.0, f"speed {way} in the air", r"[\text{air}] v")
    draft.measure(
        f'place = {sign}episode["{axis}_position"]',
        'flight = episode.since(place, episode["feet_in_contact"] > 0)',
    )
    title = f"leaps {target:.2g} m {way}"
    meaning = "longest way made in one flight"
    value = "float(np.max(flight))"
    draft.total(
        title, meaning, value, 0.1 * target, 0.9 * target, weight=3.0, unit="m", tag="too_slow"
    )
    do_it_on_purpose(scene, draft)


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
    if frame.count:
        draft.near(
            f"hops {frame.count} times",
            "flights with a landing",
            "float(hops[-1])",
            float(frame.count),
            0.25 + 0.05 * frame.count,
            weight=3.0,
            kind="cumulative",
            tag="drags",
        )
        draft.seconds = max(2.0, frame.count / _HOPS_PER_S)
    _where(frame, scene, draft)
    allow_height(scene, draft, scene.stands + 2.0 * float(scene.known["jump"]) + 0.5)
    stay_on_feet(scene, draft)
    done = f"{(frame.count or max(2, round(frame.duration_s or 2.0))) - 0.5:g}"
    draft.ends_when(f'self.memory["hops"] > {done}', f"hops > {done}")


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
    elif frame.direction in _AHEAD or frame.degree in (Degree.FAST, Degree.VERY_FAST, Degree.MOST):
        direction = frame.direction if frame.direction in _AHEAD else Direction.FORWARD
        assert direction is not None
        is_aside = direction in (Direction.LEFT, Direction.RIGHT)
        quantity = "lateral_velocity" if is_aside else "forward_velocity"
        scene.require(quantity, f"hop {direction.value}")
        sign = "-" if direction in (Direction.BACKWARD, Direction.RIGHT) else ""
        target, is_exact = speed_meant(frame, scene, draft)
        draft.need(f"along = {sign}{scene.velocity(quantity)}")
        judge_travel(draft, f'{sign}episode["{PLACE[quantity]}"]')
        be_fast(draft, direction.value, target, is_exact)
