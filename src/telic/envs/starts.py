"""Initial states drawn ahead of time."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

_AHEAD = 16  # episodes of every environment that one draw provides for

_FORESEEN = 4

Draw = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


class Starts:
    """Serve initial states from blocks of future episodes.

    A draw is a hundred small operations, dear when a few episodes end at every step. It is a
    pure function of (seed, episode), so it may as well be made for many episodes at once.
    """

    def __init__(self, draw: Draw, seed: Tensor) -> None:
        """Draw by `draw(seed, episode) -> (qpos, qvel)` for environments of these seeds, (N,)."""
        self._draw = draw
        self._seed = seed
        # Row i of the batch has rows i * _AHEAD and on of the block.
        self._end = (torch.arange(len(seed), device=seed.device) + 1) * _AHEAD
        self._offset = self._end  # (N,) of an episode's number to its row in the block
        self._sizes = [0, 0]
        self._block = torch.empty(0)

    def at(self, episode: Tensor) -> tuple[Tensor, Tensor]:
        """Return qpos, (N, nq), and qvel, (N, nv), that these episodes start in.

        Each environment's episodes must be asked for in order.
        """
        row = episode + self._offset
        if bool((row >= self._end).any()):
            row = self._refill(episode)
        qpos, qvel = self._block.index_select(0, row).split(self._sizes, dim=1)
        return qpos, qvel

    def _refill(self, episode: Tensor) -> Tensor:
        """Draw these and the following episodes; return the rows of these."""
        episodes = episode[:, None] + torch.arange(_AHEAD)
        state = self._draw(self._seed.repeat_interleave(_AHEAD), episodes.flatten())
        self._sizes = [part.shape[1] for part in state]
        self._block = torch.cat(state, dim=1)
        self._offset = self._end - _AHEAD - episode
        return episode + self._offset


class EachTime:
    """Draw the starts of every environment whenever some of them begin: nothing to look into."""

    def __init__(self, draw: Draw, seed: Tensor) -> None:
        """Draw as `Starts` does."""
        self._draw = draw
        self._seed = seed

    def at(self, episode: Tensor) -> tuple[Tensor, Tensor]:
        """Return qpos and qvel that these episodes start in."""
        return self._draw(self._seed, episode)


class Foreseen:
    """The starts of each environment's next few episodes, for a stretch of steps on a GPU."""

    def __init__(self, draw: Draw, seed: Tensor, episode: Tensor) -> None:
        """Draw the episodes that follow `episode`, (N,)."""
        self._first = episode + 1
        self._rows = torch.arange(len(seed), device=seed.device) * _FORESEEN
        episodes = self._first[:, None] + torch.arange(_FORESEEN, device=seed.device)
        state = draw(seed.repeat_interleave(_FORESEEN), episodes.flatten())
        self._sizes = [part.shape[1] for part in state]
        self._block = torch.cat(state, dim=1)

    def at(self, episode: Tensor) -> tuple[Tensor, Tensor]:
        """Return qpos and qvel that these episodes start in."""
        which = (episode - self._first).clamp_(0, _FORESEEN - 1)
        qpos, qvel = self._block.index_select(0, self._rows + which).split(self._sizes, dim=1)
        return qpos, qvel
