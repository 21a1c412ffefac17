"""What a launcher is asked to start, the right to start it once, and what it says about it."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, Protocol

from telic.studies.canonical import content_hash
from telic.studies.documents.base import DocumentPart
from telic.studies.errors import GateRefused
from telic.studies.launch import supervisor

LIFETIME_S = 60.0

_MINT: Final = object()


class LaunchPermit:
    """Allows one start of one command; bound to its nonce and the hash of its argv.

    Launchers ask for it, so code that has not passed the gates has nothing to start with. It guards
    against mistakes of our own, not against somebody who edits this module.
    """

    __slots__ = ("_argv_hash", "_expires", "_nonce", "_spent")

    def __init__(self, mint: object, nonce: str, argv_hash: str, expires: float) -> None:
        if mint is not _MINT:
            raise GateRefused(
                "E_PERMIT",
                "A launch permit cannot be made by hand.",
                hint="Start experiments with: telic study run CANDIDATE",
            )
        self._nonce = nonce
        self._argv_hash = argv_hash
        self._expires = expires
        self._spent = False

    def spend(self, nonce: str, argv_hash: str) -> None:
        """Use it up for this command, or raise GateRefused; a refused use spends it too."""
        spent, self._spent = self._spent, True
        if spent:
            raise GateRefused(
                "E_PERMIT", f"The launch permit of {self._nonce} was used before; it counts once."
            )
        if time.monotonic() > self._expires:
            raise GateRefused(
                "E_PERMIT",
                f"The launch permit of {self._nonce} is older than {LIFETIME_S:.0f} s.",
                hint="Run the command again; the gates will be checked anew.",
            )
        if (nonce, argv_hash) != (self._nonce, self._argv_hash):
            raise GateRefused(
                "E_PERMIT", f"The launch permit of {self._nonce} is for another command."
            )


def mint(nonce: str, argv_hash: str) -> LaunchPermit:
    """Give a permit; `gates.pass_gates` is the only caller, and a test holds that."""
    return LaunchPermit(_MINT, nonce, argv_hash, time.monotonic() + LIFETIME_S)


JobState = Literal["waiting", "running", "ended", "unknown"]


class LaunchOrder(NamedTuple):
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
    evaluations: Path | None = None
    """the file that says what is evaluated after the training"""

    @property
    def job_name(self) -> str:
        """The name under which a scheduler knows the run."""
        return f"telic-{self.nonce}"


class RenderedLaunch(NamedTuple):
    """Exactly what will be started: shown before, hashed and recorded."""

    argv: tuple[str, ...]
    """what starts it"""
    document: str | None = None
    """the file it is started from: a job specification"""
    document_name: str | None = None
    problems: tuple[str, ...] = ()

    @property
    def hash(self) -> str:
        """Equal orders give equal hashes."""
        return content_hash({"argv": self.argv, "document": self.document})


class JobHandle(DocumentPart):
    """How a started run is known from now on."""

    job_id: str | None = None
    """what the scheduler calls it; None where the pid record says it"""
    attach: str | None = None
    """how a person looks at it"""


class JobReport(NamedTuple):
    """What is known of a job that was started."""

    state: JobState
    detail: str = ""


class Launcher(Protocol):
    """Starts an order in one way; every start spends a permit.

    `render` is pure and gives the same bytes for the same order. `start` is called once per nonce
    and raises EnvironmentBlocked when this machine cannot do it. `report` and `stop` know a run by
    its nonce alone, because whoever started it may have died before writing down more.
    """

    def render(self, order: LaunchOrder) -> RenderedLaunch:
        """Return what would be started."""
        ...

    def start(self, permit: LaunchPermit, order: LaunchOrder) -> JobHandle:
        """Start it."""
        ...

    def report(self, nonce: str, folder: Path) -> JobReport:
        """Say whether it is waiting, running or ended."""
        ...

    def stop(self, nonce: str, folder: Path) -> None:
        """Ask it to end; the supervisor gives it time to write a checkpoint."""
        ...


def supervised(order: LaunchOrder, *, detach: bool = False) -> tuple[str, ...]:
    """Return the command that runs the order under the supervisor."""
    # -I and -S: nothing of the caller's or the repository's Python settings may reach it.
    words = [sys.executable, "-I", "-S", str(Path(supervisor.__file__).resolve())]
    words += ["--folder", str(order.folder), "--nonce", order.nonce, "--cwd", str(order.cwd)]
    words += ["--grace", f"{order.grace_s:g}"]
    if order.timeout_s:
        words += ["--timeout", f"{order.timeout_s:g}"]
    if order.evaluations is not None:
        words += ["--evaluations", str(order.evaluations)]
    if detach:
        words.append("--detach")
    return (*words, "--", *order.argv)
