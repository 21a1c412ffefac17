"""Cut the marks of an intent into clauses, in the order they are to be done."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from telic.composer.scan import Mark
from telic.composer.verbs import is_acting

_STRENGTH = {"start": 0, "and": 1, "stop": 2, "then": 3, "after": 3, "before": 3}


@dataclass(slots=True)
class Clause:
    """Marks between two joining words."""

    join: str
    """how it follows the clause before: start, and, stop, then, after, before"""
    marks: list[Mark] = field(default_factory=list)

    @property
    def acts(self) -> bool:
        """Whether it has a verb of its own, not only one that keeps something."""
        return any(is_acting(mark) for mark in self.marks)


@dataclass(slots=True)
class Cut:
    """Groups of clauses, each done together and one after the other, and the words that cut."""

    groups: list[list[Clause]]
    joints: set[int]


def cut(marks: Iterable[Mark]) -> Cut:
    """Return the clauses in the order of doing: "stand after jumping" is jump, then stand."""
    clauses, joints = _clauses(marks)
    groups: list[list[Clause]] = []
    for clause in clauses:
        # A full stop between "run" and "keep upright" does not make the second come later.
        later = clause.join in ("then", "after") or (clause.join == "stop" and clause.acts)
        if later or not groups:
            groups.append([clause])
        else:
            groups[-1].append(clause)
    return Cut(_in_order(groups), joints)


def _clauses(marks: Iterable[Mark]) -> tuple[list[Clause], set[int]]:
    clauses = [Clause("start")]
    joints: set[int] = set()
    blocked = False
    for mark in marks:
        if mark.is_join("negation") and mark.slot == "join":
            blocked = True  # what is not to be done must not be read as something to do
        elif mark.slot == "join":
            blocked = False
            joints.update(mark.at)
            _start_clause(clauses, _join(mark, is_first=not any(c.marks for c in clauses)))
        elif not blocked:
            clauses[-1].marks.append(mark)
    return [clause for clause in clauses if clause.marks], joints


def _start_clause(clauses: list[Clause], join: str) -> None:
    """Open a clause, or keep the stronger of two joining words in a row (", and then")."""
    if clauses[-1].marks:
        clauses.append(Clause(join))
    elif _STRENGTH[join] > _STRENGTH[clauses[-1].join]:
        clauses[-1].join = join


def _join(mark: Mark, is_first: bool) -> str:
    values = [sense.value for sense in mark.senses]
    if "before" in values:
        return "before" if is_first else "then"
    return values[0]


def _in_order(groups: list[list[Clause]]) -> list[list[Clause]]:
    for k in range(1, len(groups)):
        if groups[k][0].join == "after":
            groups[k - 1], groups[k] = groups[k], groups[k - 1]
    if groups and len(groups[0]) > 1 and groups[0][0].join in ("before", "after"):
        first, rest = groups[0][:1], groups[0][1:]
        groups[:1] = [rest, first] if first[0].join == "before" else [first, rest]
    return groups
