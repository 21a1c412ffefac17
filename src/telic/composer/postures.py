"""How the body is held, and in what manner something is done."""

from __future__ import annotations

from torch import Tensor

from telic.composer.draft import Draft
from telic.composer.frames import Act, Frame, Posture, Style
from telic.composer.manners import be_quieter, be_upright, change_slowly
from telic.composer.parts import bodies_of
from telic.composer.scene import Scene
from telic.judges import metrics, tracks
from telic.judges.tracks import Measure, shortened
from telic.rewards.signals import (
    FeetOff,
    FeetUp,
    FewFeet,
    Measured,
    OnlyFeet,
    Size,
    Skew,
    SoFar,
    Touching,
)
from telic.rewards.terms import Cost, Pay, Ratio, Sigmoid, When

_REARED = 0.7
"""rad, 40 degrees: from there on a torso counts as reared up"""
_CLEAR_LEGS, _SEEN_UP = 0.12, 0.75
"""how high a foot is held that shall be up, in lengths of the leg, and the part that counts"""
_WEIGHT = 2.0
OWN = {
    Act.SIT: {Posture.LOW, Posture.UPRIGHT},
    Act.LIE: {Posture.LYING, Posture.LOW},
    Act.STAND_UP: {Posture.UPRIGHT},
}
"""postures a verb has by itself"""


def hold(posture: Posture, frame: Frame, scene: Scene, draft: Draft) -> None:
    """Reward and judge one posture; refuse it where the robot cannot take it."""
    if posture in OWN.get(frame.verb, ()) or (
        posture is Posture.UPRIGHT and scene.has("pole_angle")
    ):
        return
    match posture:
        case Posture.UPRIGHT | Posture.LEVEL:
            _tilt(scene, draft, posture)
        case Posture.UPSIDE_DOWN:
            _upside_down(scene, draft)
        case Posture.LOW | Posture.HIGH | Posture.LYING:
            _height(scene, draft, posture)
        case Posture.STRAIGHT_LINE:
            _straight(scene, draft)
        case _:
            _legs(posture, frame, scene, draft)


def do_it(style: Style, frame: Frame, scene: Scene, draft: Draft) -> None:
    """Reward and judge one style."""
    match style:
        case Style.EFFICIENT:
            be_quieter(draft)
        case Style.SMOOTH | Style.GENTLE:
            be_quieter(draft)
            change_slowly(scene, draft)
        case Style.ALTERNATING:
            _alternate(scene, draft)
        case Style.SYMMETRIC:
            _symmetric(scene, draft)
        case Style.STEADY:
            _steady(frame, scene, draft)
        case Style.EXPLOSIVE:
            _explosive(scene, draft)
        case Style.NATURAL:
            _natural(frame, scene, draft)


def _tilt(scene: Scene, draft: Draft, posture: Posture) -> None:
    is_level = posture is Posture.LEVEL
    scene.require("uprightness", "keep its torso level" if is_level else "be upright")
    be_upright(draft, 0.5)
    least, title = (0.95, "keeps its torso level") if is_level else (0.85, "is upright")
    value = tracks.share_above("uprightness", least)
    draft.score(title, value, 0.3, 0.8, weight=_WEIGHT, tag="falls")


def _upside_down(scene: Scene, draft: Draft) -> None:
    scene.require("uprightness", "be upside down")
    draft.pay("upside", 1.5, Pay(Measured("uprightness", sign=-1)), "upside down")
    value = tracks.share_below("uprightness", -0.7)
    draft.score("is upside down", value, 0.1, 0.6, weight=2 * _WEIGHT, tag="under_rotates")


