"""Parse an intent: text → tokens → items → clauses → sketches → frames; account for every word.

    lexicon.py    split the text, correct its spelling, look phrases up in `tables/`
    amounts.py    numbers with units, rules, counts and durations
    parts.py      parts of the body, and the bodies of this robot they are
    grammar.py    everything with a meaning, and what is done together, afterwards, not at all
    sketches.py   one verb with its items for each thing to do, and limits to keep
    slots.py      the frame of each sketch

Parsing is deterministic and never fails: what cannot be read is listed. Which words filled which
slot is kept; `telic.composer.scope` asks what became of them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from telic.composer.amounts import read_amount
from telic.composer.frames import Act, Frame, LimitKind, ParsedIntent, WordClaim
from telic.composer.grammar import Item, outline
from telic.composer.lexicon import (
    PHRASES,
    Lexicon,
    Match,
    Reader,
    Token,
    correct,
    determiners,
    ignored_words,
    lexicon,
    quoted,
    quotes,
    read_tokens,
    readable,
    table,
)
from telic.composer.parts import is_part
from telic.composer.sketches import Sketches
from telic.composer.slots import Slots
from telic.envs.spec import EnvSpec

_SLOTS = ("direction", "degree", "posture", "style", "part")
_JOINTS = (",", ".", "and", "then")


def parse(intent: str, spec: EnvSpec) -> ParsedIntent:
    """Return what an intent asks of the robot of an environment.

    Nothing understood gives no frames, and every word in `not_understood`.
    """
    names = _names(spec)
    tokens = read_tokens(intent, (*spec.body_names, *names))
    clauses = outline(tokens, spec)
    has_pole = spec.robot is not None and bool(spec.robot.poles)
    sketches = Sketches(tokens, clauses.joints, ignored_words() | names, has_pole)
    sketches.read(clauses.groups)
    sketches.used.update(place for other in clauses.others for place in other)
    frames, claims = _frames(tokens, sketches)
    if not frames:
        claims, sketches.used = (), set[int]()
    left_out = _left_out(tokens, names) - clauses.idioms if frames else set[int]()
    words = _Account(tokens, clauses.items, sketches.used, left_out)
    return ParsedIntent(
        intent=readable(intent),
        frames=frames,
        limits=tuple(sketches.limits),
        used=words.texts(words.used),
        ignored=words.texts(words.left_out),
        not_understood=words.texts(words.unknown),
        claims=claims,
        unknown=tuple((k, tokens[k].text) for k in sorted(words.unknown) if not tokens[k].silent),
        lost=words.lost_verbs(),
        corrected=tuple(
            f'"{token.text}" is read as "{token.word}"'
            for place, token in enumerate(tokens)
            if place in words.used and correct(token.text.lower()) != token.text.lower()
        ),
        unread=words.unread,
        chosen=tuple(
            f'"{quoted(tokens[min(at) : max(at) + 1])}" is left to choose: what was said '
            "first is done and judged"
            for at in clauses.others
            if len(at) > 1
        ),
    )


def _frames(
    tokens: Sequence[Token], sketches: Sketches
) -> tuple[tuple[Frame, ...], tuple[WordClaim, ...]]:
    """Fill the slots of every sketch, and keep which words filled them and made the limits."""
    frames: list[Frame] = []
    claims: list[WordClaim] = []

    def claim(slot: str, at: Sequence[int], index: int, value: str, **more: str | None) -> None:
        places = tuple(sorted(set(at)))
        words = quoted(tokens[places[0] : places[-1] + 1])
        record = {"words": words, "at": places, "slot": slot, "index": index, "value": value}
        claims.append(WordClaim.model_validate(record | more))

    for index, sketch in enumerate(sketches.all):
        slots = Slots(sketch)
        frame = slots.frame()
        frames.append(frame)
        if sketch.at:
            judged_as = sketch.says.get("judged_as", "")
            claim("verb", sketch.at, index, str(frame.verb), judged_as=judged_as)
        for slot, item, sense in slots.claims:
            sketches.used.update(item.at)
            if sense is None:
                claim(slot, item.at, index, "")
            elif sense.slot == "dimension":
                claim(slot, item.at, index, "", dimension=sense.value)
            else:
                more = {
                    key: sense.says[key] for key in ("dimension", "judged_as") if key in sense.says
                }
                claim(slot, item.at, index, sense.value, **more)
        for item in slots.in_place:
            sketches.add_limit(LimitKind.NO_DRIFT, item.at)
    for index, at in sketches.limit_claims:
        claim("limit", at, index, str(sketches.limits[index].kind))
    return tuple(frames), tuple(claims)


# ---------------------------------------------------------------------------- account of the words


class _Account:
    """Every word of an intent: used, left out on purpose, or not understood."""

    def __init__(
        self, tokens: Sequence[Token], items: Sequence[Item], used: set[int], left_out: set[int]
    ) -> None:
        self._tokens = tokens
        self._items = items
        self.used = used
        # Words of a phrase with a meaning, "perfectly still", are not left out one by one.
        idle = {phrase.at for k in range(len(tokens)) if (phrase := lexicon().find(tokens, k, "idle"))}
        phrases = [i.at for i in items if len(i.at) > 1 and i.slot in _SLOTS and i.at not in idle]
        left_out = left_out - used - {place for at in phrases for place in at}
        words = {place for place, token in enumerate(tokens) if not token.silent}
        self.unknown = words - used - left_out
        # Of a number that was not used all its words are quoted: "for at least 4 seconds".
        numbers = [item.at for item in items if item.slot == "number" and not used & {*item.at}]
        self.unknown |= {place for at in numbers if self.unknown & {*at} for place in at}
        self.left_out = left_out - self.unknown
        self.unread = quotes(tokens, self.unknown, self.left_out)

    def texts(self, places: Collection[int]) -> tuple[str, ...]:
        """Return the words at some places as they were typed."""
        words = [(place, token) for place, token in enumerate(self._tokens) if not token.silent]
        return tuple(token.text for place, token in words if place in places)

    def lost_verbs(self) -> tuple[str, ...]:
        """Return the words where a verb should be: of "run, then dance" it is "dance".

        What is done one after another is cut at "then" and its like. A piece without a verb, whose
        first word of any meaning is not understood, asks for something that has no name here.
        """
        tokens = self._tokens
        joints = [item for item in self._items if item.is_join("then", "after", "before")]
        verbs = [item for item in self._items if item.slot == "verb"]
        # "hold a plank" does not say what to do by "hold".
        holders = [item for item in verbs if not item.is_acting]
        empty = {k for i in holders if self._next_word(i.end) in self.unknown for k in i.at}
        acts = ({place for item in verbs for place in item.at} & self.used) - empty
        lost: list[str] = []
        if self._begins_lost([item for item in verbs if acts & {*item.at}]):
            lost += self.unread[:1]
        for first, last in pairwise((0, *(item.at[0] for item in joints), len(tokens))):
            joint = {place for item in joints if item.at[0] == first for place in item.at}
            known = (self.unknown | self.used) - joint - empty
            piece = [place for place in range(first, last) if place in known]
            if piece and piece[0] in self.unknown and not acts & set(piece):
                words = [tokens[k] for k in piece if tokens[k].word not in ignored_words()]
                lost.append((words or [tokens[piece[0]]])[0].text)
        return tuple(lost)

    def _begins_lost(self, verbs: Sequence[Item]) -> bool:
        """Return whether the first deed is not understood: "dance and run", "three steps, stop".

        Stopping, landing and ending up come after something else.
        """
        first = min(self.unknown | self.used, default=None)
        if first is None or first not in self.unknown or not verbs:
            return False
        ands = [item.at[0] for item in self._items if item.is_join("and")]
        ands = [k for k in ands if k in self.used and self._tokens[k].word == "and"]
        is_sequel = len(verbs) == 1 and verbs[0].says("sequel")
        return is_sequel or any(first < place < verbs[0].at[0] for place in ands)

    def _next_word(self, place: int) -> int:
        """Return the place of the next word that is not left out."""
        while place < len(self._tokens) and place in self.left_out:
            place += 1
        return place


def _left_out(tokens: Sequence[Token], names: frozenset[str]) -> set[int]:
    """Return the places of words left out on purpose.

    A robot is addressed, not something to go to, to jump over or to be like; and what is done
    "again" was done before.
    """
    data = table("ignored")
    words, robots = ignored_words() | names, {*data["robots"], *names}
    places = {place for place, token in enumerate(tokens) if token.word in words}
    idle = [lexicon().find(tokens, place, "idle") for place in range(len(tokens))]
    together = {k for each in idle if each and not _is_of_parts(tokens, each) for k in each.at}
    is_later = False
    for place, token in enumerate(tokens):
        before = place - 1
        while before >= 0 and tokens[before].word in determiners():
            before -= 1
        if token.word in robots and before >= 0:
            if tokens[before].word in data["placing"] and before not in together:
                places -= {place, before}
            elif _is_object(tokens, before, place):
                places.discard(place)
        is_first = place == 0 or tokens[place - 1].word in _JOINTS
        if token.word == "again" and is_later and not is_first:
            places.add(place)
        is_later = is_later or token.word in _JOINTS
    return places | together


def _is_object(tokens: Sequence[Token], before: int, place: int) -> bool:
    """Return whether something is done to it: "walk your dog", "kick the robot"."""
    verb = lexicon().find(tokens, before, *PHRASES)
    if verb is None or verb.end != before + 1 or verb.senses[0].slot != "verb":
        return False
    owners = table("ignored")["possessive"]
    is_owned = any(token.word in owners for token in tokens[verb.end : place])
    return is_owned or verb.senses[0].value in (Act.KICK, Act.LIFT, Act.REACH)


def _is_of_parts(tokens: Sequence[Token], phrase: Match) -> bool:
    """Return whether parts take turns: "raise your arms one after the other"."""
    before = tokens[phrase.at[0] - 1].word if phrase.at[0] else ""
    words = {tokens[place].word for place in phrase.at}
    return {"one", "after"} <= words and is_part(before)


def _names(spec: EnvSpec) -> frozenset[str]:
    """Return the words of the environment's own name: addressing it says nothing to do."""
    pieces = re.findall(r"[A-Z]?[a-z]+", spec.id)
    words = {word.lower() for word in (*pieces, "".join(pieces), spec.id)}
    return frozenset(words - {*table("numbers")["values"]})  # "half" of HalfCheetah is a number


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
    readers: Mapping[str, Reader],
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
