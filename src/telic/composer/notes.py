"""Read notes on a session with the grammar of intents: wishes for its next reward.

"faster" and "less shaking" are not intents, but use the same words. A note is put into the form of
a wish ("less shaking" is "without shaking", "too slow" is "faster": `notes.toml`), and composed
together with the intent. The judge stays as agreed: a note changes terms and weights of the reward.
A note that changes neither is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from telic.composer.compose import compose
from telic.composer.frames import Act, Degree, ParsedIntent, WordClaim
from telic.composer.lexicon import Lexicon, Sense, read_tokens, table
from telic.composer.observed import is_observed
from telic.composer.parse import parse
from telic.composer.reference import Reference
from telic.envs.spec import EnvSpec
from telic.errors import NotUnderstood, TelicError

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
    rows = table("notes")["wishes"].items()
    phrases = Lexicon((phrase, Sense("", wish)) for wish, said in rows for phrase in said)
    tokens = read_tokens(note)
    words: list[str] = []
    place = 0
    while place < len(tokens):
        found = phrases.find(tokens, place)
        words.append(found.senses[0].value if found else tokens[place].text.lower())
        place = found.end if found else place + 1
    return re.sub(r" (?=[.,;!?/])|(?<=/) ", "", " ".join(filter(None, words))).strip(" .!,")


def _unread(note: str, why: str) -> NotUnderstood:
    return NotUnderstood(
        f'The composer cannot follow "{note}": {why}.',
        hint=f"It can follow: {_FOLLOWED}. A model reads any note: --model.",
    )


def _tags(claim: WordClaim, read: ParsedIntent) -> Iterator[str]:
    """Yield the failure tags that a phrase of a note is against."""
    if claim.slot in ("limit", "style", "posture"):
        yield from (tag for tag, values in table("notes")["tags"].items() if claim.value in values)
    elif claim.slot == "degree" and claim.value in {*Degree}:
        is_less = claim.value in (Degree.SLOW, Degree.VERY_SLOW, Degree.LITTLE)
        if (claim.dimension or read.frames[claim.index].dimension) == "height":
            yield "too_high" if is_less else "too_low"
        else:
            yield "too_fast" if is_less else "too_slow"


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
