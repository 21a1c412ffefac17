"""Who is speaking: proof that a person agreed, which no agent can give for them by accident."""

from __future__ import annotations

import getpass
import os
import secrets
import sys
from dataclasses import dataclass
from typing import TextIO

from telic.studies.documents.base import ActorKind, StudyActor
from telic.studies.documents.contract import ApprovalMethod
from telic.studies.errors import GateRefused, StudyError
from telic.studies.names import utc_now

_LETTERS = "abcdefghjkmnpqrstuvwxyz"
_CODE_LENGTH = 4
_KINDS: tuple[ActorKind, ...] = ("human", "agent", "system", "runner", "engine")


@dataclass(frozen=True)
class Consent:
    """A person said yes to one thing, through a channel that only people have."""

    by: str
    method: ApprovalMethod
    at: str

    @property
    def actor(self) -> StudyActor:
        """The person, as the ledger names them."""
        return StudyActor(kind="human", name=self.by)


def ask_on_terminal(
    question: str, *, read: TextIO | None = None, write: TextIO | None = None
) -> Consent:
    """Show a short code and have the person at the terminal type it.

    Raises GateRefused E_NO_HUMAN without a terminal on both ends, E_NOT_CONFIRMED when what is
    typed is not the code.
    """
    listening, speaking = read or sys.stdin, write or sys.stderr
    if listening is None or speaking is None or not (listening.isatty() and speaking.isatty()):
        raise GateRefused(
            "E_NO_HUMAN",
            "This needs a person, and there is no terminal to ask one.",
            hint="Run the same command yourself in a terminal.",
        )
    code = "".join(secrets.choice(_LETTERS) for _ in range(_CODE_LENGTH))
    speaking.write(f"{question}\nType {code} to agree, anything else to refuse: ")
    speaking.flush()
    if listening.readline().strip() != code:
        raise GateRefused("E_NOT_CONFIRMED", "The code was not typed; nothing was agreed to.")
    return Consent(by=user_name(), method="tty", at=utc_now())


def current_actor() -> StudyActor:
    """Return who runs this command: TELIC_ACTOR (kind:name), a person at a terminal, or an agent.

    Without a terminal nobody counts as a person, whatever the variable says.
    """
    session = os.environ.get("TELIC_SESSION") or None
    given = os.environ.get("TELIC_ACTOR")
    at_terminal = _is_terminal(sys.stdin) and _is_terminal(sys.stdout)
    if given:
        kind, _, name = given.partition(":")
        if kind not in _KINDS or kind in ("system", "runner") or not name:
            raise StudyError(
                "E_ACTOR",
                f'TELIC_ACTOR="{given}" does not name an actor.',
                hint="Write agent:NAME, engine:NAME or human:NAME.",
            )
        if kind != "human" or at_terminal:
            return StudyActor(kind=kind, name=name, session=session)
        return StudyActor(kind="agent", name=name, session=session)
    return StudyActor(kind="human" if at_terminal else "agent", name=user_name(), session=session)


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()


def user_name() -> str:
    """Return the name of the person whose account this is."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"
