"""What of an intent its criteria carry: every phrase that was read is put to the test.

A phrase fills a slot of a frame or makes a limit. Whether anything is judged by it is not asked of
the behaviours, which could forget to say; it is tried: the same intent is composed once more with
that slot empty or with another number in it. A phrase whose loss changes nothing that is judged is
dropped, unless the verb means just that by itself ("jump up") or the robot cannot do otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from telic.composer.draft import Draft
from telic.composer.frames import (
    OPPOSITE,
    Act,
    Degree,
    Direction,
    Frame,
    ParsedIntent,
    Posture,
    Style,
    WordClaim,
)
from telic.composer.manners import respect
from telic.composer.postures import OWN, do_it, hold
from telic.composer.scene import Scene
from telic.errors import TelicError
from telic.judges.criteria import Composition, Covered

Build = Callable[[ParsedIntent], Composition]

_UP = {Act.JUMP, Act.HOP, Act.FLIP, Act.LIFT, Act.KICK, Act.SWING, Act.STAND_UP, Act.STAND}
_STILL = {Act.STAND, Act.STOP, Act.BALANCE, Act.SIT, Act.LIE, Act.REACH, Act.LIFT}
_MEANT: dict[Direction, set[Act]] = {
    Direction.FORWARD: {Act.GO, Act.CIRCLE},
    Direction.UP: _UP,
    Direction.DOWN: {Act.SIT, Act.LIE},
    Direction.IN_PLACE: {Act.STAND, Act.STOP, Act.LIE, Act.LIFT},
    Direction.LEFT: {Act.TURN, Act.CIRCLE},
    Direction.COUNTERCLOCKWISE: {Act.TURN, Act.CIRCLE},
    Direction.SIDEWAYS: {Act.ROLL},
}
"""directions that a verb has by itself"""
_LASTS = {Act.GO, Act.CIRCLE, Act.HOP, Act.TURN, Act.SWING, Act.LIFT, *_STILL, Act.STAND_UP}
"""verbs that are judged over the whole time anyway"""
_USUAL = {Act.GO: {Degree.MODERATE}, Act.JUMP: {Degree.MUCH, Degree.MOST}}
"""degrees that a verb has by itself: a jump is as high as the robot is known to get"""
_ENDS = {
    Act.BALANCE: {"pole", "poles", "tip"},
    Act.SWING: {"pole", "poles", "tip"},
    Act.REACH: {"tip", "hand"},
    Act.GO: {"cart", "torso"},
    Act.STAND: {"torso"},
}
"""what a verb is about by itself"""
_STANDS = {Act.STAND, Act.STAND_UP, Act.STOP, Act.BALANCE}
_PLAIN_UP = ("up", "upward", "upwards", "vertically")
_SIDES = (Direction.LEFT, Direction.RIGHT)
_ON_REAR = {"front legs", "front feet", "front leg", "front foot"}
PLAIN_GAITS = {None, "run", "walk"}
"""ways of going that are told apart by their speed alone"""
_ON_SPOT = ("march", "step")
"""ways of going that are just walking on the spot"""
_OTHER, _MUCH = 1.37, 11.0
"""what a number is multiplied by to see whether anything depends on it"""


def audit(parsed: ParsedIntent, scene: Scene, made: Composition, build: Build) -> Composition:
    """Return a composition that says which criteria carry which words, and which words none does.

    Args:
        parsed: the intent.
        scene: the robot.
        made: what was composed of it.
        build: composes a changed intent in the same way.
    """
    trial = _Ablation(parsed, scene, made, build)
    covered: list[Covered] = []
    left: list[WordClaim] = []
    for claim in parsed.claims:
        titles = trial.carriers(claim)
        if titles is not None and claim.judged_as:
            said = f"{claim.words} (judged as {claim.judged_as})"
            left.append(claim.model_copy(update={"words": said}))
            covered.append(Covered(words=claim.judged_as, criteria=titles))
        elif titles is None:
            left.append(claim)
        else:
            covered.append(Covered(words=claim.words, criteria=titles))
    # Of "far" and "as far as you can" the longer says it all.
    dropped = [claim.words for claim in left if not any(_is_inside(claim, other) for other in left)]
    return made.model_copy(
        update={
            "covered": tuple(covered),
            "dropped": tuple(dropped),
            "doubts": (*made.doubts, *_said_twice(parsed)),
        }
    )


def _said_twice(parsed: ParsedIntent) -> Iterator[str]:
    """Say which words of a speed gave way to the number beside them."""
    for claim in parsed.claims:
        if claim.slot == "degree" and claim.value and claim.dimension == "speed":
            frame = parsed.frames[claim.index]
            if frame.amount is not None and frame.amount.unit == "m/s":
                yield f'"{claim.words}" is taken as {frame.amount.value:g} m/s, the number said'


def _is_inside(claim: WordClaim, other: WordClaim) -> bool:
    begins, ends = other.at[0] <= claim.at[0], claim.at[-1] <= other.at[-1]
    return begins and ends and len(claim.words) < len(other.words)


def still_covered(made: Composition, edited: Composition) -> Composition:
    """Return a composition by edited criteria, with the words that are not judged any more."""
    judged = {each.title for each in edited.criteria if each.weight > 0.0 or each.is_guard}
    covered: list[Covered] = []
    dropped = [*made.dropped]
    for each in made.covered:
        titles = tuple(title for title in each.criteria if title in judged)
        if each.criteria and not titles:
            dropped.append(each.words)
        else:
            covered.append(Covered(words=each.words, criteria=titles))
    return edited.model_copy(update={"covered": tuple(covered), "dropped": tuple(dropped)})


def covered_by(made: Composition, titles: Mapping[str, Collection[str]]) -> Composition:
    """Return a composition with the words its criteria stand for, and those that none does."""
    judged = {each.title for each in made.criteria}
    carried = [(words, tuple(t for t in own if t in judged)) for words, own in titles.items()]
    covered = tuple(Covered(words=words, criteria=own) for words, own in carried if own)
    dropped = tuple(words for words, own in carried if not own)
    return made.model_copy(update={"covered": covered, "dropped": dropped})


def lost_gaits(parsed: ParsedIntent, scene: Scene, made: Composition, build: Build) -> list[str]:
    """Return the verbs whose manner of going changes nothing that is judged: "moonwalk"."""
    trial = _Ablation(parsed, scene, made, build)
    lost: list[str] = []
    for claim in parsed.claims:
        if claim.slot != "verb":
            continue
        frame = parsed.frames[claim.index]
        if frame.gait in (*PLAIN_GAITS, "return") or (frame.gait == "swim" and not scene.spec.feet):
            continue
        if frame.gait in _ON_SPOT and frame.direction is Direction.IN_PLACE:
            continue
        # A word may say how fast, too: to sprint is to run very fast.
        change: dict[str, Any] = {"gait": None}
        if not any(c.slot == "degree" and c.index == claim.index for c in parsed.claims):
            change |= {"degree": None, "dimension": None}
        if trial.without(claim.index, change) is None:
            lost.append(claim.words)
    return lost


class _Ablation:
    """An intent composed again and again, each time without one of its phrases."""

    def __init__(self, parsed: ParsedIntent, scene: Scene, made: Composition, build: Build) -> None:
        self._parsed = parsed
        self._scene = scene
        self._made = made
        self._build = build
        self._all = tuple(each.title for each in made.criteria)

    def carriers(self, claim: WordClaim) -> tuple[str, ...] | None:
        """Return the titles of the criteria that carry a phrase; None: it is dropped."""
        scene = self._scene
        if claim.slot == "limit":
            limit = self._parsed.limits[claim.index]
            return self._alone(lambda draft: respect(limit, scene, draft))
        frame = self._parsed.frames[claim.index]
        whole = self.without(claim.index, None)
        match claim.slot:
            case "verb" if frame.gait == "return":
                return self.without(claim.index, {"gait": None})  # to where it began, or just back
            case "verb":
                return whole or self._all
            case "target":
                return (whole or self._all) if frame.verb is Act.REACH else None
            case _ if whole is None and len(self._parsed.frames) > 1:
                return self._absorbed(claim, frame)
            case "posture":
                return self._posture(Posture(claim.value), frame)
            case "style":
                style = Style(claim.value)
                return self._alone(lambda draft: do_it(style, frame, scene, draft))
            case "degree":
                return self._degree(claim, frame)
            case _:
                return self._slot(claim, frame)

    def without(self, index: int, change: dict[str, Any] | None) -> tuple[str, ...] | None:
        """Return what is judged otherwise with a frame changed, or left out; None: nothing is."""
        frames = [*self._parsed.frames]
        if change is None:
            del frames[index]
        else:
            frames[index] = frames[index].model_copy(update=change)
        try:
            other = self._build(self._parsed.model_copy(update={"frames": tuple(frames)}))
        except TelicError:
            return self._all
        if _judged(other) == _judged(self._made):
            return None
        kept = set(other.criteria)
        return tuple(e.title for e in self._made.criteria if e not in kept) or self._all

    def _absorbed(self, claim: WordClaim, frame: Frame) -> tuple[str, ...] | None:
        """Return what carries "land on your feet, stably" after a flip, which lands by itself."""
        own = claim.value in (Posture.UPRIGHT, Style.STEADY) or claim.slot == "until_end"
        return self._all if own and frame.verb in (Act.STAND, Act.BALANCE) else None

    def _slot(self, claim: WordClaim, frame: Frame) -> tuple[str, ...] | None:
        match claim.slot:
            case "until_end" if frame.verb in _LASTS:
                return self._all
            case "part" if _is_own_part(frame, self._scene):
                return self._all
            case "amount" if _has_most(frame):
                return self._bounded(claim)
            case "direction":
                in_air = claim.words.split()[-1] not in _PLAIN_UP and frame.verb in _STANDS
                if in_air and claim.value == Direction.UP:
                    return None  # "stay in the air" is not to stand
                if _is_own_direction(Direction(claim.value), frame, self._scene):
                    return self._all
                is_side = claim.value == Direction.SIDEWAYS and frame.direction in _SIDES
                if claim.value != frame.direction and not is_side:
                    return None
            case _:
                pass
        return self._tried(claim.slot, claim.index)

    def _bounded(self, claim: WordClaim) -> tuple[str, ...] | None:
        """Return what carries a number not to be exceeded: going beyond it must cost something."""
        titles = self._tried(claim.slot, claim.index)
        ways = {each.title: each.direction for each in self._made.criteria}
        kept = tuple(title for title in titles or () if ways[title] != "at_least")
        return kept or None

    def _degree(self, claim: WordClaim, frame: Frame) -> tuple[str, ...] | None:
        if frame.degree is None and claim.value in ("", "intensify", "most"):
            return () if frame.amount is not None or claim.value == "most" else None
        if not _says_degree(claim, frame):
            return None
        if frame.degree in _USUAL.get(frame.verb, ()):
            return self._all
        # "slowly, at 1 m/s", "0.3 m high": what the number is called
        is_called = claim.dimension == frame.dimension and frame.amount is not None
        is_speed = is_called and (frame.degree is None or frame.dimension == "speed")
        return self._tried("amount" if is_speed else "degree", claim.index)

    def _tried(self, slot: str, index: int) -> tuple[str, ...] | None:
        for change in _changes(slot, self._parsed.frames[index]):
            titles = self.without(index, change)
            if titles is not None:
                return titles
        return None

    def _posture(self, posture: Posture, frame: Frame) -> tuple[str, ...] | None:
        is_pole = posture is Posture.UPRIGHT and self._scene.has("pole_angle")
        if is_pole or posture in OWN.get(frame.verb, ()):
            return self._all
        return self._alone(lambda draft: hold(posture, frame, self._scene, draft))

    def _alone(self, add: Callable[[Draft], None]) -> tuple[str, ...] | None:
        """Return the criteria that something adds by itself, as far as they are judged."""
        draft = Draft()
        add(draft)
        wanted = {part.title for part in draft.parts}
        judged = {title: title.rpartition(": ")[2] for title in self._all}
        titles = tuple(each for each, own in judged.items() if {each, own} & wanted)
        return titles if titles or draft.granted else None


def _has_most(frame: Frame) -> bool:
    """Return whether a number was said that is not to be exceeded."""
    said = (*((frame.amount,) if frame.amount else ()), *frame.bounds)
    return frame.count_rule == "at_most" or any(amount.rule == "at_most" for amount in said)


def _is_own_direction(value: Direction, frame: Frame, scene: Scene) -> bool:
    """Return whether a verb goes there by itself, so that saying it changes nothing."""
    if value is Direction.RIGHT and scene.on_rail:
        return frame.verb is Act.GO
    if value is Direction.DOWN and {Posture.LOW, Posture.LYING} & {*frame.postures}:
        return True
    if value is Direction.UP:
        return frame.verb in _MEANT[value] or Posture.REAR_LEGS in frame.postures
    return frame.verb in _MEANT.get(value, ()) and frame.direction in (value, None)


def _is_own_part(frame: Frame, scene: Scene) -> bool:
    """Return whether a verb or a posture is about that part by itself: to balance, the pole."""
    if frame.part in _ENDS.get(frame.verb, ()):
        return frame.part != "torso" or bool(frame.postures)
    if Posture.REAR_LEGS in frame.postures and frame.part in _ON_REAR:
        return True
    return bool(frame.postures) and frame.bodies == (scene.torso,)


def _says_degree(claim: WordClaim, frame: Frame) -> bool:
    """Return whether a word has a part in the degree that was read: not so in "fast, slowly"."""
    about = {frame.dimension, "speed" if frame.dimension == "turning" else frame.dimension}
    if claim.dimension is not None and claim.dimension not in about:
        return False
    if claim.value in ("", "intensify", "most", frame.degree) or frame.degree is None:
        return True
    strong = {Degree.MUCH, Degree.LITTLE, Degree.FAST, Degree.SLOW}
    fits = {
        Degree.VERY_FAST: {Degree.FAST, Degree.MUCH},
        Degree.VERY_SLOW: {Degree.SLOW, Degree.MUCH},
        Degree.MOST: {Degree.FAST, Degree.MUCH, Degree.VERY_FAST},
        Degree.LITTLE: strong,
    }
    return claim.value in fits.get(frame.degree, ())


def _changes(slot: str, frame: Frame) -> Iterator[dict[str, Any]]:
    """Yield changes of a frame that show whether anything depends on a slot."""
    match slot:
        case "direction":
            yield {"direction": None}
            if frame.direction is not None and frame.direction in OPPOSITE:
                # Forward may be what is done anyway.
                yield {"direction": OPPOSITE[frame.direction]}
        case "degree":
            yield {"degree": None, "dimension": None}
        case "part":
            yield {"part": None, "bodies": ()}
            yield {"part": "nothing", "bodies": ()}
        case "until_end":
            yield {"until_end": False}
        case "ground":
            yield {"ground": None, "hardest": None}
        case "count" if frame.count is not None:
            yield {"count": frame.count + 1}
        case "duration" if frame.duration_s is not None:
            yield {"duration_s": _OTHER * frame.duration_s}
            yield {"duration_s": _MUCH * frame.duration_s}
        case "period" if frame.period_s is not None:
            yield {"period_s": _OTHER * frame.period_s}
        case "amount" if frame.amount is not None:
            other = frame.amount.model_copy(update={"value": _OTHER * frame.amount.value})
            yield {"amount": other}
            if frame.bounds:
                yield {"bounds": ()}
        case _:
            return


def _judged(made: Composition) -> tuple[object, ...]:
    return made.criteria, made.judge, made.env_args
