"""Tables of rules: every rule is evaluated, and yields what is wrong with its subject."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from telic.errors import TelicError
from telic.studies.documents.candidate import CheckResult


class Problem(NamedTuple):
    """A problem that has a remedy of its own."""

    why: str
    remedy: str


Problems = Iterator[str | Problem]


class RuleResult(CheckResult):
    """The result of a rule; `remedy` names the remedy of its first problem, if it has one."""

    remedy: str = ""


class Rule(NamedTuple):
    """A row of a table: the meaning of a rule in a few words, and what is wrong with a subject."""

    title: str
    problems: Callable[[Any], Problems]
    question: str = "what should be done about it?"
    """asked of a person when it does not hold and nothing else helps"""


def run_rules(rules: Mapping[str, Rule], subject: Any) -> tuple[RuleResult, ...]:
    """Evaluate every rule of a table; one that cannot be evaluated does not hold."""
    results: list[RuleResult] = []
    for code, rule in rules.items():
        try:
            problems = list(rule.problems(subject))
        except TelicError as error:
            problems = [str(error)]
        found = [each if isinstance(each, Problem) else Problem(each, "") for each in problems]
        why, remedy = "; ".join(each.why for each in found), found[0].remedy if found else ""
        results.append(RuleResult(id=code, passed=not found, why=why, remedy=remedy))
    return tuple(results)
