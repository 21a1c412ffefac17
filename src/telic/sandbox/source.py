"""Check the source of untrusted code before execution and create its globals.

The check limits the source's size and applies the allow-list (`_rules`). The globals contain a few
builtins and read-only modules. Instead of real modules, untrusted code gets frozen proxies with
only the names in `_allowed`, so it cannot patch torch or numpy.
"""

from __future__ import annotations

import ast
import builtins
import functools
import importlib
import re
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from types import CodeType
from typing import Any, NoReturn

from telic.core.text import closest, parse_python
from telic.errors import RefusedCode
from telic.sandbox._allowed import (
    BUILTINS,
    MODULES,
    OFFERED,
    PREDEFINED,
    Provided,
    flatten,
    modules_with,
)
from telic.sandbox._guard import ASK, MODULE_NAME, OWN, Guard, NumpyFunction, ask, require_own
from telic.sandbox._rules import Inspection, RefusedConstruct, inspect

MAX_CHARACTERS = 100_000
MAX_NODES = 20_000
MAX_DEPTH = 60
MAX_INTEGER_BITS = 64
MAX_STRING = 20_000
SHOWN = 10

PRINT_CHARACTERS = 20_000

_FROM_ABOVE = (
    "telic",
    "telic.quantities",
    *(f"telic.rewards{module}" for module in ("", ".composed", ".signals", ".terms")),
)
_ONLY_TO_ASK = {("torch", "Tensor"), ("numpy", "ndarray")}


_LINE_END = re.compile("\r\n|\r|\n")


def source_lines(text: str) -> list[str]:
    """Split a source into lines as Python counts them.

    `splitlines` also splits at form feeds, U+2028 and other characters, which would result in wrong
    line numbers or turn part of a comment into code.
    """
    return _LINE_END.split(text)


def check_source(source: str, filename: str, *, extra_modules: Provided | None = None) -> None:
    """Raise RefusedCode, with lines and fixes, if a source violates the allow-list."""
    _parse(source, filename, extra_modules or {})


def compile_source(
    source: str, filename: str, *, extra_modules: Provided | None = None
) -> CodeType:
    """Check a source with `check_source`, and return code that can run in `namespace()`."""
    tree, inspection = _parse(source, filename, extra_modules or {})
    tree = ast.fix_missing_locations(Guard(inspection).visit(tree))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return compile(tree, f"<{filename}>", "exec", dont_inherit=True)
        except SyntaxError as error:  # compiler errors: "nonlocal x" without an outer x
            raise RefusedCode(
                f"{filename}, line {error.lineno}: invalid Python: {error.msg}.",
                hint="Fix the syntax error.",
                line=error.lineno,
            ) from error


def _parse(source: str, filename: str, extra_modules: Provided) -> tuple[ast.Module, Inspection]:
    if len(source) > MAX_CHARACTERS:
        raise RefusedCode(
            f"{filename} has {len(source):,} characters, more than the allowed {MAX_CHARACTERS:,}.",
            hint="Rewards are limited to a few pages. Remove data and repetition.",
        )
    try:
        # LaTeX in an ordinary docstring ("\|a\|") is an invalid escape, which only warns.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree: ast.Module = parse_python(source, filename)
    except SyntaxError as error:
        raise RefusedCode(
            f"{filename}, line {error.lineno}: invalid Python: {error.msg}.",
            hint="Fix the syntax error.",
            line=error.lineno,
        ) from error
    except (RecursionError, MemoryError) as error:
        raise RefusedCode(
            f"{filename} cannot be parsed: it is nested too deeply.",
            hint=("Split the code into smaller parts."),
        ) from error
    except ValueError as error:
        raise RefusedCode(
            f"{filename} cannot be parsed: {error}.", hint="Use plain text without null bytes."
        ) from error
    if refusals := _sizes(tree):  # before walking: a tree may be too deep or too large
        raise _refused(refusals, filename)
    inspection = inspect(tree, modules_with(extra_modules))
    if inspection.refusals:
        raise _refused(inspection.refusals, filename)
    return tree, inspection


