"""Decide which verb each clause is about, also where none is said, and what belongs to it.

The result are sketches (a verb with its marks, one per frame) and limits. What is said of the body
besides a deed is read here, too: "keeping the torso below 1 m" is a limit, "with your hands up"
raises them, and "with your head down" says nothing of where to go.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from telic.composer.frames import Act, Amount, Direction, Limit, LimitKind, Posture
from telic.composer.grammar import Clause, Item
from telic.composer.lexicon import Sense, Token
from telic.composer.parts import BodyPart

_LASTING = {Act.STAND, Act.SIT, Act.LIE, Act.STAND_UP, Act.BALANCE, Act.REACH, Act.LIFT}
_PAIRS = (
    (Direction.FORWARD, Direction.BACKWARD),
    (Direction.LEFT, Direction.RIGHT),
    (Direction.UP, Direction.DOWN),
    (Direction.CLOCKWISE, Direction.COUNTERCLOCKWISE),
)
_OPPOSITE = dict(_PAIRS) | {other: one for one, other in _PAIRS}
_UP = {Posture.UPRIGHT, Posture.HIGH}
_NEW = {"direction", "degree", "posture", "style", "number"}
_LIMB_VERBS = {Act.LIFT, Act.KICK, Act.SWING}
_OF_PARTS = {*_LIMB_VERBS, Act.STAND, Act.BALANCE, Act.HOP}
_WAITING = {Act.STAND: "wait", Act.GO: "go", Act.TURN: "turn"}
_UNIT_VERBS = {"m/s": Act.GO, "turns": Act.TURN, "rad": Act.TURN, "rad/s": Act.TURN}
_TRUNK = {None, "torso", "head", "pelvis", "waist", "cart"}
_POLE = ("pole", "poles", "tip")
_ARMS = ("arm", "arms", "hand", "hands")
_HELD = {
    Posture.UPRIGHT: LimitKind.UPRIGHT,
    Posture.LOW: LimitKind.LOW_HEIGHT,
    Posture.HIGH: LimitKind.KEEP_HEIGHT,
}


@dataclass(slots=True)
class Sketch:
    """A frame to be: its verb and the marks that belong to it."""

    verb: Act
    word: str
    phase: int
    says: dict[str, Any] = field(default_factory=dict[str, Any])
    marks: list[Item] = field(default_factory=list[Item])
    at: tuple[int, ...] = ()
    """places of the words of its verb; none of a verb that was not said again"""


class Outline:
    """Sketches and limits of an intent, filled clause by clause."""

    def __init__(
        self,
        tokens: Sequence[Token],
        joints: Iterable[int],
        ignored: frozenset[str],
        has_pole: bool,
    ) -> None:
        self.sketches: list[Sketch] = []
        self.limits: list[Limit] = []
        self.limit_claims: list[tuple[int, tuple[int, ...]]] = []
        """for each way a limit was said: which limit it is, and the places of its words"""
        self.used: set[int] = set(joints)
        self._tokens = tokens
        self._ignored = ignored
        self._has_pole = has_pole
        self._pending: list[Item] = []
        self._phase = 0

    @property
    def _last(self) -> Sketch | None:
        return self.sketches[-1] if self.sketches else None

    def read(self, groups: Sequence[Sequence[Clause]]) -> None:
        """Read all clauses; a group is one phase or, where it ends in a landing, two."""
        for group in groups:
            if self.sketches:
                self._phase = self.sketches[-1].phase + 1
            acts = any(clause.acts for clause in group)
            for clause in group:
                self._read_clause(clause, acts)
        if not self.sketches:
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
        span = self._tokens[min(at) : max(at) + 1]
        words = " ".join(token.text for token in span if not token.silent)
        limit = Limit(kind=kind, amount=amount, words=words)
        if part is not None:
            limit = limit.model_copy(update={"part": part.name, "bodies": part.bodies})
        known = [(each.kind, each.amount, each.part) for each in self.limits]
        same = (limit.kind, limit.amount, limit.part)
        if same not in known:
            known.append(same)
            self.limits.append(limit)
        self.limit_claims.append((known.index(same), tuple(at)))

    def _read_clause(self, clause: Clause, acts: bool) -> None:
        if clause.delay is not None:
            self._wait(clause, clause.delay)
        rest = self._without_limits(clause.items)
        acts = acts or any(sketch.phase == self._phase for sketch in self.sketches)
        holder = next((m for m in rest if m.slot == "verb" and not m.is_acting), None)
        if clause.acts:
            self._add_verbs(rest)
        elif holder is not None:
            self._hold(holder, [mark for mark in rest if mark is not holder], acts)
        elif rest and _is_raised(rest) and acts:
            self._raise(rest)
        elif rest:
            self._attach(self._of_whole(self._body_limits(rest, acts, held=False)))

    def _without_limits(self, marks: Sequence[Item]) -> list[Item]:
        """Add the limits among the marks; return the others."""
        rest: list[Item] = []
        end = None
        for mark in marks:
            if mark.limit is not None:
                self.add_limit(mark.limit, mark.at, mark.amount, mark.part)
                end = mark.end
            elif mark.slot == "degree" and len(mark.at) > 1 and end == mark.at[1]:
                self.used.update(mark.at)  # "as little energy as possible"
            else:
                rest.append(mark)
        return rest

    def _wait(self, clause: Clause, delay: Item) -> None:
        """Read "after 3 seconds": so long what was said before is done, or nothing.

        What is stopped goes on until then: "stop walking after 3 seconds".
        """
        stopped = [mark for mark in clause.items if mark.slot == "verb"]
        if self._last is not None and not any(mark.reading for mark in self._last.marks):
            self._last.marks.append(delay)
        elif len(stopped) > 1 and stopped[0].act == Act.STOP:
            self._start(stopped[1], [delay])
            clause.items.remove(stopped[1])
        else:
            verb = Act.GO if _unit(delay) == "m" else implied_verb(delay) or Act.STAND
            self.sketches.append(Sketch(verb, _WAITING[verb], self._phase, {}, [delay]))
        self._phase = self.sketches[-1].phase + 1

    # ---- clauses with a verb

    def _add_verbs(self, marks: Sequence[Item]) -> None:
        """Start a sketch per verb; what stands before the first verb belongs to it."""
        verbs, helping = _merged([mark for mark in marks if mark.slot == "verb"])
        self.used.update(place for mark in helping for place in mark.at)
        loose = [mark for mark in marks if mark.slot != "verb"]
        if len(verbs) == 1 and self._goes_on(verbs[0]):
            self.used.update(verbs[0].at)
            self._attach(loose)
            return
        places = [mark.at[0] for mark in verbs]
        for k, verb in enumerate(verbs):
            first = -1 if k == 0 else places[k]
            last = places[k + 1] if k + 1 < len(verbs) else len(self._tokens)
            own = [mark for mark in loose if first <= _bound_at(mark, places) < last]
            held = [] if _is_of_limb(verb.senses[0]) else _held_apart(own)
            self._start(verb, [mark for mark in own if mark not in held])
            if _is_raised(held):
                self._raise(held)

    def _goes_on(self, mark: Item) -> bool:
        """Let the last frame last, and return True, for "keep going" after "walk"."""
        last = self._last
        if last is None or last.verb != mark.act or last.phase < self._phase:
            return False
        if not mark.says("weak") or not mark.says("until_end"):
            return False
        last.says["until_end"] = True
        return True

    def _start(self, mark: Item, marks: Sequence[Item]) -> None:
        if "sequel" in mark.senses[0].says and any(s.phase == self._phase for s in self.sketches):
            self._phase += 1
        word = " ".join(self._tokens[place].word for place in mark.at)
        says, loose = dict(mark.senses[0].says), [*self._pending, *marks]
        self.used.update(mark.at)
        self.sketches.append(Sketch(mark.act, word, self._phase, says, loose, mark.at))
        self._pending = []

    # ---- clauses without a verb

    def _raise(self, marks: list[Item]) -> None:
        """Read "with your hands up": that is to raise them, meanwhile."""
        raised = next(mark for mark in marks if Posture.HIGH in _postures(mark))
        self._start(_as_verb(raised, Act.LIFT), [mark for mark in marks if mark is not raised])

    def _of_whole(self, marks: list[Item]) -> list[Item]:
        """Leave unread how a part is held, unless the deed is that part's own."""
        last = self._last
        is_own = last is not None and _is_of_limb(Sense("verb", last.verb, last.says))
        return marks if is_own else _besides_part(marks)

    def _attach(self, marks: list[Item]) -> None:
        """Give a clause without a verb to the frame before it, or to the one to come."""
        last = self._last
        if last is None or not marks:
            self._pending += marks
            return
        if last.phase < self._phase:
            new = _NEW | ({"part"} if last.verb in _OF_PARTS else set[str]())
            if any(mark.slot in new for mark in marks):
                return self._repeat(last, marks, self._phase)
        else:
            new, old = (_directions(each, last.verb) for each in (marks, last.marks))
            if new and old and not {Direction.IN_PLACE, Direction.SIDEWAYS} & {*new, *old}:
                is_opposite = new[0] == _OPPOSITE.get(old[0])
                return self._repeat(last, marks, last.phase + is_opposite)
        last.marks += marks

    def _repeat(self, last: Sketch, marks: list[Item], phase: int) -> None:
        """Do the same verb again in another way: "walk forward, then backward"."""
        says = {key: value for key, value in last.says.items() if key in ("gait", "weak")}
        self.sketches.append(Sketch(last.verb, last.word, phase, says, list(marks)))
        self._phase = phase

    def _hold(self, holder: Item, marks: list[Item], acts: bool) -> None:
        """Read "stay low", "keep the pole upright", "hold it for 3 seconds"."""
        part, postures, last = _part_in(marks), _postures(*marks), self._last
        if any(mark.part is not None and mark.part.name == "target" for mark in marks):
            self._start(_as_verb(holder, Act.REACH), marks)
        elif _is_pole(part) or (self._has_pole and part is None and postures & _UP):
            if last is None or last.verb is not Act.BALANCE or last.phase < self._phase:
                self._start(_as_verb(holder, Act.BALANCE), marks)
            else:
                self._go_on(last, holder, marks)
        elif part not in _TRUNK and Posture.HIGH in postures:
            self._start(_as_verb(holder, Act.LIFT), marks)
        elif not acts and any(_unit(mark) in ("m/s", "rad/s") for mark in marks):
            self._start(_as_verb(holder, Act.REACH), marks)  # "maintain 1 m/s"
        elif acts:
            self._hold_meanwhile(holder, marks)
        elif last is not None and last.verb in _LASTING and not postures:
            self._go_on(last, holder, marks)
        else:
            rest = self._body_limits(marks, acts, held=True)
            self._start(_as_verb(holder, Act.STAND), rest)

    def _hold_meanwhile(self, holder: Item, marks: list[Item]) -> None:
        """Read what is kept while something is done: "keeping the torso low"."""
        before, last = len(self.limits), self._last
        rest = self._body_limits([holder, *marks], acts=True, held=True)
        others = [mark for mark in rest if mark is not holder]
        whole = self._of_whole(others)
        if len(self.limits) > before or any(not _says_how_long(mark) for mark in whole):
            self.used.update(holder.at)
            self._attach(whole)
        elif len(whole) < len(others):
            return
        elif last is not None and last.verb in _LASTING:  # "lie down and stay there"
            self._go_on(last, holder, others)
        else:  # after a movement: end standing
            self._start(_as_verb(holder, Act.STAND), others)

    def _go_on(self, last: Sketch, holder: Item, marks: list[Item]) -> None:
        """Let the last frame last."""
        last.says["until_end"] = True
        last.marks += marks
        self.used.update(holder.at)

    def _body_limits(self, marks: list[Item], acts: bool, held: bool) -> list[Item]:
        """Turn "keeping the torso low" and "torso below 1 m" into limits; return what is left."""
        part = next((mark for mark in marks if mark.part is not None), None)
        name = _part_in(marks)
        if name not in _TRUNK or not (held or name):
            return marks
        heights = [mark for mark in marks if _is_height(mark, name)]
        if name == "head" and heights:
            # How high a head is, is not measured, and it is nowhere to go.
            return [mark for mark in marks if mark not in heights]
        taken: list[Item] = []
        for mark in marks:
            kind, amount = _held_kind(mark, name, acts)
            if kind is None and not (taken and _completes(mark, taken[-1])):
                continue
            taken.append(mark)
            self.used.update(mark.at)
            # Of "0.5 m high" and "as upright as possible" one word makes the limit.
            if kind is not None and (amount is not None or not heights):
                around = (*(marks[0].at if held else ()), *(part.at if part else ()), *mark.at)
                self.add_limit(kind, around, amount)
        return [mark for mark in marks if mark not in taken and not (taken and mark is part)]

    # ---- intents without a verb

    def _infer(self) -> None:
        """Give a verb to an intent without one: "forward, fast", "upright", "don't fall"."""
        # "lower your left arm" is not to stand low.
        limbs = any(m.part is not None and m.part.name not in _TRUNK for m in self._pending)
        for mark in self._pending if not limbs and not self._is_verb_unknown() else ():
            verb = implied_verb(mark)
            if verb is not None:
                word = " ".join(self._tokens[place].word for place in mark.at)
                self.sketches.append(Sketch(verb, word, 0, {}, self._pending))
                return
        if self.limits and not self._hides_verb():
            first = self.limits[0].words
            self.sketches.append(Sketch(Act.STAND, first, 0, {}, self._pending))

    def _hides_verb(self) -> bool:
        """Return whether a word that is not known stands where a verb would: "and dance"."""
        begins = True
        for place, token in enumerate(self._tokens):
            if token.silent or token.word in ("and", "then", "but"):
                begins = True
            elif token.word not in self._ignored:
                if begins and place not in self.used:
                    return True
                begins = False
        return False

    def _is_verb_unknown(self) -> bool:
        """Return whether a word is left that could be the verb: "lean forward"."""
        read = self.used | {place for mark in self._pending for place in mark.at}
        return any(
            place not in read and not token.silent and token.word not in self._ignored
            for place, token in enumerate(self._tokens)
        )


