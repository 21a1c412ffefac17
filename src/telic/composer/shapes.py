"""Other structures of a composed reward: terms that are added, or paid in another way.

A reward that failed may lack a term rather than a weight. Each shape is one change of the terms of
a behaviour, against failure tags that judges report. The judge stays as agreed, and so does
termination: a judge that counts on a fall ending the episode would take a robot that lies there
for one that stands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

from torch import Tensor

from telic.composer._draft import Draft
from telic.composer._gaits import FLYING, Gait, gait_meant, keep_time
from telic.composer._manners import charge_change, face_ahead, stay_at_height
from telic.composer.frames import Act, Frame
from telic.composer.scene import Scene
from telic.rewards.node import shortened
from telic.rewards.signals import Above, Airborne, FeetUp, Gone, IsDown, Measured, Together
from telic.rewards.terms import Cost, Nearer, Pattern, Pay, Proportional, Ratio, Small, When

_BENT = {"sit", "lie", "flip", "roll", "stand_up"}
_LOW = {"low", "lying", "upside_down", "front_legs", "rear_legs"}
_IN_PLACE = ("stand", "stop", "sit", "turn", "balance")
_CLEAR_LEGS = 0.1
"""how far a foot is lifted above the others, in lengths of the leg"""
_NEARER_PER_S = 0.5

_Change = Callable[[Sequence[Frame], Scene, Draft], None]


class RewardShape(NamedTuple):
    """One change of a behaviour's terms."""

    name: str
    words: str
    """what it does, after "the reward now" """
    against: tuple[str, ...]
    """failure tags that it may help against"""
    change: _Change
    """changes a draft of frames that are done together, where there is something to change"""


SHAPES: dict[str, RewardShape] = {}
"""by name, those that help most often first"""


def _shape(words: str, against: str) -> Callable[[_Change], _Change]:
    def register(change: _Change) -> _Change:
        name = change.__name__.strip("_").replace("_", " ")
        SHAPES[name] = RewardShape(name, words, tuple(against.split()), change)
        return change

    return register


def _verbs(frames: Sequence[Frame]) -> set[Act]:
    return {frame.verb for frame in frames}


def _stands_tall(frames: Sequence[Frame], scene: Scene) -> bool:
    postures = {posture for frame in frames for posture in frame.postures}
    return not (scene.may_fall or _verbs(frames) & _BENT or postures & _LOW)


def _gait(frames: Sequence[Frame], scene: Scene) -> Gait | None:
    going = next((frame for frame in frames if frame.verb == "go"), None)
    return None if going is None else gait_meant(going, scene)


@_shape("charges for being down", "falls ends_early")
def _down(frames: Sequence[Frame], scene: Scene, draft: Draft) -> None:
    if _stands_tall(frames, scene) and scene.has("height", "uprightness"):
        low = scene.lies + 0.4 * (scene.stands - scene.lies)
        draft.pay("down", 1.0, Cost(IsDown(low)), "lying or bent over, as a cost")


@_shape("pays for the standing height", "falls ends_early too_low")
def _tall(frames: Sequence[Frame], scene: Scene, draft: Draft) -> None:
    is_paid = set(draft.names) & {"posture", "tall", "high"}
    flies = _verbs(frames) & {"jump", "hop"}
    if not is_paid and not flies and _stands_tall(frames, scene) and scene.has("height"):
        stay_at_height(scene, draft, max(min(0.25, 0.4 * (scene.stands - scene.lies)), 0.05))


@_shape(
    "pays feet for being down together or apart, without a clock",
    "wrong_gait one_sided falls too_slow",
)
def _pattern(frames: Sequence[Frame], scene: Scene, draft: Draft) -> None:
    gait = _gait(frames, scene)
    if gait is None or "rhythm" not in draft.names or len(gait.landings) < 2:
        return
    draft.terms = [each for each in draft.terms if each.name != "rhythm"]
    draft.is_seen = False
    pays = Pattern(tuple(landing[0] for landing in gait.landings))
    draft.pay("pattern", 1.0, pays, f"feet down together or apart as in a {gait.name}")
    # Standing on all feet is together as well.
    if gait.duty < 0.5:
        draft.pay("airborne", 0.4, Pay(Airborne()), "in the air between strides")
    else:
        draft.pay("grounded", 0.4, Cost(Airborne()), "in the air, as a cost")


