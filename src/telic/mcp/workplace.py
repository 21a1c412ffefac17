"""What a server works on, how a function becomes a tool, and how a tool asks a person.

A question to the person behind the agent is a form that the client shows, with a code to type. The
answer comes from the client, never from a tool's arguments; what the agent writes counts for
nothing. A client that cannot show forms gets the command that a person runs in a terminal.
"""

from __future__ import annotations

import hmac
import re
import secrets
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, ParamSpec, TypeVar, cast

from mcp.server import MCPServer
from mcp.server.elicitation import AcceptedElicitation
from mcp.server.mcpserver import Context, Elicit
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations
from pydantic import BaseModel, Field

from telic.core.verb import Question
from telic.errors import TelicError, UsageError
from telic.studies.approvals import Consent, user_name
from telic.studies.canonical import utc_now
from telic.studies.documents.base import StudyActor
from telic.studies.errors import GateRefused
from telic.studies.offline import offline
from telic.studies.study import Study as OpenStudy

Task = Annotated[str | None, Field(description="Task; the active one if left out.")]
Study = Annotated[str | None, Field(description="Study; the active one if left out.")]
Because = Annotated[str, Field(description="Why; kept in the ledger.")]
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_NAME = 64
_LETTERS = "abcdefghjkmnpqrstuvwxyz"
_CODE_LENGTH = 4
_MOST_SHOWN = 12_000


@dataclass(frozen=True)
class Workplace:
    """The repository and the runs that a server was started for."""

    root: Path
    """the repository; nothing outside it is read or written, but the runs"""
    runs_dir: Path
    """folder of sessions and searches"""
    allow_launch: bool = False
    secret: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    """of this server alone; the codes that people type come from it"""

    @property
    def name(self) -> str:
        """What tells this server from another of the same repository."""
        return sha256(self.secret).hexdigest()[:8]

    def open_study(self, task: str | None = None, study: str | None = None) -> OpenStudy:
        """Return the active study, or the named one."""
        return OpenStudy.find(self.root, task, study)

    def inside(self, path: str) -> Path:
        """Return a file of the repository; raises UsageError when it leads out or is not there."""
        root = self.root.resolve()
        found = (root / path).resolve()
        if not found.is_relative_to(root):
            raise UsageError(
                f"{path} leads out of the repository.",
                hint="Only files of the repository are read.",
            )
        if not found.exists():
            raise UsageError(f"There is no {path} in the repository.")
        return found


Call = Context[Workplace, Any]
"""one call of a tool: who calls, and the workplace"""


def workplace(call: Call) -> Workplace:
    """Return what this server works on."""
    return call.request_context.lifespan_context


def study_of(call: Call, task: str | None, study: str | None) -> OpenStudy:
    """Return the study that a call names."""
    return workplace(call).open_study(task, study)


def caller(call: Call) -> StudyActor:
    """Return who calls: always an agent, for no tool argument can prove a person."""
    params = call.session.client_params
    given = params.client_info.name if params is not None else ""
    name = _NOT_IN_A_NAME.sub("-", given).strip("-")[:_LONGEST_NAME]
    return StudyActor(kind="agent", name=name or "mcp")


Given = ParamSpec("Given")
Result = TypeVar("Result")
Server = MCPServer[Workplace]

READS = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
"""looks, and changes nothing"""
RECORDS = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
"""adds to the files of the study; the same call again adds nothing more"""
ADDS = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False
)
"""adds to the files of the study each time"""
STARTS = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=True
)
"""starts or ends a process"""


def add_tool(server: Server, function: Callable[..., object], hints: ToolAnnotations) -> None:
    """Add a function as a tool; only one that STARTS may start a process or open a connection."""
    made = readable(function) if hints is STARTS else guarded(function)
    server.add_tool(made, annotations=hints, structured_output=True)


def guarded(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """Run a tool or a resolver so that it starts nothing, and turn its errors into text."""

    @wraps(function)
    def offline_call(*args: Given.args, **kwargs: Given.kwargs) -> Result:
        with offline(function.__name__.strip("_").replace("_", " ")):
            return function(*args, **kwargs)

    return readable(offline_call)


def readable(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """Turn errors that a caller can act on into text; bugs of ours stay on the server's side."""

    @wraps(function)
    def call(*args: Given.args, **kwargs: Given.kwargs) -> Result:
        try:
            return function(*args, **kwargs)
        except TelicError as error:
            raise ToolError(paragraph(error)) from None

    return call


def paragraph(error: TelicError) -> str:
    """Return what went wrong and what to do."""
    return f"{error.message} {error.hint}" if error.hint else error.message


# ---------------------------------------------------------------------------- asking a person


class Typed(BaseModel):
    """What the person types into the form."""

    code: str = Field(title="Code", description="The letters that the question ends with.")


class NoForm(BaseModel):
    """The client cannot show a form."""


def ask(call: Call, question: Question) -> Elicit[Typed] | NoForm:
    """Return the form for a question, or that none can be shown."""
    if not can_show_forms(call):
        return NoForm()
    text = question.text
    if len(text) > _MOST_SHOWN:
        text = f"{text[:_MOST_SHOWN]}\n… (the rest is in the files of the study)"
    return Elicit(f"{text}\n\nType {_code(call, question)} to agree.", Typed)


def can_show_forms(call: Call) -> bool:
    """Say whether the client declared that it shows forms to a person."""
    client = call.client_capabilities
    declared = None if client is None else client.elicitation
    return bool(declared is not None and (declared.form is not None or declared.url is None))


def consent_to(call: Call, question: Question, answer: object) -> Consent | None:
    """Return the person's yes; None where nobody could be asked.

    Raises GateRefused E_NOT_CONFIRMED when the person refused, closed the form, or typed something
    else.
    """
    typed: object = None
    if isinstance(answer, AcceptedElicitation):
        typed = cast("AcceptedElicitation[Any]", answer).data
    if isinstance(typed, NoForm):
        return None
    if not isinstance(typed, Typed):
        raise GateRefused("E_NOT_CONFIRMED", "The person did not agree; nothing was recorded.")
    given, code = typed.code.strip().lower().encode(), _code(call, question).encode()
    if not hmac.compare_digest(given, code):
        raise GateRefused("E_NOT_CONFIRMED", "The code was not typed; nothing was agreed to.")
    return Consent(by=user_name(), method="elicitation", at=utc_now())


def terminal_command(question: Question) -> str:
    """Return the command that asks the same in a terminal."""
    return shlex.join(question.command)


def _code(call: Call, question: Question) -> str:
    """Return the letters for a question: the same each time it is asked, unknown beforehand."""
    # What was shown and what it hashes to: a changed text has another code.
    shown = "\n".join([question.text, *map(str, question.seen.values())])
    digest = hmac.digest(workplace(call).secret, shown.encode(), sha256)
    return "".join(_LETTERS[byte % len(_LETTERS)] for byte in digest[:_CODE_LENGTH])
