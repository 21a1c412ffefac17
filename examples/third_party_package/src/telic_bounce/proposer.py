"""Proposer plugin "halving": sample policies ever closer to the best one so far."""

import numpy as np

from telic.search.proposers import PolicyProposal, Proposer, drafts


class Halving(Proposer):
    """Sample around the incumbent within a range that halves every few iterations."""

    name = "halving"
    at_once = 4

    def __init__(self, task, family, seed):
        self._family, self._seed = family, seed

    def propose(self, view):
        """Return four policies as a function of seed and iteration, so that runs can be resumed."""
        rng = np.random.default_rng([self._seed, view.iteration])
        space, best = self._family.space, view.history.incumbent
        if best is None or space.is_table:
            points = [self._family.draw(rng) for _ in range(self.at_once)]
        else:
            width = (space.high - space.low) / 2 ** (1 + view.iteration // 3)
            points = [
                np.array(best.params) + rng.uniform(-width, width, space.rank)
                for _ in range(self.at_once)
            ]
        return PolicyProposal(drafts(space, points, self.name))
