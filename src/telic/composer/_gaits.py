"""Reward terms and criteria for gaits, steps and terrain, based on foot contacts.

A gait (tables/speeds.toml) is trained with an observed phase variable: feet are rewarded for being
in stance or swing according to the contact pattern. Robots may exploit the physics by vibrating
their feet or gliding in a fixed pose. In a real step, the stance foot stays in place while the body
passes over it, and the step is long relative to the leg. A climbing robot starts at the lowest
level of the terrain, so it cannot gain height without climbing.
"""

import math
from dataclasses import replace
from typing import NamedTuple

from torch import Tensor

from telic.composer._draft import Draft
from telic.composer._sizes import BELOW, BY_STEPS, FROUDE, froude_speed, speed
from telic.composer.frames import Direction, Frame
from telic.composer.lexicon import word_table
from telic.composer.scene import Scene
from telic.judges import metrics, tracks
from telic.judges.tracks import Measure, track
from telic.rewards.signals import Airborne, Beat, Climbed, Measured, Not, Slip
from telic.rewards.terms import Cost, Pay, Rhythm, SquareCost, When
from telic.robots.terrain import STAIRS_M, TO_TOP_M, hardest_step, steepest, steps_of

FLYING = ("run", "jog", "sprint")
ON_GROUND = ("walk", "march", "crawl")
ANY_GAIT = (None, "walk", "run", "jog", "step", "march")
"""words that do not specify a particular gait"""
_PAIRED = {"trot": "diagonal", "pace": "same-side", "bound": "left and right"}
_CORNERS = ("front left", "front right", "hind left", "hind right")
_GAITS = word_table("speeds")["gaits"]
STEPPING = -1.3
"""initial log std of the actions with which the robot can stand and explore from the first step"""
_GENTLE = -2.5
"""initial log std for a robot whose actuators can throw its body off the ground"""
_FASTER = 1.2
"""multiple of the minimum speed of a gait above which the stride frequency increases"""
_SWING_LEGS, _BOB, _SLOW = 0.1, 0.14, 0.03
"""swing height of a foot in leg lengths; vertical body speed of a walk and minimum travel speed
in sqrt(g L)"""
SUPPORT = {"two_legs", "one_leg", "rear_legs", "front_legs", "hands"}
"""postures that specify the stance feet, so that the contact pattern is not judged"""
_HARDEST = {"stairs": 0.6, "slopes": 0.6, "rough": 0.7}
"""default maximum difficulty of terrain"""
_ENOUGH, _LITTLE = 0.75, 0.1
"""fractions of the climb that earn full credit and no credit"""

_Pairs = tuple[tuple[int, ...], tuple[int, ...]]
_TWO: _Pairs = ((0,), (1,))


class Gait(NamedTuple):
    """Gait, defined by the contact pattern of the feet."""

    name: str
    landings: tuple[tuple[float, ...], ...]
    """touchdown phases of each foot within a stride"""
    duty: float
    hertz: float


def gait_meant(frame: Frame, scene: Scene) -> Gait | None:
    """Return the requested gait, a default gait on terrain, or None if any gait is allowed."""
    feet = len(scene.spec.feet)
    name = frame.gait or ((_usual(feet) or "") if frame.ground else "")
    if name not in _GAITS:
        return None
    if not feet or not scene.spec.robot or not scene.spec.robot.legs or scene.leg is None:
        if name in (*_PAIRED, "gallop", "pronk", "skip"):
            raise scene.cannot(name, "it has no feet")
        return None
    pattern, duty, hertz = (_GAITS[name][key] for key in ("feet", "duty", "rate"))
    corners = corners_of(frame.direction, scene)
    if corners is None:
        landings = _landings(name, feet, scene)
    elif name == "skip":
        raise scene.cannot(name, "skipping requires two feet, but it has four (try gallop)")
    else:
        by_foot = {corners[corner]: at for corner, at in zip(_CORNERS, pattern, strict=True)}
        landings = tuple((by_foot[foot],) for foot in range(4))
    # Above the minimum speed of a gait, strides are longer and more frequent.
    usual = froude_speed(scene, FROUDE[name]) if name in FROUDE else 0.0
    plain = frame if frame.dimension == "speed" else replace(frame, amount=frame.pace)
    faster = max(speed(plain, scene).value / usual, 1.0) if usual else 1.0
    hertz *= math.sqrt(faster if faster > _FASTER else 1.0)
    hertz *= math.sqrt(scene.gravity / scene.leg)
    if frame.period_s is not None:  # well below an upper bound
        share = BELOW if frame.count_rule == "at_most" else 1.0
        hertz = share * (0.5 if name in BY_STEPS else 1.0) / frame.period_s
    return Gait(name, landings, duty, hertz)


