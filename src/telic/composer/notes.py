"""What people say of a session, read by the grammar of intents: a wish for its next reward.

"faster" and "less shaking" are not intents, but they are said in the same words. A note is put into
the form of a wish ("less shaking" is "without shaking", "too slow" is "faster"), read by itself,
and composed together with the intent. What is judged stays as it was agreed: a note changes what is
taught, by terms and by weights. A note that changes neither is refused, when it is made.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from telic.composer.compose import compose
from telic.composer.frames import Act, Degree, LimitKind, ParsedIntent, Posture, Style, WordClaim
from telic.composer.lexicon import read_tokens
from telic.composer.observed import is_observed
from telic.composer.parse import parse
from telic.composer.reference import Reference
from telic.envs.spec import EnvSpec
from telic.errors import NotUnderstood, TelicError

_WISHES = (
    (r"\b(?:too|less|not so) (?:slow|slowly)\b", "faster"),
    (r"\b(?:too|less|not so) (?:fast|quick|quickly)\b", "slower"),
    (r"\b(?:too|less|not so) low\b", "higher"),
    (r"\b(?:too|less|not so) (?:high|tall)\b", "lower"),
    (r"\btoo (?:shaky|jerky|jittery|wobbly|nervous)\b", "without shaking"),
    (
        r"(?<!without )(?<!not )\b(?:it )?(?:keeps? )?fall(?:s|ing)(?: over| down)?\b",
        "without falling",
    ),
    (r"\b(?:less|fewer|reduce|stop|no|too much)\b(?! energy| effort| power)(?: the)?", "without"),
    (r"\b(?:a bit|a little|a lot|slightly|even|much|please|more|it should|you should|be)\b", " "),
)
_LIMITS = {
    LimitKind.NO_FALL: "falls",
    LimitKind.UPRIGHT: "falls",
    LimitKind.KEEP_HEIGHT: "too_low",
    LimitKind.LOW_HEIGHT: "too_high",
    LimitKind.NO_JUMP: "too_high",
    LimitKind.NO_DRIFT: "drifts",
    LimitKind.NO_TURN: "drifts",
    LimitKind.NO_FORWARD: "drifts",
    LimitKind.SMOOTH: "jitters",
    LimitKind.QUIET: "jitters",
    LimitKind.LOW_ENERGY: "jitters",
}
_STYLES = {
    Style.SMOOTH: "jitters",
    Style.GENTLE: "jitters",
    Style.EFFICIENT: "jitters",
    Style.STEADY: "stops",
    Style.SYMMETRIC: "one_sided",
    Style.ALTERNATING: "one_sided",
    Style.EXPLOSIVE: "too_slow",
}
_POSTURES = {
    Posture.UPRIGHT: "falls",
    Posture.HIGH: "too_low",
    Posture.LOW: "too_high",
    Posture.STRAIGHT_LINE: "drifts",
}
_SLOWER = (Degree.SLOW, Degree.VERY_SLOW, Degree.LITTLE)
_DEGREES = {*Degree}
_FOLLOWED = (
    "faster, slower, higher, lower, smoother, steadier, less shaking, less energy, more upright, "
    "keep the torso low, without falling, without turning, without drifting"
)


class Wish(NamedTuple):
    """A note as it was read."""

    words: str
    """what it asks for, in the words of an intent"""
    tags: tuple[str, ...]
    """the lacks it is against, in the words of failure tags"""
    reward: str | None
    """the reward of the intent with the wish added; None: the same as without"""


def read_wish(note: str, intent: str, spec: EnvSpec, reference: Reference | None = None) -> Wish:
    """Return what a note asks for; the reward goes on following a reference motion.

    Raises:
        NotUnderstood: the composer can make nothing of it; says what it can follow.
    """
    words = _as_wish(note)
    if is_observed(intent, spec):
        raise _unread(note, "it follows notes about how a robot moves only")
    plain = intent.rstrip(" .!,")
    together = f"{plain}, {words}"
    asked, read = parse(plain, spec), parse(together, spec)
    first = len(read_tokens(f"{plain},"))
    claims = [claim for claim in read.claims if claim.at[-1] >= first]
    unknown = [word for place, word in read.unknown if place >= first]
    if unknown or not claims:
        raise _unread(note, f"it does not know “{' '.join(unknown) or note}”")
    known = {frame.verb for frame in asked.frames}
    for claim in claims:
        if claim.slot == "verb" and claim.value not in (*known, Act.STAND):
            raise _unread(note, f"“{claim.words}” is something else to do, for another session")
    tags = tuple(dict.fromkeys(tag for claim in claims for tag in _tags(claim, read)))
    reward = _reward(together, plain, spec, note, reference)
    if reward is None and not tags:
        raise _unread(note, "nothing that it teaches would change by it")
    return Wish(words, tags, reward)


def _as_wish(note: str) -> str:
    words = note.lower().strip()
    for pattern, wish in _WISHES:
        words = re.sub(pattern, wish, words)
    return " ".join(words.split()).strip(" .!,")


def _unread(note: str, why: str) -> NotUnderstood:
    return NotUnderstood(
        f'The composer cannot follow "{note}": {why}.',
        hint=f"It can follow: {_FOLLOWED}. A model reads any note: --model.",
    )


def _tags(claim: WordClaim, read: ParsedIntent) -> Iterator[str]:
    """Yield the lacks that a phrase of a note is against."""
    match claim.slot:
        case "limit":
            yield from filter(None, [_LIMITS.get(read.limits[claim.index].kind)])
        case "style":
            yield from filter(None, [_STYLES.get(Style(claim.value))])
        case "posture":
            yield from filter(None, [_POSTURES.get(Posture(claim.value))])
        case "degree" if claim.value in _DEGREES:
            is_less = claim.value in _SLOWER
            if (claim.dimension or read.frames[claim.index].dimension) == "height":
                yield "too_high" if is_less else "too_low"
            else:
                yield "too_fast" if is_less else "too_slow"
        case _:
            return


def _reward(
    together: str, intent: str, spec: EnvSpec, note: str, reference: Reference | None
) -> str | None:
    """Return the reward of an intent and a wish; None: the wish adds no term and moves no goal."""
    plain = compose(intent, spec, reference=reference)
    try:
        made = compose(together, spec, reference=reference)
    except NotUnderstood:
        return None
    except TelicError as error:
        raise _unread(note, error.message.rstrip(".")) from None
    if len(made.criteria) == 0 or _body(made.reward) == _body(plain.reward):
        return None
    return made.reward


def _body(reward: str) -> str:
    """Return a reward without the intent that stands in its texts."""
    return re.sub(r'""".*?"""|description = ".*?"', "", reward, flags=re.DOTALL)
