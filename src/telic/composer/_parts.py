"""Map everyday names of body parts to bodies and read quantities that are held.

"torso pitch between -5 and 5 degrees" · "bend the left knee to 30 degrees" · "hands above the head"
(`tables/held.toml`)
"""

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any

from telic.composer._amounts import Reading, denied
from telic.composer.frames import NEAR, Held
from telic.composer.lexicon import (
    PhraseReader,
    Token,
    WordSpan,
    determiners,
    lexicon,
    vocabulary,
    word_table,
)
from telic.envs.spec import EnvSpec, Limb
from telic.quantities import QUANTITIES

_PAIRED = ("leg", "foot", "arm", "hand", "thigh", "shin", "upper arm")
_ONE_OF_MANY = {"left", "right", "first", "second", "third", "fourth"}
_PAIRS = {"front", "rear", "middle"}
_MAX_NOUN = 3
_STRAIGHT, _BENT, _HEAD_LEGS = 0.26, 0.5, 0.33
"""largest flexion of a straight joint and least of a bent one in rad, and the height of the top of
the head above the shoulders in leg lengths"""
_WHOLE = {"torso", "cart", "base", "pole", "poles", "tip", "target"}
_BENDS = {"bend", "bending", "flex", "flexing", "bent", "flexed"}
_NEVER = {"never", "not", "without", "don't", "avoid", "avoiding", "no"}
_MOST_TILT = 1.2
"""largest tilt of a torso in rad that a prompt holds"""
_SIDES = {"left", "right", "front", "rear"}


@dataclass(frozen=True, slots=True)
class BodyPart(WordSpan):
    """Body part named in the text, with its bodies (none if the robot lacks the part)."""

    name: str
    bodies: tuple[str, ...]


def find_part(tokens: Sequence[Token], start: int, spec: EnvSpec) -> BodyPart | None:
    """Return the body part whose name starts at a position, or None."""
    word = tokens[start].word
    if tokens[start].silent:
        return None
    if word not in vocabulary():  # name of a body in the model
        for name in spec.body_names:
            if name.lower() == word and name != "world":
                return BodyPart((start,), name, (name,))
    if found := _everyday_name(tokens, start, spec):
        return found
    joint = _after_places(tokens, start)
    if joint == start or joint >= len(tokens) or tokens[joint].word not in ("or", "and"):
        return None
    # The first part of "left or right foot", whose noun comes later.
    last = _after_places(tokens, joint + 1)
    if last == joint + 1 or (noun := _find_noun(tokens, last)) is None:
        return None
    found = _everyday_name((*tokens[start:joint], *tokens[last : noun[2]]), 0, spec)
    return found and BodyPart(tuple(range(start, joint)), found.name, found.bodies)


def _everyday_name(tokens: Sequence[Token], start: int, spec: EnvSpec) -> BodyPart | None:
    """Parse location words and a noun, such as "both front legs"."""
    word = tokens[start].word
    is_given = word in ("both", "all", "one", "two") and _find_noun(tokens, start) is None
    first = start + is_given
    last = _after_places(tokens, first)
    if (found := _find_noun(tokens, last)) is None:
        return None
    noun, is_plural, end = found
    parts = word_table("parts")
    places = [place_words()[token.word] for token in tokens[first:last]]
    if (word == "one" and is_plural) or (word == "two" and not {*places} & _PAIRS):
        return None  # "two legs" of four may be any
    # "leg 2", "leg number two"; but "wave your hand three times" has no third hand.
    after = end + (end < len(tokens) and tokens[end].word == "number")
    number = parts["numbers"].get(tokens[after].word) if after < len(tokens) else None
    is_counted = lexicon().find(tokens, after + 1, "unit") is not None
    if number is not None and not is_counted and noun in _PAIRED and not is_plural:
        places, end = [number, *places], after + 1
    # A part with a single name is in English order (front left); "front legs" may also name the
    # only front leg.
    grouped = noun in _PAIRED and places and not _ONE_OF_MANY & set(places)
    plural = grouped or (is_plural and (noun in _PAIRED or noun == "pole"))
    name = {"foot": "feet"}.get(noun, f"{noun}s") if plural and word != "one" else noun
    order = list(parts["places"])
    ordered = sorted({*places}, key=lambda place: (place in ("left", "right"), order.index(place)))
    bodies = bodies_of(frozenset((*places, noun)), noun, spec)
    ordered = ["one", *ordered] if word == "one" and grouped else ordered
    return BodyPart(tuple(range(start, end)), " ".join((*ordered, name)), bodies)


