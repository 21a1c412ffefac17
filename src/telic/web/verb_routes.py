"""Verbs as routes: what reads is a GET, what acts a POST, what takes long a process of its own.

A name in an address is looked up among the things that are there before a verb hears of it: verbs
also take paths and starts of names, which are for people at a terminal. An environment is one that
a registry knows, never a file or code to import. Nothing is defined a second time: a field's help,
default and bounds are those of the verb, and an answer's type is what `as_data` makes of the
result, the document that every door writes.
"""

from __future__ import annotations

import collections.abc
import inspect
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

from fastapi import APIRouter, Body, Query
from fastapi import Path as PathPart
from pydantic import BaseModel, ConfigDict, create_model

from telic.core.annotations import hints_of, return_type
from telic.core.config import Record
from telic.core.verb import Verb, Wrapped, as_data
from telic.errors import Refused, UsageError, telling_places
from telic.robots.catalogue import robot_names
from telic.storage.files import plain
from telic.storage.workspace import Kind
from telic.verbs import catalogue
from telic.verbs.background import StartedJob, command_words, start_verb
from telic.web.gate import TOKEN_VARIABLE
from telic.web.index import read_deleted
from telic.web.place import WebPlace

OFFERED = ("argument", "option", "context")
_ANY = dict[str, Any]
_REGISTERED = re.compile(r"(?:[\w.-]+/)?[\w.-]+-v\d+")
_FILE_NAME = re.compile(r"[\w-]+(\.xml)?")
"""a word, or a model that comes with the environment"""
_START = "/start/"
_PATIENCE_S = 20.0
"""that a request may wait for what it asked for to happen"""
Way = Literal["read", "do", "start"]


@dataclass(frozen=True, slots=True)
class VerbRoute:
    """A verb as a route."""

    path: str
    verb: str
    """module:name, as in the catalogue of verbs"""
    way: Way
    field: str | None = None
    """of the request, which {thing} of the path fills in"""
    kinds: tuple[Kind, ...] = ()
    """that {thing} may be"""
    hidden: tuple[str, ...] = ()
    """fields that are not offered"""
    words: tuple[str, ...] = ()
    """of the command, where work is started"""
    is_study: bool = False
    """whether {thing} is a study, whose task and name the request has"""

    @property
    def name(self) -> str:
        """Return what the schema calls it."""
        return self.verb.replace(":", "_")


_THINGS: tuple[Kind, ...] = ("session", "run", "search")
_STUDY: tuple[tuple[str, str, Way], ...] = (
    ("candidates", "study_server:list_candidates", "read"),
    ("runs", "study_server:list_runs", "read"),
    ("gates", "study_server:check_gates", "read"),
    ("next", "study_server:loop_step", "read"),
    ("ledger", "study_server:ledger_verify", "read"),
    ("text", "study_server:get_report", "read"),
    ("study-pause", "study_server:pause", "do"),
    ("study-note", "study_server:add_note", "do"),
)
"""what a page does with a study by itself; what a person has to agree to is asked in a terminal"""
ROUTES = (
    VerbRoute("/envs", "machine:read_envs", "read", hidden=("env", "every")),
    VerbRoute("/envs/{env}", "machine:read_envs", "read", field="env", hidden=("every",)),
    VerbRoute("/envs/{env}/quantities", "machine:quantities", "read", field="env"),
    VerbRoute("/presets", "train:read_presets", "read", hidden=("env",)),
    VerbRoute("/doctor", "machine:doctor", "read"),
    VerbRoute("/robots", "robots:list_robots", "read"),
    VerbRoute("/search/tasks", "search:search_tasks", "read"),
    VerbRoute("/search/methods", "search:search_methods", "read"),
    VerbRoute("/things/{thing}/stop", "control:stop", "do", "thing", _THINGS),
    VerbRoute("/things/{thing}/pause", "control:pause", "do", "session", ("session",)),
    VerbRoute("/things/{thing}/note", "control:note", "do", "session", ("session",)),
    VerbRoute("/things/{thing}/approve", "control:approve", "do", "session", ("session",)),
    VerbRoute("/things/{thing}/branch", "control:branch", "do", "session", ("session",)),
    VerbRoute("/things/{thing}/label", "labels:label", "do", "session", ("session",)),
    VerbRoute("/things/{thing}/veto", "labels:veto", "do", "session", ("session",)),
    VerbRoute(
        "/things/{thing}/delete", "artifacts:delete", "do", "thing", _THINGS, hidden=("undo",)
    ),
    VerbRoute("/trash/{deleted}/restore", "artifacts:restore", "do", "thing"),
    VerbRoute("/things/{thing}/report", "artifacts:report", "do", "thing", ("session", "search")),
    VerbRoute(
        "/things/{thing}/resume", "control:resume", "start", "thing", _THINGS, words=("resume",)
    ),
    VerbRoute(
        "/things/{thing}/export", "artifacts:export", "start", "thing", _THINGS, words=("export",)
    ),
    VerbRoute("/start/run", "session:run", "start", words=("run",)),
    VerbRoute("/start/train", "train:train", "start", hidden=("reward",), words=("train",)),
    VerbRoute("/start/search", "search:search", "start", words=("search",)),
    VerbRoute(
        "/start/track",
        "track:train",
        "start",
        hidden=("library", "settings", "dims", "levels"),
        words=("track", "train"),
    ),
    VerbRoute(
        "/start/bench", "machine:intents", "start", hidden=("suite",), words=("bench", "intents")
    ),
    *(
        VerbRoute(f"/things/{{thing}}/{path}", verb, way, kinds=("study",), is_study=True)
        for path, verb, way in _STUDY
    ),
)


