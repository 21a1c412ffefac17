"""Gaits, steps and ground: what the feet do, as terms of a reward and criteria of a judge.

| gait | feet |
|---|---|
| walk | on the ground over half of the time, one always is; each lands at a time of its own |
| run, jog, sprint | there is a flight in every stride; two feet alternate |
| trot, pace, bound | diagonal, same-side, or front and hind feet in pairs, half a stride apart |
| gallop | left and right land shortly one after the other, with a flight |
| pronk | all feet together, with a flight |
| skip | each of two feet lands twice in a row, with a flight |
| crawl | three feet on the ground, torso low; of two feet, one always |

A gait with a pattern is taught by a clock: the reward keeps a beat that the policy sees, and pays
feet for being on the ground, or off it, when the pattern says so.

Optimizers discover that vibrating feet carry a body along, and that a pose which glides is as fast
as a gait. Two things tell a step from both on any robot: a foot that carries weight stays where it
is while the body passes over it, and a step is a fair part of the length of a leg.

Ground that is not flat is laid by the environment in fields from easy to hard; fresh fields are
judged. A robot that climbs starts at the foot of a field with the way up ahead, so that walking on
beside it, turning round and falling off gain no height.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

from telic.composer.draft import Draft
from telic.composer.frames import Direction, Frame
from telic.composer.scene import Scene
from telic.judges import metrics, tracks
from telic.judges.tracks import Measure
from telic.rewards.signals import Airborne, Beat, Climbed, Measured, Not, Slip
from telic.rewards.terms import Cost, Pay, Rhythm, SquareCost, When
from telic.robots.terrain import (
    STAIRS_M,
    TO_TOP_M,
    TerrainKind,
    hardest_step,
    steepest,
    steps_of,
)

FLYING = ("run", "jog", "sprint")
_FOUR = ("trot", "pace", "bound")
_CORNERS = ("front left", "front right", "hind left", "hind right")
_PATTERNS: dict[str, tuple[float, float, float, float]] = {
    "walk": (0.25, 0.75, 0.0, 0.5),
    "march": (0.25, 0.75, 0.0, 0.5),
    "crawl": (0.25, 0.75, 0.0, 0.5),
    "trot": (0.0, 0.5, 0.5, 0.0),
    "pace": (0.0, 0.5, 0.0, 0.5),
    "bound": (0.0, 0.0, 0.5, 0.5),
    "gallop": (0.5, 0.65, 0.0, 0.15),
    "pronk": (0.0, 0.0, 0.0, 0.0),
    **dict.fromkeys(FLYING, (0.0, 0.5, 0.5, 0.0)),
}
"""when each corner's foot lands in a stride, in the order of _CORNERS"""
_DUTY = {
    **{"walk": 0.62, "march": 0.62, "crawl": 0.85, "trot": 0.52, "pace": 0.52},
    **{"skip": 0.15, "gallop": 0.26},
}
_FLYING_DUTY = 0.36
_HERTZ = {"crawl": 0.22, "walk": 0.3, "march": 0.3, "trot": 0.4, "pace": 0.4, "skip": 0.35}
"""strides a second, in parts of sqrt(g / L): legs are pendulums"""
_FLYING_HERTZ = 0.45
_SWING_LEGS = 0.1
"""how far a foot swings above the others, in lengths of the leg"""
_BOB = 0.14
"""of sqrt(g L), how fast the body of a walker goes up and down"""
ANY_GAIT = (None, "walk", "run", "jog", "step", "march")
"""words that leave open which gait it is"""
STEPPING = -1.3
"""log standard deviation of the first actions: it stands from the first step on, and tries"""
_GENTLE = -2.5
"""log standard deviation of the first actions of a robot whose drives outweigh its body"""
_COUNT = {1: "one", 2: "two", 3: "three"}
_LONGER = 2.0
"""times as long as going at all that such a robot practises to walk"""
ON_GROUND = ("walk", "march", "crawl")
_NEVER_FLYING = (*ON_GROUND, "trot", "pace")
_PAIRED = {"trot": "diagonal", "pace": "same-side", "bound": "left and right"}
_SLOW = 0.03
"""speed from which it is going, in parts of sqrt(g L)"""
_HARDEST: dict[TerrainKind, float] = {"stairs": 0.6, "slopes": 0.6, "rough": 0.7}
"""how hard the hardest fields are where the words do not say it"""
_CLIMBING = 3.0
"""times as long as going on flat ground that it practises"""
_ENOUGH, _LITTLE = 0.75, 0.1
"""of the way up or down: what earns everything, and nothing"""
_ONTO_TOP_M = 0.4
_CLIMB_S = (3.0, 16.0)


