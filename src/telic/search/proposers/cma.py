"""CMA-ES, by the package `cma` of its authors."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from telic.search.draws import Floats, generator
from telic.search.proposers.numeric import drafts
from telic.search.proposers.proposer import Proposed, View
from telic.search.records import Candidate
from telic.search.rollouts import Recording
from telic.search.space import Space

_MOST_DOUBLINGS = 3


class Cma:
    """A population around a mean; begins at zero, and anew with twice as many when it is stuck."""

    name = "cma"
    needs_transitions = False

    def __init__(self, space: Space, seed: int) -> None:
        self._space, self._seed = space, seed
        self._half = (space.high - space.low) / 2
        self._restarts = self._doublings = 0
        self._best, self._worst = -np.inf, np.inf
        self._begin(np.full(space.rank, (space.low + space.high) / 2))

    @property
    def at_once(self) -> int:
        """Return the size of the population."""
        return self._strategy.popsize

    def propose(self, view: View) -> Proposed:
        """Sample the population."""
        self._sample(view.iteration)
        return Proposed(drafts(self._space, self._asked, self.name))

    def inject(self, points: Sequence[Floats]) -> None:
        """Let the next population contain these points, as they are."""
        inside = [np.clip(p, self._space.low + 1e-6, self._space.high - 1e-6) for p in points]
        self._strategy.inject(inside, force=True)

    def observe(self, candidates: Sequence[Candidate], recording: Recording | None) -> None:
        """Move towards the better half."""
        means = [each.mean for each in candidates]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about flat returns, which are handled below
            self._strategy.tell(self._asked, [-each for each in means])
            is_stuck = bool(self._strategy.stop())
        self._best, self._worst = max(self._best, *means), min(self._worst, *means)
        # Most of them as good as the best ever: this is the top, unless all were ever equal.
        is_at_top = float(np.median(means)) >= self._best > self._worst
        if is_stuck and not is_at_top:
            self._restarts += 1
            # More of the same helps against a rugged landscape, not where there is none yet.
            self._doublings += self._best > self._worst
            rng = generator(self._seed, "restart", self._restarts)
            self._begin(rng.uniform(-0.5, 0.5, self._space.rank) * self._half)

    def replay(
        self, view: View, candidates: Sequence[Candidate], recording: Recording | None
    ) -> None:
        """Sample the same population again."""
        self._sample(view.iteration)
        self.observe(candidates, recording)

    def _sample(self, iteration: int) -> None:
        self._random = generator(self._seed, self.name, iteration)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._asked: list[Floats] = self._strategy.ask()

    def _begin(self, centre: Floats) -> None:
        size = 4 + int(3 * np.log(self._space.rank))
        options: dict[str, Any] = {
            "bounds": [self._space.low, self._space.high],
            "popsize": size * 2 ** min(self._doublings, _MOST_DOUBLINGS),
            "randn": lambda *shape: self._random.standard_normal(shape),
            "seed": np.nan,  # numbers come from `randn` alone
            "verbose": -9,
            "verb_log": 0,
        }
        self._random = generator(self._seed, self.name, "begin", self._restarts)
        self._strategy = _library().CMAEvolutionStrategy(centre, self._half / 3, options)


def _library() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it would like to plot
        import cma
    return cma
