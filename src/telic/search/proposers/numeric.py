"""Proposers that never ask a model: random, hill climbing, ARS."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from telic.search.draws import Floats, generator
from telic.search.policies import Policy
from telic.search.proposers.proposer import Draft, Proposed, View
from telic.search.records import Candidate
from telic.search.rollouts import Recording
from telic.search.space import Space

_RANDOM_AT_ONCE = 10
_STEPS_AT_ONCE = 4


def drafts(space: Space, points: Sequence[Floats], origin: str) -> list[Draft]:
    """Return points as candidates within the bounds."""
    return [Draft(space.fit(each, is_rounded=False).params, origin) for each in points]


class Stateless:
    """What proposers share that look at the history only."""

    needs_transitions = False

    def observe(self, candidates: Sequence[Candidate], recording: Recording | None) -> None:
        """Learn nothing: the history knows."""

    def replay(
        self, view: View, candidates: Sequence[Candidate], recording: Recording | None
    ) -> None:
        """Do nothing: the history knows."""


class Random(Stateless):
    """Draws policies from the family's own distribution."""

    name = "random"
    at_once = _RANDOM_AT_ONCE

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def propose(self, view: View) -> Proposed:
        """Draw."""
        rng = generator(view.seed, self.name, view.iteration)
        points = [self._policy.draw(rng) for _ in range(self.at_once)]
        return Proposed(drafts(self._policy.space, points, self.name))


class Climb(Stateless):
    """Changes some numbers of the best policy so far, by small and by large amounts."""

    name = "climb"

    def __init__(self, policy: Policy, count: int = _STEPS_AT_ONCE) -> None:
        self._policy, self.at_once = policy, count

    def propose(self, view: View) -> Proposed:
        """Step away from the incumbent."""
        rng = generator(view.seed, self.name, view.iteration)
        best = view.history.incumbent
        space = self._policy.space
        points = [
            self._policy.draw(rng) if best is None else _neighbour(space, best.params, rng)
            for _ in range(self.at_once)
        ]
        return Proposed(drafts(space, points, self.name))


def _neighbour(space: Space, params: tuple[float, ...], rng: np.random.Generator) -> Floats:
    point = np.array(params)
    share = rng.uniform(1.0 / space.rank, 1.0)
    chosen = rng.random(space.rank) < share
    chosen[rng.integers(space.rank)] = True
    if space.choices is not None:
        # A table has no small steps, so change few of its entries.
        few = rng.permutation(space.rank)[: 1 + rng.integers(2)]
        point[few] = rng.choice(np.array(space.choices, dtype=np.float64), len(few))
        return point
    half = (space.high - space.low) / 2
    size = half * 10.0 ** rng.uniform(-2.0, -0.3)
    return point + chosen * rng.normal(0.0, size, space.rank)


class Ars:
    """Augmented random search (Mania, Guy, Recht, 2018): follow the best of random directions."""

    name = "ars"
    needs_transitions = False

    def __init__(self, space: Space, seed: int) -> None:
        self._space, self._seed = space, seed
        self._centre = np.zeros(space.rank)
        half = (space.high - space.low) / 2
        self._spread, self._rate = half / 6, half / 6
        self._count = max(4, round(2 + 1.5 * np.log(space.rank)))
        self.at_once = 2 * self._count
        self._directions = np.empty((0, space.rank))

    def propose(self, view: View) -> Proposed:
        """Look both ways along random directions."""
        rng = generator(self._seed, self.name, view.iteration)
        self._directions = rng.normal(size=(self._count, self._space.rank))
        steps = self._spread * self._directions
        points = [*(self._centre + steps), *(self._centre - steps)]
        return Proposed(drafts(self._space, points, self.name))

    def observe(self, candidates: Sequence[Candidate], recording: Recording | None) -> None:
        """Move along the directions that mattered most."""
        means = np.array([each.mean for each in candidates])
        ahead, behind = means[: self._count], means[self._count :]
        top = np.argsort(np.maximum(ahead, behind))[-max(2, self._count // 2) :]
        spread = np.concatenate((ahead[top], behind[top])).std()
        if spread > 0:
            gain = ((ahead[top] - behind[top])[:, None] * self._directions[top]).mean(0)
            # theta <- theta + rate / sigma_R * mean((r+ - r-) delta)
            self._centre = self._centre + self._rate / spread * gain
        self._centre = np.clip(self._centre, self._space.low, self._space.high)

    def replay(
        self, view: View, candidates: Sequence[Candidate], recording: Recording | None
    ) -> None:
        """Draw the same directions again."""
        self.propose(view)
        self.observe(candidates, recording)
