"""Refuse an intent whose verb is lost, and say the nearest one that is understood."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

from telic.composer.frames import ParsedIntent
from telic.composer.parse import parse
from telic.composer.words import ignored_words, table
from telic.envs.spec import EnvSpec
from telic.errors import NotUnderstood

_CLOSE = 0.85
_PLAIN = {"go": ["run", "walk"], "jump": ["jump"]}
_LATER = re.compile(r",?\s*\b(?:and then|then|after that|afterwards|before|finally|next)\b")


def not_understood(
    parsed: ParsedIntent, lost: Sequence[str], spec: EnvSpec, able: Sequence[str]
) -> NotUnderstood:
    """Return the refusal of an intent that says what to do in words nobody knows.

    Args:
        parsed: the intent.
        lost: the words where the verb should be; none: nothing at all was understood.
        spec: the robot.
        able: an example of each thing this robot can be asked to do.
    """
    words = ", ".join(f'"{word}"' for word in lost)
    message = (
        f"I do not know how to judge {words}, and that is what is to be done."
        if lost
        else f'Nothing in "{parsed.intent}" is a movement the composer knows.'
    )
    known = f"{spec.id} can: {', '.join(able)}." if able else "Try another environment."
    near = nearest(parsed, lost, spec, able)
    hint = f'{known} Nearest: "{near}". Or let a model write: --model.' if near else known
    return NotUnderstood(message, hint=hint)


def nearest(
    parsed: ParsedIntent, lost: Sequence[str], spec: EnvSpec, able: Sequence[str]
) -> str | None:
    """Return the nearest intent that is understood as a whole; None: nothing is near.

    First the lost verb is replaced by a known one that is written alike or means nearly the same;
    then the part of a sequence that lost it is left out; last, the example of what this robot can
    do with most words in common is taken.
    """
    options = [_replaced(parsed.intent, word, other) for word in lost for other in _alike(word)]
    pieces = _LATER.split(parsed.intent)
    kept = [piece.strip(" ,.;") for piece in pieces if not any(word in piece for word in lost)]
    options += [", then ".join(kept)] if lost else []
    for option in options:
        read = parse(option, spec)
        if read.frames and not read.not_understood and not read.lost:
            return option
    said = set(re.findall(r"\w+", parsed.intent.lower())) - ignored_words()
    ranked = sorted(able, key=lambda example: -len(said & set(example.split())))
    return ranked[0] if ranked and said & set(ranked[0].split()) else None


def _alike(word: str) -> list[str]:
    """Return known verbs that are written alike, then the plain ones of the same meaning."""
    rows = [(act, row["words"]) for act, rows in table("verbs").items() for row in rows]
    plain = [words[0] for _, words in rows if " " not in words[0]]
    alike = difflib.get_close_matches(word.lower(), plain, n=2, cutoff=_CLOSE)
    own = [act for act, words in rows if word.lower() in words]
    return [each for each in alike if each != word.lower()] + [
        verb for act in own for verb in _PLAIN.get(act, [])
    ]


def _replaced(text: str, word: str, other: str) -> str:
    return re.sub(rf"\b{re.escape(word)}\b", other, text, flags=re.IGNORECASE)
