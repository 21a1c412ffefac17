"""What a reward file defines: the base class, its memory, and the record of its formula."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Self, cast

import torch
from pydantic import Field
from torch import Tensor

from telic.core.config import Record
from telic.core.text import is_mapping, is_row
from telic.envs.vector import Info
from telic.errors import RewardError
from telic.rewards.source import Source
from telic.sandbox.source import source_lines

Device = torch.device | str

_HEADER = re.compile(
    r"^\W*(latex|formula|equation|(?:reward )?terms|args|returns)\b\W*?:\W*(.*)$", re.I
)
_ITEM = re.compile(
    r"^\s*(?:[-*•]\s*|\d+[.)]\s*)?[`*\"']*([A-Za-z_]\w*)[`*\"']*\s*(\([^)]*\))?\s*[:—–]\s*(.*)$"
)
_WEIGHT = re.compile(r"\b(?:weight|w)\s*[:=]\s*([-+]?\d*\.?\d+(?:e[-+]?\d+)?)", re.I)
_MATH = re.compile(r"\$\$?(.+?)\$\$?|\\\[(.+?)\\\]|\\\((.+?)\\\)", re.S)
_LONGEST = 5_000
_SUM = re.compile(r"^\s*[rR](?:_\w+|_\{.*?\}|\(.*?\))?\s*=.+$", re.M)


class RewardFunction:
    """Rewards N environments at once; derive from it and write `compute`.

    Class attributes, all optional:

        weights      named numbers that may be tuned; read them as self.weights["speed"]
        memory       named values that last for one episode, read and replaced by compute as
                     self.memory["turns"]. A number is the initial value of a tensor (N,), a
                     tuple of floats that of (N, k); ints such as (3,) are a shape: zeros (N, 3)
        memory_to    who sees the memory beside the observation: "critic", or "actor" for both;
                     names, as ("beat",): the policy sees these, the critic everything
        terms        {name: what it rewards}
        latex        the formula
        description  one or two sentences
    """

    # What rewards inherit is read-only: one dictionary serves them all. People write plain ones.
    weights: dict[str, float] = cast("dict[str, float]", MappingProxyType({}))
    memory: dict[str, Any] = cast("dict[str, Any]", MappingProxyType({}))
    memory_to: Literal["critic", "actor"] | tuple[str, ...] = "critic"
    terms: dict[str, str] = cast("dict[str, str]", MappingProxyType({}))
    latex: str = ""
    description: str = ""
    _initial_memory: dict[str, Tensor] = cast("dict[str, Tensor]", MappingProxyType({}))
    """set by the trainer with `memory`"""

    def __new__(cls, *_args: Any, **_kwargs: Any) -> Self:
        """Give every instance weights of its own, even where a subclass's __init__ forgets to."""
        instance = super().__new__(cls)
        instance.weights = dict(cls.weights)
        return instance

    def compute(
        self, obs: Tensor, action: Tensor, next_obs: Tensor, info: Info
    ) -> tuple[Any, dict[str, Any]]:
        """Return the total (N,) and its terms, each (N,), which sum to the total.

        Args:
            obs: (N, obs_dim) float32, what the policy acted on.
            action: (N, act_dim) float32, as applied; (N,) int64 where actions are discrete.
            next_obs: (N, obs_dim) float32, what it led to, before any reset.
            info: named tensors (N, ...) of this transition, e.g. info["x_velocity"].
        """
        raise NotImplementedError

    def described_terms(self) -> Any:
        """Return what its terms are, as `terms` may declare them."""
        return self.terms

    def reset(self, mask: Tensor) -> None:
        """Put the memory back to its initial values where an episode ended, mask (N,) bool."""
        reset_memory(self.memory, self._initial_memory, mask)


class RewardStep(NamedTuple):
    """What one step was worth."""

    total: Tensor  # (N,) float32
    terms: dict[str, Tensor]  # each (N,) float32; always the same names, in the same order


class TermSpec(Record):
    """One summand of a reward."""

    name: str
    description: str = ""
    latex: str | None = None
    weight: float | None = Field(default=None, description="the tunable weight of the same name")


class RewardSpec(Record):
    """A reward in words and formula; written as reward_spec.json."""

    latex: str = ""
    description: str = ""
    terms: tuple[TermSpec, ...] = ()


class RewardFinding(Record):
    """One thing worth knowing about a reward; training may start all the same."""

    name: str = Field(description="stable name of the kind of finding, e.g. looped")
    message: str = Field(description="what was seen, with numbers, and what to do")
    values: dict[str, float] = Field(default_factory=dict, description="the numbers")


def initial_memory(declared: Mapping[str, Any], device: Device) -> dict[str, Tensor]:
    """Return the initial values of declared memory, one row each: (1, ...) float32."""
    return {name: _initial_row(name, start).to(device) for name, start in declared.items()}


def reset_memory(memory: dict[str, Tensor], initial: dict[str, Tensor], mask: Tensor) -> None:
    """Put rows back to their initial values where `mask`, (N,) bool."""
    for name, row in initial.items():
        memory[name] = torch.where(mask.view(-1, *(1,) * (row.ndim - 1)), row, memory[name])


def _initial_row(name: str, start: Any) -> Tensor:
    if isinstance(start, int | float):
        return torch.tensor([float(start)])
    numbers = cast("tuple[Any, ...]", start) if isinstance(start, tuple) else ()
    if numbers and all(type(each) is int for each in numbers):
        return torch.zeros(1, *numbers)
    if numbers and all(isinstance(each, int | float) for each in numbers):
        return torch.tensor([numbers], dtype=torch.float32)
    raise RewardError(
        f'The memory "{name}" is declared as {start!r}.',
        hint="Write a number, its initial value, or a shape such as (3,).",
    )


