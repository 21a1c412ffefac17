"""Requests: frozen records whose fields carry their help, and what no field may hold.

A field that only a program can fill in (a callback) is `inner`, and one that a server is started
with rather than asked for (where the runs are) is a `place`.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass
from functools import cache
from pathlib import Path
from types import UnionType
from typing import (
    Any,
    Literal,
    TypeVar,
    Union,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
    overload,
)

from telic.core.events import Listener, ignore
from telic.core.text import is_row, is_text
from telic.errors import ConfigError, UnknownName, UsageError

Value = TypeVar("Value")

Reader = Callable[[Any, str], Any]
"""turns words of the command line into a value; the second argument is the option, for errors"""
Scope = Literal["argument", "option", "context", "place", "inner"]
_KEY = "telic"
_LARGEST = 2.0**63
_LONGEST = 200_000
"""letters of a text that somebody gives as a word of a command"""


@dataclass(frozen=True, slots=True)
class FieldHelp:
    """What doors need to know of a field beside its name, type and default."""

    help: str
    flags: tuple[str, ...] = ()
    """on the command line; made from the name if empty"""
    scope: Scope = "option"
    read: Reader | None = None
    """for values that are no plain words or numbers"""
    many: bool = False
    """the option may be repeated; `read` then gets the list"""
    minimum: float | None = None
    maximum: float | None = None
    shown: str | None = None
    """the default as the command line would have it"""
    metavar: str | None = None
    variable: str | None = None
    """of the environment, for the default"""
    hidden: bool = False
    what: str | None = None
    """what the value is, where an unknown one is refused; the field's name if left out"""


@dataclass(frozen=True, slots=True)
class RequestField:
    """One field of a request, as doors see it."""

    name: str
    owner: type
    annotation: str
    default: Any
    """MISSING when the field is required"""
    help: FieldHelp

    @property
    def is_required(self) -> bool:
        """Whether there is no default."""
        return self.default is MISSING

    @property
    def type(self) -> Any:
        """The annotation as a type; looked up late, so that heavy types are imported late."""
        return eval(self.annotation, vars(sys.modules[self.owner.__module__]))

    @property
    def alternatives(self) -> tuple[Any, ...]:
        """The members of a union, None left out; the type itself if it is none."""
        kind = self.type
        parts = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
        return tuple(part for part in parts if part is not type(None))

    @property
    def choices(self) -> tuple[str, ...]:
        """The words of a Literal, or of a sequence of them; empty for other types."""
        items = [
            item
            for part in self.alternatives
            for item in (get_args(part) if get_origin(part) is Sequence else (part,))
        ]
        return tuple(
            word for item in items if get_origin(item) is Literal for word in get_args(item)
        )


@overload
def argument(
    help: str,
    *flags: str,
    default: Value,
    read: Reader | None = None,
    many: bool = False,
    metavar: str | None = None,
    what: str | None = None,
    kw_only: bool = False,
) -> Value: ...
@overload
def argument(
    help: str,
    *flags: str,
    read: Reader | None = None,
    many: bool = False,
    metavar: str | None = None,
    what: str | None = None,
    kw_only: bool = False,
) -> Any: ...
def argument(
    help: str, *flags: str, default: Any = MISSING, kw_only: bool = False, **how: Any
) -> Any:
    """Return a field given by its place; with flags, the command line has it as an option."""
    scope: Scope = "option" if flags else "argument"
    return _field(FieldHelp(help, flags, scope, **how), default, kw_only)


@overload
def option(
    help: str,
    *flags: str,
    default: Value,
    read: Reader | None = None,
    many: bool = False,
    minimum: float | None = None,
    maximum: float | None = None,
    shown: str | None = None,
    metavar: str | None = None,
    hidden: bool = False,
    what: str | None = None,
    kw_only: bool = True,
) -> Value: ...
@overload
def option(
    help: str,
    *flags: str,
    read: Reader | None = None,
    many: bool = False,
    minimum: float | None = None,
    maximum: float | None = None,
    metavar: str | None = None,
    hidden: bool = False,
    what: str | None = None,
    kw_only: bool = True,
) -> Any: ...
def option(help: str, *flags: str, default: Any = MISSING, kw_only: bool = True, **how: Any) -> Any:
    """Return a field that is given by its name."""
    return _field(FieldHelp(help, flags, "option", **how), default, kw_only)


def context(help: str, *flags: str, default: Value, kw_only: bool = True) -> Value:
    """Return a field that many verbs share, such as which study is meant; listed after theirs."""
    return _field(FieldHelp(help, flags, "context"), default, kw_only)


def place(
    help: str, *flags: str, default: Value, variable: str | None = None, kw_only: bool = True
) -> Value:
    """Return a field that says where to work: an option, but a server is started with it."""
    return _field(FieldHelp(help, flags, "place", variable=variable), default, kw_only)


def inner(help: str, *, default: Value, kw_only: bool = True) -> Value:
    """Return a field that no door offers; the door itself or a program fills it in."""
    return _field(FieldHelp(help, (), "inner"), default, kw_only)


def _field(help: FieldHelp, default: Any, kw_only: bool) -> Any:
    return dataclasses.field(default=default, kw_only=kw_only, metadata={_KEY: help})


