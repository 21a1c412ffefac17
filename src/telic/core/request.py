"""Requests: frozen models whose fields every interface reads.

A field of a request is an ordinary pydantic field. Its description is the help text, its
constraints are the bounds. A request may therefore inherit a configuration model, whose fields
become options. `argument`, `option`, `context`, `place` and `inner` add what the type does not
say: how the command line spells the field, and which interfaces offer it.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from types import UnionType
from typing import (
    Any,
    Literal,
    Self,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

from annotated_types import Ge, Le
from pydantic import ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo

from telic.core.config import Record, explain
from telic.core.events import ignore
from telic.core.text import (
    integer_list,
    is_mapping,
    is_row,
    is_text,
    names,
    pairs,
    read_value,
    texts,
)
from telic.errors import ConfigError, TelicError, UnknownName, UsageError

Value = TypeVar("Value")

_Reader = Callable[[Any, str], Any]
"""parse text of the command line; the second argument is the option, for errors"""
_FieldScope = Literal["argument", "option", "context", "place", "inner"]
_LARGEST = 2.0**63
_LONGEST = 200_000


@dataclass(frozen=True, slots=True)
class FieldHelp:
    """Facts about a field for interfaces, besides its type, default and description."""

    flags: tuple[str, ...] = ()
    """on the command line; made from the name if empty"""
    scope: _FieldScope = "option"
    read: _Reader | None = None
    """parser of command-line text, where pydantic does not accept the text itself"""
    many: bool = False
    """the option may be repeated; `read` then gets the list"""
    metavar: str | None = None
    variable: str | None = None
    """environment variable of the default"""
    hidden: bool = False
    is_positional: bool = False
    what: str | None = None
    """what the value is, in an error about an unknown one; the field's name if left out"""

    def __call__(self, schema: dict[str, Any]) -> None:
        """Add nothing to a JSON schema: pydantic keeps this object as `json_schema_extra`."""


@dataclass(frozen=True)
class RequestField:
    """One field of a request, as interfaces see it."""

    name: str
    type: Any
    default: Any
    """MISSING when the field is required"""
    help: str
    minimum: float | None
    maximum: float | None
    how: FieldHelp

    @property
    def is_required(self) -> bool:
        """Return whether a value must be given."""
        return self.default is MISSING

    @property
    def flag(self) -> str:
        """The option, or the placeholder of an argument, as the command line writes it."""
        if self.how.scope == "argument":
            return self.how.metavar or self.name.upper()
        return self.how.flags[0] if self.how.flags else f"--{self.name.replace('_', '-')}"

    @property
    def alternatives(self) -> tuple[Any, ...]:
        """The members of a union except None; the type itself if it is not a union."""
        parts = get_args(self.type) if get_origin(self.type) in (Union, UnionType) else (self.type,)
        return tuple(part for part in parts if part is not type(None))

    @property
    def choices(self) -> tuple[str, ...]:
        """The words of a Literal, or of a sequence of them; empty for other types."""
        items = [
            item
            for part in self.alternatives
            for item in (get_args(part) if get_origin(part) in (Sequence, tuple) else (part,))
        ]
        return tuple(
            word for item in items if get_origin(item) is Literal for word in get_args(item)
        )


@overload
def argument(help: str, *flags: str, default: Value, **how: Any) -> Value: ...
@overload
def argument(help: str, *flags: str, **how: Any) -> Any: ...
def argument(help: str, *flags: str, default: Any = ..., **how: Any) -> Any:
    """Return a field given by its position; with flags, the command line has it as an option."""
    scope: _FieldScope = "option" if flags else "argument"
    return _field(help, flags, scope, default, is_positional=True, **how)


@overload
def option(help: str, *flags: str, default: Value, **how: Any) -> Value: ...
@overload
def option(help: str, *flags: str, **how: Any) -> Any: ...
def option(help: str, *flags: str, default: Any = ..., **how: Any) -> Any:
    """Return a field given by its name."""
    return _field(help, flags, "option", default, **how)


def context(help: str, *flags: str, default: Value) -> Value:
    """Return a field that many verbs share, such as the study; listed after their own."""
    return _field(help, flags, "context", default)


def place(help: str, *flags: str, default: Value, variable: str | None = None) -> Value:
    """Return a field that says where to work; servers are started with it."""
    return _field(help, flags, "place", default, variable=variable)


def inner(help: str, *, default: Value) -> Value:
    """Return a field that no interface offers; the interface itself or a program fills it in."""
    return _field(help, (), "inner", default)


def _field(
    help: str,
    flags: tuple[str, ...],
    scope: _FieldScope,
    default: Any,
    *,
    minimum: float | None = None,
    maximum: float | None = None,
    **how: Any,
) -> Any:
    extra = FieldHelp(flags, scope, **how)
    return Field(default, description=help, ge=minimum, le=maximum, json_schema_extra=extra)


