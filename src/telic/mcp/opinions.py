"""What a coding agent thinks of a verdict: labels and vetoes, kept as the word of an agent.

An agent's labels are kept and exported beside people's, and change no score: no argument of a tool
can prove that a person spoke. Its veto does take a pass away; it can only make a claim smaller.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from telic.core.config import Record
from telic.errors import UnknownName
from telic.mcp.workplace import ADDS, Call, Server, add_tool, caller, workplace
from telic.session.labels import EpisodeLabel, Veto, add_label, add_veto
from telic.storage.layout import SessionFolder, list_sessions

Session = Annotated[str, Field(description="Its id, as list_work gives it.")]


class LabelAnswer(Record):
    """A label that was kept."""

    session: str
    label: EpisodeLabel
    disagrees: bool
    """whether the judge had said something else"""


class VetoAnswer(Record):
    """A veto that was kept; the session is unproven from now on."""

    session: str
    veto: Veto


def register(server: Server) -> None:
    """Add the tools."""
    for tool in (label_episode, veto_session):
        add_tool(server, tool, ADDS)


def label_episode(
    call: Call,
    session: Session,
    answer: Annotated[Literal["yes", "no"], Field(description="Is it what was asked for?")],
    why: Annotated[str, Field(min_length=1, description="What is right or wrong with it.")],
    episode: Annotated[str, Field(description="Number from 1, or p10, median, p90.")] = "median",
    member: Annotated[str | None, Field(description="Policy; default the best.")] = None,
) -> LabelAnswer:
    """Say whether a judged episode is what was asked for; kept as the word of an agent."""
    folder = _session(call, session)
    label = add_label(
        folder,
        answer == "yes",
        member=member,
        episode=episode,
        why=why,
        author=caller(call).name,
        by="agent",
    )
    return LabelAnswer(session=folder.name, label=label, disagrees=label.disagrees)


def veto_session(
    call: Call,
    session: Session,
    why: Annotated[str, Field(min_length=1, description="Why the pass does not stand.")],
) -> VetoAnswer:
    """Say that the pass of a session does not stand; it becomes unproven, for good."""
    folder = _session(call, session)
    veto = add_veto(folder, why, caller(call).name, "agent")
    return VetoAnswer(session=folder.name, veto=veto)


def _session(call: Call, name: str) -> SessionFolder:
    """Return a session by its whole id: a path could lead out of the folder of runs."""
    folders = {folder.name: folder for folder in list_sessions(workplace(call).runs_dir)}
    if name not in folders:
        raise UnknownName("session", name, list(folders))
    return folders[name]