def implied_verb(mark: Item) -> Act | None:
    """Return the verb a word implies where there is none."""
    if mark.reading is not None and mark.reading.amount is not None:
        return _UNIT_VERBS.get(mark.reading.amount.unit)
    sense = mark.sense()
    if sense is None:
        return None
    if sense.slot == "direction":
        turning = sense.value in (Direction.CLOCKWISE, Direction.COUNTERCLOCKWISE)
        still = sense.value in (Direction.IN_PLACE, Direction.UP, Direction.DOWN)
        return Act.TURN if turning else None if still else Act.GO
    if sense.slot == "posture":
        return Act.STAND
    return Act.GO if sense.says.get("dimension") in ("speed", "distance") else None


# -------------------------------------------------------------------------- verbs of one clause


def _merged(verbs: list[Item]) -> tuple[list[Item], list[Item]]:
    """Return the verbs of a clause that are meant, and those that gave way to them.

    "keep running", "move by hopping", "walk in a circle", "stop walking", "trot as commanded" and
    "come back up to a crouch" are one verb each.
    """
    kept = [mark for mark in verbs if not mark.says("holder") and not mark.says("weak")]
    kept = [mark for mark in kept if not _is_landing(mark)] or kept[:1]
    kept = kept or [mark for mark in verbs if mark.is_acting][:1]
    first, *others = kept
    rest = [mark for mark in others if mark.senses != first.senses]
    second = rest[0].act if rest else None
    is_plain_turn = first.act == Act.TURN and not first.says("turns")
    if first.act == Act.STOP:
        rest = [mark for mark in rest if mark.says("turns")]  # "stop facing backward"
    elif rest and is_plain_turn and rest[0].says("turns"):
        first, rest = _both(first, rest[0]), rest[1:]  # "turn to face left"
    elif first.act == Act.STAND_UP and second == Act.SIT:
        first, rest = _both(first, rest[0]), rest[1:]  # "get up into a squat": no higher
    elif Act.OBEY in (first.act, *(mark.act for mark in rest)):
        first, rest = _obeying([first, *rest])
    elif second == Act.CIRCLE and first.act in (Act.GO, Act.TURN):
        first, rest = _going_round(first, rest[0]), rest[1:]
    helping = [mark for mark in verbs if mark is not kept[0] and mark not in rest]
    added: dict[str, Any] = {}
    if any(mark.says("holder") for mark in helping):
        added["until_end"] = True
    if any(_is_landing(mark) for mark in helping):
        added["sequel"] = True
    sense = first.senses[0]
    first = replace(first, senses=(replace(sense, says={**sense.says, **added}),))
    return [first, *rest], helping