def _after_places(tokens: Sequence[Token], place: int) -> int:
    """Return the position after location words such as "front left"."""
    while place < len(tokens) and tokens[place].word in place_words():
        if _find_noun(tokens, place) is not None:
            break
        place += 1
    return place


def _find_noun(tokens: Sequence[Token], start: int) -> tuple[str, bool, int] | None:
    """Return the longest noun at a position, whether it is plural, and the next position."""
    words, best = list[str](), None
    for place in range(start, len(tokens)):
        if not words or tokens[place].word not in determiners():
            words.append(tokens[place].word)
            if found := _nouns().get(" ".join(words)):
                best = (*found, place + 1)
        if len(words) == _MAX_NOUN:
            break
    return best


def robot_of(spec: EnvSpec) -> str:
    """Return the name of a robot in the tables."""
    robot = re.split(r"-v\d+$|\.xml$", spec.id)[0]
    return word_table("parts")["same"].get(robot, robot)


_Rows = tuple[tuple[frozenset[str], tuple[str, ...]], ...]


def _body_words(spec: EnvSpec) -> _Rows:
    """Return the words for bodies, with the bodies that have all of them."""
    return _rows_of(robot_of(spec), spec.body_names, spec.feet, spec.torso)


@lru_cache(maxsize=64)
def _rows_of(
    robot: str, bodies: tuple[str, ...], feet: tuple[str, ...], torso: str | None
) -> _Rows:
    parts = word_table("parts")
    if robot not in parts["robots"]:
        return tuple((_implied_by(body, feet, torso), (body,)) for body in bodies)
    known: list[str] = sorted(parts["nouns"], key=len, reverse=True)
    rows = list[tuple[frozenset[str], tuple[str, ...]]]()
    for key, named in parts["robots"][robot].items():
        own = next(each for each in known if key.endswith(each))
        rows.append((frozenset((*key.removesuffix(own).split(), own)), tuple(named)))
    return tuple(rows)


def bodies_of(query: frozenset[str], noun: str, spec: EnvSpec) -> tuple[str, ...]:
    """Return the bodies that match all words, sorted as in the table or the model."""
    parts, rows = word_table("parts"), _body_words(spec)
    nouns = {noun} if robot_of(spec) in parts["robots"] else {*parts["made_of"].get(noun, [noun])}
    places = query - {noun}
    found = [body for key, bodies in rows if places <= key and nouns & key for body in bodies]
    return tuple(body for body in dict.fromkeys(found) if body in spec.body_names)


def _implied_by(body: str, feet: Collection[str] = (), torso: str | None = None) -> frozenset[str]:
    """Return the words implied by a body's name, e.g. front, left, shin for "FL_calf"."""
    parts, words = word_table("parts"), set[str]()
    pieces = re.findall(r"[a-z]+", re.sub(r"([a-z])([A-Z])", r"\1 \2", body).lower())
    for piece in pieces:
        prefixed = piece[:1] in parts["prefixes"] and piece[1:] in _nouns()
        for word in (piece[:1], piece[1:]) if prefixed and piece not in _nouns() else (piece,):
            noun = _nouns().get(word, (place_words().get(word, word),))[0]
            words.update(parts["prefixes"][word].split() if word in parts["prefixes"] else (noun,))
    for pair in pairwise(pieces):  # "left_upper_arm" is an upper arm, "lower_arm" a hand
        words.update(_nouns().get(" ".join(pair), ())[:1])
    if body == torso:
        words.add("torso")
    if body in feet:
        words.add("foot")
        if words <= {"foot", *parts["places"]}:
            words.add("leg")
    return frozenset(words)


@lru_cache(maxsize=1)
def _nouns() -> dict[str, tuple[str, bool]]:
    """Map each word for a body part to its noun, and to whether it is plural."""
    parts = word_table("parts")
    names = [(name, noun) for noun, others in parts["nouns"].items() for name in (noun, *others)]
    plurals = {f"{name}s": (noun, True) for name, noun in names}
    irregular = {plural: (noun, True) for plural, noun in parts["plurals"].items()}
    return plurals | {name: (noun, False) for name, noun in names} | irregular


@lru_cache(maxsize=1)
def place_words() -> dict[str, str]:
    rows = word_table("parts")["places"].items()
    return {word: place for place, others in rows for word in (place, *others)}


