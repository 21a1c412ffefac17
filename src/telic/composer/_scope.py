"""Determine which criteria depend on which words and numbers of an intent.

A phrase fills a slot of a frame or defines a limit. To find the criteria that depend on it, the
intent is composed again with that slot empty or with a different number. A phrase whose removal
does not change the judge is reported as dropped, unless the verb implies it ("jump up", see
`tables/acts.toml`) or the robot cannot do otherwise.

Edited goals are handled in reverse: "walk at 1 m/s" with a goal of 0.5 becomes "walk at 0.5 m/s",
so that all criteria follow. Only a goal that no number of the intent determines changes alone.
"""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast, get_args

from telic.composer._draft import Draft
from telic.composer._manners import respect
from telic.composer._postures import OWN, do_it, hold, supported
from telic.composer.frames import (
    OPPOSITE,
    Amount,
    AmountRule,
    Frame,
    ParsedIntent,
    Posture,
    Unit,
    WordClaim,
)
from telic.composer.lexicon import word_table
from telic.composer.scene import Scene
from telic.errors import BadEnvironment, TelicError, UnknownName
from telic.judges.criteria import Composition, CoveredPhrase, Criterion

Build = Callable[[ParsedIntent], Composition]

_SIDES = ("left", "right")
_PLAIN_UP = ("up", "upward", "upwards", "vertically")
_ON_REAR = {"front legs", "front feet", "front leg", "front foot"}
_PLAIN_GAITS = {None, "run", "walk", "return"}
"""gaits that differ only in speed or destination"""
_PLAIN = Frame("go", "")
_OTHER = 1.37
"""factor applied to a number to test whether any criterion depends on it"""
_FITS = {
    "very_fast": {"fast", "much"},
    "very_slow": {"slow", "much"},
    "most": {"fast", "much", "very_fast"},
}
"""words that may contribute to a degree"""
_FIELDS = {
    "degree": ("degree", "dimension"),
    "part": ("part", "bodies"),
    "within": ("within_s",),
    "ground": ("ground", "hardest"),
}
"""fields of a frame that a slot fills, if not the one of its name"""
_SAME = 0.01
"""relative tolerance for equal goals, because titles show two digits"""
_LASTS = re.compile(r"\b(share|longest|per_second|full_seconds)\(")
"""measures that depend on how long a behavior lasts"""
_DIMENSIONS = {"m/s": ("speed",), "m": ("distance", "height"), "turns": ("turning",)}


def audit_words(
    parsed: ParsedIntent, scene: Scene, made: Composition, build: Build
) -> tuple[Composition, set[str]]:
    """Return a composition with the criteria that cover each word, and the uncovered words.

    Also return the titles of the criteria required to cover the phrases. `build` composes a changed
    intent in the same way.
    """
    trial = _Ablation(parsed, scene, made, build)
    covered: list[CoveredPhrase] = []
    left: list[WordClaim] = []
    stated: set[str] = set()
    weights = {each.title: each.weight for each in made.criteria}
    gaits = {e.title for e in made.criteria if e.tag == "wrong_gait" and e.weight >= 3.0}
    for claim in parsed.claims:
        titles = trial.carriers(claim)
        if titles and titles != trial.all and claim.slot != "verb":
            stated.add(max(titles, key=lambda title: weights[title]))
        elif claim.slot == "verb" and parsed.frames[claim.index].gait not in _PLAIN_GAITS:
            stated |= gaits
        if titles is None:
            left.append(claim)
            continue
        covered.append(CoveredPhrase(words=claim.judged_as or claim.words, criteria=titles))
        if claim.judged_as:
            left.append(replace(claim, words=f"{claim.words} (judged as {claim.judged_as})"))
    # Report only the outer phrase of "far" and "as far as you can".
    spans = [(each.at[0], each.at[-1]) for each in left]
    dropped = [e.words for e in left if not any(a < e.at[0] <= e.at[-1] < b for a, b in spans)]
    return made.model_copy(update={"covered": tuple(covered), "dropped": tuple(dropped)}), stated


