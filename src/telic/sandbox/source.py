"""Check foreign source before it runs: bounded size, the allow-list, readable refusals."""

from __future__ import annotations

import ast
import warnings
from types import CodeType

from telic.errors import RefusedCode
from telic.sandbox.allowed import Provided, modules_with
from telic.sandbox.rules import Finding, inspect

MAX_CHARACTERS = 100_000
MAX_NODES = 20_000
MAX_DEPTH = 60
MAX_INTEGER_BITS = 64
MAX_STRING = 20_000
SHOWN = 10


def check_source(source: str, filename: str, *, extra_modules: Provided | None = None) -> None:
    """Refuse source that uses anything outside the allow-list.

    Args:
        source: Python text written by a person or a model we do not know.
        filename: how to call it in messages.
        extra_modules: further modules with their members, `{"mujoco": {"mj_name2id": ...}}`; the
            mapping given to `namespace` serves. A nested mapping is a submodule.

    Raises:
        RefusedCode: names the line, the construct and the fix of the first ten refusals.
    """
    _parse(source, filename, extra_modules or {})


def compile_source(
    source: str, filename: str, *, extra_modules: Provided | None = None
) -> CodeType:
    """Check source as `check_source` does and return its code, ready to run in `namespace()`."""
    tree = _parse(source, filename, extra_modules or {})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return compile(tree, filename, "exec", dont_inherit=True)


def _parse(source: str, filename: str, extra_modules: Provided) -> ast.Module:
    if len(source) > MAX_CHARACTERS:
        raise RefusedCode(
            f"{filename} has {len(source):,} characters, more than the {MAX_CHARACTERS:,} allowed.",
            hint="A reward fits on a few pages: remove data and repetition.",
        )
    try:
        # LaTeX in an ordinary docstring ("\|a\|") is an invalid escape, which only warns.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source, filename)
    except SyntaxError as error:
        raise RefusedCode(
            f"{filename}, line {error.lineno}: this is not valid Python: {error.msg}.",
            hint="Correct the line.",
            line=error.lineno,
        ) from error
    except (RecursionError, MemoryError) as error:
        raise RefusedCode(
            f"{filename} cannot be parsed: it is nested too deeply.", hint="Split it up."
        ) from error
    except ValueError as error:
        raise RefusedCode(
            f"{filename} cannot be parsed: {error}.", hint="Write plain text without null bytes."
        ) from error
    findings = _sizes(tree)
    # Walking a tree that is too deep or too large is what the limits are there to prevent.
    findings = findings or inspect(tree, modules_with(extra_modules))
    if findings:
        raise _refusal(findings, filename)
    return tree


def _sizes(tree: ast.Module) -> list[Finding]:
    """Return what exceeds the limits on nodes, nesting and literals."""
    found: list[Finding] = []
    level: list[ast.AST] = [tree]
    count = depth = 0
    while level:
        depth += 1
        count += len(level)
        line = next((node.lineno for node in level if isinstance(node, ast.expr | ast.stmt)), 1)
        if depth > MAX_DEPTH:
            return [Finding(line, f"more than {MAX_DEPTH} levels of nesting", "Split it up.")]
        if count > MAX_NODES:
            return [Finding(line, f"more than {MAX_NODES:,} syntax elements", "Shorten it.")]
        found += [each for node in level if isinstance(node, ast.Constant) for each in _size(node)]
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    return found


def _size(node: ast.Constant) -> list[Finding]:
    value = node.value
    if isinstance(value, int) and value.bit_length() > MAX_INTEGER_BITS:
        return [Finding(node.lineno, "an integer of more than 64 bits", "Write it as a float.")]
    if isinstance(value, str | bytes) and len(value) > MAX_STRING:
        return [Finding(node.lineno, f"a text of {len(value):,} characters", "Shorten it.")]
    return []


def _refusal(findings: list[Finding], filename: str) -> RefusedCode:
    """Put the first findings into one error."""
    first = findings[0]
    if len(findings) == 1:
        return RefusedCode(
            f"{filename}, line {first.line}: {first.what} is not allowed in a reward.",
            hint=first.fix,
            line=first.line,
        )
    lines = [f"\n  line {each.line}: {each.what}. {each.fix}" for each in findings[:SHOWN]]
    more = f"\n  and {len(findings) - SHOWN} more" if len(findings) > SHOWN else ""
    return RefusedCode(
        f"{filename} uses {len(findings)} things that are not allowed in a reward:"
        f"{''.join(lines)}{more}",
        hint="\nA reward computes with its inputs, numpy, math, torch and telic.quantities.",
        line=first.line,
    )
