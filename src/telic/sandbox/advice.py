"""Why a construct is refused in foreign code, and what to write instead."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection

from telic.core.suggest import closest
from telic.sandbox.allowed import ANY, words

RANDOM = "A reward must be a function of its inputs: drop the randomness."
NUMBERS_ONLY = "Foreign code may only compute with numbers: remove it."
NO_FILES = "Foreign code may not read or write files: return numbers instead."
NO_MEMORY = "Raw memory and shared storage are out of reach: use clone(), copy() or indexing."
NO_GRADIENT = "A reward is not differentiated: compute with plain values."
NO_CLASSES = "Use isinstance(x, ...) to ask for a type."
OFFERED = "A reward may import numpy, math, torch, telic, typing and collections."
STATE = "Keep state in self, or in a closure with nonlocal."

NODES: dict[type[ast.AST], tuple[str, str]] = {
    ast.AsyncFunctionDef: ("async def", "Write a plain def."),
    ast.AsyncFor: ("async for", "Write a plain for."),
    ast.AsyncWith: ("async with", "Write a plain with."),
    ast.Await: ("await", "Write plain, synchronous code."),
    ast.Yield: ("yield", "Return a value or a list."),
    ast.YieldFrom: ("yield from", "Return a value or a list."),
    ast.Global: ("global", STATE),
    ast.MatchClass: ("a class pattern in match", "Use isinstance(x, ...) in an if."),
    ast.TryStar: ("except*", "Use a plain except."),
}

BUILTINS: dict[str, str] = {
    **dict.fromkeys(("open", "input", "file"), NO_FILES),
    **dict.fromkeys(("exec", "eval", "compile", "__import__"), "Write the code out directly."),
    **dict.fromkeys(("globals", "locals", "vars", "dir"), "Name the values you need directly."),
    **dict.fromkeys(("type", "object", "__build_class__"), NO_CLASSES),
    **dict.fromkeys(("setattr", "delattr"), "Assign with self.name = value."),
    **dict.fromkeys(("id", "hash", "memoryview", "bytearray", "bytes", "ascii"), NUMBERS_ONLY),
    **dict.fromkeys(("breakpoint", "help", "exit", "quit"), "Raise a ValueError to report."),
    **dict.fromkeys(
        ("BaseException", "SystemExit", "KeyboardInterrupt", "GeneratorExit"),
        "Catch or raise Exception, or a narrower error such as KeyError or ValueError.",
    ),
    "__debug__": "Remove it.",
}

IMPORTS: dict[str, str] = {
    "random": RANDOM,
    "secrets": RANDOM,
    "time": 'Use info["time"] and info["dt"] for simulated time.',
    "datetime": 'Use info["time"] and info["dt"] for simulated time.',
    "copy": "Use x.copy() or x.clone().",
    "dataclasses": "Write a plain class with __init__.",
    "functools": "Write the function out.",
    "itertools": "Write the loop out.",
    "scipy": "Use numpy or torch.",
    "warnings": "Raise a ValueError to report a problem.",
    "logging": "Return a named term to watch a value.",
    **dict.fromkeys(
        ("builtins", "ctypes", "gc", "importlib", "inspect", "marshal", "pickle", "sys", "types"),
        NUMBERS_ONLY,
    ),
    **dict.fromkeys(("io", "os", "pathlib", "shutil", "tempfile"), NO_FILES),
    **dict.fromkeys(("http", "requests", "socket", "ssl", "urllib"), "There is no network here."),
    **dict.fromkeys(
        ("asyncio", "concurrent", "multiprocessing", "signal", "subprocess", "threading"),
        "One process, one thread: compute and return.",
    ),
}

ATTRIBUTES: dict[str, str] = {
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
        RANDOM,
    ),
    **dict.fromkeys(("mro", "register", "func_globals", "func_code", "im_func"), NUMBERS_ONLY),
    **dict.fromkeys(("fget", "fset", "fdel", "getter", "setter", "deleter"), NUMBERS_ONLY),
    "with_traceback": "Raise the error as it is.",
}

INSPECTION = re.compile(r"(gi|cr|ag|f|tb|co)_[a-z]+$")
"""Attributes of frames, code, generators and tracebacks, from which everything is reachable."""

CHANGES_ITS_OBJECT = words("clear fill itemset pop popitem setdefault update")
"""Methods without a trailing underscore that write into their object."""

_RANDOM_NAMES = re.compile(
    r"rand|bernoulli|multinomial|normal$|poisson|binomial|seed|shuffle|dropout"
)
_FILE_NAMES = re.compile(r"load|save|fromfile|memmap|genfromtxt|fromregex|from_file|hub")


def for_member(path: str, name: str, offered: Collection[str]) -> str | None:
    """Return why `path.name` is refused, or None when the module offers it."""
    if name in offered or (offered == ANY and not name.startswith("_")):
        return None
    if _RANDOM_NAMES.search(name):
        return RANDOM
    if _FILE_NAMES.search(name):
        return NO_FILES
    if name.startswith("set_") or name in {"seterr", "seterrcall", "setbufsize"}:
        return "Settings are the trainer's: remove the call."
    if name in {"ctypeslib", "lib", "as_strided", "frombuffer", "from_dlpack"}:
        return NO_MEMORY
    near = ", ".join(f"{path}.{each}" for each in closest(name, offered))
    return "It is not on the list of numerical functions." + (f" Closest: {near}." if near else "")


def for_attribute(name: str) -> str | None:
    """Return why the attribute `name` is refused on any object, or None when it is allowed."""
    if name.startswith("__") and name.endswith("__"):
        return "Names with double underscores are Python's own machinery: remove it."
    if name.startswith("_"):
        return "Use public attributes; private ones only as self._name, set by this code itself."
    if name in ATTRIBUTES:
        return ATTRIBUTES[name]
    if INSPECTION.match(name):
        return "Attributes of frames, code and generators are out of reach: choose another name."
    return None