def routes(place: WebPlace) -> APIRouter:
    """Return the routes of verbs."""
    router = APIRouter(tags=["verbs"])
    for route in ROUTES:
        verb = catalogue.load(route.verb)
        starts = route.way == "start"
        router.add_api_route(
            route.path,
            _endpoint(place, route, verb),
            methods=["GET"] if route.way == "read" else ["POST"],
            response_model=StartedJob if starts else answer_of(verb),
            summary=verb.help.splitlines()[0],
            description=verb.help,
            operation_id=_operation(route),
            status_code=202 if starts else 200,
        )
    for route in ROUTES:
        if route.path.startswith(_START):
            _add_command(router, route)
    return router


class SameCommand(Record):
    """What does the same in a terminal and in Python."""

    command: str
    python: str


def _add_command(router: APIRouter, route: VerbRoute) -> None:
    """Add the route that says how else the same is asked for; it starts nothing."""
    verb = catalogue.load(route.verb)
    body = body_of(verb, f"Command{_camel('_'.join(route.words))}Request", route.hidden)

    def words(asked: Any) -> SameCommand:
        values = asked.model_dump(mode="json", exclude_unset=True)
        check_env(values)
        command = shlex.join(["telic", *route.words, *command_words(verb, values)])
        given = ", ".join(f"{name}={value!r}" for name, value in values.items())
        return SameCommand(command=command, python=f"telic.{verb.__name__}({given})")

    words.__annotations__["asked"] = body
    name = f"command_{'_'.join(route.words)}"
    router.add_api_route(
        f"/command/{route.path.removeprefix(_START)}",
        words,
        methods=["POST"],
        response_model=SameCommand,
        operation_id=name,
        summary="Say which command does the same, and which Python.",
    )


def _operation(route: VerbRoute) -> str:
    words = re.sub(r"[{}]", "", route.path).strip("/").replace("/", "_")
    return f"{route.way}_{words}"


def _endpoint(place: WebPlace, route: VerbRoute, verb: Verb[Any, Any]) -> Callable[..., Any]:
    """Return a function whose signature is what the schema is made from."""
    hidden = (*route.hidden, *((route.field,) if route.field else ()))
    hidden += ("task", "study") if route.is_study else ()
    body = body_of(verb, f"{_camel(_operation(route))}Request", hidden)
    variable = next(iter(re.findall(r"{(\w+)}", route.path)), None)

    def do(**given: Any) -> Any:
        asked: BaseModel = given["asked"]
        values = {name: getattr(asked, name) for name in asked.model_fields_set}
        if variable is not None and route.field is not None:
            values[route.field] = _named(place, route, variable, given[variable])
        if route.is_study:
            task, _, study = place.thing(given["thing"], *route.kinds).name.partition("/")
            values |= {"task": task, "study": study}
        check_env(values)
        if route.way == "start":
            written = {**asked.model_dump(mode="json", exclude_unset=True)}
            written |= {name: values[name] for name in values if name not in written}
            without = (TOKEN_VARIABLE,)
            return start_verb(route.words, route.verb, written, place.runs_dir, without=without)
        if "wait" in type(asked).model_fields:
            values["wait"] = min(values.get("wait", _PATIENCE_S), _PATIENCE_S)
        with telling_places():
            result = verb.do(verb.request(**values, **_where(place, verb)))
        if route.way != "read":
            place.index.forget()
        return plain(as_data(result))

    how = Query() if route.way == "read" else Body()
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [inspect.Parameter("asked", keyword, annotation=Annotated[body, how])]
    if variable is not None:
        parameters.append(
            inspect.Parameter(variable, keyword, annotation=Annotated[str, PathPart()])
        )
    # pyrefly: ignore[missing-attribute]
    do.__signature__ = inspect.Signature(parameters)
    do.__name__ = _operation(route)
    return do


