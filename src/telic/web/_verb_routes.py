"""HTTP routes for operations. POST routes change data, and long operations run in the background.

Fields, help, defaults and bounds come from the operation's request. Names in URLs must be exact ids
of existing artifacts. Paths and prefixes of ids are only accepted on the command line.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from fastapi import APIRouter, Body, Query
from fastapi import Path as PathPart
from pydantic import BaseModel, ConfigDict, Field, create_model

from telic.authors.request import ENV, SessionConfig
from telic.core.text import integer_list, read_count
from telic.core.verb import Verb, VerbResult, as_data
from telic.errors import Refused, UsageError, readable_path_errors
from telic.judges.criteria import Composition
from telic.robots.catalogue import is_fetched, named_robot, robot_names
from telic.session.motion import composed
from telic.storage.files import plain
from telic.storage.workspace import WORK, ArtifactKind, Workspace
from telic.verbs import catalogue
from telic.verbs.background import StartedJob, start_verb
from telic.web._connections import TOKEN_VARIABLE
from telic.web._place import WebPlace

_TIMEOUT_S = 20.0
"""timeout in seconds for a request to take effect"""
_ARTIFACT = "/artifacts/{artifact}"
_SESSION: tuple[ArtifactKind, ...] = ("session",)
_OFFERED = ("argument", "option", "context")
_REGISTERED = re.compile(r"(?:[\w.-]+/)?[\w.-]+-v\d+")
_FILE_NAME = re.compile(r"[\w-]+(\.xml)?")
"""a word, or a model that is included in the environment"""
_TEXTS = (integer_list, read_count)
"""parsers of text that pages may send as on the command line, e.g. 1-3 or 300k"""


class VerbRoute(NamedTuple):
    """Route for an operation."""

    path: str
    verb: str
    """module:name, as in the catalogue of verbs"""
    way: Literal["read", "do", "start"]
    field: str | None = None
    """request field that is set from the URL"""
    kinds: tuple[ArtifactKind, ...] = ()
    """kinds allowed for {artifact}. For a study, the request's task and study are set."""
    hidden: tuple[str, ...] = ()
    """fields that are not available"""
    words: tuple[str, ...] = ()
    """words of the command, if the route starts work"""
    fixed: Mapping[str, Any] = {}
    """fixed values of request fields"""


ROUTES = (
    VerbRoute("/envs", "envs:envs", "read", hidden=("env", "every", "search")),
    VerbRoute("/envs/{env}", "envs:envs", "read", "env", hidden=("every", "search")),
    VerbRoute("/doctor", "machine:doctor", "read"),
    VerbRoute("/robots", "envs:list_robots", "read"),
    VerbRoute(f"{_ARTIFACT}/stop", "control:stop", "do", "artifact", WORK),
    VerbRoute(f"{_ARTIFACT}/pause", "control:pause", "do", "session", _SESSION),
    VerbRoute(f"{_ARTIFACT}/note", "control:note", "do", "session", _SESSION),
    VerbRoute(f"{_ARTIFACT}/approve", "control:approve", "do", "session", _SESSION),
    VerbRoute(f"{_ARTIFACT}/branch", "control:branch", "do", "session", _SESSION),
    VerbRoute(f"{_ARTIFACT}/label", "labels:label", "do", "session", _SESSION),
    VerbRoute(f"{_ARTIFACT}/judge", "compare:judge", "do", "artifact", _SESSION),
    VerbRoute(f"{_ARTIFACT}/veto", "labels:veto", "do", "session", _SESSION),
    VerbRoute(f"{_ARTIFACT}/delete", "artifacts:delete", "do", "artifact", WORK, ("undo",)),
    VerbRoute(
        "/trash/{deleted}/restore",
        "artifacts:delete",
        "do",
        "artifact",
        hidden=("undo",),
        fixed={"undo": True},
    ),
    VerbRoute(f"{_ARTIFACT}/report", "artifacts:report", "do", "artifact", ("session", "search")),
    VerbRoute(f"{_ARTIFACT}/resume", "control:resume", "start", "artifact", WORK, (), ("resume",)),
    VerbRoute(
        f"{_ARTIFACT}/export", "artifacts:export", "start", "artifact", WORK, (), ("export",)
    ),
    VerbRoute("/start/run", "session:run", "start", words=("run",)),
    VerbRoute("/start/train", "train:train", "start", hidden=("reward",), words=("train",)),
    VerbRoute("/start/search", "search:search", "start", words=("search",)),
    VerbRoute(
        "/start/bench", "machine:intents", "start", None, (), ("suite",), ("bench", "intents")
    ),
    VerbRoute(f"{_ARTIFACT}/gates", "study_runs:check_gates", "read", None, ("study",)),
)


def routes(place: WebPlace) -> APIRouter:
    """Return the routes for operations."""
    router = APIRouter(tags=["verbs"])
    for route in ROUTES:
        verb, starts = catalogue.load_verb(route.verb), route.way == "start"
        result: Any = StartedJob if starts else _answer_type(get_type_hints(verb.do)["return"])
        router.add_api_route(
            route.path,
            _endpoint(place, route, verb),
            methods=["GET"] if route.way == "read" else ["POST"],
            response_model=result,
            summary=verb.help.splitlines()[0],
            description=verb.help,
            operation_id=_operation(route),
            status_code=202 if starts else 200,
        )
    return router


