"""Initial states drawn ahead of time."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

_AHEAD = 16  # episodes of every environment that one draw provides for

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
        self._rows = torch.arange(len(seed), device=seed.device)
        self._first: Tensor | None = None  # (N,) the episode each row's block begins with

    def at(self, episode: Tensor) -> tuple[Tensor, Tensor]:
        """Return initial qpos and qvel of the given episode of each environment, (N, nq), (N, nv)."""
        if episode.device.type != "cpu":  # looking into a block would wait for the device
            return self._draw(self._seed, episode)
        if self._first is None or bool((episode >= self._first + _AHEAD).any()):
            self._first = episode.clone()
            episodes = self._first[:, None] + torch.arange(_AHEAD)
            qpos, qvel = self._draw(self._seed.repeat_interleave(_AHEAD), episodes.flatten())
            self._qpos = qpos.unflatten(0, (-1, _AHEAD))
            self._qvel = qvel.unflatten(0, (-1, _AHEAD))
        place = episode - self._first
        return self._qpos[self._rows, place], self._qvel[self._rows, place]
