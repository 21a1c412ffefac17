"""What a server works on, and what every tool asks of it: the study, the caller, a safe path."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

from mcp.server.mcpserver import Context
from pydantic import Field

from telic.errors import UsageError
from telic.studies.documents.base import Actor
from telic.studies.study import Study as OpenStudy

Task = Annotated[str | None, Field(description="Task; the active one if left out.")]
Study = Annotated[str | None, Field(description="Study; the active one if left out.")]
CandidateName = Annotated[str, Field(description="Candidate, e.g. c-0003-more-tracking.")]
RunName = Annotated[str, Field(description="Run, e.g. r-20260801T090000Z-k3f9qa.")]
Because = Annotated[str, Field(description="Why; kept in the ledger.")]
RequestKey = Annotated[
    str | None,
    Field(description="A name of your own for this request: sent again, it does nothing twice."),
]

_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_NAME = 64


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


def caller(call: Call) -> Actor:
    """Return who calls: always an agent, for no tool argument can prove a person."""
    params = call.session.client_params
    given = params.client_info.name if params is not None else ""
    name = _NOT_IN_A_NAME.sub("-", given).strip("-")[:_LONGEST_NAME]
    return Actor(kind="agent", name=name or "mcp")
