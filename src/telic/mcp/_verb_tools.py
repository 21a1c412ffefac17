"""MCP tools for operations, with arguments from request fields and responses from results.

If an operation needs a person's consent, the tool asks for this consent: the server builds the
question, the client shows it as a form, and the operation runs only after consent.
"""

from __future__ import annotations

import inspect
import itertools
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from anyio import from_thread
from mcp.server.elicitation import ElicitationResult
from mcp.server.mcpserver import Elicit, Resolve
from mcp_types import ToolAnnotations
from pydantic import Field

from telic.core.config import Record
from telic.core.request import RequestField
from telic.core.verb import Question, Verb, as_data
from telic.envs.simulators.names import require_permitted_request
from telic.errors import UnknownName, readable_path_errors
from telic.llm.names import servers
from telic.mcp._workplace import (
    ADDS,
    READS,
    RECORDS,
    STARTS,
    Call,
    NoConfirmation,
    Server,
    Typed,
    add_tool,
    ask,
    caller,
    consent_to,
    readable,
    workplace,
)
from telic.storage.files import plain
from telic.storage.keys import require_permitted
from telic.storage.workspace import WORK, Workspace
from telic.verbs import catalogue
from telic.verbs.background import start_verb

_OFFERED = ("argument", "option", "context")


class PersonAnswer(Record):
    """Result of an operation that required confirmation by a person."""

    status: Literal["agreed", "ask_in_terminal"]
    result: dict[str, Any] | None = None
    command: str | None = None
    """command that the person can run in a terminal if no form could be shown"""


# ---------------------------------------------------------------------------- the tools


class VerbTool(NamedTuple):
    """Tool for an operation."""

    name: str
    verb: str
    """module:name, as in the catalogue of verbs"""
    hints: ToolAnnotations
    asks: bool = False
    """whether the tool asks for consent. If false, operations that need consent are refused."""
    required: tuple[str, ...] = ()
    """fields that an agent must provide"""
    hidden: tuple[str, ...] = ()
    """fields hidden from agents"""
    help: str | None = None
    """description of the tool, if it differs from the command's help"""
    command: str | None = None
    """command of an operation that runs in the background"""
    defaults: Mapping[str, Any] = {}
    """defaults for agents that differ from the command's defaults"""
    artifact: str | None = None
    """field with the full id of a session, run or search. Paths are rejected for safety."""


_STUDY_RUN = VerbTool(
    "study_run",
    "study_runs:run_steps",
    STARTS,
    asks=True,
    defaults={"minutes": 5.0},
    help="Execute all steps that do not require a person. If confirm is set, also start runs and "
    "wait for them, with a person's confirmation unless autonomy is approved. If a candidate "
    "is given, one run is shown with its gates, or started. Returns when a person is needed "
    "or after a few minutes; call it again to continue.",
)
_RUN_ALONE = ("confirm", "stop", "wait", "gpu")
TOOLS = (
    VerbTool("study_init", "study:init", RECORDS),
    VerbTool("study_contract", "study:contract", RECORDS, asks=True),
    VerbTool("study_approve", "study:approve_study", RECORDS, asks=True),
    VerbTool("study_propose", "study_candidates:propose", ADDS, hidden=("files", "patch")),
    VerbTool("study_status", "study_runs:status", READS),
    VerbTool("study_next", "study_runs:next_action", RECORDS),
    VerbTool("study_audit", "study_runs:audit", RECORDS),
    VerbTool(
        "study_decide",
        "study_candidates:decide",
        RECORDS,
        asks=True,
        required=("because",),
    ),
    VerbTool("study_report", "study_runs:report_study", RECORDS, hidden=("close", "because")),
    VerbTool("study_verify", "study_runs:verify", READS, hidden=("adopt", "path")),
)
WITHOUT_LAUNCH = (
    VerbTool("study_adapter", "study:adapter", RECORDS, hidden=("smoke", "confirm")),
    _STUDY_RUN._replace(hints=RECORDS, hidden=_RUN_ALONE, defaults={}),
)
"""tools that do not start processes; --allow-launch replaces them with those in LAUNCHES"""

