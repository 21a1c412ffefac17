"""Behaviors of hands, feet and poles: reaching, lifting, kicking, waving and swinging up."""

from __future__ import annotations

from dataclasses import replace

from telic.composer._draft import Draft
from telic.composer._manners import do_not_chatter, do_not_thrash, repeat, stay_on_feet
from telic.composer._sizes import QUICK
from telic.composer.frames import Frame
from telic.composer.scene import Scene
from telic.judges import metrics, tracks
from telic.judges.tracks import track
from telic.rewards import signals, terms
from telic.rewards.signals import Above, Below, Measured, Part
from telic.rewards.terms import Pay, Ratio, Small

_RAISE_M, _WAVE_M, _KICK_MPS = 0.3, 0.15, 2.0
_AWAY_M, _REACH_S = 0.12, 3.0
"""minimum distance from an avoided target in m, and maximum episode length for reaching in s"""


def reach(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Bring the hand to the target and keep it there."""
    away = "distance_to_target"
    scene.require(away, "reach for a target")
    if frame.count:
        repeat("touches the target", (away, -1, -0.03, -0.08), frame, scene, draft, tag="too_far")
        return
    draft.pay("near", 1.0, terms.Near(Measured(away), 10.0), "close to the target")
    title, value = "gets within 0.03 m of the target", tracks.lowest(away)
    draft.score(title, value, 0.12, 0.03, weight=2.0, tag="too_far")
    value = tracks.share(track(away) < 0.04)
    draft.score("stays at the target", value, 0.1, 0.5, weight=1.0, tag="drifts")
    if frame.degree in QUICK:
        value = tracks.share_until(track(away) < 0.06)
        title = "gets there in the first 35% of the time"
        draft.score(title, value, 0.7, 0.35, weight=1.0, tag="too_slow")
    draft.ends_when(Below(Measured(away), 0.04), track(away) < 0.04)
    spec = scene.spec
    lasts = spec.max_episode_steps * spec.dt_s if spec.max_episode_steps and spec.dt_s else 1.0
    draft.seconds = min(max(lasts, 1.0), _REACH_S)


def keep_away(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Keep the hand away from the target."""
    away = "distance_to_target"
    scene.require(away, "keep away from a target")
    far = Ratio(Measured(away), _AWAY_M, low=0.0, most=1.0)
    draft.pay("away", 1.0, far, f"distance to the target, up to {_AWAY_M:g} m")
    title, held = f"keeps {_AWAY_M:g} m away from the target", track(away) > _AWAY_M
    draft.score(title, tracks.share(held), 0.3, 0.9, weight=3.0, tag="too_far")
    draft.ends_when(Above(Measured(away), _AWAY_M), held, 1.0)
    do_not_thrash(scene, draft)


def lift(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Hold a foot off the ground, or hold a hand up."""
    ends = _ends(frame, scene, "lift")
    if all(end in scene.spec.feet for end in ends):
        name, mine = frame.part or "foot", scene.foot_places(ends)
        others = tuple(foot for foot in range(len(scene.spec.feet)) if foot not in mine)
        if not others:
            raise scene.cannot(f"lift its {name}", "it has no other foot to stand on")
        off, held = signals.OnlyFeet(mine, others), metrics.on_feet(mine, others)
        draft.pay("off", 1.0, Pay(off), f"{name} off the ground, standing on the others")
        if not scene.is_going:
            draft.pay("still", 0.5, Small(Measured("speed"), 2.0), "staying in place")
        if up := frame.given("m"):
            lifted = Ratio(signals.FeetUp(mine), up, low=None, most=1.0)
            draft.pay("lifted", 0.5, lifted, f"{name} raised by {up:.2g} m")
            held = held & (metrics.foot_clearance(mine) > 0.8 * up)
        value = tracks.share(held)
        title = f"holds its {name} {up:.2g} m up" if up else f"holds its {name} up"
        draft.score(title, value, 0.3, 0.8, weight=4.0, tag="too_low")
        title, value = f"keeps its {name} up for %s", tracks.longest(held)
        draft.score(title, value, 0.3, frame.duration_s or 1.5, weight=2.0, tag="jitters")
        _stay(scene, draft)
        draft.ends_when(Above(off, 0.5), held, frame.duration_s or 0.5)
    else:
        name, torso, target = frame.part or "limb", scene.has("height"), frame.given("m")
        if not target or target > 2 * _RAISE_M:  # a hand raised "to 1.2 m"
            target = target or _RAISE_M
            draft.doubt(f'"{frame.word}" is interpreted as {target:g} m above its initial height')
        rise = signals.Rise(ends, from_torso=torso)
        seen = metrics.rise(ends, from_torso=torso)
        meaning = f"{name} above its initial height, as a fraction of {target:.2g} m"
        draft.pay("raise", 1.0, Ratio(rise, target, low=-0.5, most=1.0), meaning)
        title, value = f"raises its {name} %s", tracks.highest(seen)
        draft.score(title, value, 0.2 * target, 0.9 * target, weight=1.5, tag="too_low")
        value = tracks.share(seen > 0.7 * target)
        draft.score(f"keeps its {name} up", value, 0.2, 0.7, weight=3.0, tag="too_low")
        up = 0.8 * target
        draft.ends_when(Above(rise, up), seen > up, frame.duration_s or 0.3)
    _keep_control(frame, scene, draft)
    if frame.duration_s:
        draft.seconds = max(frame.duration_s + 2.0, 4.0)


def swing(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Swing up a pole, or wave a limb up and down."""
    if scene.has("pole_angle") and (frame.direction == "up" or frame.part is not None):
        _swing_up(scene, draft)
        return
    ends = _ends(frame, scene, "swing")
    name, reach_m, torso = frame.part or "limb", frame.given("m") or _WAVE_M, scene.has("height")
    if frame.word.startswith("sw"):
        draft.doubt(f'"{frame.word}" is judged as moving up and down, like a wave')
    rise = signals.Rise(ends, highest=True, from_torso=torso)
    waves = signals.Cycles(rise, reach_m, 0.3 * reach_m)
    draft.pay("wave", 1.0, terms.Done(waves), f"once per wave of the {name}")
    draft.pay("next", 0.5, terms.BackAndForth(waves, reach_m), "on the way up, then down")
    seen = metrics.rise(ends, highest=True, from_torso=torso)
    times = tracks.cycles(seen, reach_m, 0.3 * reach_m)
    if frame.count:
        draft.counted(f"waves its {name}", tracks.last(times), frame, tag="too_low")
    else:
        title, value = f"waves its {name} at least 0.7 times per second", tracks.per_second(times)
        draft.score(title, value, 0.1, 0.7, weight=3.0, tag="too_low")
    _stay(scene, draft)
    _keep_control(frame, scene, draft)
    done = (frame.count or 2) - 0.5
    draft.ends_when(Above(Part(waves, "times"), done), times > done)


def _swing_up(scene: Scene, draft: Draft) -> None:
    """Bring poles from hanging to upright."""
    angle, seen = signals.PoleAngle(), metrics.pole_angle()
    draft.pay("raise", 1.0, terms.Cosine(angle), "height of the pole tips")
    value = tracks.share(seen < 0.3)
    draft.score("keeps the pole up", value, 0.15, 0.5, weight=3.0, tag="too_low")
    title, value = "the pole is up in the last second", tracks.mean_of_last(seen, 1.0)
    draft.score(title, value, 1.0, 0.3, weight=2.0, tag="falls")
    if scene.on_rail:
        draft.doubt("episodes start with the pole upright, so it must be swung up after a fall")
    draft.ends_when(Below(angle, 0.3), seen < 0.3)


def kick(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Swing a foot forward while standing on another foot or lying down."""
    scene.require("forward_velocity", "kick")
    foot = _ends(frame, scene, "kick with")[0]
    if foot not in scene.spec.feet:
        raise scene.cannot(f"kick with its {frame.part}", "that is not a foot")
    mine = scene.foot_places((foot,))[0]
    others = tuple(index for index in range(len(scene.spec.feet)) if index != mine)
    if not others:
        raise scene.cannot("kick", "it has no other foot to stand on")
    others = () if "lying" in frame.postures else others
    sign = -1 if frame.direction == "backward" else 1
    speed = _KICK_MPS * (0.5 if frame.degree in ("slow", "little") else 1.0)
    fast = signals.KickSpeed(foot, mine, others, sign)
    ahead = tracks.column(track("body_position", foot), 0) - track("x_position")
    swing = tracks.rate_of(ahead if sign > 0 else -ahead)
    free = metrics.on_feet((mine,), others) if others else metrics.lifted(mine)
    words = "speed of the free foot relative to the torso"
    seen = replace(swing * free, words=words, unit="m/s")
    draft.pay("kick", 2.0, Ratio(fast, speed, low=0.0, most=1.5), words)
    title, value = f"swings its {frame.part or 'foot'} at %s", tracks.highest(seen)
    draft.score(title, value, 0.2 * speed, speed, weight=3.0, tag="too_slow")
    wanted = frame.count or 1
    title = f"kicks {wanted} times" if frame.count else "kicks and takes the foot back"
    value = tracks.last(tracks.repeats(free & (swing > 0.6 * speed), swing < 0.0))
    draft.score(title, value, 0.0, float(wanted), weight=1.5, tag="too_slow")
    _keep_control(frame, scene, draft)
    draft.ends_when(Above(fast, 0.6 * speed), seen > 0.6 * speed)
    draft.seconds = max(3.0, 1.5 * wanted + 1.5)


def _stay(scene: Scene, draft: Draft) -> None:
    """Judge that the robot stays in place, unless it also travels or cannot move away."""
    if not scene.is_going and scene.has("speed"):
        value = tracks.share(track("speed") < 0.5)
        draft.score("stays where it is", value, 0.3, 0.8, weight=1.0, tag="drifts")


def _keep_control(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Penalize thrashing and, unless the robot should lie down, falling."""
    do_not_thrash(scene, draft)
    if "lying" in frame.postures:
        do_not_chatter(draft)
    else:
        stay_on_feet(scene, draft)


def _ends(frame: Frame, scene: Scene, what: str) -> tuple[str, ...]:
    """Return the outermost bodies (feet or hands) of the named part."""
    spec = scene.spec
    if spec.robot is None or not spec.body_names:
        raise scene.cannot(f"{what} anything", "it has no body parts", "body_position")
    scene.require("body_height", f"{what} a limb")
    if (
        not scene.has("height")
        and "target_y" in spec.joint_names
        and "target_z" not in spec.joint_names
    ):
        raise scene.cannot(f"{what} anything", "its arm moves in a plane", "body_position")
    if frame.part and not frame.bodies:
        names = ", ".join(name for name in spec.body_names if name != "world")
        why = f"its bodies are {names}"
        raise scene.cannot(f"{what} its {frame.part}", why, "body_position")
    if not frame.bodies:  # default: a hand to wave, a foot to kick
        hands = [name for name in spec.body_names if "lower_arm" in name or "hand" in name]
        if what == "swing" and hands:
            return (hands[0],)
        feet = scene.feet("front") or scene.feet("right") or spec.feet
        if not feet and "fingertip" in spec.body_names:
            return ("fingertip",)
        if not feet:
            raise scene.cannot(f"{what} a limb", "it has neither feet nor hands")
        return feet[:1]
    if spec.torso in frame.bodies:
        why = "all other bodies are attached to it"
        raise scene.cannot(f"{what} its {frame.part}", why, "body_position")
    if feet := tuple(body for body in frame.bodies if body in spec.feet):
        # "a foot" may be any: of equally named feet, one is chosen
        is_any = frame.part in ("foot", "leg") or str(frame.part).startswith("one ")
        return feet[:1] if is_any else feet
    sides = [[body for body in frame.bodies if side in body] for side in ("left", "right")]
    return tuple(side[-1] for side in sides if side) or frame.bodies[-1:]
