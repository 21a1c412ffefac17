"""Match paths of a repository against patterns such as src/**/reward*.py."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache


def first_match(path: str, patterns: Iterable[str]) -> str | None:
    """Return the first pattern that matches the path, or None.

    `**` stands for any number of folders, none included; `*` and `?` stay within one name. A
    pattern whose last part is a plain folder name matches everything in that folder.
    """
    return next((pattern for pattern in patterns if _compiled(pattern).fullmatch(path)), None)


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    parts = pattern.strip("/").split("/")
    out = ""
    for index, part in enumerate(parts):
        is_last = index == len(parts) - 1
        if part == "**":
            out += ".*" if is_last else "(?:[^/]+/)*"
        else:
            out += _one_name(part) + ("" if is_last else "/")
    if not set(parts[-1]) & {"*", "?"}:
        out += "(?:/.*)?"
    return re.compile(out, re.DOTALL)


def _one_name(part: str) -> str:
    wild = {"*": "[^/]*", "?": "[^/]"}
    return "".join(wild.get(letter, re.escape(letter)) for letter in part)
