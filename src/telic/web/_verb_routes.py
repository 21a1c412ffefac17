"""Verbs as routes: GET for reading, POST for actions, background processes for long work.

Fields, help, defaults and bounds come from the verb's request. A name in a URL must be the exact id
of an existing artifact; the paths and prefixes that verbs also accept are for terminal users only.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from fastapi import APIRouter, Body, Query
from fastapi import Path as PathPart
from pydantic import BaseModel

from telic.core.verb import Shown, Verb, as_data
from telic.errors import UsageError, telling_places
from telic.storage.files import plain
from telic.storage.workspace import WORK, ArtifactKind, Workspace
from telic.verbs import catalogue
from telic.verbs.background import StartedJob, start_verb
from telic.web._connections import TOKEN_VARIABLE
from telic.web._place import WebPlace
from telic.web._requests import body_of, check_env, given_values
from telic.web._start import require_readable

_PATIENCE_S = 20.0
"""timeout in seconds for a request to take effect"""
_SESSION: tuple[ArtifactKind, ...] = ("session",)
_REPORTED: tuple[ArtifactKind, ...] = ("session", "search")


class VerbRoute(NamedTuple):
    """A verb as a route."""

    path: str
    verb: str
    """module:name, as in the catalogue of verbs"""
    way: Literal["read", "do", "start"]
    field: str | None = None
    """request field that is filled in from the URL"""
    kinds: tuple[ArtifactKind, ...] = ()
    """kinds allowed for {thing}; for a study, the request's task and study are filled in"""
    hidden: tuple[str, ...] = ()
    """fields that are not offered"""
    words: tuple[str, ...] = ()
    """words of the command, for routes that start work"""
    fixed: Mapping[str, Any] = {}
    """fixed values of request fields"""


ROUTES = (
    VerbRoute("/envs", "envs:envs", "read", hidden=("env", "every", "search")),
    VerbRoute("/envs/{env}", "envs:envs", "read", "env", hidden=("every", "search")),
    VerbRoute("/doctor", "machine:doctor", "read"),
    VerbRoute("/robots", "robots:list_robots", "read"),
    VerbRoute("/artifacts/{thing}/stop", "control:stop", "do", "thing", WORK),
    VerbRoute("/artifacts/{thing}/pause", "control:pause", "do", "session", _SESSION),
    VerbRoute("/artifacts/{thing}/note", "control:note", "do", "session", _SESSION),
    VerbRoute("/artifacts/{thing}/approve", "control:approve", "do", "session", _SESSION),
    VerbRoute("/artifacts/{thing}/branch", "control:branch", "do", "session", _SESSION),
    VerbRoute("/artifacts/{thing}/label", "labels:label", "do", "session", _SESSION),
    VerbRoute("/artifacts/{thing}/veto", "labels:veto", "do", "session", _SESSION),
    VerbRoute("/artifacts/{thing}/delete", "artifacts:delete", "do", "thing", WORK, ("undo",)),
    VerbRoute(
        "/trash/{deleted}/restore",
        "artifacts:delete",
        "do",
        "thing",
        hidden=("undo",),
        fixed={"undo": True},
    ),
    VerbRoute(
        "/artifacts/{thing}/report", "artifacts:report", "do", "thing", ("session", "search")
    ),
    VerbRoute(
        "/artifacts/{thing}/resume", "control:resume", "start", "thing", WORK, (), ("resume",)
    ),
    VerbRoute(
        "/artifacts/{thing}/export", "artifacts:export", "start", "thing", WORK, (), ("export",)
    ),
    VerbRoute("/start/run", "session:run", "start", words=("run",)),
    VerbRoute("/start/train", "train:train", "start", hidden=("reward",), words=("train",)),
    VerbRoute("/start/search", "search:search", "start", words=("search",)),
    VerbRoute(
        "/start/bench", "machine:intents", "start", None, (), ("suite",), ("bench", "intents")
    ),
    VerbRoute(
        "/artifacts/{thing}/candidates", "study_server:list_candidates", "read", None, ("study",)
    ),
    VerbRoute("/artifacts/{thing}/runs", "study_server:list_study_runs", "read", None, ("study",)),
    VerbRoute("/artifacts/{thing}/gates", "study_server:check_gates", "read", None, ("study",)),
)