class Gait(NamedTuple):
    """A way of going, told by its feet."""

    name: str
    landings: tuple[tuple[float, ...], ...]
    """for each foot, when it lands in a stride"""
    duty: float
    hertz: float


def gait_meant(frame: Frame, scene: Scene) -> Gait | None:
    """Return the gait that is asked for, over ground that is not flat at least one; None: any.

    Raises:
        BadEnvironment: the robot has not the feet for it.
    """
    feet = len(scene.spec.feet)
    over = "trot" if feet == 4 else "walk" if feet > 1 else ""
    name = frame.gait or (over if frame.ground else "")
    if name not in _PATTERNS and name != "skip":
        return None
    if not feet or not scene.spec.robot or not scene.spec.robot.legs or scene.leg is None:
        if name in (*_FOUR, "gallop", "pronk", "skip"):
            raise scene.cannot(name, "it has no feet")
        return None
    corners = corners_of(frame.direction, scene)
    landings = _landings(name, corners, scene)
    duty = _DUTY.get(name, _FLYING_DUTY)
    hertz = _HERTZ.get(name, _FLYING_HERTZ) * math.sqrt(scene.gravity / scene.leg)
    return Gait(name, landings, duty, hertz)


def corners_of(direction: Direction | None, scene: Scene) -> dict[str, int] | None:
    """Return the foot at each corner as seen in the direction of travel; None: it has not four."""
    robot = scene.spec.robot
    if robot is None or len(robot.feet) != 4 or len(robot.legs) != 4:
        return None
    x, y = {
        Direction.BACKWARD: (-1.0, 0.0),
        Direction.LEFT: (0.0, 1.0),
        Direction.SIDEWAYS: (0.0, 1.0),
        Direction.RIGHT: (0.0, -1.0),
    }.get(direction or Direction.FORWARD, (1.0, 0.0))
    ahead = [leg.place[0] * x + leg.place[1] * y for leg in robot.legs]
    aside = [leg.place[1] * x - leg.place[0] * y for leg in robot.legs]
    found: dict[str, int] = {}
    for foot in range(4):
        where = "front" if ahead[foot] > sum(ahead) / 4.0 else "hind"
        side = "left" if aside[foot] > sum(aside) / 4.0 else "right"
        found[f"{where} {side}"] = foot
    return found if len(found) == 4 else None


def _is_fore_and_aft(scene: Scene) -> bool:
    """Say whether its two feet are one before the other, as in a plane."""
    robot = scene.spec.robot
    return robot is not None and robot.side_names == ("back", "front")


def _landings(
    name: str, corners: dict[str, int] | None, scene: Scene
) -> tuple[tuple[float, ...], ...]:
    """Return when each foot lands, or refuse what takes other feet."""
    feet = len(scene.spec.feet)
    if corners is not None:
        if name == "skip":
            raise scene.cannot(name, "skipping is a gait of two feet, and it has four; gallop is")
        times: dict[str, float] = dict(zip(_CORNERS, _PATTERNS[name], strict=True))
        by_foot = {foot: times[corner] for corner, foot in corners.items()}
        return tuple((by_foot[foot],) for foot in range(4))
    if name in ("trot", "pace") or (name in _FOUR and not (feet == 2 and _is_fore_and_aft(scene))):
        has = _COUNT.get(feet, str(feet))
        why = f"a {name} takes four feet at the corners of the body, and it has {has}"
        raise scene.cannot(name, why)
    if feet == 2:
        return _two(name, scene)
    if name in ("walk", "march", "skip", "gallop", "crawl") and feet == 1:
        raise scene.cannot(name, "it has one foot, so that it can only hop")
    if name == "skip" or (name == "gallop" and feet > 2):
        raise scene.cannot(name, f"that is a gait of two or four feet, and it has {feet}")
    if name in ("walk", "march", "crawl"):
        return tuple((foot / feet,) for foot in range(feet))
    return tuple((0.5 * (foot % 2) if name in FLYING else 0.0,) for foot in range(feet))