LAUNCHES = (
    VerbTool("study_adapter", "study:adapter", STARTS),
    _STUDY_RUN,
    VerbTool(
        "start_session",
        "session:run",
        STARTS,
        hidden=("threshold", "accept_partial"),  # an agent does not decide what a pass is
        command="run",
        defaults={"model": "host"},
        help="Start a session in the background: train a policy from a description and verify it.",
    ),
    VerbTool(
        "start_search",
        "search:search",
        STARTS,
        command="search",
        defaults={"model": "host"},
        help="Start a policy search in the background.",
    ),
    VerbTool("stop_work", "control:stop", STARTS, artifact="artifact", defaults={"wait": 0.0}),
)
"""tools that start processes, available only with --allow-launch"""

OPINIONS = (
    VerbTool(
        "label_episode",
        "labels:label",
        ADDS,
        required=("answer", "why"),
        hidden=("export",),
        artifact="session",
        help="Label a judged episode, as an agent: does it show the intended behavior?",
    ),
    VerbTool(
        "veto_session",
        "labels:veto",
        ADDS,
        artifact="session",
        help="Withdraw a session's pass. The session is then permanently marked as unproven.",
    ),
)
"""tools for an agent's opinions. Labels do not change scores, and a veto only withdraws a pass."""


def register(server: Server, tools: tuple[VerbTool, ...]) -> None:
    """Register operations as tools."""
    for tool in tools:
        verb = catalogue.load_verb(tool.verb)
        make = _starting if tool.command else _asking if tool.asks else _plain
        add_tool(server, make(tool, verb), tool.hints)


def _plain(tool: VerbTool, verb: Verb[Any, Any]) -> Callable[..., Any]:
    def do(call: Call, **values: Any) -> Any:
        if tool.artifact is not None:
            known = [each.name for each in Workspace(workplace(call).runs_dir).artifacts(*WORK)]
            if values[tool.artifact] not in known:
                raise UnknownName("session, run or search", values[tool.artifact], known)
        require_permitted_request(values)
        with readable_path_errors():
            return _data(verb.do(_request(tool, verb, call, values)))

    return _signed(do, tool, verb, dict[str, Any])


def _starting(tool: VerbTool, verb: Verb[Any, Any]) -> Callable[..., Any]:
    """Return a tool that runs an operation in a process that outlives the server."""

    def start(call: Call, **values: Any) -> dict[str, Any]:
        given = {name: value for name, value in values.items() if value is not None}
        require_permitted_request(given)
        models = given.get("model_for") or dict[str, str]()
        require_permitted(*servers(given.get("model"), *models.values()))
        words, runs_dir = (str(tool.command),), workplace(call).runs_dir
        return _data(start_verb(words, tool.verb, given, runs_dir))

    return _signed(start, tool, verb, dict[str, Any])


def _data(result: Any) -> dict[str, Any]:
    """Return a result as one object without a schema, to save space in the agent's context."""
    data = plain(as_data(result))
    return data if isinstance(data, dict) else {"result": data}


class Asking(NamedTuple):
    """Return the confirmation that a call requires, if any."""

    question: Question | None
    needs_person: bool


