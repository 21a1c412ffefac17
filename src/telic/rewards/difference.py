"""What changed between two rewards, term by term."""

from __future__ import annotations

import ast
import copy
import difflib
from typing import Literal

from pydantic import Field

from telic.core.config import Record
from telic.rewards.definition import Source
from telic.rewards.reward import Reward

Change = Literal["added", "removed", "changed", "same"]
_LARGEST = 200
"""names put into one formula; more would not be read, and could be made to grow without end"""


class TermDifference(Record):
    """One term in two rewards."""

    name: str
    change: Change
    description: tuple[str | None, str | None] = Field(description="before and after")
    formula: tuple[str | None, str | None] = Field(description="its code, before and after")


class WeightDifference(Record):
    """One weight in two rewards; None where it does not exist."""

    name: str
    before: float | None
    after: float | None


class RewardDifference(Record):
    """What changed from one reward to another."""

    names: tuple[str, str]
    latex: tuple[str, str] = Field(description="before and after")
    terms: tuple[TermDifference, ...]
    weights: tuple[WeightDifference, ...] = Field(description="only those that differ")
    source: str = Field(description="unified difference of the texts; empty: the same")

    @property
    def is_empty(self) -> bool:
        """Whether nothing changed."""
        return not (self.weights or self.source or any(x.change != "same" for x in self.terms))


def compare_rewards(before: Reward, after: Reward) -> RewardDifference:
    """Return what changed from one reward to another."""
    first, second = _terms(before), _terms(after)
    return RewardDifference(
        names=(before.name, after.name),
        latex=(before.spec.latex, after.spec.latex),
        terms=tuple(
            _term(name, first.get(name), second.get(name))
            for name in dict.fromkeys((*first, *second))
        ),
        weights=tuple(
            WeightDifference(name=n, before=before.weights.get(n), after=after.weights.get(n))
            for n in dict.fromkeys((*before.weights, *after.weights))
            if before.weights.get(n) != after.weights.get(n)
        ),
        source=_unified(before.source or "", after.source or ""),
    )


def formula(source: Source | None, term: str) -> str | None:
    """Return the code of a term with the names it is made of put in; None: not found."""
    if source is None:
        return None
    for function in ast.walk(source.tree):
        if isinstance(function, ast.FunctionDef):
            value = _value_of(function, term)
            if value is not None:
                return ast.unparse(
                    _Expander(_single_assignments(function)).visit(copy.deepcopy(value))
                )
    return None


def _terms(reward: Reward) -> dict[str, tuple[str | None, str | None]]:
    """Return (description, formula) of every term, described or returned."""
    source = reward.definition.source if reward.definition else None
    described = {term.name: term.description for term in reward.spec.terms}
    names = dict.fromkeys((*described, *reward.term_names))
    return {name: (described.get(name), formula(source, name)) for name in names}


def _term(
    name: str,
    before: tuple[str | None, str | None] | None,
    after: tuple[str | None, str | None] | None,
) -> TermDifference:
    change: Change = "same" if before == after else "changed"
    if before is None or after is None:
        change = "added" if before is None else "removed"
    old, new = before or (None, None), after or (None, None)
    return TermDifference(
        name=name, change=change, description=(old[0], new[0]), formula=(old[1], new[1])
    )


def _value_of(function: ast.FunctionDef, term: str) -> ast.expr | None:
    for node in ast.walk(function):
        match node:
            case ast.Dict():
                for key, value in zip(node.keys, node.values, strict=True):
                    if isinstance(key, ast.Constant) and key.value == term:
                        return value
            case ast.Assign(targets=[ast.Subscript(slice=ast.Constant(value=key))], value=value):
                if key == term:
                    return value
            case _:
                pass
    return None


def _single_assignments(function: ast.FunctionDef) -> dict[str, ast.expr]:
    """Return the values of names that are assigned exactly once."""
    values: dict[str, ast.expr] = {}
    stored = [
        each.id
        for each in ast.walk(function)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
    ]
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if stored.count(name) == 1:
                values[name] = value
            case _:
                pass
    return values


class _Expander(ast.NodeTransformer):
    """Puts the values of names in their place."""

    def __init__(self, names: dict[str, ast.expr]) -> None:
        self._names = names
        self._left = _LARGEST
        self._open: set[str] = set()

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """Replace one name, and the names within its value."""
        if node.id not in self._names or node.id in self._open or self._left <= 0:
            return node
        self._left -= 1
        self._open.add(node.id)
        value = self.visit(copy.deepcopy(self._names[node.id]))
        self._open.discard(node.id)
        return value


def _unified(before: str, after: str) -> str:
    lines = difflib.unified_diff(
        before.splitlines(), after.splitlines(), "before", "after", lineterm=""
    )
    return "\n".join(lines)