def _operation(route: VerbRoute) -> str:
    return f"{route.way}_{re.sub(r'[{}]', '', route.path).strip('/').replace('/', '_')}"


def _endpoint(place: WebPlace, route: VerbRoute, verb: Verb[Any, Any]) -> Callable[..., Any]:
    """Return an endpoint function whose signature defines the schema."""
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
            task, _, study = place.artifact(given["artifact"], "study").name.partition("/")
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
            values["wait"] = min(values.get("wait", _TIMEOUT_S), _TIMEOUT_S)
        where = {"runs_dir": place.runs_dir, "root": place.root}
        values |= {key: where[key] for key in where.keys() & verb.request.model_fields.keys()}
        with readable_path_errors():
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
    """Return the operation's argument for the variable part of a URL."""
    if variable == "artifact":
        return place.artifact(name, *route.kinds).name
    if variable == "deleted":
        deleted = {artifact.name for artifact in Workspace(place.runs_dir).deleted()}
        if name not in deleted:
            raise UsageError(f"{name[:200]} is not in the trash.")
    return name


def _answer_type(kind: Any) -> Any:
    """Return the type of the document that `as_data` creates for a result type."""
    parts = get_args(kind)
    if len(parts) > 1 and get_origin(kind) not in (dict, list, tuple):
        # pyrefly: ignore[invalid-annotation]
        return Union[tuple(map(_answer_type, parts))]  # noqa: UP007
    if get_origin(kind) is VerbResult:
        return _answer_type(parts[0]) if get_origin(parts[0]) is None else parts[0]
    return kind if inspect.isclass(kind) and issubclass(kind, BaseModel) else dict[str, Any]


# ---- bodies, and the values that a page may set
#
# An environment must be registered; files and importable code are refused.


def check_env(values: Mapping[str, Any]) -> None:
    """Raise Refused for an environment that is defined by a file or by untrusted code."""
    arguments: Mapping[str, Any] = values.get("env_args") or {}
    for key, value in arguments.items():
        if isinstance(value, str) and not _FILE_NAME.fullmatch(value):
            raise Refused(
                f'Invalid environment argument {key[:60]}: "{value[:60]}".',
                hint="Files can only be used on the command line: telic train --env-arg.",
            )
    name = values.get("env")
    if name is not None and not _REGISTERED.fullmatch(name) and name not in robot_names():
        raise Refused(
            f'"{name[:100]}" is not a registered environment.',
            hint="Files and code can only be used on the command line: telic run --env FILE.",
        )


def body_of(verb: Verb[Any, Any], name: str, hidden: tuple[str | None, ...]) -> type[BaseModel]:
    """Return the model of a request body, without locations and files that the server sets."""
    fields: dict[str, Any] = {}
    for field in verb.fields:
        if field.how.scope not in _OFFERED or field.name in hidden or Path in field.alternatives:
            continue
        kind, known = field.type, verb.request.model_fields[field.name]
        if field.how.read in _TEXTS:  # bounds are checked after a text is parsed
            kind, known = str | kind, Field(known.default, description=known.description)
        fields[field.name] = (kind, known)
    config = ConfigDict(extra="forbid", title=name)
    return create_model(name, __config__=config, __doc__=verb.help, **fields)


def given_values(verb: Verb[Any, Any], asked: BaseModel) -> dict[str, Any]:
    """Return the fields that a request body sets. Text is parsed as on the command line."""
    values = asked.model_dump(mode="json", exclude_unset=True)
    for field in verb.fields:
        if field.how.read in _TEXTS and isinstance(values.get(field.name), str):
            values[field.name] = field.how.read(values[field.name], field.name.replace("_", " "))
    return values


def read_intent(values: Mapping[str, Any]) -> tuple[SessionConfig, Composition | None]:
    """Return a session's configuration and composition, or None if a model reads the intent.

    Raises a TelicError if the request cannot be started, e.g. because of its intent.
    """
    check_env(values)
    fields = {name: value for name, value in values.items() if name in SessionConfig.model_fields}
    config = SessionConfig.parse(fields)
    require_here(config.env, "They are downloaded when the session starts.")
    if config.model is not None:
        return config, None
    return config, composed(config)


def require_readable(values: Mapping[str, Any]) -> None:
    """Raise an error if the composer cannot interpret a session's intent. Nothing is downloaded."""
    env = values.get("env", ENV)
    if env not in robot_names() or is_fetched(named_robot(env)):
        read_intent(values)


def require_here(env: str, hint: str) -> None:
    """Raise Refused for an unregistered environment, or UsageError for a missing robot model."""
    check_env({"env": env})
    if env in robot_names() and not is_fetched(named_robot(env)):
        raise UsageError(f"The files of {env} have not been downloaded yet.", hint=hint)
