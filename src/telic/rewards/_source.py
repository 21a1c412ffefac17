"""The text of a reward: what can be read from it, the reward it defines, and its description."""

from __future__ import annotations

import ast
import copy
import inspect
import re
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

from telic.core.text import is_mapping, is_row
from telic.errors import RewardError
from telic.rewards.contract import RewardFinding, RewardFunction, RewardSpec, TermSpec
from telic.sandbox.allowed import words
from telic.sandbox.source import source_lines

_REDUCTIONS = words("sum mean max min amax amin std var prod norm any all median")
_DIMENSION = words("dim axis keepdim keepdims")
_LONGEST = 5_000
_TERMS = re.compile(r"^\W*(?:reward )?terms\b\W*:\W*$", re.I | re.M)
_END = re.compile(r"^\W*(?:args|returns)\b\W*:", re.I | re.M)
_FORMULA = re.compile(
    r"^\W*(?:latex|formula|equation)\W*:\s*(.+?)(?=\n\s*\n|\Z)", re.I | re.M | re.S
)
_ITEM = re.compile(
    r"^\s*(?:[-*•]\s*|\d+[.)]\s*)?[`*\"']*([A-Za-z_]\w*)[`*\"']*\s*(\([^)]*\))?\s*[:—–]\s*(.*)$"
)
_WEIGHT = re.compile(r"\(?\b(?:weight|w)\s*[:=]\s*([-+]?\d*\.?\d+(?:e[-+]?\d+)?)\)?", re.I)
_MATH = re.compile(r"\$\$?(.+?)\$\$?|\\\[(.+?)\\\]|\\\((.+?)\\\)", re.S)
_SUM = re.compile(r"^\s*[rR](?:_\w+|_\{.*?\}|\(.*?\))?\s*=.+$", re.M)
Call = Callable[[Any, Any, Any, Any], Any]
"""(obs, action, next_obs, info) -> (total, terms)"""
_CHANCE = ("random.", "time.", "datetime.", "np.random.", "numpy.random.", "torch.rand")


class Place(NamedTuple):
    """A line of the source, and the name or expression of interest on it."""

    line: int
    what: str


class Source:
    """Text of a reward, and the facts that messages about it need."""

    def __init__(self, text: str, label: str, filename: str) -> None:
        """Parse a text.

        Args:
            text: the source code.
            label: how messages call it, e.g. reward.py.
            filename: how tracebacks call it; unique.
        """
        self.text, self.label, self.filename = text, label, filename
        self.tree = ast.parse(text)
        self._nodes = list(ast.walk(self.tree))
        self.strings = frozenset(
            each.value
            for each in self._nodes
            if isinstance(each, ast.Constant) and isinstance(each.value, str)
        )
        """every string constant: info values are named by some of these"""
        self.is_batched = any(map(_is_batched, self._nodes))
        """whether something shows that the author meant all environments at once"""
        self.keys: dict[str, int] = {}
        """every constant dictionary key: the line its value is on"""
        self.terms: dict[str, int] = {}
        """those of the dictionary that is returned"""
        self._find_terms()

    def line(self, number: int) -> str:
        """Return one line of the text, without its indentation."""
        lines = source_lines(self.text)
        return lines[number - 1].strip() if 0 < number <= len(lines) else ""

    def term_line(self, name: str) -> int | None:
        """Return the line on which a term gets its value."""
        return self.terms.get(name, self.keys.get(name))

    def written_line(self, name: str) -> int | None:
        """Return the last line on which a variable or attribute is set."""
        lines = [
            node.lineno
            for node in self._nodes
            if (isinstance(node, ast.Name) and node.id == name)
            or (isinstance(node, ast.Attribute) and node.attr == name)
            if isinstance(node.ctx, ast.Store)
        ]
        return max(lines, default=None)

    def optional_info(self) -> list[Place]:
        """Return names read with `info.get`, whose default hides that they may not exist."""
        return [
            Place(node.lineno, str(node.args[0].value))
            for node in self._nodes
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "info.get"
            if node.args and isinstance(node.args[0], ast.Constant)
        ]

    def reduction(self) -> Place | None:
        """Return the first sum, mean, … over everything, environments included."""
        for node in self._nodes:
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            callee = ast.unparse(node.func)
            named = {each.arg for each in node.keywords} & _DIMENSION
            values = int(callee.startswith(("torch.", "np.", "numpy.")))
            if node.func.attr in _REDUCTIONS and len(node.args) == values and not named:
                return Place(node.lineno, ast.unparse(node))
        return None

    def chance(self) -> Place | None:
        """Return the first use of random numbers or of the clock."""
        for node in self._nodes:
            if isinstance(node, ast.Attribute):
                name = ast.unparse(node)
                if name.startswith(_CHANCE) or name == "torch.normal":
                    return Place(node.lineno, name)
        return None

    def _find_terms(self) -> None:
        returned = {
            second.id if isinstance(second, ast.Name) else ""
            for node in self._nodes
            if isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple)
            for second in node.value.elts[1:2]
        }
        in_functions = {
            id(inner)
            for outer in self._nodes
            if isinstance(outer, ast.FunctionDef | ast.Lambda)
            for inner in ast.walk(outer)
        }
        for key, node, owner in _dictionary_keys(self._nodes):
            self.keys.setdefault(key, node.lineno)
            if owner in returned and id(node) in in_functions:
                self.terms.setdefault(key, node.lineno)