def keep_rate(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Judge a stated frequency of steps or strides. In a stride, each foot touches down once."""
    if frame.period_s is None or not scene.has("foot_contact"):
        return
    is_step, rule = frame.gait in BY_STEPS, frame.count_rule
    goal = len(scene.spec.feet) * (0.5 if is_step else 1.0) / frame.period_s
    within, zero = (0.2 * goal if rule == "about" else None), (1.5 if rule == "at_most" else 0.5)
    words = f"{rule.replace('_', ' ')} {1.0 / frame.period_s:.3g}".removeprefix("about ")
    title = f"takes {words} {'steps' if is_step else 'strides'} per second"
    value = metrics.touchdowns()
    draft.score(title, value, zero * goal, goal, within=within, weight=3.0, tag="wrong_gait")


def _usual(feet: int) -> str | None:
    return "trot" if feet == 4 else "walk" if feet > 1 else None


def usual_gait(frame: Frame, scene: Scene) -> Gait | None:
    """Return the requested gait, or one that suits the number of feet."""
    name = _usual(len(scene.spec.feet)) if frame.gait in ANY_GAIT else frame.gait
    return gait_meant(replace(frame, gait=name, direction=None), scene)


def corners_of(direction: Direction | None, scene: Scene) -> dict[str, int] | None:
    """Return the four feet by corner, as seen in the direction of travel, or None for others."""
    robot = scene.spec.robot
    if robot is None or len(robot.feet) != 4 or len(robot.legs) != 4:
        return None
    angle = math.radians(metrics.DEGREES.get(direction or "forward", 0.0))
    x, y = math.cos(angle), math.sin(angle)
    ahead = [leg.place[0] * x + leg.place[1] * y for leg in robot.legs]
    aside = [leg.place[1] * x - leg.place[0] * y for leg in robot.legs]
    found: dict[str, int] = {}
    for foot in range(4):
        where = "front" if ahead[foot] > sum(ahead) / 4.0 else "hind"
        side = "left" if aside[foot] > sum(aside) / 4.0 else "right"
        found[f"{where} {side}"] = foot
    return found if len(found) == 4 else None


def _is_fore_and_aft(scene: Scene) -> bool:
    """Return whether the two feet are arranged fore and aft, as in planar models."""
    robot = scene.spec.robot
    return robot is not None and robot.side_names == ("back", "front")


def _landings(name: str, feet: int, scene: Scene) -> tuple[tuple[float, ...], ...]:
    """Return the touchdown phases for robots that are not quadrupeds, or reject the gait."""
    is_in_plane = _is_fore_and_aft(scene)
    # In a trot, two fore-and-aft feet land half a stride apart, like the pairs of a quadruped.
    if name in _PAIRED and not (feet == 2 and (is_in_plane or name == "trot")):
        has = {1: "one", 2: "two", 3: "three"}.get(feet, str(feet))
        why = f"a {name} requires four feet at the corners of the body, but it has {has}"
        raise scene.cannot(name, why)
    if name == "skip" and feet == 2 and is_in_plane:
        raise scene.cannot(name, "its feet are fore and aft, not left and right")
    if feet == 1 and name in (*ON_GROUND, "skip", "gallop"):
        raise scene.cannot(name, "it has only one foot and can only hop")
    if feet != 2 and name in ("skip", "gallop"):
        raise scene.cannot(name, f"this gait requires two or four feet, but it has {feet}")
    if name == "skip":
        return ((0.0, 0.25), (0.5, 0.75))
    if feet == 2:
        return ((0.0,), ({"pronk": 0.0, "gallop": 0.3}.get(name, 0.5),))
    if name in ON_GROUND:
        return tuple((foot / feet,) for foot in range(feet))
    return tuple((0.5 * (foot % 2) if name in FLYING else 0.0,) for foot in range(feet))


# ---- reward and judge


def step_in(
    gait: Gait,
    frame: Frame,
    scene: Scene,
    draft: Draft,
    only: Tensor | None = None,
    until: tuple[metrics.Way, float] | None = None,
) -> None:
    """Reward and judge a gait. `only` limits it by a condition, and `until` by a distance."""
    if scene.is_lifting:
        return  # a foot that is held up does not step
    judged = Draft()
    if gait.name in ON_GROUND:
        _judge_walk(gait.name, len(gait.landings), judged)
    else:
        _judge_flying(gait, frame, scene, judged)
    for part in judged.parts:
        draft.parts.append(part if until is None else part.until(*until))
    if gait.name in ON_GROUND and scene.has("vertical_velocity"):
        # Penalize vertical motion, and start with small actions on robots with strong actuators.
        usual = _BOB * math.sqrt(scene.gravity * (scene.leg or 1.0))
        bob = SquareCost(Measured("vertical_velocity"), usual, 4.0)
        draft.pay("level", 0.5, bob, "vertical motion, as a cost")
        if scene.bounces:
            draft.settings |= {"log_std": _GENTLE}
            draft.practice = max(draft.practice, 2.0)
    if gait.name in FLYING and (len(gait.landings) != 2 or _is_fore_and_aft(scene)):
        pays = Pay(Airborne())
        draft.pay("flight", 0.2, pays if only is None else When(only, pays), "in the air")
    else:
        keep_time(gait, scene, draft, only)


def keep_time(gait: Gait, scene: Scene, draft: Draft, only: Tensor | None = None) -> None:
    """Reward feet that follow an observed phase variable, if given only while `only` holds."""
    words = f"foot contacts as in a {gait.name}, {gait.hertz:.2g} strides per second"
    pays = Rhythm(Beat(gait.hertz), gait.landings, gait.duty, _SWING_LEGS * (scene.leg or 1.0))
    draft.pay("rhythm", 1.5, pays if only is None else When(only, pays), words)


def _judge_walk(name: str, feet: int, draft: Draft) -> None:
    flight = tracks.last("flight_share")
    _wrong_gait(draft, "is off the ground at most 5% of the time", flight, 0.25, 0.05)
    if name == "crawl":
        if feet > 2:
            value = tracks.share(track("feet_in_contact") > 2.5)
            _wrong_gait(draft, "keeps three feet on the ground", value, 0.4, 0.8)
        return
    title = "each foot is on the ground at least half of the time"
    _wrong_gait(draft, title, tracks.last("stance_share"), 0.35, 0.5, 1.0)
    if feet == 2:
        _wrong_gait(draft, "its feet alternate", -metrics.phase_match(*_TWO), 0.35, 0.75, 3.0)
    elif feet > 2:  # any order is a walk, including pairs, except landing all feet together
        match = metrics.phase_match(*_every_pair(feet))
        _wrong_gait(draft, "its feet do not all land together", match, 0.8, 0.5)


def _judge_flying(gait: Gait, frame: Frame, scene: Scene, draft: Draft) -> None:
    name, feet = gait.name, len(gait.landings)
    corners, is_in_plane = corners_of(frame.direction, scene), _is_fore_and_aft(scene)
    if name in FLYING and feet == 2 and not is_in_plane:
        _wrong_gait(draft, "its feet alternate", -metrics.phase_match(*_TWO), 0.35, 0.75, 3.0)
    elif name == "skip":
        value = tracks.last("stride_alternation")  # 0.5 where each foot lands twice
        title, tag = "lands twice on each foot", "wrong_gait"
        draft.score(title, value, 0.0, 0.5, within=0.12, weight=3.0, tag=tag)
    elif name == "gallop":
        is_wide = not corners and is_in_plane
        pair = "its front and hind feet" if is_wide else "its left and right feet"
        lag = tracks.mean(metrics.phase_lags(*_pairs(corners, "left and right")))
        _wrong_gait(draft, f"{pair} do not land together", lag, 0.03, 0.08, 3.0)
        if not is_wide:
            _wrong_gait(draft, f"{pair} land shortly one after the other", lag, 0.42, 0.32, 3.0)
    elif name == "pronk" and feet > 1:
        value = metrics.phase_match(*_every_pair(feet))
        _wrong_gait(draft, "its feet land together", value, 0.5, 0.85, 3.0)
    elif name in _PAIRED:
        together, apart = _PAIRED[name], "diagonal" if name == "pace" else "same-side"
        if corners:
            value = metrics.phase_match(*_pairs(corners, together))
            _wrong_gait(draft, f"its {together} feet land together", value, 0.5, 0.85, 3.0)
        other = "front and hind" if is_in_plane else "left and right"
        title = f"its {apart if corners else other} feet land half a stride apart"
        value = -metrics.phase_match(*_pairs(corners, apart))
        _wrong_gait(draft, title, value, 0.35, 0.75, 3.0)
    if name not in ("trot", "pace"):
        title = {1: "its foot", 2: "both feet"}.get(feet, "all feet")
        value = tracks.last("flight_share")
        _wrong_gait(draft, f"{title} off the ground at least 8% of the time", value, 0.01, 0.08)


def _wrong_gait(
    draft: Draft, title: str, value: Measure, zero: float, goal: float, weight: float = 2.0
) -> None:
    draft.score(title, value, zero, goal, weight=weight, tag="wrong_gait")


def land_together(scene: Scene, draft: Draft) -> None:
    """Judge hops in which all feet land together or only one foot is used."""
    if len(scene.spec.feet) > 1:
        title = "lands on all its feet at once, or on one alone"
        value = metrics.lands_as_one(*_every_pair(len(scene.spec.feet)))
        draft.score(title, value, 0.0, 0.6, weight=2.0, tag="wrong_gait")


def _every_pair(feet: int) -> _Pairs:
    pairs = [(high, low) for high in range(feet) for low in range(high)]
    return tuple(high for high, _ in pairs), tuple(low for _, low in pairs)


def _pairs(corners: dict[str, int] | None, which: str) -> _Pairs:
    """Return the first and second feet of each pair of a kind, or the two feet of a biped."""
    if corners is None:
        return _TWO
    front_left, front_right, hind_left, hind_right = (corners[each] for each in _CORNERS)
    return {
        "diagonal": ((front_left, front_right), (hind_right, hind_left)),
        "same-side": ((front_left, front_right), (hind_left, hind_right)),
        "left and right": ((front_left, hind_left), (front_right, hind_right)),
    }[which]


def go_in_steps(gait: str | None, scene: Scene, draft: Draft, weight: float = 0.1) -> None:
    """Constrain sliding and vibrating, and penalize foot slip with the given weight."""
    leg = scene.leg
    if leg is None or not scene.has("slide_share", "x_position"):
        return
    draft.pay("grip", weight, Cost(Slip(), most=2.0), "foot slip, as a cost")
    draft.require("does not slide along", tracks.last("slide_share"), 0.8, 0.5, tag="drags")
    slow = _SLOW * math.sqrt(scene.gravity * leg)
    axes = tuple(f"{axis}_position" for axis in scene.axes)
    value = metrics.way_per_touch(slow, leg, axes)
    draft.require("does not vibrate in place", value, 0.05, 0.12, tag="jitters")
    if gait in (*ON_GROUND, "trot", "pace"):
        # Longer than any step without a flight phase. A dragged foot has only one touchdown,
        # regardless of the others.
        value = metrics.way_per_step(slow, leg, axes)
        draft.require("takes steps", value, 3.5, 2.2, tag="drags")


# ---- terrain


def require_ground(frame: Frame, scene: Scene) -> None:
    """Reject climbing without suitable terrain, and terrain that cannot be generated."""
    if frame.ground is not None and "terrain" not in scene.spec.arguments:
        why = "its environment is flat (`telic robots` lists robots with terrain)"
        place = "rough terrain" if frame.ground == "rough" else frame.ground
        raise scene.cannot(f"go over {place}", why, "ground_step")
    if frame.ground is None and frame.direction in ("up", "down"):
        raise scene.cannot(
            f"go {frame.direction}",
            f'name the terrain to climb, e.g. "go {frame.direction} the stairs" or the slope',
            "ground_height",
        )


def lay_ground(
    frame: Frame, scene: Scene, draft: Draft, pace: float, ways: tuple[metrics.Way, str | None]
) -> None:
    """Configure the terrain of the environment, and reward and judge climbing.

    `ways` are the direction of travel and, for diagonal travel, a second direction or None.
    """
    kind = frame.ground
    if kind is None:
        return
    climbs = 0 if kind == "rough" else -1 if frame.direction == "down" else 1
    hardest = frame.hardest or _HARDEST[kind]
    draft.env_args |= {
        "terrain": kind,
        "terrain_hardest": hardest,
        "terrain_start": "foot" if climbs > 0 else "top",
    }
    draft.practice = max(draft.practice, 3.0)
    draft.settings |= {"log_std": STEPPING}
    sizes = {
        "stairs": f"steps of up to {100 * hardest_step(hardest, scene.stands):.2g} cm",
        "slopes": f"slopes of up to {math.degrees(steepest(hardest)):.2g} degrees",
        "rough": f"lumps of up to {hardest * 18:.2g} % of its height",
    }
    draft.doubt(f'"{frame.word}": {sizes[kind]}, in fields from easy to hard')
    if climbs:
        lasts = (TO_TOP_M + 0.4) / max(pace, 0.05) + 1.0
        draft.seconds = frame.duration_s or min(max(lasts, 3.0), 16.0)
        stairs = kind == "stairs"
        count = float(steps_of(scene.stands)) if stairs else STAIRS_M
        share = Climbed(count)
        pays = Pay(share if climbs > 0 else Not(share))
        draft.pay("climb", 1.0, pays, "completed fraction of the climb or descent")
        what, unit = ("steps", "steps") if stairs else ("m of the slope", "m")
        goal = float(math.floor(_ENOUGH * count)) if stairs else _ENOUGH * count
        title = f"{'climbs' if climbs > 0 else 'gets down'} {goal:.2g} {what}"
        value = replace(tracks.highest(metrics.climbed(climbs)), unit=unit)
        least = _LITTLE * count
        draft.score(title, value, least, goal, weight=4.0, tag="too_low")
        title = "does not go round it"
        draft.require(title, value, least, 0.5 * goal, tag="never_moves")
        value = metrics.turned_back(*ways)
        draft.require("does not turn back", value, 0.8, 0.4, tag="wrong_way")
    # Teach a gait, because a sliding robot cannot traverse terrain.
    if frame.gait is None and (gait := gait_meant(frame, scene)) is not None:
        keep_time(gait, scene, draft)
        go_in_steps(gait.name, scene, draft)
