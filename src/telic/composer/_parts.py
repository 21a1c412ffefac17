"""Map everyday names of body parts to bodies of an environment."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from telic.composer.lexicon import Token, WordSpan, determiners, lexicon, vocabulary, word_table
from telic.envs.spec import EnvSpec

_PAIRED = ("leg", "foot", "arm", "hand", "thigh", "shin", "upper arm")
_ONE_OF_MANY = {"left", "right", "first", "second", "third", "fourth"}
_PAIRS = {"front", "rear", "middle"}
_MAX_NOUN = 3


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
    places = [_places()[token.word] for token in tokens[first:last]]
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
    name = {"foot": "feet"}.get(noun, f"{noun}s") if plural else noun
    order = list(parts["places"])
    ordered = sorted({*places}, key=lambda place: (place in ("left", "right"), order.index(place)))
    bodies = bodies_of(frozenset((*places, noun)), noun, spec)
    return BodyPart(tuple(range(start, end)), " ".join((*ordered, name)), bodies)


def _after_places(tokens: Sequence[Token], place: int) -> int:
    """Return the position after location words such as "front left"."""
    while place < len(tokens) and tokens[place].word in _places():
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


def bodies_of(query: frozenset[str], noun: str, spec: EnvSpec) -> tuple[str, ...]:
    """Return the bodies that match all words, sorted as in the table or the model."""
    parts = word_table("parts")
    robot = re.split(r"-v\d+$", spec.id)[0]
    robot = parts["same"].get(robot, robot)
    if robot in parts["robots"]:
        known: list[str] = sorted(parts["nouns"], key=len, reverse=True)
        nouns, rows = {noun}, list[tuple[set[str], list[str]]]()
        for key, bodies in parts["robots"][robot].items():
            own = next(each for each in known if key.endswith(each))
            rows.append(({*key.removesuffix(own).split(), own}, bodies))
    else:
        nouns = {*parts["made_of"].get(noun, [noun])}
        rows = [(_implied_by(body, spec), [body]) for body in spec.body_names]
    places = query - {noun}
    found = [body for key, bodies in rows if places <= key and nouns & key for body in bodies]
    return tuple(body for body in dict.fromkeys(found) if body in spec.body_names)


def _implied_by(body: str, spec: EnvSpec) -> set[str]:
    """Return the words implied by a body's name, e.g. front, left, shin for "FL_calf"."""
    parts, words = word_table("parts"), set[str]()
    split = re.sub(r"([a-z])([A-Z])", r"\1 \2", body)
    pieces = re.findall(r"[a-z]+", split.lower())
    for piece in pieces:
        prefixed = piece[:1] in parts["prefixes"] and piece[1:] in _nouns()
        for word in (piece[:1], piece[1:]) if prefixed and piece not in _nouns() else (piece,):
            noun = _nouns().get(word, (_places().get(word, word),))[0]
            words.update(parts["prefixes"][word].split() if word in parts["prefixes"] else (noun,))
    for pair in pairwise(pieces):  # "left_upper_arm" is an upper arm, "lower_arm" a hand
        words.update(_nouns().get(" ".join(pair), ())[:1])
    if body == spec.torso:
        words.add("torso")
    if body in spec.feet:
        words.add("foot")
        if words <= {"foot", *parts["places"]}:
            words.add("leg")
    return words


@lru_cache(maxsize=1)
def _nouns() -> dict[str, tuple[str, bool]]:
    """Map each word for a body part to its noun, and to whether it is plural."""
    parts = word_table("parts")
    names = [(name, noun) for noun, others in parts["nouns"].items() for name in (noun, *others)]
    plurals = {f"{name}s": (noun, True) for name, noun in names}
    irregular = {plural: (noun, True) for plural, noun in parts["plurals"].items()}
    return plurals | {name: (noun, False) for name, noun in names} | irregular


@lru_cache(maxsize=1)
def _places() -> dict[str, str]:
    rows = word_table("parts")["places"].items()
    return {word: place for place, others in rows for word in (place, *others)}
