"""Parse an intent: text, tokens, items, clauses, deeds, frames; account for every word.

- `lexicon`: split the text, correct its spelling, look phrases up in `tables/`
- `amounts`: numbers with units, rules, counts and durations
- `parts`: parts of the body, and the bodies of this robot they are
- `grammar`: everything with a meaning, and what is done together, afterwards, not at all
- `deeds`: one verb with its items for each thing to do, and limits to keep
- `slots`: the frame of each deed

Parsing is deterministic and never fails: what cannot be read is listed. Which words filled which
slot is kept; `telic.composer.scope` asks what became of them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from telic.composer.amounts import read_amount
from telic.composer.deeds import Deeds
from telic.composer.frames import Act, Frame, LimitKind, ParsedIntent, WordClaim
from telic.composer.grammar import Item, outline
from telic.composer.lexicon import (
    PHRASES,
    Lexicon,
    Match,
    PhraseReader,
    Token,
    correct_spelling,
    determiners,
    ignored_words,
    lexicon,
    quoted,
    quotes,
    read_tokens,
    readable,
    word_table,
)
from telic.composer.parts import is_part
from telic.composer.slots import Slots
from telic.envs.spec import EnvSpec

_SLOTS = ("direction", "degree", "posture", "style", "part")
_JOINTS = (",", ".", "and", "then")


def parse(intent: str, spec: EnvSpec) -> ParsedIntent:
    """Return what an intent asks of the robot of an environment.

    Nothing understood gives no frames, and every word in `not_understood`.
    """
    # Addressing the environment by its name says nothing to do; "half" of HalfCheetah is a number.
    pieces = re.findall(r"[A-Z]?[a-z]+", spec.id)
    names = {word.lower() for word in (*pieces, "".join(pieces), spec.id)}
    names = frozenset(names - {*word_table("numbers")["values"]})
    tokens = read_tokens(intent, (*spec.body_names, *names))
    clauses = outline(tokens, spec)
    items = clauses.items
    has_pole = spec.robot is not None and bool(spec.robot.poles)
    deeds = Deeds(tokens, clauses.joints, ignored_words() | names, has_pole)
    deeds.read(clauses.groups)
    frames, claims = _frames(tokens, deeds)
    used, left_out = set[int](), set[int]()
    if frames:
        used = deeds.used | {place for other in clauses.others for place in other}
        left_out = _left_out(tokens, names) - clauses.idioms - used
    # Words of a phrase with a meaning, "perfectly still", are not left out one by one.
    idle = {match.at for k in range(len(tokens)) if (match := lexicon().find(tokens, k, "idle"))}
    phrases = [i.at for i in items if len(i.at) > 1 and i.slot in _SLOTS and i.at not in idle]
    left_out -= {place for at in phrases for place in at}
    words = {place for place, token in enumerate(tokens) if not token.silent}
    unknown = words - used - left_out
    # Of a number that was not used all its words are quoted: "for at least 4 seconds".
    numbers = [item.at for item in items if item.reading and not used & {*item.at}]
    unknown |= {place for at in numbers if unknown & {*at} for place in at}
    left_out -= unknown
    unread = quotes(tokens, unknown, left_out)

    def typed(places: Collection[int]) -> tuple[str, ...]:
        return tuple(tokens[place].text for place in sorted(words & {*places}))

    return ParsedIntent(
        intent=readable(intent),
        frames=frames,
        limits=tuple(deeds.limits),
        used=typed(used),
        ignored=typed(left_out),
        not_understood=typed(unknown),
        claims=claims if frames else (),
        unknown=tuple((place, tokens[place].text) for place in sorted(words & unknown)),
        lost=_lost_verbs(tokens, items, used, unknown, left_out, unread),
        corrected=tuple(
            f'"{token.text}" is read as "{token.word}"'
            for place, token in enumerate(tokens)
            if place in used and correct_spelling(token.text.lower()) != token.text.lower()
        ),
        unread=unread,
        chosen=tuple(
            f'"{quoted(tokens[min(at) : max(at) + 1])}" is left to choose: what was said '
            "first is done and judged"
            for at in clauses.others
            if len(at) > 1
        ),
    )


def _frames(
    tokens: Sequence[Token], deeds: Deeds
) -> tuple[tuple[Frame, ...], tuple[WordClaim, ...]]:
    """Fill the slots of every deed, and keep which words filled them and made the limits."""
    frames: list[Frame] = []
    claims: list[WordClaim] = []

    def claim(slot: str, at: Sequence[int], index: int, **more: str | None) -> None:
        places = tuple(sorted(set(at)))
        words = quoted(tokens[places[0] : places[-1] + 1])
        record = {"words": words, "at": places, "slot": slot, "index": index}
        claims.append(WordClaim.model_validate(record | more))

    for index, deed in enumerate(deeds.all):
        slots = Slots(deed)
        frame = slots.frame()
        frames.append(frame)
        if deed.at:
            judged_as = deed.says.get("judged_as", "")
            claim("verb", deed.at, index, value=str(frame.verb), judged_as=judged_as)
        for slot, item, sense in slots.claims:
            deeds.used.update(item.at)
            more: dict[str, str | None] = {}
            if sense is not None and sense.slot == "dimension":
                more = {"dimension": sense.value}
            elif sense is not None:
                keys = [key for key in ("dimension", "judged_as") if key in sense.says]
                more = {"value": sense.value} | {key: sense.says[key] for key in keys}
            claim(slot, item.at, index, **more)
        for item in slots.in_place:
            deeds.add_limit(LimitKind.NO_DRIFT, item.at)
    for index, at in deeds.limit_claims:
        claim("limit", at, index, value=str(deeds.limits[index].kind))
    return tuple(frames), tuple(claims)


def _lost_verbs(
    tokens: Sequence[Token],
    items: Sequence[Item],
    used: set[int],
    unknown: set[int],
    left_out: set[int],
    unread: Sequence[str],
) -> tuple[str, ...]:
    """Return the words where a verb should be: of "run, then dance" it is "dance".

    What is done one after another is cut at "then" and its like. A piece without a verb, whose
    first word of any meaning is not understood, asks for something that has no name here.
    """
    joints = [item for item in items if item.is_join("then", "after", "before")]
    verbs = [item for item in items if item.slot == "verb"]
    empty: set[int] = set()
    for item in verbs:  # "hold a plank" does not say what to do by "hold"
        after = next((k for k in range(item.end, len(tokens)) if k not in left_out), None)
        empty |= {*item.at} if not item.is_acting and after in unknown else set[int]()
    acts = ({place for item in verbs for place in item.at} & used) - empty
    doing = [item for item in verbs if acts & {*item.at}]
    lost: list[str] = []
    first = min(unknown | used, default=None)
    if first in unknown and doing:  # "dance and run", "three steps, stop"
        ands = {item.at[0] for item in items if item.is_join("and")} & used
        is_joined = any(tokens[k].word == "and" for k in ands if first < k < doing[0].at[0])
        # Stopping, landing and ending up come after something else.
        is_sequel = len(doing) == 1 and doing[0].says("sequel")
        lost += unread[:1] if is_sequel or is_joined else ()
    for begin, end in pairwise((0, *(item.at[0] for item in joints), len(tokens))):
        joint = {place for item in joints if item.at[0] == begin for place in item.at}
        piece = sorted(((unknown | used) - joint - empty) & {*range(begin, end)})
        if piece and piece[0] in unknown and not acts & {*piece}:
            words = [tokens[k] for k in piece if tokens[k].word not in ignored_words()]
            lost.append((words or [tokens[piece[0]]])[0].text)
    return tuple(lost)


def _left_out(tokens: Sequence[Token], names: frozenset[str]) -> set[int]:
    """Return the places of words left out on purpose.

    A robot is addressed, not something to go to, to jump over or to be like; and what is done
    "again" was done before.
    """
    data, words = word_table("ignored"), [token.word for token in tokens]
    ignored, robots = ignored_words() | names, {*data["robots"], *names}
    places = {place for place, word in enumerate(words) if word in ignored}
    together: set[int] = set()
    for place in range(len(tokens)):
        idle = lexicon().find(tokens, place, "idle")
        # Parts may take turns: "raise your arms one after the other".
        of_parts = place > 0 and is_part(words[place - 1])
        if idle and not (of_parts and {"one", "after"} <= {words[k] for k in idle.at}):
            together.update(idle.at)
    is_later = False
    for place, word in enumerate(words):
        before = place - 1
        while before >= 0 and words[before] in determiners():
            before -= 1
        if word in robots and before >= 0:
            if words[before] in data["placing"] and before not in together:
                places -= {place, before}
            elif _is_object(tokens, before, place):
                places.discard(place)
        if word == "again" and is_later and words[place - 1] not in _JOINTS:
            places.add(place)
        is_later = is_later or word in _JOINTS
    return places | together


def _is_object(tokens: Sequence[Token], before: int, place: int) -> bool:
    """Return whether something is done to it: "walk your dog", "kick the robot"."""
    verb = lexicon().find(tokens, before, *PHRASES)
    if verb is None or verb.end != before + 1 or verb.senses[0].slot != "verb":
        return False
    owners = word_table("ignored")["possessive"]
    is_owned = any(token.word in owners for token in tokens[verb.end : place])
    return is_owned or verb.senses[0].value in (Act.KICK, Act.LIFT, Act.REACH)


# -------------------------------------------------------------------- intents of phrases alone


class Scan(NamedTuple):
    """The phrases of an intent, in order, and what is left."""

    matches: tuple[Match, ...]
    unread: tuple[str, ...]
    is_denied: bool
    """whether one of them is negated"""


def scan(
    tokens: Sequence[Token],
    phrases: Lexicon,
    readers: Mapping[str, PhraseReader],
    ignored: Collection[str],
) -> Scan:
    """Take the longest phrase at each place, and quote what belongs to none."""
    matches: list[Match] = []
    unknown: set[int] = set()
    left_out: set[int] = set()
    place, denied, is_denied = 0, -2, False
    while place < len(tokens):
        found = phrases.find(tokens, place, readers=readers)
        join = lexicon().find(tokens, place, "join")
        kind = join.senses[0].value if join is not None else None
        if found is not None:
            matches.append(found)
            is_denied = is_denied or place - denied <= 1
            place = found.end
        elif join is not None and kind == "until_end":
            place = join.end  # what is asked for lasts anyway
        else:
            denied = join.end if join is not None and kind == "negation" else denied
            reading = read_amount(tokens, place)
            is_idle = tokens[place].silent or tokens[place].word in ignored
            at = reading.at if reading is not None else (place,)
            (left_out if is_idle and reading is None else unknown).update(at)
            place = at[-1] + 1
    return Scan(tuple(matches), quotes(tokens, unknown, left_out), is_denied)
