"""From verbs to tools: arguments from the fields of a request, the answer from its result.

A verb that a person has to agree to becomes a tool that asks them: the question is worked out, the
client shows it as a form, and only then is the verb done.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from mcp.server.elicitation import ElicitationResult
from mcp.server.mcpserver import Elicit, Resolve
from mcp_types import ToolAnnotations
from pydantic import BaseModel, Field

from telic.core.annotations import return_type
from telic.core.config import Record
from telic.core.request import RequestField
from telic.core.verb import Question, Verb, as_data
from telic.errors import UnknownName, telling_places
from telic.mcp.http import TOKEN_VARIABLE
from telic.mcp.workplace import (
    ADDS,
    READS,
    RECORDS,
    STARTS,
    Call,
    NoForm,
    Server,
    Typed,
    add_tool,
    ask,
    caller,
    consent_to,
    guarded,
    terminal_command,
    workplace,
)
from telic.storage.files import plain
from telic.storage.workspace import WORK, Workspace
from telic.studies.decide import DecisionOutcome
from telic.studies.launch.launch import LaunchResult
from telic.verbs import catalogue
from telic.verbs.background import StartedJob, start_verb
from telic.verbs.study import Approvals, ContractView


class PersonAnswer(Record):
    """The result of a question to a person."""

    status: Literal["agreed", "started", "ask_in_terminal", "nothing_to_ask"]
    what: tuple[str, ...] = ()
    command: str | None = None
    """for the person to run in a terminal, where no form could be shown"""
    voided: tuple[str, ...] = ()
    """approvals that no longer hold because of it"""
    decision: DecisionOutcome | None = None
    launched: LaunchResult | None = None


def _approved(done: Approvals) -> PersonAnswer:
    return PersonAnswer(status="agreed" if done.keys else "nothing_to_ask", what=done.keys)


def _amended(done: ContractView) -> PersonAnswer:
    version = f"version {done.check.version}"
    return PersonAnswer(status="agreed", what=(version,), voided=done.voided)


def _decided(done: DecisionOutcome) -> PersonAnswer:
    return PersonAnswer(status="agreed", decision=done)


def _launched(done: LaunchResult) -> PersonAnswer:
    return PersonAnswer(status="started", launched=done)


# ---------------------------------------------------------------------------- the tools


@dataclass(frozen=True, slots=True)
class VerbTool:
    """A verb as a tool."""

    name: str
    verb: str
    """module:name, as in the catalogue of verbs"""
    hints: ToolAnnotations
    answer: Callable[[Any], PersonAnswer] | None = None
    """from the result of a verb that a person has to agree to"""
    required: tuple[str, ...] = ()
    """fields that an agent may not leave out"""
    hidden: tuple[str, ...] = ()
    """fields that are not an agent's to fill in"""
    help: str | None = None
    """for an agent, where it differs from that of the command"""
    command: str | None = None
    """the command of a verb that runs in the background"""
    defaults: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """for an agent, where they differ from those of the command"""
    thing: str | None = None
    """the field that names a session, run or search; only a whole id is accepted, because a path
    could lead out of the folder of runs"""


TOOLS = (
    VerbTool("get_state", "study_server:get_state", READS),
    VerbTool("show", "study_runs:status", READS),
    VerbTool("list_candidates", "study_server:list_candidates", READS),
    VerbTool("list_runs", "study_server:list_runs", READS),
    VerbTool("get_report", "study_server:get_report", READS),
    VerbTool("check_gates", "study_server:check_gates", READS),
    VerbTool("next_step", "study_server:loop_step", READS),
    VerbTool("init_study", "study:init", RECORDS),
    VerbTool("check_adapter", "study:adapter", RECORDS, hidden=("smoke", "confirm")),
    VerbTool("draft_contract", "study:contract", RECORDS, hidden=("amend",)),
    VerbTool("propose_candidate", "study_candidates:propose", RECORDS, hidden=("files", "patch")),
    VerbTool("continue_study", "study_server:continue_study", RECORDS),
    VerbTool("audit", "study_runs:audit", RECORDS),
    VerbTool(
        "propose_decision",
        "study_candidates:decide",
        RECORDS,
        required=("because",),
        help="Record a decision that cites evidence; accept, keep and revert stay proposals.\n\n"
        "To have a person decide, call request_decision.",
    ),
    VerbTool("verify_ledger", "study_server:ledger_verify", READS),
    VerbTool("write_report", "study_runs:report", RECORDS, hidden=("close", "because")),
    VerbTool("add_note", "study_server:add_note", ADDS),
    VerbTool("pause_study", "study_server:pause", RECORDS, required=("because",)),
)
"""what an agent does by itself"""