# ---- held quantities


def read_held(
    tokens: Sequence[Token], start: int, spec: EnvSpec, readers: Mapping[str, PhraseReader]
) -> tuple[tuple[int, ...], tuple[Held, ...]] | None:
    """Return the quantities that are held by the words at a position."""
    match = lexicon().find(tokens, start, "held", readers=readers)
    if match is None:
        return None
    sense, words = match.senses[0], [tokens[place].word for place in match.at]
    kind, says, read = sense.value, sense.says, [*match.read]
    amounts = [each for each in read if isinstance(each, Reading)]
    own = [tokens[place].word for place in match.at if not amounts or place not in amounts[0].at]
    if amounts and _NEVER & {*own}:  # "never above 20 degrees", "never exceeding a pitch of 1 rad"
        amounts = [denied(replace(amounts[0], rule=amounts[0].rule or "at_least"))]
    given = _interval(amounts[0], words, says) if amounts else None
    # Neither "raise your arms above 45 degrees" nor "roll over 360 degrees" holds a quantity.
    is_limb = kind == "joint" and {"arm", "arms", "leg", "legs"} & {*words}
    if (is_limb and not _BENDS & {*words}) or (
        kind == "tilt" and given and max(end for end in given if end < math.inf) > _MOST_TILT
    ):
        return None
    if amounts and given is None:
        return None
    if kind in ("joint", "straight", "bent"):
        found = tuple(_joint(each, kind, given, words, spec) for each in read[0])
    elif says["quantity"] == "body_height":
        found = _heights(kind, read, given, spec)
    else:
        assert given is not None
        names = says["quantity"].split(" and ")
        names = [each for each in names if QUANTITIES[each].available(spec)] or names
        found = tuple(_held(each.replace("_", " "), each, given, says) for each in names)
    return (match.at, found) if found else None


def _held(name: str, quantity: str, given: tuple[float, float], says: Mapping[str, Any]) -> Held:
    is_size = bool(says.get("sized")) and math.isinf(given[0]) and given[1] > 0.0
    return Held(name, quantity, *given, says["unit"], is_size=is_size, is_peak="is_peak" in says)


def _interval(
    reading: Reading, words: Sequence[str], says: Mapping[str, Any]
) -> tuple[float, float] | None:
    """Return the interval of a number, or None for another unit."""
    amount, unit = reading.amount, says["unit"]
    value = 0.0 if reading.bare == 0.0 else amount.value if amount else None
    if value is None or (amount and amount.unit != unit):
        return None
    if reading.spread:
        return value - reading.spread, value + reading.spread
    is_most = {"within", "limit", "limiting", "limited"} & {*words}
    if is_most and not says.get("sized"):
        return None  # "keep your height within 2 cm" allows for so much around it
    rule = "at_most" if is_most else reading.rule
    if rule in ("at_most", "at_least"):
        return (-math.inf, value) if rule == "at_most" else (value, math.inf)
    near = min(NEAR[unit], 0.1 * value) if says["quantity"] == "height" else NEAR[unit]
    return value - near, value + near


# ---- joints


def find_joints(
    tokens: Sequence[Token], start: int, spec: EnvSpec
) -> tuple[tuple[int, ...], tuple[Limb, ...]] | None:
    """Return the joints with all words at a position in their names, such as "left knee"."""
    limbs = spec.robot.limbs if spec.robot else ()
    rows = _joint_words(tuple(each.name for each in limbs), _body_words(spec))
    known, parts = frozenset[str]().union(*rows.values()), word_table("parts")
    query = set[str]()
    place = start + any(token.word == "both" for token in tokens[start : start + 1])
    while place < len(tokens):
        word = tokens[place].word
        word = parts["joint_words"].get(word) or place_words().get(word, word)
        if word not in known:
            break
        query.add(word)
        place += 1
    found = [each for each in limbs if query <= rows[each.name]]
    sides = {frozenset(rows[each.name] & _SIDES) for each in found}
    if len(found) > len(sides):  # the knee and the elbow have one axis, the hip bends about this
        found = [each for each in found if {"pitch", "y"} & rows[each.name]]
    is_clear = query & {*parts["joints"]} and 0 < len(found) <= len(sides)
    return (tuple(range(start, place)), tuple(found)) if is_clear else None


