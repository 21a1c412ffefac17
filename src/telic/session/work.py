"""What every step of a session works with, and how a step is taken only once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from telic.composer.compose import Composition
from telic.core.config import Record
from telic.core.events import Listener
from telic.envs.spec import EnvSpec
from telic.judges.criteria import Criterion
from telic.judges.trial import Trial
from telic.judges.verdict import Verdict
from telic.session.control import Steering
from telic.session.records import Candidate, Iteration, SessionConfig
from telic.storage.files import read_record, write_json
from telic.storage.layout import SessionFolder

Made = TypeVar("Made", bound=Record)


class Asked(Record):
    """What an intent asks for."""

    schema_version: int = 1
    criteria: tuple[Criterion, ...]
    doubts: tuple[str, ...] = ()
    not_understood: tuple[str, ...] = ()


class Author(Protocol):
    """Who writes criteria, rewards and judges, and revises them: the composer, or a model."""

    def ask(self) -> Asked:
        """Read the intent: what must be measurable for it to be fulfilled?"""
        ...

    def write(self, asked: Asked) -> Composition:
        """Write a reward and, apart from it, a judge."""
        ...

    def improve(self, written: Composition, trial: Trial) -> Composition | None:
        """Mend what a review or the examples showed to be wrong; None: nothing to be done."""
        ...

    def revise(self, history: list[Iteration], notes: tuple[str, ...]) -> Candidate:
        """Return what to try next."""
        ...

    def watch(self, episodes: list[Path], verdicts: list[Verdict]) -> list[Verdict]:
        """Look at episodes of a policy that code has judged; return what both together say."""
        ...

    def analyse(self, history: list[Iteration]) -> None:
        """Say in words what the session found, for its report."""
        ...


@dataclass(frozen=True, slots=True)
class Work:
    """One session under way."""

    config: SessionConfig
    folder: SessionFolder
    spec: EnvSpec
    author: Author
    steering: Steering
    tell: Listener


def once(path: Path, kind: type[Made], make: Callable[[], Made]) -> Made:
    """Return the record of a step that was finished before, or take the step and record it."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, make())
    return read_record(path, kind)
