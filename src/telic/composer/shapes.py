"""Other structures of a composed reward: terms that are added, or paid in another way.

A reward that failed may lack a term rather than a weight. Each shape is one change of the terms of
a behaviour, against lacks that judges name: a cost for being down where the robot falls, a slope to
follow where contacts are all or nothing, feet paid by how they stand to one another instead of by a
clock. What is judged stays as it was agreed, and so does when an episode ends: a judge that counts
on a fall ending the episode would take a robot that lies there for one that stands.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from telic.composer.draft import Draft, Term
from telic.composer.frames import Act, Direction, Frame, Posture
from telic.composer.gaits import FLYING, Gait, gait_meant, step_in
from telic.composer.manners import cost_of_change, know_the_way_back
from telic.composer.scene import Scene

_POTENTIAL = ("way", "near", "low", "raise")
"""terms that say how near the goal is, so that getting nearer can be paid instead"""
_BENT = (Act.SIT, Act.LIE, Act.FLIP, Act.ROLL, Act.STAND_UP)
_LEAVING_GROUND = (Act.JUMP, Act.HOP)
_ON_THE_SPOT = (Act.STAND, Act.STOP, Act.SIT, Act.TURN, Act.BALANCE)
_KERNEL = re.compile(r"torch\.exp\(-\(\(along - ([\d.e+-]+)\)")
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


def _names(draft: Draft) -> set[str]:
    return {term.name for term in draft.terms}


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
    draft.need(
        f"is_down = ((quantities.height(info) < {low:.4g})"
        " | (quantities.uprightness(info) < 0.3)).float()"
    )
    draft.add("down", "-is_down", 1.0, "lying or bent over, as a cost", r"-[\text{down}]")
    return True


def _spot(frames: Sequence[Frame], scene: Scene, draft: Draft) -> bool:
    stays = all(
        frame.verb in _ON_THE_SPOT or frame.direction is Direction.IN_PLACE for frame in frames
    )
    if not stays or "spot" in draft.memory or not scene.has("displacement", "x_position"):
        return False
    know_the_way_back(scene, draft)
    code, meaning = "-strayed.clamp(max=2.0)", "being elsewhere than it began, as a cost"
    draft.add("home", code, 0.5, meaning, r"-d")
    return True


def _heading(frames: Sequence[Frame], scene: Scene, draft: Draft) -> bool:
    turns = {Act.TURN, Act.CIRCLE, Act.FLIP, Act.ROLL}
    if _verbs(frames) & turns or "ahead" in _names(draft) or not scene.has("heading_rate"):
        return False
    draft.need("veer = quantities.heading_rate(info)")
    draft.add("ahead", "-veer.abs().clamp(max=3.0)", 0.2, "not turning", r"-|\omega|")
    return True


def _smooth(frames: Sequence[Frame], scene: Scene, draft: Draft) -> bool:
    if "last" in draft.memory or not scene.has("action_change"):
        return False
    cost_of_change(scene, draft, 0.3)
    return True


# --------------------------------------------------------------------------- slopes to follow


def _tall(frames: Sequence[Frame], scene: Scene, draft: Draft) -> bool:
    is_busy = _verbs(frames) & set(_LEAVING_GROUND) or _names(draft) & {"posture", "tall", "high"}
    if is_busy or _is_held_otherwise(frames, scene) or not scene.has("height"):
        return False
    width = max(min(0.25, 0.4 * (scene.stands - scene.lies)), 0.05)
    draft.need(scene.lift())
    code = f"torch.exp(-((lift / {width:.4g}) ** 2))"
    draft.add("posture", code, 0.5, "at its standing height", r"e^{-(\Delta h/w)^2}")
    return True


def _clear(frames: Sequence[Frame], scene: Scene, draft: Draft) -> bool:
    if len(scene.spec.feet) < 2 or scene.leg is None or not scene.has("foot_height"):
        return False
    scale = _CLEAR_LEGS * scene.leg
    draft.need(
        "raised = quantities.foot_height(info)",
        f"raised = ((raised.amax(-1) - raised.amin(-1)) / {scale:.4g}).clamp(max=1.0)",
    )
    draft.add("clear", "raised", 0.4, "a foot lifted above the others", r"\min(\Delta z / z^*, 1)")
    return True


def _airborne(frames: Sequence[Frame], scene: Scene, draft: Draft) -> bool:
    flies = _verbs(frames) & set(_LEAVING_GROUND) or any(frame.gait in FLYING for frame in frames)
    if not flies or _names(draft) & {"flight", "airborne"} or not scene.has("feet_in_contact"):
        return False
    draft.need("in_air = (quantities.feet_in_contact(info) == 0).float()")
    draft.add("airborne", "in_air", 0.5, "every moment in the air", r"[\text{air}]")
    return True


def _together(frames: Sequence[Frame], scene: Scene, draft: Draft) -> bool:
    if Act.HOP not in _verbs(frames) or len(scene.spec.feet) < 2:
        return False
    draft.need("each_foot = quantities.foot_contact(info)")
    code = "1.0 - (each_foot.amax(-1) - each_foot.amin(-1))"
    draft.add("together", code, 0.5, "all feet on the ground, or none", r"[c_i = c_j]")
    return True


def _brake(frames: Sequence[Frame], scene: Scene, draft: Draft) -> bool:
    said = [f.amount.value for f in frames if f.amount is not None and f.amount.unit == "m"]
    if "way" not in _names(draft) or not said or "made = place - start" not in draft.lines:
        return False
    code = f"(made > {0.85 * said[0]:.4g}).float() * torch.exp(-3.0 * quantities.speed(info))"
    draft.add("brake", code, 1.0, "at rest once it is there", r"[\text{there}] e^{-3 v}")
    return True


# -------------------------------------------------------------------- the same, paid otherwise


def _nearer(frames: Sequence[Frame], scene: Scene, draft: Draft) -> bool:
    """Pay getting nearer, and a little for being near, so that it stays there."""
    per_step = _NEARER_PER_S / (scene.spec.dt_s or 1.0)
    changed = False
    for place, term in enumerate(draft.terms):
        if term.name not in _POTENTIAL:
            continue
        was, now = f"was_{term.name}", f"now_{term.name}"
        draft.remember(was, 2)
        draft.need(
            f"{now} = {term.code}",
            f'before_{term.name} = torch.where(self.memory["{was}"][:, 0] > 0, '
            f'self.memory["{was}"][:, 1], {now})',
            f'self.memory["{was}"] = torch.stack((torch.ones_like({now}), {now}), -1)',
        )
        draft.terms[place] = Term(
            term.name,
            f"{per_step:.4g} * ({now} - before_{term.name}) + 0.2 * {now}",
            term.weight,
            f"getting nearer: {term.words}",
            r"\Delta\Phi",
        )
        changed = True
    return changed


def _in_proportion(frames: Sequence[Frame], scene: Scene, draft: Draft) -> bool:
    """Pay closeness to a speed in proportion: a narrow peak says nothing from afar."""
    for place, term in enumerate(draft.terms):
        found = _KERNEL.search(term.code) if term.name == "speed" else None
        if found is None:
            continue
        target = float(found[1])
        code = f"1.0 - ((along - {target:.4g}).abs() / {target:.4g}).clamp(max=2.0)"
        words = f"close to {target:.2g} m/s, in proportion"
        draft.terms[place] = Term("speed", code, term.weight, words, r"1 - |v - v^*| / v^*")
        return True
    return False


def _pattern(frames: Sequence[Frame], scene: Scene, draft: Draft) -> bool:
    """Pay feet for standing to one another as the gait wants, instead of by a clock."""
    gait = _gait(frames, scene)
    if gait is None or "rhythm" not in _names(draft) or len(gait.landings) < 2:
        return False
    clock = _beat(gait, frames, scene)
    draft.lines = [line for line in draft.lines if line not in clock.lines]
    draft.terms = [term for term in draft.terms if term.name != "rhythm"]
    for name in clock.memory:
        draft.memory.pop(name, None)
    draft.is_seen = False
    feet = range(len(gait.landings))
    pairs = [
        f"{math.cos(2.0 * math.pi * (gait.landings[a][0] - gait.landings[b][0])):.3g}"
        f" * steps[:, {a}] * steps[:, {b}]"
        for a in feet
        for b in range(a)
    ]
    draft.need("steps = 2.0 * quantities.foot_contact(info) - 1.0")
    code = f"({' + '.join(pairs)}) / {len(pairs)}.0"
    words = f"feet down together or apart as in a {gait.name}"
    draft.add("pattern", code, 1.0, words, r"\overline{\cos(\phi_i - \phi_j) c_i c_j}")
    # Standing on all feet is together as well.
    draft.need("in_air = (quantities.feet_in_contact(info) == 0).float()")
    if gait.duty < 0.5:
        draft.add("airborne", "in_air", 0.4, "in the air between strides", r"[\text{air}]")
    else:
        draft.add("grounded", "-in_air", 0.4, "in the air, as a cost", r"-[\text{air}]")
    return True


def _clock(frames: Sequence[Frame], scene: Scene, draft: Draft) -> bool:
    """Give a gait a clock, where only its flight is paid."""
    gait = _gait(frames, scene)
    if gait is None or "rhythm" in _names(draft) or "beat" in draft.memory:
        return False
    clock = _beat(gait, frames, scene)
    draft.need(*clock.lines)
    draft.memory |= clock.memory
    draft.is_seen = True
    words = f"feet on the ground and off it as in a {gait.name}"
    draft.terms += [term._replace(words=words) for term in clock.terms if term.name == "rhythm"]
    return True


def _beat(gait: Gait, frames: Sequence[Frame], scene: Scene) -> Draft:
    """Return a draft of nothing but the clock of a gait."""
    clock = Draft()
    # Under a name that is no gait's, nothing else is taught.
    step_in(gait._replace(name="beat"), frames[0], scene, clock)
    return clock


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
