"""Poses (standing, balancing, sitting, lying, getting up), postures and styles."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from telic.composer import _manners as manners
from telic.composer._draft import Draft
from telic.composer._parts import bodies_of
from telic.composer._sizes import GENTLE, QUICK
from telic.composer._travel import SETTLED, seen_from_start
from telic.composer.frames import Frame, Held, Limit, Posture, Style
from telic.composer.lexicon import word_table
from telic.composer.scene import Scene
from telic.judges import metrics, tracks
from telic.judges.tracks import track
from telic.rewards import signals, terms
from telic.rewards.node import shortened
from telic.rewards.signals import Above, Below, Measured, Size
from telic.rewards.terms import Cost, Pay, Ratio, When

_GET_UP_S = 5.0
_TALL, _UPRIGHT = 0.8, 0.85
"""minimum fraction of the standing height and minimum uprightness that count as standing"""
_SEQUEL_S = 1.0
"""default rest before the next phase, in seconds"""
_SLOWS_S, _LATE = 1.2, 0.2
"""time to come to rest in seconds, and as a fraction of a stated duration"""
_OTHER_POSES = {*word_table("postures")} - {"upright", "level", "straight_line"}
_REARED, _HAUNCHES, _TILTED = 0.7, 0.6, 0.35
"""pitch of a rearing torso and of a sitting dog's torso, and minimum pitch of sitting, in rad"""
_LEANS, _OF_FOUR = {"little": 0.15, "usual": 0.26, "much": 0.5}, 0.6
"""lean of the torso in rad, and the fraction of it that four legs reach"""
_MOST_LEAN = 1.6
"""largest lean in rad"""
_BOUNDS = {"about": 1.0, "at_least": 1.4, "at_most": 0.6}
"""middle of the range of a lean, as a fraction of a stated angle"""
_DEEP = 0.3
"""height of a deep squat as a fraction between lying and standing"""
_FLAT = 0.5
"""maximum cosine of the tilt of a torso that is level, as in a plank"""
_KNEE_LEGS = 0.3
"""height of a foot lifted high, in leg lengths"""
_CLEAR_LEGS, _SEEN_UP = 0.12, 0.75
"""target height of a lifted foot in leg lengths, and the required fraction"""
OWN = {
    "sit": {"low", "upright"},
    "lie": {"lying", "low"},
    "stand_up": {"upright"},
    **{verb: {"lying"} for verb in ("jump", "flip", "roll")},
}
"""postures implied by verbs"""


# ---- verbs


