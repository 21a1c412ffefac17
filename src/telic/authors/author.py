"""The interface of an author of criteria, rewards and judges.

The composer, a model, and a host that answers work orders implement it; `author_for` chooses among
them. Importing this module loads nothing heavy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from telic.authors.candidate import RewardCandidate, SessionIteration
from telic.authors.request import SessionConfig
from telic.core.events import Event, Listener, ignore
from telic.core.plugins import load_plugin
from telic.errors import TelicError
from telic.judges.criteria import Composition, Covered, Criterion
from telic.judges.verdict import Verdict
from telic.storage.layout import SessionFolder

if TYPE_CHECKING:
    from telic.composer.reference import Reference
    from telic.envs.spec import EnvSpec
    from telic.judges.validation import Trial


class MeasurableIntent(Event):
    """An intent as measurable criteria."""

    NAME = "session.asked"

    schema_version: int = 1
    criteria: tuple[Criterion, ...]
    doubts: tuple[str, ...] = ()
    """ambiguities of the intent, and how they were taken"""
    not_understood: tuple[str, ...] = ()
    """words of the intent that no criterion measures"""
    dropped: tuple[str, ...] = ()
    """numbers and modifiers that were read and that no criterion contains"""
    covered: tuple[Covered, ...] = ()
    """which criteria cover which words; empty: unknown"""

    @classmethod
    def of(cls, made: Composition) -> MeasurableIntent:
        """Return the intent of a composition."""
        fields = ("criteria", "doubts", "not_understood", "dropped", "covered")
        return cls(**{name: getattr(made, name) for name in fields})


_OWN = ("composer", "host", "model")
"""names that no package may give to its author"""


@dataclass(frozen=True, slots=True)
class Brief:
    """The request to an author, and its readable inputs."""

    config: SessionConfig
    """the request: intent, environment, criteria, models and limits"""
    spec: EnvSpec
    """the robot, and what can be measured on it"""
    folder: SessionFolder
    """the session's files"""
    reference: Reference | None = None
    """the motion that the composer's reward follows; None: words alone"""
    emit: Listener = ignore
    """listener of events of model calls"""
    should_stop: Callable[[], bool] = lambda: False
    """polled while waiting for a model"""


class Author(Protocol):
    """An author of criteria, rewards and judges; its methods are called in this order."""

    def read(self) -> MeasurableIntent:
        """Return measurable criteria of the intent."""
        ...

    def write(self, wanted: MeasurableIntent) -> Composition:
        """Write a reward and, independently of it, a judge."""
        ...

    def review(
        self, written: Composition, trial: Trial, may_rewrite: bool = True
    ) -> Composition | None:
        """Fix what a review or the validation found, and keep objections; None: nothing to do."""
        ...

    def revise(self, history: list[SessionIteration], notes: Sequence[str]) -> RewardCandidate:
        """Return the next proposal; notes are feedback from people."""
        ...

    def watch(self, episodes: list[Path], verdicts: list[Verdict]) -> list[Verdict]:
        """Watch episodes of a policy that code has judged; return fused verdicts."""
        ...

    def analyse(
        self, history: list[SessionIteration], outcome: str = "", reasons: Sequence[str] = ()
    ) -> None:
        """Write an analysis of the session for its report, which has this outcome."""
        ...


def try_written(brief: Brief, written: Composition, *, is_probed: bool = False) -> Trial:
    """Validate a reward and a judge on reference episodes; an error becomes part of the result.

    `is_probed`: judge policies that learned nothing and mutants, too, where a model is the author.
    """
    from telic.judges.validation import failure, try_out

    is_own = brief.config.model is None
    second = None if is_own else second_reading(brief.config.intent, brief.spec)
    try:
        return try_out(
            brief.config.env,
            written,
            brief.config.threshold,
            brief.folder.path / "trial",
            second,
            is_probed=is_probed and not is_own,
        )
    except TelicError as error:
        return failure(error)


def second_reading(intent: str, spec: EnvSpec) -> Composition | None:
    """Return an intent as the composer reads all of its words; None where it cannot."""
    from telic.composer.compose import compose

    try:
        made = compose(intent, spec)
    except TelicError:
        return None
    return None if made.not_understood else made


def author_for(brief: Brief) -> Author:
    """Return the composer, the author of a package, or a model (a host is one, too)."""
    model = brief.config.model
    if model is None:
        from telic.authors.composer import ComposerAuthor

        return ComposerAuthor(brief)
    make = None if model in _OWN else load_plugin("authors", model, _OWN)
    if make is not None:
        return make(brief)
    from telic.authors._cast import connect_cast
    from telic.authors._model import ModelAuthor

    return ModelAuthor(connect_cast(brief), brief)
