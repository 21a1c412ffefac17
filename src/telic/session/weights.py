"""Read and change the weights of a reward file without running it: it may be foreign code."""

from __future__ import annotations

import ast

from telic.errors import RewardError


def weights_in(source: str) -> dict[str, float]:
    """Return the weights that the reward's class declares; empty if it declares none."""
    found = _declaration(source)
    if found is None:
        return {}
    try:
        value = ast.literal_eval(found.value)
        return {str(name): float(weight) for name, weight in value.items()}
    except (ValueError, TypeError, AttributeError):
        raise RewardError(
            f"Line {found.lineno}: weights must be a dictionary of plain numbers.",
            hint='Write weights = {"speed": 1.0, "control": 0.1}.',
            line=found.lineno,
        ) from None


def with_weights(source: str, weights: dict[str, float]) -> str:
    """Return the file with these weights written into it, so that it says what was trained."""
    found = _declaration(source)
    if found is None or not weights:
        return source
    lines = source.splitlines(keepends=True)
    inside = ", ".join(f'"{name}": {value:g}' for name, value in weights.items())
    indent = " " * found.col_offset
    end = found.end_lineno or found.lineno
    return "".join([*lines[: found.lineno - 1], f"{indent}weights = {{{inside}}}\n", *lines[end:]])


def _declaration(source: str) -> ast.Assign | None:
    """Return the assignment of `weights` in the first class that has one."""
    for node in ast.parse(source).body:
        if not isinstance(node, ast.ClassDef):
            continue
        for each in node.body:
            if isinstance(each, ast.Assign) and any(
                isinstance(target, ast.Name) and target.id == "weights" for target in each.targets
            ):
                return each
    return None
