"""Doing something with a hand, a foot or a pole: reaching, lifting, kicking, waving, swinging."""

from __future__ import annotations

from telic.composer.draft import Credit, Draft
from telic.composer.frames import Degree, Direction, Frame, Posture
from telic.composer.manners import do_it_on_purpose, do_not_shake, stay_on_feet
from telic.composer.scene import Scene
from telic.composer.sizes import QUICK
from telic.judges import metrics, tracks
from telic.rewards.signals import (
    Above,
    Below,
    Cycles,
    KickSpeed,
    Measured,
    OnlyFeet,
    Part,
    PoleAngle,
    Rise,
)
from telic.rewards.terms import BackAndForth, Cosine, Done, Near, Pay, Ratio, Small

_RAISE_M = 0.3
_REACH_S = 3.0
"""time to get to a target and stay there, at the most"""
_WAVE_M = 0.15
_KICK_MPS = 2.0
_SIDES = ("left", "right")


def reach(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Bring the hand to the target and keep it there."""
    away = "distance_to_target"
    scene.require(away, "reach for a target")
    draft.pay("near", 1.0, Near(Measured(away), 10.0), "close to the target")
    draft.score("gets to the target", tracks.lowest(away), 0.12, 0.03, weight=2.0, tag="too_far")
    draft.score("stays there", tracks.share_below(away, 0.04), 0.1, 0.5, weight=1.0, tag="drifts")
    if frame.degree in QUICK:
        value = tracks.share_until(tracks.below(away, 0.06))
        draft.score("gets there quickly", value, 0.7, 0.35, weight=1.0, tag="too_slow")
    draft.ends_when(Below(Measured(away), 0.04), tracks.below(away, 0.04))
    spec = scene.spec
    lasts = spec.max_episode_steps * spec.dt_s if spec.max_episode_steps and spec.dt_s else 1.0
    draft.seconds = min(max(lasts, 1.0), _REACH_S)


def lift(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Hold a foot off the ground, or a hand up."""
    ends = _ends(frame, scene, "lift")
    if all(end in scene.spec.feet for end in ends):
        _lift_feet(frame, scene, draft, ends)
    else:
        _raise(frame, scene, draft, ends)
    do_it_on_purpose(scene, draft)
    _keep_posture(frame, scene, draft)
    if frame.duration_s:
        draft.seconds = max(frame.duration_s + 2.0, 4.0)


def _lift_feet(frame: Frame, scene: Scene, draft: Draft, feet: tuple[str, ...]) -> None:
    mine = scene.foot_places(feet)
    others = tuple(index for index in range(len(scene.spec.feet)) if index not in mine)
    name = frame.part or "foot"
    if not others:
        raise scene.cannot(f"lift its {name}", "it has no other foot to stand on")
    off = OnlyFeet(mine, others)
    draft.pay("off", 1.0, Pay(off), f"{name} off the ground, on the others")
    if not scene.is_going:
        draft.pay("still", 0.5, Small(Measured("speed"), 2.0), "not going anywhere")
    held = metrics.on_feet(mine, others)
    draft.score(f"holds its {name} up", tracks.share(held), 0.3, 0.8, weight=4.0, tag="too_low")
    value, credit = tracks.longest(held), Credit(weight=2.0, tag="jitters")
    draft.score(f"keeps its {name} up", value, 0.3, frame.duration_s or 1.5, **credit)
    _stay(scene, draft)
    draft.ends_when(Above(off, 0.5), held, frame.duration_s or 0.5)


def _stay(scene: Scene, draft: Draft) -> None:
    """Judge that it does not wander off, unless it is to go somewhere meanwhile."""
    if not scene.is_going:
        value = tracks.share_below("speed", 0.5)
        draft.score("stays where it is", value, 0.3, 0.8, weight=1.0, tag="drifts")


def _keep_posture(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Guard against falling; who lies has nothing to fall from."""
    if Posture.LYING in frame.postures:
        do_not_shake(draft)
    else:
        stay_on_feet(scene, draft)


def _raise(frame: Frame, scene: Scene, draft: Draft, ends: tuple[str, ...]) -> None:
    amount, name = frame.amount, frame.part or "limb"
    is_said = amount is not None and amount.unit == "m" and amount.value > 0.0
    target = amount.value if amount and is_said else _RAISE_M
    if not is_said:
        draft.doubt(f'"{frame.word}" is taken as {target:g} m above where the {name} began')
    from_torso = scene.has("height")
    rise = Rise(ends, from_torso=from_torso)
    seen = metrics.rise(ends, from_torso=from_torso)
    meaning = f"{name} above where it began, in parts of {target:.2g} m"
    draft.pay("raise", 1.0, Ratio(rise, target, low=-0.5, most=1.0), meaning)
    title, value = f"raises its {name} {target:.2g} m", tracks.highest(seen)
    draft.score(title, value, 0.2 * target, 0.9 * target, weight=1.5, tag="too_low")
    value = tracks.share_above(seen, 0.7 * target)
    draft.score(f"keeps its {name} up", value, 0.2, 0.7, weight=3.0, tag="too_low")
    up = 0.8 * target
    draft.ends_when(Above(rise, up), tracks.above(seen, up), frame.duration_s or 0.3)


def swing(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Swing up a pole, or wave a limb up and down."""
    if scene.has("pole_angle") and (frame.direction is Direction.UP or frame.part is not None):
        swing_up(scene, draft)
        return
    ends = _ends(frame, scene, "swing")
    name, amount = frame.part or "limb", frame.amount
    reach_m = amount.value if amount and amount.unit == "m" and amount.value > 0.0 else _WAVE_M
    torso = scene.has("height")
    waves = Cycles(Rise(ends, highest=True, from_torso=torso), reach_m, 0.3 * reach_m)
    draft.pay("wave", 1.0, Done(waves), f"once per wave of the {name}")
    draft.pay("next", 0.5, BackAndForth(waves, reach_m), "on the way up, then down")
    seen = metrics.rise(ends, highest=True, from_torso=torso)
    times = tracks.cycles(seen, reach_m, 0.3 * reach_m)
    title, credit = f"waves its {name}", Credit(weight=3.0, tag="too_low")
    if frame.count:
        draft.counted(title, tracks.last(times), frame, **credit)
    else:
        draft.score(title, tracks.per_second(times), 0.1, 0.7, **credit)
    _stay(scene, draft)
    do_it_on_purpose(scene, draft)
    _keep_posture(frame, scene, draft)
    done = (frame.count or 2) - 0.5
    draft.ends_when(Above(Part(waves, "times"), done), tracks.above(times, done))


def kick(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Throw a foot forward while standing on another, or lying."""
    scene.require("forward_velocity", "kick")
    (foot, *_) = _ends(frame, scene, "kick with")
    if foot not in scene.spec.feet:
        raise scene.cannot(f"kick with its {frame.part}", "that is not a foot")
    mine = scene.foot_places((foot,))[0]
    others = tuple(index for index in range(len(scene.spec.feet)) if index != mine)
    if not others:
        raise scene.cannot("kick", "it has no other foot to stand on")
    sign = -1 if frame.direction is Direction.BACKWARD else 1
    others = () if Posture.LYING in frame.postures else others
    speed = _KICK_MPS * (0.5 if frame.degree in (Degree.SLOW, Degree.LITTLE) else 1.0)
    fast = KickSpeed(foot, mine, others, sign)
    meaning = "speed of the free foot, seen from the torso"
    draft.pay("kick", 2.0, Ratio(fast, speed, low=0.0, most=1.5), meaning)
    seen = metrics.kick_speed(foot, mine, others, sign)
    title = f"swings its {frame.part or 'foot'} at {speed:.2g} m/s"
    draft.score(title, tracks.highest(seen), 0.2 * speed, speed, weight=3.0, tag="too_slow")
    wanted = frame.count or 1
    title = f"kicks {wanted} times" if frame.count else "kicks and takes the foot back"
    value = tracks.last(metrics.kicks(foot, mine, 0.6 * speed, others, sign))
    draft.score(title, value, 0.0, float(wanted), weight=1.5, tag="too_slow")
    do_it_on_purpose(scene, draft)
    _keep_posture(frame, scene, draft)
    draft.ends_when(Above(fast, 0.6 * speed), tracks.above(seen, 0.6 * speed))
    draft.seconds = max(3.0, 1.5 * wanted + 1.5)


def _ends(frame: Frame, scene: Scene, what: str) -> tuple[str, ...]:
    """Return the outermost bodies of the part that is meant: feet and hands."""
    if scene.spec.robot is None or not scene.spec.body_names:
        raise scene.cannot(f"{what} anything", "it has no body parts")
    scene.require("height", f"{what} a limb")
    if frame.part and not frame.bodies:
        names = ", ".join(name for name in scene.spec.body_names if name != "world")
        raise scene.cannot(f"{what} its {frame.part}", f"its bodies are {names}")
    if not frame.bodies:
        return _usual(frame, scene, what)
    if scene.spec.torso in frame.bodies:
        raise scene.cannot(f"{what} its {frame.part}", "that is what all else hangs on")
    feet = tuple(body for body in frame.bodies if body in scene.spec.feet)
    if feet:
        # "a foot" may be any: of a name that all feet share, one is meant
        return feet[:1] if frame.part in ("foot", "leg") else feet
    sides = [[body for body in frame.bodies if side in body] for side in _SIDES]
    found = tuple(side[-1] for side in sides if side)
    return found or frame.bodies[-1:]


def _usual(frame: Frame, scene: Scene, what: str) -> tuple[str, ...]:
    """Return the limb that is meant where none was named: a hand to wave, a foot to kick."""
    hands = tuple(name for name in scene.spec.body_names if "lower_arm" in name or "hand" in name)
    if what == "swing" and hands:
        return hands[:1]
    feet = scene.feet("front") or scene.feet("right") or scene.spec.feet
    if not feet:
        raise scene.cannot(f"{what} a limb", "it has neither feet nor hands")
    return feet[:1]


def swing_up(scene: Scene, draft: Draft) -> None:
    """Bring poles from hanging to upright."""
    draft.pay("raise", 1.0, Cosine(PoleAngle()), "how far up the poles point")
    angle = metrics.pole_angle()
    title, value = "gets the pole up and keeps it there", tracks.share_below(angle, 0.3)
    draft.score(title, value, 0.15, 0.5, weight=3.0, tag="too_low")
    value = tracks.mean_of_last(angle, 1.0)
    draft.score("it is up at the end", value, 1.0, 0.3, weight=2.0, tag="falls")
    if scene.on_rail:
        draft.doubt("episodes start with the pole up: it must be caught again when it has fallen")
    draft.ends_when(Below(PoleAngle(), 0.3), tracks.below(angle, 0.3))
