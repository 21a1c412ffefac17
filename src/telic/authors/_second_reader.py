"""Find words of an intent that no criterion covers, using the composer as second reader.

The composer maps words to its own criteria and the quantities they measure. A word counts as
judged by other criteria if one of them measures a quantity of the same kind. A word unknown to the
composer counts as judged if the author names criteria that cover it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from telic.composer.compose import compose
from telic.composer.lexicon import ignored_words
from telic.envs.spec import EnvSpec
from telic.errors import TelicError
from telic.judges.criteria import Covered, Criterion
from telic.judges.measured import TIME_LEFT, quantities_behind

_KINDS = {
    "travel": "x_position|y_position|forward|lateral|_velocity|sideways|speed|distance|displace",
    "rotation": "pitch|roll|heading|turns|rotation|upright|angular|yaw",
    "height": "height|vertical|air_time|flight",
    "feet": "foot|feet|stride|stance|duty|slide|support|contact",
    "joints": "joint|action|effort|power|energy|splay|pose",
    "objects": "target|pole|body|command|ground|obs",
}
"""regular expressions on quantity names, by kind"""
_STEM = 4
"""length of the prefix used to match words against titles"""


def not_judged(
    intent: str, spec: EnvSpec, criteria: Sequence[Criterion], claims: Sequence[Covered] = ()
) -> tuple[str, ...]:
    """Return the words of an intent that no criterion covers, according to the composer.

    `claims` are the author's mapping of words to criteria.
    """
    titles = {each.title for each in criteria}
    said = " ".join(
        [f"{each.title} {each.quantity} {each.measure}" for each in criteria]
        + [each.words for each in claims if titles.intersection(each.criteria)]
    ).lower()

    def is_named(words: str) -> bool:
        return all(word[:_STEM] in said for word in _content(words))

    try:
        made = compose(intent, spec)
    except TelicError:  # the composer cannot read the intent, so rely on the author's claims
        return tuple(word for word in _content(intent) if not is_named(word))
    own, kinds = {each.title: each for each in made.criteria}, _kinds(criteria)
    lost = [words for words in (*made.not_understood, *made.dropped) if not is_named(words)]
    verbs: list[str] = []  # verbs of a sequence, whose criteria span several phases
    for each in made.covered:
        carrying = [own[title] for title in each.criteria if title in own]
        carrying = [one for one in carrying if not one.is_guard] or carrying
        if len({one.phase for one in carrying}) > 1:
            verbs.append(each.words)
        elif carrying and not kinds & _kinds(carrying):
            lost.append(each.words)
    for number in range(1, len(made.phases) + 1):
        carrying = [each for each in made.criteria if each.phase == number and not each.is_guard]
        if not kinds & _kinds([each for each in carrying if each.measure != TIME_LEFT]):
            is_known = len(verbs) == len(made.phases)
            lost.append(verbs[number - 1] if is_known else f"part {number} of the sequence")
    return tuple(dict.fromkeys(lost))


def _content(text: str) -> list[str]:
    words = re.findall(r"[a-z]+", text.lower())
    return [word for word in words if len(word) >= _STEM and word not in ignored_words()]


def _kinds(criteria: Sequence[Criterion]) -> set[str]:
    """Return the kinds of quantities measured by criteria, or named by code-only criteria."""
    names = {
        name
        for each in criteria
        for name in (quantities_behind(each.measure) or re.findall(r"\w+", each.quantity.lower()))
    }
    return {kind for kind, parts in _KINDS.items() for name in names if re.search(parts, name)}