def _sizes(tree: ast.Module) -> list[RefusedConstruct]:
    """Return violations of the limits on AST nodes, nesting and literals."""
    literals: list[RefusedConstruct] = []
    level: list[ast.AST] = [tree]
    count = depth = 0
    while level:
        depth += 1
        count += len(level)
        line = next((node.lineno for node in level if isinstance(node, ast.expr | ast.stmt)), 1)
        what = f"more than {MAX_DEPTH} levels of nesting" if depth > MAX_DEPTH else None
        what = f"more than {MAX_NODES:,} syntax elements" if count > MAX_NODES else what
        if what is not None:
            return [RefusedConstruct(line, what, "Split the code into smaller parts.")]
        for node in level:
            value = node.value if isinstance(node, ast.Constant) else None
            if isinstance(value, int) and value.bit_length() > MAX_INTEGER_BITS:
                what, fix = "an integer of more than 64 bits", "Use a float."
            elif isinstance(value, str | bytes) and len(value) > MAX_STRING:
                what, fix = f"a text of {len(value):,} characters", "Shorten it."
            else:
                continue
            literals.append(RefusedConstruct(getattr(node, "lineno", 1), what, fix))
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    return literals


def _refused(refusals: list[RefusedConstruct], filename: str) -> RefusedCode:
    """Combine the first refusals into one error."""
    first = refusals[0]
    if len(refusals) == 1:
        return RefusedCode(
            f"{filename}, line {first.line}: {first.what} is not allowed in a reward.",
            hint=first.fix,
            line=first.line,
        )
    lines = [f"\n  line {each.line}: {each.what}. {each.fix}" for each in refusals[:SHOWN]]
    more = f"\n  and {len(refusals) - SHOWN} more" if len(refusals) > SHOWN else ""
    return RefusedCode(
        f"{filename} uses {len(refusals)} constructs that are not allowed in a reward:"
        f"{''.join(lines)}{more}",
        hint="\nA reward may use its inputs, numpy, math, torch and telic.quantities.",
        line=first.line,
    )


class FrozenModule:
    """Read-only proxy for a module that has only the allowed members."""

    def __init__(self, path: str, members: Mapping[str, Any]) -> None:
        self.__dict__.update(members)
        self.__dict__["__name__"] = path

    def __getattr__(self, name: str) -> NoReturn:
        near = closest(name, [each for each in vars(self) if not each.startswith("_")])
        hint = f" Closest: {', '.join(near)}." if near else ""
        raise AttributeError(f"{vars(self)['__name__']}.{name} is not available to rewards.{hint}")

    def __setattr__(self, *_: object) -> NoReturn:
        raise AttributeError(f"{vars(self)['__name__']} is read-only.")

    __delattr__ = __setattr__

    def __repr__(self) -> str:
        return f"<the part of {vars(self)['__name__']} that a reward may use>"


class _AskOnly(type):
    """Metaclass for type proxies that support isinstance but not creation or modification."""

    _real: type

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls._real)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, cls._real)

    def __call__(cls, *_: object, **__: object) -> NoReturn:
        raise TypeError(f"{cls.__name__} only supports isinstance. Use torch.tensor or np.array.")

    def __setattr__(cls, name: str, value: object) -> NoReturn:
        raise TypeError(f"{cls.__name__} is read-only.")


def namespace(provided: Provided | None = None) -> dict[str, Any]:
    """Return new globals for one untrusted source."""
    extra = flatten(provided or {})
    modules = _standard_modules() | _frozen({path: {} for path in _FROM_ABOVE} | extra)
    scope: dict[str, Any] = {name: modules[path] for name, path in PREDEFINED.items()}
    scope |= {path: module for path, module in modules.items() if path in extra and "." not in path}
    scope |= extra.get("telic", {})
    scope["__builtins__"] = _builtins(modules)
    scope["__name__"] = MODULE_NAME
    scope[ASK], scope[OWN] = ask, require_own
    return scope


