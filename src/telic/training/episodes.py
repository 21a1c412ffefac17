"""Returns, lengths and term sums of the episodes that end during training."""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

import torch
from torch import Tensor

from telic.training.rollout import Batch

_RECENT = 20


class Episode(NamedTuple):
    """A finished training episode."""

    total: float
    length: int
    terms: tuple[float, ...]


class EpisodeTracker:
    """Carries unfinished episodes from batch to batch and remembers each member's latest ones."""

    def __init__(self, members: int, num_envs: int, terms: int, device: torch.device | str) -> None:
        # columns: return, length, then each term
        self._carry = torch.zeros(members, num_envs, 2 + terms, dtype=torch.float64, device=device)
        self.recent: list[deque[Episode]] = [deque(maxlen=_RECENT) for _ in range(members)]
        self.finished = [0] * members

    def update(self, batch: Batch) -> list[int]:
        """Take in a batch; returns how many episodes ended per member."""
        ones = torch.ones_like(batch.rewards)
        parts = torch.cat((torch.stack((batch.rewards, ones), dim=-1), batch.terms), dim=-1)
        sums = parts.double().cumsum(0) + self._carry  # (T, P, n, k)
        steps = torch.arange(len(sums), device=sums.device).view(-1, 1, 1)
        ends = torch.where(batch.done, steps, -1).cummax(0).values  # latest end so far
        before = torch.cat((torch.full_like(ends[:1], -1), ends[:-1]))
        episodes = sums - _at(sums, before)
        self._carry = sums[-1] - _at(sums, ends[-1:])[0]
        where = batch.done.transpose(0, 1).nonzero()  # by member, then time
        finished = episodes[where[:, 1], where[:, 0], where[:, 2]]
        for member, row in zip(where[:, 0].tolist(), finished.tolist(), strict=True):
            self.recent[member].append(Episode(row[0], round(row[1]), tuple(row[2:])))
        ended: list[int] = batch.done.sum(dim=(0, 2)).tolist()
        self.finished = [a + b for a, b in zip(self.finished, ended, strict=True)]
        return ended

    def state_dict(self) -> dict[str, Any]:
        """Return unfinished and recent episodes."""
        rows = [
            [(each.total, each.length, *each.terms) for each in member] for member in self.recent
        ]
        return {"carry": self._carry, "recent": rows, "finished": self.finished}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put them back."""
        self._carry = state["carry"].clone()
        self.finished = list(state["finished"])
        for member, rows in zip(self.recent, state["recent"], strict=True):
            member.clear()
            member.extend(Episode(row[0], int(row[1]), tuple(row[2:])) for row in rows)


def _at(sums: Tensor, index: Tensor) -> Tensor:
    """Return `sums` at a time index per environment, zero where the index is -1."""
    picked = sums.gather(0, index.clamp_min(0).unsqueeze(-1).expand(*index.shape, sums.shape[-1]))
    return torch.where((index >= 0).unsqueeze(-1), picked, 0.0)
