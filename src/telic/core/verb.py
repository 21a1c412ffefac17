"""A verb: one typed function with a frozen request, which every door renders.

    class EnvsRequest(VerbRequest):
        env: str | None = argument("Describe this one.", default=None)
        every: bool = option("Also list Gymnasium's other ids.", "--all", default=False)

    @verb(EnvsRequest)
    def envs(request: EnvsRequest) -> Catalogue:
        '''List environments, or describe one.'''

In Python `envs("Ant-v5", every=True)` has the signature of the request, and type checkers know it.
The command line, the MCP server and HTTP make their options, help and defaults from the fields; a
field that only a program can fill in (a callback) is `inner`, and one that a server is started
with rather than asked for (where the runs are) is a `place`. What a person has to agree to is a
`Question`, which a door puts to them before the verb is done.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass
from functools import cache, cached_property
from pathlib import Path
from types import UnionType
from typing import (
    Any,
    Generic,
    Literal,
    ParamSpec,
    TypeVar,
    Union,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
    overload,
)

from telic.core.bounds import check_folder, check_value
from telic.core.events import Listener, ignore
from telic.core.text import is_row
from telic.errors import UnknownName, telling_places

Given = ParamSpec("Given")
Value = TypeVar("Value")
Asked = TypeVar("Asked")
Result = TypeVar("Result")

Reader = Callable[[Any, str], Any]
"""turns words of the command line into a value; the second argument is the option, for errors"""
Scope = Literal["argument", "option", "context", "place", "inner"]
_KEY = "telic"


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


@dataclass(frozen=True, slots=True)
class Question:
    """What a person is asked before a verb is done, and the command that asks it in a terminal."""

    text: str
    command: tuple[str, ...]
    seen: Mapping[str, Any] = dataclasses.field(default_factory=dict[str, Any])
    """hashes of what is shown; a yes holds for nothing else"""


class Verb(Generic[Given, Asked, Result]):
    """A function of one request, called in Python with the fields of the request."""

    def __init__(
        self,
        request: Callable[Given, Asked],
        function: Callable[[Asked], Result],
        *,
        examples: str = "",
        exit_code: Callable[[Result], int] = lambda result: 0,
        question: Callable[[Asked], Question | None] | None = None,
    ) -> None:
        self.request = cast("type[Asked]", request)
        self.question = question
        self.do = telling_places(function)
        self.examples = examples
        self.exit_code = exit_code
        self.has_result = function.__annotations__.get("return") not in (None, "None")
        self.help = inspect.cleandoc(function.__doc__ or "")
        self.__name__ = function.__name__
        self.__module__ = function.__module__
        self.__wrapped__ = request

    def __call__(self, *args: Given.args, **kwargs: Given.kwargs) -> Result:
        """Make the request and do it."""
        return self.do(self.request(*args, **kwargs))

    def asked_with(self, request: Callable[..., Any]) -> Verb[..., Any, Result]:
        """Return the same verb for a door that has words of its own for the request."""
        return Verb(
            request,
            self.do,
            examples=self.examples,
            exit_code=self.exit_code,
            question=self.question,
        )

    def ask(self, request: Asked) -> Question | None:
        """Return what a person has to agree to before the request is done; None: nothing."""
        return None if self.question is None else self.question(request)

    def __repr__(self) -> str:
        return f"<verb {self.__name__}>"

    @cached_property
    def fields(self) -> list[RequestField]:
        """What can be asked for."""
        return fields_of(self.request)

    @property
    def __doc__(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        lines = [f"    {field.name}: {field.help.help}" for field in self.fields]
        return "\n".join([self.help, "", "Args:", *lines])


def verb(
    request: Callable[Given, Asked],
    *,
    examples: str = "",
    exit_code: Callable[[Any], int] = lambda result: 0,
    question: Callable[[Asked], Question | None] | None = None,
) -> Callable[[Callable[[Asked], Result]], Verb[Given, Asked, Result]]:
    """Make a function of a request a verb.

    Args:
        request: the record that the function takes.
        examples: shown below the help on the command line.
        exit_code: of the command line, from the result.
        question: what a person has to agree to first, or None where nobody has to; a door asks it
            and does the request again with the `consent` and what was `seen`.
    """

    def make(function: Callable[[Asked], Result]) -> Verb[Given, Asked, Result]:
        return Verb(request, function, examples=examples, exit_code=exit_code, question=question)

    return make


class Wrapped:
    """A result that is its first field; what else it has is for showing it."""

    def as_data(self) -> Any:
        """Return the first field alone."""
        return getattr(self, next(iter(type(self).__annotations__)))


def as_data(result: Any) -> Any:
    """Return a result as plain data, the one document that every door writes."""
    if hasattr(result, "as_data"):
        return as_data(result.as_data())
    if hasattr(result, "model_dump"):
        return result.model_dump(mode="json")
    if isinstance(result, Mapping):
        return {name: as_data(value) for name, value in cast("Mapping[str, Any]", result).items()}
    if hasattr(result, "_asdict"):
        return as_data(result._asdict())
    if isinstance(result, list | tuple):
        return [as_data(value) for value in cast("list[Any]", result)]
    return result
