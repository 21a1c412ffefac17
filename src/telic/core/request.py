"""Frozen request models from which all interfaces derive their options.

Requests consist of ordinary pydantic fields, with the help text as description and the bounds as
constraints. A request may therefore inherit the fields of a configuration model as options.
`argument`, `option`, `context`, `location` and `inner` also define how a field is written on the
command line and which interfaces provide it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Self, TypeVar, Union, cast, get_args, get_origin, overload

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
"""parser of command-line text. The second argument is the option's name for errors."""
_FieldScope = Literal["argument", "option", "context", "place", "inner"]
_MAX_NUMBER = 2.0**63
_MAX_TEXT = 200_000


@dataclass(frozen=True, slots=True)
class FieldHelp:
    """Metadata of a field for interfaces, in addition to its type, default and description."""

    flags: tuple[str, ...] = ()
    """command-line flags. If empty, the flag is derived from the name."""
    scope: _FieldScope = "option"
    read: _Reader | None = None
    """parser of command-line text, if pydantic cannot validate the text itself"""
    many: bool = False
    """whether the option may be repeated, in which case `read` gets a list"""
    metavar: str | None = None
    variable: str | None = None
    """environment variable that sets the default"""
    hidden: bool = False
    is_positional: bool = False
    what: str | None = None
    """noun for the value in errors about unknown values. Defaults to the field's name."""

    def __call__(self, schema: dict[str, Any]) -> None:
        """Leave the JSON schema unchanged. Pydantic stores this object as `json_schema_extra`."""


@dataclass(frozen=True)
class RequestField:
    """Field of a request, as used by interfaces."""

    name: str
    type: Any
    default: Any
    """MISSING if the field is required"""
    help: str
    minimum: float | None
    maximum: float | None
    how: FieldHelp

    @property
    def is_required(self) -> bool:
        """Return whether the field is required."""
        return self.default is MISSING

    @property
    def flag(self) -> str:
        """The option's name on the command line, or an argument's placeholder."""
        if self.how.scope == "argument":
            return self.how.metavar or self.name.upper()
        return self.how.flags[0] if self.how.flags else f"--{self.name.replace('_', '-')}"

    @property
    def alternatives(self) -> tuple[Any, ...]:
        """Return the members of a union except None, or the type itself if it is not a union."""
        parts = get_args(self.type) if get_origin(self.type) in (Union, UnionType) else (self.type,)
        return tuple(part for part in parts if part is not type(None))

    @property
    def choices(self) -> tuple[str, ...]:
        """Return the values of a Literal type or of a sequence of it, or () for other types."""
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
    """Return a positional field. If it has flags, it is an option on the command line."""
    scope: _FieldScope = "option" if flags else "argument"
    return _field(help, flags, scope, default, is_positional=True, **how)


@overload
def option(help: str, *flags: str, default: Value, **how: Any) -> Value: ...
@overload
def option(help: str, *flags: str, **how: Any) -> Any: ...
def option(help: str, *flags: str, default: Any = ..., **how: Any) -> Any:
    """Return a field that is set by keyword or as a command-line option."""
    return _field(help, flags, "option", default, **how)


def context(help: str, *flags: str, default: Value) -> Value:
    """Return a field that many operations share, such as the study. Such fields are listed last."""
    return _field(help, flags, "context", default)


def location(help: str, *flags: str, default: Value, **how: Any) -> Value:
    """Return a field for a working folder. Servers set this field when they start."""
    return _field(help, flags, "place", default, **how)


def inner(help: str, *, default: Value) -> Value:
    """Return a field that is hidden from users and set by interfaces and programs."""
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
    """Base class of all requests."""

    model_config = ConfigDict(defer_build=True, arbitrary_types_allowed=True)

    def __init__(self, *given: Any, **values: Any) -> None:
        """Validate the values. Errors are TelicErrors with command-line names."""
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
        """Return a validated copy with some fields changed."""
        # not dict(self): a request may have a field named "keys"
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        return type(self)(**{**fields, **changes})


def _refusal(request: type[VerbRequest], error: ValidationError) -> TelicError:
    problem = error.errors()[0]
    name = str(problem["loc"][0]) if problem["loc"] else ""
    if problem["type"] == "extra_forbidden":
        return UnknownName("option", name, list(request.model_fields))
    field = next((each for each in fields_of(request) if each.name == name), None)
    if field is not None and problem["type"] == "missing":
        return UsageError(f"Missing {field.flag}: {field.help}")
    if field is not None and problem["type"] == "literal_error" and field.choices:
        what = field.how.what or name.replace("_", " ")
        return UnknownName(what, str(problem["input"]), list(field.choices))
    return ConfigError(explain(request, error))