def still_covered(made: Composition, edited: Composition) -> Composition:
    """Return a composition with edited criteria, and the words that are no longer covered."""
    judged = {each.title for each in edited.criteria if each.weight > 0.0 or each.is_guard}
    covered: list[CoveredPhrase] = []
    dropped = [*made.dropped]
    for each in made.covered:
        titles = tuple(title for title in each.criteria if title in judged)
        if each.criteria and not titles:
            dropped.append(each.words)
        else:
            covered.append(CoveredPhrase(words=each.words, criteria=titles))
    update = {"covered": tuple(covered), "dropped": tuple(dropped), "doubts": made.doubts}
    return edited.model_copy(update=update)


@dataclass(slots=True)
class _Ablation:
    """Repeated composition of an intent without one of its phrases."""

    parsed: ParsedIntent
    scene: Scene
    made: Composition
    build: Build

    @property
    def all(self) -> tuple[str, ...]:
        """Titles of all criteria."""
        return tuple(each.title for each in self.made.criteria)

    def carriers(self, claim: WordClaim) -> tuple[str, ...] | None:
        """Return the titles of the criteria that cover a phrase, or None if it is dropped."""
        scene, index = self.scene, claim.index
        if claim.slot == "limit":
            limit = self.parsed.limits[index]
            return self._alone(lambda draft: respect(limit, scene, draft))
        frame = self.parsed.frames[index]
        if claim.slot == "verb" and frame.gait == "return":
            return self.without(index, {"gait": None})  # back to the start, or just backward
        whole = self.without(index, None)
        match claim.slot:
            case "verb":  # not in "creep to the target", of which the speed is not judged
                is_slow = frame.verb == "reach" and frame.degree is not None
                return self._tried("degree", index) if is_slow else whole or self.all
            case "target":
                return (whole or self.all) if frame.verb == "reach" else None
            case "posture" if whole is not None or claim.value != "upright":
                return self._posture(claim.value, frame)
            case _ if whole is None and len(self.parsed.frames) > 1:
                # "land on your feet, stably" after a flip, which includes landing
                own = claim.value in ("upright", "steady") or claim.slot in ("until_end", "part")
                return self.all if own and frame.verb in ("stand", "balance") else None
            case "style":
                style = claim.value
                return self._alone(lambda draft: do_it(style, frame, scene, draft))
            case "degree":
                return self._degree(claim, frame)
            case "direction":
                return self._direction(claim, frame)
            case "until_end" if _is_own(claim.slot, frame, scene):
                lasting = [each.title for each in self.made.criteria if _LASTS.search(each.measure)]
                return tuple(lasting) or None
            case "part" if _is_own(claim.slot, frame, scene):
                return self.all
            case _:
                return self._tried(claim.slot, index)

    def without(self, index: int, change: dict[str, Any] | None) -> tuple[str, ...] | None:
        """Return the criteria affected by changing or removing a frame, or None."""
        frames = [*self.parsed.frames]
        if change is None:
            del frames[index]
        else:
            frames[index] = replace(frames[index], **change)
        try:
            other = self.build(replace(self.parsed, frames=tuple(frames)))
        except TelicError:
            return self.all
        is_counted = "duration_s" in (change or ()) and self.parsed.frames[index].count is not None
        keys = ("criteria", "phases", *(() if is_counted else ("env_args",)))
        if all(getattr(other, key) == getattr(self.made, key) for key in keys):
            return None
        kept = set(other.criteria)
        return tuple(e.title for e in self.made.criteria if e not in kept) or self.all

    def _tried(self, slot: str, index: int) -> tuple[str, ...] | None:
        """Return the criteria affected by clearing or changing a slot of a frame, or None."""
        frame = self.parsed.frames[index]
        changed = (self.without(index, change) for change in _changes(slot, frame))
        titles = next((each for each in changed if each is not None), None)
        if slot == "amount" and frame.bounds and not self.without(index, {"bounds": ()}):
            return None  # "0.3 ± 0.02 m", of which only 0.3 m is judged
        given = (*((frame.amount,) if frame.amount else ()), *frame.bounds)
        is_most = any(amount.rule == "at_most" for amount in given)
        if slot == "amount" and (is_most or frame.count_rule == "at_most"):
            # Exceeding an upper bound must reduce the score.
            criteria = [each for each in self.made.criteria if each.title in (titles or ())]
            bounded = [e for e in criteria if e.direction != "at_least" or " < " in e.measure]
            return tuple(each.title for each in bounded) or None
        return titles

    def _posture(self, posture: Posture, frame: Frame) -> tuple[str, ...] | None:
        scene, held = self.scene, supported(frame, self.scene).postures
        if posture not in held:  # for a quadruped, two legs are the hind legs
            posture = next((each for each in held if each not in frame.postures), posture)
        is_pole = posture == "upright" and scene.has("pole_angle")
        if is_pole or posture in OWN.get(frame.verb, ()):
            return self.all
        return self._alone(lambda draft: hold(posture, frame, scene, draft))

    def _direction(self, claim: WordClaim, frame: Frame) -> tuple[str, ...] | None:
        value, acts = claim.value, word_table("acts")[frame.verb]
        is_plain = claim.words.split()[-1] in _PLAIN_UP
        if value == "up" and "upright" in acts and not is_plain:
            return None  # "stay in the air" does not mean standing
        is_own = value in acts.get("directions", ())
        if value == "right" and self.scene.on_rail:
            is_own = frame.verb == "go"
        elif value == "down" and {"low", "lying"} & {*frame.postures}:
            is_own = True
        elif value == "up":
            is_own = is_own or "rear_legs" in frame.postures
        else:
            is_own = is_own and frame.direction in (value, None)
        is_given = value == frame.direction or (value == "sideways" and frame.direction in _SIDES)
        if is_own or not is_given:
            return self.all if is_own else None
        return self._tried("direction", claim.index)

    def _degree(self, claim: WordClaim, frame: Frame) -> tuple[str, ...] | None:
        degree, is_vague = frame.degree, claim.value in ("", "intensify", "most")
        if frame.factor is not None:
            is_part = claim.value in ("more", "less", "little", "much", "intensify", "")
            return self.without(claim.index, {"factor": None}) if is_part else None
        if degree is None and is_vague:
            return () if frame.amount is not None or claim.value == "most" else None
        about = {frame.dimension, "speed" if frame.dimension == "turning" else frame.dimension}
        if claim.dimension is not None and claim.dimension not in about:
            return None
        if degree and not is_vague and claim.value not in {degree, *_FITS.get(degree, ())}:
            return None  # not so in "fast, slowly"
        if degree in word_table("acts")[frame.verb].get("degrees", ()):
            return self.all
        # "slowly, at 1 m/s": the word describes the number
        is_rate = frame.amount is not None and frame.amount.unit != "m"
        is_called = claim.dimension == frame.dimension and is_rate
        is_speed = is_called and (degree is None or frame.dimension == "speed")
        return self._tried("amount" if is_speed else "degree", claim.index)

    def _alone(self, add: Callable[[Draft], None]) -> tuple[str, ...] | None:
        """Return the judged criteria that `add` writes to an empty draft."""
        draft = Draft()
        try:
            add(draft)
        except BadEnvironment:  # a detail that this robot cannot show
            return None
        wanted = {part.title for part in draft.parts}
        judged = {title: title.rpartition(": ")[2] for title in self.all}
        titles = tuple(each for each, own in judged.items() if {each, own} & wanted)
        return titles if titles or draft.granted else None