def _as_verb(mark: Item, verb: Act) -> Item:
    """Return a verb that keeps something as what it means there: "keep" a pole is balance it."""
    sense = replace(mark.senses[0], value=str(verb), says={"until_end": True})
    return replace(mark, senses=(sense,))


def _both(one: Item, other: Item) -> Item:
    """Return the second of two verbs, said by the words of both."""
    return replace(other, at=(*one.at, *other.at))


def _going_round(going: Item, circle: Item) -> Item:
    """Return "walk in a circle" as one verb; turning in a circle stays turning."""
    says = {**circle.senses[0].says, **going.senses[0].says}
    value = (circle if going.act == Act.GO else going).senses[0].value
    return replace(_both(going, circle), senses=(Sense("verb", value, says),))


def _obeying(verbs: Sequence[Item]) -> tuple[Item, list[Item]]:
    """Return "trot as commanded" as one verb, and the verbs that are something else to do."""
    ways = [mark for mark in verbs if mark.act in (Act.GO, Act.OBEY)]
    says = {key: value for mark in ways for key, value in mark.senses[0].says.items()}
    at = tuple(sorted({place for mark in ways for place in mark.at}))
    obey = Item("verb", at, (Sense("verb", Act.OBEY, says),))
    return obey, [mark for mark in verbs if mark not in ways]


