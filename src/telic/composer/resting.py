"""Being somewhere: standing, balancing, sitting, lying, and getting up again."""

from __future__ import annotations

from collections.abc import Sequence

from telic.composer.draft import Draft
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
from telic.judges.tracks import shortened
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
    draft.ends_when(Below(Measured("speed"), 0.3), tracks.below("speed", 0.3), seconds)


def rest_in_time(before: Sequence[Frame], now: Sequence[Frame], draft: Draft) -> None:
    """Judge that what was to last so long is over then, where rest comes after it."""
    timed = [each for each in before if each.duration_s is not None]
    is_open = any(each.amount and each.amount.rule == "at_least" for each in timed)
    if not timed or is_open or not {each.verb for each in now} <= {Act.STAND, Act.STOP}:
        return
    seconds = max(each.duration_s or 0.0 for each in timed)
    late = (1.0 - SETTLED) * seconds + max(_SLOWS_S, _LATE * seconds)
    value = tracks.time_above("speed", 0.3)  # all of it: a pause does not count as rest
    draft.require("comes to rest in time", value, 1.7 * late, late, tag="drifts")


def _last(frame: Frame, draft: Draft) -> None:
    if frame.duration_s:
        draft.seconds = max(frame.duration_s + 1.0, draft.seconds)


def balance(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Keep poles upright, or oneself."""
    if not scene.has("pole_angle"):
        stand(frame, scene, draft)
        return
    draft.pay("upright", 1.0, SmallSquare(PoleAngle(), 20.0), "poles upright")
    angle = metrics.pole_angle()
    value = tracks.share_below(angle, 0.15)
    draft.score("keeps the pole up", value, 0.2, 0.95, weight=3.0, tag="falls")
    held = tracks.below(angle, 0.15)
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
    value = tracks.share_above("uprightness", 0.6)
    draft.require("keeps its torso upright", value, 0.2, 0.7, tag="falls")
    be_upright(draft, 0.4)
    if frame.count:
        _squat(frame, frame.count, scene, draft, high)
        return
    height = Measured("height")
    draft.pay("low", 1.0, Peak(height, target, width), f"torso {target:.2g} m high")
    title, value = f"holds its torso {target:.2g} m high", tracks.share_between("height", low, high)
    draft.score(title, value, 0.2, 0.7, weight=5.0, tag="too_high")
    hold_still(scene, draft, weight=0.5)
    lasts = frame.duration_s or _SEQUEL_S
    draft.ends_when(Above(height, shortened(low)), tracks.above("height", low), lasts)
    draft.ends_when(Below(height, shortened(high)), tracks.below("height", high), lasts)
    _last(frame, draft)


def _squat(frame: Frame, count: int, scene: Scene, draft: Draft, low: float) -> None:
    """Go down and up again, several times."""
    high = scene.stands - 0.15 * (scene.stands - scene.lies)
    squats = Cycles(Measured("height", sign=-1), -low, -high)
    times, done = Part(squats, "times"), count - 0.5
    left = Below(times, done)
    draft.pay("squat", 1.0, When(left, Done(squats)), "once per squat: up again")
    draft.pay("next", 2.0, When(left, Toward(squats)), "on the way down, then up")
    seen = tracks.cycles(tracks.less("height", sign=-1), -low, -high)
    draft.counted("goes down and up", tracks.last(seen), frame, weight=3.0, tag="too_high")
    do_it_on_purpose(scene, draft)
    draft.ends_when(Above(times, done), tracks.above(seen, done))
    draft.seconds = max(4.0, 2.0 * count + 1.0)


def lie(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Lie on the ground, at rest."""
    scene.require("height", "lie down")
    scene.require("uprightness", "lie down")
    span, lasts = scene.stands - scene.lies, frame.duration_s or _SEQUEL_S
    top = scene.lies + 0.25 * span
    held = metrics.lying(top, scene.is_tall)
    draft.ends_when(Below(Measured("height"), shortened(top)), held, lasts)
    if scene.is_tall:
        draft.pay("flat", 0.5, Flat(), "torso level with the ground")
        draft.ends_when(Below(Size(Measured("uprightness")), 0.6), held, lasts)
    low = Ratio(Measured("height", minus=scene.stands, sign=-1), span, low=0.0, most=1.0)
    draft.pay("low", 1.0, low, "torso close to the ground")
    draft.score("lies on the ground", tracks.share(held), 0.2, 0.7, weight=5.0, tag="too_high")
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
    title, value = f"gets its torso {goal:.2g} m up", tracks.highest("height")
    draft.score(title, value, 0.3 * goal, 0.95 * goal, weight=2.0, tag="too_low")
    value = tracks.share_above("height", 0.8 * goal)
    draft.score("stays up", value, 0.05, 0.4, weight=1.0, tag="falls")
    up = tracks.above("height", 0.9 * goal)
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
    stands = metrics.standing(_UPRIGHT, _TALL * rest)
    value = tracks.mean_of_end(stands, 2)
    draft.score("gets on its feet", value, 0.1, 0.9, weight=3.0, tag="stays_down")
    value = tracks.mean_of_end(stands, 10)
    draft.score("ends on its feet", value, 0.2, 0.9, weight=1.0, tag="falls")
    do_not_shake(draft)
