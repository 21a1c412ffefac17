"""V04 to V08: the change stays inside what the contract allows."""

from __future__ import annotations

import math
from typing import Any

from telic.studies.documents.candidate import Override
from telic.studies.documents.contract import ParamRange
from telic.studies.patch import first_match
from telic.studies.rules.case import CandidateCase, RuleFinding


def kind_in_scope(case: CandidateCase) -> RuleFinding:
    """V04: the kind of change was agreed on; a baseline always is."""
    kind, agreed = case.candidate.kind, case.study.contract.scope.kinds
    if kind == "baseline" or kind in agreed:
        return RuleFinding()
    return RuleFinding((f"kind {kind} is not in scope.kinds ({', '.join(agreed)})",))


def params_in_range(case: CandidateCase) -> RuleFinding:
    """V05: every changed parameter is known and its new value allowed."""
    overrides, scope = case.candidate.change.overrides, case.study.contract.scope
    problems = list[str]()
    if case.candidate.kind == "baseline":
        agreed = case.study.contract.baseline.overrides
        extra = [path for path, override in overrides.items() if agreed.get(path) != override.to]
        return RuleFinding(tuple(f"{path} is not one of baseline.overrides" for path in extra))
    for path, override in overrides.items():
        allowed = scope.params.get(path)
        if allowed is None:
            problems.append(f"{path} is not in scope.params")
        elif why := _why_outside(override.to, allowed):
            problems.append(f"{path} = {override.to!r} {why}")
    if len(overrides) > scope.limits.max_changed_params:
        problems.append(
            f"{len(overrides)} parameters change; scope.limits.max_changed_params is "
            f"{scope.limits.max_changed_params}"
        )
    return RuleFinding(tuple(problems), value=len(overrides))


def is_range(value: Any) -> bool:
    """Return whether a value is two numbers, the first not above the second."""
    is_pair = isinstance(value, list | tuple) and len(value) == 2
    return is_pair and all(map(_is_number, value)) and value[0] <= value[1]


def _why_outside(value: Any, allowed: ParamRange) -> str | None:
    if is_range(value):
        return _why_outside(value[0], allowed) or _why_outside(value[1], allowed)
    is_number = _is_number(value)
    fits = {
        "float": is_number,
        "int": is_number and float(value).is_integer(),
        "bool": isinstance(value, bool),
        "str": isinstance(value, str),
    }
    if not fits[allowed.type]:
        return f"is not of type {allowed.type}"
    if allowed.choices is not None and value not in allowed.choices:
        return f"is not one of {', '.join(map(str, allowed.choices))}"
    if is_number and allowed.min is not None and value < allowed.min:
        return f"is below {allowed.min:g}"
    if is_number and allowed.max is not None and value > allowed.max:
        return f"is above {allowed.max:g}"
    return None


def steps_are_small(case: CandidateCase) -> RuleFinding:
    """V06: no parameter moves by more than its ratio, counted from where it really is."""
    problems = list[str]()
    for path, override in case.candidate.change.overrides.items():
        known, start = _known_start(case, path)
        if known and start != override.from_value:
            problems.append(f"{path} starts from {start!r}, not from {override.from_value!r}")
        allowed = case.study.contract.scope.params.get(path)
        if allowed and allowed.max_step_ratio is not None and override.to != override.from_value:
            problems += _ratio_problems(path, *_ends(override), allowed.max_step_ratio)
    return RuleFinding(tuple(problems))


def _known_start(case: CandidateCase, path: str) -> tuple[bool, Any]:
    """Return the value the first parent or the baseline gives a parameter, where one does."""
    for parent in case.candidate.parents[:1]:
        tried = case.others.get(parent)
        if tried and path in tried.candidate.change.overrides:
            return True, tried.candidate.change.overrides[path].to
    agreed = case.study.contract.baseline.overrides
    return path in agreed, agreed.get(path)


def _ends(override: Override) -> tuple[list[Any], list[Any]]:
    """Return old and new values side by side; a range has two."""
    if is_range(override.to) and is_range(override.from_value):
        return list(override.from_value), list(override.to)
    return [override.from_value], [override.to]


def _ratio_problems(path: str, before: list[Any], after: list[Any], most: float) -> list[str]:
    problems = list[str]()
    for old, new in zip(before, after, strict=True):
        if not (_is_number(old) and _is_number(new)):
            problems.append(f"{path} may move by a ratio, but {old!r} to {new!r} has none")
        elif old != new and (old == 0 or new / old <= 0):
            problems.append(f"{path} goes from {old:g} to {new:g}: through zero no ratio holds")
        elif old != new and (ratio := max(new / old, old / new)) > most * (1 + 1e-9):
            problems.append(f"{path} changes by a factor of {ratio:.3g}; {most:g} is the most")
    return problems


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def files_in_scope(case: CandidateCase) -> RuleFinding:
    """V07: every touched file is allowed and none is denied."""
    files, problems = case.study.contract.scope.files, list[str]()
    if case.patch is not None:
        problems += [f"the patch cannot be accepted: {why}" for why in case.patch.problems]
    for path in case.touched:
        if path.startswith("/") or ".." in path.split("/"):
            problems.append(f"{path} leaves the repository")
        elif denied := first_match(path, files.deny):
            problems.append(f"{path} is denied by {denied}")
        elif first_match(path, files.allow) is None:
            problems.append(f"{path} is not in scope.files.allow")
    return RuleFinding(tuple(problems), value=list(case.touched))


def is_small(case: CandidateCase) -> RuleFinding:
    """V08: the change has few enough lines to be read."""
    lines = case.patch.changed_lines if case.patch else 0
    for file in case.candidate.change.files:
        path = case.folder / "files" / file.path
        if path.is_file():
            lines += path.read_bytes().count(b"\n")
    most = case.study.contract.scope.limits.max_diff_lines
    if lines > most:
        return RuleFinding((f"{lines} lines change; scope.limits.max_diff_lines is {most}",), lines)
    return RuleFinding(value=lines)