def _asking(tool: VerbTool, verb: Verb[Any, Any]) -> Callable[..., Any]:
    def work_out(call: Call, **values: Any) -> Asking:
        question = verb.ask(_request(tool, verb, call, values))
        is_agreed = question is None or question.seen.get("needs_nobody")
        return Asking(question, not is_agreed)

    question = readable(_signed(work_out, tool, verb, Asking, name=f"{tool.name}_question"))

    def show(
        call: Call, asking: Annotated[Asking, Resolve(question)]
    ) -> Elicit[Typed] | NoConfirmation:
        if asking.question is None or not asking.needs_person:
            return NoConfirmation()
        return ask(call, asking.question)

    show.__annotations__["asking"] = Annotated[Asking, Resolve(question)]
    show.__qualname__ = f"{tool.name}_form"
    form = readable(show)

    def do(call: Call, asking: Asking, answer: Any, **values: Any) -> dict[str, Any]:
        question, consent = asking.question, None
        if question is not None and asking.needs_person:
            consent = consent_to(call, question, answer)
            if consent is None:
                command = shlex.join(question.command)
                return plain(PersonAnswer(status="ask_in_terminal", command=command))
        seen = question.seen if question else dict[str, Any]()
        with readable_path_errors():
            result = verb.do(_request(tool, verb, call, values, consent=consent, seen=seen))
        return plain(PersonAnswer(status="agreed", result=_data(result)))

    resolved = {
        "asking": Annotated[Asking, Resolve(question)],
        "answer": Annotated[ElicitationResult[Typed], Resolve(form)],
    }
    return _signed(do, tool, verb, dict[str, Any], **resolved)


def _request(
    tool: VerbTool, verb: Verb[Any, Any], call: Call, values: dict[str, Any], **more: Any
) -> Any:
    """Build the request for a call from its arguments, the server's folders and the caller.

    Progress of a long call is reported to the client.
    """
    place, actor, count = workplace(call), caller(call), itertools.count(1)
    paths = {field.name for field in verb.fields if Path in field.alternatives}
    given = {
        name: place.inside(value) if name in paths and isinstance(value, str) else value
        for name, value in values.items()
    }
    known = {
        "root": place.root,
        "runs_dir": place.runs_dir,
        "actor": actor,
        "author": actor.name,
        "by": "agent",
        "processes": tool.hints is STARTS,
        "asks": tool.asks,
        "on_step": lambda text: from_thread.run(
            call.report_progress, float(next(count)), None, str(text)
        ),
    }
    names = {field.name for field in verb.fields} - given.keys()
    own = {name: value for name, value in known.items() if name in names}
    return verb.request(**given, **own, **more)


def _parameter(tool: VerbTool, field: RequestField) -> inspect.Parameter:
    kind, default = field.type, inspect.Parameter.empty
    if Path in field.alternatives:
        kind = str if field.is_required else str | None
    how: dict[str, Any] = {"description": field.help, "json_schema_extra": _shorten}
    if field.minimum is not None:
        how["ge"] = field.minimum
    if field.maximum is not None:
        how["le"] = field.maximum
    if not field.is_required and field.name not in (*tool.required, tool.artifact):
        default = how["default"] = tool.defaults.get(field.name, field.default)
    return _keyword(field.name, Annotated[kind, Field(**how)], default)


def _shorten(schema: dict[str, Any]) -> None:
    """Remove titles and null types from a field's schema, because agents do not need them."""
    schema.pop("title", None)
    types = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    if len(types) == 1:
        del schema["anyOf"]
        schema.update(types[0])
        if schema.get("default", 0) is None:
            del schema["default"]


def _keyword(name: str, annotation: Any, default: Any = inspect.Parameter.empty) -> Any:
    keyword = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, keyword, annotation=annotation, default=default)


def _signed(
    function: Callable[..., Any],
    tool: VerbTool,
    verb: Verb[Any, Any],
    returns: Any,
    name: str | None = None,
    **resolved: Any,
) -> Callable[..., Any]:
    """Set the signature of a function, from which the schema of its arguments is derived."""
    call = inspect.Parameter("call", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=Call)
    parameters = [
        call,
        *(_keyword(each, annotation) for each, annotation in resolved.items()),
        *(
            _parameter(tool, field)
            for field in verb.fields
            if field.how.scope in _OFFERED and field.name not in tool.hidden
        ),
    ]
    function.__name__ = function.__qualname__ = name or tool.name
    function.__doc__ = tool.help or verb.help
    function.__annotations__ = {x.name: x.annotation for x in parameters} | {"return": returns}
    # pyrefly: ignore[missing-attribute]
    function.__signature__ = inspect.Signature(parameters, return_annotation=returns)
    return function