@dataclass_transform(
    frozen_default=True, field_specifiers=(argument, option, context, place, inner)
)
@dataclass(frozen=True, eq=False, repr=False)
class VerbRequest:
    """Base of all requests: frozen records whose fields carry their own help."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        # Comparing and printing are the base's: making both for every class would take longer than
        # all of the rest of listing verbs.
        dataclass(frozen=True, eq=False, repr=False)(cls)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and cast("VerbRequest", other).as_dict() == self.as_dict()

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self.as_dict().items())
        return f"{type(self).__name__}({fields})"

    def __post_init__(self) -> None:
        """Refuse words that a field does not know, and what no field can be."""
        for each in fields_of(type(self)):
            if each.help.scope != "inner":
                bounds = each.help.minimum, each.help.maximum
                check_value(each.name, getattr(self, each.name), *bounds)
        for field, choices in _choices_of(type(self)):
            value = getattr(self, field.name)
            words = value if is_row(value) else (value,)
            for word in words:
                if isinstance(word, str) and word not in choices:
                    what = field.help.what or field.name.replace("_", " ")
                    raise UnknownName(what, word, list(choices))

    def as_dict(self) -> dict[str, Any]:
        """Return the fields by name."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}


class RunsRequest(VerbRequest):
    """A request about what is in a folder of runs."""

    runs_dir: Path | str = place(
        "Folder of runs.", "--runs-dir", default=Path("runs"), variable="TELIC_RUNS_DIR"
    )

    def __post_init__(self) -> None:
        """Refuse a place that can hold no runs."""
        super().__post_init__()
        check_folder(Path(self.runs_dir))


class WatchedRequest(VerbRequest):
    """A request for work that takes long: somebody listens, and may end it."""

    on_event: Listener = inner("Called with every event.", default=ignore)
    should_stop: Callable[[], bool] = inner(
        "Polled between updates; True ends the work, saved and resumable.", default=lambda: False
    )


class PlacedRequest(RunsRequest, WatchedRequest):
    """A request for work that can be done on another machine."""

    on: str | None = place(
        "Do it there, and bring home what it makes: local, ray, ray://HOST:PORT, slurm.",
        "--on",
        default=None,
    )


@cache
def _choices_of(request: type[Any]) -> list[tuple[RequestField, tuple[str, ...]]]:
    """Return the fields that take one of a few words, with these words."""
    known = [field for field in fields_of(request) if field.help.scope != "inner"]
    chosen = [field for field in known if field.help.read is None]
    return [(field, field.choices) for field in chosen if field.choices]


@cache
def fields_of(request: type[Any]) -> list[RequestField]:
    """Return the fields of a request; where to work comes last."""
    out: list[RequestField] = []
    for field in dataclasses.fields(request):
        owner = next(
            each for each in request.__mro__ if field.name in vars(each).get("__annotations__", {})
        )
        out.append(
            RequestField(field.name, owner, str(field.type), field.default, field.metadata[_KEY])
        )
    last = ("context", "place", "inner")
    return sorted(
        out, key=lambda each: last.index(each.help.scope) if each.help.scope in last else -1
    )


# ---- what no request may hold: numbers that are none or out of bounds, texts that are no text


def check_value(
    field: str, value: Any, minimum: float | None = None, maximum: float | None = None
) -> None:
    """Raise ConfigError for a value that a field of a request cannot have.

    Args:
        field: its name.
        value: one value, or many of them as a sequence or a mapping.
        minimum: the least number it may be.
        maximum: the largest number it may be.
    """
    name = f"--{field.replace('_', '-')}"
    if isinstance(value, Mapping):
        inner = cast("Mapping[Any, Any]", value)
        value = [*inner, *inner.values()]
    for each in value if is_row(value) else (value,):
        if isinstance(each, str | Path):
            _check_text(name, str(each))
        elif isinstance(each, int | float) and not isinstance(each, bool):
            _check_number(name, each, minimum, maximum)


def check_folder(path: Path) -> None:
    """Raise UsageError for a place that can hold no runs; a folder that is not there yet can."""
    try:
        is_other = path.exists() and not path.is_dir()
    except OSError:  # a name that is too long, a folder that nobody may look into
        is_other = True
    if is_other:
        raise UsageError(
            f"{str(path)[:200]} is not a folder that can hold runs.",
            hint="Name a folder with --runs-dir; a new one is made.",
        )


def _check_text(name: str, text: str) -> None:
    if len(text) > _LONGEST:
        raise ConfigError(f"{name} is a text of {len(text):,} letters; {_LONGEST:,} are the most.")
    if not is_text(text):
        raise ConfigError(
            f'{name} "{text[:60]}" holds what is no character.',
            hint="Leave out what no name or text can have: NUL, halves of characters.",
        )


def _check_number(name: str, value: float, minimum: float | None, maximum: float | None) -> None:
    if not -_LARGEST <= value <= _LARGEST:  # NaN is in no bounds
        shown = f"{value}" if isinstance(value, float) else f"of {len(str(value)[:999])} digits"
        raise ConfigError(f"{name} {shown} is not a number to work with.")
    if minimum is not None and value < minimum:
        raise ConfigError(f"{name} {value} must be at least {minimum:g}.")
    if maximum is not None and value > maximum:
        raise ConfigError(f"{name} {value} must be at most {maximum:g}.")