def _height(scene: Scene, draft: Draft, posture: Posture) -> None:
    scene.require("height", f"be {posture.value}")
    span = scene.stands - scene.lies
    if posture is Posture.HIGH:
        limit, sign, title, tag = scene.stands - 0.1 * span, 1, "holds its torso high", "too_low"
        value, way = tracks.share_above("height", limit), "above"
    else:
        share = 0.6 if posture is Posture.LOW else 0.25
        limit, sign, tag = scene.lies + share * span, -1, "too_high"
        title = "keeps its torso low" if posture is Posture.LOW else "lies on the ground"
        value, way = tracks.share_below("height", limit), "below"
    pays = Sigmoid(Measured("height", minus=limit, sign=sign), shortened(0.1 * span))
    draft.pay(posture.value, 1.0, pays, f"torso {way} {limit:.2g} m")
    draft.score(title, value, 0.2, 0.75, weight=_WEIGHT, tag=tag)


def _straight(scene: Scene, draft: Draft) -> None:
    if not scene.has("y_position"):
        draft.doubt("in a plane every way is straight", holds=True)
        return
    aside = Cost(Size(Measured("lateral_velocity")), most=2.0)
    draft.pay("straight", 0.4, aside, "not going aside")
    draft.score("goes straight", metrics.aside_per_metre(), 0.5, 0.15, weight=1.0, tag="drifts")


def _legs(posture: Posture, frame: Frame, scene: Scene, draft: Draft) -> None:
    """Touch the ground with some feet only."""
    what = f"be on {posture.value.replace('_', ' ')}"
    scene.require("foot_contact", what)
    feet = len(scene.spec.feet)
    if posture is Posture.ONE_LEG or (posture is Posture.TWO_LEGS and feet > 2):
        _so_many(posture, frame, scene, draft)
    elif posture is Posture.TWO_LEGS:
        if feet < 2:
            raise scene.cannot(what, "it has one foot")
        draft.doubt("it has two feet: being on two legs asks for nothing else")
    else:
        _only(posture, scene, draft, what)


def _so_many(posture: Posture, frame: Frame, scene: Scene, draft: Draft) -> None:
    """Be on one or two feet; on one that was named, if one was."""
    most, feet = 1 if posture is Posture.ONE_LEG else 2, len(scene.spec.feet)
    if feet <= most:
        draft.doubt(f"it has {feet} feet: this asks for nothing else")
        return
    mine = scene.foot_places(tuple(body for body in frame.bodies if body in scene.spec.feet))
    clear = _clear_m(scene)
    seen = None if clear is None else _SEEN_UP * clear
    if mine and most == 1:
        others = tuple(index for index in range(feet) if index not in mine)
        title, pays = f"is on its {frame.part} only", OnlyFeet(others)
        held, lowest = metrics.on_feet(others, clear_m=seen), FeetUp(others)
    else:
        title, pays = "is on one foot" if most == 1 else "is on two feet", FewFeet(most)
        held, lowest = metrics.on_few_feet(most, clear_m=seen), FeetUp(rank=most)
    draft.pay("legs", 1.0, Pay(pays), title)
    _lift_others(draft, lowest, clear)
    _judge_feet(draft, title, held)


def _clear_m(scene: Scene) -> float | None:
    """Return how high the feet are that shall be up; None: it has no legs to tell.

    A foot that hovers a hair above the ground, or rests on it without weight, touches nothing and
    looks as if it stood there.
    """
    return _CLEAR_LEGS * scene.leg if scene.leg is not None and scene.has("foot_height") else None


def _lift_others(draft: Draft, lowest: Tensor, clear: float | None) -> None:
    """Pay for feet that are up, by the lowest of them."""
    if clear is not None:
        words = f"the other feet up by {clear:.2g} m"
        draft.pay("lifted", 0.5, Ratio(lowest, clear, low=None, most=1.0), words)


def _only(posture: Posture, scene: Scene, draft: Draft, what: str) -> None:
    """Be on the rear or front feet, or the hands, alone."""
    place = "rear" if posture is Posture.REAR_LEGS else "front"
    mine = scene.foot_places(scene.feet(place))
    if not mine and posture is Posture.FRONT_LEGS:
        _on_hands(scene, draft, what)
        return
    others = tuple(index for index in range(len(scene.spec.feet)) if index not in mine)
    if not mine or not others:
        raise scene.cannot(what, "its feet are not in front and behind")
    draft.pay("legs", 1.5, Pay(OnlyFeet(others, mine)), f"on its {place} feet only")
    clear = _clear_m(scene)
    _lift_others(draft, FeetUp(others), clear)
    seen = None if clear is None else _SEEN_UP * clear
    held = metrics.on_feet(others, mine, clear_m=seen)
    _judge_feet(draft, f"is on its {place} feet only", held)
    _rear_up(posture, scene, draft)


