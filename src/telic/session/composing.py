"""The composer as a session's author: no model, no eyes, the same answer every time."""

from __future__ import annotations

from pathlib import Path

from telic.composer.compose import Composition, compose
from telic.envs.spec import EnvSpec
from telic.judges.trial import Trial
from telic.judges.verdict import Verdict
from telic.session.records import Candidate, Iteration, SessionConfig
from telic.session.revise import revise
from telic.session.weights import weights_in
from telic.session.work import Asked
from telic.storage.files import read_record
from telic.storage.layout import SessionFolder
from telic.training.presets import steps_factor


class ComposerAuthor:
    """Writes by rules; see `telic.composer`."""

    def __init__(self, config: SessionConfig, folder: SessionFolder, spec: EnvSpec) -> None:
        self._config = config
        self._folder = folder
        self._spec = spec

    def ask(self) -> Asked:
        """Read the intent by the composer's grammar."""
        made = compose(self._config.intent, self._spec, self._config.criteria)
        return Asked(criteria=made.criteria, doubts=made.doubts, not_understood=made.not_understood)

    def write(self, asked: Asked) -> Composition:
        """Write both files from the words and the agreed criteria."""
        made = compose(self._config.intent, self._spec, asked.criteria)
        steps = made.steps * steps_factor(self._config.device)
        return made.model_copy(update={"steps": steps})

    def improve(self, written: Composition, trial: Trial) -> Composition | None:
        """Rules do not change by being told; what the trial found stands in the report."""
        return None

    def revise(self, history: list[Iteration], notes: tuple[str, ...]) -> Candidate:
        """Search the weights; words of people are not read between iterations."""
        candidates = {
            each.number: read_record(self._folder.iteration(each.number).candidate, Candidate)
            for each in history
        }
        made = revise(history, candidates, weights_in(candidates[history[-1].number].reward))
        if not notes:
            return made
        unread = f"{made.change} (the composer cannot read notes: {'; '.join(notes)})"
        return made.model_copy(update={"change": unread})

    def watch(self, episodes: list[Path], verdicts: list[Verdict]) -> list[Verdict]:
        """It has no eyes: what code says stands."""
        return verdicts

    def analyse(self, history: list[Iteration]) -> None:
        """It has no words beyond the report's own."""
