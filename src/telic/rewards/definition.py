"""Find the reward that a source defines, and make independent instances of it."""

from __future__ import annotations

import ast
import copy
import inspect
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from telic.errors import RewardError
from telic.rewards.contract import RewardFinding, RewardFunction
from telic.rewards.source import Source

Call = Callable[[Any, Any, Any, Any], Any]
"""(obs, action, next_obs, info) -> (total, terms)"""


@dataclass(frozen=True, slots=True)
class Instance:
    """One living reward: what to call, and where it may keep state."""

    call: Call
    owner: Any
    """the object or function itself"""
    scope: dict[str, Any]
    """its own global names"""
    given: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """those global names that it did not make itself"""


class Definition:
    """A reward defined by the text of a module."""

    def __init__(
        self,
        source: Source,
        names: Mapping[str, Any],
        guard: Callable[[ast.Module], ast.Module] = lambda tree: tree,
    ) -> None:
        """Execute once and choose what is the reward.

        Args:
            source: the text.
            names: the global names the text may use.
            guard: changes a tree before it is compiled; untrusted code is restricted here.
        """
        self.source = source
        self.notes: list[RewardFinding] = []
        self._names = dict(names)
        self._imported = {
            alias.asname or alias.name.partition(".")[0]
            for node in source.tree.body
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
        }
        tree = guard(copy.deepcopy(source.tree))
        self._code = compile(tree, source.filename, "exec", dont_inherit=True)
        self.name = self._choose(self._execute())

    def create(self, weights: Mapping[str, float]) -> Instance:
        """Execute the text again: closures, globals and classes are then this instance's own."""
        scope = self._execute()
        imported = {name: scope[name] for name in self._imported if name in scope}
        return _instance(scope[self.name], weights, scope, {**self._names, **imported})

    def _execute(self) -> dict[str, Any]:
        scope = dict(self._names)
        exec(self._code, scope)
        if "reward_fn" not in scope and callable(scope.get("_make_reward")):
            scope["reward_fn"] = scope["_make_reward"]()
        return scope

    def _choose(self, scope: dict[str, Any]) -> str:
        own = {k: v for k, v in scope.items() if self._names.get(k) is not v}
        kinds = {name: value for name, value in own.items() if isinstance(value, type)}
        derived = [name for name, kind in kinds.items() if issubclass(kind, RewardFunction)]
        if derived:
            return self._last(derived)
        if "reward_fn" in own:
            return "reward_fn"
        similar = [name for name, kind in kinds.items() if callable(getattr(kind, "compute", None))]
        if similar:
            return self._last(similar)
        functions = [name for name, value in own.items() if isinstance(value, types.FunctionType)]
        raise RewardError(
            f"{self.source.label} defines no reward"
            + (f" (only {', '.join(functions)})." if functions else "."),
            hint="Define a class with compute(self, obs, action, next_obs, info) deriving from "
            "RewardFunction, or a function reward_fn(obs, action, next_obs, info).",
        )

    def _last(self, names: list[str]) -> str:
        if len(names) > 1:
            message = f"{self.source.label} defines {', '.join(names)}; the last one is used."
            self.notes.append(RewardFinding(name="several_rewards", message=message))
        return names[-1]


def _instance(
    target: Any,
    weights: Mapping[str, float],
    scope: dict[str, Any],
    given: Mapping[str, Any],
) -> Instance:
    if isinstance(target, type):
        target = _construct(target, weights)
    elif weights:
        target.weights = {**target.weights, **weights}
    function = getattr(target, "compute", target)
    if not callable(function):
        raise RewardError(f"reward_fn is {type(target).__name__}, not a function.")
    return Instance(_four_arguments(function), target, scope, given)


def _construct(kind: Any, weights: Mapping[str, float]) -> Any:
    """Build an instance whose weights are in place before its __init__ reads them."""
    needed = [
        each.name
        for each in list(inspect.signature(kind.__init__).parameters.values())[1:]
        if each.default is each.empty
        and each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)
    ]
    if needed:
        raise RewardError(
            f"{kind.__name__}.__init__ needs {', '.join(needed)}.",
            hint="Give every argument of __init__ a default.",
        )
    instance = kind.__new__(kind)
    own = getattr(kind, "weights", None)
    if not isinstance(own, property):
        instance.weights = {**(own or {}), **weights}
    kind.__init__(instance)
    return instance


def _four_arguments(function: Callable[..., Any]) -> Call:
    """Return the function as (obs, action, next_obs, info), also if it takes the simulator too."""
    parameters = inspect.signature(function).parameters.values()
    kinds = {each.kind for each in parameters}
    places = [
        each
        for each in parameters
        if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
    ]
    required = [each for each in places if each.default is each.empty]
    if len(required) == 6 or [each.name for each in places[4:]] == ["mj_data", "mj_model"]:
        return lambda obs, action, next_obs, info: function(
            obs, action, next_obs, info, info["mj_data"], info["mj_model"]
        )
    takes_more = inspect.Parameter.VAR_POSITIONAL in kinds
    if len(required) > 4 or (len(places) < 4 and not takes_more):
        names = ", ".join(each.name for each in places)
        raise RewardError(
            f"{getattr(function, '__name__', 'The reward')} takes ({names}).",
            hint="It must take (obs, action, next_obs, info).",
            line=getattr(getattr(function, "__code__", None), "co_firstlineno", None),
        )
    return function
