"""Forms of a word: regular inflections, and one typing error."""

from __future__ import annotations

import re


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
