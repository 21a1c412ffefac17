"""What the audit keeps of a Python file: values, calls, functions, classes, conditions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeGuard, cast


class Unknown:
    """Stands for a value that the text alone does not give."""

    def __repr__(self) -> str:
        return "?"


UNKNOWN = Unknown()

EACH = -1
"""the index of a value that is gone through, one by one"""


class Made(str):
    """The name of what a call makes, as `<name>`, with what the call is given."""

    __slots__ = ("args", "keywords")
    args: tuple[Any, ...]
    keywords: dict[str, Any]


class BranchCondition(NamedTuple):
    """A condition as a tree, to be answered once the settings are known."""

    kind: Literal["value", "not", "and", "or", "equal", "within", "less", "unknown"]
    value: Any = None
    """of `value`: a literal or a `<name>`"""
    parts: tuple[BranchCondition, ...] = ()


class Alternative(NamedTuple):
    """One of two values: `a if test else b`, `a or b`, `settings.get("a", b)`."""

    test: BranchCondition | None
    """None: the first where it is known and set"""
    first: Any
    second: Any


class Guard(NamedTuple):
    """A condition under which code runs: the names it reads and what they are compared with."""

    names: tuple[str, ...]
    constants: tuple[Any, ...]
    holds: bool
    """False: the code runs when the condition does not hold"""
    test: BranchCondition | None = None


class CallSite(NamedTuple):
    """A call, with its name written out through the imports."""

    path: str
    name: str
    line: int
    scope: str
    args: tuple[Any, ...]
    keywords: dict[str, Any]
    guards: tuple[Guard, ...]

    @property
    def last(self) -> str:
        """The last part of the name."""
        return self.name.rpartition(".")[2]

    @property
    def in_main(self) -> bool:
        """Whether it runs only when the file is run, not when it is imported."""
        return any("__name__" in guard.names for guard in self.guards)


class Assignment(NamedTuple):
    """A name given a value."""

    path: str
    target: str
    line: int
    scope: str
    value: Any
    """a literal, the name of what is called or read in angle brackets, or UNKNOWN"""
    computed: bool
    """whether arithmetic or a call makes the value, not a plain hand-over or unpacking"""
    annotation: str | None
    keywords: dict[str, Any]
    """what the call that makes the value is given"""
    condition: BranchCondition | None = None
    """what the value says when it is a condition"""
    part: int | None = None
    """which part of a value that is taken apart"""
    augments: bool = False
    """whether it changes what the name held"""


class Function(NamedTuple):
    """A function or method."""

    path: str
    name: str
    scope: str
    line: int
    arguments: tuple[str, ...]
    defaults: dict[str, Any]
    decorators: tuple[str, ...]
    marks: tuple[CallSite, ...]
    """decorators that are calls"""
    annotations: dict[str, str]
    returns: list[Any]
    """the values it returns, as far as they are spelled out"""

    @property
    def full_name(self) -> str:
        """The name with the scopes around it."""
        return f"{self.scope}.{self.name}".lstrip(".")


class Class(NamedTuple):
    """A class with the names of its bases."""

    path: str
    name: str
    scope: str
    line: int
    bases: tuple[str, ...]
    decorators: tuple[str, ...]
    marks: tuple[CallSite, ...] = ()

    @property
    def full_name(self) -> str:
        """The name with the scopes around it."""
        return f"{self.scope}.{self.name}".lstrip(".")


class Handler(NamedTuple):
    """An `except` block: what it catches, and whether the command then ends as if all was well."""

    path: str
    caught: str
    line: int
    swallows: bool
    first: int
    """where in the file's calls those of the `try` body begin"""
    last: int


@dataclass(slots=True)
class ModuleFacts:
    """Everything the scan keeps of one file."""

    path: str
    imports: dict[str, str] = field(default_factory=dict[str, str])
    """local name to dotted origin; relative ones are resolved"""
    import_lines: dict[str, int] = field(default_factory=dict[str, int])
    optional_imports: set[str] = field(default_factory=set[str])
    """imported in a `try` that forgives the package's absence"""
    calls: list[CallSite] = field(default_factory=list[CallSite])
    functions: list[Function] = field(default_factory=list[Function])
    classes: list[Class] = field(default_factory=list[Class])
    assignments: list[Assignment] = field(default_factory=list[Assignment])
    handlers: list[Handler] = field(default_factory=list[Handler])
    texts: list[tuple[str, str, int]] = field(default_factory=list[tuple[str, str, int]])
    """names of configuration files with their scope and line"""
    main_guard: int | None = None
    broken: str | None = None
    """why the file could not be parsed"""


def is_plain(value: Any) -> bool:
    """Whether the text alone gives a value."""
    return not (isinstance(value, Unknown | Alternative | BranchCondition) or is_symbol(value))


def is_symbol(value: Any) -> TypeGuard[str]:
    """Whether a value is the name of what is called or read, not a plain one."""
    return isinstance(value, str) and value.startswith("<")


def is_list(value: Any) -> TypeGuard[list[Any]]:
    """Whether a value is a list that the text spells out."""
    return isinstance(value, list)


def as_list(value: Any) -> list[Any]:
    """Return a list as it is, anything else as a list of one."""
    return cast("list[Any]", value) if isinstance(value, list) else [value]


def is_table(value: Any) -> TypeGuard[dict[str, Any]]:
    """Whether a value is a dictionary that the text spells out."""
    return isinstance(value, dict)
