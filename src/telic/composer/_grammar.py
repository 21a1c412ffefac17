"""Parse the tokens of an intent into items, and items into clauses.

At each position, the longest item is matched: a phrase of the tables, a number, a body part or a
prohibition. Attributes of unknown objects ("a bar 50 cm high") are reported as not understood.
Clauses are in order of execution: "stand after jumping" means jump, then stand. Text after a
negation, condition, alternative or comparison is not parsed.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import NamedTuple

from telic.composer._amounts import Reading, number_readers, read_amount, read_point
from telic.composer._parts import BodyPart, bodies_of, find_joints, find_part, read_held
from telic.composer.frames import Act, Amount, Held, LimitKind
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
from telic.envs.spec import EnvSpec

# Parts whose motion is that of the whole robot: "without moving the cart".
_WHOLE = {"torso", "cart", "base"}
# Parts that a limit may refer to: not "bending the knees", which is not judged.
_JUDGED_PARTS = {*_WHOLE, "pole", "poles", "tip"}
_TRAVELS = {"go", "hop", "jump"}
_MANNERS = {"direction", "posture", "degree", "style", "part"}
_STRENGTH = {"start": 0, "and": 1, "stop": 2, "while": 3}
_STRENGTH |= {"then": 4, "after": 4, "before": 4, "first": 4}
_CLOSED = ("negation", "aside")
_IF = ("if", "when", "whenever", "unless")  # what follows is not done: "but if you fall, stop"
_NEGATIONS = ("without", "never", "don't", "dont")
_NOUNS = ("at", "with", "of", "in", "a", "the", "its", "your")
_JOINED = (",", ".", "and", "then", "to")
_ENDS = ("", ",", ".", "and", "then", "but")
_PRONOUNS = ("left one", "right one", "other one", "same one")
_MEASURED = {"m": {"height", "distance"}, "m/s": {"speed"}}
"""dimensions that a word after a number may specify, as in "1 m high" """
_ALWAYS = r"(?!.*\b(then|after|next)\b)(\. keep|.*\b(never|must|always|throughout|all times))\b"
_GRADED = {"low", "high"}
"""gradable postures, as in "as low as possible" """


@dataclass(frozen=True, slots=True)
class Item:
    """Meaningful part of the text. `slot` names the field that the item fills."""

    slot: str
    at: tuple[int, ...]
    senses: tuple[Sense, ...] = ()
    reading: Reading | None = None
    part: BodyPart | None = None
    limit: LimitKind | None = None
    amount: Amount | None = None
    held: tuple[Held, ...] = ()
    point: tuple[float, float | None] | None = None

    @property
    def end(self) -> int:
        """Index of the token after the last word."""
        return self.at[-1] + 1

    @property
    def act(self) -> Act | None:
        """Action of a verb."""
        return self.senses[0].value if self.slot == "verb" else None

    @property
    def is_acting(self) -> bool:
        """True for action verbs, but not for verbs such as "keep"."""
        return self.slot == "verb" and not self.says("holder")

    @property
    def unit(self) -> str | None:
        """Unit of a number, "hz" for a repetition."""
        if self.reading is not None and self.reading.period_s is not None:
            return "hz"
        return self.reading.amount.unit if self.reading and self.reading.amount else None

    def sense(self, verb: str | None = None) -> Sense | None:
        """Return the meaning in combination with a verb, preferably one specific to that verb."""
        suited = [sense for sense in self.senses if sense.suits(verb)]
        return max(suited, key=lambda each: "verbs" in each.says, default=None)

    def says(self, key: str) -> bool:
        """Return whether a verb has a property."""
        return bool(self.senses[0].says.get(key))

    def is_join(self, *values: str) -> bool:
        """Return whether the item is one of the given conjunctions."""
        return any(sense.slot == "join" and sense.value in values for sense in self.senses)


@dataclass(slots=True)
class Clause:
    """Items between two conjunctions."""

    join: str
    """relation to the previous clause: start, and, while, stop, then, after, before or first"""
    is_opening: bool = False
    """whether the clause starts a sentence"""
    items: list[Item] = field(default_factory=list[Item])
    delay: Item | None = None
    """delay before the clause, as in "after 3 seconds" or "after 2 m" """

    @property
    def acts(self) -> bool:
        """True if the clause has an action verb, not only a verb such as "keep"."""
        return any(item.is_acting for item in self.items)


class Outline(NamedTuple):
    """Sequential groups of simultaneous clauses."""

    items: list[Item]
    groups: list[list[Clause]]
    joints: set[int]
    """positions of conjunctions"""
    idioms: set[int]
    """positions of phrases that are not understood as a whole"""


def outline(tokens: Sequence[Token], spec: EnvSpec) -> Outline:
    """Return the clauses of a text in order of execution.

    "A, then B", "B after A", "after A, B", "before B, A" and "B, but first A" are equivalent.
    """
    scanner = _Scanner(tokens, spec)
    items = scanner.scan()
    clauses, joints = _clauses(items, [token.word for token in tokens])
    groups: list[list[Clause]] = []
    now, opened = 0, ""
    clauses = [each for each in clauses if each.items]
    for place, clause in enumerate(clauses):
        first = clause.items[0].at[0]
        later = next((each.join for each in clauses[place + 1 :] if each.join != "and"), "")
        is_step = later == "then" and tokens[first - 1].word == "," and clause.join == "and"
        if is_step and clause.items[0].is_acting and not tokens[first].word.endswith("ing"):
            clause.join = "then"  # "creep, freeze for 2 s, then jump"
        # A full stop between "run" and "keep upright" does not start a new phase.
        is_stop = clause.join == "stop" and clause.acts
        later = is_stop or clause.join in ("then", "after", "before")
        if opened == "while" and clause.join == "and":
            clause.join = "while"  # "while you hop, turn"
        if any(sense.says.get("changes") for sense in clause.items[0].senses):
            later = later or any(each.acts for group in groups for each in group)
        if clause.join == "first" and groups:
            now = 0
        elif clause.join == "after" and groups and not clause.is_opening:
            pass  # right before the last group
        elif opened in ("before", "after"):  # the main clause of "before B, A" and "after A, B"
            now += opened == "after"
        elif later or not groups:
            now = len(groups)
        else:
            groups[now].append(clause)
            opened = clause.join if clause.is_opening else ""
            continue
        groups.insert(now, [clause])
        opened = clause.join if clause.is_opening else ""
    return Outline(items, groups, joints, scanner.idioms)


def _clauses(items: Sequence[Item], words: Sequence[str]) -> tuple[list[Clause], set[int]]:
    """Split items at conjunctions into clauses and return the positions of the conjunctions.

    Text after a negation, condition, comparison or alternative is not parsed.
    """
    clauses, joints = [Clause("start", is_opening=True)], set[int]()
    unread: str | None = None
    negated: Item | None = None
    """last negated item"""
    for place, item in enumerate(items):
        last, after = clauses[-1], items[place + 1] if place + 1 < len(items) else None
        if item.slot == "delay":  # belongs to the next or the previous clause
            unread = None
            if last.items and after is not None and after.is_acting:
                clauses.append(Clause("then"))
            clauses[-1].delay = item
        elif item.slot != "join" and unread:
            negated = item
        elif item.slot != "join":
            is_limit = item.limit is not None and not item.senses
            is_denied = words[item.at[0]] in _NEGATIONS
            negated = item if is_limit or is_denied else None
            parts = [each.part.name for each in last.items if each.part]
            is_own = 0 < len(last.items) == len(parts) and not (item.limit and _WHOLE & {*parts})
            if is_denied and is_own and (item.act or item.limit == "no_drift"):
                last.items, unread = [], "negation"  # "the legs don't move"
            else:
                last.items.append(item)
        else:
            rest = [*takewhile(lambda each: each.slot != "join", items[place + 1 :])]
            join = _join_meant(item, words, rest, last)
            join = "aside" if unread == "condition" and words[item.at[0]] == "," else join
            if join == "while" and last.items and not rest:  # "jump and wave at the same time"
                for each in takewhile(lambda each: each.join == "and", reversed(clauses)):
                    each.join = "while"
            # "without running and jumping": "and" continues the negation
            is_and = item.is_join("and") and words[item.at[0]] not in (",", ".", "but")
            is_ing = item.end < len(words) and words[item.end].endswith("ing")
            forms = [words[k] for k in negated.at] if negated else []
            is_list = is_ing and any(form.endswith("ing") for form in forms)
            if join in ("negation", "aside", "or"):  # the first alternative is used
                is_if = words[item.at[0]] in _IF and not last.items and len(clauses) > 1
                if join == "negation" and all(each.part for each in last.items):
                    last.items.clear()  # "the legs shouldn't move"
                unread, negated = "condition" if is_if else join, None
            elif join != "manner" and not (
                is_and and (unread == "aside" or ((unread or negated) and is_list))
            ):
                unread = None
                joints.update(item.at)
                after_join = words[item.end] if item.end < len(words) else ""
                _open_clause(clauses, item, join, after_join)
    return clauses, joints


def _open_clause(clauses: list[Clause], item: Item, join: str, after: str) -> None:
    """Begin a clause after a conjunction, which the word `after` follows."""
    last = clauses[-1]
    if item.is_join("before"):
        join = "then" if last.items or not last.is_opening else "before"
    if join == "first" and last.items and after in _ENDS:
        last.join = join  # "turn around, but walk 2 m first"
    elif last.items:
        clauses.append(Clause(join, is_opening=join == "stop"))
    elif last.delay is None:
        last.is_opening = last.is_opening or join == "stop"
        if _STRENGTH[join] > _STRENGTH[last.join]:
            last.join = join  # the stronger of two in a row (", and then")


def _join_meant(item: Item, words: Sequence[str], rest: Sequence[Item], last: Clause) -> str:
    """Return the type of a conjunction, e.g. a manner in "hop forward with small jumps"."""
    join, word = item.senses[0].value, words[item.at[0]]
    if join == "purpose":  # kept if it is a manner or a prohibition
        kept = any(each.limit or each.held or each.slot == "verb" for each in rest)
        return "and" if kept and not any(each.is_acting for each in rest) else "aside"
    if join == "after" and rest and rest[0].is_acting and (last.items or not last.is_opening):
        # "run, and after stop", but "stop after running" and "stop after a run"
        is_adverb = rest[0].at[0] == item.end and not words[item.end].endswith("ing")
        return "then" if is_adverb else join
    given = [each.act for each in rest if each.slot not in ("degree", "number")]
    is_jump = len(given) == 1 < len(rest) and given[0] in ("jump", "hop")
    is_how = is_jump and any(each.act in ("jump", "hop") for each in last.items)
    return "manner" if word == "with" and is_how else join


def side_clauses(tokens: Sequence[Token]) -> list[frozenset[int]]:
    """Return the positions of each clause or phrase after the first that can be omitted.

    An amount belongs to the phrase before it, and words after a negation or a condition to that.
    """
    details = word_table("requests")["details"]
    starts, opened, is_closed = list[tuple[int, int]](), 0, False
    for place, token in enumerate(tokens):
        join = lexicon().find(tokens, place, "join")
        value = join.senses[0].value if join is not None else ""
        is_mark = token.silent and token.word in (",", ".")
        is_doing = token.word.endswith("ing") and tokens[place - 1].word not in determiners()
        is_detail = is_doing or token.word in details["words"] or value in _CLOSED
        if not (is_mark or is_detail or value in _STRENGTH):
            continue
        is_amount = any(read_amount(tokens, k) for k in (place, place + 1)) and not is_doing
        is_part = is_closed or (is_amount and token.word not in details["tolerances"])
        is_closed = value in _CLOSED or (is_closed and not is_mark)
        if is_part and not is_mark and value != "then":
            continue
        after = place if is_detail else join.end if join else place + 1
        if place > opened:
            starts.append((place, after))
        elif starts:  # ", and with"
            starts[-1] = (starts[-1][0], max(starts[-1][1], after))
        opened = join.end if join else place + 1
    ends = [*(start for start, _ in starts[1:]), len(tokens)]
    pieces = [range(after, end) for (_, after), end in zip(starts, ends, strict=False)]
    return [frozenset(each) for each in pieces if not all(tokens[k].silent for k in each)]


# ------------------------------------------------------------------------------------------ items


class _Scanner:
    """Scanner that matches the longest item at each position."""

    def __init__(self, tokens: Sequence[Token], spec: EnvSpec) -> None:
        self.idioms: set[int] = set()
        self._tokens, self._spec = tokens, spec
        self._words = [token.word for token in tokens]
        self._items: list[Item] = []
        places = range(len(tokens))
        self._parts = {k: part for k in places if (part := find_part(tokens, k, spec))}
        # "the right one" has no number.
        pronouns = {k for k in places if " ".join(self._words[k - 1 : k + 1]) in _PRONOUNS}
        readings = {k: read_amount(tokens, k) for k in places if k not in pronouns}
        self._readings = {k: reading for k, reading in readings.items() if reading}
        limbs = {form for limb in word_table("parts")["limbs"] for form in (limb, f"{limb}s")}
        self._readers: dict[str, PhraseReader] = {
            "unknown": lambda _, place: ((place,), None) if self._is_unknown(place) else None,
            "manner": self._read_manner,
            "limb": self._part_reader(lambda part: bool(limbs & {*part.name.split()})),
            "body": self._part_reader(lambda part: bool(part.bodies) or part.name == "head"),
            "joint": lambda _, place: find_joints(tokens, place, spec),
            "point": read_point,
            **number_readers(),
        }

    def scan(self) -> list[Item]:
        """Return the items that are relevant to the request, in order."""
        place = 0
        while place < len(self._tokens):
            found = self._at(place)
            idle = lexicon().find(self._tokens, place, "idle")
            if idle is not None and (not found or idle.end > found[-1].end):
                place = idle.end  # "in one direction" has no number
                continue
            if not found:
                place += 1
                continue
            first, place = found[0], found[-1].end
            read = first.reading
            is_delay = read and read.period_s is None and (read.duration_s or read.amount)
            if first.is_join("unread"):
                self.idioms.update(first.at)
            elif is_delay and self._items and self._items[-1].is_join("after"):
                joint = self._items.pop()  # "after 3 seconds", but not "after 3 jumps"
                self._items.append(replace(first, slot="delay", at=joint.at + first.at))
            else:
                self._items += found
        self._items = [self._limb_of(k) for k in range(len(self._items))]
        pairs = zip(self._items, [*self._items, None][1:], strict=False)
        return self._known_deeds([it for it, after in pairs if not self._has_object(it, after)])

    def _limb_of(self, index: int) -> Item:
        """Return an item. "left" in "kick with the left" becomes the limb on that side."""
        item = self._items[index]
        side = self._words[item.at[0]] if len(item.at) == 1 else ""
        before = [word for word in self._words[: item.at[0]] if word not in determiners()]
        is_limb = item.slot == "direction" and before[-1:] in (["with"], ["using"], ["on"])
        verbs = [each.senses[0].value for each in self._items[:index] if each.is_acting]
        usual = None if before[-1:] == ["on"] else "foot"  # "step with the left" goes not left
        noun = word_table("acts")[verbs[-1]].get("side", usual) if verbs else None
        if noun is None or side not in ("left", "right") or not is_limb:
            return item
        bodies = bodies_of(frozenset((side, noun)), noun, self._spec)
        return Item("part", item.at, part=BodyPart(item.at, f"{side} {noun}", bodies))

    def _known_deeds(self, items: Sequence[Item]) -> list[Item]:
        """Ignore modifiers of unknown actions, and split "walk hands up" into two clauses.

        "walk looking to the left" does not mean to go left, nor "look up and walk" to go up. An
        unknown action begins a clause, or ends in "-ing".
        """
        kept: list[Item] = []
        begins, holds, is_unknown, acts, last = True, False, False, False, 0
        for item in items:
            for place in range(last, item.at[0]):
                word = self._words[place]
                if not self._tokens[place].silent and word not in (*ignored_words(), "again"):
                    is_participle = bool(re.fullmatch(r"(?!during)\w{2,}ing", word))
                    is_own = (begins or holds) and not word.endswith("ly")  # "keep pitch low"
                    is_unknown = is_own or is_participle
                    begins = False
            if item.slot == "join":  # "glancing left and right" is one deed
                is_unknown = is_unknown and self._words[item.at[0]] == "and"
            is_angle = item.unit in ("rad", "turns")  # "turn the head by 60 degrees"
            is_way = item.unit == "m" and not acts  # "the center of gravity at 0.9 m"
            is_other = is_angle or is_way
            if item.slot in ("verb", "limit") or (item.slot == "number" and not is_other):
                is_unknown = False
            if not (is_unknown and (item.slot in _MANNERS or is_other)):
                kept.append(item)
            begins, last = item.slot == "join", item.end
            acts = not begins and (acts or item.is_acting)
            is_verb = item.slot == "verb"
            holds = item.says("holder") if is_verb else holds and not begins
        for k in range(len(kept) - 2, 0, -1):  # "walk hands up" is "walk with hands up"
            verb, part, where = kept[k - 1 : k + 2]
            is_up = part.end == where.at[0] and {"up", "down"} & {s.value for s in where.senses}
            is_own = "limb" in word_table("acts").get(verb.act or "", ())
            is_own = is_own or (verb.is_acting and verb.says("weak"))
            if part.part and is_up and verb.is_acting and not is_own:
                kept.insert(k, Item("join", part.at[:1], (Sense("join", "and"),)))
        return kept

    def _is_unknown(self, place: int) -> bool:
        """Return whether a word is unknown and not one of the ignored words."""
        if not 0 <= place < len(self._tokens) or self._tokens[place].silent:
            return False
        known = self._words[place] in ignored_words() or place in {*self._parts, *self._readings}
        return not known and self._phrase(place, is_plain=True) is None

    def _part_reader(self, suits: Callable[[BodyPart], bool]) -> PhraseReader:
        """Return a reader for body parts with a property."""
        parts = self._parts.items()
        suited = {place: (part.at, part) for place, part in parts if suits(part)}
        return lambda _, place: suited.get(place)

    def _read_manner(self, _: Sequence[Token], place: int) -> tuple[tuple[int, ...], None] | None:
        found = self._phrase(place, is_plain=True)
        return (found.at, None) if found is not None and found.slot in _MANNERS else None

    def _at(self, place: int) -> list[Item]:
        token, reading = self._tokens[place], self._readings.get(place)
        if point := self._point(place):
            return [point]
        if token.silent:
            value = {",": "and", ".": "stop"}.get(token.word)
            return [Item("join", (place,), (Sense("join", value),))] if value else []
        item = self._phrase(place)
        compared = reading is not None and reading.rule is not None  # "no faster than 2 m/s"
        if (held := self._held(place)) and (item is None or held[0].end > item.end):
            return held
        if item is not None and item.is_join("negation") and not compared:
            limited = self._readings.get(item.at[-1]) if len(item.at) > 1 else None
            is_held = len(item.at) > 1 and self._held(item.at[-1])
            if is_held or (limited and limited.rule):  # "but never faster than 2 m/s"
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
        if item is not None and item.is_join("aside"):
            options.insert(0, [item])  # "each step" does not count steps
        return max(options, key=lambda option: option[-1].end if option else 0)

    def _phrase(self, place: int, is_plain: bool = False) -> Item | None:
        readers = None if is_plain else self._readers
        match = lexicon().find(self._tokens, place, *PHRASES, readers=readers)
        if match is None:
            return None
        senses, before = match.senses, self._words[max(place - 2, 0) : place]
        if senses[0].says.get("noun") and senses[0].slot == "verb":
            first = place  # "at a normal human pace": back over adjectives to the article
            while first and not ({*self._words[first - 1 : first]} & {*_JOINED, *_NOUNS}):
                if lexicon().find(self._tokens, first - 1, "verb") is not None:
                    break
                first -= 1
            is_noun = first > 0 and self._words[first - 1] in {*determiners(), *_NOUNS}
            senses = senses[1:] if is_noun else senses
            if not senses:
                return None
        elif senses[0].says.get("noun") and determiners() & {*before} and before[-1] != "way":
            return None  # "a straight back"
        elif senses[0].says.get("noun") and before[-1:] in ([","], ["with"], ["and"]):
            after = lexicon().find(self._tokens, match.end, "posture")
            if after and self._words[after.end :][:1] != ["to"]:
                return None  # "with back straight"
        is_participle = senses[0].slot == "verb" and self._words[place].endswith("ing")
        if is_participle and {*before[-1:]} & determiners() and self._is_unknown(match.end):
            return None  # "the charging station"
        limit = senses[0].value if senses[0].slot == "limit" else None
        slot = "until_end" if senses[0].value == "until_end" else senses[0].slot
        given = [each for each in match.read if isinstance(each, Reading) and each.amount]
        most = given[0].amount if limit and given else None
        amount = most and replace(most, rule="at_most")
        reading = given[0] if given and slot == "verb" else None
        parts = [each for each in match.read if isinstance(each, BodyPart)]
        part = parts[0] if parts else None
        return Item(slot, match.at, senses, reading, part, limit, amount)

    def _number(self, reading: Reading, phrase: Item | None) -> list[Item]:
        """Parse a number. "three legs" is not a count, and "20 feet" is a length."""
        end, part = reading.end, self._parts.get(reading.end)
        item = Item("number", reading.at, reading=reading)
        if reading.bare is not None and reading.at[-1] in self._parts:
            return []  # "the two front legs"
        if reading.bare is not None and part is not None:
            is_foot = self._words[end] in ("feet", "foot") and len(part.at) == 1
            before = self._items[-1].sense() if self._items else None
            goes = before is not None and (before.value in _TRAVELS or before.slot == "direction")
            if not goes or not is_foot or self._words[reading.at[0]] == "from":
                return [replace(item, reading=Reading(reading.at))]
            length, at = round(0.3048 * reading.bare, 9), (*reading.at, *part.at)
            feet = Amount(value=length, unit="m", rule=reading.rule or "about")
            item = Item("number", at, reading=Reading(at, feet, rule=reading.rule))
        if phrase is not None and phrase.end > end:
            return [item]
        after = self._phrase(item.end)  # dimension of the number: "1 m high"
        senses = after.senses if after is not None else ()
        about = [str(sense.says.get("dimension")) for sense in senses if sense.slot == "degree"]
        about = [each for each in about if each in _MEASURED.get(item.unit or "", ())]
        if after is None or not about:
            return [item]
        return [replace(item, at=item.at + after.at, senses=(Sense("dimension", about[0]),))]

    def _equative(self, place: int) -> list[Item]:
        """Parse "as high as possible". Comparisons such as "as high as your leg" are not parsed."""
        inner = self._phrase(place + 1) if self._words[place] == "as" else None
        if inner is None or inner.slot == "join" or self._words[inner.end :][:1] != ["as"]:
            return []
        most = lexicon().find(self._tokens, inner.end, "degree")
        if most is None or most.senses[0].value != "most":
            return [Item("join", (place, *inner.at, inner.end), (Sense("join", "aside"),))]
        values = {sense.value for sense in inner.senses}
        if inner.slot in ("style", "limit") or (inner.slot == "posture" and not values & _GRADED):
            return [replace(inner, at=(place, *inner.at, *most.at))]
        return [inner, Item("degree", (place, *most.at), most.senses)]

    def _held(self, place: int) -> list[Item]:
        if not (found := read_held(self._tokens, place, self._spec, self._readers)):
            return []
        ends = [k for k, word in enumerate(self._words) if word in (",", ".")]
        begin = max((k for k in ends if k < place), default=-1)
        end = min((k for k in ends if k > place), default=None)
        is_on = re.match(_ALWAYS, " ".join(self._words[max(begin, 0) : end])) is not None
        held = (replace(each, is_always=is_on and not each.is_peak) for each in found[1])
        return [Item("held", found[0], held=(*held,))]

    def _point(self, place: int) -> Item | None:
        """Parse a destination, such as "the point (2, 1)" or "a point 2 m ahead and 1 m left"."""
        match = lexicon().find(self._tokens, place, "point", readers=self._readers)
        if match is None:
            return None
        signs = match.senses[0].says.get("signs")
        point = match.read[0]
        if signs:
            point = tuple(k * each.amount.value for k, each in zip(signs, match.read, strict=True))
        return Item("point", match.at, point=point)

    def _limits(self, at: tuple[int, ...]) -> list[Item]:
        """Parse prohibitions after a negation, such as "without falling, jumping or turning"."""
        items: list[Item] = []
        while at:
            place = at[-1] + 1
            while (match := lexicon().find(self._tokens, place, "forbidden")) is None:
                # "letting the pole": a named part belongs to the limit
                if part := self._parts.get(place):
                    at, place = (*at, *part.at), part.end
                elif place < len(self._words) and self._words[place] in ignored_words():
                    place += 1
                else:
                    return items
            limit = Item("limit", (*at, *match.at), limit=match.senses[0].value)
            limit = self._with_object(limit, match.senses[0].says.get("unit"))
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
        """Add the body part ("moving the cart") and the number ("more than 1 m") after a limit."""
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
            return None  # a limited amount is allowed, and the amount is not judged
        limit = replace(limit, amount=replace(reading.amount, rule="at_most"))
        return replace(limit, at=(*limit.at, *reading.at))

    def _has_object(self, verb: Item, after: Item | None) -> bool:
        """Return whether the verb has an object, as in "turn your head" or "pick up a box"."""
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
