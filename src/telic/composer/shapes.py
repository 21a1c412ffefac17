"""Other structures of a composed reward: terms that are added, or paid in another way.

A reward that failed may lack a term rather than a weight. Each shape is one change of the terms of
a behaviour, against lacks that judges name: a cost for being down where the robot falls, a slope to
follow where contacts are all or nothing, feet paid by how they stand to one another instead of by a
clock. What is judged stays as it was agreed, and so does when an episode ends: a judge that counts
on a fall ending the episode would take a robot that lies there for one that stands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

from torch import Tensor

from telic.composer.draft import Draft
from telic.composer.frames import Act, Direction, Frame, Posture
from telic.composer.gaits import FLYING, Gait, gait_meant, keep_time
from telic.composer.manners import cost_of_change, face_ahead, stay_at_height
from telic.composer.scene import Scene
from telic.judges.tracks import shortened
from telic.rewards.signals import Above, Airborne, FeetUp, Gone, IsDown, Measured, Together
from telic.rewards.terms import Cost, Nearer, Pattern, Pay, Proportional, Ratio, Small, When

_POTENTIAL = ("way", "near", "low", "raise")
"""terms that say how near the goal is, so that getting nearer can be paid instead"""
_BENT = (Act.SIT, Act.LIE, Act.FLIP, Act.ROLL, Act.STAND_UP)
_LEAVING_GROUND = (Act.JUMP, Act.HOP)
_ON_THE_SPOT = (Act.STAND, Act.STOP, Act.SIT, Act.TURN, Act.BALANCE)
_CLEAR_LEGS = 0.1
"""how far a foot is lifted above the others, in lengths of the leg"""
_NEARER_PER_S = 0.5


class RewardShape(NamedTuple):
    """One change of a behaviour's terms."""

    name: str
    words: str
    """what it does, after "the reward now" """
    against: tuple[str, ...]
    """failure tags that it may help against"""
    change: Callable[[Sequence[Frame], Scene, Draft], bool]
    """changes a draft of frames that are done together; False: there is nothing to change"""


def shaped(names: Sequence[str], frames: Sequence[Frame], scene: Scene, draft: Draft) -> None:
    """Change a draft by shapes in their order."""
    for name in names:
        SHAPES[name].change(frames, scene, draft)


def _verbs(frames: Sequence[Frame]) -> set[Act]:
    return {frame.verb for frame in frames}


def _is_held_otherwise(frames: Sequence[Frame], scene: Scene) -> bool:
    """Say whether the torso shall be elsewhere than at its standing height."""
    low = {Posture.LOW, Posture.LYING, Posture.UPSIDE_DOWN, Posture.FRONT_LEGS, Posture.REAR_LEGS}
    postures = {posture for frame in frames for posture in frame.postures}
    return scene.may_fall or bool(_verbs(frames) & set(_BENT)) or bool(postures & low)


# --------------------------------------------------------------------------------------- guards


def _down(frames: Sequence[Frame], scene: Scene, draft: Draft) -> bool:
    if _is_held_otherwise(frames, scene) or not scene.has("height", "uprightness"):
        return False
    low = scene.lies + 0.4 * (scene.stands - scene.lies)
    draft.pay("down", 1.0, Cost(IsDown(low)), "lying or bent over, as a cost")
    return True


def _spot(frames: Sequence[Frame], scene: Scene, draft: Draft) -> bool:
    stays = all(
        frame.verb in _ON_THE_SPOT or frame.direction is Direction.IN_PLACE for frame in frames
    )
    if not stays or draft.has_signal("Gone") or not scene.has("displacement", "x_position"):
        return False
    away = Cost(Gone(scene.axes), most=2.0)
    draft.pay("home", 0.5, away, "being elsewhere than it began, as a cost")
    return True


def _heading(frames: Sequence[Frame], scene: Scene, draft: Draft) -> bool:
    turns = {Act.TURN, Act.CIRCLE, Act.FLIP, Act.ROLL}
    if _verbs(frames) & turns or "ahead" in set(draft.names) or not scene.has("heading_rate"):
        return False
    face_ahead(draft)
    return True


def _smooth(frames: Sequence[Frame], scene: Scene, draft: Draft) -> bool:
    if "smooth" in draft.names or not scene.has("action_change"):
        return False
    cost_of_change(scene, draft, 0.3)
    return True


# --------------------------------------------------------------------------- slopes to follow


def _tall(frames: Sequence[Frame], scene: Scene, draft: Draft) -> bool:
    is_busy = _verbs(frames) & set(_LEAVING_GROUND) or set(draft.names) & {
        "posture",
        "tall",
        "high",
    }
    if is_busy or _is_held_otherwise(frames, scene) or not scene.has("height"):
        return False
    width = max(min(0.25, 0.4 * (scene.stands - scene.lies)), 0.05)
    stay_at_height(scene, draft, width)
    return True


def _clear(frames: Sequence[Frame], scene: Scene, draft: Draft) -> bool:
    if len(scene.spec.feet) < 2 or scene.leg is None or not scene.has("foot_height"):
        return False
    up = Ratio(FeetUp(), _CLEAR_LEGS * scene.leg, low=None, most=1.0)
    draft.pay("clear", 0.4, up, "a foot lifted above the others")
    return True


