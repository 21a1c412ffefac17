"""Repository and folders of the server, registration of tools, and confirmation by people.

To confirm, a person types a code into a form that the client shows. The code never comes from tool
arguments. A client that cannot show forms receives a command for a person to run in a terminal.
"""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from hashlib import sha256
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from mcp.server import MCPServer
from mcp.server.elicitation import AcceptedElicitation
from mcp.server.mcpserver import Context, Elicit
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.utilities.func_metadata import ArgModelBase
from mcp_types import ToolAnnotations
from pydantic import BaseModel, Field

from telic.core.verb import Question
from telic.errors import TelicError, UsageError
from telic.storage.keys import user_name
from telic.studies.approvals import Consent
from telic.studies.canonical import utc_now
from telic.studies.documents.base import StudyActor
from telic.studies.errors import GateRefused
from telic.studies.study import Study

_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9._-]+")
_MAX_NAME = 64
_LETTERS = "abcdefghjkmnpqrstuvwxyz"
_CODE_LENGTH = 4
_MAX_SHOWN = 12_000
ArgModelBase.model_config["extra"] = "forbid"  # otherwise misspelled arguments have no effect
Given = ParamSpec("Given")
Result = TypeVar("Result")


@dataclass(frozen=True)
class ServerContext:
    """Repository and runs folder of a server."""

    root: Path
    """root of the repository. Nothing outside is read or written, except runs."""
    runs_dir: Path
    allow_launch: bool = False
    secret: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    """secret from which the server derives confirmation codes"""

    def open_study(self, task: str | None = None, study: str | None = None) -> Study:
        """Return the named study, or the active study by default."""
        return Study.find(self.root, task, study)

    def inside(self, path: str) -> Path:
        """Return the path of a file in the repository. Raises UsageError for any other path."""
        root = self.root.resolve()
        found = (root / path).resolve()
        if not found.is_relative_to(root):
            raise UsageError(
                f"{path} is outside the repository.",
                hint="Only files in the repository can be read.",
            )
        if not found.exists():
            raise UsageError(f"{path} does not exist in the repository.")
        return found


Server = MCPServer[ServerContext]
Call = Context[ServerContext, Any]
"""context of a tool call, with its client and the repository"""


def workplace(call: Call) -> ServerContext:
    """Return the repository and runs folder of the server."""
    return call.request_context.lifespan_context


def caller(call: Call) -> StudyActor:
    """Return the caller, always an agent, because tool arguments do not identify a person."""
    params = call.session.client_params
    given = params.client_info.name if params is not None else ""
    name = _NOT_IN_A_NAME.sub("-", given).strip("-")[:_MAX_NAME]
    return StudyActor(kind="agent", name=name or "mcp")


def _hints(*, reads: bool = False, starts: bool = False, repeats: bool = True) -> ToolAnnotations:
    return ToolAnnotations(
        read_only_hint=reads,
        destructive_hint=starts,
        idempotent_hint=repeats,
        open_world_hint=starts,
    )


READS = _hints(reads=True)
RECORDS = _hints()
"""appends to files, but only on the first call"""
ADDS = _hints(repeats=False)
"""appends to files on each call"""
STARTS = _hints(starts=True, repeats=False)
"""starts or ends a process"""


def add_tool(server: Server, function: Callable[..., object], hints: ToolAnnotations) -> None:
    """Register a tool, whose errors are shown as text."""
    server.add_tool(readable(function), annotations=hints, structured_output=True)


def readable(
    function: Callable[Given, Result],
    convert: Callable[[TelicError], Exception] = lambda error: ToolError(str(error)),
) -> Callable[Given, Result]:
    """Convert errors to text if the caller can act on them. Other exceptions propagate."""

    @wraps(function)
    def call(*args: Given.args, **kwargs: Given.kwargs) -> Result:
        try:
            return function(*args, **kwargs)
        except TelicError as error:
            raise convert(error) from None

    return call


# # ---------------------------------------------------------------------------- confirmations


class Typed(BaseModel):
    """Code that a person typed into a form."""

    code: str = Field(title="Code", description="Code at the end of the question.")


class NoConfirmation(BaseModel):
    """Result if no form is required or the client cannot show the complete form."""


def ask(call: Call, question: Question) -> Elicit[Typed] | NoConfirmation:
    """Return the form for a question, or NoConfirmation if the client cannot show it completely."""
    client = call.client_capabilities
    declared = None if client is None else client.elicitation
    if declared is None or (declared.form is None and declared.url is not None):
        return NoConfirmation()
    if len(question.text) > _MAX_SHOWN:  # a person must see all of it
        return NoConfirmation()
    return Elicit(f"{question.text}\n\nType {_code(call, question)} to agree.", Typed)


def consent_to(call: Call, question: Question, answer: object) -> Consent | None:
    """Return the person's consent, or None if no form could be shown.

    Raises GateRefused E_NOT_CONFIRMED if the person declined, closed the form, or typed a different
    code.
    """
    typed: object = getattr(answer, "data", None)
    if not isinstance(answer, AcceptedElicitation):
        typed = None
    if isinstance(typed, NoConfirmation):
        return None
    if not isinstance(typed, Typed):
        raise GateRefused("E_NOT_CONFIRMED", "The person declined. Nothing was recorded.")
    given, code = typed.code.strip().lower().encode(), _code(call, question).encode()
    if not hmac.compare_digest(given, code):
        raise GateRefused("E_NOT_CONFIRMED", "The code was not entered. Nothing was confirmed.")
    return Consent(by=user_name(), method="elicitation", at=utc_now())


def _code(call: Call, question: Question) -> str:
    """Return the secret code for a question. Each call returns the same code."""
    # The code covers the text and its hashes, so a changed text has another code.
    shown = "\n".join([question.text, *map(str, question.seen.values())])
    digest = hmac.digest(workplace(call).secret, shown.encode(), sha256)
    return "".join(_LETTERS[byte % len(_LETTERS)] for byte in digest[:_CODE_LENGTH])