class RunsRequest(VerbRequest):
    """Base class for requests that use a runs folder."""

    runs_dir: Path | str = location(
        "Runs folder.", "--runs-dir", default=Path("runs"), variable="TELIC_RUNS_DIR"
    )

    def model_post_init(self, context: Any) -> None:
        """Raise UsageError if the path cannot be a runs folder."""
        _check_folder(Path(self.runs_dir))


class WatchedRequest(VerbRequest):
    """Base class for requests of long-running work that reports events and can be stopped."""

    on_event: Callable[..., None] = inner("Called with every event.", default=ignore)
    should_stop: Callable[[], bool] = inner(
        "Polled between updates; returns True to save and stop.", default=lambda: False
    )


class PlacedRequest(RunsRequest, WatchedRequest):
    """Base class for requests of work that can run on another machine."""

    on: str | None = location(
        "Where to run: local, ray, ray://HOST:PORT or slurm. Results are copied back.",
        "--on",
        default=None,
    )
    log: tuple[str, ...] = location(
        "Trackers: tensorboard, wandb, mlflow, trackio.", "--log", default=(), read=names
    )


@cache
def fields_of(request: type[Record]) -> list[RequestField]:
    """Return the fields of a request. Fields for working folders come last."""
    fields = [
        _request_field(name, info)
        for name, info in request.model_fields.items()
        if name != "schema_version"
    ]
    last = ("context", "place", "inner")
    return sorted(
        fields, key=lambda each: last.index(each.how.scope) if each.how.scope in last else -1
    )


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
"""command-line parsers of the plain types used in configurations"""


def read_options(request: type[VerbRequest], assignments: Sequence[str]) -> dict[str, Any]:
    """Parse `name=value` texts into request fields as the command line does."""
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
    """Return the command line of a request, omitting defaults.

    `file` replaces values that the command line reads from files.
    """
    options, arguments = list[str](), list[str]()
    for field in fields_of(request):
        value = values.get(field.name)
        if value is None or value == field.default:
            continue
        on, _, off = field.flag.partition("/")
        if field.how.scope == "argument" or (field.how.flags == () and field.is_required):
            arguments += map(str, value) if is_row(value) else [str(value)]
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


# # ---- value checks shared by all requests


def _check_value(
    name: str, value: Any, minimum: float | None = None, maximum: float | None = None
) -> None:
    """Raise ConfigError for a value that is not valid in any field."""
    if is_mapping(value):
        value = [*value, *value.values()]
    for each in value if is_row(value) else (value,):
        if isinstance(each, str | Path):
            _check_text(name, str(each))
        elif isinstance(each, int | float) and not isinstance(each, bool):
            _check_number(name, each, minimum, maximum)


def _check_folder(path: Path) -> None:
    """Raise UsageError if a path cannot be a runs folder. The folder need not exist yet."""
    try:
        is_other = path.exists() and not path.is_dir()
    except OSError:  # name too long, or folder not readable
        is_other = True
    if is_other:
        raise UsageError(
            f"{str(path)[:200]} cannot be used as a runs folder.",
            hint="Choose a folder with --runs-dir. It is created if it does not exist.",
        )


def _check_text(name: str, text: str) -> None:
    if len(text) > _MAX_TEXT:
        raise ConfigError(f"{name} has {len(text):,} characters, more than {_MAX_TEXT:,}.")
    if not is_text(text):
        raise ConfigError(
            f'{name} "{text[:60]}" contains invalid characters (NUL or unpaired surrogates).'
        )


def _check_number(name: str, value: float, minimum: float | None, maximum: float | None) -> None:
    if not -_MAX_NUMBER <= value <= _MAX_NUMBER:  # false for NaN as well
        shown = f"{value}" if isinstance(value, float) else f"of {len(str(value)[:999])} digits"
        raise ConfigError(f"{name} {shown} is out of range.")
    if minimum is not None and value < minimum:
        raise ConfigError(f"{name} {value} must be at least {minimum:g}.")
    if maximum is not None and value > maximum:
        raise ConfigError(f"{name} {value} must be at most {maximum:g}.")