_FILLED = {"empty": "zeros", "empty_like": "zeros_like"}
"""replacements for functions that expose uninitialized memory"""


@functools.cache
def _standard_modules() -> dict[str, FrozenModule]:
    members: dict[str, dict[str, Any]] = {}
    for path, names in MODULES.items():
        if path in _FROM_ABOVE:
            continue
        module = importlib.import_module(path)
        # The installed package version may lack a name, which is then omitted.
        members[path] = {
            name: _offered(path, name, getattr(module, _FILLED.get(name, name)))
            for name in names
            if hasattr(module, name)
        }
    return _frozen(members)


def _offered(path: str, name: str, value: Any) -> Any:
    """Return the proxy for a module member, or the member itself if no proxy is needed."""
    if (path, name) in _ONLY_TO_ASK:
        return _AskOnly(name, (), {"_real": value})
    is_function = callable(value) and not isinstance(value, type)
    return NumpyFunction(value) if path.startswith("numpy") and is_function else value


def _frozen(members: Mapping[str, Mapping[str, Any]]) -> dict[str, FrozenModule]:
    """Build module proxies, starting with submodules because their parents contain them."""
    built: dict[str, FrozenModule] = {}
    for path in sorted(members, key=lambda each: -each.count(".")):
        inner = {
            child.rpartition(".")[2]: built[child]
            for child in members
            if child.rpartition(".")[0] == path
        }
        built[path] = FrozenModule(path, {**members[path], **inner})
    return built


def _builtins(modules: Mapping[str, FrozenModule]) -> dict[str, Any]:
    offered = {name: getattr(builtins, name) for name in BUILTINS}
    return {
        **offered,
        "__build_class__": builtins.__build_class__,
        "__import__": _importer(modules),
        "getattr": _getattr,
        "hasattr": lambda owner, name: _getattr(owner, name, _ABSENT) is not _ABSENT,
        "print": _printer(),
    }


def _importer(modules: Mapping[str, FrozenModule]) -> Callable[..., FrozenModule]:
    def import_listed(
        name: str,
        globals: object = None,
        locals: object = None,
        fromlist: Sequence[str] | None = None,
        level: int = 0,
    ) -> FrozenModule:
        if isinstance(fromlist, list):
            return _import_for_compiled_code(name)
        if level or name not in modules:
            raise ImportError(f'"{name}" is not available. {OFFERED}')
        return modules[name if fromlist else name.partition(".")[0]]

    return import_listed


def _import_for_compiled_code(name: str) -> Any:
    """Import a module for C code of torch or numpy on first use.

    C code also uses the caller's builtins. Its imports are recognized by `fromlist` (a)
    list in C code and a tuple or None in import statements. Only the C code receives the module.
    """
    if name not in sys.modules and name.partition(".")[0] not in {"numpy", "torch"}:
        raise ImportError(f'"{name}" is not available. {OFFERED}')
    return importlib.import_module(name)


_NO_DEFAULT = object()
_ABSENT = object()


def _getattr(owner: object, name: str, default: object = _NO_DEFAULT) -> Any:
    """Implement getattr for untrusted code. The attribute name is checked again."""
    if type(name) is not str or not name.isidentifier():
        raise AttributeError("An attribute name must be a plain string.")
    try:
        return ask(owner, name)
    except AttributeError:
        if default is _NO_DEFAULT:
            raise
        return default


def _printer() -> Callable[..., None]:
    """Return a print function that writes to the worker's log, up to a limit."""
    left = PRINT_CHARACTERS

    def print_some(*values: object, sep: str = " ", end: str = "\n", **_: object) -> None:
        nonlocal left
        if left <= 0:
            return
        text = sep.join(map(str, values)) + end
        sys.stdout.write(text[:left])
        left -= len(text)
        if left <= 0:
            sys.stdout.write("\n(further output of the reward is dropped)\n")

    return print_some