@lru_cache(maxsize=64)
def _joint_words(limbs: tuple[str, ...], bodies: _Rows) -> dict[str, frozenset[str]]:
    """Return the words for joints, from their own names and those of the bodies they move."""
    joints, found = word_table("parts")["joints"], dict[str, frozenset[str]]()
    for name in limbs:
        stem = re.sub(r"_?joint$", "", name)
        named = [given for given, of in bodies if of in ((stem,), (f"{stem}_link",))]
        words = {*re.findall(r"[a-z]+|\d+", name.lower())}.union(*named or (_implied_by(stem),))
        own = {*joints} & words - {"joint"}
        own = own or {noun for noun, part in joints.items() if part in words}
        found[name] = frozenset({*words, *own, "joint"})
    return found


def _joint(
    limb: Limb, kind: str, given: tuple[float, float] | None, words: Sequence[str], spec: EnvSpec
) -> Held:
    """Return a joint held at a flexion, or at a position of the model if named as a joint."""
    name, parts, zero, sign = limb.name.replace("_", " "), word_table("parts"), 0.0, 1
    if kind != "joint" or "joint" not in words:
        own = _joint_words((limb.name,), _body_words(spec))[limb.name]
        noun = next((each for each in parts["joints"] if each in own), "")
        zero = math.radians(parts["straight"].get(f"{robot_of(spec)} {noun}", 0.0))
        low, high = limb.range or (-math.pi, math.pi)
        sign = 1 if high - zero >= zero - low else -1
        name = f"flexion of the {name}"
    if given is None:
        given = (-_STRAIGHT, _STRAIGHT) if kind == "straight" else (_BENT, math.inf)
    elif "by" in words and spec.robot:  # relative to the resting pose
        zero = spec.robot.rest_qpos[limb.qpos]
        name = f"change of the {name.removeprefix('flexion of the ')}"
    return Held(name, "joint_position", *given, "rad", (limb.name,), zero, sign)


# ---- heights of bodies


def _heights(
    kind: str, read: Sequence[Any], given: tuple[float, float] | None, spec: EnvSpec
) -> tuple[Held, ...]:
    """Return the heights of bodies relative to the ground or to another body."""
    if kind == "height" and given and read[0].name == "torso":
        return (Held("torso height", "height", *given, "m"),)
    sides = BodyPart((), "shoulder", bodies_of(frozenset({"upper arm"}), "upper arm", spec))
    ends, other = _outermost(read[0]), [*read, sides][1]  # "arms out" are as high as the shoulders
    is_in_torso = read[0].name == "head" and not any("head" in end for end in ends)
    # A foot ends below the origin of its body, and a head above that of the torso.
    if read[0].name in _WHOLE or is_in_torso or {*ends} & {*spec.feet}:
        return ()
    base, low, name = (), 0.0, "height"
    if isinstance(other, Reading):
        low = other.amount.value if other.amount else 0.0
    elif (found := _reference(other, ends, spec)) is None or found[0] in ends:
        return ()
    else:
        base, low, name = found[:1], found[1], f"height above the {found[2]}"
    near = 2.0 * NEAR["m"]
    bounds = {
        "height": given or (low, low),
        "above": (low, math.inf),
        "below": (-math.inf, low),
        "level": (low - near, low + near),
    }
    return tuple(
        Held(f"{end.replace('_', ' ')}'s {name}", "body_height", *bounds[kind], "m", (end, *base))
        for end in ends
    )


def _outermost(part: BodyPart) -> tuple[str, ...]:
    """Return the last body of a part on each side."""
    sides = [[body for body in part.bodies if side in body] for side in ("left", "right")]
    return tuple(side[-1] for side in sides if side) or part.bodies[-1:]


def _reference(part: BodyPart, ends: Sequence[str], spec: EnvSpec) -> tuple[str, float, str] | None:
    """Return a body, the height of the named part above it, and the name of the part."""
    own = [body for body in part.bodies if part.name in body]
    arms = bodies_of(frozenset({"upper arm"}), "upper arm", spec)
    if part.name != "head" or own:
        return (part.bodies[0], 0.0, part.name) if part.bodies else None
    if not arms or not spec.robot or not spec.robot.legs:
        return None
    # Without a hand, a raised arm is an elbow above the shoulder.
    has_hand = any(word in end for end in ends for word in ("hand", "wrist"))
    high = round(_HEAD_LEGS * spec.robot.legs[0].length_m, 2) if has_hand else 0.0
    return (arms[0], high, "shoulder")
