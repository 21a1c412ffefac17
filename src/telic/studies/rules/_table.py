"""Tables of rules. Every rule is evaluated and yields the problems of its subject."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from telic.errors import TelicError
from telic.studies.documents.candidate import CheckResult


class Problem(NamedTuple):
    """Problem of a subject, with the name of the remedy."""

    why: str
    remedy: str = ""


Problems = Iterator[str | Problem]
_Function = TypeVar("_Function", bound=Callable[..., Problems])


class RuleResult(CheckResult):
    """Result of a rule. `remedy` is the name of the remedy for the first problem, if any."""

    remedy: str = ""


class Rule(NamedTuple):
    """Rule with a title, a remedy, and a function that yields the problems of a subject."""

    title: str
    fix: str
    problems: Callable[[Any], Problems]


def rule(table: dict[str, Rule], code: str, title: str, fix: str) -> Callable[..., Any]:
    """Add a function, which yields the problems of a subject, to a rule table (decorator)."""

    def enter(function: _Function) -> _Function:
        table[code] = Rule(title, fix, function)
        return function

    return enter


def run_rules(rules: Mapping[str, Rule], subject: Any) -> tuple[RuleResult, ...]:
    """Evaluate every rule of a table. A rule that cannot be evaluated fails."""
    results: list[RuleResult] = []
    for code, each in rules.items():
        try:
            found = [Problem(x) if isinstance(x, str) else x for x in each.problems(subject)]
        except TelicError as error:
            found = [Problem(str(error))]
        why, remedy = "; ".join(x.why for x in found), found[0].remedy if found else ""
        result = {"id": code, "title": each.title, "passed": not found, "why": why}
        results.append(RuleResult(**result, remedy=remedy))
    return tuple(results)