def _two(name: str, scene: Scene) -> tuple[tuple[float, ...], ...]:
    if name == "skip":
        if _is_fore_and_aft(scene):
            raise scene.cannot(name, "its feet are one before the other, not left and right")
        return ((0.0, 0.25), (0.5, 0.75))
    if name == "pronk":
        return ((0.0,), (0.0,))
    return ((0.0,), (0.3 if name == "gallop" else 0.5,))


def usual_gait(frame: Frame, scene: Scene) -> Gait | None:
    """Return the gait that was asked for, or one that suits its feet: "walk" leaves it open."""
    feet = len(scene.spec.feet)
    usual = "trot" if feet == 4 else "walk" if feet > 1 else None
    name = usual if frame.gait in ANY_GAIT else frame.gait
    return gait_meant(frame.model_copy(update={"gait": name, "direction": None}), scene)


def step_in(gait: Gait, frame: Frame, scene: Scene, draft: Draft) -> None:
    """Teach and judge a gait."""
    _judge(gait, frame, scene, draft)
    if gait.name in ON_GROUND:
        _keep_level(scene, draft)
    if gait.name in FLYING and (len(gait.landings) != 2 or _is_fore_and_aft(scene)):
        draft.pay("flight", 0.2, Pay(Airborne()), "in the air between strides")
        return
    keep_time(gait, scene, draft)


def keep_time(gait: Gait, scene: Scene, draft: Draft, only: Tensor | None = None) -> None:
    """Pay feet for being where a clock wants them, `only` where a condition holds; it is seen."""
    words = f"feet on and off the ground as in a {gait.name}, {gait.hertz:.2g} strides a second"
    swing = _SWING_LEGS * (scene.leg or 1.0)
    pays = Rhythm(Beat(gait.hertz), gait.landings, gait.duty, swing)
    draft.pay("rhythm", 1.5, pays if only is None else When(only, pays), words)


def _keep_level(scene: Scene, draft: Draft) -> None:
    """Cost what throws a walker into the air, and let one that is easily thrown begin gently."""
    usual = _BOB * math.sqrt(scene.gravity * (scene.leg or 1.0))
    if not scene.has("vertical_velocity"):
        return
    bob = SquareCost(Measured("vertical_velocity"), usual, 4.0)
    draft.pay("level", 0.5, bob, "going up and down, as a cost")
    if scene.bounces:
        draft.settings |= {"log_std": _GENTLE}
        draft.practice = max(draft.practice, _LONGER)


# ---- what is judged


def _judge(gait: Gait, frame: Frame, scene: Scene, draft: Draft) -> None:
    name, feet = gait.name, len(gait.landings)
    corners = corners_of(frame.direction, scene)
    if name in ON_GROUND:
        _judge_walk(name, feet, draft)
        return
    if name in FLYING and feet == 2 and not _is_fore_and_aft(scene):
        _apart(draft, [(0, 1)], "its feet alternate")
    elif name == "skip":
        value = tracks.last("stride_alternation")  # 0.5 where each foot lands twice
        draft.score_near("lands twice on each foot", value, 0.5, 0.12, weight=3.0, tag="wrong_gait")
    elif name == "gallop":
        pairs = _pairs(corners, "left and right") if corners else [(0, 1)]
        _shortly_after(draft, pairs, is_wide=not corners and _is_fore_and_aft(scene))
    elif name == "pronk" and feet > 1:
        _together(draft, _every_pair(feet), "its feet land together")
    elif name in _FOUR and corners is None:
        _apart(draft, [(0, 1)], "its front and hind feet land half a stride apart")
    elif name in _FOUR:
        which, other = _PAIRED[name], "diagonal" if name == "pace" else "same-side"
        _together(draft, _pairs(corners, which), f"its {which} feet land together")
        _apart(draft, _pairs(corners, other), f"its {other} feet land half a stride apart")
    if name not in ("trot", "pace"):
        _wrong_gait(draft, "flies in its strides", tracks.last("flight_share"), 0.01, 0.08)