def _is_batched(node: ast.AST) -> bool:
    match node:
        case ast.Name(id="torch") | ast.keyword(arg="dim" | "keepdim"):
            return True
        case ast.Subscript(slice=ast.Tuple(elts=[ast.Slice(None, None, None), *_])):
            return True
        case ast.Subscript(slice=ast.Tuple(elts=[ast.Constant(value=first), *_])):
            return first is Ellipsis
        case ast.ClassDef():
            stored = (each for line in node.body for each in ast.walk(line))
            return any(
                isinstance(each, ast.Name)
                and each.id in ("memory", "weights")
                and isinstance(each.ctx, ast.Store)
                for each in stored
            )
        case _:
            return False


def _owners(nodes: list[ast.AST]) -> dict[int, str]:
    """Return the name each expression is assigned to, by the id of its node; "" when returned."""
    owners: dict[int, str] = {}
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=name), *_], value=value):
                owners[id(value)] = name
            case ast.AnnAssign(target=ast.Name(id=name), value=value):
                owners[id(value)] = name
            case ast.Return(value=ast.Tuple(elts=values)):
                owners.update(dict.fromkeys(map(id, values), ""))
            case _:
                pass
    return owners


def _dictionary_keys(nodes: list[ast.AST]) -> Iterator[tuple[str, ast.expr, str | None]]:
    """Yield (key, its value or place, name of the dictionary) for constant keys."""
    owners = _owners(nodes)
    for node in nodes:
        match node:
            case ast.Dict():
                for key, value in zip(node.keys, node.values, strict=True):
                    if isinstance(key, ast.Constant) and isinstance(key.value, str):
                        yield key.value, value, owners.get(id(node))
            case ast.Call(func=ast.Name(id="dict")):
                for keyword in node.keywords:
                    if keyword.arg:
                        yield keyword.arg, keyword.value, owners.get(id(node))
            case ast.Subscript(ctx=ast.Store(), slice=ast.Constant(value=str() as key)):
                target = node.value
                yield key, node, target.id if isinstance(target, ast.Name) else None
            case _:
                pass


# ---- the reward that a text defines


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
            return self._last([name for name in derived if name not in self._imported] or derived)
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


# ---- words and formula