REQUESTS = (
    VerbTool(
        "request_approval",
        "study:approve",
        RECORDS,
        _approved,
        help="Ask the person to approve parts of the contract and the adapter, or a candidate.\n\n"
        "The person is shown the text and types a code. You cannot answer for them.",
    ),
    VerbTool(
        "request_amendment",
        "study:contract",
        RECORDS,
        _amended,
        required=("amend",),
        hidden=("answers", "evaluator", "metric_spec", "protocol", "sample"),
        help="Record contract.yaml as it is as a new version; once parts are approved, a person "
        "agrees.",
    ),
    VerbTool("request_decision", "study_candidates:request_decision", RECORDS, _decided),
    VerbTool(
        "request_resume",
        "study_server:resume",
        RECORDS,
        lambda _: PersonAnswer(status="agreed", what=("resume",)),
        required=("because",),
        help="Ask the person to resume a paused study.",
    ),
)
"""what an agent asks a person for"""

LAUNCHES = (
    VerbTool("launch_candidate", "study_server:launch_candidate", STARTS, _launched),
    VerbTool("stop_run", "study_server:stop_run", STARTS, required=("because",)),
    VerbTool(
        "start_session",
        "session:run",
        STARTS,
        command="run",
        defaults={"model": "host"},
        help="Start a session in the background: from words to a trained policy with evidence.",
    ),
    VerbTool(
        "start_search",
        "search:search",
        STARTS,
        command="search",
        defaults={"model": "host"},
        help="Start a policy search in the background.",
    ),
    VerbTool("stop_work", "control:stop", STARTS, thing="thing", defaults={"wait": 0.0}),
)
"""what starts and stops processes; only with --allow-launch"""

OPINIONS = (
    VerbTool(
        "label_episode",
        "labels:label",
        ADDS,
        required=("answer", "why"),
        hidden=("export",),
        thing="session",
        help="Say whether a judged episode is what was asked for; recorded as an agent's label.",
    ),
    VerbTool(
        "veto_session",
        "labels:veto",
        ADDS,
        thing="session",
        help="Withdraw the pass of a session; it becomes unproven, permanently.",
    ),
)
"""an agent's opinion of a verdict: its labels are exported beside those of people and change no
score, its veto can only make a claim smaller"""


def register(server: Server, tools: tuple[VerbTool, ...]) -> None:
    """Add verbs as tools."""
    for tool in tools:
        verb = catalogue.load(tool.verb)
        # A tool without `answer` never asks: what needs a person is refused to it.
        make = _plain if verb.question is None or tool.answer is None else _asking
        make = make if tool.command is None else _starting
        add_tool(server, make(tool, verb), tool.hints)


def _plain(tool: VerbTool, verb: Verb[Any, Any]) -> Callable[..., Any]:
    def do(call: Call, **values: Any) -> Any:
        if tool.thing is not None:
            _require_id(call, values[tool.thing])
        with telling_places():
            result = verb.do(_request(verb, call, values))
        return result if isinstance(result, BaseModel) else plain(as_data(result))

    return _signed(do, tool.name, tool.help or verb.help, _fields(tool, verb), _returns(verb))


def _require_id(call: Call, name: str) -> None:
    known = [thing.name for thing in Workspace(workplace(call).runs_dir).things(*WORK)]
    if name not in known:
        raise UnknownName("session, run or search", name, known)


def _starting(tool: VerbTool, verb: Verb[Any, Any]) -> Callable[..., Any]:
    """Return a tool that starts a verb in a process that outlives the server."""

    def start(call: Call, **values: Any) -> StartedJob:
        given = {name: value for name, value in values.items() if value is not None}
        runs_dir = workplace(call).runs_dir
        return start_verb(
            (str(tool.command),), tool.verb, given, runs_dir, without=(TOKEN_VARIABLE,)
        )

    return _signed(start, tool.name, tool.help or verb.help, _fields(tool, verb), StartedJob)


class Asking(NamedTuple):
    """What a person is to be asked, if anything."""

    question: Question | None

    @property
    def to_ask(self) -> Question | None:
        """The question that somebody has to answer; one that is agreed to already needs nobody."""
        needs_nobody = self.question is not None and self.question.seen.get("needs_nobody")
        return None if needs_nobody else self.question


