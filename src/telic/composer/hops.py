"""Hopping: flying and landing, again and again, on the spot or on the way, as high as asked for."""

from __future__ import annotations

from telic.composer.draft import Draft
from telic.composer.frames import Degree, Direction, Frame
from telic.composer.gaits import land_together
from telic.composer.manners import allow_height, judge_travel, stay_on_feet
from telic.composer.scene import Scene
from telic.composer.sizes import jump_height, origin, told
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
