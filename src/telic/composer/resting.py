"""Being somewhere: standing, balancing, sitting, lying, and getting up again."""

from __future__ import annotations

from collections.abc import Sequence

from telic.composer.draft import Credit, Draft, measure, shortened
from telic.composer.frames import Act, Frame, Posture
from telic.composer.manners import (
    be_upright,
    do_it_on_purpose,
    do_not_shake,
    hold_still,
    rest_height,
    stay_on_feet,
    stay_there,
)
from telic.composer.scene import Scene
from telic.composer.travel import SETTLED
from telic.judges import metrics, tracks
from telic.rewards.signals import Above, Below, Cycles, Measured, Part, PoleAngle, Size
from telic.rewards.terms import Both, Done, Flat, Pay, Peak, Ratio, SmallSquare, Toward, When

_GET_UP_S = 5.0
_TALL, _UPRIGHT = 0.8, 0.85
"""of the standing height, and of the vertical, from which a robot is on its feet"""
_SEQUEL_S = 1.0
"""how long to rest before what comes next, where it was not said"""
_SLOWS_S, _LATE = 1.2, 0.2
"""how long one may take to come to rest: so long, or so much of what was to last so long"""
_OTHER_POSES = set(Posture) - {Posture.UPRIGHT, Posture.LEVEL, Posture.STRAIGHT_LINE}