@_shape("keeps a beat to step by", "wrong_gait one_sided")
def _clock(frames: Sequence[Frame], scene: Scene, draft: Draft) -> None:
    gait = _gait(frames, scene)
    if gait is not None and not draft.has_signal("Beat"):
        keep_time(gait, scene, draft)


@_shape(
    "pays closeness to the speed in proportion",
    "wrong_speed too_fast too_slow never_moves wrong_way",
)
def _in_proportion(frames: Sequence[Frame], scene: Scene, draft: Draft) -> None:
    # A narrow peak says nothing from afar.
    for place, each in enumerate(draft.terms):
        if each.name == "speed" and each.term.name == "Exact":
            goal = each.term["goal"]
            words = f"close to {goal:.2g} m/s, in proportion"
            pays = Proportional(each.term["x"], goal).with_words(words)
            draft.terms[place] = each._replace(term=pays)


@_shape(
    "pays for getting nearer instead of being near",
    "too_far too_slow never_moves too_high under_rotates too_low",
)
def _nearer(frames: Sequence[Frame], scene: Scene, draft: Draft) -> None:
    # And a little for being near, so that it stays there.
    per_step = _NEARER_PER_S / (scene.spec.dt_s or 1.0)
    for place, each in enumerate(draft.terms):
        if each.name in ("way", "near", "low", "raise"):
            pays = Nearer(each.name, each.term.with_words(""), per_step)
            words = f"getting nearer: {each.term.words}"
            draft.terms[place] = each._replace(term=pays.with_words(words))


@_shape("pays every moment in the air", "drags too_low wrong_gait never_moves")
def _airborne(frames: Sequence[Frame], scene: Scene, draft: Draft) -> None:
    flies = any(each.verb in ("jump", "hop") or each.gait in FLYING for each in frames)
    if flies and not {*draft.names} & {"flight", "airborne"} and scene.has("feet_in_contact"):
        draft.pay("airborne", 0.5, Pay(Airborne()), "every moment in the air")


@_shape("pays for feet that land together", "wrong_gait")
def _together(frames: Sequence[Frame], scene: Scene, draft: Draft) -> None:
    if "hop" in _verbs(frames) and len(scene.spec.feet) > 1:
        draft.pay("together", 0.5, Pay(Together()), "all feet on the ground, or none")


@_shape("pays for a foot lifted above the others", "drags too_low one_sided wrong_gait never_moves")
def _clear(frames: Sequence[Frame], scene: Scene, draft: Draft) -> None:
    if len(scene.spec.feet) > 1 and scene.leg is not None and scene.has("foot_height"):
        up = Ratio(FeetUp(), _CLEAR_LEGS * scene.leg, low=None, most=1.0)
        draft.pay("clear", 0.4, up, "a foot lifted above the others")


@_shape("charges for being elsewhere", "drifts")
def _spot(frames: Sequence[Frame], scene: Scene, draft: Draft) -> None:
    stays = all(frame.verb in _IN_PLACE or frame.direction == "in_place" for frame in frames)
    if stays and not draft.has_signal("Gone") and scene.has("displacement", "x_position"):
        away = Cost(Gone(scene.axes), most=2.0)
        draft.pay("home", 0.5, away, "being elsewhere than it began, as a cost")


@_shape("pays for rest once it is there", "drifts too_far")
def _brake(frames: Sequence[Frame], scene: Scene, draft: Draft) -> None:
    said = [f.amount.value for f in frames if f.amount is not None and f.amount.unit == "m"]
    made = [n for each in draft.terms for n in each.term.nodes() if n.name == "Made"]
    if "way" in draft.names and said and made:
        there = Above(cast("Tensor", made[0]), shortened(0.85 * said[0]))
        pays = When(there, Small(Measured("speed"), 3.0))
        draft.pay("brake", 1.0, pays, "at rest once it is there")


@_shape("charges for turning", "drifts")
def _heading(frames: Sequence[Frame], scene: Scene, draft: Draft) -> None:
    turns = {"turn", "circle", "flip", "roll"}
    if not _verbs(frames) & turns and scene.has("heading_rate"):
        face_ahead(draft)


@_shape("charges for changes of the action", "jitters")
def _smooth(frames: Sequence[Frame], scene: Scene, draft: Draft) -> None:
    if scene.has("action_change"):
        charge_change(scene, draft, 0.3)
