"""The words of an intent: split, spelled right, and looked up in the tables of synonyms.

A table is a file of `tables/`: rows under a heading (the value), each with `words` (phrases) and
what they say besides. To teach the parser a word, add it to a row; no code changes. A phrase may
offer alternatives: "(obey|follow) (speed|) commands" is four phrases.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

LARGEST = 1e9

_TOKEN = re.compile(
    r"(?P<number>(?:(?<!\S)-)?\d+(?:[.,]\d+)*|(?<!\w)\.\d+)"
    r"|(?P<word>[^\W\d_]\w*(?:\.\d+(?!\w))?(?:'[^\W\d_]+)?)"
    r"|(?P<mark>\n+|>=|<=|\S)"
)
_SPELLINGS = {"&": "and", "+": "and", "%": "percent", "°": "degrees"}
_SILENT = set(",;.:!?()[]{}\"'/-‐‑–—…*`“”")
_QUOTES = str.maketrans({"’": "'", "‘": "'", "´": "'", "−": "-"})
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
    "grounds": "ground",
}
SHORTEST_TYPO = 5

_KEYS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_SOUNDS = ("cs", "ck", "sz", "iy", "ie", "ea")
_CONFUSED = (*_SOUNDS, *(row[k : k + 2] for row in _KEYS for k in range(len(row) - 1)))
"""letters that are taken for one another"""
_LAST_VERBS = {"flip", "somersault", "roll", "jump", "walk", "tuck", "wheel", "step", "turn"}


@dataclass(frozen=True, slots=True)
class Token:
    """One word, number or sign of an intent."""

    text: str
    """as it was typed"""
    word: str
    """lower case, typing errors corrected; "," and "." for anything that separates"""
    silent: bool = False
    """punctuation: it separates, but is not a word to account for"""

    @property
    def number(self) -> float | None:
        """The value, if it is written in digits."""
        return _number(self.word) if self.word[-1:].isdigit() else None


def read_tokens(text: str) -> list[Token]:
    """Split a text into words, numbers and signs; nothing but white space is lost."""
    text = unicodedata.normalize("NFKC", readable(text)).translate(_QUOTES)
    tokens: list[Token] = []
    for match in _TOKEN.finditer(text):
        typed = match.group()
        if match.lastgroup != "mark":
            tokens.append(Token(typed, typed.lower()))
        elif typed in _SILENT or typed.startswith("\n"):
            word = _separator(text, match.start(), typed)
            if word:
                tokens.append(Token(typed, word, silent=True))
        else:
            tokens.append(Token(typed, _SPELLINGS.get(typed, typed)))
    return tokens


def readable(text: str) -> str:
    """Return a text that can be stored: half characters are replaced."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _separator(text: str, place: int, sign: str) -> str:
    before, after = text[place - 1 : place], text[place + 1 : place + 2]
    if sign == "/":
        return "per"
    if sign in "'*`\"“”":
        return ""
    if sign in "-‐‑–—":
        if before.isdigit() and after[:1].isdigit():
            return "to"
        return "" if before.isalnum() or after.isalnum() else ","
    return "," if sign in ",()[]{}" else "."


def _number(word: str) -> float | None:
    if re.fullmatch(r"-?\d{1,3}(,\d{3})+(\.\d+)?", word):
        word = word.replace(",", "")
    try:
        value = float(word.replace(",", "."))
    except ValueError:
        return None
    return value if abs(value) < LARGEST else None


@dataclass(frozen=True, slots=True)
class Sense:
    """One meaning of a phrase: the slot it fills, with what, and what it says besides."""

    slot: str
    value: str
    says: Mapping[str, Any] = field(default_factory=dict[str, Any])

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
        matches = [
            Match(at, tuple(senses))
            for words, senses in self._phrases.get(tokens[start].word, {}).items()
            if (at := _places(tokens, start, words)) is not None
        ]
        return max(matches, key=lambda match: len(match.at), default=None)

    def words(self) -> set[str]:
        """Return every word of every phrase."""
        return {word for group in self._phrases.values() for words in group for word in words}


