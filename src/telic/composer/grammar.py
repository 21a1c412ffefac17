"""Read the text of an intent into items with a meaning, and the items into clauses.

At each place the longest item is taken: a phrase of the tables, a number, a part of the body or
something forbidden. What is said of something unknown ("a bar 50 cm high", "looking to the left")
is left out, so that it is reported as not understood and never taken for something else.

Clauses stand in the order of doing: "stand after jumping" is jump, then stand. A negation, a
condition, an alternative or a comparison is nothing to do: what follows it is left unread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple

from telic.composer.amounts import Reading, number_reader, read_amount
from telic.composer.frames import Act, Amount, LimitKind
from telic.composer.lexicon import (
    PHRASES,
    PhraseReader,
    Sense,
    Token,
    determiners,
    ignored_words,
    lexicon,
    word_table,
)
from telic.composer.parts import BodyPart, find_part
from telic.envs.spec import EnvSpec

# Parts that move when the whole robot does: "without moving the cart".
_WHOLE = {"torso", "cart", "base"}
# Parts a limit may be about: not "bending the knees", which is not judged.
_JUDGED_PARTS = {*_WHOLE, "pole", "poles", "tip"}
_TRAVELS = {"go", "hop", "jump"}
_MANNERS = {"direction", "posture", "degree", "part"}
_STRENGTH = {"start": 0, "and": 1, "stop": 2, "then": 3, "after": 3, "before": 3, "first": 3}
_NEGATIONS = ("without", "never", "don't", "dont")
_SHORT = 4  # letters up to which a word in "-ing" is a noun: "ring"
_FOOT_M = 0.3048
_MEASURED = {"m": {"height", "distance"}, "m/s": {"speed"}}
"""what a word after a number may say that it measures: "1 m high" """
_GRADED = {"low", "high"}
"""postures that can be had more or less of: "as low as possible" """


@dataclass(frozen=True, slots=True)
class Item:
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
    def act(self) -> Act | None:
        """Act of a verb."""
        return self.senses[0].value if self.slot == "verb" else None

    @property
    def is_acting(self) -> bool:
        """True of a verb that does something rather than keeps something."""
        return self.slot == "verb" and not self.says("holder")

    @property
    def unit(self) -> str | None:
        """Unit of a number."""
        return self.reading.amount.unit if self.reading and self.reading.amount else None

    def sense(self, verb: str | None = None) -> Sense | None:
        """Return the meaning together with a verb; meanings for that verb alone come first."""
        suited = [sense for sense in self.senses if sense.suits(verb)]
        return max(suited, key=lambda each: "verbs" in each.says, default=None)

    def says(self, key: str) -> bool:
        """Return whether a verb has a property."""
        return bool(self.senses[0].says.get(key))

    def is_join(self, *values: str) -> bool:
        """Return whether it is one of these joining words."""
        return any(sense.slot == "join" and sense.value in values for sense in self.senses)


@dataclass(slots=True)
class Clause:
    """Items between two joining words."""

    join: str
    """how it follows the clause before: start, and, stop, then, after, before, first"""
    is_opening: bool = False
    """whether a sentence begins with it"""
    items: list[Item] = field(default_factory=list[Item])
    delay: Item | None = None
    """what comes before it: "after 3 seconds", "after 2 m" """

    @property
    def acts(self) -> bool:
        """True where it has a verb of its own, not only one that keeps something."""
        return any(item.is_acting for item in self.items)


class Outline(NamedTuple):
    """Groups of clauses, each done together and one after the other."""

    items: list[Item]
    groups: list[list[Clause]]
    joints: set[int]
    """places of the words that join clauses"""
    idioms: set[int]
    """places of phrases that are not understood as a whole"""


def outline(tokens: Sequence[Token], spec: EnvSpec) -> Outline:
    """Return the clauses of a text in the order of doing."""
    scanner = _Scanner(tokens, spec)
    items = scanner.scan()
    reader = _Clauses([token.word for token in tokens])
    starts = [0, *(k for k, item in enumerate(items) if item.slot == "join"), len(items)]
    for begin, end in pairwise(starts):
        segment = items[begin:end]
        if segment and segment[0].slot == "join":
            reader.join(segment[0], segment[1:])
        reader.read([item for item in segment if item.slot != "join"])
    groups = _in_order([each for each in reader.clauses if each.items])
    return Outline(items, groups, reader.joints, scanner.idioms)


def _in_order(clauses: Sequence[Clause]) -> list[list[Clause]]:
    """Return clauses in the order of doing, those done together in one group.

    "A, then B", "B after A", "after A, B", "before B, A" and "B, but first A" are one.
    """
    groups: list[list[Clause]] = []
    now, opened = 0, ""
    for clause in clauses:
        # A full stop between "run" and "keep upright" does not make the second come later.
        later = clause.join in ("then", "after", "before") or (
            clause.join == "stop" and clause.acts
        )
        if any(sense.says.get("changes") for sense in clause.items[0].senses):
            later = later or any(each.acts for group in groups for each in group)
        if clause.join == "first" and groups:
            now = 0
        elif clause.join == "after" and groups and not clause.is_opening:
            pass  # right before what was said last
        elif opened:  # the main clause of "before B, A" and "after A, B"
            now += opened == "after"
        elif later or not groups:
            now = len(groups)
        else:
            groups[now].append(clause)
            continue
        groups.insert(now, [clause])
        opened = clause.join if clause.is_opening and clause.join in ("before", "after") else ""
    return groups


# ------------------------------------------------------------------------------------------ items


class _Scanner:
    """Takes the longest item at each place of a text."""

    def __init__(self, tokens: Sequence[Token], spec: EnvSpec) -> None:
        self.idioms: set[int] = set()
        self._tokens = tokens
        self._words = [token.word for token in tokens]
        self._items: list[Item] = []
        places = range(len(tokens))
        self._parts = {k: part for k in places if (part := find_part(tokens, k, spec))}
        self._readings = {k: reading for k in places if (reading := read_amount(tokens, k))}
        self._readers: dict[str, PhraseReader] = {
            "unknown": lambda _, place: ((place,), None) if self._is_unknown(place) else None,
            "manner": self._read_manner,
            "amount": number_reader(),
            "measure": number_reader("amount", "count", "duration_s", "period_s"),
            "bare": number_reader("bare"),
            "multiple": number_reader("count", "bare"),
            "length": number_reader("m"),
        }

    def scan(self) -> list[Item]:
        """Return the items that say something of what is asked for, in order."""
        place = 0
        while place < len(self._tokens):
            found = self._at(place)
            idle = lexicon().find(self._tokens, place, "idle")
            if idle is not None and (not found or idle.end > found[-1].end):
                place = idle.end  # "in one direction" has no number
            elif not found:
                place += 1
            else:
                if found[0].is_join("unread"):
                    self.idioms.update(found[0].at)
                elif _is_delay(found[0]) and self._items and self._items[-1].is_join("after"):
                    joint = self._items.pop()
                    self._items.append(replace(found[0], slot="delay", at=joint.at + found[0].at))
                else:
                    self._items += found
                place = found[-1].end
        pairs = list(zip(self._items, [*self._items, None][1:], strict=True))
        self._items = [item for item, after in pairs if not self._has_object(item, after)]
        self._leave_unknown_deeds()
        for k in range(len(self._items) - 1, 0, -1):  # "walk hands up" is "walk with hands up"
            verb, part, where = (*self._items[k - 1 : k + 1], *self._items[k + 1 : k + 2], None)[:3]
            is_up = where is not None and where.end and part.end == where.at[0]
            up = is_up and where and {"up", "down"} & {sense.value for sense in where.senses}
            if part.part and up and verb.is_acting and not verb.says("weak"):
                self._items.insert(k, Item("join", part.at[:1], (Sense("join", "and"),)))
        return self._items

    def _is_unknown(self, place: int) -> bool:
        """Return whether a word has no meaning and is not ignored either."""
        if not 0 <= place < len(self._tokens) or self._tokens[place].silent:
            return False
        known = self._words[place] in ignored_words() or place in {*self._parts, *self._readings}
        return not known and self._phrase(place, is_plain=True) is None

    def _read_manner(self, _: Sequence[Token], place: int) -> tuple[tuple[int, ...], None] | None:
        found = self._phrase(place, is_plain=True)
        return (found.at, None) if found is not None and found.slot in _MANNERS else None

    def _at(self, place: int) -> list[Item]:
        token, item, reading = self._tokens[place], None, self._readings.get(place)
        if token.silent:
            value = {",": "and", ".": "stop"}.get(token.word)
            return [Item("join", (place,), (Sense("join", value),))] if value else []
        item = self._phrase(place)
        compared = reading is not None and reading.rule is not None  # "no faster than 2 m/s"
        if item is not None and item.is_join("negation") and not compared:
            limited = self._readings.get(item.at[-1]) if len(item.at) > 1 else None
            if limited is not None and limited.rule is not None:  # "but never faster than 2 m/s"
                return [Item("join", item.at[:-1], (Sense("join", "and"),))]
            return self._limits(item.at) or [item]  # alone it blocks its clause
        # "don't move the cart", where "don't move" is a phrase too, and "from falling"
        is_negation = self._words[place : place + 2] == ["do", "not"]
        is_negated = is_negation or token.word in ("don't", "dont", "from")
        at = (place, place + 1) if is_negation else (place,)
        options = [
            self._number(reading, item) if reading else [],
            self._equative(place),
            [Item("part", part.at, part=part)] if (part := self._parts.get(place)) else [],
            [item] if item else [],
            self._limits(at) if is_negated else [],
        ]
        return max(options, key=lambda option: option[-1].end if option else 0)

    def _phrase(self, place: int, is_plain: bool = False) -> Item | None:
        readers = None if is_plain else self._readers
        match = lexicon().find(self._tokens, place, *PHRASES, readers=readers)
        if match is None:
            return None
        sense, before = match.senses[0], self._words[max(place - 2, 0) : place]
        if sense.says.get("noun") and sense.slot == "verb":
            manner = self._items[-1] if self._items else None
            is_noun = {*before[-1:]} & {*determiners(), "at", "with", "of", "in"} or (
                manner is not None and manner.slot in ("degree", "number") and manner.end == place
            )
            if is_noun:
                match = replace(match, senses=match.senses[1:])
            if not match.senses:
                return None
            sense = match.senses[0]
        elif sense.says.get("noun") and determiners() & {*before} and before[-1] != "way":
            return None  # "a straight back"
        limit = sense.value if sense.slot == "limit" else None
        slot = "until_end" if sense.value == "until_end" else sense.slot
        amount = _at_most(match.read[0].amount) if limit and match.read else None
        return Item(slot, match.at, match.senses, limit=limit, amount=amount)

    def _number(self, reading: Reading, phrase: Item | None) -> list[Item]:
        """Return a number: "three legs" counts no hops, "20 feet" gone are a length."""
        end, part = reading.end, self._parts.get(reading.end)
        is_equal = reading.count and self._words[end : end + 1] == ["as"]
        if is_equal and self._phrase(end) is None:
            equative = self._equative(end)
            if not equative or equative[0].slot == "join":  # "three times as high"
                after = equative[0].end if equative else end + 2
                return [Item("join", (*reading.at, *range(end, after)), (Sense("join", "aside"),))]
        item = Item("number", reading.at, reading=reading)
        if reading.bare is not None and part is not None:
            is_foot = self._words[end] in ("feet", "foot") and len(part.at) == 1
            before = self._items[-1].sense() if self._items else None
            goes = before is not None and (before.value in _TRAVELS or before.slot == "direction")
            if not goes or not is_foot or self._words[reading.at[0]] == "from":
                return [replace(item, reading=Reading(reading.at))]
            feet = Amount(
                value=round(_FOOT_M * reading.bare, 9), unit="m", rule=reading.rule or "about"
            )
            at = (*reading.at, *part.at)
            item = Item("number", at, reading=Reading(at, feet, rule=reading.rule))
        return [item if phrase is not None and phrase.end > end else self._measured(item)]

    def _measured(self, number: Item) -> Item:
        """Add the word that says what a number measures: "1 m high"."""
        after = self._phrase(number.end)
        senses = after.senses if after is not None else ()
        about = [str(sense.says.get("dimension")) for sense in senses if sense.slot == "degree"]
        about = [each for each in about if each in _MEASURED.get(number.unit or "", ())]
        if after is None or not about:
            return number
        return replace(number, at=number.at + after.at, senses=(Sense("dimension", about[0]),))

    def _equative(self, place: int) -> list[Item]:
        """Read "as high as possible", and "as high as your leg" as a comparison, left unread."""
        inner = self._phrase(place + 1) if self._words[place] == "as" else None
        if inner is None or self._words[inner.end : inner.end + 1] != ["as"]:
            return []
        most = lexicon().find(self._tokens, inner.end, "degree")
        if most is None or most.senses[0].value != "most":
            return [Item("join", (place, *inner.at, inner.end), (Sense("join", "aside"),))]
        values = {sense.value for sense in inner.senses}
        if inner.slot in ("style", "limit") or (inner.slot == "posture" and not values & _GRADED):
            return [replace(inner, at=(place, *inner.at, *most.at))]
        return [inner, Item("degree", (place, *most.at), most.senses)]

    # ---- what is forbidden

    def _limits(self, at: tuple[int, ...]) -> list[Item]:
        """Read what is forbidden after a negation: "without falling, jumping or turning"."""
        items: list[Item] = []
        while at:
            place = at[-1] + 1
            while (match := lexicon().find(self._tokens, place, "forbidden")) is None:
                # "letting the pole": a part passed belongs to the limit
                if part := self._parts.get(place):
                    at, place = (*at, *part.at), part.end
                elif place < len(self._words) and self._words[place] in ignored_words():
                    place += 1
                else:
                    return items
            kind = match.senses[0].value
            unit = match.senses[0].says.get("unit")
            limit = self._with_object(Item("limit", (*at, *match.at), limit=kind), unit)
            if limit is None:
                return items
            items.append(limit)
            # After a comma or "and" only the same form continues the list: "don't fall, jump".
            words = self._words[limit.end : limit.end + 3]
            length = 1 + (words[:1] == [","] and words[1:2] in (["or"], ["and"], ["nor"]))
            is_list = len(words) > length and words[0] in (",", "and", "or", "nor")
            is_ing = is_list and words[length].endswith("ing")
            same = is_ing and self._words[match.at[0]].endswith("ing")
            is_list = is_list and (words[length - 1] in ("or", "nor") or same)
            at = tuple(range(limit.end, limit.end + length)) if is_list else ()
        return items

    def _with_object(self, limit: Item, unit: str | None) -> Item | None:
        """Add the part ("moving the cart") and the number ("more than 1 m") that follow a limit."""
        place = limit.end
        while self._words[place : place + 1] and self._words[place] in ("the", "its", "your"):
            place += 1
        part = self._parts.get(place)
        if limit.limit == "no_touch":
            return replace(limit, at=(*limit.at, *part.at), part=part) if part else None
        if part is not None:
            # One limb held still is not the robot held in place.
            is_drift = limit.limit == "no_drift"
            if part.name not in (_WHOLE if is_drift else _JUDGED_PARTS):
                return None
            limit = replace(limit, at=(*limit.at, *part.at))
        reading = self._readings.get(limit.end)
        if reading is None or reading.amount is None:
            return limit
        if unit != reading.amount.unit:
            return None  # so much of it is allowed, and how much it is is not judged
        return replace(limit, at=(*limit.at, *reading.at), amount=_at_most(reading.amount))

    # ---- what is said of something else

    def _has_object(self, verb: Item, after: Item | None) -> bool:
        """Return whether something else is moved: "turn your head", "pick up a box"."""
        if verb.slot != "verb":
            return False
        place = verb.end
        while place < len(self._words) and self._words[place] in determiners():
            place += 1
        if place == verb.end:
            return False
        if after is None or after.part is None or after.at[0] != place:
            return verb.act == "lift" and self._is_unknown(place)
        is_whole = after.part.name in (*_WHOLE, "target") or verb.says("weak")
        return "whole" in word_table("acts")[verb.senses[0].value] and not is_whole

    def _leave_unknown_deeds(self) -> None:
        """Leave out how something unknown is done.

        "walk looking to the left" does not go left, and "look up and walk" does not go up: such a
        word stands where a clause begins, or has the form of a verb next to another.
        """
        kept: list[Item] = []
        begins, is_unknown, last = True, False, 0
        for item in self._items:
            for place in range(last, item.at[0]):
                word = self._words[place]
                if not self._tokens[place].silent and word not in ignored_words():
                    is_participle = len(word) > _SHORT and word.endswith("ing") and word != "during"
                    is_unknown = (begins and not word.endswith("ly")) or is_participle
                    begins = False
            if item.slot == "join":  # "glancing left and right" is one deed
                is_unknown = is_unknown and self._words[item.at[0]] == "and"
            elif item.slot in ("verb", "limit", "number"):
                is_unknown = False
            if not (is_unknown and item.slot in _MANNERS):
                kept.append(item)
            begins, last = item.slot == "join", item.end
        self._items = kept


def _at_most(amount: Amount) -> Amount:
    """Return how much a limit allows: "without moving more than 1 m"."""
    return amount.model_copy(update={"rule": "at_most"})


# ---------------------------------------------------------------------------------------- clauses


class _Clauses:
    """Clauses so far, and whether what comes now is something to do."""

    def __init__(self, words: Sequence[str]) -> None:
        self.clauses = [Clause("start", is_opening=True)]
        self.joints: set[int] = set()
        self._words = words
        self._unread: str | None = None
        """why what follows is not to be done: aside, or, negation"""
        self._negated: Item | None = None
        """the last thing that is not to be done"""

    def join(self, joint: Item, following: Sequence[Item]) -> None:
        """Take a joining word, and decide whether what follows is read."""
        join = joint.senses[0].value
        if join == "purpose":  # kept where it says how to be, or what not to do
            kept = following and not any(item.is_acting for item in following)
            kept = kept and any(item.limit or item.slot == "verb" for item in following)
            join = "and" if kept else "aside"
        if join in ("negation", "aside", "or"):  # of what is offered the first is meant
            self._unread, self._negated = join, None
        elif not self._continues(joint):
            self._unread = None
            self.joints.update(joint.at)
            last = self.clauses[-1]
            if joint.is_join("before"):
                join = "then" if last.items or not last.is_opening else "before"
            if last.items:
                self.clauses.append(Clause(join, is_opening=join == "stop"))
            elif _STRENGTH[join] > _STRENGTH[last.join] and last.delay is None:
                last.join = join  # the stronger of two in a row (", and then")

    def read(self, items: Sequence[Item]) -> None:
        """Take the items up to the next joining word."""
        for item, after in zip(items, [*items, None][1:], strict=False):
            last = self.clauses[-1]
            if item.slot == "delay":  # to what is said next, or to what it stands behind
                self._unread = None
                if last.items and after is not None and after.is_acting:
                    self.clauses.append(Clause("then"))
                self.clauses[-1].delay = item
            elif self._unread:
                self._negated = item
            else:
                is_limit = item.limit is not None and not item.senses
                is_negated = is_limit or self._words[item.at[0]] in _NEGATIONS
                self._negated = item if is_negated else None
                last.items.append(item)

    def _continues(self, item: Item) -> bool:
        """Return whether "and" continues what is not to be done: "without running and jumping"."""
        is_and = item.is_join("and") and self._words[item.at[0]] not in (",", ".", "but")
        if not is_and or not (self._unread or self._negated) or self._unread == "aside":
            return is_and and self._unread == "aside"
        forms = [self._words[place] for place in self._negated.at] if self._negated else []
        following = self._words[item.end] if item.end < len(self._words) else ""
        return following.endswith("ing") and any(form.endswith("ing") for form in forms)


def _is_delay(item: Item) -> bool:
    """Return whether it is a time, a way or a turn: "after 3 seconds", but not "after 3 jumps"."""
    reading = item.reading
    if reading is None or reading.period_s is not None:
        return False
    return reading.duration_s is not None or reading.amount is not None
