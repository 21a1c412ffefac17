"""What changed between two rewards, term by term, read from their texts without running them."""

from __future__ import annotations

import ast
import copy
import difflib
import warnings
from typing import Literal

from pydantic import Field

from telic.core.config import Record
from telic.rewards.contract import RewardSpec
from telic.rewards.reward import Reward
from telic.rewards.scan import scan

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


class RewardText(Record):
    """A reward as it lies in a run folder: text, record and weights."""

    name: str
    text: str
    spec: RewardSpec
    weights: dict[str, float] = Field(default_factory=dict)

    @classmethod
    def of(cls, reward: Reward) -> RewardText:
        """Return a loaded reward as data."""
        return cls(
            name=reward.name, text=reward.source or "", spec=reward.spec, weights=reward.weights
        )


def compare_rewards(before: RewardText | Reward, after: RewardText | Reward) -> RewardDifference:
    """Return what changed from one reward to another."""
    before = RewardText.of(before) if isinstance(before, Reward) else before
    after = RewardText.of(after) if isinstance(after, Reward) else after
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
        source=_unified(before.text, after.text),
    )


def formula(tree: ast.AST, term: str) -> str | None:
    """Return the code of a term with the names it is made of put in; None: not found."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            value = _value_of(function, term)
            if value is not None:
                names = _single_assignments(function)
                return ast.unparse(_Expander(names).visit(copy.deepcopy(value)))
    return None


def _terms(reward: RewardText) -> dict[str, tuple[str | None, str | None]]:
    """Return (description, formula) of every term, described or returned."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # LaTeX in ordinary strings
        tree = ast.parse(reward.text)
    described = {term.name: term.description for term in reward.spec.terms}
    names = dict.fromkeys((*described, *scan(tree).terms))
    return {name: (described.get(name), formula(tree, name)) for name in names}


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
