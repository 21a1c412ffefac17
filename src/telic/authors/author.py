"""Interface for authors of criteria, rewards and judges.

`author_for` selects the composer, a plugin, or a model (including a host that answers work orders).
This module must not import packages that load slowly.
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
from telic.judges.criteria import Composition, CoveredPhrase, Criterion
from telic.judges.validation import failure, try_out
from telic.judges.verdict import Verdict
from telic.storage.layout import SessionFolder

if TYPE_CHECKING:
    from telic.composer.reference import Reference
    from telic.envs.spec import EnvSpec
    from telic.judges.validation import JudgeValidation


class MeasurableIntent(Event):
    """Intent in measurable form, as criteria and interpretations."""

    NAME = "session.asked"

    schema_version: int = 1
    criteria: tuple[Criterion, ...]
    doubts: tuple[str, ...] = ()
    """ambiguities of the intent and their chosen interpretations"""
    not_understood: tuple[str, ...] = ()
    """words of the intent that no criterion measures"""
    dropped: tuple[str, ...] = ()
    """numbers and modifiers that were understood but are not part of any criterion"""
    covered: tuple[CoveredPhrase, ...] = ()
    """words with the criteria that cover them, or empty if unknown"""

    @classmethod
    def of(cls, made: Composition) -> MeasurableIntent:
        """Return the measurable intent of a composition."""
        fields = ("criteria", "doubts", "not_understood", "dropped", "covered")
        return cls(**{name: getattr(made, name) for name in fields})


_OWN = ("composer", "host", "model")
"""reserved names that author plugins must not use"""


@dataclass(frozen=True, slots=True)
class Brief:
    """Request to an author, with its inputs."""

    config: SessionConfig
    """session configuration, with intent, environment, criteria, models and limits"""
    spec: EnvSpec
    """specification of the environment and its measurable quantities"""
    folder: SessionFolder
    """session folder"""
    reference: Reference | None = None
    """reference motion that the composer's reward tracks, if any"""
    emit: Listener = ignore
    """listener for events of model calls"""
    should_stop: Callable[[], bool] = lambda: False
    """function called while waiting for a model; returns True to stop waiting"""


class Author(Protocol):
    """Author of criteria, rewards and judges. The methods are called in the order shown here.

    By default, findings are not used, verdicts are kept, and no analysis is written.
    """

    def read(self) -> MeasurableIntent:
        """Return measurable criteria for the intent."""
        ...

    def write(self, wanted: MeasurableIntent) -> Composition:
        """Write a reward and an independent judge."""
        ...

    def review(
        self, written: Composition, trial: JudgeValidation, may_rewrite: bool = True
    ) -> Composition | None:
        """Fix problems found by review or validation, or return None if no change is needed."""
        return None

    def revise(self, history: list[SessionIteration], notes: Sequence[str]) -> RewardCandidate:
        """Return the next candidate. `notes` are feedback from the user."""
        ...

    def watch(self, episodes: list[Path], verdicts: list[Verdict]) -> list[Verdict]:
        """Watch episodes of a policy and return verdicts fused with those of the code judge."""
        return verdicts

    def analyze(
        self, history: list[SessionIteration], outcome: str = "", reasons: Sequence[str] = ()
    ) -> None:
        """Write an analysis of the session for its report, given the outcome and its reasons."""
        return None


def try_written(brief: Brief, written: Composition, *, is_probed: bool = False) -> JudgeValidation:
    """Validate a reward and a judge on reference episodes and record errors in the result.

    If `is_probed` is true and the author is a model, untrained policies and mutants are judged too.
    """
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
    """Return the composer's interpretation of an intent, or None if it is incomplete."""
    from telic.composer.compose import compose

    try:
        made = compose(intent, spec)
    except TelicError:
        return None
    return None if made.not_understood else made


def author_for(brief: Brief) -> Author:
    """Return the composer, a plugin author or a model author (including host) for a brief."""
    model = brief.config.model
    if model is None:
        from telic.authors.composer import ComposerAuthor

        return ComposerAuthor(brief)
    make = None if model in _OWN else load_plugin("authors", model, _OWN)
    if make is not None:
        return make(brief)
    from telic.authors._cast import connect_models
    from telic.authors._model import ModelAuthor

    return ModelAuthor(connect_models(brief), brief)
