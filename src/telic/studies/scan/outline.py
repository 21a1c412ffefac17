"""Keys and plain values of YAML files by indentation: quick, and never stopped by odd syntax."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

_KEY = re.compile(r"^(\s*)(-\s+)?([\w./+-]+|\"[^\"]+\"|'[^']+')\s*:(?:\s+(.*?))?\s*$")
_NUMBER = re.compile(r"^[+-]?(\d[\d_]*\.?\d*|\.\d+)([eE][+-]?\d+)?$")
_WORDS = {
    "true": True,
    "yes": True,
    "on": True,
    "false": False,
    "no": False,
    "off": False,
    "null": None,
    "~": None,
    "none": None,
}


class Key(NamedTuple):
    """A key with its full path."""

    path: str
    value: Any
    """None when nothing follows the colon or it says null"""
    line: int

    @property
    def last(self) -> str:
        """The key itself."""
        return self.path.rpartition(".")[2]


def outline(text: str) -> list[Key]:
    """Return every key of a YAML text with its dotted path, plain value and line."""
    keys: list[Key] = []
    above: list[tuple[int, str]] = []
    for number, line in enumerate(text.splitlines(), 1):
        match = _KEY.match(line.split(" #")[0]) if not line.lstrip().startswith("#") else None
        if match is None:
            continue
        indent = len(match[1]) + len(match[2] or "")
        while above and above[-1][0] >= indent:
            above.pop()
        name = match[3].strip("\"'")
        keys.append(Key(".".join([*(each for _, each in above), name]), _scalar(match[4]), number))
        above.append((indent, name))
    return keys


def _scalar(text: str | None) -> Any:
    if text is None:
        return None
    text = text.strip()
    if _NUMBER.match(text):
        number = float(text.replace("_", ""))
        return int(number) if number.is_integer() and "." not in text else number
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    return text.strip("\"'")