def _is_own(slot: str, frame: Frame, scene: Scene) -> bool:
    """Return whether a verb implies the slot, as balancing implies a pole."""
    acts = word_table("acts")[frame.verb]
    if slot == "until_end":
        return "lasts" in acts
    if frame.part in acts.get("own_parts", ()):
        return frame.part != "torso" or frame.verb == "lean" or bool(frame.postures)
    if "rear_legs" in frame.postures and frame.part in _ON_REAR:
        return True
    return bool(frame.postures) and frame.bodies == (scene.torso,)


def _changes(slot: str, frame: Frame) -> Iterator[dict[str, Any]]:
    """Yield changes of a frame that test whether any criterion depends on a slot."""
    fields = _FIELDS.get(slot, (slot,))
    if slot not in ("count", "amount", "duration", "period"):
        yield {name: getattr(_PLAIN, name) for name in fields}
    if slot == "direction" and frame.direction in OPPOSITE:
        yield {"direction": OPPOSITE[frame.direction]}  # forward may be what is done anyway
    elif slot == "part":
        yield {"part": "nothing", "bodies": ()}
    elif slot == "count" and frame.count is not None:
        yield {"count": frame.count - 1 or 2}
    elif slot == "amount" and frame.amount is not None:
        more = _OTHER * frame.amount.value + (frame.amount.unit == "steps")
        yield {"amount": replace(frame.amount, value=more)}
        yield {"bounds": ()}
    elif seconds := getattr(frame, f"{slot}_s", None):
        yield {f"{slot}_s": _OTHER * seconds}


