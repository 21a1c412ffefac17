"""Find everything in an intent that has a meaning: phrases, parts, numbers and forbidden things.

First the longest mark at each place is taken. Then marks are bound: what is said of something that
is not known ("a bar 50 cm high", "looking to the left") is left out, so that it is named as not
understood and never taken for something else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from telic.composer.amounts import Reading, read_amount
from telic.composer.frames import Act, Amount, LimitKind, Unit
from telic.composer.lexicon import (
    PHRASES,
    Sense,
    Token,
    determiners,
    idle_phrases,
    ignored_words,
    lexicon,
)
from telic.composer.parts import BodyPart, find_part
from telic.envs.spec import EnvSpec

# Limits that a distance, height or angle can be given for, and its unit.
_MEASURED: dict[LimitKind, Unit] = {
    LimitKind.NO_DRIFT: "m",
    LimitKind.NO_FORWARD: "m",
    LimitKind.NO_TURN: "rad",
    LimitKind.LOW_HEIGHT: "m",
    LimitKind.KEEP_HEIGHT: "m",
}
_STAYS = ("stay", "stays", "staying", "remain", "remaining", "keep", "keeping")
# Parts that move when the whole robot does: "without moving the cart".
_WHOLE = {"torso", "cart", "base"}
# What a limit may be about: not "bending the knees", which is not judged.
_JUDGED_PARTS = {*_WHOLE, "pole", "poles", "tip"}
# After a number: more than something that was not said.
_COMPARED = {
    *("lower", "higher", "faster", "slower", "farther", "further", "longer", "shorter"),
    *("deeper", "taller", "more", "less"),
}
_LOOK_BACK = 4
_GOES = {Act.GO, Act.JUMP, Act.HOP}
_FOOT_M = 0.3048
POSSESSIVE = ("your", "its", "it's", "his", "her", "their", "my")
# What a body does as a whole: no part is turned, rolled or run.
_OF_WHOLE = {Act.GO, Act.TURN, Act.ROLL, Act.FLIP, Act.CIRCLE, Act.JUMP, Act.HOP, Act.LIE}
# What can say how something is done.
_MANNERS = {"direction", "posture", "degree", "part"}
_SHORT = 4  # letters up to which a word in "-ing" is a thing: "ring"


@dataclass(frozen=True, slots=True)
class Mark:
    """A piece of the text with a meaning; `slot` says which of the others is filled."""

    slot: str
    at: tuple[int, ...]
    senses: tuple[Sense, ...] = ()
    reading: Reading | None = None
    part: BodyPart | None = None
    limit: LimitKind | None = None
    amount: Amount | None = None

    @property
    def end(self) -> int:
        """Place after its last word."""
        return self.at[-1] + 1

    @property
    def act(self) -> Act:
        """What a verb does."""
        return Act(self.senses[0].value)

    @property
    def is_acting(self) -> bool:
        """Whether it is a verb that does something rather than keeps something."""
        return self.slot == "verb" and not self.says("holder")

    def sense(self, verb: str | None = None) -> Sense | None:
        """Return what it means beside a verb; meanings for that verb alone come first."""
        suited = [sense for sense in self.senses if sense.suits(verb)]
        return max(suited, key=lambda each: "verbs" in each.says, default=None)

    def says(self, key: str) -> bool:
        """Return whether a verb says something besides."""
        return bool(self.senses[0].says.get(key))

    def is_join(self, *values: str) -> bool:
        """Return whether it is one of these joining words."""
        return any(sense.slot == "join" and sense.value in values for sense in self.senses)


def read_marks(tokens: Sequence[Token], spec: EnvSpec) -> list[Mark]:
    """Return the marks of a text in order."""
    return _Binder(tokens).bound(_Scanner(tokens, spec).marks())


class _Scanner:
    """Takes the longest mark at each place of a text."""

    def __init__(self, tokens: Sequence[Token], spec: EnvSpec) -> None:
        self._tokens = tokens
        self._words = [token.word for token in tokens]
        self._parts = [find_part(tokens, place, spec) for place in range(len(tokens))]

    def marks(self) -> list[Mark]:
        marks: list[Mark] = []
        place = 0
        while place < len(self._tokens):
            found = self._at(place)
            idle = idle_phrases().find(self._tokens, place)
            if idle is not None and (not found or idle.end > found[-1].end):
                place = idle.end  # "in one direction" is no number
                continue
            marks += [mark for mark in found if not mark.is_join("unread")]
            place = found[-1].end if found else place + 1
        return marks

    def _at(self, place: int) -> list[Mark]:
        tokens, token = self._tokens, self._tokens[place]
        if token.silent:
            value = {",": "and", ".": "stop"}.get(token.word)
            return [Mark("join", (place,), (Sense("join", value),))] if value else []
        mark, reading, part = self._phrase(place), read_amount(tokens, place), self._parts[place]
        compared = reading is not None and reading.rule is not None  # "no faster than 2 m/s"
        if mark is not None and mark.is_join("negation") and not compared:
            limited = read_amount(tokens, mark.at[-1]) if len(mark.at) > 1 else None
            if limited is not None and limited.rule is not None:  # "but never faster than 2 m/s"
                return [Mark("join", mark.at[:-1], (Sense("join", "and"),))]
            return self._limits(mark.at) or [mark]  # alone it blocks its clause
        options = [
            [Mark("number", reading.at, reading=reading)] if reading else [],
            [Mark("part", part.at, part=part)] if part else [],
            [mark] if mark else [],
            self._said_with_negation(place),
            self._kept_within(place),
        ]
        return max(options, key=lambda option: option[-1].end if option else 0)

    def _phrase(self, place: int) -> Mark | None:
        match = lexicon().find(self._tokens, place, *PHRASES)
        if match is None or (len(match.at) == 1 and self._is_noun(place)):
            return None
        sense = match.senses[0]
        limit = LimitKind(sense.value) if sense.slot == "limit" else None
        slot = "until_end" if sense.value == "until_end" else sense.slot
        return Mark(slot, match.at, match.senses, limit=limit)

    def _is_noun(self, place: int) -> bool:
        """Return whether a word is a thing here: "with small steps", "a straight back"."""
        before = self._words[max(place - 2, 0) : place]
        is_named = bool(determiners() & {*before}) and before[-1:] != ["way"]
        return self._words[place] == "steps" or (self._words[place] == "back" and is_named)

    def _said_with_negation(self, place: int) -> list[Mark]:
        """Read "don't move the cart", where "don't move" is a phrase too, and "from falling"."""
        if self._words[place] in ("don't", "dont", "from"):
            return self._limits((place,))
        if self._words[place : place + 2] == ["do", "not"]:
            return self._limits((place, place + 1))
        return []

    def _kept_within(self, place: int) -> list[Mark]:
        """Read "stay within 1 m of the start" as how far it may go, not how high."""
        if self._words[place] not in _STAYS or self._words[place + 1 : place + 2] != ["within"]:
            return []
        reading = read_amount(self._tokens, place + 1)
        if reading is None or reading.amount is None or reading.amount.unit != "m":
            return []
        at, after = (place, *reading.at), self._words[reading.end : reading.end + 3]
        if after[:1] == ["of"] and {"start", "origin", "beginning", "spot"} & {*after}:
            at = (*at, *range(reading.end, reading.end + len(after)))
        return [Mark("limit", at, limit=LimitKind.NO_DRIFT, amount=reading.amount)]

    def _limits(self, at: tuple[int, ...]) -> list[Mark]:
        """Read the forbidden things after a negation: "without falling, jumping or turning"."""
        marks: list[Mark] = []
        while at:
            skipped, place = self._skip_to_forbidden(at[-1] + 1)
            match = lexicon().find(self._tokens, place, "forbidden")
            if match is None:
                return marks
            kind = LimitKind(match.senses[0].value)
            limit = self._with_object(Mark("limit", (*at, *skipped, *match.at), limit=kind), kind)
            if limit is None:
                return marks
            marks.append(limit)
            at = self._list_joint(match.at[0], limit.end)
        return marks

    def _list_joint(self, first: int, place: int) -> tuple[int, ...]:
        """Return where a list of forbidden things goes on.

        After a comma or "and" it does so only in the same form; "don't fall, jump" asks for a jump.
        """
        words = self._words[place : place + 3]
        length = 2 if words[:2] in ([",", "or"], [",", "and"], [",", "nor"]) else 1
        if not words or words[0] not in (",", "and", "or", "nor") or len(words) <= length:
            return ()
        same = words[length].endswith("ing") and self._words[first].endswith("ing")
        is_list = words[length - 1] in ("or", "nor") or same
        return tuple(range(place, place + length)) if is_list else ()

    def _skip_to_forbidden(self, place: int) -> tuple[tuple[int, ...], int]:
        """Pass words between: "letting the pole", "ever"; a part passed belongs to the limit."""
        skipped: tuple[int, ...] = ()
        while place < len(self._words) and not lexicon().find(self._tokens, place, "forbidden"):
            part = self._parts[place]
            if part is not None:
                skipped, place = (*skipped, *part.at), part.end
            elif self._words[place] in ignored_words() or self._words[place] == "ever":
                place += 1
            else:
                break
        return skipped, place

    def _with_object(self, limit: Mark, kind: LimitKind) -> Mark | None:
        """Add the part ("moving the cart") and the number ("more than 1 m") that follow a limit."""
        place = limit.end
        while self._words[place : place + 1] and self._words[place] in ("the", "its", "your"):
            place += 1
        part = self._parts[place] if place < len(self._parts) else None
        if kind == LimitKind.NO_TOUCH:
            return replace(limit, at=(*limit.at, *part.at), part=part) if part else None
        if part is not None:
            # One limb held still is not the robot held in place.
            if part.name not in (_WHOLE if kind == LimitKind.NO_DRIFT else _JUDGED_PARTS):
                return None
            limit = replace(limit, at=(*limit.at, *part.at))
        reading = read_amount(self._tokens, limit.end)
        if reading is None or reading.amount is None:
            return limit
        if _MEASURED.get(kind) != reading.amount.unit:
            return None  # so much of it is allowed, and how much it is is not judged
        # "without moving more than 1 m" allows one metre at most.
        amount = reading.amount.model_copy(update={"rule": "at_most"})
        return replace(limit, at=(*limit.at, *reading.at), amount=amount)


class _Binder:
    """Binds numbers and manners to what they are said of, and leaves out the others."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens
        self._words = [token.word for token in tokens]
        self._read: set[int] = set()

    def bound(self, marks: list[Mark]) -> list[Mark]:
        """Return the marks that say something of what is asked for."""
        marks = [self._of_parts(marks, index) for index in range(len(marks))]
        self._read = {place for mark in marks for place in mark.at}
        unknown = [mark for mark in marks if self._is_of_unknown(mark)]
        ends = {mark.end for mark in unknown}
        unknown += [mark for mark in marks if mark.at[0] in ends and mark.slot in _MANNERS]
        marks = [mark for mark in marks if mark not in unknown and not self._is_relative(mark)]
        marks = [mark for k, mark in enumerate(marks) if not self._moves_part(marks[k : k + 2])]
        marks = [mark for mark in marks if not self._lifts_thing(mark)]
        marks = self._compared(self._without_unknown_deeds(marks))
        taken = {place for mark in marks if mark.slot == "number" for place in mark.at}
        marks = [mark for mark in marks if mark.slot != "part" or not taken & {*mark.at}]
        return [self._with_first_as(mark) for mark in marks]

    def _is_unknown(self, place: int) -> bool:
        """Return whether a word has no meaning and is not left out on purpose either."""
        if not 0 <= place < len(self._tokens) or place in self._read:
            return False
        return not self._tokens[place].silent and self._words[place] not in ignored_words()

    def _of_parts(self, marks: Sequence[Mark], index: int) -> Mark:
        """Return a number of parts as one that says nothing yet: "three legs" is no count of hops.

        After going or jumping, "20 feet" says how far.
        """
        mark, part = marks[index], marks[index + 1] if index + 1 < len(marks) else None
        before = marks[index - 1].sense() if index else None
        goes = before is not None and before.value in _GOES
        if goes and self._is_a_foot(mark, part):
            amount = Amount(value=_FOOT_M, unit="m", rule="about")
            return Mark("number", mark.at, reading=Reading(mark.at, amount))
        reading = mark.reading
        if reading is None or reading.bare is None or part is None or part.part is None:
            return mark
        if part.at[0] != mark.end:
            return mark
        goes = goes or (before is not None and before.slot == "direction")
        is_foot = self._words[mark.end] in ("feet", "foot") and self._words[mark.at[0]] != "from"
        if not goes or not is_foot or len(part.at) > 1:
            return replace(mark, reading=Reading(mark.at))
        feet, rule = round(_FOOT_M * reading.bare, 9), reading.rule
        amount = Amount(value=feet, unit="m", rule=rule or "about")
        at = (*mark.at, *part.at)
        return Mark("number", at, reading=Reading(at, amount, rule=rule))

    def _is_a_foot(self, mark: Mark, after: Mark | None) -> bool:
        """Return whether a foot is a length: "jump a foot high"."""
        words = self._words[mark.at[0] - 1 : mark.end + 1]
        is_length = words[:2] in (["a", "foot"], ["one", "foot"]) and words[2:] != ["or"]
        says_where = after is not None and after.at[0] == mark.end and after.slot in _MANNERS
        return mark.slot == "part" and is_length and says_where

    def _is_of_unknown(self, mark: Mark) -> bool:
        """Return whether a number measures or counts something unknown.

        "a stride of 30 cm", "2 Hz", "with 2 m sides", "a bar 50 cm high", "pi/2", "twice your
        height".
        """
        reading, place = mark.reading, mark.at[0]
        if mark.slot != "number" or reading is None:
            return False
        before = self._words[place - 1] if place else ""
        if self._words[place] == "of":
            return self._is_unknown(place - 1)
        if place > 1 and self._tokens[place - 1].text == "/":
            return self._is_unknown(place - 2)
        if place > 1 and self._is_unknown(place - 1) and self._words[place - 2] in determiners():
            return True  # "under a bar 50 cm high"
        if (reading.bare is not None or before == "with") and self._is_unknown(mark.end):
            return True
        is_multiple = reading.count is not None or reading.bare is not None
        after = self._words[mark.end : mark.end + 1]
        return is_multiple and any(word in POSSESSIVE for word in after)

    def _is_relative(self, mark: Mark) -> bool:
        """Return whether a number says how much more than something: "5 cm lower"."""
        if mark.slot != "number" or mark.reading is None or mark.reading.bare is not None:
            return False
        return any(word in _COMPARED for word in self._words[mark.end : mark.end + 1])

    def _moves_part(self, marks: Sequence[Mark]) -> bool:
        """Return whether a verb of the whole body is said of a part: "turn your head"."""
        if len(marks) < 2 or marks[0].slot != "verb" or marks[1].part is None:
            return False
        verb, between = marks[0], self._words[marks[0].end : marks[1].at[0]]
        is_object = bool(between) and all(word in determiners() for word in between)
        is_whole = marks[1].part.name in (*_WHOLE, "target")
        return is_object and not is_whole and verb.act in _OF_WHOLE and not verb.says("weak")

    def _lifts_thing(self, verb: Mark) -> bool:
        """Return whether something unknown is lifted: "pick up a box" is not a foot."""
        if verb.slot != "verb" or verb.act != Act.LIFT:
            return False
        thing = verb.end
        while thing < len(self._words) and self._words[thing] in determiners():
            thing += 1
        return thing > verb.end and self._is_unknown(thing)

    def _without_unknown_deeds(self, marks: Sequence[Mark]) -> list[Mark]:
        """Return the marks without those that say how something unknown is done.

        "walk looking to the left" does not go left, and "look up and walk" does not go up: such a
        word stands where a clause begins, or has the form of a verb beside another.
        """
        kept: list[Mark] = []
        read = {place for mark in marks for place in mark.at}
        begins, is_unknown, last = True, False, 0
        for mark in marks:
            for place in range(last, mark.at[0]):
                word = self._words[place]
                is_word = place not in read and not self._tokens[place].silent
                if is_word and word not in ignored_words():
                    is_unknown = (begins and not word.endswith("ly")) or _is_participle(word)
                    begins = False
            if mark.slot == "join":  # "glancing left and right" is one deed
                is_unknown = is_unknown and self._words[mark.at[0]] == "and"
            elif mark.slot in ("verb", "limit", "number"):
                is_unknown = False
            if not (is_unknown and mark.slot in _MANNERS):
                kept.append(mark)
            begins, last = mark.slot == "join", mark.end
        return kept

    def _compared(self, marks: list[Mark]) -> list[Mark]:
        """Return the marks with "as high as your leg" as a comparison, which is left unread.

        "as high as possible" and "as well as" are phrases of their own.
        """
        own = {place for mark in marks if len(mark.at) > 1 for place in mark.at}
        counts = {mark.end: mark.at for mark in marks if mark.reading and mark.reading.count}
        for place, word in enumerate(self._words):
            second = place + 2
            if word != "as" or {place, second} & own:
                continue
            is_pair = self._words[second : second + 1] == ["as"]
            if is_pair or place in counts:  # "three times as high"
                at = (*counts.get(place, ()), *range(place, second + is_pair))
                kept = [mark for mark in marks if not {*mark.at} & {*at}]
                comparison = Mark("join", at, (Sense("join", "aside"),))
                return sorted((*kept, comparison), key=lambda mark: mark.at)
        return marks

    def _with_first_as(self, mark: Mark) -> Mark:
        """Let "as possible" own the first "as" of "as high as possible" too."""
        sense, start = mark.sense(), mark.at[0]
        if sense is None or sense.value != "most" or self._words[start] != "as":
            return mark
        for place in range(start - 1, max(start - 1 - _LOOK_BACK, -1), -1):
            if self._words[place] == "as":
                return replace(mark, at=(place, *mark.at))
        return mark


def _is_participle(word: str) -> bool:
    return len(word) > _SHORT and word.endswith("ing") and word != "during"