class VerbRequest(Record):
    """Base of all requests."""

    model_config = ConfigDict(defer_build=True, arbitrary_types_allowed=True)

    def __init__(self, *given: Any, **values: Any) -> None:
        """Validate; every complaint is a TelicError in the words of the command line."""
        kind = type(self)
        positional = [field.name for field in fields_of(kind) if field.how.is_positional]
        if len(given) > len(positional):
            raise TypeError(f"{kind.__name__} takes at most {len(positional)} positional arguments")
        values |= zip(positional, given, strict=False)
        for field in fields_of(kind):
            if field.how.scope != "inner" and field.name in values:
                _check_value(field.flag, values[field.name], field.minimum, field.maximum)
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise _refusal(kind, error) from None

    def replace(self, **changes: Any) -> Self:
        """Return a checked copy with some fields changed."""
        # not dict(self): a request may have a field named keys
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        return type(self)(**{**fields, **changes})


def _refusal(request: type[VerbRequest], error: ValidationError) -> TelicError:
    problem = error.errors()[0]
    name = str(problem["loc"][0]) if problem["loc"] else ""
    if problem["type"] == "extra_forbidden":
        return UnknownName("option", name, list(request.model_fields))
    field = next((each for each in fields_of(request) if each.name == name), None)
    if field is not None and problem["type"] == "missing":
        return UsageError(f"{field.flag} is required: {field.help}")
    if field is not None and problem["type"] == "literal_error" and field.choices:
        what = field.how.what or name.replace("_", " ")
        return UnknownName(what, str(problem["input"]), list(field.choices))
    return ConfigError(explain(request, error))


class RunsRequest(VerbRequest):
    """A request about a folder of runs."""

    runs_dir: Path | str = place(
        "Folder of runs.", "--runs-dir", default=Path("runs"), variable="TELIC_RUNS_DIR"
    )

    def model_post_init(self, context: Any) -> None:
        """Refuse a path that cannot hold runs."""
        _check_folder(Path(self.runs_dir))


class WatchedRequest(VerbRequest):
    """A request for long work that reports events and can be stopped."""

    on_event: Callable[..., None] = inner("Called with every event.", default=ignore)
    should_stop: Callable[[], bool] = inner(
        "Polled between updates; True stops the work, saved and resumable.", default=lambda: False
    )


class PlacedRequest(RunsRequest, WatchedRequest):
    """A request for work that can run on another machine."""

    on: str | None = place(
        "Where to run: local, ray, ray://HOST:PORT or slurm. Results are copied back.",
        "--on",
        default=None,
    )


@cache
def fields_of(request: type[Record]) -> list[RequestField]:
    """Return the fields of a request; where to work comes last."""
    _complete(request)
    fields = [
        _request_field(name, info)
        for name, info in request.model_fields.items()
        if name != "schema_version"
    ]
    last = ("context", "place", "inner")
    return sorted(
        fields, key=lambda each: last.index(each.how.scope) if each.how.scope in last else -1
    )


def _complete(request: type[Record]) -> None:
    """Resolve annotations that name types imported for type checkers only."""
    if request.__pydantic_fields_complete__:
        return
    request.model_rebuild(_types_namespace=_class_names(request))


def _request_field(name: str, info: FieldInfo) -> RequestField:
    extra = info.json_schema_extra
    how = extra if isinstance(extra, FieldHelp) else _READERS.get(info.annotation, FieldHelp())
    least = [cast("float", each.ge) for each in info.metadata if isinstance(each, Ge)]
    most = [cast("float", each.le) for each in info.metadata if isinstance(each, Le)]
    return RequestField(
        name,
        info.annotation,
        MISSING if info.is_required() else info.get_default(call_default_factory=True),
        info.description or "",
        least[0] if least else None,
        most[0] if most else None,
        how,
    )


_READERS: dict[Any, FieldHelp] = {
    tuple[int, ...]: FieldHelp(read=integer_list),
    tuple[str, ...]: FieldHelp(read=names),
    dict[str, str]: FieldHelp(read=texts, many=True),
    dict[str, Any]: FieldHelp(read=pairs, many=True),
}
"""how the command line reads the plain types of configurations"""


def read_options(request: type[VerbRequest], assignments: Sequence[str]) -> dict[str, Any]:
    """Read `name=value` texts as fields of a request, as the command line would."""
    known = {field.name: field for field in fields_of(request)}
    out: dict[str, Any] = {}
    for name, text in texts(assignments, "--set").items():
        field = known.get(name.replace("-", "_"))
        if field is None:
            raise UnknownName("option", name, list(known))
        read = field.how.read
        value = [text] if field.how.many else text
        out[field.name] = read(value, name) if read is not None else read_value(text)
    return out


