"""The contract of everybody who proposes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from telic.search.history import History
from telic.search.records import Call, Candidate
from telic.search.rollouts import Recording


class View(NamedTuple):
    """What is known when something is to be proposed."""

    history: History
    iteration: int
    iterations: int
    """how many there will be in all, as far as is known"""
    seed: int
    """of the run"""
    run: int


class Draft(NamedTuple):
    """A policy to try."""

    params: tuple[float, ...]
    origin: str
    explanation: str = ""
    warnings: tuple[str, ...] = ()


class Proposed(NamedTuple):
    """What was proposed, and what it took."""

    drafts: list[Draft]
    calls: tuple[Call, ...] = ()
    note: str | None = None


class Proposer(Protocol):
    """Makes candidates; a pure function of its seed and of what it was told, so runs can resume."""

    name: str
    needs_transitions: bool
    """whether `observe` must be given the recorded steps of the episodes"""

    @property
    def at_once(self) -> int:
        """How many candidates the next proposal will have."""
        ...

    def propose(self, view: View) -> Proposed:
        """Return one or more candidates."""
        ...

    def observe(self, candidates: Sequence[Candidate], recording: Recording | None) -> None:
        """Learn how the candidates of the latest proposal did, in order."""
        ...

    def replay(
        self, view: View, candidates: Sequence[Candidate], recording: Recording | None
    ) -> None:
        """Come to the state after an iteration that is on disk, without asking anybody."""
        ...
