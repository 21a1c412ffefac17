"""Gaits: what the feet do, as terms of a reward and leaves of a judge.

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
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

from telic.composer.draft import Draft, measure
from telic.composer.frames import Direction, Frame
from telic.composer.scene import Scene
from telic.judges import metrics, tracks
from telic.rewards.signals import Airborne, Beat, Measured
from telic.rewards.terms import Pay, Rhythm, SquareCost, When

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
_PAIRED = {"trot": "diagonal", "pace": "same-side", "bound": "left and right"}


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


# ------------------------------------------------------------------------------------- judging


def _judge(gait: Gait, frame: Frame, scene: Scene, draft: Draft) -> None:
    name, feet = gait.name, len(gait.landings)
    corners = corners_of(frame.direction, scene)
    if name in ON_GROUND:
        _judge_walk(name, feet, draft)
        return
    if name in FLYING and feet == 2 and not _is_fore_and_aft(scene):
        _apart(draft, [(0, 1)], "its feet alternate")
    elif name == "skip":
        _twice_each(draft)
    elif name == "gallop":
        pairs = _pairs(corners, "left and right") if corners else [(0, 1)]
        _shortly_after(draft, pairs, is_wide=not corners and _is_fore_and_aft(scene))
    elif name == "pronk" and feet > 1:
        _together(draft, _every_pair(feet), "its feet land together")
    elif name in _FOUR:
        _judge_pairs(name, corners, draft)
    if name not in ("trot", "pace"):
        _judge_flight(draft, "flies in its strides", 0.01, 0.08)


def land_together(scene: Scene, draft: Draft) -> None:
    """Judge a hop: all feet land together, or it is on one of them alone."""
    feet = len(scene.spec.feet)
    if feet < 2:
        return
    title = "lands on all its feet at once, or on one alone"
    meaning = "cosine of the phase between its feet, or share of its steps on one foot alone"
    value = measure(metrics.lands_as_one, *_unzipped(_every_pair(feet)))
    draft.leaf(title, meaning, value, 0.0, 0.6, weight=2.0, tag="wrong_gait")


def _every_pair(feet: int) -> list[tuple[int, int]]:
    return [(a, b) for a in range(feet) for b in range(a)]


def _unzipped(pairs: Sequence[tuple[int, int]]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return tuple(a for a, _ in pairs), tuple(b for _, b in pairs)


def _judge_walk(name: str, feet: int, draft: Draft) -> None:
    _judge_flight(draft, "always has a foot on the ground", 0.25, 0.05)
    if name == "crawl":
        if feet > 2:
            _on_three(draft)
        return
    meaning = "share of the time a foot is on the ground, mean of the feet"
    value = measure(tracks.last, "stance_share")
    title = "its feet are on the ground over half of the time"
    draft.leaf(title, meaning, value, 0.35, 0.5, weight=1.0, tag="wrong_gait")
    if feet == 2:
        _apart(draft, [(0, 1)], "its feet alternate")
    else:
        _one_at_a_time(draft, feet)


def _judge_pairs(name: str, corners: dict[str, int] | None, draft: Draft) -> None:
    """Judge a trot, a pace or a bound: which feet land together, and which half a stride apart."""
    if corners is None:
        _apart(draft, [(0, 1)], "its front and hind feet land half a stride apart")
        return
    which = _PAIRED[name]
    _together(draft, _pairs(corners, which), f"its {which} feet land together")
    other = "same-side" if name != "pace" else "diagonal"
    _apart(draft, _pairs(corners, other), f"its {other} feet land half a stride apart")


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
    meaning = "cosine of the phase between them, 1 together and -1 half a stride apart"
    value = measure(metrics.phase_match, *_unzipped(pairs))
    draft.leaf(title, meaning, value, 0.5, 0.85, weight=3.0, tag="wrong_gait")


def _apart(draft: Draft, pairs: Sequence[tuple[int, int]], title: str) -> None:
    meaning = "minus the cosine of the phase between them, 1 half a stride apart"
    value = measure(metrics.phase_apart, *_unzipped(pairs))
    draft.leaf(title, meaning, value, 0.35, 0.75, weight=3.0, tag="wrong_gait")


def _one_at_a_time(draft: Draft, feet: int) -> None:
    title = "each foot lands at a time of its own"
    meaning = "least share of a stride between the landings of two feet"
    value = measure(tracks.lowest, measure(metrics.phase_lags, *_unzipped(_every_pair(feet))))
    draft.leaf(title, meaning, value, 0.02, 0.12, weight=2.0, tag="wrong_gait")


def _shortly_after(draft: Draft, pairs: Sequence[tuple[int, int]], is_wide: bool) -> None:
    """Judge feet that land neither together nor half a stride apart."""
    who = "its front and hind feet" if is_wide else "its left and right feet"
    meaning = "share of a stride between them"
    value = measure(tracks.mean, measure(metrics.phase_lags, *_unzipped(pairs)))
    title = f"{who} do not land together"
    draft.leaf(title, meaning, value, 0.03, 0.08, weight=3.0, tag="wrong_gait")
    if not is_wide:
        title = f"{who} land shortly one after the other"
        draft.leaf(title, meaning, value, 0.42, 0.32, weight=3.0, tag="wrong_gait")


def _twice_each(draft: Draft) -> None:
    meaning = "share of touchdowns that change sides: 0.5 where each foot lands twice"
    value = measure(tracks.last, "stride_alternation")
    draft.near("lands twice on each foot", meaning, value, 0.5, 0.12, weight=3.0, tag="wrong_gait")


def _judge_flight(draft: Draft, title: str, zero: float, goal: float) -> None:
    meaning = "share of the time without a foot on the ground"
    value = measure(tracks.last, "flight_share")
    draft.leaf(title, meaning, value, zero, goal, weight=2.0, tag="wrong_gait")


def _on_three(draft: Draft) -> None:
    title = "keeps three feet on the ground"
    meaning = "share of the time with three feet or more on the ground"
    value = measure(tracks.share_above, "feet_in_contact", 2.5)
    draft.leaf(title, meaning, value, 0.4, 0.8, weight=2.0, tag="wrong_gait")
