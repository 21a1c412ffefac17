"""Read the text of an intent into items with a meaning, and the items into clauses.

At each place the longest item is taken: a phrase of the tables, a number, a part of the body or
something forbidden. What is said of something unknown ("a bar 50 cm high", "looking to the left")
is left out, so that it is reported as not understood and never taken for something else.

Clauses stand in the order of doing: "stand after jumping" is jump, then stand. Of what is offered
with "or" the first is meant. A negation, a condition or a comparison is nothing to do: what follows
it is left unread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from telic.composer.amounts import Reading, number_reader, read_amount
from telic.composer.frames import Act, Amount, LimitKind
from telic.composer.lexicon import (
    PHRASES,
    Reader,
    Sense,
    Token,
    determiners,
    ignored_words,
    lexicon,
)
from telic.composer.parts import BodyPart, find_part
from telic.envs.spec import EnvSpec

# Parts that move when the whole robot does: "without moving the cart".
_WHOLE = {"torso", "cart", "base"}
# Parts a limit may be about: not "bending the knees", which is not judged.
_JUDGED_PARTS = {*_WHOLE, "pole", "poles", "tip"}
_TRAVELS = {Act.GO, Act.HOP, Act.JUMP}
# Verbs of the whole body: no part is turned, rolled or run.
_OF_WHOLE = {*_TRAVELS, Act.TURN, Act.ROLL, Act.FLIP, Act.CIRCLE, Act.LIE}
_MANNERS = {"direction", "posture", "degree", "part"}
_STRENGTH = {"start": 0, "and": 1, "stop": 2, "then": 3, "after": 3, "before": 3}
_NEGATIONS = ("without", "never", "don't", "dont")
_HELD = {"verb", "direction", "limit", "part", "until_end"}
_SHARED = ("direction", "degree", "style", "posture", "limit", "until_end")
_LOOK_BACK = 4
FOOT_M = 0.3048
_SHORT = 4  # letters up to which a word in "-ing" is a noun: "ring"


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
    def act(self) -> Act:
        """Act of a verb."""
        return Act(self.senses[0].value)

    @property
    def is_acting(self) -> bool:
        """Whether it is a verb that does something rather than keeps something."""
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
    """how it follows the clause before: start, and, stop, then, after, before"""
    items: list[Item] = field(default_factory=list[Item])
    delay: Item | None = None
    """what comes before it: "after 3 seconds", "after 2 m" """
    is_purpose: bool = False
    """whether it is the purpose of the clause before"""

    @property
    def acts(self) -> bool:
        """Whether it has a verb of its own, not only one that keeps something."""
        return any(item.is_acting for item in self.items)

    @property
    def changes(self) -> bool:
        """Whether it changes how the clause before goes on: "run and slow down"."""
        return bool(self.items) and any(s.says.get("changes") for s in self.items[0].senses)

    @property
    def is_held(self) -> bool:
        """Whether it says how to be and nothing to do: "they stay up", "you don't fall"."""
        # "low" is a degree of jumps and a posture.
        posed = [i for i in self.items if any(sense.slot == "posture" for sense in i.senses)]
        slots = {item.slot for item in self.items if item not in posed}
        says_how = bool(posed) or "limit" in slots or {"verb", "direction"} <= slots
        return not self.acts and slots <= _HELD and says_how


@dataclass(slots=True)
class Outline:
    """Groups of clauses, each done together and one after the other."""

    items: list[Item]
    groups: list[list[Clause]]
    joints: set[int]
    """places of the words that join clauses"""
    others: list[tuple[int, ...]]
    """places of each alternative offered with "or" that is not meant"""
    idioms: set[int]
    """places of phrases that are not understood as a whole"""


def outline(tokens: Sequence[Token], spec: EnvSpec) -> Outline:
    """Return the clauses of a text in the order of doing."""
    scanner = _Scanner(tokens, spec)
    items = _bound(scanner, scanner.scan())
    reader = _Clauses(tokens)
    for item in items:
        reader.read(item)
    groups: list[list[Clause]] = []
    for clause in reader.finished():
        # A full stop between "run" and "keep upright" does not make the second come later.
        later = clause.join in ("then", "after") or (clause.join == "stop" and clause.acts)
        later = later or (clause.changes and any(c.acts for group in groups for c in group))
        if later or not groups:
            groups.append([clause])
        else:
            groups[-1].append(clause)
    return Outline(items, _in_order(groups), reader.joints, reader.others, scanner.idioms)


def _in_order(groups: list[list[Clause]]) -> list[list[Clause]]:
    for k in range(1, len(groups)):
        if groups[k][0].join == "after":
            groups[k - 1], groups[k] = groups[k], groups[k - 1]
    if groups and len(groups[0]) > 1 and groups[0][0].join in ("before", "after"):
        first, rest = groups[0][:1], groups[0][1:]
        groups[:1] = [rest, first] if first[0].join == "before" else [first, rest]
    return groups


# ------------------------------------------------------------------------------------------ items


class _Scanner:
    """Takes the longest item at each place of a text."""

    def __init__(self, tokens: Sequence[Token], spec: EnvSpec) -> None:
        self.tokens = tokens
        self.words = [token.word for token in tokens]
        self.items: list[Item] = []
        self.idioms: set[int] = set()
        self._parts = [find_part(tokens, place, spec) for place in range(len(tokens))]
        self._readings = [read_amount(tokens, place) for place in range(len(tokens))]
        self._readers: dict[str, Reader] = {
            "unknown": lambda _, place: ((place,), None) if self.is_unknown(place) else None,
            "manner": self._read_manner,
            "amount": number_reader(),
            "measure": number_reader("amount", "count", "duration_s", "period_s"),
            "bare": number_reader("bare"),
            "multiple": number_reader("count", "bare"),
            "length": number_reader("m"),
        }

    def scan(self) -> list[Item]:
        """Return the items in order."""
        place = 0
        while place < len(self.tokens):
            found = self._at(place)
            idle = lexicon().find(self.tokens, place, "idle")
            if idle is not None and (not found or idle.end > found[-1].end):
                place = idle.end  # "in one direction" is no number
            elif not found:
                place += 1
            else:
                if found[0].is_join("unread"):
                    self.idioms.update(found[0].at)
                else:
                    self.items += found
                place = found[-1].end
        return self.items

    def is_unknown(self, place: int) -> bool:
        """Return whether a word has no meaning and is not ignored either."""
        if not 0 <= place < len(self.tokens) or self.tokens[place].silent:
            return False
        known = self.words[place] in ignored_words() or self._parts[place] or self._readings[place]
        return not known and self._phrase(place, is_plain=True) is None

    def _read_manner(self, _: Sequence[Token], place: int) -> tuple[tuple[int, ...], None] | None:
        found = self._phrase(place, is_plain=True)
        return (found.at, None) if found is not None and found.slot in _MANNERS else None

    def _at(self, place: int) -> list[Item]:
        token = self.tokens[place]
        if token.silent:
            value = {",": "and", ".": "stop"}.get(token.word)
            return [Item("join", (place,), (Sense("join", value),))] if value else []
        item, reading, part = self._phrase(place), self._readings[place], self._parts[place]
        compared = reading is not None and reading.rule is not None  # "no faster than 2 m/s"
        if item is not None and item.is_join("negation") and not compared:
            limited = self._readings[item.at[-1]] if len(item.at) > 1 else None
            if limited is not None and limited.rule is not None:  # "but never faster than 2 m/s"
                return [Item("join", item.at[:-1], (Sense("join", "and"),))]
            return self._limits(item.at) or [item]  # alone it blocks its clause
        options = [
            [self._number(reading)] if reading else [],
            [self._length_or_part(part)] if part else [],
            [item] if item else [],
            self._negated_verb(place),
        ]
        return max(options, key=lambda option: option[-1].end if option else 0)

    def _phrase(self, place: int, is_plain: bool = False) -> Item | None:
        readers = None if is_plain else self._readers
        match = lexicon().find(self.tokens, place, *PHRASES, readers=readers)
        if match is None:
            return None
        sense, before = match.senses[0], self.words[max(place - 2, 0) : place]
        if sense.says.get("noun") and determiners() & {*before} and before[-1] != "way":
            return None  # "a straight back"
        limit = LimitKind(sense.value) if sense.slot == "limit" else None
        slot = "until_end" if sense.value == "until_end" else sense.slot
        amount = _at_most(match.read[0].amount) if limit and match.read else None
        return Item(slot, match.at, match.senses, limit=limit, amount=amount)

    def _number(self, reading: Reading) -> Item:
        """Return a number: "three legs" is no count of hops, "20 feet" gone are a length."""
        part = self._parts[reading.end] if reading.end < len(self._parts) else None
        if reading.bare is None or part is None:
            return Item("number", reading.at, reading=reading)
        is_foot = self.words[reading.end] in ("feet", "foot") and len(part.at) == 1
        before = self.items[-1].sense() if self.items else None
        goes = before is not None and (before.value in _TRAVELS or before.slot == "direction")
        if not goes or not is_foot or self.words[reading.at[0]] == "from":
            return Item("number", reading.at, reading=Reading(reading.at))
        return _in_feet((*reading.at, *part.at), reading.bare, reading)

    def _length_or_part(self, part: BodyPart) -> Item:
        """Return a part, or "jump a foot high" as a length."""
        before, after = self.words[part.at[0] - 1 : part.end], part.end
        goes = bool(self.items) and self.items[-1].slot == "verb" and self.items[-1].act in _TRAVELS
        if goes and before == ["a", "foot"] and self._read_manner(self.tokens, after):
            return _in_feet(part.at, 1.0, Reading(part.at))
        return Item("part", part.at, part=part)

    def _negated_verb(self, place: int) -> list[Item]:
        """Read "don't move the cart", where "don't move" is a phrase too, and "from falling"."""
        if self.words[place] in ("don't", "dont", "from"):
            return self._limits((place,))
        is_negation = self.words[place : place + 2] == ["do", "not"]
        return self._limits((place, place + 1)) if is_negation else []

    def _limits(self, at: tuple[int, ...]) -> list[Item]:
        """Read the forbidden things after a negation: "without falling, jumping or turning"."""
        items: list[Item] = []
        while at:
            place = at[-1] + 1
            while (match := lexicon().find(self.tokens, place, "forbidden")) is None:
                # "letting the pole": a part passed belongs to the limit
                part = self._parts[place] if place < len(self._parts) else None
                if part is not None:
                    at, place = (*at, *part.at), part.end
                elif place < len(self.words) and self.words[place] in ignored_words():
                    place += 1
                else:
                    return items
            kind = LimitKind(match.senses[0].value)
            limit = self._with_object(Item("limit", (*at, *match.at), match.senses, limit=kind))
            if limit is None:
                return items
            items.append(replace(limit, senses=()))
            at = self._list_joint(match.at[0], limit.end)
        return items

    def _list_joint(self, first: int, place: int) -> tuple[int, ...]:
        """Return the words that continue a list of forbidden things.

        After a comma or "and" only the same form does; "don't fall, jump" asks for a jump.
        """
        words = self.words[place : place + 3]
        length = 1 + (words[:1] == [","] and words[1:2] in (["or"], ["and"], ["nor"]))
        if len(words) <= length or words[0] not in (",", "and", "or", "nor"):
            return ()
        same = words[length].endswith("ing") and self.words[first].endswith("ing")
        is_list = words[length - 1] in ("or", "nor") or same
        return tuple(range(place, place + length)) if is_list else ()

    def _with_object(self, limit: Item) -> Item | None:
        """Add the part ("moving the cart") and the number ("more than 1 m") that follow a limit."""
        place = limit.end
        while self.words[place : place + 1] and self.words[place] in ("the", "its", "your"):
            place += 1
        part = self._parts[place] if place < len(self._parts) else None
        if limit.limit is LimitKind.NO_TOUCH:
            return replace(limit, at=(*limit.at, *part.at), part=part) if part else None
        if part is not None:
            # One limb held still is not the robot held in place.
            is_drift = limit.limit is LimitKind.NO_DRIFT
            if part.name not in (_WHOLE if is_drift else _JUDGED_PARTS):
                return None
            limit = replace(limit, at=(*limit.at, *part.at))
        reading = self._readings[limit.end] if limit.end < len(self._readings) else None
        if reading is None or reading.amount is None:
            return limit
        if limit.senses[0].says.get("unit") != reading.amount.unit:
            return None  # so much of it is allowed, and how much it is is not judged
        return replace(limit, at=(*limit.at, *reading.at), amount=_at_most(reading.amount))


def _at_most(amount: Amount) -> Amount:
    """Return how much a limit allows: "without moving more than 1 m"."""
    return amount.model_copy(update={"rule": "at_most"})


def _in_feet(at: tuple[int, ...], feet: float, reading: Reading) -> Item:
    rule = reading.rule or "about"
    amount = Amount(value=round(FOOT_M * feet, 9), unit="m", rule=rule)
    return Item("number", at, reading=Reading(at, amount, rule=reading.rule))


# ------------------------------------------------------------------- what is said of what is known


def _bound(scanner: _Scanner, items: list[Item]) -> list[Item]:
    """Return the items that say something of what is asked for."""
    items = [
        item for k, item in enumerate(items) if not _has_object(scanner, item, items[k + 1 : k + 2])
    ]
    items = _compared(scanner.words, _of_known_deeds(scanner, items))
    return [_with_first_as(scanner.words, item) for item in items]


def _has_object(scanner: _Scanner, verb: Item, after: Sequence[Item]) -> bool:
    """Return whether something else is moved: "turn your head", "pick up a box"."""
    if verb.slot != "verb":
        return False
    place = verb.end
    while place < len(scanner.words) and scanner.words[place] in determiners():
        place += 1
    if place == verb.end:
        return False
    part = after[0].part if after and after[0].at[0] == place else None
    if part is None:
        return verb.act is Act.LIFT and scanner.is_unknown(place)
    is_whole = part.name in (*_WHOLE, "target") or verb.says("weak")
    return verb.act in _OF_WHOLE and not is_whole


def _of_known_deeds(scanner: _Scanner, items: Sequence[Item]) -> list[Item]:
    """Return the items without those that say how something unknown is done.

    "walk looking to the left" does not go left, and "look up and walk" does not go up: such a word
    stands where a clause begins, or has the form of a verb beside another.
    """
    kept: list[Item] = []
    begins, is_unknown, last = True, False, 0
    for item in items:
        for place in range(last, item.at[0]):
            word = scanner.words[place]
            if not scanner.tokens[place].silent and word not in ignored_words():
                is_participle = len(word) > _SHORT and word.endswith("ing") and word != "during"
                is_unknown = (begins and not word.endswith("ly")) or is_participle
                begins = False
        if item.slot == "join":  # "glancing left and right" is one deed
            is_unknown = is_unknown and scanner.words[item.at[0]] == "and"
        elif item.slot in ("verb", "limit", "number"):
            is_unknown = False
        if not (is_unknown and item.slot in _MANNERS):
            kept.append(item)
        begins, last = item.slot == "join", item.end
    return kept


def _compared(words: Sequence[str], items: list[Item]) -> list[Item]:
    """Return the items with "as high as your leg" as a comparison, which is left unread.

    "as high as possible" and "as well as" are phrases of their own.
    """
    own = {place for item in items if len(item.at) > 1 for place in item.at}
    counts = {item.end: item.at for item in items if item.reading and item.reading.count}
    for place, word in enumerate(words):
        second = place + 2
        if word != "as" or {place, second} & own:
            continue
        is_pair = words[second : second + 1] == ["as"]
        if is_pair or place in counts:  # "three times as high"
            at = (*counts.get(place, ()), *range(place, second + is_pair))
            kept = [item for item in items if not {*item.at} & {*at}]
            comparison = Item("join", at, (Sense("join", "aside"),))
            return sorted((*kept, comparison), key=lambda item: item.at)
    return items


def _with_first_as(words: Sequence[str], item: Item) -> Item:
    """Let "as possible" own the first "as" of "as high as possible" too."""
    sense, start = item.sense(), item.at[0]
    if sense is None or sense.value != "most" or words[start] != "as":
        return item
    before = range(start - 1, max(start - 1 - _LOOK_BACK, -1), -1)
    first = next((place for place in before if words[place] == "as"), None)
    return item if first is None else replace(item, at=(first, *item.at))


# ---------------------------------------------------------------------------------------- clauses


class _Clauses:
    """Clauses so far, and whether what comes now is something to do."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.joints: set[int] = set()
        self.others: list[tuple[int, ...]] = []
        self._words = [token.word for token in tokens]
        self._clauses = [Clause("start")]
        self._blocked: str | None = None
        """why what follows is not read: negation, aside or or"""
        self._negated: Item | None = None
        """the last thing that is not to be done"""
        self._shares = False
        """whether "or" stands between two verbs, so that what follows is said of both"""
        self._delays = False
        """whether "after" was the last word"""
        self._trails = False
        """whether it stands right behind what it could belong to: "walk after 2 seconds" """

    @property
    def _is_empty(self) -> bool:
        return not any(clause.items for clause in self._clauses)

    def read(self, item: Item) -> None:
        """Take the next item."""
        if item.slot == "join":
            self._join(item)
        elif self._blocked == "or" and not self._is_shared(item):
            self.others[-1] += item.at
        elif self._blocked not in (None, "or"):
            self._negated = item
        elif self._delays and _is_delay(item):
            # "after 3 seconds" comes before what is said next
            last = self._clauses[-1]
            last.join = "then" if len(self._clauses) > 1 else "start"
            last.delay = item
        else:
            if not item.is_acting:
                self._give_back()
            is_limit = item.limit is not None and not item.senses
            is_negated = is_limit or self._words[item.at[0]] in _NEGATIONS
            self._negated = item if is_negated else None
            self._clauses[-1].items.append(item)
        self._delays = item.slot == "join" and item.is_join("after")

    def finished(self) -> list[Clause]:
        """Return the clauses that are not empty."""
        self._leave_unread()
        self._trails = True
        self._give_back()
        return [clause for clause in self._clauses if clause.items]

    def _leave_unread(self) -> None:
        """Leave a purpose unread that is more than a way to be: "so that you win and jump"."""
        last = self._clauses[-1]
        if last.is_purpose and not last.is_held:
            last.items.clear()
            last.is_purpose = False
            self._blocked = "aside"

    def _join(self, item: Item) -> None:
        self._leave_unread()
        if item.is_join("negation", "aside"):
            self._blocked = "aside" if item.is_join("aside") else "negation"
            self._negated = None
        elif self._continues(item):
            self._blocked = self._blocked or "negation"
        elif item.is_join("or"):
            if not self._is_empty:
                self._blocked, self._shares = "or", False
                self.others.append(item.at)
                self.joints.update(item.at)
        else:
            self._blocked = None
            self.joints.update(item.at)
            join = item.senses[0].value
            if item.is_join("before"):
                join = "before" if self._is_empty else "then"
            self._start("and" if join == "purpose" else join)
            self._clauses[-1].is_purpose = join == "purpose"

    def _is_shared(self, item: Item) -> bool:
        """Return whether it is said of all that is offered: "walk or run to the left"."""
        last, joint = self._clauses[-1].items[-1:], self.others[-1]
        if item.is_acting and last and last[0].is_acting and last[0].end == joint[0]:
            self._shares = {item.act, last[0].act} <= _TRAVELS
        return self._shares and item.slot in _SHARED

    def _continues(self, item: Item) -> bool:
        """Return whether a joining word continues what is not to be done.

        "without falling or stopping", "don't run or jump", "if you fall and roll". Of a negation,
        "and" does so before another word in the same form: "without running and jumping".
        """
        if self._blocked is None and self._negated is None:
            return False
        word = self._words[item.at[0]]
        if item.is_join("or") or word in (",", ".") or not item.is_join("and"):
            return item.is_join("or") and self._blocked != "or"
        if self._blocked == "aside":
            return word != "but"
        forms = [self._words[place] for place in self._negated.at] if self._negated else []
        following = self._words[item.end] if item.end < len(self._words) else ""
        is_form = following.endswith("ing") and any(form.endswith("ing") for form in forms)
        return self._blocked != "or" and is_form

    def _start(self, join: str) -> None:
        """Open a clause, or keep the stronger of two joining words in a row (", and then")."""
        self._give_back()
        last = self._clauses[-1]
        if join == "after":
            self._trails = bool(last.items)
        if last.items:
            self._clauses.append(Clause(join))
        elif _STRENGTH[join] > _STRENGTH[last.join] and last.delay is None:
            last.join = join

    def _give_back(self) -> None:
        """Give a delay that nothing follows to the clause before: "walk after 2 seconds"."""
        last = self._clauses[-1]
        if last.delay is not None and not last.items and self._trails and len(self._clauses) > 1:
            self._clauses.pop()
            self._clauses[-1].delay = last.delay


def _is_delay(item: Item) -> bool:
    """Return whether it is a time, a way or a turn: "after 3 seconds", but not "after 3 jumps"."""
    reading = item.reading
    if reading is None or reading.period_s is not None:
        return False
    return reading.duration_s is not None or reading.amount is not None
