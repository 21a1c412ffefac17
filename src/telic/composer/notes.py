"""Convert user notes on a session to changes of its next reward.

Notes are rewritten as an intent ("less shaking" to "without shaking": `notes.toml`) and composed
together with the original intent. Notes change only the reward, or are rejected, never the judge.
"""

import re
from typing import NamedTuple

from telic.composer.compose import compose
from telic.composer.frames import ParsedIntent, WordClaim
from telic.composer.lexicon import Lexicon, Sense, read_tokens, word_table
from telic.composer.observed import is_observed
from telic.composer.reader import parse
from telic.composer.reference import Reference
from telic.envs.spec import EnvSpec
from telic.errors import NotUnderstood, TelicError

_FOLLOWED = (
    "faster, slower, higher, lower, smoother, steadier, less shaking, less energy, more upright, "
    "keep the torso low, without falling, without turning, without drifting"
)


class ParsedNote(NamedTuple):
    """Parsed note."""

    words: str
    """the request, phrased as an intent"""
    tags: tuple[str, ...]
    """failure tags to avoid"""
    reward: str | None
    """reward composed with the request, or None if unchanged"""


def read_request(
    note: str, intent: str, spec: EnvSpec, reference: Reference | None = None
) -> ParsedNote:
    """Parse a note. The composed reward still tracks a reference motion, if there is one."""

    def unread(why: str) -> NotUnderstood:
        return NotUnderstood(
            f'The composer cannot apply "{note}": {why}.',
            hint=f"Supported: {_FOLLOWED}. Models accept any note: --model.",
        )

    if is_observed(intent, spec):
        raise unread("only notes about the motion of a robot are supported")
    phrases = Lexicon(
        (phrase, Sense("", wish))
        for wish, given in word_table("notes")["wishes"].items()
        for phrase in given
    )
    tokens, found, place = read_tokens(note), list[str](), 0
    while place < len(tokens):  # rewrite the note as a wish
        match = phrases.find(tokens, place)
        found.append(match.senses[0].value if match else tokens[place].text.lower())
        place = match.end if match else place + 1
    words = re.sub(r" (?=[.,;!?/])|(?<=/) ", "", " ".join(filter(None, found))).strip(" .!,")
    plain = intent.rstrip(" .!,")
    together, first = f"{plain}, {words}", len(read_tokens(f"{plain},"))
    read = parse(together, spec)
    claims = [claim for claim in read.claims if claim.at[-1] >= first]
    unknown = [word for place, word in read.unknown if place >= first]
    if unknown or not claims:
        raise unread(f"unknown words: “{' '.join(unknown) or note}”")
    known = {"stand", *(frame.verb for frame in parse(plain, spec).frames)}
    for claim in claims:
        if claim.slot == "verb" and claim.value not in known:
            raise unread(f"“{claim.words}” is a different behavior and requires another session")
    tags = tuple(dict.fromkeys(tag for claim in claims for tag in _tags(claim, read)))
    reward = None
    try:
        made = compose(together, spec, reference=reference)
        before = compose(plain, spec, reference=reference).reward
        reward = made.reward if made.criteria and _body(made.reward) != _body(before) else None
    except NotUnderstood:
        pass
    except TelicError as error:
        raise unread(error.message.rstrip(".")) from None
    if reward is None and not tags:
        raise unread("the reward would not change")
    return ParsedNote(words, tags, reward)


def _tags(claim: WordClaim, read: ParsedIntent) -> list[str]:
    """Return the failure tags that a phrase of a note addresses."""
    if claim.slot in ("limit", "style", "posture"):
        return [tag for tag, values in word_table("notes")["tags"].items() if claim.value in values]
    if claim.slot != "degree" or claim.value not in {*word_table("degrees"), "more", "less"}:
        return []
    is_less = claim.value in ("slow", "very_slow", "little", "less")
    if (claim.dimension or read.frames[claim.index].dimension) == "height":
        return ["too_high" if is_less else "too_low"]
    return ["too_fast" if is_less else "too_slow"]


def _body(reward: str) -> str:
    """Return a reward source without the words of the intent, for comparison."""
    return re.sub(r'""".*?"""|description = ".*?"', "", reward, flags=re.DOTALL)
