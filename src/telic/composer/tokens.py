"""Split an intent into words, numbers and signs."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

LARGEST = 1e9

_TOKEN = re.compile(
    r"(?P<number>(?:(?<!\S)-)?\d+(?:[.,]\d+)*|(?<!\w)\.\d+)"
    r"|(?P<word>[^\W\d_]\w*(?:\.\d+(?!\w))?(?:'[^\W\d_]+)?)"
    r"|(?P<mark>\n+|>=|<=|\S)"
)
_SPELLINGS = {"&": "and", "+": "and", "%": "percent", "°": "degrees"}
_SILENT = set(",;.:!?()[]{}\"'/-‐‑–—…*`“”")
_QUOTES = str.maketrans({"’": "'", "‘": "'", "´": "'", "−": "-"})


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
    found = []
    for match in _TOKEN.finditer(text):
        typed = match.group()
        if match.lastgroup != "mark":
            found.append(Token(typed, typed.lower()))
        elif typed in _SILENT or typed.startswith("\n"):
            word = _separator(text, match.start(), typed)
            if word:
                found.append(Token(typed, word, silent=True))
        else:
            found.append(Token(typed, _SPELLINGS.get(typed, typed)))
    return found


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
