"""Tokenize an intent and look up phrases in the tables of `tables/`.

A table has one row per value, with `words` (phrases) and further properties. New words can be added
to a row without code changes. A phrase is a pattern: "(obey|follow) (speed|) commands" lists
alternatives, and "within {amount}" contains text matched by the reader of that name. Articles and
possessives between words are skipped.
"""

import re
import tomllib
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

_MAX_NUMBER = 1e9
_TOKEN = re.compile(
    r"(?P<number>(?:(?<![^\s(\[,=])-)?\d+(?:[.,]\d+)*|(?<!\w)\.\d+)"
    r"|(?P<word>[^\W\d_]\w*(?:\.\d+(?!\w))?(?:'[^\W\d_]+)?)"
    r"|(?P<mark>\n+|>=|<=|\S)"
)
_SPELLINGS = {"&": "and", "+": "and", "%": "percent", "°": "degrees"}
_DASHES = "-‐‑–—"
_QUOTES = "'*`\"“”"
_SILENT = {*",;.:!?()[]{}/…\n", *_DASHES, *_QUOTES}
_STRAIGHT = str.maketrans({"’": "'", "‘": "'", "´": "'", "−": "-"})
TABLES = Path(__file__).parent / "tables"
_PHRASE_KEYS = ("words", "forbidden", "after")
"""keys of phrases in a row; the last two are the slots that they fill"""
_INFLECTED = ("verb", "limit", "forbidden")
_MIN_TYPO = 5
_KEYS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_CONFUSED = ("cs", "ck", "sz", "iy", "ie", "ea", *(k[j : j + 2] for k in _KEYS for j in range(9)))
"""pairs of letters that are easily confused, because of similar sound or adjacent keys"""


# ----------------------------------------------------------------------------------------- tokens


@dataclass(frozen=True, slots=True)
class Token:
    """Word, number or punctuation mark of an intent."""

    text: str
    """text as typed"""
    word: str
    """normalized form: lower case, typos corrected, and separators mapped to "," and "." """
    silent: bool = False
    """whether the token is punctuation that need not be understood"""

    @property
    def number(self) -> float | None:
        """Numeric value of digits, or None."""
        if not self.word[-1:].isdigit():
            return None
        grouped = re.fullmatch(r"-?\d{1,3}(,\d{3})+(\.\d+)?", self.word)
        try:
            value = float(self.word.replace(",", "" if grouped else "."))
        except ValueError:
            return None
        return value if abs(value) < _MAX_NUMBER else None


def read_tokens(text: str, names: Iterable[str] = ()) -> list[Token]:
    """Tokenize a text into words, numbers and punctuation, and correct typos.

    The tokens omit only whitespace. `names` are exempt from spelling correction.
    """
    text = unicodedata.normalize("NFKC", readable(text)).translate(_STRAIGHT)
    text = re.sub(r"\+/?-(?=[\s\d.])|\bplus or minus\b", " ± ", text)
    text = re.sub(r"([(\[]-?[\d.]+),(?=-?[\d.]+[)\]])", r"\1, ", text)  # coordinates
    known = {name.lower() for name in names}
    tokens: list[Token] = []
    for match in _TOKEN.finditer(text):
        typed = match.group()
        if match.lastgroup != "mark":
            word = typed.lower()
            tokens.append(Token(typed, word if word in known else correct_spelling(word)))
        elif typed[0] not in _SILENT:
            tokens.append(Token(typed, _SPELLINGS.get(typed, typed)))
        elif word := _separator(text, match.start(), typed):
            tokens.append(Token(typed, word, silent=True))
    return tokens


