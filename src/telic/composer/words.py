"""The tables of synonyms the words of an intent are looked up in.

A table is a file of `tables/`: rows under a heading (the value), each with `words` (phrases) and
what they say besides. To teach the parser a word, add it to a row; no code changes.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from telic.composer.spelling import inflections, is_one_edit
from telic.composer.tokens import Token

TABLES = Path(__file__).parent / "tables"
# File of a table: name of the slot its words fill.
SLOTS = {
    "verbs": "verb",
    "directions": "direction",
    "degrees": "degree",
    "dimensions": "dimension",
    "postures": "posture",
    "styles": "style",
    "constraints": "limit",
    "joins": "join",
}
SHORTEST_TYPO = 5


@dataclass(frozen=True, slots=True)
class Sense:
    """One meaning of a phrase: the slot it fills, with what, and what it says besides."""

    slot: str
    value: str
    says: Mapping[str, Any] = field(default_factory=dict)

    def suits(self, verb: str | None) -> bool:
        """Return whether it means this beside that verb."""
        return "verbs" not in self.says or verb in self.says["verbs"]


@dataclass(frozen=True, slots=True)
class Match:
    """A phrase found in the text: the places of its words, and what it can mean."""

    at: tuple[int, ...]
    senses: tuple[Sense, ...]

    @property
    def end(self) -> int:
        """Place after its last word."""
        return self.at[-1] + 1


class Lexicon:
    """Phrases and their senses; the longest one that fits is found."""

    def __init__(self) -> None:
        self._phrases: dict[str, dict[tuple[str, ...], list[Sense]]] = {}

    def add(self, phrase: str, sense: Sense) -> None:
        """Teach one meaning of a phrase; articles in it do not matter."""
        words = tuple(phrase.split())
        # The last word counts: "after that" is not "after".
        words = (*(word for word in words[:-1] if word not in determiners()), words[-1])
        senses = self._phrases.setdefault(words[0], {}).setdefault(words, [])
        if sense not in senses:
            senses.append(sense)

    def find(self, tokens: Sequence[Token], start: int) -> Match | None:
        """Return the longest phrase that begins at a place."""
        if start >= len(tokens):
            return None
        found = []
        for words, senses in self._phrases.get(tokens[start].word, {}).items():
            at = _places(tokens, start, words)
            if at is not None:
                found.append(Match(at, tuple(senses)))
        return max(found, key=lambda match: len(match.at), default=None)

    def words(self) -> set[str]:
        """Return every word of every phrase."""
        return {word for group in self._phrases.values() for words in group for word in words}


@lru_cache(maxsize=32)
def table(name: str) -> dict[str, Any]:
    """Return a table as it is on disk."""
    return tomllib.loads((TABLES / f"{name}.toml").read_text(encoding="utf-8"))


@lru_cache(maxsize=1)
def determiners() -> frozenset[str]:
    """Return the words skipped inside phrases."""
    return frozenset(table("ignored")["determiners"])


@lru_cache(maxsize=1)
def ignored_words() -> frozenset[str]:
    """Return the words left out on purpose, those of the phrases one by one."""
    lists = table("ignored")
    phrases = [*lists["determiners"], *lists["words"], *lists["robots"]]
    return frozenset(word for phrase in phrases for word in phrase.split())


@lru_cache(maxsize=1)
def ignored_phrases() -> Lexicon:
    """Return the phrases left out on purpose, whose words alone are not."""
    lexicon = Lexicon()
    for phrase in table("ignored")["phrases"]:
        lexicon.add(phrase, Sense("ignored", phrase))
    return lexicon


@lru_cache(maxsize=1)
def phrases() -> Lexicon:
    """Return all phrases that fill a slot by themselves."""
    lexicon = Lexicon()
    for name, slot in SLOTS.items():
        for value, row in _rows(name):
            sense = Sense(slot, value, _besides(row))
            for phrase in _forms(row.get("words", ()), inflect=slot in ("verb", "limit")):
                lexicon.add(phrase, sense)
    return lexicon


@lru_cache(maxsize=1)
def forbidden() -> Lexicon:
    """Return the phrases that make a limit after a negation."""
    lexicon = Lexicon()
    for value, row in _rows("constraints"):
        for phrase in _forms(row.get("forbidden", ()), inflect=True):
            lexicon.add(phrase, Sense("limit", value))
    return lexicon


@lru_cache(maxsize=1)
def units() -> Lexicon:
    """Return the units, each with its factor."""
    lexicon = Lexicon()
    for value, row in _rows("units"):
        for phrase in row["words"]:
            lexicon.add(phrase, Sense("unit", value, {"factor": row["factor"]}))
    return lexicon


@lru_cache(maxsize=1)
def number_rules() -> Lexicon:
    """Return the words that say how a number is meant."""
    lexicon = Lexicon()
    for value, words in table("numbers")["rules"].items():
        for phrase in words:
            lexicon.add(phrase, Sense("rule", value))
    return lexicon


@lru_cache(maxsize=1)
def vocabulary() -> frozenset[str]:
    """Return every word of the tables."""
    numbers, parts = table("numbers"), table("parts")
    nouns = [noun for row in (parts["nouns"], parts["places"]) for noun in _names(row)]
    words = {word for noun in nouns for word in (*noun.split(), f"{noun.split()[-1]}s")}
    for lexicon in (phrases(), forbidden(), units(), number_rules()):
        words |= lexicon.words()
    words |= {*numbers["values"], *numbers["counts"], *parts["plurals"], *ignored_words()}
    return frozenset(words)


def corrected(tokens: Iterable[Token], names: Iterable[str]) -> list[Token]:
    """Return the tokens with one-letter typing errors undone; `names` are right as they are."""
    names = frozenset(name.lower() for name in names)
    return [token if token.silent or token.word in names else _corrected(token) for token in tokens]


def _corrected(token: Token) -> Token:
    return Token(token.text, correct(token.word))


@lru_cache(maxsize=4096)
def correct(word: str) -> str:
    """Return the one known word a single typing error away, else the word itself."""
    known = vocabulary()
    if word in known or len(word) < SHORTEST_TYPO or word in table("ignored")["not_typos"]:
        return word
    near = [each for each in known if len(each) >= SHORTEST_TYPO and is_one_edit(word, each)]
    return near[0] if len(near) == 1 else word


def _places(tokens: Sequence[Token], start: int, words: tuple[str, ...]) -> tuple[int, ...] | None:
    """Return where the words of a phrase are, skipping articles between them."""
    at, place = [start], start + 1
    for word in words[1:]:
        while (
            place < len(tokens)
            and tokens[place].word != word
            and tokens[place].word in determiners()
        ):
            place += 1
        if place >= len(tokens) or tokens[place].word != word:
            return None
        at.append(place)
        place += 1
    return tuple(at)


def _rows(name: str) -> list[tuple[str, dict[str, Any]]]:
    return [(value, row) for value, rows in table(name).items() for row in rows]


def _names(rows: Mapping[str, Iterable[str]]) -> list[str]:
    return [name for key, others in rows.items() for name in (key, *others)]


def _besides(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key not in ("words", "forbidden")}


def _forms(words: Iterable[str], inflect: bool) -> list[str]:
    found = []
    for phrase in words:
        first, _, rest = phrase.partition(" ")
        firsts = inflections(first) if inflect and first.isalpha() else [first]
        found += [f"{each} {rest}".strip() for each in firsts]
        # Of a compound the last word is the verb: "back flips", "forward rolling".
        if inflect and rest and " " not in rest and rest in _LAST_VERBS:
            found += [f"{first} {each}" for each in inflections(rest)]
    return found


_LAST_VERBS = {"flip", "somersault", "roll", "jump", "walk", "tuck", "wheel", "step", "turn"}
