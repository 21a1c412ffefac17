"""Find body parts named in everyday words, and the bodies of an environment they are."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from telic.composer.lexicon import Token, determiners, lexicon, table, vocabulary
from telic.envs.spec import EnvSpec

_PAIRED = ("leg", "foot", "arm", "hand", "thigh", "shin", "upper arm")
_ONE_OF_MANY = {"left", "right", "first", "second", "third", "fourth"}
Rows = tuple[tuple[frozenset[str], tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class BodyPart:
    """A body part named in the text, and the bodies it is here (none: this robot lacks it)."""

    at: tuple[int, ...]
    name: str
    bodies: tuple[str, ...]

    @property
    def end(self) -> int:
        """Place after its last word."""
        return self.at[-1] + 1


@dataclass(frozen=True, slots=True)
class _Noun:
    at: tuple[int, ...]
    name: str
    plural: bool


def find_part(tokens: Sequence[Token], start: int, spec: EnvSpec) -> BodyPart | None:
    """Return the body part whose name begins at a place."""
    word = tokens[start].word
    if tokens[start].silent:
        return None
    if word not in vocabulary():  # a body's name as the model has it
        for name in spec.body_names:
            if name.lower() == word and name != "world":
                return BodyPart((start,), name, (name,))
    return _everyday_name(tokens, start, spec) or _shared_name(tokens, start, spec)


def is_part(word: str) -> bool:
    """Return whether a word names a part of some body."""
    return word in _nouns()


def _everyday_name(tokens: Sequence[Token], start: int, spec: EnvSpec) -> BodyPart | None:
    """Read places and a noun: "both front legs"."""
    first = start + (tokens[start].word in ("both", "all") and _find_noun(tokens, start) is None)
    last = _after_places(tokens, first)
    noun = _find_noun(tokens, last)
    if noun is None:
        return None
    places = [_places()[token.word] for token in tokens[first:last]]
    end = noun.at[-1] + 1
    # "leg 2", "leg number two"; but "wave your hand three times" has no third hand.
    after = end + (end < len(tokens) and tokens[end].word == "number")
    number = table("parts")["numbers"].get(tokens[after].word) if after < len(tokens) else None
    is_counted = lexicon().find(tokens, after + 1, "unit") is not None
    if number is not None and not is_counted and noun.name in _PAIRED and not noun.plural:
        places, end = [number, *places], after + 1
    bodies = bodies_of(frozenset((*places, noun.name)), noun.name, spec)
    return BodyPart(tuple(range(start, end)), _canonical(noun, places), bodies)


def _shared_name(tokens: Sequence[Token], start: int, spec: EnvSpec) -> BodyPart | None:
    """Read the first of "left or right foot", whose noun comes later."""
    joint = _after_places(tokens, start)
    if joint == start or joint >= len(tokens) or tokens[joint].word not in ("or", "and"):
        return None
    last = _after_places(tokens, joint + 1)
    noun = _find_noun(tokens, last)
    if last == joint + 1 or noun is None:
        return None
    named = (*tokens[start:joint], *(tokens[place] for place in noun.at))
    found = _everyday_name(named, 0, spec)
    return found and BodyPart(tuple(range(start, joint)), found.name, found.bodies)


def _after_places(tokens: Sequence[Token], place: int) -> int:
    """Return the place after words that say where: "front left"; a noun may begin with one."""
    while place < len(tokens) and tokens[place].word in _places():
        if _find_noun(tokens, place) is not None:
            break
        place += 1
    return place


def _find_noun(tokens: Sequence[Token], start: int) -> _Noun | None:
    for length in (3, 2, 1):
        words, place = list[str](), start
        while place < len(tokens) and len(words) < length:
            if not words or tokens[place].word not in determiners():
                words.append(tokens[place].word)
            place += 1
        found = _nouns().get(" ".join(words)) if len(words) == length else None
        if found is not None:
            return _Noun(tuple(range(start, place)), *found)
    return None


def _canonical(noun: _Noun, places: list[str]) -> str:
    """Return the one name of a part: "front legs" also for a robot's only front leg."""
    ordered = sorted(dict.fromkeys(places), key=list(table("parts")["places"]).index)
    # English order: front left, not left front.
    ordered.sort(key=lambda place: place in ("left", "right"))
    grouped = noun.name in _PAIRED and places and not _ONE_OF_MANY & set(places)
    plural = grouped or (noun.plural and (noun.name in _PAIRED or noun.name == "pole"))
    name = {"foot": "feet"}.get(noun.name, f"{noun.name}s") if plural else noun.name
    return " ".join((*ordered, name))


