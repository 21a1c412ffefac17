"""Decide which verb each clause is about, also where none is said, and sort its marks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from telic.composer.frames import Act, Amount, Direction, Limit, LimitKind, Posture
from telic.composer.held import (
    TRUNK,
    apart,
    besides_part,
    held_kind,
    is_height,
    is_pole,
    is_raised,
    part_in,
    postures_in,
    says_how_long,
)
from telic.composer.marks import Mark, is_acting
from telic.composer.parts import BodyPart
from telic.composer.sentence import Clause
from telic.composer.verbs import as_verb, merge
from telic.composer.words import Sense, Token

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


@dataclass(slots=True)
class Sketch:
    """A frame to be: its verb and the marks that belong to it."""

    verb: Act
    word: str
    phase: int
    says: dict[str, Any] = field(default_factory=dict[str, Any])
    marks: list[Mark] = field(default_factory=list[Mark])
    at: tuple[int, ...] = ()
    """places of the words of its verb; none of a verb that was not said again"""

    def directions(self) -> list[Direction]:
        """Return the directions its marks name."""
        senses = [mark.sense(self.verb) for mark in self.marks]
        return [Direction(s.value) for s in senses if s is not None and s.slot == "direction"]


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
        self.limit_places: list[tuple[int, ...]] = []
        """for each way a limit was said, its words"""
        self.limit_claims: list[int] = []
        """for each of these, which limit it is"""
        self.used: set[int] = set(joints)
        self._tokens = tokens
        self._ignored = ignored
        self._has_pole = has_pole
        self._pending: list[Mark] = []
        self._phase = 0

    def read(self, groups: Sequence[Sequence[Clause]]) -> None:
        """Read all clauses; a group is one phase or, where it ends in a landing, two."""
        for group in groups:
            if self.sketches:
                self._phase = self.sketches[-1].phase + 1
            acts = any(clause.acts for clause in group)
            for clause in group:
                self._read_clause(clause, acts)
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
        self.limit_places.append(tuple(at))
        self.limit_claims.append(known.index(same))

    def _read_clause(self, clause: Clause, acts: bool) -> None:
        if clause.delay is not None:
            self._wait(clause, clause.delay)
        rest = self._without_limits(clause.marks)
        acts = acts or any(sketch.phase == self._phase for sketch in self.sketches)
        holder = next((m for m in rest if m.slot == "verb" and not is_acting(m)), None)
        if clause.acts:
            self._add_verbs(rest)
        elif holder is not None:
            self._hold(holder, [mark for mark in rest if mark is not holder], acts)
        elif rest and is_raised(rest) and acts:
            self._raise(rest)
        elif rest:
            self._attach(self._of_whole(self._body_limits(rest, acts, held=False)))

    def _without_limits(self, marks: Sequence[Mark]) -> list[Mark]:
        """Add the limits among the marks; return the others."""
        rest: list[Mark] = []
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

    def _wait(self, clause: Clause, delay: Mark) -> None:
        """Read "after 3 seconds": so long what was said before is done, or nothing.

        What is stopped goes on until then: "stop walking after 3 seconds".
        """
        stopped = [mark for mark in clause.marks if mark.slot == "verb"]
        last = self.sketches[-1] if self.sketches else None
        if last is not None and not any(mark.reading for mark in last.marks):
            last.marks.append(delay)
        elif len(stopped) > 1 and stopped[0].senses[0].value == Act.STOP:
            self._start(stopped[1], [delay])
            clause.marks.remove(stopped[1])
        else:
            verb = Act.GO if _unit(delay) == "m" else implied_verb(delay) or Act.STAND
            self.sketches.append(Sketch(verb, _WAITING[verb], self._phase, {}, [delay]))
        self._phase = self.sketches[-1].phase + 1

    # Verbs

    def _add_verbs(self, marks: Sequence[Mark]) -> None:
        """Start a sketch per verb; what stands before the first verb belongs to it."""
        verbs, helping = merge([mark for mark in marks if mark.slot == "verb"])
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
            held = [] if _is_of_limb(verb.senses[0]) else apart(own)
            self._start(verb, [mark for mark in own if mark not in held])
            if is_raised(held):
                self._raise(held)

    def _goes_on(self, mark: Mark) -> bool:
        """Let the last frame last, and return True, for "keep going" after "walk"."""
        last, sense = self.sketches[-1] if self.sketches else None, mark.senses[0]
        if last is None or last.verb != sense.value or not sense.says.get("weak"):
            return False
        if last.phase < self._phase or not sense.says.get("until_end"):
            return False
        last.says["until_end"] = True
        return True

    def _start(self, mark: Mark, marks: Sequence[Mark]) -> None:
        sense = mark.senses[0]
        if "sequel" in sense.says and any(s.phase == self._phase for s in self.sketches):
            self._phase += 1
        word = " ".join(self._tokens[place].word for place in mark.at)
        verb, says = Act(sense.value), dict(sense.says)
        self.used.update(mark.at)
        loose = [*self._pending, *marks]
        self.sketches.append(Sketch(verb, word, self._phase, says, loose, mark.at))
        self._pending = []

    # Clauses without a verb

    def _raise(self, marks: list[Mark]) -> None:
        """Read "with your hands up": that is to raise them, meanwhile."""
        raised = next(mark for mark in marks if Posture.HIGH in postures_in([mark]))
        self._start(as_verb(raised, Act.LIFT), [mark for mark in marks if mark is not raised])

    def _of_whole(self, marks: list[Mark]) -> list[Mark]:
        """Leave unread how a part is held, unless the deed is that part's own."""
        last = self.sketches[-1] if self.sketches else None
        is_own = last is not None and _is_of_limb(Sense("verb", last.verb, last.says))
        return marks if is_own else besides_part(marks)

    def _attach(self, marks: list[Mark]) -> None:
        """Give a clause without a verb to the frame before it, or to the one to come."""
        if not marks:
            return
        last = self.sketches[-1] if self.sketches else None
        if last is None:
            self._pending += marks
        elif last.phase < self._phase:
            new = _NEW | ({"part"} if last.verb in _OF_PARTS else set[str]())
            if any(mark.slot in new for mark in marks):
                self._repeat(last, marks, self._phase)
            else:
                last.marks += marks
        else:
            new = Sketch(last.verb, last.word, 0, {}, marks).directions()
            old = last.directions()
            if new and old and not {Direction.IN_PLACE, Direction.SIDEWAYS} & {*new, *old}:
                is_opposite = new[0] == _OPPOSITE.get(old[0])
                self._repeat(last, marks, last.phase + is_opposite)
            else:
                last.marks += marks

    def _repeat(self, last: Sketch, marks: list[Mark], phase: int) -> None:
        """Do the same verb again in another way: "walk forward, then backward"."""
        says = {key: value for key, value in last.says.items() if key in ("gait", "weak")}
        self.sketches.append(Sketch(last.verb, last.word, phase, says, list(marks)))
        self._phase = phase

    def _hold(self, holder: Mark, marks: list[Mark], acts: bool) -> None:
        """Read "stay low", "keep the pole upright", "hold it for 3 seconds"."""
        part = part_in(marks)
        postures = postures_in(marks)
        last = self.sketches[-1] if self.sketches else None
        if any(mark.part is not None and mark.part.name == "target" for mark in marks):
            self._start(as_verb(holder, Act.REACH), marks)
        elif is_pole(part) or (self._has_pole and part is None and postures & _UP):
            self._keep_up(last, holder, marks)
        elif part not in TRUNK and Posture.HIGH in postures:
            self._start(as_verb(holder, Act.LIFT), marks)
        elif not acts and any(_is_rate(mark) for mark in marks):
            self._start(as_verb(holder, Act.REACH), marks)  # "maintain 1 m/s"
        elif acts:
            before = len(self.limits)
            rest = self._body_limits([holder, *marks], acts, held=True)
            others = [mark for mark in rest if mark is not holder]
            whole = self._of_whole(others)
            if len(self.limits) > before or any(not says_how_long(mark) for mark in whole):
                self.used.update(holder.at)
                self._attach(whole)
            elif len(whole) == len(others):
                self._last(last, holder, others)
        elif last is not None and last.verb in _LASTING and not postures:
            self._last(last, holder, marks)
        else:
            rest = self._body_limits(marks, acts, held=True)
            self._start(as_verb(holder, Act.STAND), rest)

    def _keep_up(self, last: Sketch | None, holder: Mark, marks: list[Mark]) -> None:
        """Keep poles up; who balances them does so already."""
        if last is None or last.verb is not Act.BALANCE or last.phase < self._phase:
            self._start(as_verb(holder, Act.BALANCE), marks)
        else:
            last.says["until_end"] = True
            last.marks += marks
            self.used.update(holder.at)

    def _last(self, last: Sketch | None, holder: Mark, marks: list[Mark]) -> None:
        """Let the last frame go on: "lie down and stay there"; of a movement, end standing."""
        if last is not None and last.verb in _LASTING:
            last.says["until_end"] = True
            last.marks += marks
            self.used.update(holder.at)
        else:
            self._start(as_verb(holder, Act.STAND), marks)

    def _body_limits(self, marks: list[Mark], acts: bool, held: bool) -> list[Mark]:
        """Turn "keeping the torso low" and "torso below 1 m" into limits; return what is left."""
        part = next((mark for mark in marks if mark.part is not None), None)
        name = part.part.name if part and part.part else None
        if name not in TRUNK or not (held or name):
            return marks
        if name == "head" and any(is_height(mark, name) for mark in marks):
            # How high a head is, is not measured, and it is nowhere to go.
            return [mark for mark in marks if not is_height(mark, name)]
        measured = any(is_height(mark, name) for mark in marks)
        taken: list[Mark] = []
        for mark in marks:
            kind, amount = held_kind(mark, name, acts)
            after = bool(taken) and _completes(mark, taken[-1])
            if kind is None and not after:
                continue
            taken.append(mark)
            self.used.update(mark.at)
            # Of "0.5 m high" and "as upright as possible" one word makes the limit.
            if kind is not None and (amount is not None or not measured):
                around = (*(marks[0].at if held else ()), *(part.at if part else ()), *mark.at)
                self.add_limit(kind, around, amount)
        return [mark for mark in marks if mark not in taken and not (taken and mark is part)]

    def _infer(self) -> None:
        """Give a verb to an intent without one: "forward, fast", "upright", "don't fall"."""
        if self.sketches:
            return
        # "lower your left arm" is not to stand low.
        limbs = any(mark.part is not None and mark.part.name not in TRUNK for mark in self._pending)
        for mark in self._pending if self._is_known(self._pending) and not limbs else ():
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

    def _is_known(self, marks: Sequence[Mark]) -> bool:
        """Return whether no word is left that could be the verb: not so in "lean forward"."""
        read = self.used | {place for mark in marks for place in mark.at}
        words = [t for place, t in enumerate(self._tokens) if place not in read and not t.silent]
        return all(token.word in self._ignored for token in words)


