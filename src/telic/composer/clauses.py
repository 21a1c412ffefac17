"""Cut an intent into clauses, in the order of doing.

"stand after jumping" is jump, then stand. Of what is offered with "or" the first is meant. What
follows a negation, a condition or a comparison is nothing to do, so it is left unread, and named.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from telic.composer.frames import Act
from telic.composer.lexicon import Token
from telic.composer.marks import Mark

_STRENGTH = {"start": 0, "and": 1, "stop": 2, "then": 3, "after": 3, "before": 3}
_NOT_TO_DO = ("negation", "aside")
_BREAKS = (",", ".")
_NEGATIONS = ("without", "never", "don't", "dont")
_TRAVELS = {Act.GO, Act.HOP, Act.JUMP}
_HELD = {"verb", "direction", "limit", "part", "until_end"}
_SHARED = ("direction", "degree", "style", "posture", "limit", "until_end")


@dataclass(slots=True)
class Clause:
    """Marks between two joining words."""

    join: str
    """how it follows the clause before: start, and, stop, then, after, before"""
    marks: list[Mark] = field(default_factory=list[Mark])
    delay: Mark | None = None
    """what comes before it: "after 3 seconds", "after 2 m" """
    is_purpose: bool = False
    """whether it says what the clause before is for"""

    @property
    def acts(self) -> bool:
        """Whether it has a verb of its own, not only one that keeps something."""
        return any(mark.is_acting for mark in self.marks)

    @property
    def changes(self) -> bool:
        """Whether it says how to go on otherwise: "run and slow down"."""
        first = self.marks[0] if self.marks else None
        return first is not None and any(sense.says.get("changes") for sense in first.senses)

    @property
    def is_held(self) -> bool:
        """Whether it says how to be and nothing to do: "they stay up", "you don't fall"."""
        # "low" is a degree of jumps and a way to hold oneself.
        posed = [m for m in self.marks if any(sense.slot == "posture" for sense in m.senses)]
        slots = {mark.slot for mark in self.marks if mark not in posed}
        says_how = bool(posed) or "limit" in slots or {"verb", "direction"} <= slots
        return not self.acts and slots <= _HELD and says_how


@dataclass(slots=True)
class Cut:
    """Groups of clauses, each done together and one after the other, and the words that cut."""

    groups: list[list[Clause]]
    joints: set[int]
    others: list[tuple[int, ...]]
    """places of what was offered as well, with "or": each is not what is meant"""


def cut(tokens: Sequence[Token], marks: Iterable[Mark]) -> Cut:
    """Return the clauses in the order of doing: "stand after jumping" is jump, then stand."""
    reader = _Reader(tokens)
    for mark in marks:
        reader.read(mark)
    groups: list[list[Clause]] = []
    for clause in reader.finished():
        # A full stop between "run" and "keep upright" does not make the second come later.
        later = clause.join in ("then", "after") or (clause.join == "stop" and clause.acts)
        later = later or (clause.changes and any(c.acts for group in groups for c in group))
        if later or not groups:
            groups.append([clause])
        else:
            groups[-1].append(clause)
    return Cut(_in_order(groups), reader.joints, reader.others)


class _Reader:
    """Clauses so far, and whether what comes now is something to do."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.joints: set[int] = set()
        self.others: list[tuple[int, ...]] = []
        self._tokens = tokens
        self._clauses = [Clause("start")]
        self._blocked: str | None = None
        """why what follows is not read: negation, aside or or"""
        self._negated: Mark | None = None
        """the last thing that is not to be done"""
        self._shares = False
        """whether "or" stands between two verbs, so that what follows is said of both"""
        self._delays = False
        """whether "after" was the last word"""
        self._trails = False
        """whether it stands right behind what it could belong to: "walk after 2 seconds" """

    def read(self, mark: Mark) -> None:
        """Take the next mark."""
        if mark.slot == "join":
            self._join(mark)
        elif self._blocked == "or" and not self._is_shared(mark):
            self.others[-1] += mark.at
        elif self._blocked not in (None, "or"):
            self._negated = mark
        elif self._delays and _is_delay(mark):
            self._delay(mark)
        else:
            if not mark.is_acting:
                self._give_back()
            self._negated = mark if self._is_forbidden(mark) else None
            self._clauses[-1].marks.append(mark)
        self._delays = mark.slot == "join" and mark.is_join("after")

    def _is_forbidden(self, mark: Mark) -> bool:
        """Return whether a limit was read with its negation: "without falling, without a pause"."""
        is_limit = mark.limit is not None and not mark.senses
        return is_limit or self._tokens[mark.at[0]].word in _NEGATIONS

    def finished(self) -> list[Clause]:
        """Return the clauses that say anything."""
        self._leave_unread()
        self._trails = True
        self._give_back()
        return [clause for clause in self._clauses if clause.marks]

    def _leave_unread(self) -> None:
        """Leave a purpose unread that is more than a way to be: "so that you win and jump"."""
        last = self._clauses[-1]
        if last.is_purpose and not last.is_held:
            last.marks.clear()
            last.is_purpose = False
            self._blocked = "aside"

    def _join(self, mark: Mark) -> None:
        self._leave_unread()
        if mark.is_join("purpose"):
            self._blocked = None
            self.joints.update(mark.at)
            self._start("and")
            self._clauses[-1].is_purpose = True
        elif mark.is_join(*_NOT_TO_DO):
            self._blocked = "aside" if mark.is_join("aside") else "negation"
            self._negated = None
        elif self._goes_on(mark):
            self._blocked = self._blocked or "negation"
        elif mark.is_join("or"):
            if any(clause.marks for clause in self._clauses):
                self._blocked, self._shares = "or", False
                self.others.append(mark.at)
                self.joints.update(mark.at)
        else:
            self._blocked = None
            self.joints.update(mark.at)
            is_first = not any(clause.marks for clause in self._clauses)
            before = "before" if is_first else "then"
            self._start(before if mark.is_join("before") else mark.senses[0].value)

    def _is_shared(self, mark: Mark) -> bool:
        """Return whether it is said of all that is offered: "walk or run to the left"."""
        last, joint = self._clauses[-1].marks[-1:], self.others[-1]
        if mark.is_acting and last and last[0].is_acting and last[0].end == joint[0]:
            self._shares = {mark.act, last[0].act} <= _TRAVELS
        return self._shares and mark.slot in _SHARED

    def _goes_on(self, mark: Mark) -> bool:
        """Return whether a joining word goes on with what is not to be done.

        "without falling or stopping", "don't run or jump", "if you fall and roll". Of a negation,
        "and" does so before another word in the same form: "without running and jumping".
        """
        if self._blocked is None and self._negated is None:
            return False
        if mark.is_join("or"):
            return self._blocked != "or"
        if self._tokens[mark.at[0]].word in _BREAKS or not mark.is_join("and"):
            return False
        if self._blocked == "aside":
            return self._tokens[mark.at[0]].word != "but"
        following = self._tokens[mark.end].word if mark.end < len(self._tokens) else ""
        return self._blocked != "or" and self._is_form(following)

    def _is_form(self, following: str) -> bool:
        """Return whether the word to come is in the form of what was negated: "-ing"."""
        negated = self._negated
        if negated is None or not following.endswith("ing"):
            return False
        return any(self._tokens[place].word.endswith("ing") for place in negated.at)

    def _start(self, join: str) -> None:
        """Open a clause, or keep the stronger of two joining words in a row (", and then")."""
        self._give_back()
        last = self._clauses[-1]
        if join == "after":
            self._trails = bool(last.marks)
        if last.marks:
            self._clauses.append(Clause(join))
        elif _STRENGTH[join] > _STRENGTH[last.join] and last.delay is None:
            last.join = join

    def _delay(self, mark: Mark) -> None:
        """Read "after 3 seconds" as what comes before what is said next."""
        last = self._clauses[-1]
        last.join = "then" if len(self._clauses) > 1 else "start"
        last.delay = mark

    def _give_back(self) -> None:
        """Give a delay that nothing follows to what stands before it: "walk after 2 seconds"."""
        last = self._clauses[-1]
        if last.delay is not None and not last.marks and self._trails and len(self._clauses) > 1:
            self._clauses.pop()
            self._clauses[-1].delay = last.delay


def _is_delay(mark: Mark) -> bool:
    """Return whether it is a time, a way or a turn: "after 3 seconds", but not "after 3 jumps"."""
    reading = mark.reading
    if reading is None or reading.period_s is not None:
        return False
    return reading.duration_s is not None or reading.amount is not None


def _in_order(groups: list[list[Clause]]) -> list[list[Clause]]:
    for k in range(1, len(groups)):
        if groups[k][0].join == "after":
            groups[k - 1], groups[k] = groups[k], groups[k - 1]
    if groups and len(groups[0]) > 1 and groups[0][0].join in ("before", "after"):
        first, rest = groups[0][:1], groups[0][1:]
        groups[:1] = [rest, first] if first[0].join == "before" else [first, rest]
    return groups