@lru_cache(maxsize=32)
def table(name: str) -> dict[str, Any]:
    """Return a table, each alternative of a phrase written out."""
    read = tomllib.loads((TABLES / f"{name}.toml").read_text(encoding="utf-8"))
    for rows in read.values():
        for row in rows if name in (*SLOTS, "units") else ():
            row["words"] = _all_written_out(row.get("words", ()))
    for rules in (read["rules"], read["after"]) if name == "numbers" else ():
        rules |= {rule: _all_written_out(words) for rule, words in rules.items()}
    return read


def _all_written_out(phrases: Iterable[str]) -> list[str]:
    return [one for phrase in phrases for one in _written_out(phrase)]


def _written_out(phrase: str) -> list[str]:
    """Return the phrases that one with alternatives, "(a|b) c", stands for."""
    parts = [part.split("|") for part in re.split(r"[()]", phrase)]
    return list(dict.fromkeys(" ".join("".join(each).split()) for each in product(*parts)))


def inflections(verb: str) -> list[str]:
    """Return the regular forms of an English verb, the plain one first."""
    if verb.endswith("ie"):
        return [verb, f"{verb}s", f"{verb[:-2]}ying", f"{verb}d"]
    stem = verb[:-1] if verb.endswith("e") else verb
    if re.fullmatch(r"[^aeiou]*(?:qu)?[aeiou][^aeiouwxy]", verb):
        stem = verb + verb[-1]
    plural = f"{verb}es" if verb.endswith(("s", "x", "ch", "sh")) else f"{verb}s"
    return [verb, plural, f"{stem}ing", f"{stem}ed"]


def is_one_edit(one: str, other: str) -> bool:
    """Return whether a letter changed, added, left out or swapped with the next makes the other."""
    if len(one) < len(other):
        one, other = other, one
    if len(one) - len(other) > 1 or one == other:
        return False
    pairs = zip(one, other, strict=False)
    i = next((k for k, (a, b) in enumerate(pairs) if a != b), len(other))
    if len(one) > len(other):
        return one[i + 1 :] == other[i:]
    swapped = one[:i] + one[i + 1 : i + 2] + one[i : i + 1] + one[i + 2 :]
    return one[i + 1 :] == other[i + 1 :] or swapped == other


@lru_cache(maxsize=1)
def determiners() -> frozenset[str]:
    """Return the words skipped inside phrases."""
    return frozenset(table("ignored")["determiners"])


@lru_cache(maxsize=1)
def ignored_words() -> frozenset[str]:
    """Return the words left out on purpose."""
    lists = table("ignored")
    return frozenset((*lists["determiners"], *lists["words"], *lists["robots"]))


@lru_cache(maxsize=1)
def ignored_phrases() -> Lexicon:
    """Return the phrases left out on purpose, whose words alone are not."""
    return _lexicon((phrase, Sense("ignored", phrase)) for phrase in table("ignored")["phrases"])


@lru_cache(maxsize=1)
def phrases() -> Lexicon:
    """Return all phrases that fill a slot by themselves."""
    return _lexicon(
        (phrase, Sense(slot, value, _besides(row)))
        for name, slot in SLOTS.items()
        for value, row in _rows(name)
        for phrase in _forms(row.get("words", ()), inflect=slot in ("verb", "limit"))
    )


@lru_cache(maxsize=1)
def forbidden() -> Lexicon:
    """Return the phrases that make a limit after a negation."""
    return _lexicon(
        (phrase, Sense("limit", value))
        for value, row in _rows("constraints")
        for phrase in _forms(row.get("forbidden", ()), inflect=True)
    )


@lru_cache(maxsize=1)
def units() -> Lexicon:
    """Return the units, each with its factor."""
    return _lexicon(
        (phrase, Sense("unit", value, {"factor": row["factor"]}))
        for value, row in _rows("units")
        for phrase in row["words"]
    )


@lru_cache(maxsize=1)
def number_rules() -> Lexicon:
    """Return the words that say how a number is meant."""
    return _lexicon(
        (phrase, Sense("rule", value))
        for value, words in table("numbers")["rules"].items()
        for phrase in words
    )