def _is_rate(mark: Mark) -> bool:
    return _unit(mark) in ("m/s", "rad/s")


def _bound_at(mark: Mark, verbs: Sequence[int]) -> int:
    """Return the place that says which verb a mark belongs to: of "in one jump" the jump's."""
    return mark.end if mark.slot == "number" and mark.end in verbs else mark.at[0]


def _is_of_limb(verb: Sense) -> bool:
    """Return whether a verb moves parts of the body: "lift", and "move" where a part is named."""
    return verb.value in _LIMB_VERBS or bool(verb.says.get("weak"))


def _completes(mark: Mark, before: Mark) -> bool:
    """Return whether a degree only completes what is kept: "as upright as possible", "1 m high"."""
    if mark.slot != "degree" or before.end not in mark.at:
        return False
    return before.reading is not None or any(sense.value == "most" for sense in mark.senses)


def _unit(mark: Mark) -> str | None:
    return mark.reading.amount.unit if mark.reading and mark.reading.amount else None


def implied_verb(mark: Mark) -> Act | None:
    """Return the verb a word implies where there is none."""
    sense = mark.sense()
    if mark.reading is not None and mark.reading.amount is not None:
        units = {"m/s": Act.GO, "turns": Act.TURN, "rad": Act.TURN, "rad/s": Act.TURN}
        return units.get(mark.reading.amount.unit)
    if sense is None:
        return None
    if sense.slot == "direction":
        turning = sense.value in (Direction.CLOCKWISE, Direction.COUNTERCLOCKWISE)
        still = sense.value in (Direction.IN_PLACE, Direction.UP, Direction.DOWN)
        return Act.TURN if turning else None if still else Act.GO
    if sense.slot == "posture":
        return Act.STAND
    return Act.GO if sense.says.get("dimension") in ("speed", "distance") else None