def routes(place: WebPlace) -> APIRouter:
    """Return the routes of verbs."""
    router = APIRouter(tags=["verbs"])
    for route in ROUTES:
        verb, starts = catalogue.load_verb(route.verb), route.way == "start"
        name: str = _operation(route)
        result: Any = StartedJob
        if not starts:
            result = _answer_type(get_type_hints(verb.do)["return"])
        router.add_api_route(
            route.path,
            _endpoint(place, route, verb),
            methods=["GET"] if route.way == "read" else ["POST"],
            response_model=result,
            summary=verb.help.splitlines()[0],
            description=verb.help,
            operation_id=name,
            status_code=202 if starts else 200,
        )
    return router


def _operation(route: VerbRoute) -> str:
    return f"{route.way}_{re.sub(r'[{}]', '', route.path).strip('/').replace('/', '_')}"


def _endpoint(place: WebPlace, route: VerbRoute, verb: Verb[Any, Any]) -> Callable[..., Any]:
    """Return an endpoint whose signature defines the schema."""
    name, is_study = _operation(route), route.kinds == ("study",)
    hidden = (*route.hidden, route.field, *(("task", "study") if is_study else ()))
    title = "".join(word.capitalize() for word in name.split("_"))
    body = body_of(verb, f"{title}Request", hidden)
    variable = next(iter(re.findall(r"{(\w+)}", route.path)), None)

    def do(**given: Any) -> Any:
        asked: BaseModel = given["asked"]
        written = given_values(verb, asked)
        values = {field: getattr(asked, field) for field in asked.model_fields_set} | {
            name: value for name, value in written.items() if isinstance(getattr(asked, name), str)
        }
        if is_study:
            task, _, study = place.thing(given["thing"], "study").name.partition("/")
            values |= {"task": task, "study": study}
        elif variable is not None and route.field is not None:
            values[route.field] = _named(place, route, variable, given[variable])
        values |= route.fixed
        check_env(values)
        if route.way == "start":
            if route.words == ("run",):
                require_readable(written)
            written = values | written
            without = (TOKEN_VARIABLE,)
            place.forget()
            return start_verb(route.words, route.verb, written, place.runs_dir, without=without)
        if "wait" in type(asked).model_fields:
            values["wait"] = min(values.get("wait", _PATIENCE_S), _PATIENCE_S)
        where = {"runs_dir": place.runs_dir, "root": place.root}
        values |= {key: where[key] for key in where.keys() & verb.request.model_fields.keys()}
        with telling_places():
            result = verb.do(verb.request(**values))
        if route.way == "do":
            place.forget()
        return plain(as_data(result))

    keyword = inspect.Parameter.KEYWORD_ONLY
    how = Query() if route.way == "read" else Body()
    parameters = [inspect.Parameter("asked", keyword, annotation=Annotated[body, how])]
    if variable is not None:
        part = Annotated[str, PathPart()]
        parameters.append(inspect.Parameter(variable, keyword, annotation=part))
    # pyrefly: ignore[missing-attribute]
    do.__signature__ = inspect.Signature(parameters)
    do.__name__ = name
    return do


def _named(place: WebPlace, route: VerbRoute, variable: str, name: str) -> str:
    """Return the name passed to a verb for the variable part of a URL."""
    if variable == "thing":
        return place.thing(name, *route.kinds).name
    if variable == "deleted":
        deleted = {thing.name for thing in Workspace(place.runs_dir).deleted()}
        if name not in deleted:
            raise UsageError(f"{name[:200]} is not in the trash.")
    return name


def _answer_type(kind: Any) -> Any:
    """Return the type of the document that `as_data` produces for a result type."""
    parts = get_args(kind)
    if len(parts) > 1 and get_origin(kind) not in (dict, list, tuple):
        # pyrefly: ignore[invalid-annotation]
        return Union[tuple(map(_answer_type, parts))]  # noqa: UP007
    if get_origin(kind) is Shown:
        return _answer_type(parts[0]) if get_origin(parts[0]) is None else parts[0]
    return kind if inspect.isclass(kind) and issubclass(kind, BaseModel) else dict[str, Any]