def command_words(
    request: type[Record], values: Mapping[str, Any], file: str = "FILE.json"
) -> list[str]:
    """Return the words of the command that makes a request; defaults are left out.

    `file` stands for values that a command line reads from a file.
    """
    options, arguments = list[str](), list[str]()
    for field in fields_of(request):
        value = values.get(field.name)
        if value is None or value == field.default:
            continue
        on, _, off = field.flag.partition("/")
        if field.how.scope == "argument" or (field.how.flags == () and field.is_required):
            arguments.append(str(value))
        elif isinstance(value, bool):
            options.append(on if value else off or f"--no-{on[2:]}")
        elif is_mapping(value):
            options += [word for name, x in value.items() for word in (on, f"{name}={x}")]
        elif not is_row(value):
            options += [on, str(value)]
        elif not all(isinstance(each, str | int | float | Path) for each in value):
            options += [on, file]
        elif field.how.many:
            options += [word for each in value for word in (on, str(each))]
        else:
            options += [on, ",".join(map(str, value))]
    if any(each[:1] == "-" for each in arguments):
        return [*options, "--", *arguments]
    return [*arguments, *options]


# ---- values that no request may hold


def _check_value(
    name: str, value: Any, minimum: float | None = None, maximum: float | None = None
) -> None:
    """Raise ConfigError for a value that no field of a request can have."""
    if is_mapping(value):
        value = [*value, *value.values()]
    for each in value if is_row(value) else (value,):
        if isinstance(each, str | Path):
            _check_text(name, str(each))
        elif isinstance(each, int | float) and not isinstance(each, bool):
            _check_number(name, each, minimum, maximum)


def _check_folder(path: Path) -> None:
    """Raise UsageError for a path that cannot hold runs; a missing folder can."""
    try:
        is_other = path.exists() and not path.is_dir()
    except OSError:  # a name that is too long, or a folder without read permission
        is_other = True
    if is_other:
        raise UsageError(
            f"{str(path)[:200]} is not a folder that can hold runs.",
            hint="Name a folder with --runs-dir; a new one is made.",
        )


def _check_text(name: str, text: str) -> None:
    if len(text) > _LONGEST:
        raise ConfigError(f"{name} has {len(text):,} characters; at most {_LONGEST:,} are allowed.")
    if not is_text(text):
        raise ConfigError(
            f'{name} "{text[:60]}" contains invalid characters (NUL or unpaired surrogates).'
        )


def _check_number(name: str, value: float, minimum: float | None, maximum: float | None) -> None:
    if not -_LARGEST <= value <= _LARGEST:  # NaN is in no bounds
        shown = f"{value}" if isinstance(value, float) else f"of {len(str(value)[:999])} digits"
        raise ConfigError(f"{name} {shown} is out of range.")
    if minimum is not None and value < minimum:
        raise ConfigError(f"{name} {value} must be at least {minimum:g}.")
    if maximum is not None and value > maximum:
        raise ConfigError(f"{name} {value} must be at most {maximum:g}.")


# ---- annotations whose names are imported for type checkers only


@cache
def _checked_imports(module: str) -> dict[str, tuple[str, str]]:
    """Return what a module imports `if TYPE_CHECKING`: by name, the module and the name there."""
    found: dict[str, tuple[str, str]] = {}
    for block in ast.parse(inspect.getsource(sys.modules[module])).body:
        if not isinstance(block, ast.If) or "TYPE_CHECKING" not in ast.unparse(block.test):
            continue
        for node in ast.walk(block):
            if isinstance(node, ast.ImportFrom) and node.module:
                found |= {each.asname or each.name: (node.module, each.name) for each in node.names}
    return found


def _names_in(module: str, *annotations: Any) -> dict[str, Any]:
    """Return the names that annotations of a module use, imported now where need be."""
    words = {word for each in annotations for word in re.findall(r"\w+", str(each))}
    checked = _checked_imports(module)
    imported = {
        name: getattr(import_module(checked[name][0]), checked[name][1])
        for name in words & checked.keys()
    }
    return {**vars(sys.modules[module]), **imported}


def return_type(function: Callable[..., Any]) -> Any:
    """Return the annotated return type of a function."""
    plain = inspect.unwrap(function)
    names = _names_in(plain.__module__, *plain.__annotations__.values())
    return get_type_hints(plain, names)["return"]


def _class_names(kind: type[Any]) -> dict[str, Any]:
    """Return the names that the annotations of a class and of its bases use."""
    names: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        if base.__module__.startswith("telic"):
            names |= _names_in(base.__module__, *vars(base).get("__annotations__", {}).values())
    return names