# ------------------------------------------------------------------------------------ edited goals


def follow_edits(
    parsed: ParsedIntent, made: Composition, criteria: Sequence[Criterion], build: Build
) -> tuple[ParsedIntent, list[Criterion]]:
    """Return the intent with numbers changed to match edited goals, and its criteria.

    Criteria may be those of an earlier call. Raises UnknownName for a criterion of another judge.
    """
    present = made
    for each in criteria:
        given, old, goal = _find(each.title, made), _find(each.title, present), each.goal
        if given is None or old is None or given.is_guard or goal is None or not old.goal:
            continue
        if goal == given.goal:
            continue
        for other in _with_goal(parsed, old, goal) if not _is_same(goal, old.goal) else ():
            try:
                again = build(other)
            except TelicError:
                continue
            new = _find(each.title, again)
            if new is not None and new.goal is not None and _is_same(new.goal, goal):
                parsed, present = other, again
                break
    found: list[Criterion] = []
    for each in criteria:
        new = _find(each.title, present)
        if new is None:
            raise UnknownName("criterion", each.title, [one.title for one in made.criteria])
        old = _find(each.title, made) or new
        update: dict[str, Any] = {"weight": each.weight}
        for name in ("zero", "goal"):
            given, was = getattr(each, name), getattr(old, name)
            if given is not None and was is not None and not _is_same(given, was):
                now = getattr(new, name)
                update[name] = now if now is not None and _is_same(given, now) else given
        found.append(new.model_copy(update=update))
    return parsed, found


def _find(title: str, made: Composition) -> Criterion | None:
    """Return the criterion with a title, ignoring the numbers in it."""
    alike = [each for each in made.criteria if _masked(each.title) == _masked(title)]
    return next((each for each in made.criteria if each.title == title), next(iter(alike), None))


def _masked(title: str) -> str:
    plain = re.sub(r" \(±[^)]*\)|\bat (least|most) ", "", title).replace(" once", " 1 times")
    plain = re.sub(r"\d[\d.]*(e-?\d+)?", "#", plain)
    return re.sub("(?:turns|rotates) #(?:°| turns)", "turns #", plain)


def _is_same(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=_SAME, abs_tol=1e-6)


def _with_goal(parsed: ParsedIntent, old: Criterion, goal: float) -> Iterator[ParsedIntent]:
    """Yield variants of the intent in which one number is changed or added to match a goal."""
    for place, frame in enumerate(parsed.frames):
        for change in _rescaled(frame, old, goal):
            frames = [*parsed.frames]
            frames[place] = replace(frame, **change)
            yield replace(parsed, frames=tuple(frames))


def _rescaled(frame: Frame, old: Criterion, goal: float) -> Iterator[dict[str, Any]]:
    share = goal / old.goal if old.goal else 1.0
    if frame.amount is not None and share > 0.0:
        value = frame.amount.value * share
        yield {"amount": replace(frame.amount, value=value), "bounds": ()}
    if frame.count is not None and goal >= 1.0 and goal == round(goal):
        yield {"count": round(goal)}
    if frame.duration_s is not None and share > 0.0:
        yield {"duration_s": frame.duration_s * share}
    if old.unit in get_args(Unit) and goal > 0.0:
        rule: AmountRule = "about" if old.direction == "about" else "at_least"
        given = Amount(goal, cast("Unit", old.unit), rule)
        for dimension in _DIMENSIONS.get(old.unit, ()):
            plain = {"degree": None, "factor": None, "bounds": ()}
            yield {"amount": given, "dimension": dimension, **plain}