def _is_landing(mark: Item) -> bool:
    return mark.act == Act.STAND and mark.says("sequel")


def _bound_at(mark: Item, verbs: Sequence[int]) -> int:
    """Return the place that says which verb a mark belongs to: of "in one jump" the jump's."""
    return mark.end if mark.slot == "number" and mark.end in verbs else mark.at[0]


def _is_of_limb(verb: Sense) -> bool:
    """Return whether a verb moves parts of the body: "lift", and "move" where a part is named."""
    return verb.value in _LIMB_VERBS or bool(verb.says.get("weak"))


def _directions(marks: Sequence[Item], verb: Act) -> list[Direction]:
    senses = [mark.sense(verb) for mark in marks]
    return [Direction(s.value) for s in senses if s is not None and s.slot == "direction"]


# ---------------------------------------------------------------- what is said of body and parts


def _unit(mark: Item) -> str | None:
    return mark.reading.amount.unit if mark.reading and mark.reading.amount else None


def _part_in(marks: Sequence[Item]) -> str | None:
    """Return the first part of the body that is named."""
    return next((mark.part.name for mark in marks if mark.part is not None), None)


def _is_pole(part: str | None) -> bool:
    """Return whether a part is to be balanced: "upper pole"."""
    return part is not None and part.endswith(_POLE)


