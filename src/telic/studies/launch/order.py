"""What a launcher is asked to start, and what it says about it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

from telic.studies.canonical import content_hash
from telic.studies.documents.base import Part
from telic.studies.launch import supervisor
from telic.studies.launch.permit import LaunchPermit

JobState = Literal["waiting", "running", "ended", "unknown"]


class Order(NamedTuple):
    """One process to start."""

    nonce: str
    argv: tuple[str, ...]
    argv_hash: str
    cwd: Path
    folder: Path
    """the run folder"""
    variables: dict[str, str]
    """the whole environment; secrets included, never written"""
    changed: dict[str, str]
    """what we set in it, without secrets: for launchers that must write it into a file"""
    timeout_s: float | None
    gpus: tuple[int, ...]
    options: dict[str, Any]
    labels: dict[str, str]
    grace_s: float = 30.0

    @property
    def job_name(self) -> str:
        """The name under which a scheduler knows the run."""
        return f"telic-{self.nonce}"


class Rendered(NamedTuple):
    """Exactly what will be started: shown before, hashed and recorded."""

    argv: tuple[str, ...]
    """what starts it"""
    document: str | None = None
    """the file it is started from: an sbatch script or a Job manifest"""
    document_name: str | None = None
    problems: tuple[str, ...] = ()

    @property
    def hash(self) -> str:
        """Equal orders give equal hashes."""
        return content_hash({"argv": self.argv, "document": self.document})


class Started(Part):
    """How a started run is known from now on."""

    job_id: str | None = None
    """what the scheduler calls it; None where the pid record says it"""
    attach: str | None = None
    """how a person looks at it"""


class JobReport(NamedTuple):
    """What is known of a job that was started."""

    state: JobState
    detail: str = ""
    code: int | None = None
    """exit code, where only the scheduler knows it"""


class Launcher(Protocol):
    """Starts an order in one way; every start spends a permit.

    `render` is pure and gives the same bytes for the same order. `start` is called once per nonce
    and raises EnvironmentBlocked when this machine cannot do it. `report` and `stop` know a run by
    its nonce alone, because whoever started it may have died before writing down more.
    """

    def render(self, order: Order) -> Rendered:
        """Return what would be started."""
        ...

    def start(self, permit: LaunchPermit, order: Order) -> Started:
        """Start it."""
        ...

    def report(self, nonce: str, folder: Path) -> JobReport:
        """Say whether it is waiting, running or ended."""
        ...

    def stop(self, nonce: str, folder: Path) -> None:
        """Ask it to end; the supervisor gives it time to write a checkpoint."""
        ...


def supervised(order: Order, *, detach: bool = False) -> tuple[str, ...]:
    """Return the command that runs the order under the supervisor."""
    # -I and -S: nothing of the caller's or the repository's Python settings may reach it.
    words = [sys.executable, "-I", "-S", str(Path(supervisor.__file__).resolve())]
    words += ["--folder", str(order.folder), "--nonce", order.nonce, "--cwd", str(order.cwd)]
    words += ["--grace", f"{order.grace_s:g}"]
    if order.timeout_s:
        words += ["--timeout", f"{order.timeout_s:g}"]
    if detach:
        words.append("--detach")
    return (*words, "--", *order.argv)
