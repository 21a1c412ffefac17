"""Allow-list for untrusted code: syntax, builtins, and modules with their functions.

The check before execution and the objects available during execution (both in `source`) use this
list, so they always agree. Only add functions that compute numbers from numbers, without files,
global settings, randomness, raw memory or calls by name.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from telic.core.text import closest
from telic.storage.reading import parse_toml, read_text


def words(text: str) -> frozenset[str]:
    """Split a text into a set of words."""
    return frozenset(text.split())


ANY = frozenset({"*"})
"""Placeholder for all public names, which higher layers replace with the actual list."""

NUMPY_FFT = "fft fft2 fftfreq fftn fftshift ifft ifft2 ifftn ifftshift irfft rfft rfftfreq"

_LISTED = Path(__file__).with_name("functions.toml")
FUNCTIONS = {k: words(text) for k, text in parse_toml(read_text(_LISTED), _LISTED.name).items()}
"""Allowed functions by library module."""

SYNTAX = frozenset(
    getattr(ast, name)
    for name in words("""
    Module FunctionDef ClassDef Return Delete Assign AugAssign AnnAssign For While If With Match
    Raise Try Assert Import ImportFrom Nonlocal Expr Pass Break Continue
    BoolOp NamedExpr BinOp UnaryOp Lambda IfExp Dict Set ListComp SetComp DictComp GeneratorExp
    Compare Call FormattedValue JoinedStr Constant Attribute Subscript Starred Name List Tuple Slice
    Load Store Del And Or Add Sub Mult MatMult Div Mod Pow LShift RShift BitOr BitXor BitAnd
    FloorDiv Invert Not UAdd USub Eq NotEq Lt LtE Gt GtE Is IsNot In NotIn
    comprehension ExceptHandler arguments arg keyword alias withitem match_case
    MatchValue MatchSingleton MatchSequence MatchStar MatchAs MatchOr
    """)
)

BUILTINS = words("""
    abs all any bool callable chr complex dict divmod enumerate filter float format frozenset
    getattr hasattr hex int isinstance issubclass iter len list map max min next ord pow print
    property range repr reversed round set slice sorted staticmethod classmethod str sum super
    tuple zip Ellipsis NotImplemented
    ArithmeticError AssertionError AttributeError Exception FloatingPointError IndexError KeyError
    LookupError NameError NotImplementedError OverflowError RecursionError RuntimeError
    StopIteration TypeError UserWarning ValueError Warning ZeroDivisionError
