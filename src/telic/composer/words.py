"""The words of an intent: split, spelled right, and looked up in the tables of synonyms.

A table is a file of `tables/`: rows under a heading (the value), each with `words` (phrases) and
what they say besides. To teach the parser a word, add it to a row; no code changes. A phrase may
offer alternatives: "(obey|follow) (speed|) commands" is four phrases.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any, Literal

_LARGEST = 1e9
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
_SLOTS = {
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
_SHORTEST_TYPO = 5
_KEYS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_SOUNDS = ("cs", "ck", "sz", "iy", "ie", "ea")
_CONFUSED = (*_SOUNDS, *(row[k : k + 2] for row in _KEYS for k in range(len(row) - 1)))
"""letters that are taken for one another"""
_LAST_VERBS = {"flip", "somersault", "roll", "jump", "walk", "tuck", "wheel", "step", "turn"}


# ----------------------------------------------------------------------------------------- tokens


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
        if not self.word[-1:].isdigit():
            return None
        word = self.word
        if re.fullmatch(r"-?\d{1,3}(,\d{3})+(\.\d+)?", word):
            word = word.replace(",", "")
        try:
            value = float(word.replace(",", "."))
        except ValueError:
            return None
        return value if abs(value) < _LARGEST else None


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


# ---------------------------------------------------------------------------------------- lexicon


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

    def __init__(self, meanings: Iterable[tuple[str, Sense]]) -> None:
        self._phrases: dict[str, dict[tuple[str, ...], list[Sense]]] = {}
        for phrase, sense in meanings:
            *first, last = phrase.split()
            # The last word counts, article or not: "after that" is not "after".
            words = (*(word for word in first if word not in determiners()), last)
            senses = self._phrases.setdefault(words[0], {}).setdefault(words, [])
            if sense not in senses:
                senses.append(sense)

    def find(self, tokens: Sequence[Token], start: int) -> Match | None:
        """Return the longest phrase that begins at a place; articles inside it are skipped."""
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


def _places(tokens: Sequence[Token], start: int, words: tuple[str, ...]) -> tuple[int, ...] | None:
    at, place = [start], start + 1
    for word in words[1:]:
        while place < len(tokens) and word != tokens[place].word in determiners():
            place += 1
        if place >= len(tokens) or tokens[place].word != word:
            return None
        at.append(place)
        place += 1
    return tuple(at)


Phrases = Literal["phrases", "forbidden", "units", "rules", "after", "ignored"]
_LEXICONS: tuple[Phrases, ...] = ("phrases", "forbidden", "units", "rules", "after")


@lru_cache(maxsize=8)
def lexicon(name: Phrases) -> Lexicon:
    """Return one set of phrases.

    phrases     fill a slot by themselves
    forbidden   make a limit after a negation
    units       follow a number
    rules       say before a number how it is meant: "at least"
    after       say it after the number: "or more"
    ignored     are left out on purpose, though their words alone are not
    """
    return Lexicon(_meanings(name))


def _meanings(name: Phrases) -> list[tuple[str, Sense]]:
    match name:
        case "phrases":
            return [
                (phrase, Sense(slot, value, _besides(row)))
                for file, slot in _SLOTS.items()
                for value, row in _rows(file)
                for phrase in _forms(row["words"], inflect=slot in ("verb", "limit"))
            ]
        case "forbidden":
            return [
                (phrase, Sense("limit", value))
                for value, row in _rows("constraints")
                for phrase in _forms(row.get("forbidden", ()), inflect=True)
            ]
        case "units":
            return [
                (phrase, Sense("unit", value, {"factor": row["factor"]}))
                for value, row in _rows("units")
                for phrase in row["words"]
            ]
        case "rules" | "after":
            rules = table("numbers")[name].items()
            return [(phrase, Sense("rule", value)) for value, words in rules for phrase in words]
        case "ignored":
            return [(phrase, Sense("ignored", phrase)) for phrase in table("ignored")["phrases"]]


def _besides(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key not in ("words", "forbidden")}


@lru_cache(maxsize=32)
def table(name: str) -> dict[str, Any]:
    """Return a table, each alternative of a phrase written out."""
    read = tomllib.loads((TABLES / f"{name}.toml").read_text(encoding="utf-8"))
    for rows in read.values():
        for row in rows if name in (*_SLOTS, "units") else ():
            row["words"] = _all_written_out(row.get("words", ()))
    for rules in (read["rules"], read["after"]) if name == "numbers" else ():
        rules |= {rule: _all_written_out(words) for rule, words in rules.items()}
    return read


def _rows(name: str) -> list[tuple[str, dict[str, Any]]]:
    return [(value, row) for value, rows in table(name).items() for row in rows]


def _all_written_out(phrases: Iterable[str]) -> list[str]:
    """Return the phrases that those with alternatives, "(a|b) c", stand for."""
    found: list[str] = []
    for phrase in phrases:
        parts = [part.split("|") for part in re.split(r"[()]", phrase)]
        found += dict.fromkeys(" ".join("".join(each).split()) for each in product(*parts))
    return found


def _forms(words: Iterable[str], inflect: bool) -> Iterator[str]:
    """Yield phrases with the forms of their first word; of a compound also of its last."""
    for phrase in words:
        first, _, rest = phrase.partition(" ")
        for form in inflections(first) if inflect and first.isalpha() else [first]:
            yield f"{form} {rest}".strip()
        if inflect and rest in _LAST_VERBS:  # "back flips", "forward rolling", "crabwalk"
            yield from (f"{first}{gap}{form}" for form in inflections(rest) for gap in (" ", ""))


def inflections(verb: str) -> list[str]:
    """Return the regular forms of an English verb, the plain one first."""
    if verb.endswith("ie"):
        return [verb, f"{verb}s", f"{verb[:-2]}ying", f"{verb}d"]
    stem = verb[:-1] if verb.endswith("e") else verb
    if re.fullmatch(r"[^aeiou]*(?:qu)?[aeiou][^aeiouwxy]", verb):
        stem = verb + verb[-1]
    plural = f"{verb}es" if verb.endswith(("s", "x", "ch", "sh")) else f"{verb}s"
    return [verb, plural, f"{stem}ing", f"{stem}ed"]


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
def vocabulary() -> frozenset[str]:
    """Return every word of the tables."""
    numbers, parts = table("numbers"), table("parts")
    rows = (*parts["nouns"].items(), *parts["places"].items())
    nouns = [noun.split() for name, others in rows for noun in (name, *others)]
    words = {word for noun in nouns for word in (*noun, f"{noun[-1]}s")}
    words = words.union(*(lexicon(name).words() for name in _LEXICONS))
    words |= {*numbers["values"], *numbers["counts"], *parts["plurals"], *ignored_words()}
    return frozenset(words)


# --------------------------------------------------------------------------------------- spelling


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
    if len(word) < _SHORTEST_TYPO or word in vocabulary() | {*table("ignored")["not_typos"]}:
        return word
    near = [each for each in _begin_with(word[0]) if _is_slip(word, each)]
    return near[0] if len(near) == 1 else word


@lru_cache(maxsize=64)
def _begin_with(letter: str) -> frozenset[str]:
    """Return the words with a meaning that begin with a letter and are long enough for a typo."""
    known = vocabulary() - ignored_words()
    return frozenset(word for word in known if word[0] == letter and len(word) >= _SHORTEST_TYPO)


def _is_slip(typed: str, meant: str) -> bool:
    """Return whether fingers slip like that; most other words one letter away are words, too.

    The first letter is right. Letters are swapped, doubled or left out inside the word, or taken
    for one beside it on the keyboard or of the same sound.
    """
    if len(typed) == len(meant):
        pairs = [(a, b) for a, b in zip(typed, meant, strict=True) if a != b]
        if len(pairs) == 1:
            return any({*pairs[0]} <= set(group) for group in _CONFUSED)
        k = next((k for k, letter in enumerate(typed) if letter != meant[k]), 0)
        swapped = typed[:k] + typed[k + 1 : k + 2] + typed[k] + typed[k + 2 :]
        return len(pairs) == 2 and swapped == meant
    longer, shorter = sorted((typed, meant), key=len, reverse=True)
    place = next((k for k, letter in enumerate(shorter) if letter != longer[k]), len(shorter))
    if longer[:place] + longer[place + 1 :] != shorter:
        return False
    is_double = longer[place] == longer[place - 1]
    return is_double or (len(typed) < len(meant) and place < len(shorter))