def _airborne(frames: Sequence[Frame], scene: Scene, draft: Draft) -> bool:
    flies = _verbs(frames) & set(_LEAVING_GROUND) or any(frame.gait in FLYING for frame in frames)
    if not flies or set(draft.names) & {"flight", "airborne"} or not scene.has("feet_in_contact"):
        return False
    draft.pay("airborne", 0.5, Pay(Airborne()), "every moment in the air")
    return True


def _together(frames: Sequence[Frame], scene: Scene, draft: Draft) -> bool:
    if Act.HOP not in _verbs(frames) or len(scene.spec.feet) < 2:
        return False
    draft.pay("together", 0.5, Pay(Together()), "all feet on the ground, or none")
    return True


def _brake(frames: Sequence[Frame], scene: Scene, draft: Draft) -> bool:
    said = [f.amount.value for f in frames if f.amount is not None and f.amount.unit == "m"]
    made = [n for each in draft.terms for n in each.term.nodes() if n.name == "Made"]
    if "way" not in draft.names or not said or not made:
        return False
    there = Above(cast("Tensor", made[0]), shortened(0.85 * said[0]))
    draft.pay("brake", 1.0, When(there, Small(Measured("speed"), 3.0)), "at rest once it is there")
    return True


# -------------------------------------------------------------------- the same, paid otherwise


def _nearer(frames: Sequence[Frame], scene: Scene, draft: Draft) -> bool:
    """Pay getting nearer, and a little for being near, so that it stays there."""
    per_step = _NEARER_PER_S / (scene.spec.dt_s or 1.0)
    changed = [each for each in draft.terms if each.name in _POTENTIAL]
    for each in changed:
        plain = each.term.with_words("")
        pays = Nearer(each.name, plain, per_step).with_words(f"getting nearer: {each.term.words}")
        draft.terms[draft.terms.index(each)] = each._replace(term=pays)
    return bool(changed)


def _in_proportion(frames: Sequence[Frame], scene: Scene, draft: Draft) -> bool:
    """Pay closeness to a speed in proportion: a narrow peak says nothing from afar."""
    for place, each in enumerate(draft.terms):
        if each.name == "speed" and each.term.name == "Exact":
            goal = each.term["goal"]
            pays = Proportional(each.term["x"], goal)
            words = f"close to {goal:.2g} m/s, in proportion"
            draft.terms[place] = each._replace(term=pays.with_words(words))
            return True
    return False


def _pattern(frames: Sequence[Frame], scene: Scene, draft: Draft) -> bool:
    """Pay feet for standing to one another as the gait wants, instead of by a clock."""
    gait = _gait(frames, scene)
    if gait is None or "rhythm" not in draft.names or len(gait.landings) < 2:
        return False
    draft.terms = [each for each in draft.terms if each.name != "rhythm"]
    draft.is_seen = False
    landings = tuple(landing[0] for landing in gait.landings)
    words = f"feet down together or apart as in a {gait.name}"
    draft.pay("pattern", 1.0, Pattern(landings), words)
    # Standing on all feet is together as well.
    if gait.duty < 0.5:
        draft.pay("airborne", 0.4, Pay(Airborne()), "in the air between strides")
    else:
        draft.pay("grounded", 0.4, Cost(Airborne()), "in the air, as a cost")
    return True


def _clock(frames: Sequence[Frame], scene: Scene, draft: Draft) -> bool:
    """Give a gait a clock, where only its flight is paid."""
    gait = _gait(frames, scene)
    if gait is None or draft.has_signal("Beat"):
        return False
    keep_time(gait, scene, draft)
    return True


def _gait(frames: Sequence[Frame], scene: Scene) -> Gait | None:
    going = next((frame for frame in frames if frame.verb is Act.GO), None)
    return None if going is None else gait_meant(going, scene)


_ALL = (
    RewardShape("down", "charges for being down", ("falls", "ends_early"), _down),
    RewardShape("tall", "pays for the standing height", ("falls", "ends_early", "too_low"), _tall),
    RewardShape(
        "pattern",
        "pays feet for being down together or apart, without a clock",
        ("wrong_gait", "one_sided", "falls", "too_slow"),
        _pattern,
    ),
    RewardShape("clock", "keeps a beat to step by", ("wrong_gait", "one_sided"), _clock),
    RewardShape(
        "in proportion",
        "pays closeness to the speed in proportion",
        ("wrong_speed", "too_fast", "too_slow", "never_moves", "wrong_way"),
        _in_proportion,
    ),
    RewardShape(
        "nearer",
        "pays for getting nearer instead of being near",
        ("too_far", "too_slow", "never_moves", "too_high", "under_rotates", "too_low"),
        _nearer,
    ),
    RewardShape(
        "airborne",
        "pays every moment in the air",
        ("drags", "too_low", "wrong_gait", "never_moves"),
        _airborne,
    ),
    RewardShape("together", "pays for feet that land together", ("wrong_gait",), _together),
    RewardShape(
        "clear",
        "pays for a foot lifted above the others",
        ("drags", "too_low", "one_sided", "wrong_gait", "never_moves"),
        _clear,
    ),
    RewardShape("spot", "charges for being elsewhere", ("drifts",), _spot),
    RewardShape("brake", "pays for rest once it is there", ("drifts", "too_far"), _brake),
    RewardShape("heading", "charges for turning", ("drifts",), _heading),
    RewardShape("smooth", "charges for changes of the action", ("jitters",), _smooth),
)
SHAPES = {shape.name: shape for shape in _ALL}
"""by name, those that help most often first"""
