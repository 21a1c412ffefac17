"""An optimiser whose population a language model adds a candidate to."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from telic.search.proposers.cma import Cma
from telic.search.proposers.model import Model
from telic.search.proposers.proposer import Proposed, View
from telic.search.proposers.tabular import Tabular
from telic.search.records import Candidate
from telic.search.rollouts import Recording

_ASKED = ("llm", "fallback:climb")


class Hybrid:
    """CMA-ES with the model's candidates injected; beside a learned model where it is a table."""

    name = "hybrid"

    def __init__(self, model: Model, numeric: Cma | Tabular) -> None:
        self.model, self._numeric = model, numeric
        self.needs_transitions = numeric.needs_transitions

    @property
    def at_once(self) -> int:
        """Return the size of the population, the model's candidates included."""
        own = self._numeric.at_once
        return own if isinstance(self._numeric, Cma) else own + self.model.at_once

    def propose(self, view: View) -> Proposed:
        """Ask the model, then the optimiser; each candidate says who made it."""
        asked = self.model.propose(view)
        self._inject([np.array(each.params) for each in asked.drafts])
        own = self._numeric.propose(view).drafts
        count = len(asked.drafts) if isinstance(self._numeric, Cma) else 0
        return Proposed([*asked.drafts, *own[count:]], asked.calls, asked.note)

    def observe(self, candidates: Sequence[Candidate], recording: Recording | None) -> None:
        """Let the optimiser learn from everybody's candidates."""
        self._numeric.observe(candidates, recording)

    def replay(
        self, view: View, candidates: Sequence[Candidate], recording: Recording | None
    ) -> None:
        """Inject what the model said then."""
        self._inject([np.array(each.params) for each in candidates if each.origin in _ASKED])
        self._numeric.replay(view, candidates, recording)

    def _inject(self, points: list[np.ndarray]) -> None:
        if isinstance(self._numeric, Cma):
            self._numeric.inject(points)
