"""Tables of rules: every rule is evaluated, and yields what is wrong with its subject."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from telic.errors import TelicError
from telic.studies.documents.candidate import CheckResult


class Problem(NamedTuple):
    """A problem, with the name of a remedy of its own."""

    why: str
    remedy: str = ""


Problems = Iterator[str | Problem]
_Function = TypeVar("_Function", bound=Callable[..., Problems])


class RuleResult(CheckResult):
    """The result of a rule; `remedy` names the remedy of its first problem, if it has one."""

    remedy: str = ""


class Rule(NamedTuple):
    """A row of a table: the meaning of a rule, what would mend it, and what is wrong."""

    title: str
    mend: str
    problems: Callable[[Any], Problems]


def rule(table: dict[str, Rule], code: str, title: str, mend: str) -> Callable[..., Any]:
    """Enter a function in a table of rules; it yields what is wrong with a subject."""

    def enter(function: _Function) -> _Function:
        table[code] = Rule(title, mend, function)
        return function

    return enter


def run_rules(rules: Mapping[str, Rule], subject: Any) -> tuple[RuleResult, ...]:
    """Evaluate every rule of a table; one that cannot be evaluated does not hold."""
    results: list[RuleResult] = []
    for code, each in rules.items():
        try:
            found = [Problem(x) if isinstance(x, str) else x for x in each.problems(subject)]
        except TelicError as error:
            found = [Problem(str(error))]
        why, remedy = "; ".join(x.why for x in found), found[0].remedy if found else ""
        results.append(RuleResult(id=code, passed=not found, why=why, remedy=remedy))
    return tuple(results)
