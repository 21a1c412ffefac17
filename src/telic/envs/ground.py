"""The ground below a robot: what a task tells of it, and who starts where on it."""

from __future__ import annotations

import torch
from torch import Tensor

from telic.core.tensors import norm
from telic.robots.terrain import COLUMNS, FIELD_M, ROWS, TO_TOP_M, Terrain

_ARRIVED = 0.75
"""of the way up, from which on an episode is done with its field"""
HEIGHT, STEP = "ground_height", "ground_step"
"""infos"""
MEANINGS = {
    HEIGHT: "height of the ground below the base, m",
    STEP: "of the field the base is over: height of a step of its stairs, rise of its slope for "
    "each metre, or its highest lump, m; 0 on flat ground",
}


class GroundBelow:
    """The height of the ground, and the size of its fields, at places: what a judge measures."""

    def __init__(self, board: Terrain, like: Tensor) -> None:
        self._heights = like.new_tensor(board.heights).flatten()
        self._sizes = like.new_tensor(board.sizes).flatten()
        self._points = board.heights.shape

    def height(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the height of the ground, m, level between its four nearest points by share."""
        rows, columns = self._points
        # MuJoCo puts the first and the last point on the edges of the board.
        across = (x / (ROWS * FIELD_M) + 0.5) * (columns - 1)
        along = (y / (COLUMNS * FIELD_M) + 0.5) * (rows - 1)
        left = across.floor().clamp(0, columns - 2)
        near = along.floor().clamp(0, rows - 2)
        share, part = (across - left).clamp(0, 1), (along - near).clamp(0, 1)
        first = near.long() * columns + left.long()
        low = torch.lerp(self._heights[first], self._heights[first + 1], share)
        high = torch.lerp(self._heights[first + columns], self._heights[first + columns + 1], share)
        on_board = (across >= 0) & (across <= columns - 1) & (along >= 0) & (along <= rows - 1)
        return torch.lerp(low, high, part) * on_board

    def size(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the size of what the field at a place is made of, m: see `Terrain.sizes`."""
        row = (x / FIELD_M + ROWS / 2.0).floor().clamp(0, ROWS - 1).long()
        column = (y / FIELD_M + COLUMNS / 2.0).floor().clamp(0, COLUMNS - 1).long()
        return self._sizes[row * COLUMNS + column]


class Board:
    """The fields of a ground: who begins where, by how the last episode went."""

    def __init__(self, board: Terrain, like: Tensor, starts_at_foot: bool) -> None:
        self.below = GroundBelow(board, like)
        self._at_foot = starts_at_foot
        self._starts = like.new_tensor(board.feet if starts_at_foot else board.starts)

    def next_row(self, row: Tensor, origin: Tensor, place: Tensor, chance: Tensor) -> Tensor:
        """Return the row of fields to start on: the first is any, later ones go by the last.

        Who got half a field away, or from the foot to the top, goes on to a harder one, who hardly
        moved to an easier one, and who is through with the hardest to any.

        Args:
            row: of the last episode, (N,); negative: there was none.
            origin: where it began, (N, 2).
            place: where it ended, (N, 2).
            chance: (N,) in [0, 1).
        """
        made = (place - origin)[:, 0] if self._at_foot else norm(place - origin)
        enough = _ARRIVED * TO_TOP_M if self._at_foot else FIELD_M / 2.0
        harder = (made > enough).to(row.dtype) - (made < FIELD_M / 8.0).to(row.dtype)
        later = (row + harder).clamp_min(0.0)
        return torch.where((row < 0.0) | (later >= ROWS), (chance * ROWS).floor(), later)

    def start(self, row: Tensor, chance: Tensor) -> Tensor:
        """Return where to start on a field of a row, (N, 3)."""
        return self._starts[row.long(), (chance * COLUMNS).long()]
