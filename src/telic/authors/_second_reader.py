"""Find words of an intent that no criterion covers, using the composer as a second reader.

The composer maps words to criteria of its own and to the quantities they measure. A word counts as
judged by other criteria if one of them measures a quantity of the same kind. A word unknown to the
composer counts as judged if the author names criteria that cover it, a number if one has it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

from telic.composer.compose import compose
from telic.composer.lexicon import ignored_words, quoted, read_tokens
from telic.composer.reader import parse
from telic.envs.spec import EnvSpec
from telic.errors import BadEnvironment, BeyondLimits, TelicError
from telic.judges.criteria import Composition, CoveredPhrase, Criterion
from telic.judges.measured import TIME_LEFT, quantities_behind

_KINDS = {
    "travel": r"\b[xy]_position|forward|lateral|_velocity|sideways|speed|distance|displace",
    "rotation": "pitch|roll|heading|turns|rotation|upright|angular|yaw",
    "height": "height|vertical|air_time|flight",
    "feet": "foot|feet|stride|stance|duty|slide|support|contact",
    "joints": "joint|action|effort|power|energy|splay|pose",
    "objects": "target|pole|command|obs",
    "bodies": "body",
    "ground": "ground",
}
"""regular expressions for quantity names, by kind"""
_STEM = 4
"""length of the prefix used to match words against titles"""
_NUMBER = re.compile(
    r"(?<![\w.])(\d+(?:\.\d+)?)(?!\.?\d|\s*(?:s|sec|seconds?|min|minutes?)\b)\s*([a-z/°%]*)"
)
"""a number that is not a duration, and its unit"""
_DURATION = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?|a|one)\s*(s|sec|seconds?|min|minutes?)\b")
_LIMIT = re.compile(r"[<>-]=?\s*(\d+(?:\.\d+)?)")
"""a number that a measure is compared with"""
STATED = ("terrain", "starts", "commands")
"""environment arguments with conditions that an intent states"""
_TURN = (math.pi / 180.0, 1.0 / 360.0)
_UNITS = {
    **{"%": (0.01,), "percent": (0.01,), "cm": (0.01,), "mm": (0.001,), "°": _TURN, "deg": _TURN},
    **{"km": (1.0 / 3.6,), "ft": (0.3048,), "feet": (0.3048,), "inch": (0.0254,), "mph": (0.447,)},
}


def stated_seconds(intent: str) -> float:
    """Return the longest duration that an intent states, or 0."""
    found = _DURATION.findall(intent.lower())
    times = [(1.0 if n in ("a", "one") else float(n), unit) for n, unit in found]
    return max((60.0 * n if unit.startswith("m") else n for n, unit in times), default=0.0)


def able_reading(
    intent: str, spec: EnvSpec, *own: Any
) -> tuple[Composition | None, dict[str, str]]:
    """Compose the phrases that the robot can show. Return the others with a quantity they need.

    `own` and errors other than refusals are those of `compose`.
    """
    try:
        return compose(intent, spec, *own, may_omit=False), {}
    except BeyondLimits:
        raise
    except BadEnvironment as error:
        refusal = error
    tokens, claims = read_tokens(intent), parse(intent, spec).claims
    for claim in sorted(claims, key=lambda each: each.slot == "verb"):  # details before the action
        action = [each for each in claims if each.index == claim.index and each.slot != "limit"]
        is_whole = claim.slot in ("verb", "part")  # waving with another limb is another action
        places = [at for each in (action if is_whole else [claim]) for at in each.at]
        before, phrase = tokens[: min(places)], tokens[min(places) : max(places) + 1]
        rest = " ".join(each.text for each in (*before, *tokens[max(places) + 1 :]))
        try:
            compose(rest, spec, may_omit=False)
        except TelicError as other:
            if not isinstance(other, BadEnvironment) or other.message == refusal.message:
                continue
        made, refused = able_reading(rest, spec)
        if made is not None:
            return made, {quoted(phrase): refusal.needs, **refused}
        break
    return None, {intent: refusal.needs}


def conditions(made: Composition | None, names: Sequence[str]) -> dict[str, Any]:
    """Return the conditions, such as a terrain other than flat, that a reading requires."""
    env_args = {} if made is None else made.env_args
    return {name: env_args[name] for name in names if env_args.get(name, "flat") != "flat"}


def not_judged(
    intent: str, spec: EnvSpec, criteria: Sequence[Criterion], claims: Sequence[CoveredPhrase] = ()
) -> tuple[str, ...]:
    """Return the words of an intent that no criterion covers, according to the composer.

    `claims` is the author's mapping of words to criteria.
    """
    criteria = [each for each in criteria if each.weight > 0.0 or each.is_guard]
    titles = {each.title for each in criteria}
    covered = " ".join(
        [f"{each.title} {each.quantity} {each.measure}" for each in criteria]
        + [each.words for each in claims if titles.intersection(each.criteria)]
    ).lower()

    limits = " ".join(f"<{each.zero} <{each.goal} {each.measure}" for each in criteria)
    goals = [float(number) for number in _LIMIT.findall(limits)]

    def is_named(words: str) -> bool:
        return all(word[:_STEM] in covered for word in _content(words)) and all(
            any(math.isclose(value, goal, rel_tol=0.1) for value in values for goal in goals)
            for values in _numbers(words).values()
        )

    try:
        made, refused = able_reading(intent, spec)
    except TelicError:  # the composer cannot read the intent, so rely on the author's claims
        return tuple(each for each in (*_content(intent), *_numbers(intent)) if not is_named(each))
    kinds = _kinds(criteria)
    lost = [words for words, needs in refused.items() if not kinds & _kinds_of([needs])]
    if made is None:
        return tuple(lost)
    own = {each.title: each for each in made.criteria}
    lost += [words for words in (*made.not_understood, *made.dropped) if not is_named(words)]
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


def _numbers(text: str) -> dict[str, list[float]]:
    """Return the numbers of a text with units, and the values that they may have in a criterion."""
    return {
        f"{number} {unit}".rstrip(): [float(number)]
        + [
            float(number) * each
            for name, by in _UNITS.items()
            if unit.startswith(name)
            for each in by
        ]
        for number, unit in _NUMBER.findall(text.lower())
    }


def _kinds(criteria: Sequence[Criterion]) -> set[str]:
    """Return the kinds of quantities that criteria measure or that their judge code mentions."""
    return _kinds_of(
        name
        for each in criteria
        for name in (quantities_behind(each.measure) or re.findall(r"\w+", each.quantity.lower()))
    )


def _kinds_of(names: Iterable[str]) -> set[str]:
    names = {*names}
    return {kind for kind, parts in _KINDS.items() for name in names if re.search(parts, name)}