def stand(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Stay at rest in place, standing unless another posture is requested."""
    manners.hold_still(scene, draft)
    is_plain = not _OTHER_POSES & set(frame.postures)
    height = frame.given("m") if frame.dimension == "height" else None
    if height is not None:
        scene.require("height", "change its height")
        about = height + (scene.stands if frame.is_change else 0.0)
        if not scene.lies < about < 1.3 * scene.stands:
            why = f"it stands {scene.stands:.2g} m high, and lies {scene.lies:.2g} m high"
            raise scene.cannot(f"torso {about:.2g} m high", why, "height")
        width = max(abs(about - scene.stands) / 3.0, 0.01)
        held = Held("torso height", "height", about - width, about + width, "m")
        manners.hold_quantity(held, scene, draft)
    elif is_plain and scene.has("height") and "height" not in {h.quantity for h in frame.held}:
        width = min(0.25, 0.4 * (scene.stands - scene.lies))
        peak = terms.Peak(Measured("height", minus=scene.stands), 0.0, width)
        draft.pay("posture", 0.5, peak, "at its standing height")
        title = f"stays within {width:.2g} m of its standing height"
        value = tracks.share(abs(track("height") - scene.stands) < width)
        draft.score(title, value, 0.3, 0.8, weight=1.5, tag="falls")
    if is_plain or scene.ends_fallen:
        manners.stay_on_feet(scene, draft)
    if is_plain:
        _do_not_move_first(frame, scene, draft)
    if scene.has("speed"):
        end_at_rest(draft, frame.duration_s or _SEQUEL_S)


def _do_not_move_first(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Constrain motion before resting. In later phases, the robot may still decelerate."""
    if scene.has("height"):
        value = tracks.highest(track("height") - scene.starts)
        draft.require("does not jump", value, 0.35, 0.15, tag="drifts")
    turns = [each for each in ("pitch_turns", "roll_turns", "heading_turns") if scene.has(each)]
    if turns:
        draft.require("does not turn", tracks.widest(tuple(turns)), 0.35, 0.15, tag="drifts")
    if frame.phase == 0 and scene.has("x_position"):
        value = tracks.widest(tuple(f"{axis}_position" for axis in scene.axes))
        draft.require("stays where it is", value, 1.5, 0.6, tag="drifts")


def end_at_rest(draft: Draft, seconds: float) -> None:
    """End the phase after the robot has been at rest for `seconds`."""
    draft.ends_when(Below(Measured("speed"), 0.3), track("speed") < 0.3, seconds)


def rest_in_time(before: Sequence[Frame], now: Sequence[Frame], draft: Draft) -> None:
    """Require a motion with a specified duration to end in time if the robot rests afterward."""
    timed = [each for each in before if each.duration_s is not None]
    is_open = any(each.amount and each.amount.rule == "at_least" for each in timed)
    if not timed or is_open or not {each.verb for each in now} <= {"stand", "stop"}:
        return
    seconds = max(each.duration_s or 0.0 for each in timed)
    late = (1.0 - SETTLED) * seconds + max(_SLOWS_S, _LATE * seconds)
    # The total time, so that a pause does not count as rest.
    value = tracks.share(track("speed") > 0.3) * tracks.full_seconds()
    draft.require(f"comes to rest within {late:.2g} s", value, 1.7 * late, late, tag="drifts")


def balance(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Keep poles, or the robot itself, upright."""
    if not scene.has("pole_angle"):
        stand(frame, scene, draft)
        return
    angle, seen, most = signals.PoleAngle(), metrics.pole_angle(), frame.given("rad")
    draft.pay("upright", 1.0, terms.SmallSquare(angle, 20.0), "poles upright")
    title = f"keeps the pole within {math.degrees(most):.3g}°" if most else "keeps the pole up"
    most = most or 0.15
    draft.score(title, tracks.share(seen < most), 0.2, 0.95, weight=3.0, tag="falls")
    lasts = frame.duration_s or _SEQUEL_S
    draft.ends_when(Below(angle, most), seen < most, lasts)


def sit(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Lower the upright torso, and hold this pose or repeat the motion a number of times."""
    scene.require("height", "sit")
    scene.require("uprightness", "sit")
    if "low" not in frame.postures and not frame.count and scene.has_front_and_rear:
        _sit_on_haunches(frame, scene, draft)
        return
    span = scene.stands - scene.lies
    share = _DEEP if frame.degree in QUICK and frame.dimension == "height" else 0.6
    target = scene.lies + (share if "low" in frame.postures else 0.45) * span
    width = 0.25 * span if share > _DEEP else 0.15 * span
    low, high = target - 0.6 * width, target + 0.6 * width
    value = tracks.share(track("uprightness") > 0.6)
    draft.require("keeps its torso upright", value, 0.2, 0.7, tag="falls")
    manners.be_upright(draft, 0.4)
    if frame.count:
        top = scene.stands - 0.15 * span
        down = ("height", -1, -high, -top)
        manners.repeat("goes down and up", down, frame, scene, draft, tag="too_high")
        return
    height = Measured("height")
    draft.pay("low", 1.0, terms.Peak(height, target, width), f"torso {target:.2g} m high")
    title = f"holds its torso {target:.2g} m high (± {0.6 * width:.2g} m)"
    value = tracks.share((track("height") > low) & (track("height") < high))
    draft.score(title, value, 0.2, 0.7, weight=5.0, tag="too_high")
    manners.hold_still(scene, draft, weight=0.5)
    lasts = frame.duration_s or _SEQUEL_S
    draft.ends_when(Above(height, shortened(low)), track("height") > low, lasts)
    draft.ends_when(Below(height, shortened(high)), track("height") < high, lasts)


def _sit_on_haunches(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Sit like a dog, with the rear down, the front up and the front feet on the ground."""
    low, front = scene.stands - 0.2 * (scene.stands - scene.lies), scene.feet("front")
    pitch, seen = Measured("pitch", sign=-1), -track("pitch")
    draft.pay("sit", 1.0, terms.Peak(pitch, _HAUNCHES, 0.3), "front above the rear")
    title, value = "sits on its haunches", tracks.share((seen > _TILTED) & (seen < 1.2))
    draft.score(title, value, 0.2, 0.7, weight=5.0, tag="under_rotates")
    feet = tuple(scene.foot_places(front))
    others = tuple(foot for foot in range(len(scene.spec.feet)) if foot not in feet)
    draft.pay("front", 0.5, Pay(signals.FeetOff(feet), -1.0, 0.0), "front feet on the ground")
    value = tracks.share(metrics.on_feet(feet, others))
    draft.require("keeps its front feet on the ground", value, 0.6, 0.2, tag="too_high")
    title, value = f"lowers its torso below {low:.2g} m", tracks.share(track("height") < low)
    draft.score(title, value, 0.2, 0.7, weight=2.0, tag="too_high")
    manners.hold_still(scene, draft, weight=0.5)
    lasts = frame.duration_s or _SEQUEL_S
    draft.ends_when(Above(pitch, _TILTED), seen > _TILTED, lasts)


def lean(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Lean the torso to a side while standing. A bow returns to upright."""
    way = frame.direction if frame.direction in ("backward", "left", "right") else "forward"
    quantity = "roll" if way in ("left", "right") else "pitch"
    scene.require(quantity, f"lean {way}")
    sign = 1 if way in ("forward", "right") else -1
    size = "little" if frame.degree in GENTLE else "much" if frame.degree in QUICK else "usual"
    angle = _LEANS[size] * (_OF_FOUR if len(scene.spec.feet) > 2 else 1.0)
    if frame.turns:
        angle = 2.0 * math.pi * frame.turns
        if angle > _MOST_LEAN:
            raise scene.cannot(f"lean by {math.degrees(angle):.0f}°", "it would lie down", quantity)
    else:
        draft.doubt(f'"{frame.word}" is interpreted as {math.degrees(angle):.0f} degrees {way}')
    if not scene.is_going:
        manners.stay_on_feet(scene, draft)
    if frame.bows:
        nods = (quantity, sign, 0.8 * angle, 0.3 * angle)
        manners.repeat("bows and comes up", nods, frame, scene, draft, tag="under_rotates")
        return
    tilt, seen = Measured(quantity, sign=sign), track(quantity, sign=sign)
    width = 0.4 * angle
    angle *= _BOUNDS[frame.amount.rule if frame.turns and frame.amount else "about"]
    words = f"leaning {way} by {angle:.2g} rad"
    draft.pay("lean", 1.0, terms.Peak(tilt, angle, 1.25 * width), words)
    title = f"leans {math.degrees(angle):.0f}° {way} (± {math.degrees(width):.0f}°)"
    value = tracks.share(abs(seen - angle) < width)
    draft.score(title, value, 0.2, 0.7, weight=5.0, tag="under_rotates")
    if not scene.is_going:
        manners.hold_still(scene, draft, weight=0.5)
    far, lasts = 0.7 * angle, frame.duration_s or _SEQUEL_S
    draft.ends_when(Above(tilt, far), seen > far, lasts)


def lie(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Lie on the ground at rest."""
    scene.require("height", "lie down")
    scene.require("uprightness", "lie down")
    span, lasts = scene.stands - scene.lies, frame.duration_s or _SEQUEL_S
    top = scene.lies + 0.25 * span
    held = metrics.lying(top, scene.is_tall)
    draft.ends_when(Below(Measured("height"), shortened(top)), held, lasts)
    if scene.is_tall:
        draft.pay("flat", 0.5, terms.Flat(), "torso level with the ground")
        draft.ends_when(Below(Size(Measured("uprightness")), 0.6), held, lasts)
    low = Ratio(Measured("height", minus=scene.stands, sign=-1), span, low=0.0, most=1.0)
    draft.pay("low", 1.0, low, "torso close to the ground")
    title, value = "lies on the ground", tracks.share(held)
    draft.score(title, value, 0.2, 0.7, weight=5.0, tag="too_high")
    manners.hold_still(scene, draft, weight=0.5)


def stand_up(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Raise the torso from lying and keep it up."""
    scene.require("height", "stand up")
    rest = scene.spec.robot.rest_height if scene.spec.robot else None
    if frame.phase == 0 and rest is not None and "starts" in scene.spec.arguments:
        _get_up(rest, frame, scene, draft)
        return
    if frame.phase == 0 and rest is not None and rest > 0.8 * scene.stands:
        draft.doubt("episodes start standing, so standing up is interpreted as staying up")
        stand(frame, scene, draft)
        return
    goal, height = scene.stands / 1.3, Measured("height")
    draft.pay("height", 1.0, Ratio(height, goal, low=None), "height of the torso")
    title, value = f"gets its torso {goal:.2g} m up", tracks.highest("height")
    draft.score(title, value, 0.3 * goal, 0.95 * goal, weight=2.0, tag="too_low")
    title, value = "stays up", tracks.share(track("height") > 0.8 * goal)
    draft.score(title, value, 0.05, 0.4, weight=1.0, tag="falls")
    up = track("height") > 0.9 * goal
    draft.ends_when(Above(height, shortened(0.9 * goal)), up, frame.duration_s or 0.3)


def _get_up(rest: float, frame: Frame, scene: Scene, draft: Draft) -> None:
    """Get up after being dropped in an arbitrary orientation, and remain standing."""
    scene.require("uprightness", "get up")
    draft.env_args["starts"] = "fallen"
    draft.doubt(f'"{frame.word}": every episode begins with a fall in a random orientation')
    draft.seconds = max(draft.seconds, _GET_UP_S, (frame.duration_s or 0.0) + _GET_UP_S)
    manners.be_upright(draft, 1.0)
    tall = Ratio(Measured("height"), rest, low=0.0, most=1.0)
    pays = terms.Both(tall, Pay(Measured("uprightness"), 0.0, 1.0))
    draft.pay("height", 1.5, pays, "height of the torso while upright")
    stands = metrics.standing(_UPRIGHT, _TALL * rest)
    title, value = "is on its feet in the second half", tracks.mean_of_end(stands, 2)
    draft.score(title, value, 0.1, 0.9, weight=3.0, tag="stays_down")
    title, value = "ends on its feet", tracks.mean_of_end(stands, 10)
    draft.score(title, value, 0.2, 0.9, weight=1.0, tag="falls")
    manners.do_not_chatter(draft)


# ---- postures


def supported(frame: Frame, scene: Scene) -> Frame:
    """Return a frame with default supporting feet or hands if the intent specifies none.

    Bipeds crawl on hands and knees. Quadrupeds with a distinct front stand on their hind legs if
    two legs are requested.
    """
    held = {*frame.postures}
    if frame.verb == "go" and frame.gait == "crawl" and scene.has_hands:
        held = held - {"low"} | {"hands"}
    feet = scene.foot_places(scene.feet("rear"))
    has_front = not scene.is_round or frame.verb == "go"
    if "two_legs" in held and has_front and len(scene.spec.feet) == 4 and len(feet) == 2:
        held = held - {"two_legs"} | {"rear_legs"}
    postures = tuple(each for each in word_table("postures") if each in held)
    return frame if held == {*frame.postures} else replace(frame, postures=postures)


def hold(posture: Posture, frame: Frame, scene: Scene, draft: Draft) -> None:
    """Reward and judge one posture, or reject it if the robot cannot adopt it."""
    is_pole = posture == "upright" and scene.has("pole_angle")
    if posture in OWN.get(frame.verb, ()) or is_pole:
        return
    if row := scene.posture(posture):
        _hold_quantity(row, scene, draft)
        return
    match posture:
        case "hands" | "plank":
            rest_on_hands(scene, draft, is_plank=posture == "plank")
        case "straight_line" if scene.has("y_position"):
            way, title = seen_from_start(frame, scene), "deviates at most 0.15 m per meter"
            if way != "ahead":
                degrees = metrics.DEGREES[way] if isinstance(way, str) else way
                aside = signals.Along(degrees + 90.0)
                draft.pay("straight", 0.4, Cost(Size(aside), most=2.0), "no lateral motion")
            draft.score(title, metrics.drift(way), 0.5, 0.15, weight=1.0, tag="drifts")
        case "straight_line":
            draft.doubt("every path in a plane is straight", holds=True)
        case _:
            _hold_feet(posture, frame, scene, draft)


def _hold_quantity(row: Mapping[str, Any], scene: Scene, draft: Draft) -> None:
    """Hold the quantity of a posture above, below or between bounds."""
    quantity, sign, (name, weight) = row["quantity"], row.get("sign", 1), row["pays"]
    low, high = row.get("low", -math.inf), row.get("high", math.inf)
    scene.require(quantity, row["what"])
    seen, signal = track(quantity, sign=sign or 1), Measured(quantity, sign=sign or 1)
    seen, signal = (seen, signal) if sign else (abs(seen), Size(signal))
    pays, limit = Pay(signal, -1.0, 1.0), 0.0
    if quantity == "height":
        span, is_low = scene.stands - scene.lies, math.isinf(low)
        low, high = scene.lies + low * span, scene.lies + high * span
        limit = high if is_low else low
        less = Measured("height", minus=limit, sign=-1 if is_low else 1)
        pays = terms.Sigmoid(less, shortened(0.1 * span))
    elif quantity != "uprightness":
        pays = terms.Peak(signal, (low + high) / 2.0, 0.8)
    title = row["title"].format(limit)
    draft.pay(name, weight, pays, title)
    score = {key: row[key] for key in ("zero", "goal", "weight", "tag")}
    draft.score(title, tracks.share(manners.within(seen, low, high)), **score)


def _hold_feet(posture: Posture, frame: Frame, scene: Scene, draft: Draft) -> None:
    """Touch the ground with only some feet or hands, selected by number, name or side."""
    what = f"be on {posture.replace('_', ' ')}"
    scene.require("foot_contact", what)
    feet = range(len(scene.spec.feet))
    # A foot that hovers just above the ground or rests on it without load appears to stand there
    # but has no contact, so require clearance.
    has_legs = scene.leg is not None and scene.has("foot_height")
    clear = _CLEAR_LEGS * scene.leg if scene.leg is not None and has_legs else None
    weight, most, rank = 1.0, 1 if posture == "one_leg" else 2, -1
    if posture in ("one_leg", "two_legs"):
        if len(feet) < most:
            raise scene.cannot(what, "it has one foot")
        if len(feet) == most:
            draft.doubt(f"it has {most} feet, so this has no effect", holds=True)
            return
        named = scene.foot_places(tuple(body for body in frame.bodies if body in scene.spec.feet))
        if named and most == 1:
            others = tuple(foot for foot in feet if foot not in named)
            title, on = f"is on its {frame.part} only", signals.OnlyFeet(others)
            held = metrics.on_feet(others)
        else:
            title, on = f"is on {'one foot' if most == 1 else 'two feet'}", signals.FewFeet(most)
            held, others, rank = metrics.on_few_feet(most), (), most
    else:
        place = "rear" if posture == "rear_legs" else "front"
        mine = scene.foot_places(scene.feet(place))
        if not mine and posture == "front_legs":
            _hold_hands(scene, draft, what)
            return
        others = tuple(foot for foot in feet if foot not in mine)
        if not mine or not others:
            raise scene.cannot(what, "its feet are not in front and behind")
        weight, title, on = 1.5, f"is on its {place} feet only", signals.OnlyFeet(others, mine)
        held = metrics.on_feet(others, mine)
    draft.pay("legs", weight, Pay(on), title)
    if clear is not None:
        held = held & (metrics.foot_clearance(others, rank) > _SEEN_UP * clear)
        words, lowest = f"other feet raised by {clear:.2g} m", signals.FeetUp(others, rank)
        draft.pay("lifted", 0.5, Ratio(lowest, clear, low=None, most=1.0), words)
    value = tracks.share(held)
    draft.score(f"{title}", value, 0.25, 0.7, weight=4.0, tag="too_low")
    if posture in ("rear_legs", "front_legs") and scene.has("pitch"):
        # Rearing up requires a pitched torso, not just balance.
        sign, end = (-1, "front") if posture == "rear_legs" else (1, "rear")
        raised = Ratio(Measured("pitch", sign=sign), _REARED, most=1.0)
        draft.pay("rear", 1.0, raised, f"{end} raised")
        title = f"raises its {end} by 40°"
        pitch = track("pitch", sign=sign)
        value = tracks.share((pitch > _REARED) & (pitch < 2.4))
        draft.score(title, value, 0.2, 0.6, weight=4.0, tag="too_low")


def rest_on_hands(scene: Scene, draft: Draft, is_plank: bool = False) -> None:
    """Stay on hands and knees, or for a plank on hands and toes, with a low, level torso.

    Quadrupeds are always on hands and knees, and cannot show a plank.
    """
    if is_plank:
        shins = bodies_of(frozenset({"shin"}), "shin", scene.spec)
        if not scene.has_hands or not shins or scene.torso is None:
            raise scene.cannot("hold a plank", "it has no hands and knees", "body_position")
        bodies = (scene.torso, *shins)
        off = Limit("no_touch", "plank", part="torso and knees", bodies=bodies)
        manners.respect(off, scene, draft)
        title, value = "keeps its torso level", tracks.share(abs(track("uprightness")) < _FLAT)
        draft.score(title, value, 0.2, 0.75, weight=3.0, tag="too_high")
    elif not scene.has_hands and len(scene.spec.feet) > 2:
        draft.doubt("it is always on all its feet", holds=True)
        return
    hands = scene.hands
    if not hands or scene.spec.robot is None:
        raise scene.cannot("be on its hands", "it has no hands", "body_position")
    least, top = scene.spec.robot.contact_threshold, 0.6 * scene.stands
    draft.pay("hands", 1.0, Pay(signals.Touching(hands, least)), "hands on the ground")
    draft.pay("flat", 0.5, terms.Flat(), "torso level")
    down = Measured("height", minus=scene.stands, sign=-1)
    low = Ratio(down, 0.5 * scene.stands, low=0.0, most=1.0)
    draft.pay("low", 0.5, low, "torso low")
    title, value = "is on its hands", tracks.share(metrics.touching(hands, least))
    draft.score(title, value, 0.1, 0.5, weight=3.0, tag="too_high")
    title, value = f"holds its torso below {top:.2g} m", tracks.share(track("height") < top)
    draft.score(title, value, 0.2, 0.75, weight=3.0, tag="too_high")


def _hold_hands(scene: Scene, draft: Draft, what: str) -> None:
    hands = scene.hands
    if not hands or scene.spec.robot is None:
        raise scene.cannot(what, "it has neither front feet nor hands", "body_position")
    least, feet = scene.spec.robot.contact_threshold, tuple(range(len(scene.spec.feet)))
    on_hands = When(signals.Touching(hands, least), Pay(signals.FeetOff(feet)))
    draft.pay("hands", 1.5, on_hands, "on its hands only")
    held = metrics.touching(hands, least) & (track("feet_in_contact") <= 0.0)
    draft.score("is on its hands only", tracks.share(held), 0.25, 0.7, weight=4.0, tag="too_low")


# ---- styles


def do_it(style: Style, frame: Frame, scene: Scene, draft: Draft) -> None:
    """Reward and judge one style."""
    if style == "own":
        draft.doubt(f'the comparison adds nothing to "{frame.word}"', holds=True)
    if style in ("efficient", "smooth", "gentle", "natural"):
        manners.save_effort(scene, draft, is_thrift=style == "efficient")
    if style == "steady" and frame.verb == "go" and scene.has("horizontal_speed"):
        title, value = "varies its speed by at most 40%", tracks.spread("horizontal_speed")
        draft.score(title, value, 1.0, 0.4, weight=1.0, tag="jitters")
    if style in ("smooth", "gentle", "natural") or (style == "steady" and not frame.count):
        manners.change_slowly(scene, draft)
    is_striding = frame.verb == "go" and scene.has("stride_alternation")
    if style == "alternating" or (style == "natural" and is_striding):
        scene.require("stride_alternation", "alternate between its feet")
        alternates = Pay(signals.SoFar("stride_alternation", 5))
        draft.pay("alternate", 0.3, alternates, "alternating sides")
        value = tracks.last("stride_alternation")
        draft.score("alternates its feet", value, 0.3, 0.75, weight=1.5, tag="one_sided")
    if style == "natural":
        draft.doubt("natural is interpreted as smooth, low-effort and with alternating feet")
    if style == "symmetric":
        scene.require("stride_alternation", "be symmetric")
        robot = scene.spec.robot
        assert robot is not None and robot.sides is not None  # implied by the quantity
        one, other = (tuple(side) for side in robot.sides)
        skew = Cost(signals.Skew(one, other, len(scene.spec.feet)))
        draft.pay("symmetric", 0.5, skew, "both sides used equally")
        value = metrics.skew(one, other)
        draft.score("uses both sides alike", value, 0.5, 0.15, weight=1.0, tag="one_sided")
    if style == "limping":
        _limp(frame, scene, draft)
    if style == "high_knees":
        scene.require("foot_height", "lift its feet high")
        high = _KNEE_LEGS * (scene.leg or 1.0)
        up = Ratio(signals.FeetUp(), high, low=None, most=1.0)
        draft.pay("clear", 0.6, up, f"a foot {high:.2g} m above the others")
        for foot in scene.spec.feet:
            lifts = tracks.cycles(metrics.rise((foot,), from_torso=False), high, 0.4 * high)
            title = f"lifts its {foot.replace('_', ' ')} {high:.2g} m high every other second"
            draft.score(title, tracks.per_second(lifts), 0.1, 0.5, weight=1.5, tag="drags")
    if style == "explosive":
        scene.require("speed", "be explosive")
        fast = max(0.5 * scene.top_speed, 0.2)
        pays = Ratio(Measured("speed"), fast, low=0.0, most=2.0)
        draft.pay("burst", 0.3, pays, "fast, in any direction")
        title, value = f"bursts to {fast:.2g} m/s", tracks.highest("speed")
        draft.score(title, value, 0.3 * fast, fast, tag="too_slow")


def _limp(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Use the specified leg or side less than the others."""
    scene.require("foot_contact", "limp")
    robot, spared = scene.spec.robot, tuple(b for b in frame.bodies if b in scene.spec.feet)
    assert robot is not None
    if spared:
        value = tracks.share(metrics.touching(spared, robot.contact_threshold))
        title = f"uses its {frame.part}"
        draft.pay("spare", 0.5, Cost(signals.Touching(spared, robot.contact_threshold)), title)
        draft.score(title, value, 0.6, 0.35, weight=3.0, tag="one_sided")
    elif robot.sides is not None:
        one, other = (tuple(side) for side in robot.sides)
        skew = Pay(signals.Skew(one, other, len(scene.spec.feet)), 0.0, 0.3)
        draft.pay("limp", 0.5, skew, "one side used more than the other")
        title, value = "uses one side more than the other", metrics.skew(one, other)
        draft.score(title, value, 0.05, 0.2, weight=3.0, tag="one_sided")
    else:
        raise scene.cannot("limp", "it has no left and right side")