@lru_cache(maxsize=1)
def later_rules() -> Lexicon:
    """Return the words that say after a number how it is meant: "or more"."""
    return _lexicon(
        (phrase, Sense("rule", value))
        for value, words in table("numbers")["after"].items()
        for phrase in words
    )


@lru_cache(maxsize=1)
def vocabulary() -> frozenset[str]:
    """Return every word of the tables."""
    numbers, parts = table("numbers"), table("parts")
    nouns = [noun for row in (parts["nouns"], parts["places"]) for noun in _names(row)]
    words = {word for noun in nouns for word in (*noun.split(), f"{noun.split()[-1]}s")}
    for lexicon in (phrases(), forbidden(), units(), number_rules(), later_rules()):
        words |= lexicon.words()
    words |= {*numbers["values"], *numbers["counts"], *parts["plurals"], *ignored_words()}
    return frozenset(words)


def corrected(tokens: Iterable[Token], names: Iterable[str]) -> list[Token]:
    """Return the tokens with one-letter typing errors undone; `names` are right as they are."""
    names = frozenset(name.lower() for name in names)
    return [
        token if token.silent or token.word in names else Token(token.text, correct(token.word))
        for token in tokens
    ]


@lru_cache(maxsize=4096)
def correct(word: str) -> str:
    """Return the one known word that a slip of a finger makes this one, else the word itself.

    Words left out on purpose are not guessed: what they might have been carries no meaning, and
    what was typed may.
    """
    known = vocabulary()
    if word in known or len(word) < SHORTEST_TYPO or word in table("ignored")["not_typos"]:
        return word
    near = [
        each
        for each in _begin_with(word[0])
        if len(each) >= SHORTEST_TYPO and is_one_edit(word, each) and _is_slip(word, each)
    ]
    return near[0] if len(near) == 1 else word


@lru_cache(maxsize=64)
def _begin_with(letter: str) -> frozenset[str]:
    """Return the words with a meaning that begin with a letter."""
    return frozenset(word for word in vocabulary() - ignored_words() if word[0] == letter)


def _is_slip(typed: str, meant: str) -> bool:
    """Return whether fingers slip like that; most other words one letter away are words, too.

    The first letter is right. Letters are swapped, doubled or left out inside the word, or taken
    for one beside it on the keyboard or of the same sound.
    """
    if typed[0] != meant[0]:
        return False
    if len(typed) == len(meant):
        pairs = [{a, b} for a, b in zip(typed, meant, strict=True) if a != b]
        return len(pairs) == 2 or any(pairs[0] <= set(group) for group in _CONFUSED)
    longer, shorter = sorted((typed, meant), key=len, reverse=True)
    place = next((k for k, letter in enumerate(shorter) if letter != longer[k]), len(shorter))
    is_double = longer[place] == longer[place - 1]
    return is_double or (len(typed) < len(meant) and place < len(shorter))


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


def _lexicon(meanings: Iterable[tuple[str, Sense]]) -> Lexicon:
    lexicon = Lexicon()
    for phrase, sense in meanings:
        lexicon.add(phrase, sense)
    return lexicon


def _rows(name: str) -> list[tuple[str, dict[str, Any]]]:
    return [(value, row) for value, rows in table(name).items() for row in rows]


def _names(rows: Mapping[str, Iterable[str]]) -> list[str]:
    return [name for key, others in rows.items() for name in (key, *others)]


def _besides(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key not in ("words", "forbidden")}


def _forms(words: Iterable[str], inflect: bool) -> list[str]:
    forms: list[str] = []
    for phrase in words:
        first, _, rest = phrase.partition(" ")
        firsts = inflections(first) if inflect and first.isalpha() else [first]
        forms += [f"{form} {rest}".strip() for form in firsts]
        # Of a compound the last word is the verb: "back flips", "forward rolling", "crabwalk".
        if inflect and rest and " " not in rest and rest in _LAST_VERBS:
            forms += [f"{first}{gap}{form}" for form in inflections(rest) for gap in (" ", "")]
    return forms
