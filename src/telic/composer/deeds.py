"""Decide which verb each clause is about, also where none is said, and what belongs to it.

The result is a list of deeds (a verb with its items, one per frame) and limits. What is said of the
body besides a deed is read here, too: "keeping the torso below 1 m" is a limit, "with your hands
up" raises them, and "with your head down" says nothing of where to go.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from telic.composer.frames import OPPOSITE, Act, Amount, Direction, Limit, LimitKind, Posture
from telic.composer.grammar import Clause, Item
from telic.composer.lexicon import Sense, Token, quoted, word_table
from telic.composer.parts import BodyPart
from telic.composer.slots import Deed, implied_verb

_UP = {Posture.UPRIGHT, Posture.HIGH}
_NEW = {"direction", "degree", "posture", "style", "number"}
_WAITING = {Act.STAND: "wait", Act.GO: "go", Act.TURN: "turn"}
_TRUNK = {None, "torso", "head", "pelvis", "waist", "cart"}
_POLE = ("pole", "poles", "tip")
_ARMS = ("arm", "arms", "hand", "hands")
_HELD = {
    Posture.UPRIGHT: LimitKind.UPRIGHT,
    Posture.LOW: LimitKind.LOW_HEIGHT,
    Posture.HIGH: LimitKind.KEEP_HEIGHT,
}


class Deeds:
    """Deeds and limits of an intent, filled clause by clause."""

    def __init__(
        self, tokens: Sequence[Token], joints: Iterable[int], ignored: frozenset[str], poles: bool
    ) -> None:
        self.all: list[Deed] = []
        self.limits: list[Limit] = []
        self.limit_claims: list[tuple[int, tuple[int, ...]]] = []
        """index of the limit and places of the words, for each way a limit was said"""
        self.used: set[int] = set(joints)
        self._tokens = tokens
        self._ignored = ignored
        self._has_pole = poles
        self._pending: list[Item] = []
        """what was said before any verb"""
        self._phase = 0

    @property
    def _last(self) -> Deed | None:
        return self.all[-1] if self.all else None

    def read(self, groups: Sequence[Sequence[Clause]]) -> None:
        """Read all clauses; a group is one phase or, where it ends in a landing, two."""
        for group in groups:
            if self.all:
                self._phase = self.all[-1].phase + 1
            for clause in group:
                if clause.delay is not None:
                    self._wait(clause, clause.delay)
                items = [item for item in clause.items if item.limit is None]
                for item in clause.items:
                    if item.limit is not None:
                        self.add_limit(item.limit, item.at, item.amount, item.part)
                if clause.acts:
                    self._add_verbs(items)
                elif items:
                    acts = any(each.acts for each in group)
                    self._hold(items, acts or any(d.phase == self._phase for d in self.all))
        if not self.all:
            self._infer()

    def add_limit(
        self,
        kind: LimitKind,
        at: Sequence[int],
        amount: Amount | None = None,
        part: BodyPart | None = None,
    ) -> None:
        """Add a limit read from the words at these places."""
        self.used.update(at)
        words = quoted(self._tokens[min(at) : max(at) + 1])
        name, bodies = (part.name, part.bodies) if part else (None, ())
        limit = Limit(kind=kind, amount=amount, words=words, part=name, bodies=bodies)
        known = [each.model_copy(update={"words": words}) for each in self.limits]
        if limit not in known:
            self.limits.append(limit)
            known.append(limit)
        self.limit_claims.append((known.index(limit), tuple(at)))

    def _wait(self, clause: Clause, delay: Item) -> None:
        """Read "after 3 seconds": so long what was said before is done, or nothing.

        What is stopped continues until then: "stop walking after 3 seconds".
        """
        verbs = [item for item in clause.items if item.slot == "verb"]
        if self._last is not None and not any(item.reading for item in self._last.items):
            self._last.items.append(delay)
        elif len(verbs) > 1 and verbs[0].act is Act.STOP:
            self._start(verbs[1], [delay])
            clause.items.remove(verbs[1])
        else:
            verb = Act.GO if delay.unit == "m" else implied_verb(delay) or Act.STAND
            self.all.append(Deed(verb, _WAITING[verb], self._phase, {}, [delay]))
        self._phase = self.all[-1].phase + 1

    # ---- clauses with a verb

    def _add_verbs(self, items: Sequence[Item]) -> None:
        """Start a deed per verb; what stands before the first verb belongs to it."""
        said = [item for item in items if item.slot == "verb"]
        verbs = _merged(said, self._tokens)
        loose = [item for item in items if item.slot != "verb"]
        self.used.update(place for item in said for place in item.at)
        first, last = verbs[0], self._last
        is_on = first.says("weak") and first.says("until_end") and len(verbs) == 1
        if is_on and last and last.verb is first.act and last.phase >= self._phase:
            last.says["until_end"] = True  # "start walking and keep going"
            self._attach(loose)
            return
        places = [item.at[0] for item in verbs]
        for verb, begin, end in zip(
            verbs, [-1, *places[1:]], [*places[1:], len(self._tokens)], strict=True
        ):
            # Of "in one jump" the number belongs to the verb behind it.
            at = {
                id(i): i.end if i.slot == "number" and i.end in places else i.at[0] for i in loose
            }
            own = [item for item in loose if begin <= at[id(item)] < end]
            held = [] if _is_of_limb(verb.senses[0]) else _held_apart(own)
            self._start(verb, [item for item in own if item not in held])
            if _is_raised(held):
                self._raise(held)

    def _start(self, verb: Item, items: Sequence[Item], act: Act | None = None) -> None:
        """Add a deed; `act` is what a verb that keeps something means there."""
        says = {"until_end": True} if act else dict(verb.senses[0].says)
        if says.get("sequel") and any(each.phase == self._phase for each in self.all):
            self._phase += 1
        self.used.update(verb.at)
        act = act or Act(verb.senses[0].value)
        loose, self._pending = [*self._pending, *items], []
        self.all.append(Deed(act, self._words(verb), self._phase, says, loose, verb.at))

    def _words(self, item: Item) -> str:
        return " ".join(self._tokens[place].word for place in item.at)

    # ---- clauses without a verb

    def _raise(self, items: Sequence[Item]) -> None:
        """Read "with your hands up": that is to raise them, meanwhile."""
        raised = next(item for item in items if Posture.HIGH in _postures([item]))
        self._start(raised, [item for item in items if item is not raised], Act.LIFT)

    def _attach(self, items: list[Item]) -> None:
        """Give a clause without a verb to the deed before it, or to the one to come."""
        last = self._last
        if last is None or not items:
            self._pending += items
            return
        phase = None
        if last.phase < self._phase:
            new = _NEW | ({"part"} if "parts" in word_table("acts")[last.verb] else set[str]())
            phase = self._phase if any(item.slot in new for item in items) else None
        else:
            new, old = (_directions(each, last.verb) for each in (items, last.items))
            if new and old and not {Direction.IN_PLACE, Direction.SIDEWAYS} & {*new, *old}:
                phase = last.phase + (new[0] == OPPOSITE.get(old[0]))
        if phase is None:
            last.items += items
        else:  # the same verb again in another way: "walk forward, then backward"
            says = {key: value for key, value in last.says.items() if key in ("gait", "weak")}
            self.all.append(Deed(last.verb, last.word, phase, says, items))
            self._phase = phase

    def _hold(self, items: list[Item], acts: bool) -> None:
        """Read how something is held: "stay low", "keep the pole upright", "with your hands up"."""
        holder = next((item for item in items if item.slot == "verb"), None)
        others = [item for item in items if item is not holder]
        part, postures, last = _part_in(others), _postures(others), self._last
        if holder is None:
            if acts and _is_raised(items):
                self._raise(items)
            else:
                self._attach(self._of_whole(self._body_limits(items, acts, None)))
            return
        is_lasting = last is not None and "lasting" in word_table("acts")[last.verb]
        is_pole = _is_pole(part) or (self._has_pole and part is None and bool(postures & _UP))
        is_rate = any(item.unit in ("m/s", "rad/s") for item in others)
        if part == "target" or (is_rate and not acts and not is_pole):
            self._start(holder, others, Act.REACH)  # "maintain 1 m/s"
        elif is_pole and last and last.verb is Act.BALANCE and last.phase >= self._phase:
            self._prolong(last, holder, others)
        elif is_pole:
            self._start(holder, others, Act.BALANCE)
        elif part not in _TRUNK and Posture.HIGH in postures:
            self._start(holder, others, Act.LIFT)
        elif acts:  # what is kept while something is done: "keeping the torso low"
            before = len(self.limits)
            others = self._body_limits(others, True, holder)
            whole = self._of_whole(others)
            if len(self.limits) > before or not all(map(_says_how_long, whole)):
                self.used.update(holder.at)
                self._attach(whole)
            elif len(whole) == len(others) and last is not None and is_lasting:
                self._prolong(last, holder, others)  # "lie down and stay there"
            elif len(whole) == len(others):  # after a movement: end standing
                self._start(holder, others, Act.STAND)
        elif last is not None and is_lasting and not postures:
            self._prolong(last, holder, others)
        else:
            self._start(holder, self._body_limits(others, acts, holder), Act.STAND)

    def _prolong(self, last: Deed, holder: Item, items: list[Item]) -> None:
        last.says["until_end"] = True
        last.items += items
        self.used.update(holder.at)

    def _of_whole(self, items: list[Item]) -> list[Item]:
        """Leave unread how a part is held, unless the deed is that part's own.

        A posture is judged of the trunk alone: "with straight legs" is not a straight line. The
        part goes with what is said of it, so that both are reported together.
        """
        last, name = self._last, _part_in(items)
        if last is not None and _is_of_limb(Sense("verb", last.verb, last.says)):
            return items
        if name is None or name == "target" or _is_pole(name):
            return items
        of_it = {"direction"} if name in _TRUNK else {"direction", "posture"}
        said = [item for item in items if any(sense.slot in of_it for sense in item.senses)]
        part = next(item for item in items if item.part is not None)
        return [item for item in items if item not in said and not (said and item is part)]

    def _body_limits(self, items: list[Item], acts: bool, holder: Item | None) -> list[Item]:
        """Turn "keeping the torso low" and "torso below 1 m" into limits; return what is left."""
        name = _part_in(items)
        part = [item for item in items if item.part is not None][:1]
        if name not in _TRUNK or not (holder or name):
            return items
        heights = [item for item in items if _is_height(item, name)]
        if name == "head" and heights:
            # How high a head is, is not measured, and it is nowhere to go.
            return [item for item in items if item not in heights]
        taken: list[Item] = []
        for item in items:
            kind = _held_kind(item, name, acts)
            if kind is None and not (taken and any(sense.value == "most" for sense in item.senses)):
                continue  # "as low as possible" is one limit
            taken.append(item)
            self.used.update(item.at)
            if kind is not None and (item in heights or not heights):
                around = [each.at for each in (holder, *part, item) if each is not None]
                amount = item.reading.amount if item.reading else None
                self.add_limit(kind, [place for at in around for place in at], amount)
        taken += part if taken else []
        return [item for item in items if item not in taken]

    # ---- intents without a verb

    def _infer(self) -> None:
        """Give a verb to an intent without one: "forward, fast", "upright", "don't fall"."""
        # "lower your left arm" is not to stand low, and of "lean forward" the verb is unknown.
        read = self.used | {place for item in self._pending for place in item.at}
        limbs = any(i.part is not None and i.part.name not in _TRUNK for i in self._pending)
        for item in self._pending if not limbs and not self._unknown(read) else ():
            if (verb := implied_verb(item)) is not None:
                self.all.append(Deed(verb, self._words(item), 0, {}, self._pending))
                return
        tokens = self._tokens
        ends = [token.silent or token.word in ("and", "then", "but") for token in tokens]
        known = [k for k, token in enumerate(tokens) if token.word not in self._ignored]
        firsts = {k for j, k in pairwise([-1, *known]) if (j < 0 or ends[j]) and not ends[k]}
        if self.limits and not firsts & self._unknown(self.used):  # not "and dance"
            self.all.append(Deed(Act.STAND, self.limits[0].words, 0, {}, self._pending))

    def _unknown(self, read: set[int]) -> set[int]:
        """Return the places of words that are neither read nor ignored."""
        words = {k for k, token in enumerate(self._tokens) if not token.silent} - read
        return {k for k in words if self._tokens[k].word not in self._ignored}


# -------------------------------------------------------------------------- verbs of one clause


def _merged(verbs: list[Item], tokens: Sequence[Token]) -> list[Item]:
    """Return the verbs of a clause that are meant: "keep running" and "move by hopping" are one."""
    landings = [item for item in verbs if item.act is Act.STAND and item.says("sequel")]
    strong = [item for item in verbs if not item.says("holder") and not item.says("weak")]
    kept = [item for item in strong if item not in landings] or strong[:1]
    first, *others = kept or [item for item in verbs if item.is_acting][:1]
    rest: list[Item] = []
    for item in others:
        between = [token.word for token in tokens[first.end : item.at[0]]]
        fused = _fused(first, item, between) if not rest else None
        if fused is not None:
            first = fused
        elif item.senses != first.senses and not (first.act is Act.STOP and not item.says("turns")):
            rest.append(item)
    helping = [item for item in verbs if item not in kept]
    sense = first.senses[0]
    says = dict(sense.says)
    if any(item.says("holder") for item in helping):
        says["until_end"] = True
    if any(item in landings for item in helping):
        says["sequel"] = True
    return [replace(first, senses=(replace(sense, says=says),)), *rest]


def _fused(one: Item, other: Item, between: Sequence[str]) -> Item | None:
    """Return two verbs as one, said by the words of both; None: they are two deeds."""
    first, second = one.senses[0], other.senses[0]
    match one.act, other.act:
        case Act.TURN, _ if other.says("turns") and not one.says("turns"):
            value, says = second.value, second.says  # "turn to face left"
        case Act.STAND_UP, Act.SIT:
            value, says = second.value, second.says  # "get up into a squat": no higher
        case (Act.GO, Act.OBEY) | (Act.OBEY, Act.GO) | (Act.OBEY, Act.OBEY):
            value, says = Act.OBEY, {**first.says, **second.says}  # "trot as commanded"
        case (Act.GO, Act.CIRCLE) | (Act.TURN, Act.CIRCLE):
            value = (second if one.act is Act.GO else first).value
            says = {**second.says, **first.says}  # "walk in a circle", "turn in a circle"
        case Act.GO, Act.GO if "at" in between:
            value, says = Act.GO, {**first.says, **second.says}  # "walk at a trot"
        case _:
            return None
    return Item("verb", (*one.at, *other.at), (Sense("verb", str(value), says),))


def _is_of_limb(verb: Sense) -> bool:
    """Return whether a verb moves parts of the body: "lift", and "move" where a part is named."""
    return "limb" in word_table("acts")[verb.value] or bool(verb.says.get("weak"))


def _directions(items: Sequence[Item], verb: Act) -> list[Direction]:
    senses = [item.sense(verb) for item in items]
    return [Direction(s.value) for s in senses if s is not None and s.slot == "direction"]


# ---------------------------------------------------------------- what is said of body and parts


def _part_in(items: Sequence[Item]) -> str | None:
    """Return the first part of the body that is named; a target goes first."""
    names = [item.part.name for item in items if item.part is not None]
    return "target" if "target" in names else next(iter(names), None)


def _is_pole(part: str | None) -> bool:
    """Return whether a part is to be balanced: "upper pole"."""
    return part is not None and part.endswith(_POLE)


def _is_raised(items: Sequence[Item]) -> bool:
    """Return whether hands or arms are said to be up: "with your hands up"."""
    part = _part_in(items)
    return part is not None and part.endswith(_ARMS) and Posture.HIGH in _postures(items)


def _held_apart(items: Sequence[Item]) -> list[Item]:
    """Return a part and where it is said to be right behind it: "walk hands up"."""
    for part, where in pairwise(items):
        values = {sense.value for sense in where.senses if sense.slot == "direction"}
        is_held = bool(values & {Direction.UP, Direction.DOWN})
        if part.part is not None and part.end == where.at[0] and is_held:
            return [part, where]
    return []


def _postures(items: Sequence[Item]) -> set[Posture]:
    """Return the postures named; something kept "up" is high."""
    senses = [sense for item in items if (sense := item.sense()) is not None]
    named = {Posture(sense.value) for sense in senses if sense.slot == "posture"}
    is_up = any(sense.value == Direction.UP and sense.slot != "posture" for sense in senses)
    return named | ({Posture.HIGH} if is_up else set[Posture]())


def _held_kind(item: Item, part: str | None, acts: bool) -> LimitKind | None:
    """Return the limit that keeping this makes, while something else is done or not."""
    if _is_height(item, part) and item.reading and item.reading.amount:
        is_low = item.reading.amount.rule == "at_most"
        return LimitKind.LOW_HEIGHT if is_low else LimitKind.KEEP_HEIGHT
    sense = item.sense() or item.sense(Act.STAND)
    if sense is None or not acts:
        return None
    if sense.slot == "posture":
        return _HELD.get(Posture(sense.value))
    if sense.value == Direction.IN_PLACE:
        return LimitKind.NO_DRIFT
    return LimitKind.KEEP_HEIGHT if sense.value == Direction.UP and part is not None else None


def _is_height(item: Item, part: str | None) -> bool:
    """Return whether it is a height to keep: "below 1 m", or of the torso any."""
    amount = item.reading.amount if item.reading else None
    return amount is not None and amount.unit == "m" and (amount.rule != "about" or bool(part))


def _says_how_long(item: Item) -> bool:
    """Return whether it adds nothing but time: "stay up for 3 seconds", "stay there"."""
    sense = item.sense()
    moved = sense is not None and sense.value in (Direction.UP, Direction.DOWN)
    return item.slot in ("number", "until_end") or moved
