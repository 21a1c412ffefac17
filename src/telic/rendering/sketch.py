"""Draw episodes without a MuJoCo model as charts, and robots in a terminal.

A chart shows the recorded observations over time, by name, with the future greyed out.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw

from telic.storage.trajectories import Trajectory

_WIDTH, _HEIGHT = 480, 360
_PAPER, _INK = (28, 34, 42), (235, 238, 240)
_BLUE, _ORANGE, _GREEN = (64, 140, 214), (242, 130, 60), (88, 176, 116)
_MOST_ROWS = 8
_NAME_WIDTH = 132


class Sketcher:
    """Draws the rows of one episode."""

    def __init__(self, trajectory: Trajectory) -> None:
        seen = np.asarray(trajectory["next_obs"], dtype=float)
        self._last = max(len(seen) - 1, 1)
        self._chart = _chart(seen, trajectory.facts.obs_names)

    def paint(self, row: int) -> np.ndarray:
        """Return a new (H, W, 3) uint8 picture."""
        picture = self._chart.copy()
        now = _NAME_WIDTH + row * (_WIDTH - _NAME_WIDTH - 9) // self._last
        picture[:, now + 1 :] = picture[:, now + 1 :] * 0.35 + 0.65 * np.array(_PAPER)
        picture[:, now] = _INK
        return picture


def _chart(seen: np.ndarray, names: Sequence[str]) -> np.ndarray:
    """Return the first few observations that change, over the whole episode, one band each."""
    moving = np.flatnonzero(np.nan_to_num(np.ptp(seen, axis=0)) > 1e-9).tolist()
    columns = (moving or list(range(seen.shape[1])))[:_MOST_ROWS]
    image = Image.new("RGB", (_WIDTH, _HEIGHT), _PAPER)
    draw = ImageDraw.Draw(image)
    band = (_HEIGHT - 24) // max(len(columns), 1)
    for place, column in enumerate(columns):
        track = np.nan_to_num(seen[:, column])
        low, high = float(track.min()), float(track.max())
        top = 4 + place * band
        draw.text((6, top), (names[column] if column < len(names) else f"obs[{column}]")[:20], _INK)
        if band > 34:
            draw.text((6, top + 16), f"{low:.3g} .. {high:.3g}", _INK)
        xs = np.linspace(_NAME_WIDTH, _WIDTH - 9, len(track))
        ys = top + band - 6 - (track - low) / max(high - low, 1e-9) * (band - 10)
        colour = (_BLUE, _ORANGE, _GREEN)[place % 3]
        draw.line(list(zip(xs.tolist(), ys.tolist(), strict=True)), colour, 2)
    return np.array(image)