def bodies_of(query: frozenset[str], noun: str, spec: EnvSpec) -> tuple[str, ...]:
    """Return the bodies all of these words can be said of, in the table's or the model's order."""
    robot = _robot(spec)
    if robot is not None:
        rows, nouns = _table_rows(robot), {noun}
    else:
        rows, nouns = model_rows(spec), set(table("parts")["made_of"].get(noun, [noun]))
    places = query - {noun}
    found = [body for key, bodies in rows if places <= key and nouns & key for body in bodies]
    return tuple(body for body in dict.fromkeys(found) if body in spec.body_names)


def model_rows(spec: EnvSpec) -> Rows:
    """Return what can be said of each body of a model without a table, from its own names."""
    rows: list[tuple[frozenset[str], tuple[str, ...]]] = []
    for body in spec.body_names:
        words = _name_words(body)
        if body == spec.torso:
            words |= {"torso"}
        if body in spec.feet:
            words |= {"foot"}
            if words <= {"foot", *table("parts")["places"]}:
                words |= {"leg"}
        rows.append((frozenset(words), (body,)))
    return tuple(rows)


def _name_words(body: str) -> set[str]:
    """Split a model's body name into places and nouns: "FL_calf" is front, left, shin."""
    split = re.sub(r"([a-z])([A-Z])", r"\1 \2", body)
    pieces = [piece for piece in re.split(r"[^A-Za-z]+", split.replace("_", " ").lower()) if piece]
    words: set[str] = set()
    for piece in pieces:
        prefixed = piece[:1] in table("parts")["prefixes"] and piece[1:] in _nouns()
        for word in (piece[:1], piece[1:]) if prefixed and piece not in _nouns() else (piece,):
            words.update(_word_says(word))
    # "left_upper_arm" is an upper arm, "lower_arm" a hand.
    for first, second in pairwise(pieces):
        noun = _nouns().get(f"{first} {second}")
        words.update((noun[0],) if noun else ())
    return words


def _word_says(word: str) -> list[str]:
    expanded = table("parts")["prefixes"].get(word)
    if expanded is not None:
        return expanded.split()
    noun = _nouns().get(word)
    return [noun[0]] if noun else [_places().get(word, word)]


def _robot(spec: EnvSpec) -> str | None:
    name = re.split(r"-v\d+$", spec.id)[0]
    parts = table("parts")
    name = parts["same"].get(name, name)
    return name if name in parts["robots"] else None


@lru_cache(maxsize=16)
def _table_rows(robot: str) -> Rows:
    rows: Mapping[str, list[str]] = table("parts")["robots"][robot]
    nouns: list[str] = sorted(table("parts")["nouns"], key=len, reverse=True)
    found: list[tuple[frozenset[str], tuple[str, ...]]] = []
    for key, bodies in rows.items():
        noun = next(each for each in nouns if key.endswith(each))
        found.append((frozenset((*key.removesuffix(noun).split(), noun)), tuple(bodies)))
    return tuple(found)


@lru_cache(maxsize=1)
def _nouns() -> dict[str, tuple[str, bool]]:
    """Return each word for a part: its noun, and whether it is plural."""
    parts = table("parts")
    names = [(name, noun) for noun, others in parts["nouns"].items() for name in (noun, *others)]
    plurals = {f"{name}s": (noun, True) for name, noun in names}
    irregular = {plural: (noun, True) for plural, noun in parts["plurals"].items()}
    return plurals | {name: (noun, False) for name, noun in names} | irregular


@lru_cache(maxsize=1)
def _places() -> dict[str, str]:
    rows = table("parts")["places"].items()
    return {word: place for place, others in rows for word in (place, *others)}