""")

MODULES: Mapping[str, Collection[str]] = {
    **FUNCTIONS,
    "__future__": frozenset({"annotations"}),
    "collections": frozenset({"OrderedDict", "defaultdict", "deque"}),
    "numpy.fft": words(NUMPY_FFT),
    "telic": frozenset({"RewardFunction"}),
    "telic.quantities": ANY,
    "telic.rewards": frozenset(),
    "telic.rewards.composed": ANY,
    "telic.rewards.signals": ANY,
    "telic.rewards.terms": ANY,
    "torch.nn": frozenset(),
}

PREDEFINED: Mapping[str, str] = {
    "math": "math",
    "np": "numpy",
    "numpy": "numpy",
    "quantities": "telic.quantities",
    "telic": "telic",
    "torch": "torch",
}
"""Names available without an import. The reference system also provides `np` in this way."""

CLASSES = frozenset({"ComposedReward", "RewardFunction"})
"""Classes that are allowed only as a base or as the second argument of isinstance."""

Provided = Mapping[str, Any]


def flatten(provided: Provided, prefix: str = "") -> dict[str, dict[str, Any]]:
    """Flatten {"telic": {"quantities": {...}}} to {"telic": {}, "telic.quantities": {...}}."""
    flat: dict[str, dict[str, Any]] = {}
    for name, members in provided.items():
        path = f"{prefix}{name}"
        nested: Provided = {k: v for k, v in members.items() if isinstance(v, Mapping)}
        flat[path] = {key: value for key, value in members.items() if key not in nested}
        flat |= flatten(nested, f"{path}.")
    return flat


def modules_with(provided: Provided) -> dict[str, Collection[str]]:
    """Return the allowed modules and names, including those registered by other packages."""
    return {**MODULES, **{path: frozenset(names) for path, names in flatten(provided).items()}}


# # Reasons for refusals, and what to write instead.

NO_CHANCE = "A reward must be a function of its inputs: remove the randomness."
NUMBERS_ONLY = "Untrusted code may only compute with numbers: remove it."
NO_FILES = "Untrusted code must not read or write files: return numbers instead."
NO_MEMORY = "Raw memory and shared storage are not accessible: use clone(), copy() or indexing."
NO_GRADIENT = "A reward is not differentiated: compute with plain values."
NO_CLASSES = "Use isinstance(x, ...) to check a type."
OFFERED = "A reward may import numpy, math, torch, telic, typing and collections."
STATE = "Keep state in self, or in a closure with nonlocal."

REFUSED_SYNTAX: dict[type[ast.AST], tuple[str, str]] = {
    ast.AsyncFunctionDef: ("async def", "Use a plain def."),
    ast.AsyncFor: ("async for", "Use a plain for."),
    ast.AsyncWith: ("async with", "Use a plain with."),
    ast.Await: ("await", "Use plain, synchronous code."),
    ast.Yield: ("yield", "Return a value or a list."),
    ast.YieldFrom: ("yield from", "Return a value or a list."),
    ast.Global: ("global", STATE),
    ast.MatchClass: ("a class pattern in match", "Use isinstance(x, ...) in an if."),
    ast.MatchMapping: ("a dictionary pattern in match", "Use x.get(name) in an if."),
    ast.TryStar: ("except*", "Use a plain except."),
}

REFUSED_BUILTINS: dict[str, str] = {
    **dict.fromkeys(("open", "input", "file"), NO_FILES),
    **dict.fromkeys(("exec", "eval", "compile", "__import__"), "Write the code out directly."),
    **dict.fromkeys(("globals", "locals", "vars", "dir"), "Refer to the required values directly."),
    **dict.fromkeys(("type", "object", "__build_class__"), NO_CLASSES),
    **dict.fromkeys(("setattr", "delattr"), "Assign with self.name = value."),
    **dict.fromkeys(("id", "hash", "memoryview", "bytearray", "bytes", "ascii"), NUMBERS_ONLY),
    **dict.fromkeys(("breakpoint", "help", "exit", "quit"), "Raise a ValueError instead."),
    **dict.fromkeys(
        ("BaseException", "SystemExit", "KeyboardInterrupt", "GeneratorExit"),
        "Catch or raise Exception, or a narrower error such as KeyError or ValueError.",
    ),
    "__debug__": "Remove it.",
}

REFUSED_IMPORTS: dict[str, str] = {
    **dict.fromkeys(("random", "secrets"), NO_CHANCE),
    **dict.fromkeys(("time", "datetime"), 'Use info["time"] and info["dt"] for simulated time.'),
    **dict.fromkeys(("io", "os", "pathlib", "shutil", "tempfile"), NO_FILES),
    **dict.fromkeys(("builtins", "ctypes", "importlib", "pickle", "sys", "types"), NUMBERS_ONLY),
}

REFUSED_ATTRIBUTES: dict[str, str] = {
    **dict.fromkeys(("format", "format_map"), 'Use an f-string: f"{value:.2f}".'),
    **dict.fromkeys(("tofile", "dump", "dumps", "save", "load", "loads", "from_file"), NO_FILES),
    **dict.fromkeys(
        words("""
        base ctypes setflags setfield getfield resize data_ptr const_data_ptr as_strided as_strided_
        as_strided_scatter as_subclass set_ resize_ resize_as_ share_memory_ pin_memory storage
        untyped_storage storage_type module_load sparse_resize_ sparse_resize_and_clear_
        """),
        NO_MEMORY,
    ),
    **dict.fromkeys(
        words("""
        backward grad grad_fn register_hook register_post_accumulate_grad_hook requires_grad_
        retain_grad reinforce
        """),
        NO_GRADIENT,
    ),
    **dict.fromkeys(
        words("""
        bernoulli bernoulli_ cauchy_ exponential_ geometric_ log_normal_ multinomial normal_ random
        random_ uniform_ manual_seed
        """),
        NO_CHANCE,
    ),
    **dict.fromkeys(("mro", "register", "func_globals", "func_code", "im_func"), NUMBERS_ONLY),
    **dict.fromkeys(("fget", "fset", "fdel", "getter", "setter", "deleter"), NUMBERS_ONLY),
    "with_traceback": "Raise the error unchanged.",
}

INSPECTION = re.compile(r"(gi|cr|ag|f|tb|co)_[a-z]+$")
"""Attributes of frames, code, generators and tracebacks, through which everything is accessible."""

CHANGES_ITS_OBJECT = words("clear fill itemset pop popitem setdefault update")
"""Methods without a trailing underscore that modify their object in place."""

_RANDOM_NAMES = re.compile(
    r"rand|bernoulli|multinomial|normal$|poisson|binomial|seed|shuffle|dropout"
)
_FILE_NAMES = re.compile(r"load|save|fromfile|memmap|genfromtxt|fromregex|from_file|hub")


def why_not_member(path: str, name: str, offered: Collection[str]) -> str | None:
    """Return the reason why `path.name` is refused, or None if it is allowed."""
    if name in offered or (offered == ANY and not name.startswith("_")):
        return None
    if _RANDOM_NAMES.search(name):
        return NO_CHANCE
    if _FILE_NAMES.search(name):
        return NO_FILES
    if name.startswith("set_") or name in {"seterr", "seterrcall", "setbufsize"}:
        return "Settings belong to the trainer: remove the call."
    if name in {"ctypeslib", "lib", "as_strided", "frombuffer", "from_dlpack"}:
        return NO_MEMORY
    near = ", ".join(f"{path}.{each}" for each in closest(name, offered))
    return "It is not in the list of numerical functions." + (f" Closest: {near}." if near else "")


def why_not_attribute(name: str) -> str | None:
    """Return the reason why the attribute `name` is always refused, or None if it is allowed."""
    if name.startswith("__") and name.endswith("__"):
        return "Names with double underscores are internal to Python: remove it."
    if name.startswith("_"):
        return "Use public attributes, or private ones of this code as self._name."
    if name in REFUSED_ATTRIBUTES:
        return REFUSED_ATTRIBUTES[name]
    if INSPECTION.match(name):
        return "Attributes of frames, code and generators are not accessible: choose another name."
    return None