def _rear_up(posture: Posture, scene: Scene, draft: Draft) -> None:
    """Raise the end of the torso that stands on nothing: balancing with it level is no rearing."""
    if not scene.has("pitch"):
        return
    sign, end = (-1, "front") if posture is Posture.REAR_LEGS else (1, "rear")
    raised = Ratio(Measured("pitch", sign=sign), _REARED, most=1.0)
    draft.pay("rear", 1.0, raised, f"its {end} raised")
    value = tracks.share_between(tracks.less("pitch", sign=sign), _REARED, 2.4)
    draft.score(f"raises its {end}", value, 0.2, 0.6, weight=2.0 * _WEIGHT, tag="too_low")


def _on_hands(scene: Scene, draft: Draft, what: str) -> None:
    hands = bodies_of(frozenset({"hand"}), "hand", scene.spec)
    if not hands or scene.spec.robot is None:
        raise scene.cannot(what, "it has neither front feet nor hands")
    least, feet = scene.spec.robot.contact_threshold, tuple(range(len(scene.spec.feet)))
    on_hands = When(Touching(tuple(hands), least), Pay(FeetOff(feet)))
    draft.pay("hands", 1.5, on_hands, "on its hands only")
    _judge_feet(draft, "is on its hands only", metrics.on_hands_only(tuple(hands), least))


def _judge_feet(draft: Draft, title: str, held: Measure) -> None:
    draft.score(title, tracks.share(held), 0.25, 0.7, weight=2.0 * _WEIGHT, tag="too_low")


def _alternate(scene: Scene, draft: Draft) -> None:
    scene.require("stride_alternation", "alternate between its feet")
    draft.pay("alternate", 0.3, Pay(SoFar("stride_alternation", 5)), "one side after the other")
    value = tracks.last("stride_alternation")
    draft.score("alternates its feet", value, 0.3, 0.75, weight=1.5, tag="one_sided")


def _symmetric(scene: Scene, draft: Draft) -> None:
    scene.require("stride_alternation", "be symmetric")
    robot = scene.spec.robot
    assert robot is not None and robot.sides is not None  # the quantity says so
    one, other = (tuple(side) for side in robot.sides)
    skew = Cost(Skew(one, other, len(scene.spec.feet)))
    draft.pay("symmetric", 0.5, skew, "both sides used alike")
    value = metrics.skew(one, other)
    draft.score("uses both sides alike", value, 0.5, 0.15, weight=1.0, tag="one_sided")


def _steady(frame: Frame, scene: Scene, draft: Draft) -> None:
    if frame.verb is Act.GO and scene.has("horizontal_speed"):
        value = tracks.spread("horizontal_speed")
        draft.score("keeps its pace", value, 1.0, 0.4, weight=1.0, tag="jitters")
    change_slowly(scene, draft)


def _explosive(scene: Scene, draft: Draft) -> None:
    scene.require("speed", "be explosive")
    fast = max(0.5 * scene.top_speed, 0.2)
    pays = Ratio(Measured("speed"), fast, low=0.0, most=2.0)
    draft.pay("burst", 0.3, pays, "fast, whatever the direction")
    value = tracks.highest("speed")
    draft.score("bursts into motion", value, 0.3 * fast, fast, tag="too_slow")


def _natural(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Move without haste or waste, and on one foot after the other where it walks."""
    be_quieter(draft)
    change_slowly(scene, draft)
    if frame.verb is Act.GO and scene.has("stride_alternation"):
        _alternate(scene, draft)
    draft.doubt("natural is taken as smooth, gentle on the motors and with alternating feet")