def stand(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Stay where it is, at rest; on its feet unless another posture is asked for."""
    scene.require("speed", "stand still")
    hold_still(scene, draft)
    if not _OTHER_POSES & set(frame.postures):
        rest_height(scene, draft)
        stay_on_feet(scene, draft)
        stay_there(scene, draft, is_first=frame.phase == 0)
    elif scene.ends_fallen:
        stay_on_feet(scene, draft)
    end_at_rest(draft, frame.duration_s or _SEQUEL_S)
    _last(frame, draft)


def end_at_rest(draft: Draft, seconds: float) -> None:
    """Say that it is done once it has been at rest for so long."""
    slow = measure(tracks.below, "speed", 0.3)
    draft.ends_when(Below(Measured("speed"), 0.3), slow, seconds)


def rest_in_time(before: Sequence[Frame], now: Sequence[Frame], draft: Draft) -> None:
    """Judge that what was to last so long is over then, where rest comes after it."""
    timed = [each for each in before if each.duration_s is not None]
    is_open = any(each.amount and each.amount.rule == "at_least" for each in timed)
    if not timed or is_open or not {each.verb for each in now} <= {Act.STAND, Act.STOP}:
        return
    seconds = max(each.duration_s or 0.0 for each in timed)
    late = (1.0 - SETTLED) * seconds + max(_SLOWS_S, _LATE * seconds)
    meaning = f"time that it still moves after the {seconds:g} s"
    value = measure(tracks.time_above, "speed", 0.3)  # all of it: a pause is no rest
    draft.guard("comes to rest in time", meaning, value, 1.7 * late, late, unit="s", tag="drifts")


def _last(frame: Frame, draft: Draft) -> None:
    if frame.duration_s:
        draft.seconds = max(frame.duration_s + 1.0, draft.seconds)


def balance(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Keep poles upright, or oneself."""
    if not scene.has("pole_angle"):
        stand(frame, scene, draft)
        return
    draft.pay("upright", 1.0, SmallSquare(PoleAngle(), 20.0), "poles upright")
    angle = measure(metrics.pole_angle)
    meaning = "share of the time within 0.15 rad of upright"
    value = measure(tracks.share_below, angle, 0.15)
    draft.leaf("keeps the pole up", meaning, value, 0.2, 0.95, weight=3.0, tag="falls")
    held = measure(tracks.below, angle, 0.15)
    draft.ends_when(Below(PoleAngle(), 0.15), held, frame.duration_s or _SEQUEL_S)
    _last(frame, draft)


def sit(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Lower the torso, upright, and hold it there; or do so a number of times."""
    scene.require("height", "sit")
    scene.require("uprightness", "sit")
    reach = scene.stands - scene.lies
    target = scene.lies + (0.6 if Posture.LOW in frame.postures else 0.45) * reach
    width = 0.25 * reach
    low, high = target - 0.6 * width, target + 0.6 * width
    meaning = "share of the time with uprightness over 0.6"
    value = measure(tracks.share_above, "uprightness", 0.6)
    draft.guard("keeps its torso upright", meaning, value, 0.2, 0.7, tag="falls")
    be_upright(draft, 0.4)
    if frame.count:
        _squat(frame, frame.count, scene, draft, high)
        return
    height = Measured("height")
    draft.pay("low", 1.0, Peak(height, target, width), f"torso {target:.2g} m high")
    title = f"holds its torso {target:.2g} m high"
    meaning = f"share of the time between {low:.2g} and {high:.2g} m"
    value = measure(tracks.share_between, "height", low, high)
    draft.leaf(title, meaning, value, 0.2, 0.7, weight=5.0, tag="too_high")
    hold_still(scene, draft, weight=0.5)
    lasts = frame.duration_s or _SEQUEL_S
    draft.ends_when(Above(height, shortened(low)), measure(tracks.above, "height", low), lasts)
    draft.ends_when(Below(height, shortened(high)), measure(tracks.below, "height", high), lasts)
    _last(frame, draft)


def _squat(frame: Frame, count: int, scene: Scene, draft: Draft, low: float) -> None:
    """Go down and up again, several times."""
    high = scene.stands - 0.15 * (scene.stands - scene.lies)
    squats = Cycles(Measured("height", sign=-1), -low, -high)
    times, done = Part(squats, "times"), count - 0.5
    left = Below(times, done)
    draft.pay("squat", 1.0, When(left, Done(squats)), "once per squat: up again")
    draft.pay("next", 2.0, When(left, Toward(squats)), "on the way down, then up")
    seen = measure(tracks.cycles, measure(tracks.less, "height", sign=-1), -low, -high)
    meaning = f"times below {low:.2g} m and then above {high:.2g} m"
    value = measure(tracks.last, seen)
    draft.counted("goes down and up", meaning, value, frame, weight=3.0, tag="too_high")
    do_it_on_purpose(scene, draft)
    draft.ends_when(Above(times, done), measure(tracks.above, seen, done))
    draft.seconds = max(4.0, 2.0 * count + 1.0)


def lie(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Lie on the ground, at rest."""
    scene.require("height", "lie down")
    scene.require("uprightness", "lie down")
    span, lasts = scene.stands - scene.lies, frame.duration_s or _SEQUEL_S
    top = scene.lies + 0.25 * span
    held = measure(metrics.lying, top, scene.is_tall)
    draft.ends_when(Below(Measured("height"), shortened(top)), held, lasts)
    if scene.is_tall:
        draft.pay("flat", 0.5, Flat(), "torso level with the ground")
        draft.ends_when(Below(Size(Measured("uprightness")), 0.6), held, lasts)
    low = Ratio(Measured("height", minus=scene.stands, sign=-1), span, low=0.0, most=1.0)
    draft.pay("low", 1.0, low, "torso close to the ground")
    meaning = f"share of the time with the torso below {top:.2g} m"
    value = measure(tracks.share, held)
    draft.leaf("lies on the ground", meaning, value, 0.2, 0.7, weight=5.0, tag="too_high")
    hold_still(scene, draft, weight=0.5)
    _last(frame, draft)


def stand_up(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Get the torso up from lying, and keep it up."""
    scene.require("height", "stand up")
    rest = scene.spec.robot.rest_height if scene.spec.robot else None
    if frame.phase == 0 and rest is not None and "starts" in scene.spec.arguments:
        _get_up(rest, frame, scene, draft)
        return
    if frame.phase == 0 and rest is not None and rest > 0.8 * scene.stands:
        draft.doubt("it stands when an episode starts: standing up is taken as staying up")
        stand(frame, scene, draft)
        return
    goal, height = scene.stands / 1.3, Measured("height")
    draft.pay("height", 1.0, Ratio(height, goal, low=None), "height of the torso")
    title, meaning = f"gets its torso {goal:.2g} m up", "highest point of the torso"
    value = measure(tracks.highest, "height")
    credit = Credit(weight=2.0, unit="m", tag="too_low")
    draft.total(title, meaning, value, 0.3 * goal, 0.95 * goal, **credit)
    meaning = f"share of the time above {0.8 * goal:.2g} m"
    value = measure(tracks.share_above, "height", 0.8 * goal)
    draft.leaf("stays up", meaning, value, 0.05, 0.4, weight=1.0, tag="falls")
    up = measure(tracks.above, "height", 0.9 * goal)
    draft.ends_when(Above(height, shortened(0.9 * goal)), up, frame.duration_s or 0.3)
    _last(frame, draft)


def _get_up(rest: float, frame: Frame, scene: Scene, draft: Draft) -> None:
    """Get on its feet from where it was dropped, in whatever attitude, and stay there."""
    scene.require("uprightness", "get up")
    draft.env_args["starts"] = "fallen"
    draft.doubt(f'"{frame.word}": every episode begins with a fall, in any attitude')
    draft.seconds = max(draft.seconds, _GET_UP_S, (frame.duration_s or 0.0) + _GET_UP_S)
    be_upright(draft, 1.0)
    tall = Ratio(Measured("height"), rest, low=0.0, most=1.0)
    pays = Both(tall, Pay(Measured("uprightness"), 0.0, 1.0))
    draft.pay("height", 1.5, pays, "height of the torso while the right way up")
    stands = measure(metrics.standing, _UPRIGHT, _TALL * rest)
    meaning = f"share of the last half with the torso over {_TALL * rest:.2g} m and upright"
    value = measure(tracks.mean_of_end, stands, 2)
    draft.leaf("gets on its feet", meaning, value, 0.1, 0.9, weight=3.0, tag="stays_down")
    meaning = "share of the last tenth in which it stands"
    value = measure(tracks.mean_of_end, stands, 10)
    draft.leaf("ends on its feet", meaning, value, 0.2, 0.9, weight=1.0, tag="falls")
    do_not_shake(draft)