def readable(text: str) -> str:
    """Replace unpaired surrogates so that a text can be encoded."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _separator(text: str, place: int, sign: str) -> str:
    before, after = text[place - 1 : place], text[place + 1 : place + 2]
    if sign in _DASHES:
        is_range = before.isdigit() and after.isdigit()
        return "to" if is_range else "" if before.isalnum() or after.isalnum() else ","
    if sign in _QUOTES:
        return ""
    return "per" if sign == "/" else "," if sign in ",:()[]{}" else "."


def quoted(tokens: Sequence[Token]) -> str:
    """Join tokens as typed, e.g. to "2 m/s"."""
    words = [token.text for token in tokens if not token.silent or token.text == "/"]
    return re.sub(r" ?/ ?", "/", " ".join(words))


def quotes(
    tokens: Sequence[Token], places: Collection[int], left_out: Collection[int]
) -> tuple[str, ...]:
    """Quote the tokens at the given positions, joining adjacent tokens."""
    found: list[list[int]] = []
    for place in sorted(places):
        between = range(found[-1][-1] + 1, place) if found else ()
        if found and all(k in left_out or tokens[k].text == "/" for k in between):
            found[-1] += [*between, place]
        else:
            found.append([place])
    return tuple(quoted([tokens[place] for place in each]) for each in found)


# ---------------------------------------------------------------------------------------- phrases


@dataclass(frozen=True, slots=True)
class Sense:
    """Meaning of a phrase, with its slot, value and further properties."""

    slot: str
    value: str
    says: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def suits(self, verb: str | None) -> bool:
        """Return whether the meaning applies with the given verb."""
        return "verbs" not in self.says or verb in self.says["verbs"]


@dataclass(frozen=True, slots=True)
class WordSpan:
    """Words of an intent."""

    at: tuple[int, ...]
    """positions of the words"""

    @property
    def end(self) -> int:
        """Index of the token after the last word."""
        return self.at[-1] + 1


@dataclass(frozen=True, slots=True)
class Match(WordSpan):
    """Phrase found in the text, with its token positions and possible meanings."""

    senses: tuple[Sense, ...]
    read: tuple[Any, ...] = ()
    """values returned by the readers named in the phrase, in order"""


PhraseReader = Callable[[Sequence[Token], int], tuple[tuple[int, ...], Any] | None]
"""function that reads a value at a position, and returns its token positions and the value"""
# A word, a reader name in braces, or a list of alternatives, each a sequence of nodes.
_Node = str | list["_Nodes"]
_Nodes = tuple[_Node, ...]


class Lexicon:
    """Phrase dictionary with longest-match lookup."""

    def __init__(
        self, entries: Iterable[tuple[str, Sense]], parts: Mapping[str, str] | None = None
    ) -> None:
        self._entries: dict[str, list[tuple[_Nodes, Sense]]] = {}
        self.words: set[str] = set()
        for phrase, sense in entries:
            for name, part in (parts or {}).items():
                phrase = phrase.replace(f"{{{name}}}", f"({part})")
            is_inflected = sense.slot in _INFLECTED and not sense.says.get("fixed")
            for nodes in _forms(_pattern(phrase), is_inflected):
                for word in _first_words(nodes):
                    self._entries.setdefault(word, []).append((nodes, sense))
                self.words.update(_words(nodes))

    def find(
        self,
        tokens: Sequence[Token],
        start: int,
        *slots: str,
        readers: Mapping[str, PhraseReader] | None = None,
    ) -> Match | None:
        """Return the longest phrase at a position that fills one of the slots (default: any slot).

        Phrases whose reader is missing from `readers` do not match.
        """
        if start >= len(tokens):
            return None
        best: tuple[tuple[int, ...], tuple[Any, ...]] = ((), ())
        senses: list[Sense] = []
        readers = readers or {}
        openers = (tokens[start].word, *(f"{{{name}}}" for name in readers))
        for nodes, sense in (each for word in openers for each in self._entries.get(word, ())):
            if slots and sense.slot not in slots:
                continue
            for at, read in _walk(nodes, tokens, start, readers):
                if len(at) > len(best[0]):
                    best, senses = (at, read), []
                if at == best[0] and sense not in senses:
                    senses.append(sense)
        return Match(best[0], tuple(senses), best[1]) if senses else None


def _walk(
    nodes: _Nodes,
    tokens: Sequence[Token],
    place: int,
    readers: Mapping[str, PhraseReader],
    at: tuple[int, ...] = (),
    read: tuple[Any, ...] = (),
) -> Iterator[tuple[tuple[int, ...], tuple[Any, ...]]]:
    """Yield all matches of a pattern at a position, as token positions and values read."""
    if not nodes:
        yield at, read
        return
    first, rest = nodes[0], nodes[1:]
    if isinstance(first, list):
        for option in first:
            yield from _walk((*option, *rest), tokens, place, readers, at, read)
        return
    while at and place < len(tokens) and first != tokens[place].word in determiners():
        place += 1
    if first[0] == "{":
        found = readers[first[1:-1]](tokens, place) if first[1:-1] in readers else None
        if found is not None:
            more, value = (*at, *found[0]), (*read, found[1])
            yield from _walk(rest, tokens, more[-1] + 1, readers, more, value)
    elif place < len(tokens) and tokens[place].word == first:
        yield from _walk(rest, tokens, place + 1, readers, (*at, place), read)


def _pattern(phrase: str) -> _Nodes:
    """Parse a phrase pattern with alternatives, e.g. "(a|b c|) d"."""
    stack: list[list[list[_Node]]] = [[[]]]
    for piece in re.findall(r"[(|)]|[^\s(|)]+", phrase):
        match piece:
            case "(":
                stack.append([[]])
            case "|":
                stack[-1].append([])
            case ")":
                options = stack.pop()
                stack[-1][-1].append([tuple(option) for option in options])
            case _:
                stack[-1][-1].append(piece)
    nodes = stack[0][0]
    # Keep the last word even if it is a determiner: "after that" differs from "after".
    skipped = [node for node in nodes[:-1] if isinstance(node, str) and node in determiners()]
    return (*(node for node in nodes[:-1] if node not in skipped), *nodes[-1:])


def _forms(nodes: _Nodes, inflected: bool) -> Iterator[_Nodes]:
    """Yield a pattern with all inflections of its first word, or of the last word of a compound."""
    if not inflected:
        yield nodes
        return
    first, *rest = nodes
    if isinstance(first, list):
        yield ([form for option in first if option for form in _forms(option, True)], *rest)
        yield from _forms(tuple(rest), True) if () in first else ()
        return
    yield ([(form,) for form in inflections(first)] if first.isalpha() else first, *rest)
    if len(rest) == 1 and rest[0] in word_table("ignored")["compounds"]:  # "back flips", "crabwalk"
        for form in inflections(str(rest[0])):
            yield from ((first, form), (f"{first}{form}",))


def _first_words(nodes: _Nodes) -> set[str]:
    """Return the possible first words of a pattern."""
    if not nodes:
        return set()
    first, *rest = nodes
    if isinstance(first, str):
        return {first}
    return {word for option in first for word in _first_words((*option, *rest))}


def _words(nodes: _Nodes) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, list):
            yield from (word for option in node for word in _words(option))
        elif node[0] != "{":
            yield node


def inflections(verb: str) -> list[str]:
    """Return the regular inflections of an English verb, with the base form first."""
    if verb.endswith("ie"):
        return [verb, f"{verb}s", f"{verb[:-2]}ying", f"{verb}d"]
    stem = verb[:-1] if verb.endswith("e") else verb
    if re.fullmatch(r"[^aeiou]*(?:qu)?[aeiou][^aeiouwxy]", verb):
        stem = verb + verb[-1]
    plural = f"{verb}es" if verb.endswith(("s", "x", "ch", "sh", "o")) else f"{verb}s"
    return [verb, plural, f"{stem}ing", f"{stem}ed"]


# ----------------------------------------------------------------------------------------- tables


@lru_cache(maxsize=32)
def word_table(name: str) -> dict[str, Any]:
    """Load a word table."""
    return tomllib.loads((TABLES / f"{name}.toml").read_text(encoding="utf-8"))


PHRASES = tuple(word_table("slots")["meaning"].values())
"""slots whose words have a meaning on their own"""


@lru_cache(maxsize=1)
def lexicon() -> Lexicon:
    """Return the lexicon of all tables."""
    entries = [(phrase, Sense("idle", phrase)) for phrase in word_table("ignored")["phrases"]]
    macros = word_table("ignored")["macros"]
    slots = word_table("slots")
    for name, slot in (slots["meaning"] | slots["reading"]).items():
        for value, row in ((v, row) for v, rows in word_table(name).items() for row in rows):
            says = {k: v for k, v in row.items() if k not in _PHRASE_KEYS}
            for key in _PHRASE_KEYS:
                own = slot if key == "words" else key
                entries += [(phrase, Sense(own, value, says)) for phrase in row.get(key, ())]
            for form in row.get("forms", ()):
                phrase = macros[form].replace("{name}", f"({row['names']})")
                entries.append((phrase, Sense(slot, value, says)))
    return Lexicon(entries, macros)


@lru_cache(maxsize=1)
def determiners() -> frozenset[str]:
    """Return the determiners, which are skipped inside phrases."""
    return frozenset(word_table("ignored")["determiners"])


@lru_cache(maxsize=1)
def ignored_words() -> frozenset[str]:
    """Return the words that are deliberately ignored."""
    lists = word_table("ignored")
    return frozenset((*lists["determiners"], *lists["words"], *lists["robots"]))


@lru_cache(maxsize=1)
def vocabulary() -> frozenset[str]:
    """Return all words of the tables."""
    numbers, parts = word_table("numbers"), word_table("parts")
    rows = (*parts["nouns"].items(), *parts["places"].items())
    nouns = [noun.split() for name, others in rows for noun in (name, *others)]
    words = {word for noun in nouns for word in (*noun, f"{noun[-1]}s")} | lexicon().words
    words |= {*numbers["values"], *numbers["counts"], *parts["plurals"], *ignored_words()}
    return frozenset(words)


# --------------------------------------------------------------------------------------- spelling


@lru_cache(maxsize=4096)
def correct_spelling(word: str) -> str:
    """Return the only known word that differs from a word by a typo, or else the word itself.

    Ignored words are not candidates, because they have no meaning but the typed word may have one.
    """
    if len(word) < _MIN_TYPO or word in vocabulary() | {*word_table("ignored")["not_typos"]}:
        return word
    known = (each for each in vocabulary() - ignored_words() if len(each) >= _MIN_TYPO)
    near = [each for each in known if each[0] == word[0] and _is_slip(word, each)]
    return near[0] if len(near) == 1 else word


def _is_slip(typed: str, meant: str) -> bool:
    """Return whether the difference is a plausible typo rather than another real word.

    The first letters must match. Plausible typos are letters that are transposed, doubled or
    omitted inside the word, or replaced by an adjacent key or a similar sound.
    """
    k = next((k for k, pair in enumerate(zip(typed, meant, strict=False)) if len({*pair}) > 1), -1)
    if len(typed) == len(meant):
        is_confused = any({typed[k], meant[k]} <= {*group} for group in _CONFUSED)
        swapped = typed[:k] + typed[k + 1 : k + 2] + typed[k] + typed[k + 2 :]
        return swapped == meant or (is_confused and typed[k + 1 :] == meant[k + 1 :])
    longer, shorter = sorted((typed, meant), key=len, reverse=True)
    k = k if k >= 0 else len(shorter)
    if longer[:k] + longer[k + 1 :] != shorter:
        return False
    return longer[k] == longer[k - 1] or (len(typed) < len(meant) and k < len(shorter))