def _is_raised(marks: Sequence[Item]) -> bool:
    """Return whether hands or arms are said to be up: "with your hands up"."""
    part = _part_in(marks)
    return part is not None and part.endswith(_ARMS) and Posture.HIGH in _postures(*marks)


def _besides_part(marks: list[Item]) -> list[Item]:
    """Return what is not said of a part: not the direction of "with your arms forward".

    A posture is judged of the trunk alone: "with straight legs" is no straight line. The part goes
    with what is said of it, so that both are named together.
    """
    part = next((mark for mark in marks if mark.part is not None), None)
    name = _part_in(marks)
    if name is None or name == "target" or _is_pole(name):
        return marks
    of_it = {"direction"} if name in _TRUNK else {"direction", "posture"}
    said = [mark for mark in marks if any(sense.slot in of_it for sense in mark.senses)]
    return [mark for mark in marks if mark not in said and not (said and mark is part)]


def _held_apart(marks: Sequence[Item]) -> list[Item]:
    """Return a part and where it is said to be right behind it: "walk hands up"."""
    for part, where in pairwise(marks):
        values = {sense.value for sense in where.senses if sense.slot == "direction"}
        is_held = bool(values & {Direction.UP, Direction.DOWN})
        if part.part is not None and part.end == where.at[0] and is_held:
            return [part, where]
    return []


def _postures(*marks: Item) -> set[Posture]:
    """Return the postures named; something kept "up" is high."""
    senses = [sense for mark in marks if (sense := mark.sense()) is not None]
    named = {Posture(sense.value) for sense in senses if sense.slot == "posture"}
    is_up = any(sense.value == Direction.UP and sense.slot != "posture" for sense in senses)
    return named | ({Posture.HIGH} if is_up else set[Posture]())


def _held_kind(mark: Item, part: str | None, acts: bool) -> tuple[LimitKind | None, Amount | None]:
    """Return the limit that keeping this makes, while something else is done or not."""
    if _is_height(mark, part) and mark.reading is not None and mark.reading.amount is not None:
        low = mark.reading.amount.rule == "at_most"
        return (LimitKind.LOW_HEIGHT if low else LimitKind.KEEP_HEIGHT), mark.reading.amount
    sense = mark.sense() or mark.sense(Act.STAND)
    if sense is None or not acts:
        return None, None
    if sense.slot == "posture":
        return _HELD.get(Posture(sense.value)), None
    if sense.value == Direction.IN_PLACE:
        return LimitKind.NO_DRIFT, None
    is_up = sense.value == Direction.UP and part is not None
    return (LimitKind.KEEP_HEIGHT if is_up else None), None


def _completes(mark: Item, before: Item) -> bool:
    """Return whether a degree only completes what is kept: "as upright as possible", "1 m high"."""
    if mark.slot != "degree" or before.end not in mark.at:
        return False
    return before.reading is not None or any(sense.value == "most" for sense in mark.senses)


def _is_height(mark: Item, part: str | None) -> bool:
    """Return whether it is a height to keep: "below 1 m", or of the torso any."""
    amount = mark.reading.amount if mark.reading else None
    return amount is not None and amount.unit == "m" and (amount.rule != "about" or bool(part))


def _says_how_long(mark: Item) -> bool:
    """Return whether it adds nothing but time: "stay up for 3 seconds", "stay there"."""
    sense = mark.sense()
    moved = sense is not None and sense.value in (Direction.UP, Direction.DOWN)
    return mark.slot in ("number", "until_end") or moved
