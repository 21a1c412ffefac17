"""Named parts of a reward: their code and their weights, linked both ways."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

from telic.studies.scan.context import Scan
from telic.studies.scan.records import RewardTerm
from telic.studies.scan.syntax import Assignment, ModuleFacts

TERM_CALLS: dict[str, re.Pattern[str]] = {
    "reward": re.compile(r"^Rew(ard)?s?_?Term(s?)(Cfg|Config)?$"),
    "termination": re.compile(r"^(Done|Termination)s?_?Term(Cfg|Config)?$"),
    "curriculum": re.compile(r"^Curr(iculum)?_?Term(Cfg|Config)?$"),
    "randomization": re.compile(r"^(Event|Rand(omization)?)_?Term(Cfg|Config)?$"),
}
_WEIGHTS = re.compile(
    r"(^|[._])(scales?|weights?|reward_scales|reward_weights|rewards?_coef\w*)$", re.I
)
_REWARD_SCOPE = re.compile(r"rew", re.I)
_METHOD = re.compile(r"^_?reward_(\w+)$|^_?rew_(\w+)$")
_MOST = 200


class Weight(NamedTuple):
    """A weight as it is written somewhere."""

    name: str
    where: str
    value: float | None


def find_terms(scan: Scan) -> tuple[RewardTerm, ...]:
    """Return every term with the place of its code and of its weight, whichever exist."""
    codes = dict(_codes(scan))
    terms: dict[str, RewardTerm] = {}
    for name, weight, function in _weights(scan):
        code = codes.get(function) or codes.get(name)
        terms.setdefault(
            name, RewardTerm(name=name, code=code, weight=weight.where, value=weight.value)
        )
    covered = {term.code for term in terms.values()}
    for name, where in _method_codes(scan):
        if name not in terms and where not in covered:
            terms[name] = RewardTerm(name=name, code=where)
    return tuple(terms[name] for name in sorted(terms))[:_MOST]


def _codes(scan: Scan) -> Iterator[tuple[str, str]]:
    """Functions a term may be made of, by name; `_reward_x` also counts as `x`."""
    for path in scan.source_files:
        for function in scan.repository.modules[path].functions:
            yield function.name, f"{path}:{function.line}"
            match = _METHOD.match(function.name)
            if match:
                yield match[1] or match[2], f"{path}:{function.line}"


def _method_codes(scan: Scan) -> Iterator[tuple[str, str]]:
    for path in scan.source_files:
        for function in scan.repository.modules[path].functions:
            match = _METHOD.match(function.name)
            if match and function.scope and function.name.startswith("_"):
                yield match[1] or match[2], f"{path}:{function.line}"


def _weights(scan: Scan) -> Iterator[tuple[str, Weight, str]]:
    """Term name, its weight, and the function its configuration names."""
    for path in scan.source_files:
        facts = scan.repository.modules[path]
        yield from _from_term_objects(path, facts)
        for each in facts.assignments:
            yield from _from_scales(path, each)
        for call in facts.calls:
            if call.last in {"create", "dict", "ConfigDict"}:
                yield from _from_table(call.scope, call.keywords, f"{path}:{call.line}")
    for path, keys in scan.settings.yaml.items():
        if scan.tree.weight(path) < 0.5:
            continue
        in_folder = re.search(r"(^|/)rewards?/", path)
        for key in keys:
            owner = key.path.rpartition(".")[0]
            if (
                _is_weight(key.value)
                and _WEIGHTS.search(owner)
                and (in_folder or _REWARD_SCOPE.search(owner))
            ):
                yield key.last, Weight(key.last, f"{path}:{key.line}", float(key.value)), key.last


def _from_term_objects(path: str, facts: ModuleFacts) -> Iterator[tuple[str, Weight, str]]:
    named = {
        each.line: each.target.rpartition(".")[2]
        for each in facts.assignments
        if isinstance(each.value, str) and each.value.startswith("<")
    }
    for call in facts.calls:
        if not TERM_CALLS["reward"].search(call.last):
            continue
        function = call.keywords.get("func", call.args[0] if call.args else "")
        code = function.strip("<>").rpartition(".")[2] if isinstance(function, str) else ""
        name = named.get(call.line) or code
        weight = call.keywords.get("weight")
        value = float(weight) if isinstance(weight, int | float) else None
        if name:
            yield name, Weight(name, f"{path}:{call.line}", value), code


def _from_scales(path: str, each: Assignment) -> Iterator[tuple[str, Weight, str]]:
    """`class rewards: class scales: x = 1.0`, and dictionaries called scales."""
    owner = each.scope
    if _WEIGHTS.search(owner) and _REWARD_SCOPE.search(owner) and _is_weight(each.value):
        yield (
            each.target,
            Weight(each.target, f"{path}:{each.line}", float(each.value)),
            each.target,
        )
    whole: dict[str, Any] = each.keywords or {}
    if isinstance(each.value, dict):
        whole = cast("dict[str, Any]", each.value)
    yield from _from_table(f"{owner}.{each.target}", whole, f"{path}:{each.line}")


def _from_table(owner: str, table: dict[str, Any], where: str) -> Iterator[tuple[str, Weight, str]]:
    """Weights in nested dictionaries: the path must speak of rewards and end in weights."""
    speaks = _WEIGHTS.search(owner) and _REWARD_SCOPE.search(owner)
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _from_table(f"{owner}.{name}", cast("dict[str, Any]", value), where)
        elif speaks and _is_weight(value):
            yield name, Weight(name, where, float(value)), name


def _is_weight(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