def _asking(tool: VerbTool, verb: Verb[Any, Any]) -> Callable[..., Any]:
    fields = _fields(tool, verb)

    def work_out(call: Call, **values: Any) -> Asking:
        return Asking(verb.ask(_request(verb, call, values)))

    question = guarded(_signed(work_out, f"{tool.name}_question", "", fields, Asking))

    def show(call: Call, asking: Annotated[Asking, Resolve(question)]) -> Elicit[Typed] | NoForm:
        return NoForm() if asking.to_ask is None else ask(call, asking.to_ask)

    show.__annotations__["asking"] = Annotated[Asking, Resolve(question)]
    show.__qualname__ = f"{tool.name}_form"
    form = guarded(show)

    def do(call: Call, asking: Asking, answer: Any, **values: Any) -> Any:
        assert tool.answer is not None
        consent = None
        if asking.to_ask is not None:
            consent = consent_to(call, asking.to_ask, answer)
            if consent is None:
                command = terminal_command(asking.to_ask)
                seen = tuple(asking.to_ask.seen)
                return PersonAnswer(status="ask_in_terminal", what=seen, command=command)
        seen = asking.question.seen if asking.question else dict[str, Any]()
        request = _request(verb, call, values, consent=consent, seen=seen)
        with telling_places():
            return tool.answer(verb.do(request))

    resolved = {
        "asking": Annotated[Asking, Resolve(question)],
        "answer": Annotated[ElicitationResult[Typed], Resolve(form)],
    }
    help = tool.help or verb.help
    return _signed(do, tool.name, help, {**resolved, **fields}, PersonAnswer)


def _request(verb: Verb[Any, Any], call: Call, values: dict[str, Any], **more: Any) -> Any:
    """Return the request of a call: what was given, where the server works, and who asks."""
    place = workplace(call)
    offered = [field for field in verb.fields if field.name in values]
    paths = {field.name for field in offered if Path in field.alternatives}
    given = {
        name: place.inside(value) if name in paths and isinstance(value, str) else value
        for name, value in values.items()
    }
    known = {"root": place.root, "runs_dir": place.runs_dir, "actor": caller(call)}
    known |= {"author": caller(call).name, "by": "agent"}
    names = {each.name for each in verb.fields} - given.keys()
    own = {name: value for name, value in known.items() if name in names}
    return verb.request(**given, **own, **more)


def _fields(tool: VerbTool, verb: Verb[Any, Any]) -> dict[str, Any]:
    """Return the arguments of a tool: annotations by name, defaults in them."""
    offered = ("argument", "option", "context")
    return {
        field.name: _annotation(tool, field)
        for field in verb.fields
        if field.how.scope in offered and field.name not in tool.hidden
    }


def _annotation(tool: VerbTool, field: RequestField) -> Any:
    kind = str if Path in field.alternatives else field.type
    if Path in field.alternatives and not field.is_required:
        kind = str | None
    how: dict[str, Any] = {"description": field.help}
    if field.minimum is not None:
        how["ge"] = field.minimum
    if field.maximum is not None:
        how["le"] = field.maximum
    if not field.is_required and field.name not in (*tool.required, tool.thing):
        how["default"] = tool.defaults.get(field.name, field.default)
    return Annotated[kind, Field(**how)]


def _returns(verb: Verb[Any, Any]) -> Any:
    returned = return_type(verb.do)
    is_record = inspect.isclass(returned) and issubclass(returned, BaseModel)
    return returned if is_record else dict[str, Any]


def _signed(
    function: Callable[..., Any],
    name: str,
    help: str,
    fields: Mapping[str, Any],
    returns: Any,
) -> Callable[..., Any]:
    """Give a function of any keywords the signature that the server makes a schema from."""
    keyword = inspect.Parameter.KEYWORD_ONLY
    call = inspect.Parameter("call", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=Call)
    rest = [
        inspect.Parameter(field, keyword, annotation=kind, default=_default(kind))
        for field, kind in fields.items()
    ]
    function.__name__ = function.__qualname__ = name
    function.__doc__ = help
    function.__annotations__ = {"call": Call, **fields, "return": returns}
    # pyrefly: ignore[missing-attribute]
    function.__signature__ = inspect.Signature([call, *rest], return_annotation=returns)
    return function


def _default(kind: Any) -> Any:
    """Return the default that an annotation carries."""
    for how in getattr(kind, "__metadata__", ()):
        if hasattr(how, "is_required") and not how.is_required():
            return how.default
    return inspect.Parameter.empty
