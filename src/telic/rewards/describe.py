"""Read a reward's formula, terms and description from its attributes or its docstring."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any

from telic.rewards.contract import RewardSpec, TermSpec
from telic.rewards.definition import Instance, Source

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


def describe(instance: Instance, source: Source | None) -> RewardSpec:
    """Return a reward's record, as complete as its author made it."""
    owner = instance.owner
    weights = getattr(owner, "weights", None) or {}
    parsed = max(
        (parse_docstring(each) for each in _docstrings(instance, source)),
        key=lambda spec: (len(spec.terms), bool(spec.latex), bool(spec.description)),
        default=RewardSpec(),
    )
    terms = list(_terms(getattr(owner, "terms", None))) or list(parsed.terms)
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
    latex = _only_math("\n".join(parts["latex"])) or _first_formula(description)
    return RewardSpec(
        latex=latex,
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
    formula = _MATH.search(text)
    weight = _WEIGHT.search(text)
    plain = re.sub(r"\b(?:latex|equation|formula)\s*:", "", _MATH.sub("", text), flags=re.I)
    plain = re.sub(r"\((?:weight|w)\s*[:=][^)]*\)", "", plain, flags=re.I)
    return TermSpec(
        name=name,
        description=" ".join(plain.split()).strip(" ,;:"),
        latex=next(filter(None, formula.groups())).strip() if formula else None,
        weight=float(weight[1]) if weight else None,
    )


def _only_math(text: str) -> str:
    found = _MATH.search(text)
    return " ".join((next(filter(None, found.groups())) if found else text).split())


def _first_formula(text: str) -> str:
    found = _MATH.search(text)
    if found:
        return " ".join(next(filter(None, found.groups())).split())
    line = _SUM.search(text)
    return line[0].strip() if line else ""


def _docstrings(instance: Instance, source: Source | None) -> list[str]:
    """Return the docstrings of a reward as they were typed: LaTeX is rarely escaped for Python."""
    if source is None:
        return [inspect.getdoc(each) or "" for each in (instance.owner, instance.call)]
    found: list[str] = []
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and node.body:
            match node.body[0]:
                case ast.Expr(value=ast.Constant(value=str()) as literal):
                    found.append(_as_typed(literal, source))
                case _:
                    pass
    return found


def _as_typed(node: ast.expr, source: Source) -> str:
    """Return the text between the quotes of a string literal, backslashes as they are."""
    lines = source.text.splitlines()
    first, last = node.lineno - source.first_line, (node.end_lineno or 0) - source.first_line
    literal = "\n".join(lines[first : last + 1])
    found = re.search(r"([rRuUbB]*)(\"\"\"|'''|\"|')(.*)\2", literal, re.S)
    if found is None:
        return ""
    return found[3] if "r" in found[1].lower() else found[3].replace("\\\\", "\\")


def _terms(declared: Any) -> Iterator[TermSpec]:
    """Read terms declared as {name: text}, or as a list of names, pairs or dictionaries."""
    if isinstance(declared, Mapping):
        for name, value in declared.items():
            yield from _terms(
                [{"name": name, **value} if isinstance(value, Mapping) else (name, value)]
            )
        return
    for each in declared if isinstance(declared, list | tuple) else ():
        if isinstance(each, str):
            yield TermSpec(name=each)
        elif isinstance(each, Mapping):
            yield TermSpec(**{k: v for k, v in each.items() if k in TermSpec.model_fields})
        elif isinstance(each, tuple) and len(each) == 2:
            yield TermSpec(name=each[0], description=str(each[1]))


def _with_weight(term: TermSpec, weights: Mapping[str, float]) -> TermSpec:
    weight = weights.get(term.name, term.weight)
    return term if weight is None else term.model_copy(update={"weight": float(weight)})
