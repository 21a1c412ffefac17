"""Learn from a batch: digest it, then update; on a GPU as one recording."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from telic.training.experience import digest
from telic.training.population import Population
from telic.training.replayed import Replayed
from telic.training.rollout import Batch
from telic.training.update import UpdateStats, update


class Learner:
    """Improves a population batch by batch."""

    def __init__(self, population: Population) -> None:
        self.population = population
        self._replayed = Replayed(self._follow, [], population.device)
        self._batch: Batch | None = None
        self._orders = torch.empty(0)

    def learn(self, batch: Batch, iteration: int) -> tuple[UpdateStats, Tensor]:
        """Learn from a batch; returns diagnostics and the explained variance, (P,).

        On a GPU, returns before it is done; the batch must lie where the first one did.
        """
        samples = batch.rewards[:, 0].numel()
        orders = self.population.orders(iteration, samples)
        if self.population.device.type == "cpu":
            return self._learn(batch, orders)
        assert isinstance(orders, Tensor)
        if self._batch is None:
            self._batch, self._orders = batch, orders
        else:
            self._orders.copy_(orders)
        return self._replayed()

    def _follow(self) -> tuple[UpdateStats, Tensor]:
        assert self._batch is not None
        return self._learn(self._batch, self._orders)

    def _learn(self, batch: Batch, orders: Iterable[Tensor]) -> tuple[UpdateStats, Tensor]:
        experience = digest(self.population, batch)
        stats = update(self.population, batch.actor, experience.samples, orders)
        return stats, experience.explained_variance