def describe(owner: object, source: Source) -> RewardSpec:
    """Return a reward's record: what it declares, else what its docstrings say."""
    weights: Mapping[str, float] = getattr(owner, "weights", None) or {}
    parsed = max(
        map(parse_docstring, _docstrings(source)),
        key=lambda spec: (len(spec.terms), bool(spec.latex), bool(spec.description)),
        default=RewardSpec(),
    )
    is_ours = isinstance(owner, RewardFunction)
    declared = owner.described_terms() if is_ours else getattr(owner, "terms", None)
    terms = list(_declared_terms(declared)) or list(parsed.terms)
    return RewardSpec(
        latex=str(getattr(owner, "latex", "") or parsed.latex),
        description=str(getattr(owner, "description", "") or parsed.description),
        terms=tuple(
            each.model_copy(update={"weight": float(weights[each.name])})
            if each.name in weights
            else each
            for each in terms
        ),
    )


def parse_docstring(text: str) -> RewardSpec:
    """Read a docstring with a formula and a list of terms; what is not there stays empty."""
    text = _END.split(inspect.cleandoc(text[:_LONGEST]))[0]
    head, *listed = _TERMS.split(text, maxsplit=1)
    named = _FORMULA.search(head)
    line = _SUM.search(head)
    latex = _math(named[1]) or named[1] if named else _math(head) or (line[0] if line else "")
    words = head[: named.start()] if named else head
    return RewardSpec(
        latex=" ".join(latex.split()),
        description=" ".join(words.split("\n\n")[0].split()),
        terms=tuple(_listed_terms(listed[0].splitlines() if listed else ())),
    )


def _math(text: str) -> str:
    """Return what stands between the first pair of math delimiters."""
    found = _MATH.search(text)
    return next(filter(None, found.groups())).strip() if found else ""


def _listed_terms(lines: Sequence[str]) -> Iterator[TermSpec]:
    """Yield the terms of a list; lines that are deeper continue the item before."""
    items: list[tuple[str, str]] = []
    indent = 0
    for line in lines:
        item, depth = _ITEM.match(line), len(line) - len(line.lstrip())
        if item is not None and (not items or depth <= indent):
            items.append((item[1], f"{item[2] or ''} {item[3]}"))
            indent = depth
        elif items:
            items[-1] = (items[-1][0], f"{items[-1][1]} {line.strip()}")
    for name, text in items:
        weight = _WEIGHT.search(text)
        plain = re.sub(r"\b(?:latex|equation|formula)\s*:", "", _MATH.sub("", text), flags=re.I)
        yield TermSpec(
            name=name,
            description=" ".join(_WEIGHT.sub("", plain).split()).strip(" ,;:"),
            latex=_math(text) or None,
            weight=float(weight[1]) if weight else None,
        )


def _docstrings(source: Source) -> Iterator[str]:
    """Yield the docstrings of a reward as they were typed: LaTeX is rarely escaped for Python."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and node.body:
            match node.body[0]:
                case ast.Expr(value=ast.Constant(value=str()) as literal):
                    lines = source_lines(source.text)[literal.lineno - 1 : literal.end_lineno]
                    quoted = re.search(
                        r"([rRuUbB]*)(\"\"\"|'''|\"|')(.*)\2", "\n".join(lines), re.S
                    )
                    if quoted is not None:
                        raw = "r" in quoted[1].lower()
                        yield quoted[3] if raw else quoted[3].replace("\\\\", "\\")
                case _:
                    pass


def _declared_terms(declared: Any) -> Iterator[TermSpec]:
    """Read terms declared as {name: text}, or as a list of names, pairs or dictionaries."""
    if is_mapping(declared):
        declared = [
            {"name": name, **value} if is_mapping(value) else (name, value)
            for name, value in declared.items()
        ]
    for term in declared if is_row(declared) else ():
        if isinstance(term, str):
            yield TermSpec(name=term)
        elif is_mapping(term):
            yield TermSpec(**{k: v for k, v in term.items() if k in TermSpec.model_fields})
        elif is_row(term) and isinstance(cast("object", term), tuple) and len(term) == 2:
            yield TermSpec(name=term[0], description=str(term[1]))
