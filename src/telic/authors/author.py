"""The contract of an author: who makes an intent measurable, writes for it, and revises.

A session asks its author, in this order:

    read      what must be measurable for the intent to be fulfilled?
    write     a reward and, apart from it, a judge
    review    after both were tried on examples: mend what is wrong
    revise    after policies were trained and judged: what to try next
    watch     look at episodes that code has judged: some that pass, one that fails
    analyse   say in words what the session found

The composer, a model and a host that answers work orders stand behind it side by side; `author_for`
chooses among them. Importing this module loads nothing heavy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from telic.authors.candidate import RewardCandidate, SessionIteration
from telic.authors.request import SessionConfig
from telic.core.events import Event, Listener, ignore
from telic.core.plugins import load_plugin
from telic.errors import TelicError
from telic.judges.criteria import Composition, Covered, Criterion
from telic.judges.verdict import Verdict
from telic.storage.layout import SessionFolder

if TYPE_CHECKING:
    from telic.authors.composer import TriedReward
    from telic.composer.reference import Reference
    from telic.envs.spec import EnvSpec
    from telic.judges.validation import Trial


class MeasurableIntent(Event):
    """What an intent asks for."""

    NAME = "session.asked"

    schema_version: int = 1
    criteria: tuple[Criterion, ...]
    doubts: tuple[str, ...] = ()
    """what the words left open, and how it was taken"""
    not_understood: tuple[str, ...] = ()
    """words of the intent that nothing was made of"""
    dropped: tuple[str, ...] = ()
    """numbers and modifiers that were read and that no criterion carries"""
    covered: tuple[Covered, ...] = ()
    """which criteria carry which words; empty: its author does not say"""


_OWN = ("composer", "host", "model")
"""names that no package may give to an author"""


def _never() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Brief:
    """What an author is asked for, and what it may look at."""

    config: SessionConfig
    """the request: intent, environment, criteria, models and limits"""
    spec: EnvSpec
    """the robot: what it has, what can be measured on it"""
    folder: SessionFolder
    """the session's files: what was tried, and room for the author's own"""
    reference: Reference | None = None
    """the motion that the composer's reward follows; None: words alone"""
    emit: Listener = ignore
    """hears the events of model calls"""
    should_stop: Callable[[], bool] = _never
    """polled while a model is waited for"""


class Author(Protocol):
    """Who writes criteria, rewards and judges, and revises them."""

    def read(self) -> MeasurableIntent:
        """Read the intent: what must be measurable for it to be fulfilled?"""
        ...

    def write(self, wanted: MeasurableIntent) -> Composition:
        """Write a reward and, apart from it, a judge."""
        ...

    def review(self, written: Composition, trial: Trial) -> Composition | None:
        """Mend what a review or the examples showed to be wrong; None: nothing to be done."""
        ...

    def revise(self, history: list[SessionIteration], notes: Sequence[str]) -> RewardCandidate:
        """Return what to try next; notes are feedback from people."""
        ...

    def watch(self, episodes: list[Path], verdicts: list[Verdict]) -> list[Verdict]:
        """Look at episodes of a policy that code has judged; return what both together say."""
        ...

    def analyse(self, history: list[SessionIteration]) -> None:
        """Say in words what the session found, for its report."""
        ...


@runtime_checkable
class StructureAuthor(Protocol):
    """An author that can offer rewards of another structure for the same intent."""

    def first_structures(self, written: Composition) -> Sequence[TriedReward]:
        """Return other rewards, each tried on the examples that the first one was tried on."""
        ...


def try_written(brief: Brief, written: Composition) -> Trial:
    """Try a reward and a judge on examples; what cannot even be run is a trial that says why."""
    from telic.judges.validation import failure, try_out

    try:
        return try_out(
            brief.config.env,
            written.env_args,
            written.reward,
            written.judge,
            written.motions,
            written.fine,
            brief.config.threshold,
            brief.folder.path / "trial",
            written.criteria,
            written.shown,
        )
    except TelicError as error:
        return failure(error)


def author_for(brief: Brief) -> Author:
    """Return the composer, the author that a package brings, or a model within its budget.

    A host is a model that answers work orders instead of calls, and needs no author of its own.
    """
    model = brief.config.model
    if model is None:
        from telic.authors.composer import ComposerAuthor

        return ComposerAuthor(brief)
    make = None if model in _OWN else load_plugin("authors", model, _OWN)
    if make is not None:
        return make(brief)
    from telic.authors.cast import connect_cast
    from telic.authors.model import ModelAuthor

    return ModelAuthor(connect_cast(brief), brief)
