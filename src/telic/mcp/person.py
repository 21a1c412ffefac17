"""Ask the person behind the agent: a form that the client shows, with a code to type.

The answer comes from the client, never from a tool's arguments; what the agent writes counts for
nothing. A client that cannot show forms gets the command that a person runs in a terminal.
"""

from __future__ import annotations

import hmac
import shlex
from hashlib import sha256

from mcp.server.elicitation import AcceptedElicitation
from mcp.server.mcpserver import Elicit
from pydantic import BaseModel, Field

from telic.core.verb import Question
from telic.mcp.workplace import Call, workplace
from telic.studies.approvals import Consent, user_name
from telic.studies.canonical import utc_now
from telic.studies.errors import GateRefused

_LETTERS = "abcdefghjkmnpqrstuvwxyz"
_CODE_LENGTH = 4
_MOST_SHOWN = 12_000


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
    declared = call.client_capabilities and call.client_capabilities.elicitation
    return bool(declared is not None and (declared.form is not None or declared.url is None))


def consent_to(call: Call, question: Question, answer: object) -> Consent | None:
    """Return the person's yes; None where nobody could be asked.

    Raises GateRefused E_NOT_CONFIRMED when the person refused, closed the form, or typed something
    else.
    """
    typed = answer.data if isinstance(answer, AcceptedElicitation) else None
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
    return "".join(_LETTERS[each % len(_LETTERS)] for each in digest[:_CODE_LENGTH])