def land_together(scene: Scene, draft: Draft) -> None:
    """Judge a hop: all feet land together, or it is on one of them alone."""
    feet = len(scene.spec.feet)
    if feet > 1:
        title = "lands on all its feet at once, or on one alone"
        value = metrics.lands_as_one(*_unzipped(_every_pair(feet)))
        _wrong_gait(draft, title, value, 0.0, 0.6)


def _every_pair(feet: int) -> list[tuple[int, int]]:
    return [(a, b) for a in range(feet) for b in range(a)]


def _unzipped(pairs: Sequence[tuple[int, int]]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return tuple(a for a, _ in pairs), tuple(b for _, b in pairs)


def _wrong_gait(
    draft: Draft, title: str, value: Measure, zero: float, goal: float, weight: float = 2.0
) -> None:
    draft.score(title, value, zero, goal, weight=weight, tag="wrong_gait")


def _judge_walk(name: str, feet: int, draft: Draft) -> None:
    flight = tracks.last("flight_share")
    _wrong_gait(draft, "always has a foot on the ground", flight, 0.25, 0.05)
    if name == "crawl":
        if feet > 2:
            value = tracks.share_above("feet_in_contact", 2.5)
            _wrong_gait(draft, "keeps three feet on the ground", value, 0.4, 0.8)
        return
    title = "its feet are on the ground over half of the time"
    _wrong_gait(draft, title, tracks.last("stance_share"), 0.35, 0.5, weight=1.0)
    if feet == 2:
        _apart(draft, [(0, 1)], "its feet alternate")
    else:
        least = tracks.lowest(metrics.phase_lags(*_unzipped(_every_pair(feet))))
        _wrong_gait(draft, "each foot lands at a time of its own", least, 0.02, 0.12)


def _pairs(corners: dict[str, int] | None, which: str) -> list[tuple[int, int]]:
    """Return the two pairs of feet of a kind."""
    assert corners is not None  # asked for four feet only
    front_left, front_right, hind_left, hind_right = (corners[each] for each in _CORNERS)
    return {
        "diagonal": [(front_left, hind_right), (front_right, hind_left)],
        "same-side": [(front_left, hind_left), (front_right, hind_right)],
        "left and right": [(front_left, front_right), (hind_left, hind_right)],
    }[which]


def _together(draft: Draft, pairs: Sequence[tuple[int, int]], title: str) -> None:
    _wrong_gait(draft, title, metrics.phase_match(*_unzipped(pairs)), 0.5, 0.85, weight=3.0)


def _apart(draft: Draft, pairs: Sequence[tuple[int, int]], title: str) -> None:
    _wrong_gait(draft, title, metrics.phase_apart(*_unzipped(pairs)), 0.35, 0.75, weight=3.0)


def _shortly_after(draft: Draft, pairs: Sequence[tuple[int, int]], is_wide: bool) -> None:
    """Judge feet that land neither together nor half a stride apart."""
    who = "its front and hind feet" if is_wide else "its left and right feet"
    value = tracks.mean(metrics.phase_lags(*_unzipped(pairs)))
    _wrong_gait(draft, f"{who} do not land together", value, 0.03, 0.08, weight=3.0)
    if not is_wide:
        title = f"{who} land shortly one after the other"
        _wrong_gait(draft, title, value, 0.42, 0.32, weight=3.0)


def go_in_steps(gait: str | None, scene: Scene, draft: Draft, weight: float = 0.1) -> None:
    """Guard against sliding and vibrating along, and let feet that slip cost by a weight."""
    leg = scene.leg
    if leg is None or not scene.has("slide_share", "x_position"):
        return
    draft.pay("grip", weight, Cost(Slip(), most=2.0), "feet slipping over the ground, as a cost")
    draft.require("does not slide along", tracks.last("slide_share"), 0.8, 0.5, tag="drags")
    slow = _SLOW * math.sqrt(scene.gravity * leg)
    axes = tuple(f"{axis}_position" for axis in scene.axes)
    value = metrics.way_per_touch(slow, leg, axes)
    draft.require("does not tremble along", value, 0.05, 0.12, tag="jitters")
    if gait in _NEVER_FLYING:
        # Longer than any leg steps without flying. A foot that only drags along touches the ground
        # once, whatever the others do.
        value = metrics.way_per_step(slow, leg, axes)
        draft.require("takes steps", value, 3.5, 2.2, tag="drags")


# ---- ground that is not flat


def require_ground(frame: Frame, scene: Scene) -> None:
    """Refuse to go up or down where there is nothing to climb, and ground that cannot be laid."""
    if frame.ground is not None and "terrain" not in scene.spec.arguments:
        why = "its environment is flat; robots that telic drives by position have it (telic robots)"
        raise scene.cannot(f"go over {frame.ground}", why)
    if frame.ground is None and frame.direction in (Direction.UP, Direction.DOWN):
        raise scene.cannot(
            f"go {frame.direction}",
            f'there is nothing to climb; say what: "go {frame.direction} the stairs", or the slope',
        )


def lay_ground(
    frame: Frame, scene: Scene, draft: Draft, speed: float, ways: tuple[str, str | None]
) -> None:
    """Ask the environment for the ground, and judge what is climbed of it.

    `ways` are the direction of travel, and a second one where it is half way between two.
    """
    kind = frame.ground
    if kind is None:
        return
    climbs = 0 if kind == "rough" else -1 if frame.direction is Direction.DOWN else 1
    hardest = frame.hardest or _HARDEST[kind]
    draft.env_args |= {
        "terrain": kind,
        "terrain_hardest": hardest,
        "terrain_start": "foot" if climbs > 0 else "top",
    }
    draft.practice = max(draft.practice, _CLIMBING)
    draft.settings |= {"log_std": STEPPING}
    sizes = {
        "stairs": f"steps of up to {100 * hardest_step(hardest, scene.stands):.2g} cm",
        "slopes": f"slopes of up to {math.degrees(steepest(hardest)):.2g} degrees",
        "rough": f"lumps of up to {hardest * 18:.2g} % of its height",
    }
    draft.doubt(f'"{frame.word}": {sizes[kind]}, in fields from easy to hard')
    if climbs:
        lasts = (TO_TOP_M + _ONTO_TOP_M) / max(speed, 0.05) + 1.0
        low, high = _CLIMB_S
        draft.seconds = frame.duration_s or min(max(lasts, low), high)
        _climb(kind, climbs, scene, draft, ways)
    # A robot that slides along does not get over anything.
    if frame.gait is None and (gait := gait_meant(frame, scene)) is not None:
        keep_time(gait, scene, draft)
        go_in_steps(gait.name, scene, draft)


def _climb(
    kind: TerrainKind, climbs: int, scene: Scene, draft: Draft, ways: tuple[str, str | None]
) -> None:
    """Pay and judge the share of the way up, or down, that is made."""
    stairs = kind == "stairs"
    count = float(steps_of(scene.stands)) if stairs else STAIRS_M
    share = Climbed(count)
    pays = Pay(share if climbs > 0 else Not(share))
    draft.pay("climb", 1.0, pays, "share of the way up or down that is made")
    what, unit = ("steps", "steps") if stairs else ("m of the slope", "m")
    goal = float(math.floor(_ENOUGH * count)) if stairs else _ENOUGH * count
    title = f"{'climbs' if climbs > 0 else 'gets down'} {goal:.2g} {what}"
    value, least = tracks.highest(metrics.climbed(climbs)), _LITTLE * count
    draft.score(title, value, least, goal, weight=4.0, unit=unit, tag="too_low")
    draft.require("does not go round it", value, least, 0.5 * goal, unit=unit, tag="never_moves")
    draft.require("does not turn back", metrics.turned_back(*ways), 0.8, 0.4, tag="wrong_way")