def describe(owner: object, source: Source) -> RewardSpec:
    """Return a reward's record, as complete as its author made it.

    Args:
        owner: the object or function itself.
        source: its text.
    """
    weights: Mapping[str, float] = getattr(owner, "weights", None) or {}
    parsed = max(
        map(parse_docstring, _docstrings(source)),
        key=lambda spec: (len(spec.terms), bool(spec.latex), bool(spec.description)),
        default=RewardSpec(),
    )
    is_ours = isinstance(owner, RewardFunction)
    declared = owner.described_terms() if is_ours else getattr(owner, "terms", None)
    terms = list(_terms(declared)) or list(parsed.terms)
    return RewardSpec(
        latex=str(getattr(owner, "latex", "") or parsed.latex),
        description=str(getattr(owner, "description", "") or parsed.description),
        terms=tuple(_with_weight(each, weights) for each in terms),
    )


def parse_docstring(text: str) -> RewardSpec:
    """Read a docstring with a LaTeX line and a list of terms; what is not there stays empty."""
    parts: dict[str, list[str]] = {"description": [], "latex": [], "terms": [], "other": []}
    current = "description"
    for line in inspect.cleandoc(text[:_LONGEST]).splitlines():
        header = _HEADER.match(line)
        inside_item = current == "terms" and line.startswith(" ")
        if header and not inside_item:
            word = header[1].lower()
            current = (
                "terms" if "terms" in word else "other" if word in ("args", "returns") else "latex"
            )
            parts[current].append(header[2])
        elif not line.strip() and current == "latex" and any(parts["latex"]):
            current = "other"
        else:
            parts[current].append(line)
    description = "\n".join(parts["description"])
    section = "\n".join(parts["latex"])
    return RewardSpec(
        latex=" ".join((_formula(section) or section).split()) or _first_formula(description),
        description=" ".join(description.split("\n\n")[0].split()),
        terms=tuple(map(_term, _items(parts["terms"]))),
    )


def _items(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Yield (name, text) for each item of a list; other lines continue the item before."""
    name, text, indent = "", "", 0
    for line in lines:
        item = _ITEM.match(line)
        depth = len(line) - len(line.lstrip())
        starts = item is not None and (not name or depth <= indent)
        if starts and item and item[1].lower() not in ("latex", "equation", "formula"):
            if name:
                yield name, text
            name, text, indent = item[1], f"{item[2] or ''} {item[3]}", depth
        elif line.strip():
            text += " " + line.strip()
    if name:
        yield name, text


def _term(item: tuple[str, str]) -> TermSpec:
    name, text = item
    formula = _formula(text)
    weight = _WEIGHT.search(text)
    plain = re.sub(r"\b(?:latex|equation|formula)\s*:", "", _MATH.sub("", text), flags=re.I)
    plain = re.sub(r"\((?:weight|w)\s*[:=][^)]*\)", "", plain, flags=re.I)
    return TermSpec(
        name=name,
        description=" ".join(plain.split()).strip(" ,;:"),
        latex=None if formula is None else formula.strip(),
        weight=float(weight[1]) if weight else None,
    )


def _formula(text: str) -> str | None:
    """Return what stands between the first pair of math delimiters."""
    math = _MATH.search(text)
    return next(filter(None, math.groups())) if math else None


def _first_formula(text: str) -> str:
    """Return the formula in a text: between delimiters, else a line such as r = a + b."""
    formula = _formula(text)
    if formula is not None:
        return " ".join(formula.split())
    line = _SUM.search(text)
    return line[0].strip() if line else ""


def _docstrings(source: Source) -> list[str]:
    """Return the docstrings of a reward as they were typed: LaTeX is rarely escaped for Python."""
    texts: list[str] = []
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and node.body:
            match node.body[0]:
                case ast.Expr(value=ast.Constant(value=str()) as literal):
                    texts.append(_as_typed(literal, source))
                case _:
                    pass
    return texts


def _as_typed(node: ast.expr, source: Source) -> str:
    """Return the text between the quotes of a string literal, backslashes as they are."""
    lines = source_lines(source.text)
    literal = "\n".join(lines[node.lineno - 1 : node.end_lineno])
    quoted = re.search(r"([rRuUbB]*)(\"\"\"|'''|\"|')(.*)\2", literal, re.S)
    if quoted is None:
        return ""
    return quoted[3] if "r" in quoted[1].lower() else quoted[3].replace("\\\\", "\\")


def _terms(declared: Any) -> Iterator[TermSpec]:
    """Read terms declared as {name: text}, or as a list of names, pairs or dictionaries."""
    if is_mapping(declared):
        for name, value in declared.items():
            yield from _terms([{"name": name, **value} if is_mapping(value) else (name, value)])
        return
    for term in declared if is_row(declared) else ():
        if isinstance(term, str):
            yield TermSpec(name=term)
        elif is_mapping(term):
            yield TermSpec(**{k: v for k, v in term.items() if k in TermSpec.model_fields})
        elif is_row(term) and isinstance(cast("object", term), tuple) and len(term) == 2:
            yield TermSpec(name=term[0], description=str(term[1]))


def _with_weight(term: TermSpec, weights: Mapping[str, float]) -> TermSpec:
    weight = weights.get(term.name, term.weight)
    return term if weight is None else term.model_copy(update={"weight": float(weight)})
