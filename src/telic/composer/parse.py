"""Parse an intent: text → tokens → marks → clauses → frames, and an account of every word.

Deterministic, and it never fails: what it cannot read it lists. The words it knows are in
`tables/`. Last, the slots of each frame are filled from the marks that belong to it, and it is
kept which words filled which: `telic.composer.scope` asks what became of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from telic.composer.clauses import cut
from telic.composer.frames import Act, Frame, LimitKind, ParsedIntent, WordClaim
from telic.composer.marks import POSSESSIVE, Mark, read_marks
from telic.composer.parts import is_part
from telic.composer.sketches import Outline
from telic.composer.slots import Slots
from telic.composer.words import (
    Match,
    Token,
    correct,
    corrected,
    determiners,
    ignored_words,
    lexicon,
    read_tokens,
    readable,
    table,
)
from telic.envs.spec import EnvSpec

_SLOTS = ("direction", "degree", "posture", "style", "part")
_JOINTS = (",", ".", "and", "then")
_LATER = ("then", "after", "before")
_PLACING = {
    "to",
    "at",
    "from",
    "by",
    "with",
    "like",
    "than",
    "over",
    "after",
    "before",
    "into",
    "onto",
    "around",
    "through",
    "towards",
    "toward",
    "across",
    "along",
    "on",
    "behind",
}


def parse(intent: str, spec: EnvSpec) -> ParsedIntent:
    """Return what an intent asks of the robot of an environment.

    Nothing understood gives no frames, and every word in `not_understood`.
    """
    names = _names(spec)
    tokens = corrected(read_tokens(intent), (*spec.body_names, *names))
    marks = read_marks(tokens, spec)
    clauses = cut(tokens, marks)
    has_pole = spec.robot is not None and bool(spec.robot.poles)
    outline = Outline(tokens, clauses.joints, ignored_words() | names, has_pole)
    outline.read(clauses.groups)
    outline.used.update(place for other in clauses.others for place in other)
    account = _Account(tokens, _left_out(tokens, names), clauses.others)
    frames = tuple(account.frame(index, outline) for index in range(len(outline.sketches)))
    account.limits(outline)
    return account.told(intent, frames, outline, marks)


class _Account:
    """Every word of an intent: what it was used for, left out on purpose, or not understood."""

    def __init__(
        self, tokens: Sequence[Token], left_out: set[int], others: Sequence[tuple[int, ...]]
    ) -> None:
        self._tokens = tokens
        self._left_out = left_out
        self._others = others
        self._claims: list[WordClaim] = []

    def frame(self, index: int, outline: Outline) -> Frame:
        """Fill the slots of a sketch, and keep which words filled them."""
        sketch = outline.sketches[index]
        slots = Slots(sketch)
        frame = slots.frame()
        if sketch.at:
            loosely = str(sketch.says.get("judged_as", ""))
            self._claim("verb", sketch.at, index, value=str(frame.verb), judged_as=loosely)
        for slot, mark, sense in slots.claims:
            about: str | None = sense.says.get("dimension") if sense else None
            value = sense.value if sense else ""
            if sense and sense.slot == "dimension":
                about, value = sense.value, ""
            loosely = str(sense.says.get("judged_as", "")) if sense else ""
            self._claim(slot, mark.at, index, value, about, loosely)
            outline.used.update(mark.at)
        for mark in slots.in_place:
            outline.add_limit(LimitKind.NO_DRIFT, mark.at)
        return frame

    def limits(self, outline: Outline) -> None:
        """Keep which words made which limit."""
        for index, at in outline.limit_claims:
            self._claim("limit", at, index, value=str(outline.limits[index].kind))

    def _claim(
        self,
        slot: str,
        at: Sequence[int],
        index: int,
        value: str,
        dimension: str | None = None,
        judged_as: str = "",
    ) -> None:
        places = tuple(sorted(set(at)))
        text = _text(self._tokens[places[0] : places[-1] + 1])
        claim = WordClaim(
            words=text, at=places, slot=slot, value=value, dimension=dimension, index=index
        )
        self._claims.append(claim.model_copy(update={"judged_as": judged_as}))

    def _has_meaning(self, mark: Mark) -> bool:
        idle = lexicon("ignored").find(self._tokens, mark.at[0])
        return len(mark.at) > 1 and mark.slot in _SLOTS and (idle is None or idle.at != mark.at)

    def told(
        self, intent: str, frames: tuple[Frame, ...], outline: Outline, marks: Sequence[Mark]
    ) -> ParsedIntent:
        """Sort every word into used, ignored or not understood; without a frame nothing was."""
        used = outline.used if frames else set[int]()
        # Words of a phrase with a meaning, "perfectly still", are not left out one by one.
        phrases = {k for mark in marks if self._has_meaning(mark) for k in mark.at}
        left_out = self._left_out - used - phrases if frames else set[int]()
        words = [(place, token.text) for place, token in enumerate(self._tokens)]
        words = [(place, text) for place, text in words if not self._tokens[place].silent]
        known = used | left_out
        unknown = {place for place, _ in words} - known
        # Of a number that was not used all its words are quoted: "for at least 4 seconds".
        numbers = [mark.at for mark in marks if mark.slot == "number" and not used & {*mark.at}]
        unknown |= {place for at in numbers if unknown & {*at} for place in at}
        left_out -= unknown
        return ParsedIntent(
            intent=readable(intent),
            frames=frames,
            limits=tuple(outline.limits),
            used=tuple(text for place, text in words if place in used),
            ignored=tuple(text for place, text in words if place in left_out),
            not_understood=tuple(text for place, text in words if place in unknown),
            claims=tuple(self._claims) if frames else (),
            unknown=tuple(each for each in words if each[0] in unknown),
            lost=_lost_verbs(self._tokens, marks, unknown, used, left_out),
            corrected=tuple(
                f'"{token.text}" is read as "{token.word}"'
                for place, token in enumerate(self._tokens)
                if place in used and correct(token.text.lower()) != token.text.lower()
            ),
            unread=_phrases(self._tokens, unknown, left_out),
            chosen=tuple(
                f'"{_text(self._tokens[min(at) : max(at) + 1])}" is left to choose: what was said '
                "first is done and judged"
                for at in self._others
                if len(at) > 1
            ),
        )


def _lost_verbs(
    tokens: Sequence[Token],
    marks: Sequence[Mark],
    unknown: set[int],
    used: set[int],
    left_out: set[int],
) -> tuple[str, ...]:
    """Return the words where a verb should be: of "run, then dance" it is "dance".

    What is done one after another is cut at "then" and its like. A piece without a verb, whose
    first word of any meaning is not understood, asks for something that nobody can name.
    """
    joints = [mark for mark in marks if mark.slot == "join" and mark.is_join(*_LATER)]
    verbs = [mark for mark in marks if mark.slot == "verb"]
    # "hold a plank" does not say what to do by "hold".
    empty = {
        place
        for mark in verbs
        if not mark.is_acting and _next_word(tokens, mark.end, left_out) in unknown
        for place in mark.at
    }
    acts = ({place for mark in verbs for place in mark.at} & used) - empty
    lost: list[str] = []
    ands = [mark.at[0] for mark in marks if mark.is_join("and") and mark.at[0] in used]
    ands = [place for place in ands if tokens[place].word == "and"]
    if _begins_lost([mark for mark in verbs if acts & {*mark.at}], ands, unknown, used):
        lost += _phrases(tokens, unknown, left_out)[:1]
    for first, last in pairwise((0, *(mark.at[0] for mark in joints), len(tokens))):
        joint = {place for mark in joints if mark.at[0] == first for place in mark.at}
        piece = [k for k in range(first, last) if k in unknown | used and k not in joint | empty]
        if piece and piece[0] in unknown and not acts & set(piece):
            lost.append(tokens[piece[0]].text)
    return tuple(lost)


def _begins_lost(
    verbs: Sequence[Mark], ands: Sequence[int], unknown: set[int], used: set[int]
) -> bool:
    """Return whether the first deed is not understood: "dance and run", "three steps, then stop".

    Who stops, lands or ends up does so after something else.
    """
    first = min(unknown | used, default=None)
    if first is None or first not in unknown or not verbs:
        return False
    is_sequel = len(verbs) == 1 and bool(verbs[0].senses[0].says.get("sequel"))
    return is_sequel or any(first < place < verbs[0].at[0] for place in ands)


def _next_word(tokens: Sequence[Token], place: int, left_out: set[int]) -> int:
    """Return the place of the next word that is not left out."""
    while place < len(tokens) and place in left_out:
        place += 1
    return place


def _phrases(tokens: Sequence[Token], unknown: set[int], left_out: set[int]) -> tuple[str, ...]:
    """Return what was not understood as people would quote it: "play the piano"."""
    found: list[list[int]] = []
    for place in sorted(unknown):
        between = range(found[-1][-1] + 1, place) if found else ()
        if found and all(each in left_out or tokens[each].text == "/" for each in between):
            found[-1] += [*between, place]
        else:
            found.append([place])
    return tuple(_text([tokens[place] for place in places]) for places in found)


def _text(tokens: Sequence[Token]) -> str:
    """Return words as they were typed: "2 m/s"."""
    words = [token.text for token in tokens if not token.silent or token.text == "/"]
    return re.sub(r" ?/ ?", "/", " ".join(words))


def _left_out(tokens: Sequence[Token], names: frozenset[str]) -> set[int]:
    """Return the places of words left out on purpose.

    A robot is addressed, not something to go to, to jump over or to be like; and what is done
    "again" was done before.
    """
    words = ignored_words() | names
    places = {place for place, token in enumerate(tokens) if token.word in words}
    idle = [lexicon("ignored").find(tokens, place) for place in range(len(tokens))]
    idle = [phrase for phrase in idle if phrase and not _is_of_parts(tokens, phrase)]
    together = {place for phrase in idle for place in phrase.at}
    robots = {*table("ignored")["robots"], *names}
    joined = False
    for place, token in enumerate(tokens):
        before = _word_before(tokens, place)
        placed = before is not None and tokens[before].word in _PLACING
        if token.word in robots and placed and before not in together:
            places.discard(place)
            places.discard(before)
        elif token.word in robots and _is_object(tokens, before, place):
            places.discard(place)
        is_first = place == 0 or tokens[place - 1].word in _JOINTS
        if token.word == "again" and joined and not is_first:
            places.add(place)
        joined = joined or token.word in _JOINTS
    marks = [lexicon("phrases").find(tokens, place) for place in range(len(tokens))]
    idioms = {k for each in marks if each and each.senses[0].value == "unread" for k in each.at}
    return (places | together) - idioms


def _is_object(tokens: Sequence[Token], before: int | None, place: int) -> bool:
    """Return whether something is done to it: "walk your dog", "kick the robot"."""
    verb = lexicon("phrases").find(tokens, before) if before is not None else None
    if verb is None or verb.end != (before or 0) + 1 or verb.senses[0].slot != "verb":
        return False
    is_owned = any(token.word in POSSESSIVE for token in tokens[verb.end : place])
    return is_owned or verb.senses[0].value in (Act.KICK, Act.LIFT, Act.REACH)


def _is_of_parts(tokens: Sequence[Token], phrase: Match) -> bool:
    """Return whether parts take turns: "raise your arms one after the other"."""
    before = tokens[phrase.at[0] - 1].word if phrase.at[0] else ""
    words = {tokens[place].word for place in phrase.at}
    return {"one", "after"} <= words and is_part(before)


def _word_before(tokens: Sequence[Token], place: int) -> int | None:
    """Return the place of the word before an article, if there is one."""
    place -= 1
    while place >= 0 and tokens[place].word in determiners():
        place -= 1
    return place if place >= 0 else None


def _names(spec: EnvSpec) -> frozenset[str]:
    """Return the words of the environment's own name: addressing it says nothing to do."""
    pieces = re.findall(r"[A-Z]?[a-z]+", spec.id)
    words = {word.lower() for word in (*pieces, "".join(pieces), spec.id)}
    return frozenset(words - {*table("numbers")["values"]})  # "half" of HalfCheetah is a number