def _camel(words: str) -> str:
    return "".join(word.capitalize() for word in words.split("_"))


def _named(place: WebPlace, route: VerbRoute, variable: str, name: str) -> str:
    """Return the name that a verb gets for the variable part of an address."""
    if variable == "thing":
        return place.thing(name, *route.kinds).name
    if variable == "deleted" and name not in {line.id for line in read_deleted(place.runs_dir)}:
        raise UsageError(f"{name[:200]} is not in the trash.")
    return name


def _where(place: WebPlace, verb: Verb[Any, Any]) -> dict[str, Any]:
    """Return the fields that a server is started with."""
    known = {"runs_dir": place.runs_dir, "root": place.root}
    return {field.name: known[field.name] for field in verb.fields if field.name in known}


def check_env(values: Mapping[str, Any]) -> None:
    """Raise Refused for an environment that only a file or foreign code describes."""
    arguments: Mapping[str, Any] = values.get("env_args") or {}
    for key, value in arguments.items():
        if isinstance(value, str) and not _FILE_NAME.fullmatch(value):
            raise Refused(
                f'The argument {key[:60]} of an environment cannot be "{value[:60]}" here.',
                hint="Files of your own are for the command line: telic train --env-arg.",
            )
    name = values.get("env")
    if name is None or _REGISTERED.fullmatch(name):
        return
    if name not in robot_names():
        raise Refused(
            f'"{name[:100]}" is no environment by name.',
            hint="Files and code of your own are for the command line: telic run --env FILE.",
        )


# ---------------------------------------------------------------------------- bodies and answers


def body_of(verb: Verb[Any, Any], name: str, hidden: Sequence[str] = ()) -> type[BaseModel]:
    """Return the model of what a request may hold; where to work and files are the server's."""
    models = verb.request.model_fields
    fields: dict[str, Any] = {
        field.name: (field.type, models[field.name])
        for field in verb.fields
        if field.how.scope in OFFERED and field.name not in hidden
        if Path not in field.alternatives
    }
    config = ConfigDict(extra="forbid", title=name)
    return create_model(name, __config__=config, __doc__=verb.help, **fields)


def answer_of(verb: Verb[Any, Any]) -> Any:
    """Return the type of the document that a verb's result is written as."""
    return document_type(return_type(verb.do))


@cache
def document_type(kind: Any) -> Any:
    """Return the type of what `core.verb.as_data` makes of a value of some type."""
    if kind is None or kind is NoneType:
        return None
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        # pyrefly: ignore[invalid-annotation]
        return Union[tuple(document_type(part) for part in get_args(kind))]  # noqa: UP007
    if origin is Literal or kind is Any:
        return kind
    if origin is not None:
        return _container(origin, get_args(kind))
    return _plain(kind) if inspect.isclass(kind) else Any


def _container(origin: Any, parts: tuple[Any, ...]) -> Any:
    inner = tuple(part if part is Ellipsis else document_type(part) for part in parts)
    if inspect.isclass(origin) and issubclass(origin, collections.abc.Mapping):
        return dict[str, inner[1]]
    if origin is tuple and Ellipsis not in inner:
        # pyrefly: ignore[not-a-type]
        return tuple[inner]
    return list[inner[0]]


def _plain(kind: type[Any]) -> Any:
    """Return the document of a class."""
    if issubclass(kind, Path):
        return str
    if issubclass(kind, Wrapped):
        return document_type(hints_of(kind)[next(iter(kind.__annotations__))])
    own = cast("Callable[..., Any] | None", getattr(kind, "as_data", None))
    if own is not None:
        return document_type(return_type(own))
    if issubclass(kind, BaseModel) or not hasattr(kind, "_fields"):
        return kind if issubclass(kind, BaseModel | str | int | float | bool) else _ANY
    fields: dict[str, Any] = {
        name: (document_type(each), ...) for name, each in hints_of(kind).items()
    }
    return create_model(kind.__name__, __doc__=kind.__doc__, **fields)
